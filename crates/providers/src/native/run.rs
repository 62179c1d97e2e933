//! Runs a job: the conversation with its supervisor.
//!
//! The supervisor sets the sandbox up while the caller makes its intent durable; the payload waits at the gate for that. Once
//! the gate is open, whatever goes wrong is an outcome.
use super::hold::NativeHold;
use super::home::make_private;
use super::stop::{read_outcome, reserve_outcome};
use super::{Native, cwd, disks, host, host_path, output, stdin, trouble};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::{CancelToken, OpCx};
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus, OutputFacts, Reason, Usage};
use bailiwick_contract::provider::{ByteSink, Gate, Hold, Ports, ProviderError};
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::plan::{Plan, plan};
use bailiwick_isolation::record::OutcomeFile;
use bailiwick_isolation::remains::{group_name, sweep};
use bailiwick_isolation::skeleton;
use bailiwick_isolation::spawn::Supervisor;
use bailiwick_isolation::spec::SandboxSpec;
use bailiwick_isolation::wire::{
    Frame, FrameReader, Reply, Request, WIRE_VERSION, send, send_with,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a waiting caller looks whether it was cancelled.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How often output is given to a caller that reads along.
const GIVE_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The grace of a job whose caller was cancelled: that of `stop`.
const CANCEL_GRACE_MS: u64 = 2_000;

/// How long after its wall clock a job may still be without an outcome: a stopped supervisor never answers, and its init has
/// ended the job by then.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// How long a launched job's supervisor is waited for; a slow one goes on all the same.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// Runs a job to its end.
pub(super) fn run(
    native: &Native,
    id: &WorkspaceId,
    job: &JobSpec,
    ports: &mut Ports<'_>,
    cx: &OpCx<'_>,
) -> Result<JobOutcome, ProviderError> {
    let mut supervisor = bring_to_gate(native, id, job, ports.hold, ports.gate)?;
    let opened_at = cx.clock.now();
    // A supervisor that is gone is noticed by the end of its socket.
    send(supervisor.as_fd(), &Request::Go { alone: false }).ok();
    let patience = Duration::from_millis(job.policy.policy.budget.wall_clock_ms);
    let deadline = cx.clock.monotonic().saturating_add(patience).saturating_add(GIVE_UP_AFTER);
    let mut live = Live { dir: native.home.job(&job.id), next: 0, sink: ports.live.take() };
    let said = converse(&mut supervisor, deadline, &mut live, cx);
    live.give(cx);
    let outcome = match said {
        Some(Reply::Ended(outcome)) => *outcome,
        Some(Reply::SetupFailed { detail }) => {
            super::stop::sweep(&native.home, &job.id);
            broken(Reason::SetupFailed, Some(detail), opened_at, cx)
        }
        Some(Reply::LetGo) | None => {
            // It was started by us, so wait can only fail when somebody else reaped it.
            supervisor.reap().ok();
            sweep(&native.facts()?.cgroup, &group_name(native.home.path(), &job.id));
            let outcome = left(native, job, opened_at, cx);
            super::stop::sweep(&native.home, &job.id);
            return Ok(outcome);
        }
    };
    native.finish(supervisor);
    Ok(outcome)
}

/// Lets a job go; its supervisor lives on without this process.
pub(super) fn launch(
    native: &Native,
    id: &WorkspaceId,
    job: &JobSpec,
    ports: &mut Ports<'_>,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let supervisor = bring_to_gate(native, id, job, ports.hold, ports.gate)?;
    let opened_at = cx.clock.now();
    // One that is gone is found lost.
    send(supervisor.as_fd(), &Request::Go { alone: true }).ok();
    if let Some(Reply::SetupFailed { detail }) = first_word(&supervisor, LET_GO_WITHIN, cx) {
        // It speaks of that to whoever waits and leaves the record to them; here nobody waits.
        let outcome = Box::new(broken(Reason::SetupFailed, Some(detail), opened_at, cx));
        let output_budget = job.policy.policy.budget.output_bytes;
        record(&native.home.job(&job.id), &OutcomeFile::Ended { outcome, output_budget });
    }
    native.finish(supervisor);
    Ok(())
}

/// A record that cannot be written is left out: the job is found lost then, which is true as well.
fn record(dir: &Path, outcome: &OutcomeFile) {
    let draft = dir.join("outcome.new");
    let written = serde_json::to_vec(outcome)
        .map_err(std::io::Error::from)
        .and_then(|bytes| std::fs::write(&draft, bytes));
    if written.is_ok() {
        std::fs::rename(&draft, dir.join("outcome")).ok();
    }
}

/// Has a sandbox set up for the job and its intent made durable; the payload waits.
fn bring_to_gate(
    native: &Native,
    id: &WorkspaceId,
    job: &JobSpec,
    hold: &dyn Hold,
    gate: &mut dyn Gate,
) -> Result<Supervisor, ProviderError> {
    let dir = native.home.job(&job.id);
    let plan = prepare(native, id, job, &dir)?;
    let input = stdin::open(&job.stdin)?;
    make_private(&dir).map_err(trouble::on("make the job's directory", &dir))?;
    let shared = NativeHold::of(hold).map_or_else(|| Ok(Vec::new()), |hold| hold.keep(&dir));
    let shared = shared.map_err(trouble::on("lock the job's directory", &dir))?;
    let started = start(native, plan, &shared, input.as_ref());
    let supervisor = started.inspect_err(|_| discard(&dir))?;
    // While the sandbox is set up, and before anybody is told that the job is on its way.
    let reserved = reserve_outcome(&dir).map_err(trouble::on("make room for the outcome in", &dir));
    let opened = reserved.and_then(|()| gate.open().map_err(ProviderError::Gate));
    if let Err(error) = opened {
        // The supervisor sees its caller go before the gate was opened, and kills what it prepared.
        supervisor.reap().ok();
        discard(&dir);
        return Err(error);
    }
    Ok(supervisor)
}

/// Nothing ran, so nothing of the job is worth keeping; what cannot be removed is empty.
fn discard(dir: &Path) {
    bailiwick_isolation::disk::remove(dir).ok();
}

fn prepare(
    native: &Native,
    id: &WorkspaceId,
    job: &JobSpec,
    dir: &Path,
) -> Result<Plan, ProviderError> {
    let facts = native.facts()?;
    if !disks::is_present(&native.home, id)? {
        return Err(ProviderError::NoWorkspace { id: id.clone() });
    }
    if let Some(cwd) = &job.cwd {
        cwd::check(&native.home, id, cwd)?;
    }
    let skeleton = skeleton::current(&native.home.skeleton(), facts)
        .map_err(trouble::on("build the root of sandboxes in", &native.home.skeleton()))?;
    let spec = SandboxSpec {
        job: job.id.clone(),
        group: group_name(native.home.path(), &job.id),
        disk: bytes(&native.home.tree(id)),
        job_dir: bytes(dir),
        argv: job.argv.clone(),
        env: job.env.clone(),
        cwd: job.cwd.clone(),
        policy: job.policy.clone(),
        host_paths: host_path::look_up(&native.home, facts, &job.policy.policy)?,
    };
    plan(&spec, facts, &skeleton).map_err(host_path::refused)
}

fn bytes(path: &Path) -> ByteString {
    path.as_os_str().as_bytes().into()
}

fn start(
    native: &Native,
    plan: Plan,
    shared: &[OwnedFd],
    input: Option<&OwnedFd>,
) -> Result<Supervisor, ProviderError> {
    let supervisor = native.supervisor()?;
    let files: Vec<_> = shared.iter().chain(input).map(AsFd::as_fd).collect();
    let (version, stdin) = (WIRE_VERSION, input.is_some());
    let request = Request::Start { version, stdin, plan: Box::new(plan) };
    send_with(supervisor.as_fd(), &request, &files)
        .map_err(|error| host::missing(&native.options.supervisor, &error))?;
    Ok(supervisor)
}

/// A token that nobody cancels.
static NEVER: CancelToken = CancelToken::new();

/// What a caller that reads along is given.
struct Live<'a> {
    dir: PathBuf,
    next: u64,
    /// None once it wants no more.
    sink: Option<&'a mut dyn ByteSink>,
}

