//! Runs and launches jobs, ends them, and finds them again.
//!
//! A job is let go by writing down when. From then on it needs nobody: a caller only waits for the time to pass, and one that is
//! killed, or never waited, changes nothing.
use super::course::{End, Stop, Work, after};
use super::hold::FakeHold;
use super::record::JobDir;
use super::script::{Given, Rule};
use super::settle::{Known, look, look_locked};
use super::{Fake, output};
use crate::native::files::open_tree;
use crate::native::hold::is_kept;
use crate::native::{cwd, stdin, trouble};
use bailiwick_contract::context::{CancelToken, OpCx};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus, Observed, Reason, Stdin};
use bailiwick_contract::provider::{ByteSink, Ports, ProviderError, Recovered, StopReply};
use bailiwick_contract::time::Timestamp;
use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read as _};
use std::time::Duration;

/// How often somebody who waits looks whether the job was stopped, or he was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The grace of a job whose caller was cancelled: that of `stop`.
const CANCEL_GRACE_US: u64 = 2_000_000;

/// The most that a job that prints its standard input reads of it.
const STDIN_BYTES_MAX: u64 = 64 << 20;

/// Runs a job to its end.
pub(super) fn run(
    fake: &Fake,
    id: &WorkspaceId,
    job: &JobSpec,
    mut ports: Ports<'_>,
    cx: &OpCx<'_>,
) -> Result<JobOutcome, ProviderError> {
    let (dir, work, started) = start(fake, id, job, &mut ports, cx)?;
    let let_go = dir.set_started(started);
    let waited = let_go.and_then(|()| wait(fake, job, &dir, ports.live.take(), cx));
    Ok(waited.unwrap_or_else(|error| broken(&dir, &work, started, cx.clock.now(), &error)))
}

/// Lets a job go.
pub(super) fn launch(
    fake: &Fake,
    id: &WorkspaceId,
    job: &JobSpec,
    mut ports: Ports<'_>,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let (dir, work, started) = start(fake, id, job, &mut ports, cx)?;
    if let Err(error) = dir.set_started(started) {
        broken(&dir, &work, started, cx.clock.now(), &error);
    }
    Ok(())
}

/// Prepares a job and opens its gate; what it would take to let it go is one more file.
fn start(
    fake: &Fake,
    id: &WorkspaceId,
    job: &JobSpec,
    ports: &mut Ports<'_>,
    cx: &OpCx<'_>,
) -> Result<(JobDir, Work, Timestamp), ProviderError> {
    let rule = fake.script()?.of(&job.argv);
    // The workspace has to be there in any case.
    drop(open_tree(&fake.home, id)?);
    job.cwd.as_ref().map_or(Ok(()), |path| cwd::check(&fake.home, id, path))?;
    let rule = resolve(rule, job)?;
    let budget = job.policy.policy.budget.clone();
    let work = Work { workspace: id.clone(), cwd: job.cwd.clone(), budget, rule };
    let dir = JobDir::at(fake.home.job(&job.id));
    dir.make().map_err(trouble::on("make the job's directory", dir.path()))?;
    let prepared = FakeHold::of(ports.hold)
        .map_or(Ok(()), |hold| hold.keep(&job.id, dir.path()))
        .and_then(|()| dir.set_work(&work));
    if let Err(error) = prepared {
        discard(&dir);
        return Err(trouble::on("prepare the job in", dir.path())(error));
    }
    if let Err(error) = ports.gate.open() {
        discard(&dir);
        return Err(ProviderError::Gate(error));
    }
    Ok((dir, work, cx.clock.now()))
}

/// Nothing ran, so nothing of the job is worth keeping; what cannot be removed says that it was never let go.
fn discard(dir: &JobDir) {
    dir.remove().ok();
}

/// Puts what the job was given into what it prints.
fn resolve(rule: Rule, job: &JobSpec) -> Result<Rule, ProviderError> {
    let stdin = read_stdin(&job.stdin, rule.reads_stdin())?;
    let env = |name: &str| {
        let found = job.env.iter().find(|variable| variable.name == name);
        found.map(|variable| variable.value.expose().to_vec()).unwrap_or_default()
    };
    let cwd = Work::cwd(job.cwd.as_ref());
    let given = Given { stdin: &stdin, cwd: cwd.as_bytes(), argv: &job.argv, env: &env };
    rule.resolve(&given).map_err(|why| {
        trouble::named("could not say what the job prints".into(), io::Error::other(why))
    })
}

