//! Which system call of a payload gets which verdict: the one table that filter, tests and
//! documentation read.
//!
//! It says nothing about calls that it does not list, which are answered with ENOSYS: libraries
//! treat that as "an older kernel" and fall back, also from calls that a future kernel adds.
//! Compared with Docker's default profile (moby/profiles `seccomp/default.json`, 2025, without
//! capabilities) it refuses more, and allows more only in what reaches no further than the
//! caller: NUMA policies, `process_madvise`, and `unshare` without a namespace.

use libc::c_long;

/// What happens to a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// The kernel runs it.
    Allow,
    /// It fails with this error and does nothing.
    Refuse(Errno),
    /// Allowed where every condition of at least one clause holds, otherwise refused.
    AllowWhen(&'static [Clause], Errno),
    /// Refused where every condition of at least one clause holds, otherwise allowed.
    RefuseWhen(&'static [Clause], Errno),
}

/// How a refused call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    /// EPERM: the call exists and a payload may not use it.
    NotPermitted,
    /// ENOSYS: as if this kernel did not have the call, so that libraries fall back to an older
    /// one.
    NotImplemented,
    /// EAFNOSUPPORT: as if this kernel were built without the socket family, which libraries expect
    /// and skip.
    FamilyNotSupported,
}

impl Errno {
    /// Returns the number of errno(3).
    pub(crate) const fn number(self) -> u16 {
        match self {
            Self::NotPermitted => 1,
            Self::NotImplemented => 38,
            Self::FamilyNotSupported => 97,
        }
    }
}

/// Conditions that have to hold together.
pub(crate) type Clause = &'static [Condition];

/// A test of the low 32 bits of one argument.
///
/// Only for arguments that the kernel itself reads as 32 bits (`int`, `unsigned int`, the flags of
/// `clone`) or whose higher bits it refuses (the flags of `unshare`); otherwise the bits that are
/// not looked at would be a way around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    /// Position of the argument, 0 to 5.
    pub(crate) argument: u8,
    /// What has to be true of it.
    pub(crate) test: Test,
}

/// What a [`Condition`] asks of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Test {
    /// It is this value.
    Equals(u32),
    /// At least one of these bits is set.
    AnyBit(u32),
}

/// A system call of 64-bit x86.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syscall {
    /// The name of the constant, `SYS_` included.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests name a call by it"))]
    pub(crate) name: &'static str,
    /// The number of syscall(2).
    pub(crate) number: u32,
}

impl Syscall {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "asserted")]
    const fn new(name: &'static str, number: c_long) -> Self {
        assert!(number >= 0 && number < 0x1_0000, "a system call number is small");
        Self { name, number: number as u32 }
    }
}

/// System calls with one verdict, for one reason.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// Why they get it.
    pub(crate) reason: &'static str,
    /// What they get.
    pub(crate) verdict: Verdict,
    /// The calls.
    pub(crate) calls: &'static [Syscall],
}

/// The `SYS_` constants of 64-bit x86.
#[expect(non_upper_case_globals, reason = "the names of the libc crate, which lacks these two")]
mod number {
    pub(super) use libc::*;

    /// Linux 4.18.
    pub(super) const SYS_io_pgetevents: c_long = 333;
    /// Linux 6.11.
    pub(super) const SYS_uretprobe: c_long = 335;
}

/// Names system calls by their `SYS_` constants.
macro_rules! calls {
    ($($name:ident)*) => {
        &[$(Syscall::new(stringify!($name), number::$name)),*]
    };
}

/// Tests whether argument `argument` is `value`.
const fn equals(argument: u8, value: u32) -> Condition {
    Condition { argument, test: Test::Equals(value) }
}

/// Tests whether argument `argument` has one of `bits` set.
const fn any_bit(argument: u8, bits: u32) -> Condition {
    Condition { argument, test: Test::AnyBit(bits) }
}

