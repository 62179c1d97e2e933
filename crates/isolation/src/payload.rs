//! The last steps of a process that becomes the job's command.
//!
//! It runs between `vfork` and `execve`, on memory that it shares with init: everything it needs is prepared in
//! [`Payload`], and it allocates nothing and takes no lock. The order is that of credentials(7), landlock(7) and
//! seccomp(2): limits, capabilities, no_new_privs, file rules, filter, gate, command.
use crate::plan::{PayloadPlan, Rlimits};
use crate::sys::clone::{Stack, vfork_on};
use crate::sys::landlock::Ruleset;
use crate::sys::process::{StringVector, close_on_exec_from, execve, exit_now};
use crate::sys::{creds, signal};
use bailiwick_contract::bytes::ByteString;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use rustix::thread::CpuSet;
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// What a payload needs, and where it says why it failed.
#[derive(Debug)]
pub(crate) struct Payload {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    gate: OwnedFd,
    rules: Option<Ruleset>,
    affinity: Option<CpuSet>,
    rlimits: Vec<(Resource, Rlimit)>,
    cwd: CString,
    candidates: Vec<CString>,
    arguments: StringVector,
    environment: StringVector,
    /// Where it stopped, if it did not become the command.
    stopped: Option<Stopped>,
}

/// What a stage does.
type Act = fn(&Payload) -> io::Result<()>;

/// Where a payload stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped {
    /// What it was doing.
    pub(crate) step: Stage,
    /// The error number.
    pub(crate) errno: i32,
}

/// The stages of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Session and descriptors.
    Surroundings,
    /// The working directory.
    Directory,
    /// Resource limits and affinity.
    Limits,
    /// Capabilities and `no_new_privs`.
    Privileges,
    /// Landlock.
    FileRules,
    /// seccomp.
    Filter,
    /// The gate was closed: the supervisor or the caller is gone.
    Gate,
    /// `execve`.
    Command,
}

impl Stage {
    /// Returns what an error says was being done.
    pub(crate) const fn doing(self) -> &'static str {
        match self {
            Self::Surroundings => "give the payload its session and descriptors",
            Self::Directory => "enter the directory that the job starts in",
            Self::Limits => "set the payload's limits",
            Self::Privileges => "drop the payload's privileges",
            Self::FileRules => "put the payload under Landlock",
            Self::Filter => "put the payload under seccomp",
            Self::Gate => "wait at the gate",
            Self::Command => "execute the command",
        }
    }
}

/// The descriptors that a payload gets or waits on.
#[derive(Debug)]
pub(crate) struct PayloadPipes {
    /// Becomes its standard input; where there is none, that is `/dev/null`.
    pub(crate) stdin: Option<OwnedFd>,
    /// Becomes its standard output.
    pub(crate) stdout: OwnedFd,
    /// Becomes its standard error.
    pub(crate) stderr: OwnedFd,
    /// One byte opens the gate.
    pub(crate) gate: OwnedFd,
}

impl Payload {
    /// Prepares everything, in init, inside the sandbox.
    ///
    /// # Errors
    /// What could not be opened.
    pub(crate) fn prepare(
        plan: &PayloadPlan,
        rlimits: &Rlimits,
        affinity: &[u32],
        rules: Option<Ruleset>,
        pipes: PayloadPipes,
    ) -> io::Result<Self> {
        let stdin = pipes.stdin.map_or_else(nothing_to_read, Ok)?;
        let environment =
            plan.env.iter().map(|var| c_string(var.expose())).collect::<Result<_, _>>()?;
        let arguments =
            plan.argv.iter().map(|arg| c_string(arg.as_bytes())).collect::<Result<_, _>>()?;
        Ok(Self {
            stdin,
            stdout: pipes.stdout,
            stderr: pipes.stderr,
            gate: pipes.gate,
            rules,
            affinity: cpu_set(affinity),
            rlimits: resources(rlimits),
            cwd: c_string(plan.cwd.as_bytes())?,
            candidates: candidates(plan)?,
            arguments: StringVector::new(arguments),
            environment: StringVector::new(environment),
            stopped: None,
        })
    }

    /// Starts it; returns once it has become the command, or has stopped before.
    ///
    /// # Errors
    /// No process could be made.
    pub(crate) fn start(&mut self) -> io::Result<Result<Pid, Stopped>> {
        let mut stack = Stack::new(64 << 10)?;
        let argument = std::ptr::from_mut(self).cast::<c_void>();
        // SAFETY: `enter` keeps to system calls on what is prepared; `argument` is a `Payload` that outlives the call; init
        // has all signals blocked.
        let pid = unsafe { vfork_on(&mut stack, enter, argument) }?;
        Ok(self.stopped.map_or(Ok(pid), Err))
    }

    /// Closes init's copies of what the payload has, so that the pipes end with the job's processes.
    pub(crate) fn release(self) {
        drop(self);
    }

    /// Returns whether one of the files that were tried, from the payload's working directory, exists.
    pub(crate) fn command_exists(&self) -> bool {
        self.candidates.iter().any(|path| crate::apply::exists(&self.cwd, path))
    }

    fn run(&mut self) -> Stopped {
        let stages: [(Stage, Act); 7] = [
            (Stage::Surroundings, Self::surroundings),
            (Stage::Directory, Self::enter_directory),
            (Stage::Limits, Self::limits),
            (Stage::Privileges, Self::privileges),
            (Stage::FileRules, Self::file_rules),
            (Stage::Filter, Self::filter),
            (Stage::Gate, Self::wait_at_gate),
        ];
        for (step, act) in stages {
            if let Err(error) = act(self) {
                return Stopped { step, errno: error.raw_os_error().unwrap_or(0) };
            }
        }
        Stopped { step: Stage::Command, errno: self.execute() }
    }

