//! Holds on a workspace: the same locks as the native provider's, and the jobs that outlive their callers.
//!
//! A job has no process that could share its caller's lock. Beside each slot lies the name of the job that had it last; whoever
//! takes the slot looks whether that job still goes on. Only the holder of a slot writes or removes its note.
use super::record::{is_absent, write_private};
use super::settle::{Known, look};
use crate::native::hold::{lock, take_slots};
use crate::native::home::Home;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{Hold, ProviderError, Slots};
use bailiwick_contract::time::Timestamp;
use std::any::Any;
use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Locked slots.
#[derive(Debug)]
pub(super) struct FakeHold {
    dir: PathBuf,
    slots: Vec<(u64, OwnedFd)>,
    /// The directories of the jobs that were run under it: who shares the workspace sees that their caller is alive.
    jobs: RefCell<Vec<OwnedFd>>,
}

impl Hold for FakeHold {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FakeHold {
    /// Returns the hold that this provider made.
    pub(super) fn of(hold: &dyn Hold) -> Option<&Self> {
        hold.as_any().downcast_ref()
    }

    /// Locks the directory of a job for as long as the hold lasts, and notes the job beside the slot that it has.
    pub(super) fn keep(&self, job: &JobId, dir: &Path) -> io::Result<()> {
        self.jobs.borrow_mut().extend(lock(dir, 0)?);
        let Some((slot, _)) = self.slots.first() else { return Ok(()) };
        write_private(&note(&self.dir, *slot), job.as_str().as_bytes())
    }
}

/// Takes one slot, or all, without waiting.
pub(super) fn take(
    home: &Home,
    id: &WorkspaceId,
    slots: Slots,
    now: Timestamp,
) -> Result<Option<Box<dyn Hold>>, ProviderError> {
    let dir = home.workspace(id);
    let one = |slot| Ok(take_one(home, &dir, slot, now)?.map(|file| (slot, file)));
    let slots = take_slots(home, id, slots, &one)?;
    Ok(slots
        .map(|slots| Box::new(FakeHold { dir, slots, jobs: RefCell::default() }) as Box<dyn Hold>))
}

fn take_one(home: &Home, dir: &Path, slot: u64, now: Timestamp) -> io::Result<Option<OwnedFd>> {
    let Some(file) = lock(dir, slot)? else { return Ok(None) };
    let Some(job) = noted(&note(dir, slot))? else { return Ok(Some(file)) };
    if matches!(look(home, &job, now)?, Known::Alive { .. }) {
        return Ok(None);
    }
    fs::remove_file(note(dir, slot))?;
    Ok(Some(file))
}

/// Lists the jobs that had a slot of a workspace last.
pub(super) fn jobs_of(home: &Home, id: &WorkspaceId) -> io::Result<Vec<JobId>> {
    let dir = home.workspace(id);
    let entries = match fs::read_dir(&dir) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let mut jobs = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let slot = name.to_str().and_then(|name| name.strip_prefix(NOTE)?.parse().ok());
        if let Some(slot) = slot {
            jobs.extend(noted(&note(&dir, slot))?);
        }
    }
    Ok(jobs)
}

const NOTE: &str = "job.";

fn note(dir: &Path, slot: u64) -> PathBuf {
    dir.join(format!("{NOTE}{slot}"))
}

fn noted(path: &Path) -> io::Result<Option<JobId>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(JobId::parse(&text).ok()),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}