impl Live<'_> {
    /// Gives what has arrived. Whatever goes wrong ends the giving, never the job: the output is there to be read later.
    fn give(&mut self, cx: &OpCx<'_>) {
        let Some(sink) = &mut self.sink else { return };
        // Also to a caller that was cancelled: it waits for the job's end all the same.
        let cx = OpCx { cancel: &NEVER, deadline: None, ..*cx };
        match output::follow(&self.dir, self.next, *sink, &cx) {
            Ok(followed) => self.next = followed.next,
            Err(_) => self.sink = None,
        }
    }

    const fn look_every(&self) -> &'static Timespec {
        if self.sink.is_some() { &GIVE_EVERY } else { &LOOK_EVERY }
    }
}

/// Waits for the supervisor's word; `None` when it is gone, or has been silent for so long that it was killed.
fn converse(
    supervisor: &mut Supervisor,
    deadline: Duration,
    live: &mut Live<'_>,
    cx: &OpCx<'_>,
) -> Option<Reply> {
    let mut reader = FrameReader::default();
    let mut cancelled = false;
    loop {
        // Before the look at the socket: a sink may take its time, and the answer be there long before it is asked for.
        let is_late = cx.clock.monotonic() > deadline;
        let mut polled = [PollFd::new(&*supervisor, PollFlags::IN)];
        match poll(&mut polled, Some(live.look_every())) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
        if is_late && polled[0].revents().is_empty() {
            supervisor.kill();
            return None;
        }
        live.give(cx);
        if cx.cancel.is_cancelled() && !cancelled {
            cancelled = true;
            send(supervisor.as_fd(), &Request::Stop { grace_ms: CANCEL_GRACE_MS }).ok();
        }
        if polled[0].revents().is_empty() {
            continue;
        }
        return match reader.next::<Reply>(supervisor.as_fd()) {
            Ok(Frame::Message(reply)) => Some(reply),
            Ok(Frame::Pending) => continue,
            Ok(Frame::Closed) | Err(_) => None,
        };
    }
}

