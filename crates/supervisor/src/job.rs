//! A job in flight: one thread, one `poll`.
//!
//! It listens to the caller, those who ask to stop, init, init's descriptor, both output pipes and the timers. A caller that
//! dies before the gate opens takes the sandbox with it; one that dies afterwards is not missed.
use crate::capture::Capture;
use crate::control::{Peer, Peers, Said};
use crate::input::Input;
use crate::memory::MemoryWatch;
use crate::storage::StorageWatch;
use bailiwick_contract::job::{Observed, Reason};
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::output::Stream;
use bailiwick_isolation::plan::Plan;
use bailiwick_isolation::sandbox::Sandbox;
use bailiwick_isolation::wire::{FrameReader, FromInit, Reply, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often a job is sampled: a sample takes some tens of microseconds, so this is well below 1 % of a processor.
const TICK: Duration = Duration::from_millis(20);

/// How long init may take to end the sandbox and to say what it used, before it is killed itself.
const INIT_ANSWERS_WITHIN: Duration = Duration::from_millis(100);

/// Reads of one pipe in a row, before others are listened to again: less than a millisecond.
const READS_MAX: usize = 256;

/// What a pipe holds at most: any user may widen it to that (pipe(7)).
const PIPE_BYTES: usize = 1 << 20;

/// Output in one go after which more is expected at once.
const MUCH_OUTPUT_BYTES: u64 = 32 << 10;

/// Looks for more of much output before it is waited for. Being woken costs a job that prints in small pieces more than the piece.
const LOOKS_MAX: u32 = 8;

/// Turns between two looks, about half a microsecond.
const TURNS_PER_LOOK: u32 = 16;

/// Returns the wall-clock time.
pub(crate) fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "the supervisor is the clock of a job")]
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// What a job is made from.
pub(crate) struct JobParts<'a> {
    /// What was decided.
    pub(crate) plan: &'a Plan,
    /// The sandbox, at its gate.
    pub(crate) sandbox: Sandbox,
    /// Where others ask for a stop.
    pub(crate) listener: OwnedFd,
    /// What the job reads, if it reads anything.
    pub(crate) input: Option<Input>,
    /// The caller.
    pub(crate) caller: OwnedFd,
    /// What it has said so far.
    pub(crate) reader: FrameReader,
}

/// A job in flight.
pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) sandbox: Sandbox,
    /// None once the job is over.
    pub(crate) listener: Option<OwnedFd>,
    pub(crate) caller: Option<Peer>,
    pub(crate) peers: Peers,
    pub(crate) capture: Capture,
    pub(crate) storage: StorageWatch,
    pub(crate) seen: Seen,
    memory: Option<MemoryWatch>,
    /// None once it has ended.
    input: Option<Input>,
    pipes_open: [bool; 2],
    init_speaks: bool,
}

/// What has been seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    /// When the gate was opened, for people.
    pub(crate) started_at: Timestamp,
    /// When the gate was opened; none before.
    pub(crate) began: Option<Instant>,
    /// When init's last word came.
    pub(crate) ended_at: Option<Instant>,
    /// Init's last word.
    pub(crate) end: Option<FromInit>,
    /// Whether init was reaped.
    pub(crate) reaped: bool,
    /// What the verdict is made from.
    pub(crate) observed: Observed,
    /// The largest sample of memory.
    pub(crate) memory_bytes_max: u64,
    /// By how much memory was over when the watch killed the job.
    pub(crate) memory_overshoot: u64,
    /// By how much the disk was over when the watch killed the job.
    pub(crate) storage_overshoot: u64,
    /// What the host's file system had left when the watch killed the job for it.
    pub(crate) host_left: u64,
    /// Whether the job had as many processes as it may have.
    pub(crate) pids_met: bool,
    /// When the wall clock ends the job; none before the gate, and none once it has.
    deadline: Option<Instant>,
    /// When the grace of a stop is over.
    kill_at: Option<Instant>,
    /// When an init that was asked to end the sandbox is killed itself.
    hard_kill_at: Option<Instant>,
    next_tick: Option<Instant>,
    init_ended: bool,
}

