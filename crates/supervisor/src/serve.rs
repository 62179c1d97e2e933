//! The life of one job, from the caller's first frame to the recorded outcome.
//!
//! One thread, one `poll`: the caller, those who ask to stop, init, its descriptor, both output pipes and the timers. A caller
//! that dies before the gate opens takes the sandbox with it; one that dies afterwards is not missed.
use crate::capture::Capture;
use crate::control::{self, Peer, Peers, Said};
use crate::memory::MemoryWatch;
use crate::outcome;
use crate::storage::StorageWatch;
use bailiwick_contract::job::{
    Basis, JobOutcome, JobStatus, Observed, QuotaEvent, Reason, Usage, judge,
};
use bailiwick_contract::policy::Limit;
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::cgroup::Counted;
use bailiwick_isolation::output::Stream;
use bailiwick_isolation::plan::Plan;
use bailiwick_isolation::record::OutcomeFile;
use bailiwick_isolation::sandbox::{InitEnd, Sandbox};
use bailiwick_isolation::wire::{
    Frame, FrameReader, FromInit, JobEnd, PayloadEnd, Reply, Request, WIRE_VERSION, send,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often a job is sampled (DESIGN §5, Labels).
const TICK: Duration = Duration::from_millis(20);

/// One read; the default pipe holds 64 KiB (pipe(7)).
const READ_BYTES: usize = 128 << 10;

/// What a pipe is widened to once a job turns out to print much: what any user may have (pipe(7)).
const PIPE_BYTES: usize = 1 << 20;

/// Output after which the pipes are widened.
const MUCH_OUTPUT_BYTES: u64 = 256 << 10;

/// Runs the job that standard input brings.
pub(crate) fn main() -> ExitCode {
    // A panic is a death like any other: the sandbox dies with this process, and the next verb says so.
    match std::panic::catch_unwind(serve) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(_) => std::process::abort(),
    }
}