    fn surroundings(&self) -> io::Result<()> {
        rustix::process::setsid()?;
        rustix::stdio::dup2_stdin(self.stdin.as_fd())?;
        rustix::stdio::dup2_stdout(self.stdout.as_fd())?;
        rustix::stdio::dup2_stderr(self.stderr.as_fd())?;
        close_on_exec_from(3)?;
        signal::reset_dispositions()
    }

    /// Inside the sandbox, so that a link that the job has put there since leads nowhere else.
    fn enter_directory(&self) -> io::Result<()> {
        Ok(rustix::process::chdir(self.cwd.as_c_str())?)
    }

    fn limits(&self) -> io::Result<()> {
        for (resource, limit) in &self.rlimits {
            setrlimit(*resource, *limit)?;
        }
        if let Some(cpus) = &self.affinity {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        Ok(())
    }

    fn privileges(&self) -> io::Result<()> {
        creds::drop_capabilities()?;
        Ok(rustix::thread::set_no_new_privs(true)?)
    }

    fn file_rules(&self) -> io::Result<()> {
        self.rules.as_ref().map_or(Ok(()), Ruleset::restrict_self)
    }

    fn filter(&self) -> io::Result<()> {
        crate::seccomp::install()
    }

    fn wait_at_gate(&self) -> io::Result<()> {
        let mut byte = [0];
        loop {
            match rustix::io::read(&self.gate, &mut byte) {
                Ok(1) => break,
                Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Err(rustix::io::Errno::CANCELED.into()),
                Err(error) => return Err(error.into()),
            }
        }
        signal::SignalSet::EMPTY.set().map(drop)
    }

    /// Tries one candidate after the other, as execvp(3) does, and returns why none became the command.
    fn execute(&self) -> i32 {
        let mut denied = None;
        for path in &self.candidates {
            let error = execve(path, &self.arguments, &self.environment).raw_os_error();
            match error {
                Some(libc::ENOENT | libc::ENOTDIR) => {}
                Some(libc::EACCES) => denied = error,
                other => return other.unwrap_or(0),
            }
        }
        denied.unwrap_or(libc::ENOENT)
    }
}

extern "C" fn enter(argument: *mut c_void) -> c_int {
    // SAFETY: `start` passes its own `Payload` and waits until this process has left the shared memory.
    let payload = unsafe { &mut *argument.cast::<Payload>() };
    payload.stopped = Some(payload.run());
    exit_now(127)
}

fn nothing_to_read() -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty())?)
}

fn c_string(bytes: &[u8]) -> io::Result<CString> {
    Ok(CString::new(bytes)?)
}

fn cpu_set(affinity: &[u32]) -> Option<CpuSet> {
    let mut set = CpuSet::new();
    for cpu in affinity {
        set.set(usize::try_from(*cpu).ok()?);
    }
    (!affinity.is_empty()).then_some(set)
}

fn candidates(plan: &PayloadPlan) -> io::Result<Vec<CString>> {
    let Some(command) = plan.argv.first().map(ByteString::as_bytes) else { return Ok(Vec::new()) };
    if command.contains(&b'/') || command.is_empty() {
        return Ok(vec![c_string(command)?]);
    }
    let place = |dir: &ByteString| c_string(&[dir.as_bytes(), b"/", command].concat());
    plan.path.iter().map(place).collect()
}

/// What systemd allows a service (systemd.exec(5)).
const NOFILE_MAX: u64 = 524_288;

/// The limits of a payload, each as far as our own allows it.
fn resources(limits: &Rlimits) -> Vec<(Resource, Rlimit)> {
    let wanted = wanted_limits(limits).into_iter();
    wanted.map(|(resource, limit)| (resource, within_own(resource, limit))).collect()
}

/// The limits that every payload is to have; what a limit protects is said where it is not plain.
pub(crate) fn wanted_limits(limits: &Rlimits) -> Vec<(Resource, Rlimit)> {
    let both = |value| Rlimit { current: Some(value), maximum: Some(value) };
    let mut list = vec![
        // No core file on the workspace's disk, and none through the host's core_pattern.
        (Resource::Core, both(0)),
        (Resource::Fsize, both(limits.fsize)),
        // What most hosts give; a job that wants more descriptors may raise it to what systemd allows.
        (Resource::Nofile, Rlimit { current: Some(1_024), maximum: Some(NOFILE_MAX) }),
        // Locked memory cannot be reclaimed; 8 MiB is Linux's own default since 5.16.
        (Resource::Memlock, both(8 << 20)),
        // No real-time scheduling: it could starve the host.
        (Resource::Rtprio, both(0)),
        (Resource::Nice, both(0)),
    ];
    list.extend(limits.nproc.map(|value| (Resource::Nproc, both(value))));
    list.extend(limits.data.map(|value| (Resource::Data, both(value))));
    list
}

/// A limit can only be lowered without privilege: where our own is below what is wanted, it is the job's too.
fn within_own(resource: Resource, wanted: Rlimit) -> Rlimit {
    let own = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let bounded = |value: Option<u64>| value.map(|value| value.min(own));
    Rlimit { current: bounded(wanted.current), maximum: bounded(wanted.maximum) }
}
