//! Tries one thing that a sandbox has to prevent, and says whether it worked.
//!
//! The claims tests run it inside a sandbox and, as the positive control, outside: a thing that is refused in both
//! places proves nothing. It prints exactly one line and never decides what ought to happen.
//!
//! `probe NAME [ARGS]` prints `probe NAME: reached` (exit 0), `probe NAME: refused ERRNO` (exit 1; `ABSENT` where
//! there was nothing to reach and so no errno), or `probe NAME: broken WHY` (exit 3) when it could not try.
#![expect(unsafe_code, reason = "system calls that no safe wrapper makes, on purpose")]
#![expect(clippy::print_stdout, reason = "one line is all that it does")]

use std::ffi::{CStr, CString, c_int, c_long, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr;
use std::time::Duration;

/// What came of an attempt.
enum Outcome {
    /// It worked; the word says on what, where that matters.
    Reached(String),
    /// The kernel refused.
    Refused(c_int),
    /// There was nothing to reach.
    Absent,
    /// It could not be tried.
    Broken(String),
}

use Outcome::{Absent, Broken, Reached, Refused};

/// One thing to try.
struct Probe {
    name: &'static str,
    /// The words that it takes.
    args: &'static str,
    /// What is reached when it works.
    about: &'static str,
    run: fn(&[String]) -> Outcome,
}

const fn probe(
    name: &'static str,
    args: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Outcome,
) -> Probe {
    Probe { name, args, about, run }
}

/// Everything that can be tried.
const PROBES: &[Probe] = &[
    probe("net-connect", "ADDR:PORT", "a TCP connection", net_connect),
    probe("net-udp", "ADDR:PORT", "a UDP datagram that leaves", net_udp),
    probe("net-interfaces", "", "an interface besides lo", net_interfaces),
    probe("abstract-socket", "NAME", "an abstract unix socket", abstract_socket),
    probe("unix-socket", "PATH", "a unix socket with a path", unix_socket),
    probe("vsock", "", "a socket to the hypervisor", vsock),
    probe("packet", "", "a raw packet socket", packet),
    probe("raw", "", "a raw IP socket", raw),
    probe("netfilter", "", "a netlink socket to netfilter", netfilter),
    probe("uevent", "", "a netlink socket for the events of devices", uevent),
    probe("read-file", "PATH", "a byte of a file", read_file),
    probe("list-dir", "PATH", "the names in a directory", list_dir),
    probe("write-file", "PATH", "a file that is made or appended to", write_file),
    probe("open-write", "PATH", "a file, open for writing", open_write),
    probe("write-elsewhere", "", "a place to write, besides those of a job", write_elsewhere),
    probe("hard-link", "PATH", "a hard link to a file, in the working directory", hard_link),
    probe("file-handle", "", "a file by its handle, around all paths", file_handle),
    probe("devices", "", "a name in /dev besides those of a job", devices),
    probe("proc-root", "PATH", "an absolute path below the root of process 1", proc_root),
    probe("sysfs", "", "the kernel's part of sysfs", sysfs),
    probe("cgroup-write", "", "a writable list of a cgroup's processes", cgroup_write),
    probe("proc-sys-write", "", "core_pattern, open for writing", proc_sys_write),
    probe("dev-kmsg", "", "the kernel's log", dev_kmsg),
    probe("see-host-process", "NAME", "a process of that name in /proc", see_host_process),
    probe("proc-environ", "NAME", "a variable of that name in another process", proc_environ),
    probe("kill", "PID", "the permission to signal a process", kill),
    probe("shared-memory", "ID", "a System V shared memory segment", shared_memory),
    probe("ptrace", "", "tracing an own child", ptrace),
    probe("ptrace-init", "", "tracing process 1", ptrace_init),
    probe("process-vm", "", "the memory of an own child", process_vm),
    probe("setns-init", "", "the mount namespace of process 1", setns_init),
    probe("dumpable", "", "the environment of process 1", dumpable),
    probe("init-memory", "", "the memory of process 1", init_memory),
    probe("mount-tmpfs", "", "a tmpfs over the working directory", mount_tmpfs),
    probe("mount-bind", "", "a bind mount of the working directory", mount_bind),
    probe("new-mount-api", "", "a file system context of fsopen", new_mount_api),
    probe("open-tree", "", "a detached copy of the working directory's mount", open_tree),
    probe("remount", "", "other attributes of a mount", remount),
    probe("umount", "", "the permission to unmount", umount),
    probe("pivot-root", "", "another root by pivot_root", pivot_root),
    probe("chroot", "", "another root by chroot", chroot),
    probe("mknod-device", "", "a device file, made in the working directory", mknod_device),
    probe("mknod-whiteout", "", "an overlay's whiteout, a device 0:0", mknod_whiteout),
    probe("userns", "", "a user namespace by unshare", userns),
    probe("userns-clone", "", "a user namespace by clone", userns_clone),
    probe("clone3-userns", "", "a user namespace by clone3", clone3_userns),
    probe("setuid-root", "", "user id 0", setuid_root),
    probe("caps", "", "a capability in any set", caps),
    probe("caps-effective", "", "an effective capability", caps_effective),
    probe("no-new-privs", "", "a process without no_new_privs", no_new_privs),
    probe("seccomp-mode", "", "a process without a seccomp filter", seccomp_mode),
    probe("foreign-arch", "", "a system call of 32-bit x86", foreign_arch),
    probe("keyring", "", "a kernel keyring", keyring),
    probe("io-uring", "", "an io_uring", io_uring),
    probe("bpf", "", "a bpf map", bpf),
    probe("perf", "", "a performance counter", perf),
    probe("userfaultfd", "", "a userfaultfd", userfaultfd),
    probe("module", "", "the permission to load a module", module),
    probe("kexec", "", "the permission to load a kernel", kexec),
    probe("sethostname", "", "the host name, set to itself", sethostname),
    probe("affinity", "", "an affinity to all cores", affinity),
    probe("tiocsti", "", "a character pushed into a terminal", tiocsti),
    probe("tiocsti-high", "", "the same by a number with a high bit", tiocsti_high),
    probe("fds", "", "a descriptor beyond 0-2", fds),
    probe("env", "NAME", "a variable of that name", env),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(probe) = words.first().and_then(|name| PROBES.iter().find(|p| p.name == name)) else {
        return usage();
    };
    let args = &words[1..];
    let wanted = usize::from(!probe.args.is_empty());
    let outcome = if args.len() == wanted {
        (probe.run)(args)
    } else {
        Broken(format!("usage: probe {} {}", probe.name, probe.args))
    };
    say(probe.name, &outcome)
}

/// Prints the line and returns the code of `outcome`.
fn say(name: &str, outcome: &Outcome) -> ExitCode {
    let (words, code) = match outcome {
        Reached(what) => (format!("reached {what}"), 0),
        Refused(errno) => (format!("refused {}", errno_name(*errno)), 1),
        Absent => ("refused ABSENT".into(), 1),
        Broken(why) => (format!("broken {why}"), 3),
    };
    println!("probe {name}: {}", words.trim_end());
    ExitCode::from(code)
}

fn usage() -> ExitCode {
    for probe in PROBES {
        println!("probe {} {}: {}", probe.name, probe.args, probe.about);
    }
    ExitCode::from(3)
}

// What the probes share.

/// The names that errno(3) gives to what a refusal can be here.
fn errno_name(errno: c_int) -> String {
    let name = match errno {
        KILLED_BY_FILTER => "SIGSYS",
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::ESRCH => "ESRCH",
        libc::EIO => "EIO",
        libc::ENXIO => "ENXIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EFAULT => "EFAULT",
        libc::EBUSY => "EBUSY",
        libc::EXDEV => "EXDEV",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENOTTY => "ENOTTY",
        libc::ENOSPC => "ENOSPC",
        libc::EROFS => "EROFS",
        libc::ELOOP => "ELOOP",
        libc::ENOSYS => "ENOSYS",
        libc::EUSERS => "EUSERS",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::ESOCKTNOSUPPORT => "ESOCKTNOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ECONNRESET => "ECONNRESET",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        _ => return format!("errno-{errno}"),
    };
    name.into()
}

/// Returns the errno that the last call of this thread left.
fn last_errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL)
}

