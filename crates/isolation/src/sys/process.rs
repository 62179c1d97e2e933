//! Becoming another program, ending, and learning how children ended.
//!
//! Sessions, directories, limits, affinity and standard descriptors are in `rustix`
//! (`process::setsid`, `chdir`, `setrlimit`, `thread::sched_setaffinity`, `stdio::dup2_stdin`), all
//! callable after `vfork`. Sources: execve(2), _exit(2), wait4(2),
//! close_range(2) (Linux 5.9, `CLOSE_RANGE_CLOEXEC` 5.11).

use std::ffi::{CStr, CString, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;

use rustix::process::Pid;

/// Strings in the form that `execve` takes for arguments and environment: made before `vfork`, used
/// after it.
#[derive(Debug)]
pub(crate) struct StringVector {
    /// Null-terminated; each pointer is into a string of `strings`.
    pointers: Vec<*const c_char>,
    /// Owns what `pointers` points to; a `CString` does not move its bytes when it moves.
    #[expect(dead_code, reason = "kept alive for `pointers`")]
    strings: Vec<CString>,
}

impl StringVector {
    /// Prepares `strings`, in order.
    pub(crate) fn new(strings: Vec<CString>) -> Self {
        let mut pointers: Vec<_> = strings.iter().map(|string| string.as_ptr()).collect();
        pointers.push(ptr::null());
        Self { pointers, strings }
    }
}

/// Replaces the calling process by the program at `path`; callable after `vfork`. Returns only why
/// it could not.
#[must_use]
pub(crate) fn execve(
    path: &CStr,
    arguments: &StringVector,
    environment: &StringVector,
) -> io::Error {
    let (argv, envp) = (arguments.pointers.as_ptr(), environment.pointers.as_ptr());
    // SAFETY: `path` ends with a NUL, both vectors end with a null pointer and point to strings
    // that they own; all are borrowed until the call returns.
    unsafe { libc::execve(path.as_ptr(), argv, envp) };
    io::Error::last_os_error()
}

/// Ends the calling process at once: no destructors, no buffers, no exit handlers; callable after
/// `vfork`.
pub(crate) fn exit_now(code: u8) -> ! {
    // SAFETY: _exit takes no pointer and runs no code of this process.
    unsafe { libc::_exit(code.into()) }
}

/// Marks every descriptor from `first` on as closed on exec, those included that a caller leaked to
/// us; callable after `vfork`.
///
/// # Errors
/// EINVAL before Linux 5.11. Then nothing has changed.
pub(crate) fn close_on_exec_from(first: RawFd) -> io::Result<()> {
    close_range(first, libc::CLOSE_RANGE_CLOEXEC)
}

/// Closes every descriptor from `first` on. Whoever opened one of them must not use it any more.
///
/// # Errors
/// None that is known.
pub(crate) fn close_from(first: RawFd) -> io::Result<()> {
    close_range(first, 0)
}

fn close_range(first: RawFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: close_range takes no pointer. With `CLOSE_RANGE_CLOEXEC` no descriptor becomes invalid; without it the one caller
    // has opened none of these: they are what an `execve` left.
    let returned = unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) };
    super::checked(returned).map(drop)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// With this code.
    Exited(u8),
    /// By this signal.
    Killed(i32),
}

/// What a process and the children that it waited for have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Microseconds of processor time in user space.
    pub(crate) user_us: u64,
    /// Microseconds of processor time in the kernel.
    pub(crate) system_us: u64,
    /// The resident set of the largest of these processes, at its largest.
    pub(crate) resident_bytes_max: u64,
}

/// A child that has ended and is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reaped {
    /// Its pid, free for reuse from now on.
    pub(crate) pid: Pid,
    /// How it ended.
    pub(crate) ended: Ended,
    /// What it has used.
    pub(crate) usage: Usage,
}