/// Reads what the job would; what cannot be opened is told also where the job does not read.
fn read_stdin(stdin: &Stdin, wanted: bool) -> Result<Vec<u8>, ProviderError> {
    let mut bytes = Vec::new();
    let Some(file) = stdin::open(stdin)?.filter(|_| wanted) else { return Ok(bytes) };
    let failed = |error| trouble::named("could not read the job's standard input".into(), error);
    // Opened so that it cannot block; here is nothing else to do than to wait.
    let flags = rustix::fs::fcntl_getfl(&file).map_err(|error| failed(error.into()))?;
    if matches!(stdin, Stdin::File(_)) {
        let blocking = flags.difference(OFlags::NONBLOCK);
        rustix::fs::fcntl_setfl(&file, blocking).map_err(|error| failed(error.into()))?;
    }
    File::from(file).take(STDIN_BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Waits for the end, gives what is printed meanwhile, and passes a cancellation on.
fn wait(
    fake: &Fake,
    job: &JobSpec,
    dir: &JobDir,
    mut live: Option<&mut dyn ByteSink>,
    cx: &OpCx<'_>,
) -> io::Result<JobOutcome> {
    let (mut from, mut cancelled) = (0, false);
    loop {
        let known = look(&fake.home, &job.id, cx.clock.now())?;
        if let Some(sink) = live.take() {
            // Its error ends the giving, never the job.
            if let Ok(followed) =
                output::follow(&known, from, sink, &never_cancelled(cx), cx.clock.now())
            {
                from = followed.next;
                live = Some(sink);
            }
        }
        match known {
            Known::Ended { outcome, .. } => return Ok(*outcome),
            Known::Alive { work, started } => {
                if cx.cancel.is_cancelled() && !cancelled {
                    cancelled = true;
                    ask(fake, &job.id, CANCEL_GRACE_US, cx)?;
                    continue;
                }
                let due = after(started, work.due(started, dir.stop()?.as_ref()));
                sleep_until(due, cx);
            }
            Known::Nothing | Known::Waiting => return Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// What is printed is given also to a caller who was cancelled: he waits for the end all the same.
fn never_cancelled<'a>(cx: &OpCx<'a>) -> OpCx<'a> {
    static NEVER: CancelToken = CancelToken::new();
    OpCx { cancel: &NEVER, deadline: None, ..*cx }
}

fn sleep_until(due: Timestamp, cx: &OpCx<'_>) {
    let left = due.as_micros().saturating_sub(cx.clock.now().as_micros());
    cx.clock.sleep(Duration::from_micros(left.max(1)).min(LOOK_EVERY));
}

/// What comes of a job whose record cannot be written or read any more: the gate was opened, so that it is an outcome.
fn broken(
    dir: &JobDir,
    work: &Work,
    started: Timestamp,
    now: Timestamp,
    error: &io::Error,
) -> JobOutcome {
    let after_us = now.as_micros().saturating_sub(started.as_micros());
    let end = End { after_us, observed: Observed::default(), own: false };
    let mut outcome = work.outcome(started, &end, 0);
    outcome.status = JobStatus::InfrastructureFailure;
    outcome.reason = Some(Reason::SetupFailed);
    outcome.detail = Some(format!("the job's record cannot be kept: {error}"));
    // Where that cannot be written either, the job reads as never started.
    dir.set_outcome(&outcome).ok();
    outcome
}

/// Says that a job is to end; returns whether it was still going on.
fn ask(fake: &Fake, job: &JobId, grace_us: u64, cx: &OpCx<'_>) -> io::Result<bool> {
    let dir = JobDir::at(fake.home.job(job));
    let Some(lock) = dir.lock()? else { return Ok(false) };
    let now = cx.clock.now();
    let alive = matches!(look_locked(&fake.home, &dir, now)?, Known::Alive { .. });
    if alive {
        dir.set_stop(Stop { at: now, kill_at: after(now, grace_us) })?;
    }
    drop(lock);
    Ok(alive)
}

/// Ends a job and waits for its outcome.
pub(super) fn stop(
    fake: &Fake,
    job: &JobId,
    grace: Duration,
    cx: &OpCx<'_>,
) -> Result<StopReply, ProviderError> {
    let path = fake.home.job(job);
    let failed = |error| trouble::on("stop the job in", &path)(error);
    let grace_us = u64::try_from(grace.as_micros()).unwrap_or(u64::MAX);
    if !ask(fake, job, grace_us, cx).map_err(failed)? {
        return Ok(StopReply::NotRunning);
    }
    let dir = JobDir::at(path.clone());
    loop {
        let known = look(&fake.home, job, cx.clock.now()).map_err(failed)?;
        let Known::Alive { work, started } = known else { return Ok(StopReply::Stopped) };
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        let stop = dir.stop().map_err(failed)?;
        sleep_until(after(started, work.due(started, stop.as_ref())), cx);
    }
}

/// Finds out what became of a job.
pub(super) fn recover(fake: &Fake, job: &JobId, cx: &OpCx<'_>) -> Result<Recovered, ProviderError> {
    let path = fake.home.job(job);
    let failed = |error| trouble::on("look for the job in", &path)(error);
    // First: a caller that is alive records the outcome itself.
    if is_kept(&path).map_err(failed)? {
        return Ok(Recovered::Alive);
    }
    let known = look(&fake.home, job, cx.clock.now()).map_err(failed)?;
    Ok(match known {
        Known::Alive { .. } => Recovered::Alive,
        Known::Ended { outcome, .. } => Recovered::Ended(outcome),
        Known::Waiting => Recovered::NeverStarted,
        // Killed before it had said what the job does.
        Known::Nothing if path.is_dir() => Recovered::NeverStarted,
        Known::Nothing => Recovered::Lost,
    })
}
