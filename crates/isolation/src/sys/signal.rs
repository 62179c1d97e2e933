//! Signal masks, dispositions and signals to everybody.
//!
//! No handler is ever installed: init reads signals from a descriptor. The kernel's own calls are
//! used instead of libc's, which lock (SIGABRT) and keep two signals to themselves; `rustix` sends
//! to one process or group. Sources: rt_sigprocmask and rt_sigaction in sigprocmask(2) and
//! sigaction(2), signalfd(2) (Linux 2.6.27), kill(2).

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::Signal;

/// 64: the signals of x86-64, numbered from 1.
const SIGNALS: c_int = 64;

/// A set of signals, as the kernel stores it: bit n is signal n + 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalSet(u64);

impl SignalSet {
    pub(crate) const EMPTY: Self = Self(0);
    /// Every signal; the kernel leaves SIGKILL and SIGSTOP out of a mask by itself.
    pub(crate) const ALL: Self = Self(!0);

    /// Returns the set with `signal` in it.
    #[must_use]
    pub(crate) fn with(self, signal: Signal) -> Self {
        Self(self.0 | 1 << (signal.as_raw() - 1))
    }

    /// Adds the set to the calling thread's mask and returns the mask before; callable after
    /// `vfork`.
    ///
    /// # Errors
    /// None that is known.
    pub(crate) fn block(self) -> io::Result<Self> {
        self.change_mask(libc::SIG_BLOCK)
    }

    /// Makes the set the calling thread's mask and returns the mask before; callable after `vfork`.
    ///
    /// # Errors
    /// None that is known.
    pub(crate) fn set(self) -> io::Result<Self> {
        self.change_mask(libc::SIG_SETMASK)
    }

    fn change_mask(self, how: c_int) -> io::Result<Self> {
        let mut before = Self::EMPTY;
        // SAFETY: rt_sigprocmask reads one set and writes one set of the size given, both on this
        // stack frame.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_rt_sigprocmask,
                how,
                &raw const self.0,
                &raw mut before.0,
                size_of::<u64>(),
            )
        };
        super::checked(returned)?;
        Ok(before)
    }
}

/// What `rt_sigaction` takes on x86-64.
#[repr(C)]
struct Disposition {
    handler: libc::sighandler_t,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// Gives every signal its default action, also those that the caller ignored (`execve` keeps only
/// these; the Rust runtime ignores SIGPIPE); callable after `vfork`.
///
/// # Errors
/// None that is known.
pub(crate) fn reset_dispositions() -> io::Result<()> {
    let default = Disposition { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
    for signal in 1..=SIGNALS {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            continue;
        }
        // SAFETY: rt_sigaction reads one `Disposition`, laid out as `struct kernel_sigaction` of
        // x86-64, and writes nothing; the default action runs no code of ours.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                &raw const default,
                ptr::null_mut::<Disposition>(),
                size_of::<u64>(),
            )
        };
        super::checked(returned)?;
    }
    Ok(())
}

/// Undoes what a caller may have left to us: an ignored SIGCHLD, with which no end of a child is ever told, and SIGXFSZ, which
/// would kill us where a write can fail instead.
pub(crate) fn undo_inherited() {
    for (signal, handler) in [(libc::SIGCHLD, libc::SIG_DFL), (libc::SIGXFSZ, libc::SIG_IGN)] {
        // SAFETY: signal takes no pointer of ours, and neither action runs code of this process.
        unsafe { libc::signal(signal, handler) };
    }
}

/// Makes the first SIGINT and the first SIGTERM call `handler`, which may do only what signal-safety(7) lists.
///
/// A second signal of the same kind has its default action. A slow call that is interrupted reports EINTR.
pub(crate) fn on_interrupt(handler: extern "C" fn(c_int)) {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut action: libc::sigaction = no_action();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESETHAND;
        // SAFETY: sigaction reads one `sigaction`, which lives until the call returns; the caller vouches for `handler`.
        unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    }
}

fn no_action() -> libc::sigaction {
    // SAFETY: `sigaction` is made of integers, sets of bits and an optional function, all of which may be zero.
    unsafe { std::mem::zeroed() }
}

/// Sends `signal` to every process that the caller may signal, but itself and the init of its PID
/// namespace.
///
/// From a sandbox's init that is the whole sandbox. Nobody left to signal is success.
///
/// # Errors
/// EPERM when there are processes and none may be signalled.
pub(crate) fn kill_all(signal: Signal) -> io::Result<()> {
    // SAFETY: kill takes no pointer.
    let returned = unsafe { libc::kill(-1, signal.as_raw()) };
    match super::checked(returned.into()) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
        other => other.map(drop),
    }
}

/// A descriptor from which the signals of a set are read, instead of being delivered.
#[derive(Debug)]
pub(crate) struct SignalFd(OwnedFd);

impl SignalFd {
    /// Opens a descriptor, closed on exec and never blocking, for signals that the caller has
    /// blocked.
    ///
    /// # Errors
    /// EMFILE, ENFILE, ENOMEM.
    pub(crate) fn new(signals: SignalSet) -> io::Result<Self> {
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: signalfd4 reads one set of the size given, on this stack frame, and -1 asks for a
        // new descriptor.
        let returned = unsafe {
            libc::syscall(libc::SYS_signalfd4, -1, &raw const signals.0, size_of::<u64>(), flags)
        };
        let fd = c_int::try_from(super::checked(returned)?).expect("descriptors are ints");
        // SAFETY: signalfd4 returned a new descriptor that nobody else knows.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Takes the next pending signal's number, or returns `None` when there is none.
    ///
    /// # Errors
    /// None that is known.
    pub(crate) fn read(&self) -> io::Result<Option<i32>> {
        let mut record = [0; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::read(&self.0, &mut record) {
            Ok(_) => {
                let [a, b, c, d, ..] = record; // ssi_signo is the first field
                Ok(Some(i32::from_ne_bytes([a, b, c, d])))
            }
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clone::tests::in_child;
    use crate::sys::process::Ended;

    #[test]
    fn a_blocked_signal_is_read_from_the_descriptor() {
        let signals = SignalSet::EMPTY.with(Signal::USR1).with(Signal::TERM);
        let before = signals.block().expect("block");
        let descriptor = SignalFd::new(signals).expect("signalfd");
        assert_eq!(descriptor.read().expect("read"), None);
        // SAFETY: raise takes no pointer; this thread, which it signals, blocks the signal.
        unsafe { libc::raise(libc::SIGTERM) };
        assert_eq!(descriptor.read().expect("read"), Some(libc::SIGTERM));
        before.set().expect("restore");
    }

    #[test]
    fn an_ignored_signal_gets_its_default_back() {
        let ended = in_child(|| {
            let pid = rustix::process::getpid();
            let reset = reset_dispositions().and_then(|()| SignalSet::EMPTY.set());
            let sent = rustix::process::kill_process(pid, Signal::PIPE);
            u8::from(reset.is_err() || sent.is_err())
        });
        assert_eq!(ended, Ended::Killed(libc::SIGPIPE), "the Rust runtime ignores SIGPIPE");
    }
}