fn refused(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(errno) => Refused(errno),
        None if error.kind() == io::ErrorKind::TimedOut => Refused(libc::ETIMEDOUT),
        None => Broken(error.to_string()),
    }
}

fn reached() -> Outcome {
    Reached(String::new())
}

/// Turns what a call of `std` returned into an outcome.
fn outcome<T>(result: io::Result<T>) -> Outcome {
    result.map_or_else(|error| refused(&error), |_| reached())
}

/// Turns what a system call returned into an outcome: below 0 is a refusal.
fn called(returned: c_long) -> Outcome {
    if returned < 0 { Refused(last_errno()) } else { reached() }
}

/// Like [`called`], and closes the descriptor that was returned.
fn opened(returned: c_long) -> Outcome {
    let outcome = called(returned);
    if let (Reached(_), Ok(fd)) = (&outcome, c_int::try_from(returned)) {
        // SAFETY: the kernel returned this descriptor a moment ago and nothing else holds it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    outcome
}

/// Calls a kernel function that takes up to three plain numbers and returns no pointer.
fn numbers(call: c_long, first: c_long, second: c_long, third: c_long) -> c_long {
    // SAFETY: every caller passes the number of a call whose arguments are numbers, so no memory is read or written.
    unsafe { libc::syscall(call, first, second, third) }
}

/// Runs `attempt` in a child, so that what it changes ends with the child.
fn in_child(attempt: impl FnOnce() -> Outcome) -> Outcome {
    // SAFETY: this program has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Broken(format!("fork: {}", errno_name(last_errno()))),
        0 => leave(match attempt() {
            Reached(_) => 0,
            Refused(errno) => errno,
            Absent | Broken(_) => CHILD_BROKE,
        }),
        child => match wait(child) {
            Ok(0) => reached(),
            Ok(CHILD_BROKE) => Broken("the child could not try".into()),
            Ok(errno) => Refused(errno),
            Err(libc::SIGSYS) => Refused(KILLED_BY_FILTER),
            Err(signal) => Broken(format!("signal {signal} killed the child")),
        },
    }
}

