//! Limits as they are held: by control groups where this host has them, by watching where it has none.
use crate::world::{World, is_root};
use bailiwick_contract::enforcement::{Label, Mechanism};
use bailiwick_contract::job::{Basis, JobStatus, Reason};
use bailiwick_contract::policy::{Budget, Limit, Policy};

fn with(budget: Budget) -> Policy {
    Policy { budget, ..Policy::default() }
}

/// Takes memory and keeps it.
const TAKES_160_MIB: &str = "import time\nx = b'x' * (160 << 20)\ntime.sleep(1000)\n";

#[test]
fn without_groups_memory_is_watched() {
    let memory_bytes = 128 << 20;
    let world = World::without_groups(&with(Budget { memory_bytes, ..Budget::default() }));
    let held = world.policy.enforcement(Limit::Memory);
    assert_eq!((held.label, held.mechanism), (Label::Measured, Mechanism::WatchMemory));
    let outcome = world.run(&world.job(&["python3", "-c", TAKES_160_MIB])).outcome;
    assert_eq!(outcome.status, JobStatus::ResourceExhausted);
    assert_eq!((outcome.reason, outcome.exit_status), (Some(Reason::Memory), Some(137)));
    assert_eq!(outcome.usage.memory_basis, Basis::Watch);
    let over = outcome.usage.memory_overshoot_bytes;
    assert!(over > 0 && outcome.usage.memory_bytes_max == memory_bytes + over, "{over}");
}

#[test]
fn without_groups_processes_are_counted_by_the_kernel_for_the_sandbox_alone() {
    let world = World::without_groups(&with(Budget { pids: 5, ..Budget::default() }));
    let held = world.policy.enforcement(Limit::Pids);
    assert_eq!((held.label, held.mechanism), (Label::Enforced, Mechanism::RlimitNproc));
    let other = World::without_groups(&with(Budget { pids: 5, ..Budget::default() }));
    for world in [&world, &other] {
        let done =
            world.sh("for i in 1 2 3 4; do sleep 1000 & done; echo four; sleep 1000 & echo five");
        assert!(done.text.starts_with("four\n") && !done.text.contains("five"), "{}", done.text);
        assert_ne!(done.outcome.status, JobStatus::Success);
        let event = done.outcome.quota_events.iter().find(|event| event.limit == Limit::Pids);
        assert!(event.is_some(), "{:?}", done.outcome);
    }
}

#[test]
fn without_groups_a_core_is_held_by_affinity_that_a_job_cannot_widen() {
    let world = World::without_groups(&Policy::default());
    let held = world.policy.enforcement(Limit::Cpu);
    assert_eq!((held.label, held.mechanism), (Label::Enforced, Mechanism::CpuAffinity));
    let script = "import os\nprint(len(os.sched_getaffinity(0)))\ntry: os.sched_setaffinity(0, range(64))\nexcept PermissionError: print('denied')\n";
    assert_eq!(world.run(&world.job(&["python3", "-c", script])).text, "1\ndenied\n");
    let half = World::without_groups(&with(Budget { cpu_milli: 500, ..Budget::default() }));
    assert_eq!(half.policy.enforcement(Limit::Cpu).label, Label::Measured);
}

#[test]
fn without_groups_nothing_is_read_from_any() {
    let world = World::without_groups(&Policy::default());
    let usage = world.sh("echo hi").outcome.usage;
    assert_eq!(usage.cpu_basis, Basis::Wait4);
    assert_ne!(usage.memory_basis, Basis::Cgroup);
    assert!(usage.memory_bytes_max > 0);
    assert!(bailiwick_testkit::cgroups_holding(&world.home().display().to_string()).is_empty());
}

#[test]
fn with_groups_the_kernel_holds_memory_and_says_so() {
    let memory_bytes = 128 << 20;
    let world = World::under(&with(Budget { memory_bytes, ..Budget::default() }));
    if world.policy.enforcement(Limit::Memory).label == Label::Measured {
        // Only root, or who was given a group, has this; root must have it on a host with hierarchies.
        assert!(!is_root() || !std::path::Path::new("/sys/fs/cgroup/memory/tasks").exists());
        return;
    }
    let outcome = world.run(&world.job(&["python3", "-c", TAKES_160_MIB])).outcome;
    assert_eq!(
        (outcome.status, outcome.reason),
        (JobStatus::ResourceExhausted, Some(Reason::Memory))
    );
    assert_eq!(outcome.usage.memory_basis, Basis::Cgroup);
    assert!(outcome.quota_events.iter().any(|event| event.limit == Limit::Memory));
}

fn with_a_small_disk() -> Policy {
    with(Budget { storage_bytes: 4 << 20, ..Budget::default() })
}

#[test]
fn a_disk_over_its_bytes_ends_the_job() {
    for world in [World::under(&with_a_small_disk()), World::without_groups(&with_a_small_disk())] {
        let outcome = world.sh("head -c 7000000 /dev/zero > a; sleep 1000").outcome;
        assert_eq!(outcome.status, JobStatus::ResourceExhausted, "{outcome:?}");
        assert_eq!(outcome.reason, Some(Reason::Storage));
        assert!(outcome.usage.storage_overshoot_bytes > 0, "{outcome:?}");
        assert!(outcome.usage.storage_bytes > 4 << 20, "{outcome:?}");
    }
}

#[test]
fn a_disk_over_its_inodes_ends_the_job() {
    let world = World::under(&with_a_small_disk());
    let many = "import time\nfor i in range(10010): open(f'{i}', 'w').close()\ntime.sleep(1000)";
    let outcome = world.run(&world.job(&["python3", "-c", many])).outcome;
    assert_eq!(outcome.status, JobStatus::ResourceExhausted, "{outcome:?}");
    assert_eq!(outcome.reason, Some(Reason::Inodes), "{outcome:?}");
}