/// Waits until the child `pid` ends.
///
/// # Errors
/// ECHILD when it is not a child, or was reaped before.
pub(crate) fn wait(pid: Pid) -> io::Result<Reaped> {
    loop {
        match wait4(pid.as_raw_nonzero().get(), 0) {
            Ok(Some(reaped)) => return Ok(reaped),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
}

/// Reaps one child that has ended already. Returns `None` when there is no such child, or no child
/// at all.
///
/// # Errors
/// None that is known.
pub(crate) fn reap() -> io::Result<Option<Reaped>> {
    match wait4(-1, libc::WNOHANG) {
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(None),
        other => other,
    }
}

/// Waits until some child ends and reaps it. Returns `None` when there is no child.
///
/// # Errors
/// None that is known.
pub(crate) fn wait_any() -> io::Result<Option<Reaped>> {
    loop {
        match wait4(-1, 0) {
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Returns what the children that were reaped so far, and those that they had reaped, have used.
pub(crate) fn used_by_children() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage writes one `rusage`, on this stack frame; it fails for no value of this kind.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr()) };
    // SAFETY: `rusage` is made of integers, so that zeros, or what getrusage wrote over them, are a value.
    used(&unsafe { usage.assume_init() })
}

/// Closes a descriptor that this copy of the process will not use.
///
/// # Safety
/// Nobody in this process uses it any more; whoever owns it is never dropped.
pub(crate) unsafe fn close_unused(descriptor: BorrowedFd<'_>) {
    // SAFETY: the caller vouches for it.
    unsafe { libc::close(descriptor.as_raw_fd()) };
}

fn wait4(pid: libc::pid_t, options: c_int) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: wait4 writes one int and one `rusage`, both on this stack frame.
    let returned = unsafe { libc::wait4(pid, &raw mut status, options, usage.as_mut_ptr()) };
    super::checked(returned.into())?;
    // SAFETY: `rusage` is made of integers, so that zeros, or what wait4 wrote over them, are a
    // value.
    let usage = unsafe { usage.assume_init() };
    Ok(Pid::from_raw(returned).map(|pid| Reaped { pid, ended: ended(status), usage: used(&usage) }))
}

/// Without `WUNTRACED` and `WCONTINUED`, a status is an exit or a signal.
fn ended(status: c_int) -> Ended {
    if libc::WIFEXITED(status) {
        let code = u8::try_from(libc::WEXITSTATUS(status)).expect("WEXITSTATUS has eight bits");
        Ended::Exited(code)
    } else {
        Ended::Killed(libc::WTERMSIG(status))
    }
}

fn used(usage: &libc::rusage) -> Usage {
    Usage {
        user_us: microseconds(usage.ru_utime),
        system_us: microseconds(usage.ru_stime),
        resident_bytes_max: usage.ru_maxrss.cast_unsigned() * 1024, // getrusage(2): in KiB
    }
}

fn microseconds(time: libc::timeval) -> u64 {
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clone::tests::in_child;

    fn vector(strings: &[&CStr]) -> StringVector {
        StringVector::new(strings.iter().map(|&string| string.to_owned()).collect())
    }

    #[test]
    fn arguments_and_environment_reach_the_program() {
        let arguments = vector(&[c"sh", c"-c", c"exit $((CODE + $1))", c"sh", c"2"]);
        let environment = vector(&[c"CODE=40"]);
        let ended = in_child(|| {
            let _error = execve(c"/bin/sh", &arguments, &environment);
            1
        });
        assert_eq!(ended, Ended::Exited(42));
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let nothing = vector(&[]);
        let error = execve(c"/nonexistent", &nothing, &nothing);
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_signal_is_not_an_exit_code() {
        let ended = in_child(|| {
            let sent = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
            u8::from(sent.is_ok())
        });
        assert_eq!(ended, Ended::Killed(libc::SIGKILL));
    }

    #[test]
    fn no_child_is_nothing_to_reap() {
        let ended = in_child(|| u8::from(!matches!(reap(), Ok(None))));
        assert_eq!(ended, Ended::Exited(0));
    }

    #[test]
    fn leaked_descriptors_are_closed_on_exec() {
        let ended = in_child(|| {
            let Ok(leaked) = rustix::io::dup(rustix::stdio::stdin()) else { return 1 };
            let marked = close_on_exec_from(3);
            let flags = rustix::io::fcntl_getfd(&leaked);
            u8::from(marked.is_err() || flags != Ok(rustix::io::FdFlags::CLOEXEC))
        });
        assert_eq!(ended, Ended::Exited(0));
    }

    #[test]
    fn usage_has_units() {
        // SAFETY: `rusage` is made of integers.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        usage.ru_utime = libc::timeval { tv_sec: 1, tv_usec: 5 };
        usage.ru_maxrss = 3;
        let expected = Usage { user_us: 1_000_005, system_us: 0, resident_bytes_max: 3072 };
        assert_eq!(used(&usage), expected);
    }
}
