//! Starts a planned sandbox from the supervisor and holds its ends.
//!
//! What happens inside is in [`crate::init`]; when a job is over, and what is recorded of it, is the supervisor's business.
//! The order of operations was measured on Linux 6.18: trees, clone, maps, groups beside init's mounts.
use crate::cgroup::{Counted, Groups};
use crate::init::{self, Inherited};
use crate::payload::PayloadPipes;
use crate::plan::{INSIDE_ID, Plan};
use crate::sys::clone::{Cloned, Namespaces, clone_sandbox};
use crate::sys::creds;
use crate::sys::process::{Ended, close_unused, exit_now, wait};
use crate::tree;
use crate::wire::{FromInit, PacketSocket, ToInit};
use rustix::fs::fchown;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Pid, Signal, Uid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A sandbox that was started, from its supervisor's side.
#[derive(Debug)]
pub struct Sandbox {
    pid: Pid,
    pidfd: OwnedFd,
    socket: PacketSocket,
    gate: Option<OwnedFd>,
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    groups: Option<Groups>,
}

/// Why a sandbox could not be started; nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[error("could not {step}")]
pub struct StartError {
    /// What was tried, on what.
    pub step: String,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

fn at(step: &str) -> impl FnOnce(io::Error) -> StartError {
    move |source| StartError { step: step.to_owned(), source }
}

/// How init ended, where it could not say so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InitEnd {
    /// The signal that killed it, if one did.
    pub signal: Option<i32>,
    /// User and system time of all reaped processes, in microseconds.
    pub cpu_us: u64,
    /// Resident memory of the largest of them, in bytes.
    pub resident_bytes_max: u64,
}

/// The pipes of a payload, both ends of each.
struct Pipes {
    stdin: Option<(OwnedFd, OwnedFd)>,
    stdout: (OwnedFd, OwnedFd),
    stderr: (OwnedFd, OwnedFd),
    gate: (OwnedFd, OwnedFd),
}

impl Pipes {
    fn open(with_stdin: bool) -> io::Result<Self> {
        let pipe = || pipe_with(PipeFlags::CLOEXEC);
        let stdin = with_stdin.then(pipe).transpose()?;
        Ok(Self { stdin, stdout: pipe()?, stderr: pipe()?, gate: pipe()? })
    }

    /// So that a job that root sets up can open `/dev/stdin` and its like, as anybody can who made the pipes.
    fn give_to(&self, plan: &Plan) -> io::Result<()> {
        if !plan.identity.by_root {
            return Ok(());
        }
        let ids = (Uid::from_raw(plan.identity.uid), Gid::from_raw(plan.identity.gid));
        for (end, _) in self.stdin.iter().chain([&self.stdout, &self.stderr]) {
            fchown(end, Some(ids.0), Some(ids.1))?;
        }
        Ok(())
    }
}