/// Stands for the signal with which a seccomp filter kills; no errno is below 0.
const KILLED_BY_FILTER: c_int = -1;

/// The exit code of a child that could not try; no errno is as large.
const CHILD_BROKE: c_int = 255;

/// Ends this process without running what the parent has registered.
fn leave(code: c_int) -> ! {
    // SAFETY: `_exit` has no precondition.
    unsafe { libc::_exit(code) }
}

/// Reaps `child` and returns its exit code, or else the signal that ended it.
fn wait(child: libc::pid_t) -> Result<c_int, c_int> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the call's whole duration.
    let reaped = unsafe { libc::waitpid(child, &raw mut status, 0) };
    if reaped == child && libc::WIFEXITED(status) {
        Ok(libc::WEXITSTATUS(status))
    } else {
        Err(libc::WTERMSIG(status))
    }
}

/// Makes a child that sleeps until it is killed, and hands it to `attempt`.
fn with_sleeper(attempt: impl FnOnce(libc::pid_t) -> Outcome) -> Outcome {
    // SAFETY: this program has one thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Broken(format!("fork: {}", errno_name(last_errno()))),
        0 => loop {
            std::thread::sleep(Duration::from_secs(1));
        },
        child => {
            let outcome = attempt(child);
            // SAFETY: `child` is our child and not yet reaped, so the pid is nobody else's.
            unsafe { libc::kill(child, libc::SIGKILL) };
            wait(child).ok();
            outcome
        }
    }
}

/// Returns the value of `key` in `/proc/self/status`.
fn status(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("an argument holds no NUL")
}

// The network.

fn net_connect(args: &[String]) -> Outcome {
    let Ok(address) = args[0].parse::<SocketAddr>() else {
        return Broken("not ADDR:PORT".into());
    };
    outcome(TcpStream::connect_timeout(&address, Duration::from_secs(2)))
}

fn net_udp(args: &[String]) -> Outcome {
    let Ok(address) = args[0].parse::<SocketAddr>() else {
        return Broken("not ADDR:PORT".into());
    };
    let any = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let sent = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(address)?;
        socket.send(b"probe")
    });
    outcome(sent)
}

fn net_interfaces(_: &[String]) -> Outcome {
    let table = match fs::read_to_string("/proc/self/net/dev") {
        Ok(table) => table,
        Err(error) => return refused(&error),
    };
    // Two lines of headings (proc_pid_net(5)).
    let names = table.lines().skip(2).filter_map(|line| line.split_once(':'));
    let others: Vec<&str> =
        names.map(|(name, _)| name.trim()).filter(|name| *name != "lo").collect();
    if others.is_empty() { Absent } else { Reached(others.join(" ")) }
}

fn abstract_socket(args: &[String]) -> Outcome {
    let address = UnixAddr::from_abstract_name(&args[0]);
    outcome(address.and_then(|address| UnixStream::connect_addr(&address)))
}

fn socket(family: c_int, kind: c_int, protocol: c_int) -> Outcome {
    opened(numbers(libc::SYS_socket, family.into(), kind.into(), protocol.into()))
}

fn unix_socket(args: &[String]) -> Outcome {
    outcome(UnixStream::connect(&args[0]))
}

fn vsock(_: &[String]) -> Outcome {
    socket(libc::AF_VSOCK, libc::SOCK_STREAM, 0)
}

