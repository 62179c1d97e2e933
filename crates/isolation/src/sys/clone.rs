//! Making processes: one that starts a sandbox, and one that becomes a command.
//!
//! Threads are never made here, and what the children do is not this file's business. Sources:
//! clone(2) (`clone3` Linux 5.3, `CLONE_INTO_CGROUP` 5.7), vfork(2), unshare(2).

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use rustix::process::Pid;

/// A set of namespaces to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Namespaces(u64);

impl Namespaces {
    #[cfg(test)]
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const USER: Self = Self::of(libc::CLONE_NEWUSER);
    pub(crate) const MOUNT: Self = Self::of(libc::CLONE_NEWNS);
    pub(crate) const PID: Self = Self::of(libc::CLONE_NEWPID);
    pub(crate) const IPC: Self = Self::of(libc::CLONE_NEWIPC);
    pub(crate) const UTS: Self = Self::of(libc::CLONE_NEWUTS);
    pub(crate) const CGROUP: Self = Self::of(libc::CLONE_NEWCGROUP);
    pub(crate) const NET: Self = Self::of(libc::CLONE_NEWNET);
    /// What a sandbox has.
    pub(crate) const SANDBOX: Self = Self(
        Self::USER.0
            | Self::MOUNT.0
            | Self::PID.0
            | Self::IPC.0
            | Self::UTS.0
            | Self::CGROUP.0
            | Self::NET.0,
    );

    /// Returns the names of those in the set, as namespaces(7) gives them.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (Self::USER, "user"),
            (Self::MOUNT, "mount"),
            (Self::PID, "pid"),
            (Self::IPC, "ipc"),
            (Self::UTS, "uts"),
            (Self::CGROUP, "cgroup"),
            (Self::NET, "network"),
        ];
        all.into_iter().filter(move |(one, _)| self.0 & one.0 != 0).map(|(_, name)| name)
    }

    const fn of(flag: c_int) -> Self {
        Self(flag.cast_unsigned() as u64)
    }
}

/// Which of the two processes returned.
#[derive(Debug)]
pub(crate) enum Cloned {
    /// The one that called.
    Parent {
        /// The child, as the caller's PID namespace numbers it.
        pid: Pid,
        /// The child, as a descriptor that becomes readable when it ends. It is closed on exec.
        pidfd: OwnedFd,
    },
    /// The new one, with a copy of the caller's memory and descriptors.
    Child,
}

/// Clones the calling process into new `namespaces` and, on cgroup v2, into `cgroup` (an open
/// directory).
///
/// # Errors
/// EPERM where the host forbids user namespaces, ENOSPC where it limits them, EBUSY or EACCES for
/// `cgroup`; and an error without a number when the process has several threads. Then there is no
/// child.
pub(crate) fn clone_sandbox(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Cloned> {
    require_single_thread()?;
    // SAFETY: the process has no other thread, as just asked, and only another thread could start
    // one.
    unsafe { clone_unchecked(namespaces, cgroup) }
}

/// [`clone_sandbox`] without its question whether the process has threads.
///
/// # Safety
/// Where the process has several threads, the child may use only what signal-safety(7) lists until
/// it execs or exits: the other threads are gone and the locks that they held stay locked.
pub(crate) unsafe fn clone_unchecked(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Cloned> {
    let mut pidfd: c_int = -1;
    let args = arguments(namespaces, cgroup, &mut pidfd);
    // SAFETY: clone3 reads `size_of::<clone_args>()` bytes from `args` and writes one descriptor to
    // `pidfd`, both on this stack frame; without CLONE_VM and with no stack given, the child
    // continues on its own copy of this stack.
    // JUSTIFICATION: std::process makes no namespaces, and clone(2) cannot join a cgroup.
    let returned = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) };
    let Some(pid) = as_pid(super::checked(returned)?) else {
        return Ok(Cloned::Child);
    };
    // SAFETY: clone3 succeeded in the parent, so it wrote a new descriptor that nobody else knows.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Cloned::Parent { pid, pidfd })
}

