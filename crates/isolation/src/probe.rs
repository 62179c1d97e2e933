//! Asks the host what it offers, once; the answers are cached by whoever asks.
//!
//! What can be tried is tried, in a throw-away child; versions are not interpreted. Sources: user_namespaces(7), cgroups(7),
//! landlock(7), proc(5).
use crate::apply::proc_file_system;
use crate::facts::{CgroupFacts, CommandLink, HostFacts, ProcMask, RootEntry};
use crate::sys::clone::{Cloned, Namespaces, clone_sandbox};
use crate::sys::landlock;
use crate::sys::process::{Ended, exit_now, wait};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::Lack;
use rustix::fs::Access;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The first id that nobody hands out: systemd-nspawn's containers end below it (systemd, UIDS-GIDS.md).
const OUTSIDE_ID_MIN: u32 = 1_879_048_192;
/// The last candidate; ids from 2³¹ on confuse programs that take them for negative.
const OUTSIDE_ID_MAX: u32 = 2_147_483_646;

/// Probes the host.
///
/// Clones a child, so the process must have one thread; the supervisor's `--probe` is the usual caller. `seed` picks the
/// outside id of a home that root owns.
///
/// # Errors
/// What could not be read; that something is lacking is a fact, not an error.
pub fn probe(key: String, seed: u32) -> io::Result<HostFacts> {
    let by_root = rustix::process::geteuid().is_root();
    let (outside_uid, outside_gid) = if by_root {
        let id = outside_id(seed, &read("/etc/subuid"), &read("/proc/self/uid_map"));
        (id, id)
    } else {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    let landlock_abi = landlock::abi().unwrap_or(0);
    let mut lacks = namespace_lacks();
    lacks.extend(landlock_lack(landlock_abi));
    let cgroup = cgroups(by_root);
    lacks.extend(group_lacks(&cgroup));
    Ok(HostFacts {
        key,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        by_root,
        outside_uid,
        outside_gid,
        landlock_abi,
        cgroup,
        cpus: cpus()?,
        root_entries: root_entries()?,
        links: command_links(Path::new("/")),
        proc_masks: proc_masks(),
        lacks,
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Picks an id that is no account's, in no range of `/etc/subuid`, and mapped where we run in a user namespace.
fn outside_id(seed: u32, subuid: &str, uid_map: &str) -> u32 {
    let mapped_max = uid_map
        .lines()
        .filter_map(|line| {
            let mut parts = line.split_whitespace().map(str::parse::<u32>);
            let (first, _, count) = (parts.next()?.ok()?, parts.next(), parts.next()?.ok()?);
            first.checked_add(count.saturating_sub(1))
        })
        .max()
        .unwrap_or(OUTSIDE_ID_MAX);
    let span = OUTSIDE_ID_MAX - OUTSIDE_ID_MIN;
    let mut id = (OUTSIDE_ID_MIN + seed % span).min(mapped_max);
    // Down to below each range that holds it; where all are taken, one is shared.
    while let Some(first) = subuid_range(id, subuid).filter(|first| *first > 1) {
        id = first - 1;
    }
    id
}

/// Returns the first id of the range of `/etc/subuid` that holds `id`.
fn subuid_range(id: u32, subuid: &str) -> Option<u32> {
    subuid.lines().find_map(|line| {
        let mut parts = line.split(':').skip(1).map(|part| part.trim().parse::<u64>());
        let (first, count) = (parts.next()?.ok()?, parts.next()?.ok()?);
        let holds = (first..first.saturating_add(count)).contains(&u64::from(id));
        holds.then(|| u32::try_from(first).ok())?
    })
}

/// Exit codes of the throw-away child.
const CHILD_OK: u8 = 0;
const CHILD_NO_PROC: u8 = 2;

fn namespace_lacks() -> Vec<Lack> {
    match try_namespaces() {
        Ok(CHILD_OK) => Vec::new(),
        Ok(_) => vec![lack(
            "proc",
            "a private /proc cannot be mounted: the host's own /proc is masked, as in a container",
            "run outside the container, or start it with an unmasked /proc \
             (docker: --security-opt systempaths=unconfined)",
        )],
        Err(error) => vec![lack(
            "user-namespaces",
            &format!("user namespaces cannot be made: {error}"),
            namespace_remedy(),
        )],
    }
}

fn lack(id: &str, message: &str, remediation: &str) -> Lack {
    Lack { id: id.into(), message: message.into(), remediation: remediation.into(), fatal: true }
}

fn namespace_remedy() -> &'static str {
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").trim() == "1" {
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    } else if read("/proc/sys/kernel/unprivileged_userns_clone").trim() == "0" {
        "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    } else if read("/proc/sys/user/max_user_namespaces").trim() == "0" {
        "sudo sysctl -w user.max_user_namespaces=15000"
    } else {
        "run where clone3(CLONE_NEWUSER) is allowed: not under a seccomp profile that denies it"
    }
}

fn try_namespaces() -> io::Result<u8> {
    match clone_sandbox(Namespaces::SANDBOX, None)? {
        // Unmapped, but with every capability over its own namespaces, which is what a mount asks for.
        Cloned::Child => exit_now(proc_file_system().map_or(CHILD_NO_PROC, |_| CHILD_OK)),
        Cloned::Parent { pid, .. } => match wait(pid)?.ended {
            Ended::Exited(code) => Ok(code),
            Ended::Killed(signal) => {
                Err(io::Error::other(format!("the child died of signal {signal}")))
            }
        },
    }
}

fn landlock_lack(abi: u32) -> Option<Lack> {
    (abi < 2).then(|| {
        lack(
            "landlock",
            &format!("Landlock ABI 2 is needed (Linux 5.19), and this kernel has {abi}"),
            "boot with `landlock` in the kernel's `lsm=` list, or a newer kernel",
        )
    })
}

fn group_lacks(cgroup: &CgroupFacts) -> Option<Lack> {
    let missing: Vec<&str> = ["memory", "pids", "cpu"]
        .into_iter()
        .filter(|controller| cgroup.mechanism(controller).is_none())
        .collect();
    (!missing.is_empty()).then(|| Lack {
        id: "cgroups".into(),
        message: format!("no control groups for {}: other mechanisms are used", missing.join(", ")),
        remediation: "run as root, or in a systemd scope that delegates these controllers: \
                      systemd-run --user --scope -p Delegate=yes bailiwick …"
            .into(),
        fatal: false,
    })
}

fn cgroups(by_root: bool) -> CgroupFacts {
    let mounts = read("/proc/self/mountinfo");
    let own = read("/proc/self/cgroup");
    unified(&mounts, &own)
        .or_else(|| by_root.then(|| version_1(&mounts, &own)))
        .unwrap_or(CgroupFacts::Absent)
}

/// Finds our own group in each version 1 hierarchy; ours go below it, so that outer limits hold for them too.
fn version_1(mounts: &str, own: &str) -> CgroupFacts {
    let find = |controller: &str| {
        let mount = cgroup_mount(mounts, |kind, options| {
            kind == "cgroup" && options.split(',').any(|option| option == controller)
        })?;
        let group = own_group(own, |names| names.split(',').any(|name| name == controller))?;
        usable([format!("{mount}{group}"), mount], "tasks")
    };
    let (memory, pids, cpu) = (find("memory"), find("pids"), find("cpu"));
    if memory.is_none() && pids.is_none() && cpu.is_none() {
        return CgroupFacts::Absent;
    }
    CgroupFacts::V1 { memory, pids, cpu }
}

/// Finds the nearest group at or above our own that hands controllers down and that we may write to.
fn unified(mounts: &str, own: &str) -> Option<CgroupFacts> {
    let mount = cgroup_mount(mounts, |kind, _| kind == "cgroup2")?;
    let group = own_group(own, str::is_empty)?;
    let start = format!("{mount}{}", group.trim_end_matches('/'));
    Path::new(&start).ancestors().take_while(|path| path.starts_with(&mount)).find_map(|path| {
        let text = fs::read_to_string(path.join("cgroup.subtree_control")).ok()?;
        let controllers: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let holds = controllers.iter().any(|name| name == "memory" || name == "pids");
        let parent = usable([path.to_str()?.to_owned()], "cgroup.procs")?;
        holds.then_some(CgroupFacts::V2 { parent, controllers })
    })
}

fn usable<const N: usize>(paths: [String; N], entries: &str) -> Option<ByteString> {
    paths
        .into_iter()
        .map(|path| path.trim_end_matches('/').to_owned())
        .find(|path| writable(path) && writable(&format!("{path}/{entries}")))
        .map(ByteString::from)
}

fn writable(path: &str) -> bool {
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Finds where a cgroup file system is mounted: fields 5, and after the dash type and super options (proc(5)).
fn cgroup_mount(mounts: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<String> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = right.split(' ');
        let (kind, _, options) = (fields.next()?, fields.next()?, fields.next()?);
        wanted(kind, options).then(|| left.split(' ').nth(4).map(str::to_owned))?
    })
}

/// Finds our own group in a hierarchy: lines of `id:controllers:path` (cgroups(7)).
fn own_group(own: &str, wanted: impl Fn(&str) -> bool) -> Option<String> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        wanted(names).then(|| path.to_owned())
    })
}