impl Sandbox {
    /// Starts `plan` up to the gate. The calling process must have one thread, which must live as long as the sandbox;
    /// `private` are descriptors of the caller's that init must not keep open. With `with_stdin` the payload reads from a pipe,
    /// whose other end is [`Sandbox::take_stdin`]'s.
    ///
    /// # Errors
    /// [`StartError`]; nothing of the sandbox is left. What init meets comes later, from [`Sandbox::receive`].
    pub fn start(
        plan: &Plan,
        private: &[BorrowedFd<'_>],
        with_stdin: bool,
    ) -> Result<Self, StartError> {
        let pipes = Pipes::open(with_stdin).map_err(at("make pipes"))?;
        pipes.give_to(plan).map_err(at("give the pipes to the job"))?;
        let (ours, theirs) = PacketSocket::pair().map_err(at("make a socket"))?;
        let trees = prepare_as_root(plan)?;
        match clone_sandbox(Namespaces::SANDBOX, None).map_err(at("clone into new namespaces"))? {
            Cloned::Child => {
                drop((ours, pipes.stdout.0, pipes.stderr.0, pipes.gate.1));
                let stdin = pipes.stdin.map(|(read, _)| read);
                for descriptor in private {
                    // SAFETY: this copy of the process runs init and exits; its owners of these are never dropped.
                    unsafe { close_unused(*descriptor) };
                }
                let payload = PayloadPipes {
                    stdin,
                    stdout: pipes.stdout.1,
                    stderr: pipes.stderr.1,
                    gate: pipes.gate.0,
                };
                exit_now(init::run(plan, Inherited { socket: theirs, pipes: payload, trees }));
            }
            Cloned::Parent { pid, pidfd } => {
                let mut sandbox = Self {
                    pid,
                    pidfd,
                    socket: ours,
                    gate: Some(pipes.gate.1),
                    stdin: pipes.stdin.map(|(_, write)| write),
                    stdout: pipes.stdout.0,
                    stderr: pipes.stderr.0,
                    groups: None,
                };
                match sandbox.admit(plan) {
                    Ok(()) => Ok(sandbox),
                    Err(error) => {
                        sandbox.abandon();
                        Err(error)
                    }
                }
            }
        }
    }

    /// Gives init its maps and groups.
    fn admit(&mut self, plan: &Plan) -> Result<(), StartError> {
        if plan.identity.by_root {
            self.write_maps(plan).map_err(at("write the user namespace's maps"))?;
            self.tell(&ToInit::Mapped, &[])?;
        }
        let Some(limits) = &plan.groups else { return Ok(()) };
        let groups = self.groups.insert(Groups::plan(limits, &plan.group));
        let files = groups.create().map_err(at("make the control groups"))?;
        let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        self.tell(&ToInit::Enter, &borrowed)
    }

    fn tell(&self, message: &ToInit, files: &[BorrowedFd<'_>]) -> Result<(), StartError> {
        // Init may have failed already; why is in its own message, which `receive` will find.
        match self.socket.send(message, files) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(at("speak to init")),
        }
    }

    /// Before the child changes its ids: afterwards it is undumpable, and its files are root's.
    fn write_maps(&self, plan: &Plan) -> io::Result<()> {
        let pid = self.pid.as_raw_nonzero();
        let write = |name: &str, text: String| std::fs::write(format!("/proc/{pid}/{name}"), text);
        write("setgroups", "deny".into())?;
        write("uid_map", format!("{INSIDE_ID} {} 1", plan.identity.uid))?;
        write("gid_map", format!("{INSIDE_ID} {} 1", plan.identity.gid))
    }

    /// Opens the gate: the payload executes its command.
    pub fn go(&mut self) {
        if let Some(gate) = self.gate.take() {
            // A payload that is gone is noticed by its end, not here.
            rustix::io::write(&gate, &[1]).ok();
        }
    }

    /// Returns whether the gate was opened.
    #[must_use]
    pub const fn has_gone(&self) -> bool {
        self.gate.is_none()
    }

    /// Takes init's next message and the descriptors that came along; `None` when init is gone.
    ///
    /// # Errors
    /// What the socket says.
    pub fn receive(&self) -> io::Result<Option<(FromInit, Vec<OwnedFd>)>> {
        self.socket.receive()
    }

    /// Asks every process of the sandbox to end.
    pub fn terminate(&self) {
        // When init is gone, so is everybody else.
        self.socket.send(&ToInit::Terminate, &[]).ok();
    }

    /// Asks init to kill every process and to say what they used. An init that does not answer has to be [killed](Self::kill).
    pub fn end_all(&self) {
        self.socket.send(&ToInit::Kill, &[]).ok();
    }

    /// Kills init, and with it the kernel kills every process of its PID namespace; what they used is not told then.
    pub fn kill(&self) {
        rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
    }

    /// Gives the sandbox up: nothing of it is left afterwards.
    pub fn abandon(self) {
        self.kill();
        // It is our child, so wait can only fail when it was reaped already.
        self.end().ok();
        self.remove_groups();
    }

    /// Waits for init's end and reaps it. Taking down its mounts waits for other processors, so this may take milliseconds.
    ///
    /// # Errors
    /// It was reaped before.
    pub fn end(&self) -> io::Result<InitEnd> {
        let reaped = wait(self.pid)?;
        Ok(InitEnd {
            signal: match reaped.ended {
                Ended::Killed(signal) => Some(signal),
                Ended::Exited(_) => None,
            },
            cpu_us: reaped.usage.user_us + reaped.usage.system_us,
            resident_bytes_max: reaped.usage.resident_bytes_max,
        })
    }

    /// Reads what the job's groups counted; `None` where there are none.
    #[must_use]
    pub fn counted(&self) -> Option<Counted> {
        self.groups.as_ref().map(Groups::counted)
    }

    /// Removes the job's groups; init has to be reaped before.
    pub fn remove_groups(&self) {
        if let Some(groups) = &self.groups {
            groups.remove();
        }
    }

    /// Becomes readable when init has said something.
    #[must_use]
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Becomes readable when init has ended.
    #[must_use]
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Takes the end to which the payload's standard input is written, if it has one.
    pub const fn take_stdin(&mut self) -> Option<OwnedFd> {
        self.stdin.take()
    }

    /// The payload's standard output.
    #[must_use]
    pub fn stdout(&self) -> BorrowedFd<'_> {
        self.stdout.as_fd()
    }

    /// The payload's standard error.
    #[must_use]
    pub fn stderr(&self) -> BorrowedFd<'_> {
        self.stderr.as_fd()
    }
}

/// Leaves root's groups, which would still grant access inside, and makes the trees.
fn prepare_as_root(plan: &Plan) -> Result<Vec<OwnedFd>, StartError> {
    if !plan.identity.by_root {
        return Ok(Vec::new());
    }
    creds::leave_groups().map_err(at("leave the supplementary groups"))?;
    tree::clone_all(&plan.sources, plan.identity)
        .map_err(|(step, source)| StartError { step, source })
}
