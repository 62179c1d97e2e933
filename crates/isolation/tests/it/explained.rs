//! Plans as they are explained to people.
use crate::hosts::{of_a_user, of_root, planned, shown, spec};
use bailiwick_contract::policy::Access;
use bailiwick_isolation::explain::lines;
use expect_test::{Expect, expect};

/// What is told to root about a workspace with one writable host path, of the lines that `wanted` picks.
#[track_caller]
fn check(wanted: impl Fn(&str) -> bool, expected: &Expect) {
    let host = of_root();
    let paths = vec![shown("/usr/local/cache", Access::ReadWrite)];
    let lines = lines(&planned(&host, &spec(&host, paths)).expect("a plan"));
    let lines: Vec<String> = lines.into_iter().filter(|line| wanted(line)).collect();
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn what_is_done_around_a_payload_is_told_step_by_step() {
    check(
        |line| !line.starts_with("payload: "),
        &expect![[r#"
        leave root's supplementary groups
        root: clone the mount /home/u/state/skeleton/v1 (ro,nosuid,nodev) as source 0
        root: clone the mount /usr (ro,nosuid,nodev) as source 1
        root: clone the mount /home/u/state/disks/ws-1/tree (rw,nosuid,nodev) as source 2
        root: clone the mount /dev/null (ro,nosuid) as source 3
        root: clone the mount /dev/zero (ro,nosuid) as source 4
        root: clone the mount /dev/full (ro,nosuid) as source 5
        root: clone the mount /dev/random (ro,nosuid) as source 6
        root: clone the mount /dev/urandom (ro,nosuid) as source 7
        root: clone the mount /dev/tty (ro,nosuid) as source 8
        root: clone the mount /usr/local/cache (rw,nosuid,nodev), its owner 1001:1002 shown as the job's as source 9
        clone init into new namespaces: user, mount, pid, ipc, uts, cgroup, network
        map user 1000 inside to 1900000000 outside, and nobody else
        map group 1000 inside to 1900000000 outside, and nobody else
        deny setgroups
        enter a control group (version 1): memory 536870912 bytes, pids 129, init included, cpu 1000 thousandths of a core
        ask for init's death with the supervisor's
        init: bring the loopback interface up
        init: set the host name bailiwick
        init: attach source 0 as the new root
        init: attach source 1 at /usr
        init: attach source 2 at /workspace
        init: mount tmpfs at /tmp (268435456 bytes, 16384 inodes)
        init: mount tmpfs at /dev/shm (268435456 bytes, 16384 inodes)
        init: make directory /tmp/home (700)
        init: attach source 3 at /dev/null
        init: attach source 4 at /dev/zero
        init: attach source 5 at /dev/full
        init: attach source 6 at /dev/random
        init: attach source 7 at /dev/urandom
        init: attach source 8 at /dev/tty
        init: mount devpts at /dev/pts
        init: mount proc at /proc
        init: hide directory /proc/acpi
        init: hide file /proc/kcore
        init: make /proc/sys read-only
        init: attach source 9 at /usr/local/cache
        init: pivot to the new root and drop the old one
        supervisor: end the job after 300000 ms
        supervisor: keep 10485760 bytes of output
        supervisor: watch the disk and end the job over 1073741824 bytes or 65536 inodes
    "#]],
    );
}

#[test]
fn what_a_payload_does_before_its_command_is_told_step_by_step() {
    let is_filter = |line: &str| line.starts_with("payload: filter: ");
    check(
        |line| line.starts_with("payload: ") && !is_filter(line),
        &expect![[r#"
        payload: begin a session, with pipes as output and nothing of the supervisor's open
        payload: start in /workspace
        payload: limit core to 0, or what the supervisor has if that is less
        payload: limit fsize to 2147483648, or what the supervisor has if that is less
        payload: limit nofile to 1024, which may be raised to 524288, or what the supervisor has if that is less
        payload: limit memlock to 8388608, or what the supervisor has if that is less
        payload: limit rtprio to 0, or what the supervisor has if that is less
        payload: limit nice to 0, or what the supervisor has if that is less
        payload: drop all capabilities and set no_new_privs
        payload: Landlock allows below /: read and execute
        payload: Landlock allows below /workspace: everything but making devices
        payload: Landlock allows below /tmp: everything but making devices
        payload: Landlock allows below /dev/shm: everything but making devices
        payload: Landlock allows below /dev: read, and write to what is there
        payload: Landlock allows below /proc: read, and write to what is there
        payload: Landlock allows below /usr/local/cache: everything but making devices
        payload: wait at the gate until the intent is durable
        payload: execute true
    "#]],
    );
}

#[test]
fn the_filter_is_told_by_its_reasons() {
    check(
        |line| line.starts_with("payload: filter: "),
        &expect![[r#"
        payload: filter: allow 63 system call(s): files, by path or descriptor: mounts and Landlock decide which
        payload: filter: allow 2 system call(s): FIFOs and sockets; device nodes need a capability that no payload has
        payload: filter: allow 36 system call(s): reading, writing and copying through open descriptors
        payload: filter: allow 21 system call(s): waiting for descriptors
        payload: filter: allow 24 system call(s): the caller's own memory; rlimits and the memory limit bound it
        payload: filter: allow 28 system call(s): processes and threads of the own PID namespace
        payload: filter: by their arguments EPERM or allow 1 system call(s): a new namespace would give capabilities back; threads and processes may be made
        payload: filter: by their arguments EPERM or allow 1 system call(s): as clone; a thread may still take its own descriptors and working directory
        payload: filter: ENOSYS for 1 system call(s): its flags are behind a pointer that no filter can read; libc falls back to clone
        payload: filter: allow 14 system call(s): signals, which reach the own PID namespace only
        payload: filter: allow 1 system call(s): not made by the program but by a probe that the host put into it
        payload: filter: allow 17 system call(s): time; setting it needs a capability, reading it with adjtimex does not
        payload: filter: allow 18 system call(s): the caller's ids and capabilities: a payload can only give up what it has
        payload: filter: allow 4 system call(s): narrowing oneself further; sandboxes nest
        payload: filter: allow 22 system call(s): limits, priorities and facts; widening them needs a capability
        payload: filter: allow 16 system call(s): sockets that exist; the network namespace decides whom they reach
        payload: filter: by their arguments allow or EAFNOSUPPORT for 1 system call(s): other families reach around the namespaces (vsock) or are rarely tested code
        payload: filter: by their arguments allow or EAFNOSUPPORT for 1 system call(s): as socket; it makes a socket of any family before it finds no way to pair it
        payload: filter: allow 18 system call(s): System V and POSIX objects of the own IPC namespace
        payload: filter: by their arguments EPERM or allow 1 system call(s): typing into the caller's terminal would run commands outside
        payload: filter: by their arguments EPERM or allow 1 system call(s): rewriting what /proc says about the own memory and executable
        payload: filter: by their arguments allow or EPERM for 1 system call(s): others are old, rarely tested code, or switch address randomisation off
        payload: filter: EPERM for 11 system call(s): the mount tree is the boundary
        payload: filter: EPERM for 1 system call(s): entering another namespace
        payload: filter: EPERM for 2 system call(s): opening files around the mount tree, or watching those of others
        payload: filter: EPERM for 5 system call(s): reaching into other processes: a second command of a workspace is another job
        payload: filter: EPERM for 3 system call(s): keyrings are not namespaced: the session's keys are the host's
        payload: filter: EPERM for 7 system call(s): large kernel interfaces in which most local privilege escalations were found
        payload: filter: EPERM for 1 system call(s): affinity is how whole cores are enforced without a cgroup
        payload: filter: EPERM for 20 system call(s): administration of the host
        payload: filter: ENOSYS for all others, and death for those of another architecture
    "#]],
    );
}

#[test]
fn what_a_user_without_groups_gets_instead_is_told_too() {
    let (root, user) = (of_root(), of_a_user());
    let told = |host| lines(&planned(host, &spec(host, Vec::new())).expect("a plan"));
    let of_root = told(&root);
    let other: Vec<String> =
        told(&user).into_iter().filter(|line| !of_root.contains(line)).collect();
    expect![[r#"
        init: clone the mount /home/u/state/skeleton/v1 (ro,nosuid,nodev) as source 0
        init: clone the mount /usr (ro,nosuid,nodev) as source 1
        init: clone the mount /home/u/state/disks/ws-1/tree (rw,nosuid,nodev) as source 2
        init: clone the mount /dev/null (ro,nosuid) as source 3
        init: clone the mount /dev/zero (ro,nosuid) as source 4
        init: clone the mount /dev/full (ro,nosuid) as source 5
        init: clone the mount /dev/random (ro,nosuid) as source 6
        init: clone the mount /dev/urandom (ro,nosuid) as source 7
        init: clone the mount /dev/tty (ro,nosuid) as source 8
        map user 1000 inside to 1001 outside, and nobody else
        map group 1000 inside to 1002 outside, and nobody else
        make no control group
        payload: limit nproc to 129, or what the supervisor has if that is less
        payload: limit data to 1073741824, or what the supervisor has if that is less
        payload: run on 1 processor(s), which the job's id chooses
        supervisor: watch memory and end the job over 536870912 bytes
        supervisor: report when there are 128 processes
    "#]]
    .assert_eq(&(other.join("\n") + "\n"));
}

#[test]
fn a_value_of_a_variable_is_never_told() {
    let host = of_a_user();
    let mut spec = spec(&host, Vec::new());
    let value = bailiwick_contract::bytes::Secret::new(b"hunter2".to_vec());
    spec.env.push(bailiwick_contract::job::EnvVar { name: "TOKEN".into(), value });
    let told = lines(&planned(&host, &spec).expect("a plan")).join("\n");
    assert!(!told.contains("hunter2"), "{told}");
}