fn packet(_: &[String]) -> Outcome {
    socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
}

fn raw(_: &[String]) -> Outcome {
    socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
}

fn netfilter(_: &[String]) -> Outcome {
    socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_NETFILTER)
}

fn uevent(_: &[String]) -> Outcome {
    socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_KOBJECT_UEVENT)
}

// Files.

/// An empty file is nothing to reach: that is how entries of `/proc` are masked.
fn read_file(args: &[String]) -> Outcome {
    match File::open(&args[0]).and_then(|mut file| file.read(&mut [0; 1])) {
        Ok(0) => Absent,
        other => outcome(other),
    }
}

fn list_dir(args: &[String]) -> Outcome {
    outcome(fs::read_dir(&args[0]).and_then(|mut entries| entries.next().transpose()))
}

fn write_file(args: &[String]) -> Outcome {
    let file = OpenOptions::new().append(true).create(true).open(&args[0]);
    outcome(file.and_then(|mut file| file.write_all(b"probe\n")))
}

/// Opens `path` for writing and writes nothing.
fn open_to_write(path: &str) -> Outcome {
    outcome(OpenOptions::new().write(true).open(path))
}

fn open_write(args: &[String]) -> Outcome {
    open_to_write(&args[0])
}

/// Where a job may write, and the kernel's own file systems, which other probes try.
const WRITABLE: [&str; 5] = ["/workspace", "/tmp", "/dev/shm", "/proc", "/sys"];

/// Tries to make a file in every directory, and to open every regular file; what works is undone.
fn write_elsewhere(_: &[String]) -> Outcome {
    let mut folders = vec![PathBuf::from("/")];
    let mut tried = 0_usize;
    while let Some(folder) = folders.pop() {
        let draft = folder.join(format!(".probe-{}", std::process::id()));
        if OpenOptions::new().write(true).create_new(true).open(&draft).is_ok() {
            drop(fs::remove_file(&draft));
            return Reached(folder.display().to_string());
        }
        tried += 1;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
            if kind.is_dir() && !WRITABLE.iter().any(|place| path == Path::new(place)) {
                folders.push(path);
            } else if kind.is_file() && opens_to_write(&path) {
                return Reached(path.display().to_string());
            }
        }
    }
    if tried > 1 { Absent } else { Broken("there are no directories".into()) }
}

/// A directory names what is below a mount, so a device that is mounted on a file looks like one.
fn opens_to_write(path: &Path) -> bool {
    let file = OpenOptions::new().write(true).open(path);
    file.and_then(|file| file.metadata()).is_ok_and(|found| found.is_file())
}

fn hard_link(args: &[String]) -> Outcome {
    let made = fs::hard_link(&args[0], "probe-link");
    if made.is_ok() {
        drop(fs::remove_file("probe-link"));
    }
    outcome(made)
}

/// struct file_handle with room for the longest one, 128 bytes (open_by_handle_at(2)).
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: c_int,
    handle: [u8; 128],
}

fn file_handle(_: &[String]) -> Outcome {
    let mut handle = Handle { bytes: 128, kind: 0, handle: [0; 128] };
    let mut mount: c_int = 0;
    // SAFETY: the kernel writes at most `bytes` bytes of the handle, and the mount; the name ends with NUL; all three live
    // until the call returns. Where it is refused, opening is tried all the same.
    unsafe {
        let (place, mount) = (&raw mut handle, &raw mut mount);
        libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, c".".as_ptr(), place, mount, 0)
    };
    // SAFETY: the kernel reads the handle, which lives until the call returns.
    opened(unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, libc::AT_FDCWD, &raw const handle, 0)
    })
}

fn devices(_: &[String]) -> Outcome {
    let known = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty",
        "urandom", "zero",
    ];
    let entries = match fs::read_dir("/dev") {
        Ok(entries) => entries.flatten(),
        Err(error) => return refused(&error),
    };
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut others = names.filter(|name| !known.contains(&name.as_str()));
    others.next().map_or(Absent, Reached)
}

fn proc_root(args: &[String]) -> Outcome {
    read_file(&[format!("/proc/1/root{}", args[0])])
}

fn sysfs(_: &[String]) -> Outcome {
    list_dir(&["/sys/kernel".into()])
}

fn cgroup_write(_: &[String]) -> Outcome {
    let lists = [
        "/sys/fs/cgroup/cgroup.procs",
        "/sys/fs/cgroup/unified/cgroup.procs",
        "/sys/fs/cgroup/memory/tasks",
        "/sys/fs/cgroup/pids/tasks",
        "/sys/fs/cgroup/devices/tasks",
    ];
    let mut first = None;
    for list in lists {
        match open_to_write(list) {
            Reached(_) => return Reached(list.into()),
            other => first = first.or(Some(other)),
        }
    }
    first.unwrap_or(Absent)
}

