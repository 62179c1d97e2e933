//! Starts the supervisor's program.
//!
//! This is the one place of a caller that starts a process for a job: with an empty environment, its socket as standard
//! input, and nothing else of the caller's. What is said over the socket is in [`crate::wire`].
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Once;

/// A running supervisor, from its caller's side.
#[derive(Debug)]
pub struct Supervisor {
    socket: OwnedFd,
    child: Child,
}

impl Supervisor {
    /// Starts the program at `path`.
    ///
    /// # Errors
    /// There is no such program, it cannot be executed, or there are too many processes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the supervisor is what sandboxes are made by, so it cannot be started in one"
    )]
    pub fn start(path: &Path) -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(path);
        command
            // A job sees init's command line: the name is enough.
            .arg0("bailiwick-supervisor")
            .arg("--socket")
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        #[cfg(feature = "faults")]
        crate::faults::hand_on(&mut command);
        Ok(Self { socket: ours, child: command.spawn()? })
    }

    /// Kills the program, and with it its sandbox.
    pub fn kill(&mut self) {
        // It can only have ended by itself.
        self.child.kill().ok();
    }

    /// Returns whether the program has ended; then it is no zombie any more.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the program has ended, so that it is no zombie of a caller that lives on.
    ///
    /// # Errors
    /// Whatever wait(2) says.
    pub fn reap(mut self) -> io::Result<()> {
        drop(self.socket);
        self.child.wait().map(drop)
    }
}

impl AsFd for Supervisor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Closes every descriptor beyond the standard ones, which only somebody who did not mark them can have left to this process; the
/// first thing that the program does, before it has opened anything.
pub fn close_inherited() {
    static DONE: Once = Once::new();
    // Where the kernel cannot, they stay open, and a reader of such a pipe waits for the job's end.
    DONE.call_once(|| drop(crate::sys::process::close_from(3)));
}

/// Runs a supervisor's `--version` or `--probe` and returns what it printed.
///
/// # Errors
/// There is no such program, or it failed; its words are in the error.
#[expect(clippy::disallowed_methods, reason = "as for `Supervisor::start`")]
pub fn ask(path: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(path).args(arguments).env_clear().stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(words));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