/// `CLONE_NEWNS`, `NEWCGROUP`, `NEWUTS`, `NEWIPC`, `NEWUSER`, `NEWPID`, `NEWNET` (sched.h).
const NEW_NAMESPACES: u32 = 0x7e02_0000;
/// `CLONE_NEWTIME`: a flag of `unshare`; in `clone` the same bit belongs to the exit signal.
const NEW_TIME_NAMESPACE: u32 = 0x80;

/// `AF_UNIX`, `AF_INET`, `AF_INET6`, and `AF_NETLINK` for `NETLINK_ROUTE`, which lists interfaces.
const LOCAL_AND_INTERNET: &[Clause] =
    &[&[equals(0, 1)], &[equals(0, 2)], &[equals(0, 10)], &[equals(0, 16), equals(2, 0)]];
/// `AF_UNIX`.
const LOCAL: &[Clause] = &[&[equals(0, 1)]];
/// `PER_LINUX`, `PER_LINUX32`, each also with `UNAME26`, and the question which one is set.
const PERSONALITIES: &[Clause] = &[
    &[equals(0, 0)],
    &[equals(0, 0x8)],
    &[equals(0, 0x2_0000)],
    &[equals(0, 0x2_0008)],
    &[equals(0, 0xffff_ffff)],
];
/// `TIOCSTI` and `TIOCLINUX` (ioctl_tty(2)).
const TERMINAL_INPUT: &[Clause] = &[&[equals(1, 0x5412)], &[equals(1, 0x541c)]];
/// `PR_SET_MM` (prctl(2)).
const MEMORY_MAP: &[Clause] = &[&[equals(0, 35)]];