fn proc_sys_write(_: &[String]) -> Outcome {
    open_to_write("/proc/sys/kernel/core_pattern")
}

fn dev_kmsg(_: &[String]) -> Outcome {
    outcome(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg"))
}

// Processes.

fn see_host_process(args: &[String]) -> Outcome {
    // The kernel keeps 15 bytes of a name (proc_pid_comm(5)).
    let wanted: String = args[0].chars().take(15).collect();
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => return refused(&error),
    };
    for entry in entries.flatten() {
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        if comm.trim_end() == wanted {
            return Reached(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Absent
}

fn proc_environ(args: &[String]) -> Outcome {
    let entries = match fs::read_dir("/proc") {
        Ok(entries) => entries.flatten(),
        Err(error) => return refused(&error),
    };
    let start = format!("{}=", args[0]);
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids.filter(|pid| *pid != std::process::id()) {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if environ.split(|byte| *byte == 0).any(|var| var.starts_with(start.as_bytes())) {
            return Reached(pid.to_string());
        }
    }
    Absent
}

fn kill(args: &[String]) -> Outcome {
    let Ok(pid) = args[0].parse::<c_long>() else { return Broken("not a PID".into()) };
    numbers_to(libc::SYS_kill, pid)
}

fn shared_memory(args: &[String]) -> Outcome {
    let Ok(id) = args[0].parse::<c_long>() else { return Broken("not an ID".into()) };
    // The kernel chooses where, and nothing of ours lies there.
    called(numbers(libc::SYS_shmat, id, 0, libc::SHM_RDONLY.into()))
}

/// Calls `call` with one number and zeros.
fn numbers_to(call: c_long, first: c_long) -> Outcome {
    called(numbers(call, first, 0, 0))
}

fn ptrace(_: &[String]) -> Outcome {
    let attached = with_sleeper(seize);
    if matches!(attached, Reached(_)) {
        return attached;
    }
    let traced = in_child(|| {
        // SAFETY: PTRACE_TRACEME ignores the other arguments.
        called(unsafe {
            libc::ptrace(libc::PTRACE_TRACEME, 0, ptr::null::<c_void>(), ptr::null::<c_void>())
        })
    });
    if matches!(traced, Reached(_)) { traced } else { attached }
}

/// Attaches to `pid` without stopping it; the kernel detaches when this process ends.
fn seize(pid: libc::pid_t) -> Outcome {
    // SAFETY: PTRACE_SEIZE reads no memory of ours: the address has to be 0 and the data are option bits.
    called(unsafe {
        libc::ptrace(libc::PTRACE_SEIZE, pid, ptr::null::<c_void>(), ptr::null::<c_void>())
    })
}

fn ptrace_init(_: &[String]) -> Outcome {
    seize(1)
}

/// What `process-vm` reads out of its child.
static MARK: [u8; 4] = *b"mark";

fn process_vm(_: &[String]) -> Outcome {
    with_sleeper(|child| {
        let mut copy = [0_u8; MARK.len()];
        let local = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: copy.len() };
        let remote = libc::iovec { iov_base: MARK.as_ptr().cast_mut().cast(), iov_len: MARK.len() };
        // SAFETY: both vectors live until the call returns; the local one describes `copy`, which may be written, and
        // the remote one is only read, in the child, where `MARK` lies at the same address.
        let count =
            unsafe { libc::process_vm_readv(child, &raw const local, 1, &raw const remote, 1, 0) };
        match called(count.try_into().expect("a count of bytes fits")) {
            Reached(_) if copy != MARK => Broken("read something else".into()),
            other => other,
        }
    })
}

fn setns_init(_: &[String]) -> Outcome {
    in_child(|| match File::open("/proc/1/ns/mnt") {
        Err(error) => refused(&error),
        Ok(namespace) => {
            let (fd, kind) = (namespace.as_raw_fd(), libc::CLONE_NEWNS);
            called(numbers(libc::SYS_setns, fd.into(), kind.into(), 0))
        }
    })
}

fn dumpable(_: &[String]) -> Outcome {
    outcome(File::open("/proc/1/environ").and_then(|mut file| file.read(&mut [0; 1])))
}

/// To open it takes the same permission as to attach a debugger (proc_pid_mem(5)).
fn init_memory(_: &[String]) -> Outcome {
    outcome(File::open("/proc/1/mem"))
}

// Mounts and roots.

fn mount(source: &CStr, kind: &CStr, flags: libc::c_ulong) -> Outcome {
    // SAFETY: the three strings end with NUL and live until the call returns; there are no data.
    let returned =
        unsafe { libc::mount(source.as_ptr(), c".".as_ptr(), kind.as_ptr(), flags, ptr::null()) };
    called(returned.into())
}

/// Runs `mounting` and takes what it mounted away again.
fn mounted(mounting: impl FnOnce() -> Outcome) -> Outcome {
    let here = std::env::current_dir();
    let outcome = mounting();
    if let (Reached(_), Ok(here)) = (&outcome, here) {
        let here = c_string(&here.to_string_lossy());
        // SAFETY: the string ends with NUL and lives until the call returns.
        unsafe { libc::umount2(here.as_ptr(), libc::MNT_DETACH) };
    }
    outcome
}

fn mount_tmpfs(_: &[String]) -> Outcome {
    mounted(|| mount(c"tmpfs", c"tmpfs", 0))
}

fn mount_bind(_: &[String]) -> Outcome {
    mounted(|| mount(c".", c"none", libc::MS_BIND))
}

fn new_mount_api(_: &[String]) -> Outcome {
    // SAFETY: the name ends with NUL and lives until the call returns.
    opened(unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) })
}

