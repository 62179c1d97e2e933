//! What a killed supervisor leaves for a moment: its sandbox's init, dying, and control groups.
//!
//! The kernel kills a sandbox whose supervisor was killed, but it takes the mounts down first, and that waits for other
//! processors. Until init is gone a job's processes may still run, so whoever settles the job waits here. Source: `do_exit` and
//! `zap_pid_ns_processes` of the kernel: init's descriptor is readable only once everybody in its namespace is dead.
use crate::cgroup;
use crate::facts::CgroupFacts;
use bailiwick_contract::id::JobId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the remains are waited for; what is left then is removed by the next verb.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Returns the name of a job's control groups, by which they are found again; job ids are unique in one home only.
#[must_use]
pub fn group_name(home: &Path, job: &JobId) -> String {
    format!("{}{job}", group_prefix(home))
}

fn group_prefix(home: &Path) -> String {
    format!("bailiwick-{:016x}-", hash(home.as_os_str().as_bytes()))
}

/// Returns the name of a job's init; the kernel keeps 15 bytes of it (prctl(2), `PR_SET_NAME`).
pub(crate) fn init_name(group: &str) -> String {
    format!("bw:{:012x}", hash(group.as_bytes()) >> 16)
}

/// FNV-1a: a name, no protection; two homes that collide also need the same job id to meet.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Waits until the sandbox of a killed supervisor is gone, and removes its groups.
pub fn sweep(facts: &CgroupFacts, group: &str) {
    let deadline = Instant::now() + WAIT_MAX;
    for init in named(&init_name(group)) {
        wait(init, deadline);
    }
    for found in cgroup::find(facts, &|name| name == group) {
        while !cgroup::remove(&found) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Removes the groups of every job of a home that nobody looks after any more: a supervisor that was killed once it had said how
/// its job ended leaves them to nobody.
pub fn sweep_home(facts: &CgroupFacts, home: &Path, is_alive: &dyn Fn(&JobId) -> bool) {
    let prefix = group_prefix(home);
    let job = |name: &OsStr| JobId::parse(name.to_str()?.strip_prefix(&prefix)?).ok();
    let is_left = |name: &OsStr| job(name).is_some_and(|job| !is_alive(&job));
    for found in cgroup::find(facts, &is_left) {
        // One in which somebody still dies is removed by the next call.
        cgroup::remove(&found);
    }
}

/// Finds processes by name; one that only calls itself so is waited for in vain, and no longer than [`WAIT_MAX`].
fn named(name: &str) -> Vec<Pid> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            comm.is_ok_and(|comm| comm.trim_end() == name)
        })
        .filter_map(Pid::from_raw)
        .collect()
}

fn wait(init: Pid, deadline: Instant) {
    let Ok(descriptor) = pidfd_open(init, PidfdFlags::empty()) else { return };
    let left = deadline.saturating_duration_since(Instant::now());
    let Ok(timeout) = Timespec::try_from(left) else { return };
    let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
    // An interrupted wait is a shorter one.
    poll(&mut polled, Some(&timeout)).ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_homes_and_jobs_apart_and_fit_the_kernel() {
        let job = JobId::parse("job-1").expect("an id");
        let (one, other) = (group_name(Path::new("/a"), &job), group_name(Path::new("/b"), &job));
        assert_ne!(one, other);
        assert_ne!(init_name(&one), init_name(&other));
        assert_eq!(init_name(&one).len(), 15);
    }
}