/// The filter: what is not listed gets [`Errno::NotImplemented`].
pub(crate) const TABLE: &[Group] = &[
    Group {
        reason: "files, by path or descriptor: mounts and Landlock decide which",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_open SYS_openat SYS_openat2 SYS_creat SYS_close SYS_close_range
            SYS_stat SYS_fstat SYS_lstat SYS_newfstatat SYS_statx SYS_statfs SYS_fstatfs
            SYS_access SYS_faccessat SYS_faccessat2
            SYS_getdents SYS_getdents64 SYS_getcwd SYS_chdir SYS_fchdir SYS_umask
            SYS_rename SYS_renameat SYS_renameat2 SYS_mkdir SYS_mkdirat SYS_rmdir
            SYS_link SYS_linkat SYS_unlink SYS_unlinkat SYS_symlink SYS_symlinkat
            SYS_readlink SYS_readlinkat SYS_truncate SYS_ftruncate SYS_fallocate
            SYS_chmod SYS_fchmod SYS_fchmodat SYS_fchmodat2
            SYS_chown SYS_fchown SYS_lchown SYS_fchownat
            SYS_utime SYS_utimes SYS_futimesat SYS_utimensat
            SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_getxattr SYS_lgetxattr SYS_fgetxattr
            SYS_listxattr SYS_llistxattr SYS_flistxattr
            SYS_removexattr SYS_lremovexattr SYS_fremovexattr
        ],
    },
    Group {
        reason: "FIFOs and sockets; device nodes need a capability that no payload has",
        verdict: Verdict::Allow,
        calls: calls![SYS_mknod SYS_mknodat],
    },
    Group {
        reason: "reading, writing and copying through open descriptors",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_read SYS_write SYS_readv SYS_writev SYS_lseek
            SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_preadv2 SYS_pwritev2
            SYS_sendfile SYS_copy_file_range SYS_splice SYS_tee SYS_vmsplice
            SYS_dup SYS_dup2 SYS_dup3 SYS_fcntl SYS_flock SYS_pipe SYS_pipe2
            SYS_fsync SYS_fdatasync SYS_sync SYS_syncfs SYS_sync_file_range
            SYS_fadvise64 SYS_readahead
            SYS_io_setup SYS_io_destroy SYS_io_submit SYS_io_cancel SYS_io_getevents
            SYS_io_pgetevents
        ],
    },
    Group {
        reason: "waiting for descriptors",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_poll SYS_ppoll SYS_select SYS_pselect6
            SYS_epoll_create SYS_epoll_create1 SYS_epoll_ctl
            SYS_epoll_wait SYS_epoll_pwait SYS_epoll_pwait2
            SYS_eventfd SYS_eventfd2 SYS_signalfd SYS_signalfd4
            SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime
            SYS_inotify_init SYS_inotify_init1 SYS_inotify_add_watch SYS_inotify_rm_watch
        ],
    },
    Group {
        reason: "the caller's own memory; rlimits and the memory limit bound it",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_mmap SYS_mprotect SYS_munmap SYS_mremap SYS_brk SYS_msync SYS_mincore SYS_madvise
            SYS_process_madvise SYS_mseal SYS_remap_file_pages SYS_memfd_create
            SYS_mlock SYS_mlock2 SYS_munlock SYS_mlockall SYS_munlockall
            SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free
            SYS_mbind SYS_set_mempolicy SYS_get_mempolicy SYS_set_mempolicy_home_node
        ],
    },
    Group {
        reason: "processes and threads of the own PID namespace",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_fork SYS_vfork SYS_execve SYS_execveat SYS_exit SYS_exit_group
            SYS_wait4 SYS_waitid SYS_getpid SYS_getppid SYS_gettid SYS_set_tid_address
            SYS_getpgid SYS_setpgid SYS_getpgrp SYS_getsid SYS_setsid
            SYS_pidfd_open SYS_pidfd_send_signal SYS_process_mrelease
            SYS_arch_prctl SYS_futex SYS_futex_waitv SYS_set_robust_list SYS_get_robust_list
            SYS_rseq SYS_membarrier SYS_getcpu
        ],
    },
    Group {
        reason: "a new namespace would give capabilities back; threads and processes may be made",
        verdict: Verdict::RefuseWhen(&[&[any_bit(0, NEW_NAMESPACES)]], Errno::NotPermitted),
        calls: calls![SYS_clone],
    },
    Group {
        reason: "as clone; a thread may still take its own descriptors and working directory",
        verdict: Verdict::RefuseWhen(
            &[&[any_bit(0, NEW_NAMESPACES | NEW_TIME_NAMESPACE)]],
            Errno::NotPermitted,
        ),
        calls: calls![SYS_unshare],
    },
    Group {
        reason: "its flags are behind a pointer that no filter can read; libc falls back to clone",
        verdict: Verdict::Refuse(Errno::NotImplemented),
        calls: calls![SYS_clone3],
    },
    Group {
        reason: "signals, which reach the own PID namespace only",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigpending
            SYS_rt_sigtimedwait SYS_rt_sigsuspend SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo
            SYS_sigaltstack SYS_kill SYS_tkill SYS_tgkill SYS_pause SYS_restart_syscall
        ],
    },
    Group {
        reason: "not made by the program but by a probe that the host put into it",
        verdict: Verdict::Allow,
        calls: calls![SYS_uretprobe],
    },
    Group {
        reason: "time; setting it needs a capability, reading it with adjtimex does not",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_time SYS_gettimeofday SYS_times SYS_adjtimex SYS_clock_adjtime
            SYS_clock_gettime SYS_clock_getres SYS_clock_nanosleep SYS_nanosleep
            SYS_alarm SYS_getitimer SYS_setitimer SYS_timer_create SYS_timer_settime
            SYS_timer_gettime SYS_timer_getoverrun SYS_timer_delete
        ],
    },
    Group {
        reason: "the caller's ids and capabilities: a payload can only give up what it has",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getresuid SYS_getresgid
            SYS_setuid SYS_setgid SYS_setreuid SYS_setregid SYS_setresuid SYS_setresgid
            SYS_setfsuid SYS_setfsgid SYS_getgroups SYS_setgroups SYS_capget SYS_capset
        ],
    },
    Group {
        reason: "narrowing oneself further; sandboxes nest",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_seccomp SYS_landlock_create_ruleset SYS_landlock_add_rule
            SYS_landlock_restrict_self
        ],
    },
    Group {
        reason: "limits, priorities and facts; widening them needs a capability",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_getrlimit SYS_setrlimit SYS_prlimit64 SYS_getrusage SYS_sysinfo SYS_uname
            SYS_getpriority SYS_setpriority SYS_ioprio_get SYS_ioprio_set
            SYS_sched_yield SYS_sched_getaffinity SYS_sched_getparam SYS_sched_setparam
            SYS_sched_getscheduler SYS_sched_setscheduler SYS_sched_getattr SYS_sched_setattr
            SYS_sched_get_priority_max SYS_sched_get_priority_min SYS_sched_rr_get_interval
            SYS_getrandom
        ],
    },
    Group {
        reason: "sockets that exist; the network namespace decides whom they reach",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_connect SYS_bind SYS_listen SYS_accept SYS_accept4 SYS_shutdown
            SYS_sendto SYS_sendmsg SYS_sendmmsg SYS_recvfrom SYS_recvmsg SYS_recvmmsg
            SYS_getsockname SYS_getpeername SYS_setsockopt SYS_getsockopt
        ],
    },
    Group {
        reason: "other families reach around the namespaces (vsock) or are rarely tested code",
        verdict: Verdict::AllowWhen(LOCAL_AND_INTERNET, Errno::FamilyNotSupported),
        calls: calls![SYS_socket],
    },
    Group {
        reason: "as socket; it makes a socket of any family before it finds no way to pair it",
        verdict: Verdict::AllowWhen(LOCAL, Errno::FamilyNotSupported),
        calls: calls![SYS_socketpair],
    },
    Group {
        reason: "System V and POSIX objects of the own IPC namespace",
        verdict: Verdict::Allow,
        calls: calls![
            SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_semget SYS_semop SYS_semtimedop
            SYS_semctl SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_mq_open SYS_mq_unlink
            SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr
        ],
    },
    Group {
        reason: "typing into the caller's terminal would run commands outside",
        verdict: Verdict::RefuseWhen(TERMINAL_INPUT, Errno::NotPermitted),
        calls: calls![SYS_ioctl],
    },
    Group {
        reason: "rewriting what /proc says about the own memory and executable",
        verdict: Verdict::RefuseWhen(MEMORY_MAP, Errno::NotPermitted),
        calls: calls![SYS_prctl],
    },
    Group {
        reason: "others are old, rarely tested code, or switch address randomisation off",
        verdict: Verdict::AllowWhen(PERSONALITIES, Errno::NotPermitted),
        calls: calls![SYS_personality],
    },
    Group {
        reason: "the mount tree is the boundary",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![
            SYS_mount SYS_umount2 SYS_pivot_root SYS_chroot SYS_open_tree SYS_move_mount
            SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick SYS_mount_setattr
        ],
    },
    Group {
        reason: "entering another namespace",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![SYS_setns],
    },
    Group {
        reason: "opening files around the mount tree, or watching those of others",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![SYS_open_by_handle_at SYS_fanotify_init],
    },
    Group {
        reason: "reaching into other processes: a second command of a workspace is another job",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![
            SYS_ptrace SYS_process_vm_readv SYS_process_vm_writev SYS_kcmp SYS_pidfd_getfd
        ],
    },
    Group {
        reason: "keyrings are not namespaced: the session's keys are the host's",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![SYS_add_key SYS_request_key SYS_keyctl],
    },
    Group {
        reason: "large kernel interfaces in which most local privilege escalations were found",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![
            SYS_bpf SYS_perf_event_open SYS_userfaultfd SYS_lookup_dcookie
            SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register
        ],
    },
    Group {
        reason: "affinity is how whole cores are enforced without a cgroup",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![SYS_sched_setaffinity],
    },
    Group {
        reason: "administration of the host",
        verdict: Verdict::Refuse(Errno::NotPermitted),
        calls: calls![
            SYS_init_module SYS_finit_module SYS_delete_module SYS_kexec_load SYS_kexec_file_load
            SYS_reboot SYS_swapon SYS_swapoff SYS_acct SYS_quotactl SYS_quotactl_fd
            SYS_settimeofday SYS_clock_settime SYS_sethostname SYS_setdomainname
            SYS_iopl SYS_ioperm SYS_syslog SYS_vhangup SYS_nfsservctl
        ],
    },
];