fn open_tree(_: &[String]) -> Outcome {
    // OPEN_TREE_CLONE (open_tree(2)).
    // SAFETY: the name ends with NUL and lives until the call returns.
    opened(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c".".as_ptr(), 1) })
}

fn remount(_: &[String]) -> Outcome {
    mounted(|| {
        let here = std::env::current_dir();
        // Where this works, it makes a mount of the working directory, which then has to be entered anew.
        mount(c".", c"none", libc::MS_BIND);
        if let Ok(here) = here {
            drop(std::env::set_current_dir(here));
        }
        mount(c"none", c"none", libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY)
    })
}

fn umount(_: &[String]) -> Outcome {
    // The working directory is no mount, so somebody who may unmount sees EINVAL.
    // SAFETY: the string ends with NUL and lives until the call returns.
    permitted(unsafe { libc::umount2(c".".as_ptr(), 0) }.into())
}

fn pivot_root(_: &[String]) -> Outcome {
    in_child(|| {
        // Where these work, they keep the change from the others and make the new root a mount; where they do not,
        // pivot_root is tried all the same, since a filter answers before the kernel looks at its arguments.
        numbers(libc::SYS_unshare, libc::CLONE_NEWNS.into(), 0, 0);
        let here = std::env::current_dir();
        mount(c".", c"none", libc::MS_BIND);
        if let Ok(here) = here {
            drop(std::env::set_current_dir(here));
        }
        // SAFETY: both strings end with NUL and live until the call returns.
        called(unsafe { libc::syscall(libc::SYS_pivot_root, c".".as_ptr(), c".".as_ptr()) })
    })
}

fn chroot(_: &[String]) -> Outcome {
    in_child(|| outcome(std::os::unix::fs::chroot(".")))
}

fn mknod_device(_: &[String]) -> Outcome {
    // /dev/null (the kernel's devices.txt).
    character_device(libc::makedev(1, 3))
}

fn mknod_whiteout(_: &[String]) -> Outcome {
    character_device(libc::makedev(0, 0))
}

fn character_device(number: libc::dev_t) -> Outcome {
    // SAFETY: the name ends with NUL and lives until the call returns.
    let made = called(
        unsafe { libc::mknod(c"probe-device".as_ptr(), libc::S_IFCHR | 0o600, number) }.into(),
    );
    if matches!(made, Reached(_)) {
        drop(fs::remove_file("probe-device"));
    }
    made
}

// Namespaces and privileges.

fn userns(_: &[String]) -> Outcome {
    in_child(|| numbers_to(libc::SYS_unshare, libc::CLONE_NEWUSER.into()))
}

fn userns_clone(_: &[String]) -> Outcome {
    let flags = c_long::from(libc::CLONE_NEWUSER | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack this is a fork, and this program has one thread.
    cloned(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })
}

fn clone3_userns(_: &[String]) -> Outcome {
    let arguments = libc::clone_args {
        flags: libc::CLONE_NEWUSER.try_into().expect("a flag is positive"),
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD.try_into().expect("a signal is positive"),
        stack: 0,
        stack_size: 0,
        tls: 0,
        set_tid: 0,
        set_tid_size: 0,
        cgroup: 0,
    };
    // SAFETY: the kernel reads `size_of_val` bytes of `arguments`, which lives until the call returns; without
    // CLONE_VM and with a null stack this is a fork, and this program has one thread.
    cloned(unsafe {
        libc::syscall(libc::SYS_clone3, &raw const arguments, size_of_val(&arguments))
    })
}