fn serve() -> io::Result<()> {
    // At once: an interrupt that a terminal sends to the caller is the caller's to hand on.
    rustix::process::setsid()?;
    let (caller, mut reader) = take_caller()?;
    let Some(plan) = first_frame(&caller, &mut reader)? else { return Ok(()) };
    // Shared with the caller; the workspace stays held while either of us lives.
    let hold = reader.take_descriptors();
    rustix::process::chdir(plan.job_dir.as_bytes())?;
    let private: Vec<_> = hold.iter().map(AsFd::as_fd).chain([caller.as_fd()]).collect();
    let sandbox = match Sandbox::start(&plan, &private) {
        Ok(sandbox) => sandbox,
        Err(error) => {
            let detail = describe(&error);
            return send(caller.as_fd(), &Reply::SetupFailed { detail });
        }
    };
    let listener = control::open()?;
    rustix::io::ioctl_fionbio(&caller, true)?;
    let dir = openat(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let watch = StorageWatch::new(path(plan.disk.as_bytes()), &plan.watch);
    let mut job = Job {
        plan: &plan,
        sandbox,
        listener,
        caller: Some(Peer::caller(caller, reader)),
        peers: Peers::default(),
        capture: Capture::new(dir.as_fd(), plan.watch.output_bytes),
        storage: watch,
        memory: None,
        seen: Seen::default(),
        pipes_open: [true, true],
        buffer: vec![0; READ_BYTES],
    };
    job.run()?;
    job.settle(hold)
}

/// Moves the socket away from standard input, which the sandbox's init would inherit.
fn take_caller() -> io::Result<(OwnedFd, FrameReader)> {
    let caller = io::stdin().as_fd().try_clone_to_owned()?;
    let null = openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok((caller, FrameReader::default()))
}

fn first_frame(caller: &OwnedFd, reader: &mut FrameReader) -> io::Result<Option<Plan>> {
    match reader.next::<Request>(caller.as_fd()) {
        Ok(Frame::Message(Request::Start { version: WIRE_VERSION, plan })) => Ok(Some(*plan)),
        Ok(Frame::Closed) => Ok(None),
        _ => {
            let detail = "understand the caller: it is another version of bailiwick".to_owned();
            send(caller.as_fd(), &Reply::SetupFailed { detail })?;
            Ok(None)
        }
    }
}

fn describe(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the supervisor is the clock of a job")]
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// A job in flight.
struct Job<'a> {
    plan: &'a Plan,
    sandbox: Sandbox,
    listener: OwnedFd,
    caller: Option<Peer>,
    peers: Peers,
    capture: Capture<'a>,
    storage: StorageWatch,
    memory: Option<MemoryWatch>,
    seen: Seen,
    pipes_open: [bool; 2],
    buffer: Vec<u8>,
}

/// What has been seen so far.
#[derive(Default)]
struct Seen {
    started_at: Timestamp,
    /// When the gate was opened.
    began: Option<Instant>,
    /// When the wall clock ends the job; none before the gate, and none once it has.
    deadline: Option<Instant>,
    ended_at: Option<Instant>,
    end: Option<FromInit>,
    init_ended: bool,
    reaped: bool,
    kill_at: Option<Instant>,
    next_tick: Option<Instant>,
    observed: Observed,
    memory_bytes_max: u64,
    memory_overshoot: u64,
    storage_overshoot: u64,
    pids_met: bool,
    pipes_widened: bool,
}

impl Job<'_> {
    /// Goes on until the job's processes are gone and both pipes are empty.
    fn run(&mut self) -> io::Result<()> {
        while !(self.is_over() && self.pipes_open == [false, false]) {
            self.wait_and_act()?;
            self.check_timers();
        }
        // The end may be seen before the last word.
        self.hear_init();
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.seen.init_ended || matches!(self.seen.end, Some(FromInit::Ended(_)))
    }

    fn wait_and_act(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        // Output first, so that what a job printed is taken before it is known to have ended.
        for (index, stream) in [Stream::Out, Stream::Err].into_iter().enumerate() {
            if ready.streams[index] {
                self.read(stream)?;
            }
        }
        if ready.init {
            self.hear_init();
        }
        if ready.ended {
            self.seen.init_ended = true;
        }
        if ready.listener {
            self.peers.accept(self.listener.as_fd());
        }
        if ready.caller {
            self.hear_caller();
        }
        if let Some(grace_ms) = self.peers.hear_stop() {
            self.stop(grace_ms);
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Ready> {
        let sources = self.sources();
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
        let timeout = self.timeout().map(|left| Timespec::try_from(left).unwrap_or(LONG));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for ((source, _), polled) in sources.iter().zip(&polled) {
            if !polled.revents().is_empty() {
                ready.note(*source);
            }
        }
        Ok(ready)
    }

    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>)> {
        let mut sources = vec![(Source::Listener, self.listener.as_fd())];
        if self.pipes_open[0] {
            sources.push((Source::Stream(0), self.sandbox.stdout()));
        }
        if self.pipes_open[1] {
            sources.push((Source::Stream(1), self.sandbox.stderr()));
        }
        if !self.seen.init_ended {
            sources.push((Source::Ended, self.sandbox.pidfd()));
            sources.push((Source::Init, self.sandbox.socket()));
        }
        if let Some(caller) = &self.caller {
            sources.push((Source::Caller, caller.socket()));
        }
        sources.extend(self.peers.sockets().map(|socket| (Source::Peer, socket)));
        sources
    }

    /// Returns how long to wait at most.
    fn timeout(&self) -> Option<Duration> {
        let next = [self.seen.deadline, self.seen.kill_at, self.seen.next_tick];
        let next = next.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn read(&mut self, stream: Stream) -> io::Result<()> {
        let pipe = match stream {
            Stream::Out => self.sandbox.stdout(),
            Stream::Err => self.sandbox.stderr(),
        };
        match rustix::io::read(pipe, self.buffer.as_mut_slice()) {
            Ok(0) => self.pipes_open[stream as usize] = false,
            Ok(length) => self.capture.take(stream, &self.buffer[..length]),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !self.seen.pipes_widened && self.capture.produced() > MUCH_OUTPUT_BYTES {
            self.seen.pipes_widened = true;
            // A user over the limit for all pipes keeps the narrow ones.
            rustix::pipe::fcntl_setpipe_size(self.sandbox.stdout(), PIPE_BYTES).ok();
            rustix::pipe::fcntl_setpipe_size(self.sandbox.stderr(), PIPE_BYTES).ok();
        }
        Ok(())
    }

    fn hear_init(&mut self) {
        while let Some((message, descriptors)) = self.next_from_init() {
            match message {
                FromInit::Started => {
                    if self.plan.watch.memory_bytes.is_some() {
                        self.memory = MemoryWatch::new(descriptors);
                    }
                }
                end => {
                    self.seen.ended_at.get_or_insert_with(Instant::now);
                    self.seen.end.get_or_insert(end);
                }
            }
        }
    }

    /// Without waiting: the socket is asked only while it has something.
    fn next_from_init(&self) -> Option<(FromInit, Vec<OwnedFd>)> {
        let mut polled = [PollFd::from_borrowed_fd(self.sandbox.socket(), PollFlags::IN)];
        let ready = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let readable = ready.is_ok() && polled[0].revents().contains(PollFlags::IN);
        if readable { self.sandbox.receive().ok().flatten() } else { None }
    }

    fn hear_caller(&mut self) {
        while let Some(caller) = &mut self.caller {
            match caller.hear() {
                Said::Nothing => return,
                Said::Request(Request::Go) => self.go(),
                Said::Request(Request::Stop { grace_ms }) => self.stop(grace_ms),
                Said::Request(Request::Start { .. }) | Said::Gone => {
                    self.caller = None;
                    if !self.sandbox.has_gone() {
                        self.sandbox.kill();
                    }
                }
            }
        }
    }

    fn go(&mut self) {
        if !self.sandbox.has_gone() {
            let instant = Instant::now();
            self.seen.started_at = now();
            self.seen.began = Some(instant);
            // A wall clock beyond what a clock can hold never ends.
            let wall = Duration::from_millis(self.plan.watch.wall_clock_ms);
            self.seen.deadline = instant.checked_add(wall);
            self.seen.next_tick = Some(instant + TICK);
            self.sandbox.go();
        }
    }

    fn stop(&mut self, grace_ms: u64) {
        let kill_at = Instant::now() + Duration::from_millis(grace_ms);
        self.seen.observed.stopped = true;
        let sooner = self.seen.kill_at.is_none_or(|at| kill_at < at);
        if sooner {
            self.seen.kill_at = Some(kill_at);
            self.sandbox.terminate();
        }
    }

    fn check_timers(&mut self) {
        if self.is_over() {
            self.seen.next_tick = None;
            self.seen.kill_at = None;
            self.seen.deadline = None;
            return;
        }
        let instant = Instant::now();
        if self.seen.deadline.is_some_and(|deadline| instant >= deadline) {
            self.seen.observed.timed_out = true;
            self.sandbox.kill();
            // Asked once; what follows is the end of init.
            self.seen.deadline = None;
            self.seen.next_tick = None;
        }
        if self.seen.kill_at.is_some_and(|at| instant >= at) {
            self.sandbox.kill();
            self.seen.kill_at = None;
        }
        if self.seen.next_tick.is_some_and(|at| instant >= at) {
            self.seen.next_tick = Some(instant + TICK);
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.watch_memory();
        if let Some(over) = self.storage.tick() {
            match over.reason {
                Reason::Inodes => self.seen.observed.over_inodes = true,
                _ => self.seen.observed.over_storage = true,
            }
            self.seen.storage_overshoot = over.overshoot_bytes;
            self.sandbox.kill();
        }
    }

    fn watch_memory(&mut self) {
        let (Some(limit), Some(watch)) = (self.plan.watch.memory_bytes, &self.memory) else {
            return;
        };
        let sample = watch.sample();
        self.seen.memory_bytes_max = self.seen.memory_bytes_max.max(sample.bytes);
        // Init is one of the tasks, and no part of the limit.
        self.seen.pids_met |= self.plan.watch.pids.is_some_and(|limit| sample.tasks > limit);
        if sample.bytes > limit {
            self.seen.observed.over_memory = true;
            self.seen.memory_overshoot = sample.bytes - limit;
            self.sandbox.kill();
        }
    }

    /// Records the outcome, then says it.
    fn settle(mut self, hold: Vec<OwnedFd>) -> io::Result<()> {
        let reply = if self.seen.began.is_none() {
            self.never_started()?
        } else {
            let outcome = Box::new(self.outcome()?);
            let output_budget = self.plan.watch.output_bytes;
            outcome::record(&OutcomeFile::Ended { outcome: outcome.clone(), output_budget })?;
            Reply::Ended(outcome)
        };
        // Only init is left, on its way out: the caller may give the workspace to the next one.
        drop(hold);
        if let Some(caller) = &self.caller {
            caller.tell(&reply);
        }
        self.peers.accept(self.listener.as_fd());
        self.peers.hear_stop();
        self.peers.tell(&reply);
        if !self.seen.reaped {
            self.sandbox.end()?;
        }
        self.sandbox.remove_groups();
        // The directory may be gone with its workspace by now.
        std::fs::remove_file(control::CONTROL).ok();
        Ok(())
    }

    fn never_started(&self) -> io::Result<Reply> {
        let detail = match &self.seen.end {
            Some(FromInit::Failed { step, error }) => format!("{step}: {error}"),
            _ => "the caller went away before the job was let go".to_owned(),
        };
        if self.caller.is_none() {
            outcome::record(&OutcomeFile::NeverStarted { detail: detail.clone() })?;
        }
        Ok(Reply::SetupFailed { detail })
    }

    fn outcome(&mut self) -> io::Result<JobOutcome> {
        let counted = self.sandbox.counted().unwrap_or_default();
        let end = self.end()?;
        let detail = self.observe(&end);
        self.seen.observed.over_memory |= counted.oom_kills > 0;
        let disk = self.storage.measure();
        let usage = self.usage(&end, &counted, disk.bytes);
        let quota_events = self.quota_events(&counted, disk.bytes);
        let verdict = judge(&self.seen.observed);
        let (output, trouble) = self.capture.finish();
        let mut outcome = JobOutcome {
            status: verdict.status,
            exit_status: verdict.exit_status,
            signal: verdict.signal,
            reason: verdict.reason,
            detail: None,
            started_at: self.seen.started_at,
            finished_at: now(),
            usage,
            output,
            quota_events,
        };
        outcome.quota_events.extend(trouble.map(|detail| QuotaEvent {
            limit: Limit::OutputBytes,
            count: 1,
            detail,
        }));
        if let Some(detail) = detail {
            outcome.status = JobStatus::InfrastructureFailure;
            outcome.reason = Some(Reason::SetupFailed);
            outcome.detail = Some(detail);
        }
        Ok(outcome)
    }

    /// Returns the end as init told it; an init that was killed is reaped for what the kernel knows.
    fn end(&mut self) -> io::Result<End> {
        match self.seen.end.take() {
            Some(FromInit::Ended(end)) => Ok(End::Told(end)),
            Some(FromInit::Failed { step, error }) => Ok(End::Broken(format!("{step}: {error}"))),
            Some(FromInit::Started) | None => {
                self.seen.reaped = true;
                Ok(End::Killed(self.sandbox.end()?))
            }
        }
    }

    /// Takes the end into account; returns what broke, if the sandbox did.
    fn observe(&mut self, end: &End) -> Option<String> {
        let observed = &mut self.seen.observed;
        if let (End::Told(end), Some(limit)) = (end, self.plan.watch.pids) {
            self.seen.pids_met |= end.left_behind + 1 >= limit;
        }
        match end {
            End::Told(JobEnd { payload: PayloadEnd::Exited(code), .. }) => {
                observed.exit_code = Some((*code).into());
            }
            End::Told(JobEnd { payload: PayloadEnd::Killed(signal), .. }) => {
                observed.signal = Some(*signal);
            }
            End::Told(JobEnd { payload: PayloadEnd::Refused { found }, .. }) => {
                observed.refused = true;
                observed.exit_code = Some(if *found { 126 } else { 127 });
            }
            End::Told(JobEnd { payload: PayloadEnd::TimedOut, .. }) => observed.timed_out = true,
            End::Killed(init) => observed.signal = init.signal,
            End::Broken(detail) => return Some(detail.clone()),
        }
        // RLIMIT_FSIZE is the watch's backstop, so its signal says the same.
        observed.over_storage |= observed.signal == Some(SIGXFSZ);
        None
    }

    fn usage(&self, end: &End, counted: &Counted, storage_bytes: u64) -> Usage {
        let ended = self.seen.ended_at.unwrap_or_else(Instant::now);
        let wall =
            self.seen.began.map_or(Duration::ZERO, |began| ended.saturating_duration_since(began));
        let (memory_bytes_max, memory_basis) = match counted.memory_bytes_max {
            Some(bytes) => (bytes, Basis::Cgroup),
            None if self.seen.memory_bytes_max > 0 => (self.seen.memory_bytes_max, Basis::Watch),
            None => (end.resident_bytes_max(), Basis::Wait4),
        };
        let (cpu_us, cpu_basis) = match counted.cpu_us {
            Some(used) => (used, Basis::Cgroup),
            None => (end.cpu_us(), Basis::Wait4),
        };
        Usage {
            wall_time_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            cpu_us,
            cpu_basis,
            memory_bytes_max,
            memory_basis,
            storage_bytes,
            memory_overshoot_bytes: self.seen.memory_overshoot,
            storage_overshoot_bytes: self.seen.storage_overshoot,
        }
    }

    fn quota_events(&self, counted: &Counted, storage_bytes: u64) -> Vec<QuotaEvent> {
        let event = |limit, count, detail: &str| QuotaEvent { limit, count, detail: detail.into() };
        let mut events = Vec::new();
        if self.seen.pids_met {
            let detail = "the job had as many processes and threads as it may have";
            events.push(event(Limit::Pids, 1, detail));
        }
        if counted.oom_kills > 0 {
            let detail = "the kernel killed processes of the job for want of memory";
            events.push(event(Limit::Memory, counted.oom_kills, detail));
        }
        if counted.pids_refused > 0 {
            let detail = "the job was refused further processes (EAGAIN)";
            events.push(event(Limit::Pids, counted.pids_refused, detail));
        }
        let observed = &self.seen.observed;
        let over = storage_bytes > self.plan.watch.storage_bytes;
        if observed.over_storage || observed.over_inodes || over {
            let detail = "the workspace's disk went over its limit";
            events.push(event(Limit::Storage, 1, detail));
        }
        events
    }
}

/// How a job ended, and who says so.
enum End {
    /// Init.
    Told(JobEnd),
    /// The kernel: init was killed.
    Killed(InitEnd),
    /// A step of init's failed.
    Broken(String),
}

impl End {
    const fn cpu_us(&self) -> u64 {
        match self {
            Self::Told(end) => end.cpu_us,
            Self::Killed(init) => init.cpu_us,
            Self::Broken(_) => 0,
        }
    }

    const fn resident_bytes_max(&self) -> u64 {
        match self {
            Self::Told(end) => end.resident_bytes_max,
            Self::Killed(init) => init.resident_bytes_max,
            Self::Broken(_) => 0,
        }
    }
}

/// `SIGXFSZ` of x86-64 (signal(7)).
const SIGXFSZ: i32 = 25;

/// What `poll` waits for when a timeout is beyond what it takes.
const LONG: Timespec = Timespec { tv_sec: 3_600, tv_nsec: 0 };

/// What a descriptor stands for.
#[derive(Debug, Clone, Copy)]
enum Source {
    Listener,
    Stream(usize),
    Ended,
    Init,
    Caller,
    Peer,
}

/// What `poll` found.
#[derive(Debug, Default)]
struct Ready {
    listener: bool,
    streams: [bool; 2],
    ended: bool,
    init: bool,
    caller: bool,
}

impl Ready {
    fn note(&mut self, source: Source) {
        match source {
            Source::Listener => self.listener = true,
            Source::Stream(index) => self.streams[index] = true,
            Source::Ended => self.ended = true,
            Source::Init => self.init = true,
            Source::Caller => self.caller = true,
            // Peers are asked at every turn.
            Source::Peer => {}
        }
    }
}