impl<'a> Job<'a> {
    /// Takes the parts over; nothing has been heard yet.
    pub(crate) fn new(parts: JobParts<'a>) -> io::Result<Self> {
        for fd in [parts.caller.as_fd(), parts.sandbox.stdout(), parts.sandbox.stderr()] {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let dir = openat(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let disk = PathBuf::from(OsStr::from_bytes(parts.plan.disk.as_bytes()));
        Ok(Self {
            plan: parts.plan,
            sandbox: parts.sandbox,
            listener: Some(parts.listener),
            caller: Some(Peer::caller(parts.caller, parts.reader)),
            peers: Peers::default(),
            capture: Capture::new(dir, parts.plan.watch.output_bytes),
            storage: StorageWatch::new(disk, &parts.plan.watch),
            seen: Seen::default(),
            memory: None,
            input: parts.input,
            pipes_open: [true, true],
            init_speaks: true,
        })
    }
}

impl Job<'_> {
    /// Goes on until the job's processes are gone, and takes what is left in the pipes.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        // What came with the first frame is in the reader already, and no poll would tell of it.
        self.hear_caller();
        while !self.is_over() {
            self.wait_and_act()?;
            self.check_timers();
        }
        // The end may be seen before the last word.
        self.hear_init();
        self.drain(Stream::Out)?;
        self.drain(Stream::Err)
    }

    fn is_over(&self) -> bool {
        self.seen.init_ended || matches!(self.seen.end, Some(FromInit::Ended(_)))
    }

    /// Takes what a pipe holds, and no more: a job can have given its end away to a process outside.
    fn drain(&mut self, stream: Stream) -> io::Result<()> {
        let enough = self.capture.produced().saturating_add(PIPE_BYTES as u64);
        while self.pipes_open[stream as usize] && self.capture.produced() < enough {
            if !self.read_once(stream)? {
                break;
            }
        }
        Ok(())
    }

    fn wait_and_act(&mut self) -> io::Result<()> {
        let ready = self.wait()?;
        // Output first, so that what a job printed is taken before it is known to have ended.
        for (index, stream) in [Stream::Out, Stream::Err].into_iter().enumerate() {
            if ready.streams[index] {
                self.read(stream)?;
            }
        }
        if (ready.input || ready.reader)
            && let Some(input) = &mut self.input
            && !input.carry(ready.input, ready.reader)
        {
            self.input = None;
        }
        if ready.init {
            self.hear_init();
        }
        if ready.ended {
            self.seen.init_ended = true;
        }
        if let Some(listener) = self.listener.as_ref().filter(|_| ready.listener) {
            self.peers.accept(listener.as_fd());
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
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let timeout = self.timeout().map(|left| Timespec::try_from(left).unwrap_or(LONG));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for ((source, _, _), polled) in sources.iter().zip(&polled) {
            if !polled.revents().is_empty() {
                ready.note(*source);
            }
        }
        Ok(ready)
    }

    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut sources = Vec::new();
        if let Some(listener) = self.listener.as_ref().filter(|_| self.peers.have_room()) {
            sources.push((Source::Listener, listener.as_fd(), PollFlags::IN));
        }
        if self.pipes_open[0] {
            sources.push((Source::Stream(0), self.sandbox.stdout(), PollFlags::IN));
        }
        if self.pipes_open[1] {
            sources.push((Source::Stream(1), self.sandbox.stderr(), PollFlags::IN));
        }
        if !self.seen.init_ended {
            sources.push((Source::Ended, self.sandbox.pidfd(), PollFlags::IN));
        }
        if self.init_speaks {
            sources.push((Source::Init, self.sandbox.socket(), PollFlags::IN));
        }
        if let Some(caller) = &self.caller {
            sources.push((Source::Caller, caller.socket(), PollFlags::IN));
        }
        // Nothing is taken from the caller's input before the job runs.
        if let Some(input) = self.input.as_ref().filter(|_| self.seen.began.is_some()) {
            let (job, flags) = input.job();
            sources.push((Source::Reader, job, flags));
            sources.extend(input.wants_more().map(|fd| (Source::Input, fd, PollFlags::IN)));
        }
        let peer = |socket| (Source::Peer, socket, PollFlags::IN);
        sources.extend(self.peers.sockets().map(peer));
        sources
    }