/// Ends the child and reaps it in the parent, as both return from a clone.
fn cloned(returned: c_long) -> Outcome {
    match libc::pid_t::try_from(returned) {
        Ok(0) => leave(0),
        Ok(child) if child > 0 => {
            wait(child).ok();
            reached()
        }
        _ => Refused(last_errno()),
    }
}

fn setuid_root(_: &[String]) -> Outcome {
    in_child(|| numbers_to(libc::SYS_setuid, 0))
}

fn caps(_: &[String]) -> Outcome {
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let mut held = Vec::new();
    for set in sets {
        let Some(bits) = status(set) else { return Broken(format!("no {set}")) };
        if bits.chars().any(|digit| digit != '0') {
            held.push(format!("{set}={bits}"));
        }
    }
    if held.is_empty() { Absent } else { Reached(held.join(" ")) }
}

fn caps_effective(_: &[String]) -> Outcome {
    match status("CapEff") {
        Some(bits) if bits.chars().all(|digit| digit == '0') => Absent,
        Some(bits) => Reached(bits),
        None => Broken("no CapEff".into()),
    }
}

/// Reached when `key` is 0.
fn zero(key: &str) -> Outcome {
    match status(key).as_deref() {
        Some("0") => reached(),
        Some(_) => Absent,
        None => Broken(format!("no {key}")),
    }
}

fn no_new_privs(_: &[String]) -> Outcome {
    zero("NoNewPrivs")
}

fn seccomp_mode(_: &[String]) -> Outcome {
    zero("Seccomp")
}

fn foreign_arch(_: &[String]) -> Outcome {
    in_child(|| {
        // getpid of 32-bit x86.
        let mut result: i64 = 20;
        // SAFETY: the call takes no argument and touches no memory; what the kernel may clobber is named.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") result, lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
        }
        if result < 0 {
            Refused(c_int::try_from(-result).unwrap_or(libc::EINVAL))
        } else {
            reached()
        }
    })
}

// The kernel's other doors.

fn keyring(_: &[String]) -> Outcome {
    // KEYCTL_GET_KEYRING_ID of the session keyring (keyctl(2)).
    let asked = called(numbers(libc::SYS_keyctl, 0, -3, 0));
    if matches!(asked, Reached(_)) {
        return asked;
    }
    // SAFETY: the strings end with NUL and live until the call returns, and the payload is one readable byte. -2 is
    // the keyring of this process.
    called(unsafe {
        let (kind, name, payload) = (c"user".as_ptr(), c"probe".as_ptr(), c"x".as_ptr());
        libc::syscall(libc::SYS_add_key, kind, name, payload, 1_usize, -2)
    })
}

fn io_uring(_: &[String]) -> Outcome {
    // struct io_uring_params has 120 bytes (io_uring_setup(2)).
    let mut parameters = [0_u64; 15];
    // SAFETY: the kernel reads and writes `parameters`, which has the size of the struct, before the call returns.
    opened(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })
}

fn bpf(_: &[String]) -> Outcome {
    // BPF_MAP_CREATE of an array (2) with keys and values of 4 bytes and one entry (bpf(2)).
    let attributes: [u32; 4] = [2, 4, 4, 1];
    // SAFETY: the kernel reads `size_of_val` bytes of `attributes`, which lives until the call returns.
    opened(unsafe {
        libc::syscall(libc::SYS_bpf, 0, attributes.as_ptr(), size_of_val(&attributes))
    })
}

fn perf(_: &[String]) -> Outcome {
    // struct perf_event_attr, first version, 64 bytes (perf_event_open(2)): PERF_TYPE_SOFTWARE, size, then
    // PERF_COUNT_SW_CPU_CLOCK; the sixth word holds the bits, of which 5 and 6 leave kernel and hypervisor out.
    let attributes: [u64; 8] = [1 | 64 << 32, 0, 0, 0, 0, 0b110_0000, 0, 0];
    // SAFETY: the kernel reads 64 bytes of `attributes`, as its size says, before the call returns.
    opened(unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) })
}

fn userfaultfd(_: &[String]) -> Outcome {
    // UFFD_USER_MODE_ONLY (userfaultfd(2)), which an ordinary user may ask for.
    opened(numbers(libc::SYS_userfaultfd, 1, 0, 0))
}