fn arguments(
    namespaces: Namespaces,
    cgroup: Option<BorrowedFd<'_>>,
    pidfd: &mut c_int,
) -> libc::clone_args {
    let into_cgroup = if cgroup.is_some() { CLONE_INTO_CGROUP } else { 0 };
    libc::clone_args {
        flags: namespaces.0 | CLONE_PIDFD | into_cgroup,
        pidfd: ptr::from_mut(pidfd).expose_provenance() as u64,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: u64::from(libc::SIGCHLD.cast_unsigned()),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: cgroup.map_or(0, |fd| u64::from(fd.as_raw_fd().cast_unsigned())),
    }
}

/// linux/sched.h.
const CLONE_PIDFD: u64 = 0x1000;
/// linux/sched.h, Linux 5.7; it does not fit the `c_int` that libc gives it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Fails when the process has several threads.
///
/// It asks the kernel to undo the sharing of memory among threads, which does nothing where there
/// is one and is refused where there are more (unshare(2), `CLONE_VM`).
fn require_single_thread() -> io::Result<()> {
    // SAFETY: unshare takes no pointer, and CLONE_VM changes nothing whether it succeeds or fails.
    let returned = unsafe { libc::unshare(libc::CLONE_VM) };
    match super::checked(returned.into()) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            Err(io::Error::other("a process with several threads cannot be cloned"))
        }
        other => other.map(drop),
    }
}

/// Returns the child's pid, or `None` in the child.
fn as_pid(returned: libc::c_long) -> Option<Pid> {
    let raw = i32::try_from(returned).expect("the kernel's pids have 22 bits");
    Pid::from_raw(raw)
}

/// Memory for the stack of one process at a time, above a page that faults.
#[derive(Debug)]
pub(crate) struct Stack {
    base: *mut c_void,
    length: usize,
}

/// The page of x86-64.
const PAGE_BYTES: usize = 4096;

impl Stack {
    /// Maps a stack of at least `bytes`, rounded up to pages.
    ///
    /// # Errors
    /// ENOMEM.
    pub(crate) fn new(bytes: usize) -> io::Result<Self> {
        let length = bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory that exists.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let stack = Self { base, length };
        // SAFETY: the page at `base` is the lowest of the mapping above, and nobody uses it yet.
        let returned = unsafe { libc::mprotect(base, PAGE_BYTES, libc::PROT_NONE) };
        super::checked(returned.into())?;
        Ok(stack)
    }

    /// Returns the address just above, from where a stack grows down; page alignment is more than
    /// the ABI asks for.
    fn top(&mut self) -> *mut c_void {
        self.base.wrapping_byte_add(self.length)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours alone, and no process uses it: `vfork_on` borrows it until
        // its child is gone.
        unsafe { libc::munmap(self.base, self.length) };
    }
}