    /// Returns how long to wait at most.
    fn timeout(&self) -> Option<Duration> {
        let seen = &self.seen;
        let next = [seen.deadline, seen.kill_at, seen.hard_kill_at, seen.next_tick];
        let next = next.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    fn read(&mut self, stream: Stream) -> io::Result<()> {
        let before = self.capture.produced();
        let mut looks = 0;
        for _ in 0..READS_MAX {
            let is_much = self.capture.produced() - before >= MUCH_OUTPUT_BYTES;
            if is_much {
                pause();
            }
            if self.read_once(stream)? {
                looks = 0;
            } else if is_much && looks < LOOKS_MAX && self.pipes_open[stream as usize] {
                looks += 1;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Takes what one read gives; returns whether there may be more at once.
    fn read_once(&mut self, stream: Stream) -> io::Result<bool> {
        let pipe = match stream {
            Stream::Out => self.sandbox.stdout(),
            Stream::Err => self.sandbox.stderr(),
        };
        match self.capture.read(stream, pipe) {
            Ok(0) => self.pipes_open[stream as usize] = false,
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(false)
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
    fn next_from_init(&mut self) -> Option<(FromInit, Vec<OwnedFd>)> {
        let mut polled = [PollFd::from_borrowed_fd(self.sandbox.socket(), PollFlags::IN)];
        let ready = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let found = polled[0].revents();
        if ready.is_ok() && found.contains(PollFlags::IN) {
            return self.sandbox.receive().ok().flatten();
        }
        // Its end is closed before it has ended; until then there is nothing more to hear.
        self.init_speaks &= found.is_empty();
        None
    }

    fn hear_caller(&mut self) {
        while let Some(caller) = &mut self.caller {
            match caller.hear() {
                Said::Nothing => return,
                Said::Request(Request::Go { alone: false }) => self.go(),
                Said::Request(Request::Go { alone: true }) => {
                    self.go();
                    self.let_caller_go();
                }
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
            #[cfg(feature = "faults")]
            bailiwick_isolation::faults::before("supervisor:go");
            self.sandbox.go();
            #[cfg(feature = "faults")]
            bailiwick_isolation::faults::after("supervisor:go");
        }
    }

    /// It can die now, and is told nothing more.
    fn let_caller_go(&mut self) {
        if let Some(caller) = self.caller.take() {
            caller.tell(&Reply::LetGo);
        }
    }

    fn stop(&mut self, grace_ms: u64) {
        // A grace beyond what a clock can hold never ends.
        let kill_at = Instant::now().checked_add(Duration::from_millis(grace_ms));
        self.seen.kill_at = [self.seen.kill_at, kill_at].into_iter().flatten().min();
        if !self.seen.observed.stopped {
            self.seen.observed.stopped = true;
            self.sandbox.terminate();
        }
    }

    fn check_timers(&mut self) {
        if self.is_over() {
            return;
        }
        let instant = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| instant >= at);
        if due(self.seen.hard_kill_at) {
            self.seen.hard_kill_at = None;
            self.sandbox.kill();
        }
        if due(self.seen.deadline) {
            self.seen.observed.timed_out = true;
            self.end_job();
        }
        if due(self.seen.kill_at) {
            self.end_job();
        }
        if due(self.seen.next_tick) {
            self.seen.next_tick = Some(instant + TICK);
            self.tick();
        }
    }

    /// Ends the job; asked once, what follows is init's answer or its end.
    fn end_job(&mut self) {
        self.seen.deadline = None;
        self.seen.kill_at = None;
        self.seen.next_tick = None;
        self.seen.hard_kill_at = Some(Instant::now() + INIT_ANSWERS_WITHIN);
        self.sandbox.end_all();
    }

    fn tick(&mut self) {
        self.watch_memory();
        if let Some(over) = self.storage.tick() {
            match over.reason {
                Reason::Inodes => self.seen.observed.over_inodes = true,
                Reason::HostDiskFull => {
                    self.seen.observed.host_disk_full = true;
                    self.seen.host_left = over.left;
                }
                _ => self.seen.observed.over_storage = true,
            }
            self.seen.storage_overshoot = over.overshoot_bytes;
            self.end_job();
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
            self.end_job();
        }
    }
}

/// Lets a job print a little more, so that the next read finds it still printing.
fn pause() {
    for _ in 0..TURNS_PER_LOOK {
        std::hint::spin_loop();
    }
}

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
    Input,
    Reader,
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
    /// There is something for the job to read.
    input: bool,
    /// The job has room for it, or reads no more.
    reader: bool,
}

impl Ready {
    fn note(&mut self, source: Source) {
        match source {
            Source::Listener => self.listener = true,
            Source::Stream(index) => self.streams[index] = true,
            Source::Ended => self.ended = true,
            Source::Init => self.init = true,
            Source::Caller => self.caller = true,
            Source::Input => self.input = true,
            Source::Reader => self.reader = true,
            // Peers are asked at every turn.
            Source::Peer => {}
        }
    }
}