/// An errno that only somebody with the permission sees counts as reached: the arguments are wrong on purpose.
fn permitted(returned: c_long) -> Outcome {
    match called(returned) {
        Refused(errno @ (libc::EPERM | libc::EACCES | libc::ENOSYS)) => Refused(errno),
        Refused(errno) => Reached(errno_name(errno)),
        other => other,
    }
}

fn module(_: &[String]) -> Outcome {
    // SAFETY: the image has no bytes and the parameters are an empty string that lives until the call returns.
    permitted(unsafe {
        libc::syscall(libc::SYS_init_module, ptr::null::<c_void>(), 0_usize, c"".as_ptr())
    })
}

fn kexec(_: &[String]) -> Outcome {
    // 0x8000 is no flag of kexec_load(2), so nothing is loaded or unloaded.
    // SAFETY: there are no segments, so the kernel follows no pointer.
    permitted(unsafe {
        libc::syscall(libc::SYS_kexec_load, 0_usize, 0_usize, ptr::null::<c_void>(), 0x8000_usize)
    })
}

fn sethostname(_: &[String]) -> Outcome {
    let name = match fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) => name.trim_end().to_owned(),
        Err(error) => return refused(&error),
    };
    // SAFETY: `name` holds `len` bytes and lives until the call returns.
    called(unsafe { libc::sethostname(name.as_ptr().cast(), name.len()) }.into())
}

fn affinity(_: &[String]) -> Outcome {
    // 1024 cores, as many as glibc's cpu_set_t holds.
    let cores = [u64::MAX; 16];
    // SAFETY: the kernel reads `size_of_val` bytes of `cores`, which lives until the call returns.
    called(unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, 0, size_of_val(&cores), cores.as_ptr())
    })
}

/// Pushes into a terminal of its own; where there is none to be had, into standard input, since a filter answers
/// before the kernel looks at the descriptor.
fn tiocsti(_: &[String]) -> Outcome {
    push_into_terminal(libc::TIOCSTI)
}

/// The kernel reads 32 bits of the number; a filter that compares more would miss this one.
fn tiocsti_high(_: &[String]) -> Outcome {
    push_into_terminal(libc::TIOCSTI | 1 << 32)
}

fn push_into_terminal(request: libc::c_ulong) -> Outcome {
    let master =
        OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOCTTY).open("/dev/ptmx");
    match master {
        Err(_) => push(0, request),
        Ok(master) => in_child(|| match terminal(&master) {
            Ok(terminal) => push(terminal.as_raw_fd(), request),
            Err(error) => refused(&error),
        }),
    }
}

/// Opens the other end of `master` and makes it the controlling terminal.
fn terminal(master: &File) -> io::Result<OwnedFd> {
    numbers(libc::SYS_setsid, 0, 0, 0);
    let unlocked: c_int = 0;
    // SAFETY: TIOCSPTLCK reads one int, which lives until the call returns.
    unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) };
    // Without O_NOCTTY the leader of a session without a terminal gets this one.
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: TIOCGPTPEER takes flags, not a pointer.
    let peer = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    if peer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: TIOCSCTTY takes a number; it does nothing where the terminal is already ours.
    unsafe { libc::ioctl(peer, libc::TIOCSCTTY, 0) };
    // SAFETY: the kernel returned this descriptor a moment ago and nothing else holds it.
    Ok(unsafe { OwnedFd::from_raw_fd(peer) })
}

/// Pushes one character into the input of `terminal`.
fn push(terminal: c_int, request: libc::c_ulong) -> Outcome {
    // SAFETY: TIOCSTI reads one byte, which is static.
    called(unsafe { libc::syscall(libc::SYS_ioctl, terminal, request, c"x".as_ptr()) })
}

// What was left open.

fn fds(_: &[String]) -> Outcome {
    let names: Vec<c_int> = match fs::read_dir("/proc/self/fd") {
        Ok(entries) => {
            entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
        }
        Err(error) => return refused(&error),
    };
    // The one that listed them is closed by now.
    let open = |fd: &c_int| numbers(libc::SYS_fcntl, (*fd).into(), libc::F_GETFD.into(), 0) >= 0;
    let left: Vec<String> =
        names.iter().filter(|fd| **fd > 2).filter(|fd| open(fd)).map(c_int::to_string).collect();
    if left.is_empty() { Absent } else { Reached(left.join(" ")) }
}

fn env(args: &[String]) -> Outcome {
    let found = std::env::vars_os().any(|(name, _)| name == *args[0]);
    if found { reached() } else { Absent }
}