/// Runs `entry(argument)` in a new process that shares the caller's memory, on `stack`, and returns
/// when that process has called `execve` or exited. What `entry` returns is the child's exit code.
///
/// The child has its own descriptors, working directory and signal dispositions, and it sees the
/// caller's thread-local data, `errno` included.
///
/// # Errors
/// EAGAIN at the limit of processes, ENOMEM. Then `entry` has not run.
///
/// # Safety
/// - `entry` allocates nothing, takes no lock and does not unwind, and neither does what it calls:
///   the memory it would leave behind is the caller's.
/// - `argument` is what `entry` expects, and stays so until this function returns.
/// - `stack` is large enough for `entry`; its guard page turns an overflow into SIGSEGV of the
///   child.
/// - All signals are blocked (`signal::SignalSet::ALL`), or no handler is installed: a handler
///   would run in both processes on the same memory.
pub(crate) unsafe fn vfork_on(
    stack: &mut Stack,
    entry: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<Pid> {
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `stack.top()` is the end of a writable mapping that nobody else uses, borrowed until
    // the child has left this memory (CLONE_VFORK); the flags ask for none of the optional
    // arguments; the caller vouches for `entry`.
    // JUSTIFICATION: fork costs 100 us more (measured, Linux 6.18), and posix_spawn cannot apply
    // Landlock or seccomp.
    let returned = unsafe { libc::clone(entry, stack.top(), flags, argument) };
    let returned = super::checked(returned.into())?;
    Ok(as_pid(returned).expect("clone returns only in the parent"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::*;
    use crate::sys::process::{self, Ended};
    use crate::sys::signal::SignalSet;

    /// Runs `body` in a forked child of the threaded test process and returns how it ended.
    ///
    /// `body` may use only what signal-safety(7) lists: system calls and memory that exists.
    pub(crate) fn in_child(body: impl FnOnce() -> u8) -> Ended {
        // SAFETY: every body in this crate keeps to the sentence above.
        match unsafe { clone_unchecked(Namespaces::NONE, None) }.expect("fork") {
            Cloned::Parent { pid, .. } => {
                process::wait(pid).expect("the child can be waited for").ended
            }
            Cloned::Child => process::exit_now(body()),
        }
    }

    #[test]
    fn a_threaded_process_is_refused() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let error = clone_sandbox(Namespaces::NONE, None).expect_err("two threads");
                assert_eq!(error.to_string(), "a process with several threads cannot be cloned");
            });
        });
    }

    #[test]
    fn a_single_thread_is_accepted() {
        let ended = in_child(|| u8::from(require_single_thread().is_err()));
        assert_eq!(ended, Ended::Exited(0));
    }

    #[test]
    fn a_sandbox_begins_at_pid_1_and_its_pidfd_reports_the_end() {
        // SAFETY: the child makes two system calls.
        match unsafe { clone_unchecked(Namespaces::SANDBOX, None) }.expect("user namespaces") {
            Cloned::Child => process::exit_now(u8::from(rustix::process::getpid() == Pid::INIT)),
            Cloned::Parent { pid, pidfd } => {
                let mut ready = [rustix::event::PollFd::new(&pidfd, rustix::event::PollFlags::IN)];
                assert_eq!(rustix::event::poll(&mut ready, None).expect("poll"), 1);
                assert_eq!(process::wait(pid).expect("wait").ended, Ended::Exited(1));
            }
        }
    }

    extern "C" fn store(argument: *mut c_void) -> c_int {
        // SAFETY: the tests pass a pointer to an `AtomicI32` that outlives the child.
        let cell = unsafe { &*argument.cast::<AtomicI32>() };
        cell.store(41, Ordering::SeqCst);
        7
    }

    extern "C" fn overflow(_: *mut c_void) -> c_int {
        std::hint::black_box([0_u8; 128 << 10]);
        0
    }

    /// Runs `entry` on a stack of 64 KiB and returns how it ended and what it stored.
    fn vfork(entry: extern "C" fn(*mut c_void) -> c_int) -> (Ended, i32) {
        let mut stack = Stack::new(64 << 10).expect("a stack");
        let cell = AtomicI32::new(0);
        let argument = (&raw const cell).cast_mut().cast::<c_void>();
        let before = SignalSet::ALL.block().expect("block");
        // SAFETY: both entries only touch their stack and the cell, which outlives the call;
        // signals are blocked.
        let pid = unsafe { vfork_on(&mut stack, entry, argument) }.expect("vfork");
        before.set().expect("restore");
        (process::wait(pid).expect("wait").ended, cell.into_inner())
    }

    #[test]
    fn a_vforked_child_shares_memory_and_has_ended_when_the_call_returns() {
        assert_eq!(vfork(store), (Ended::Exited(7), 41));
    }

    #[test]
    fn the_guard_page_stops_an_overflow() {
        assert_eq!(vfork(overflow).0, Ended::Killed(libc::SIGSEGV));
    }
}
