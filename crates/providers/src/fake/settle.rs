//! Finds out what a job has come to, and lets its end happen: whoever looks first after it settles it, once for everybody.
//!
//! The end is decided, written down, brought to the disk and then recorded, each step such that a process that is killed in
//! between leaves it to the next one to do again.
use super::course::{End, Work};
use super::hold::jobs_of;
use super::land;
use super::record::{JobDir, Landing};
use crate::native::home::Home;
use crate::native::trouble;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::job::{JobOutcome, JobStatus, Reason};
use bailiwick_contract::provider::ProviderError;
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::disk;
use std::io;
use std::path::Path;

/// What is known of a job.
#[derive(Debug)]
pub(super) enum Known {
    /// There is no such job.
    Nothing,
    /// It was not let go.
    Waiting,
    /// It goes on.
    Alive { work: Work, started: Timestamp },
    /// It ended; what it does is gone only where its directory was damaged.
    Ended { outcome: Box<JobOutcome>, work: Option<Work> },
}

/// Finds out what a job has come to by `now`.
pub(super) fn look(home: &Home, job: &JobId, now: Timestamp) -> io::Result<Known> {
    let dir = JobDir::at(home.job(job));
    let Some(lock) = dir.lock()? else { return Ok(Known::Nothing) };
    let known = look_locked(home, &dir, now);
    drop(lock);
    known
}

/// The same for whoever has the lock of its record.
pub(super) fn look_locked(home: &Home, dir: &JobDir, now: Timestamp) -> io::Result<Known> {
    let work = dir.work()?;
    if let Some(outcome) = dir.outcome()? {
        return Ok(Known::Ended { outcome: Box::new(outcome), work });
    }
    let Some(work) = work else { return Ok(Known::Nothing) };
    let Some(started) = dir.started()? else { return Ok(Known::Waiting) };
    let stop = dir.stop()?;
    let Some(end) = work.end(started, stop.as_ref(), now) else {
        return Ok(Known::Alive { work, started });
    };
    let outcome = Box::new(settle(&home.tree(&work.workspace), dir, &work, started, end)?);
    dir.set_outcome(&outcome)?;
    Ok(Known::Ended { outcome, work: Some(work) })
}

/// Brings the end to the disk and returns what came of it.
fn settle(
    tree: &Path,
    dir: &JobDir,
    work: &Work,
    started: Timestamp,
    mut end: End,
) -> io::Result<JobOutcome> {
    let mut broken = None;
    if end.leaves_files() && !work.rule.files.is_empty() && tree.is_dir() {
        let landing = decided(tree, dir, work)?;
        if landing.over_storage || landing.over_inodes {
            end.over_disk(landing.over_storage, landing.over_inodes);
        }
        let entries = &work.rule.files[..landing.entries.min(work.rule.files.len())];
        broken = land::all(tree, dir.name(), work.cwd.as_ref(), entries).err();
    }
    let storage_bytes = disk::usage(tree).map_or(0, |usage| usage.bytes);
    let mut outcome = work.outcome(started, &end, storage_bytes);
    if let Some(detail) = broken {
        outcome.status = JobStatus::InfrastructureFailure;
        outcome.reason = Some(Reason::SetupFailed);
        outcome.detail = Some(detail);
    }
    Ok(outcome)
}

/// Decides, once, what fits on the disk.
fn decided(tree: &Path, dir: &JobDir, work: &Work) -> io::Result<Landing> {
    if let Some(landing) = dir.landing()? {
        return Ok(landing);
    }
    let landing = land::fitting(&disk::usage(tree)?, &work.budget, &work.rule.files);
    dir.set_landing(landing)?;
    Ok(landing)
}

/// Lets the jobs of a workspace that are over come to their end, before anybody looks at its disk.
pub(super) fn settle_all(
    home: &Home,
    id: &WorkspaceId,
    now: Timestamp,
) -> Result<(), ProviderError> {
    let settle = || -> io::Result<()> {
        for job in jobs_of(home, id)? {
            look(home, &job, now)?;
        }
        Ok(())
    };
    settle().map_err(trouble::on("settle the jobs in", &home.workspace(id)))
}