/// Returns the supervisor's first word, if it comes in time.
fn first_word(supervisor: &Supervisor, patience: Duration, cx: &OpCx<'_>) -> Option<Reply> {
    let mut reader = FrameReader::default();
    let deadline = cx.clock.monotonic().saturating_add(patience);
    loop {
        let left = deadline.checked_sub(cx.clock.monotonic())?;
        let mut polled = [PollFd::new(supervisor, PollFlags::IN)];
        // A signal only makes the loop look sooner.
        poll(&mut polled, Some(&Timespec::try_from(left).ok()?)).ok();
        if polled[0].revents().is_empty() {
            continue;
        }
        match reader.next::<Reply>(supervisor.as_fd()) {
            Ok(Frame::Message(reply)) => return Some(reply),
            Ok(Frame::Pending) => {}
            Ok(Frame::Closed) | Err(_) => return None,
        }
    }
}

/// The supervisor was killed: either it had recorded the outcome before it could say it, or what it had captured until then is
/// all that there is.
fn left(native: &Native, job: &JobSpec, opened_at: Timestamp, cx: &OpCx<'_>) -> JobOutcome {
    let dir = native.home.job(&job.id);
    if let Ok(Some(OutcomeFile::Ended { outcome, .. })) = read_outcome(&dir) {
        return *outcome;
    }
    let mut outcome = broken(Reason::SupervisorLost, None, opened_at, cx);
    outcome.output = output::facts_of_lost(&dir);
    outcome
}

/// The sandbox broke after the gate was opened.
fn broken(
    reason: Reason,
    detail: Option<String>,
    opened_at: Timestamp,
    cx: &OpCx<'_>,
) -> JobOutcome {
    let finished_at = cx.clock.now();
    let wall_time_us = finished_at.as_micros().saturating_sub(opened_at.as_micros());
    JobOutcome {
        status: JobStatus::InfrastructureFailure,
        exit_status: None,
        signal: None,
        reason: Some(reason),
        detail,
        started_at: opened_at,
        finished_at,
        usage: Usage { wall_time_us, ..Usage::default() },
        output: OutputFacts::default(),
        quota_events: Vec::new(),
        checks: Vec::new(),
        measurements: Vec::new(),
    }
}

/// A job that printed nothing has nothing to keep once its outcome is in the store.
pub(super) fn tidy(dir: &Path, outcome: &JobOutcome) {
    if outcome.output.bytes > 0 {
        return;
    }
    // What stays is swept with the rest of the job, and harms nobody.
    std::fs::remove_file(dir.join("outcome")).ok();
    if std::fs::remove_dir(dir).is_err() {
        // The supervisor has hung up, but may not have removed its socket yet.
        std::fs::remove_file(dir.join("control.sock")).ok();
        std::fs::remove_dir(dir).ok();
    }
}