fn cpus() -> io::Result<Vec<u32>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let max = rustix::thread::CpuSet::MAX_CPU;
    Ok((0..max).filter(|cpu| set.is_set(*cpu)).filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// The directories of a toolchain; on a merged-`/usr` host most are links.
const ROOT_NAMES: [&str; 8] = ["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix"];

fn root_entries() -> io::Result<Vec<RootEntry>> {
    let mut entries = Vec::new();
    for name in ROOT_NAMES {
        let path = Path::new("/").join(name);
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_symlink() {
            let target = fs::read_link(&path)?.as_os_str().as_bytes().into();
            entries.push(RootEntry::Link { name: name.into(), target });
        } else if meta.is_dir() {
            entries.push(RootEntry::Dir(name.into()));
        }
    }
    Ok(entries)
}

/// Directories of a job's `PATH`.
const COMMANDS: [&str; 3] = ["usr/local/bin", "usr/bin", "bin"];

/// Scripts say `python`, and Debian has only `python3`.
fn command_links(root: &Path) -> Vec<CommandLink> {
    let find = |name: &str| {
        COMMANDS.iter().map(|dir| root.join(dir).join(name)).find(|path| path.exists())
    };
    match (find("python"), find("python3")) {
        (None, Some(path)) => {
            let target = path.as_os_str().as_bytes().into();
            vec![CommandLink { name: "python".into(), target }]
        }
        _ => Vec::new(),
    }
}

/// What `/proc` tells about the host or lets it be changed; Docker's lists, and what newer kernels added.
const HIDDEN: [&str; 12] = [
    "acpi",
    "asound",
    "interrupts",
    "kallsyms",
    "kcore",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
    "key-users",
];
const PROTECTED: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

fn proc_masks() -> Vec<ProcMask> {
    let hidden = HIDDEN.iter().filter_map(|name| {
        let meta = fs::symlink_metadata(Path::new("/proc").join(name)).ok()?;
        let name = (*name).to_owned();
        Some(if meta.is_dir() { ProcMask::Dir(name) } else { ProcMask::File(name) })
    });
    let protected = PROTECTED
        .iter()
        .filter(|name| Path::new("/proc").join(name).exists())
        .map(|name| ProcMask::ReadOnly((*name).to_owned()));
    hidden.chain(protected).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outside_id_avoids_every_range_of_subuid() {
        let full = "0 0 4294967295\n";
        let id = outside_id(7, "", full);
        assert!(id >= OUTSIDE_ID_MIN);
        let taken = format!("a:100000:65536\nb:{}:{}\n", id - 10, 20);
        assert_eq!(outside_id(7, &taken, full), id - 11);
    }

    #[test]
    fn the_outside_id_is_mapped_where_we_run() {
        assert_eq!(outside_id(7, "", "0 100000 65536\n"), 65_535);
    }

    #[test]
    fn hierarchies_are_found_in_mountinfo() {
        let mounts = "24 20 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      25 20 0:23 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let found =
            cgroup_mount(mounts, |kind, options| kind == "cgroup" && options.contains("memory"));
        assert_eq!(found.as_deref(), Some("/sys/fs/cgroup/memory"));
        let own = "4:memory:/a:b\n0::/user.slice\n";
        assert_eq!(own_group(own, |names| names == "memory").as_deref(), Some("/a:b"));
        assert_eq!(own_group(own, str::is_empty).as_deref(), Some("/user.slice"));
    }

    #[test]
    fn odd_lines_of_the_id_files_are_passed_over() {
        let odd = "\n:\n::\nx\na:b:c\nroot:-1:5\na:18446744073709551615:18446744073709551615\n";
        assert_eq!(outside_id(7, odd, "garbage\n0 0\n\n"), OUTSIDE_ID_MIN + 7);
        assert_eq!(outside_id(u32::MAX, "", ""), outside_id(u32::MAX, "", "0 0 4294967295\n"));
        assert_eq!(outside_id(7, "", "4294967295 0 4294967295\n"), OUTSIDE_ID_MIN + 7);
    }

    #[test]
    fn ranges_that_take_everything_end_the_search_at_once() {
        assert_eq!(outside_id(7, "root:1:4294967294\n", ""), OUTSIDE_ID_MIN + 7);
        let id = OUTSIDE_ID_MIN + 7;
        let chained = format!("a:{}:1\nb:{}:1\nc:{}:2\n", id, id - 1, id - 3);
        assert_eq!(outside_id(7, &chained, ""), id - 4);
    }

    #[test]
    fn odd_mount_tables_have_no_groups() {
        let any = |_: &str, _: &str| true;
        for odd in ["", "\n", " - ", "1 2 3", "a - cgroup2", "1 2 3 4 - cgroup2 x rw"] {
            assert_eq!(cgroup_mount(odd, any), None, "{odd:?}");
        }
        for odd in ["", ":", "0", "0:", "garbage\n\n"] {
            assert_eq!(own_group(odd, |names| names == "memory"), None, "{odd:?}");
        }
        let joint = "5:cpu,cpuacct:/x\n0::/../../y\n";
        let found = own_group(joint, |names| names.split(',').any(|name| name == "cpu"));
        assert_eq!(found.as_deref(), Some("/x"));
    }

    #[test]
    fn version_2_is_used_from_the_nearest_group_that_hands_controllers_down() {
        let root = tempfile::tempdir().expect("a directory");
        let mount = root.path().to_str().expect("UTF-8");
        let mounts = format!("25 20 0:23 / {mount} rw - cgroup2 cgroup2 rw\n");
        let group = |name: &str, controllers: &str| {
            let dir = root.path().join(name);
            fs::create_dir_all(&dir).expect("a group");
            fs::write(dir.join("cgroup.subtree_control"), controllers).expect("a file");
            fs::write(dir.join("cgroup.procs"), "").expect("a file");
        };
        group("", "memory pids\n");
        group("user", "cpu memory pids\n");
        group("user/session", "\n");
        let expected = CgroupFacts::V2 {
            parent: format!("{mount}/user").into(),
            controllers: ["cpu", "memory", "pids"].map(str::to_owned).to_vec(),
        };
        assert_eq!(unified(&mounts, "0::/user/session\n"), Some(expected));
        assert_eq!(unified(&mounts, "4:memory:/user\n"), None);
        fs::remove_file(root.path().join("user/cgroup.procs")).expect("removed");
        let above = unified(&mounts, "0::/user/session\n").expect("the root");
        assert_eq!(above.mechanism("cpu"), None);
        assert!(above.mechanism("memory").is_some());
    }
}
