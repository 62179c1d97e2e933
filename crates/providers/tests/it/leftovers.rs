//! Nothing is left: no process, mount, group, descriptor or file, whatever came of a job.
use crate::world::{Open, SOON, World, is_root, myself, told};
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::provider::{Gate, Kept, Provider, ProviderError, Slots};
use bailiwick_isolation::facts::{CgroupFacts, HostFacts};
use bailiwick_isolation::remains::group_name;
use bailiwick_testkit::{cgroups_holding, mounts_holding, until};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A gate that cannot be opened.
struct Broken;

impl Gate for Broken {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("the store is full".into())
    }
}

#[test]
fn a_gate_that_does_not_open_leaves_nothing() {
    let world = World::new();
    world.sh("echo before > f");
    for expected in [false, true] {
        if expected {
            world.native.expect_job();
        }
        let job = world.script("echo ran > ran; echo ran");
        let error = world.run_in(&world.id, &job, &mut Broken).expect_err("refused");
        assert!(matches!(error, ProviderError::Gate(_)), "{error}");
        assert!(!world.job_dir(&job.id).exists());
        assert_eq!(fs::read_dir(world.tree()).expect("listed").count(), 1, "the disk is as it was");
        assert!(world.kept(&job.id).is_empty());
        let name = group_name(world.home(), &job.id);
        until("the groups are gone", SOON, || cgroups_holding(&name).is_empty().then_some(()));
        drop(world.hold(&world.id, Slots::All(1)));
    }
    assert_eq!(world.sh("cat f").text, "before\n");
}

#[test]
fn a_job_that_cannot_be_planned_leaves_nothing() {
    let world = World::new();
    let mut job = world.script("true");
    job.argv.push(b"a\0b"[..].into());
    world.try_run(&job).expect_err("refused");
    assert!(!world.job_dir(&job.id).exists());
}

/// Returns where the groups of jobs are made; nowhere for an ordinary user on a host with version 1.
fn parents_of_groups(world: &World) -> Vec<PathBuf> {
    let facts = fs::read(world.home().join("host.json")).expect("the facts");
    let facts: HostFacts = serde_json::from_slice(&facts).expect("the facts");
    let CgroupFacts::V1 { memory, pids, cpu } = &facts.cgroup else {
        assert!(!is_root(), "root has groups here");
        return Vec::new();
    };
    let parents = [memory, pids, cpu].into_iter().flatten();
    parents.map(|parent| PathBuf::from(parent.to_text().into_owned())).collect()
}

#[test]
fn the_groups_of_a_killed_supervisor_are_swept() {
    let world = World::new();
    let job = world.script("true");
    let name = group_name(world.home(), &job.id);
    let parents = parents_of_groups(&world);
    for parent in &parents {
        fs::create_dir(parent.join(&name)).expect("a group");
    }
    assert_eq!(cgroups_holding(&name).len(), parents.len());
    world.native.sweep(&job.id, &world.cx()).expect("swept");
    assert!(cgroups_holding(&name).is_empty());
    world.native.sweep(&job.id, &world.cx()).expect("sweeping again is no error");
}

/// Kills the supervisor that this process started for a job.
fn kill_supervisor(dir: &Path) {
    let of = |pid: i32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let is_wanted = |pid: &i32| {
        fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|place| place == dir)
            && of(*pid, "comm").is_ok_and(|comm| comm.starts_with("bailiwick-super"))
    };
    let entries = fs::read_dir("/proc").expect("listed").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let pid = pids.filter(is_wanted).find_map(rustix::process::Pid::from_raw).expect("it is there");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is ours");
}

#[test]
fn an_outcome_that_was_recorded_is_believed_where_nobody_came_to_tell_it() {
    let world = World::new();
    let earlier = world.script("echo one");
    world.run(&earlier);
    let recorded = fs::read(world.job_dir(&earlier.id).join("outcome")).expect("it is kept");
    let job = world.script("echo one; : > began; sleep 60");
    let dir = world.job_dir(&job.id);
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| world.try_run(&job));
        world.wait_for("began");
        fs::write(dir.join("outcome"), &recorded).expect("written");
        kill_supervisor(&dir);
        running.join().expect("no panic").expect("it ran")
    });
    assert_eq!(outcome.status, JobStatus::Success, "{outcome:?}");
    assert_eq!(world.kept(&job.id), b"one\n");
    assert!(!dir.join("control.sock").exists());
}

#[test]
fn what_a_supervisor_leaves_that_was_killed_after_its_answer_is_removed_later() {
    let world = World::new();
    let (ended, running) = (world.script("echo one"), world.script("echo two; sleep 60"));
    world.run(&ended);
    let groups = group_name(world.home(), &ended.id);
    let parents = parents_of_groups(&world);
    // Its supervisor still tidies up.
    until("the groups are gone", SOON, || cgroups_holding(&groups).is_empty().then_some(()));
    for parent in &parents {
        fs::create_dir(parent.join(&groups)).expect("a group");
    }
    let (left, used) = (world.job_dir(&ended.id), world.job_dir(&running.id));
    for name in ["control.sock", "outcome.new"] {
        fs::write(left.join(name), "").expect("written");
    }
    std::thread::scope(|scope| {
        let job = scope.spawn(|| world.try_run(&running));
        until("it runs", SOON, || (!world.kept(&running.id).is_empty()).then_some(()));
        // Younger than a second is not old.
        std::thread::sleep(Duration::from_millis(1_100));
        let known = |_: &Kept| true;
        world.native.remove_orphans(&known, Duration::ZERO, &world.cx()).expect("removed");
        assert!(used.join("control.sock").exists(), "what is in use stays");
        let in_use = cgroups_holding(&group_name(world.home(), &running.id));
        assert_eq!(in_use.len(), parents.len(), "{in_use:?}");
        kill_supervisor(&used);
        let outcome = job.join().expect("no panic").expect("it ran");
        assert_eq!(outcome.status, JobStatus::InfrastructureFailure);
    });
    assert!(left.join("output").exists() && !left.join("control.sock").exists());
    assert!(!left.join("outcome.new").exists());
    assert!(cgroups_holding(&groups).is_empty());
}

#[test]
fn jobs_of_two_workspaces_run_at_the_same_time() {
    let world = World::new();
    let other = world.another("ws-2");
    let script = "echo > began; while [ ! -e go ]; do sleep 0.02; done; echo done";
    let jobs = [(&world.id, world.script(script)), (&other, world.script(script))];
    std::thread::scope(|scope| {
        let world = &world;
        let running: Vec<_> = jobs
            .iter()
            .map(|(id, job)| scope.spawn(move || world.run_in(id, job, &mut Open)))
            .collect();
        for (id, _) in &jobs {
            until("both run", SOON, || world.tree_of(id).join("began").exists().then_some(()));
        }
        for (id, _) in &jobs {
            fs::write(world.tree_of(id).join("go"), "").expect("a file");
        }
        for thread in running {
            let outcome = thread.join().expect("no panic").expect("it ran");
            assert_eq!(outcome.status, JobStatus::Success);
        }
    });
    for (_, job) in &jobs {
        assert_eq!(world.kept(&job.id), b"done\n");
    }
}

#[test]
fn providers_that_race_for_a_new_home_all_work() {
    let home = tempfile::tempdir().expect("a home");
    let start = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for index in 0..4 {
            let (start, home) = (&start, home.path());
            scope.spawn(move || {
                start.wait();
                let world = World::at(home.to_owned());
                let id = world.another(&format!("ws-of-{index}"));
                let job = world.script("echo works");
                world.run_in(&id, &job, &mut Open).expect("it ran");
                assert_eq!(world.kept(&job.id), b"works\n");
            });
        }
    });
    let homes = fs::read_dir(home.path()).expect("listed").flatten();
    let drafts: Vec<_> =
        homes.filter(|entry| entry.path().extension().is_some_and(|end| end == "new")).collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}

/// Tells the copy of this test that it has a process for itself.
const ALONE: &str = "BAILIWICK_TEST_ALONE";

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("listed").count()
}

/// Children of this process, zombies included.
fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("listed").flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn fifty_jobs_in_a_row_leave_nothing() {
    let Some(home) = told(ALONE) else {
        // Descriptors and children are the process's: other tests would disturb the count.
        let home = tempfile::tempdir().expect("a home");
        let mut child = myself("leftovers::fifty_jobs_in_a_row_leave_nothing", ALONE, home.path());
        assert!(child.wait().expect("reaped").success());
        return;
    };
    let world = World::at(home);
    world.sh("true");
    let before = descriptors();
    for index in 0..50 {
        let script = ["true", "echo x", "exit 3", "sleep 1000 & setsid sleep 1000 &"][index % 4];
        world.sh(script);
    }
    // A supervisor that is still tidying up when its job's successor starts is met by a later one.
    until("one supervisor at most is left to reap", SOON, || {
        world.sh("true");
        (children().len() <= 1 && descriptors() <= before + 1).then_some(())
    });
    let home = world.home().display().to_string();
    until("no mount", SOON, || mounts_holding(&home).is_empty().then_some(()));
    let jobs = format!("-job-{}-", std::process::id());
    until("no group", SOON, || cgroups_holding(&jobs).is_empty().then_some(()));
    until("only zombies", SOON, || {
        let lives = |pid: &String| {
            fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
        };
        (!children().iter().any(lives)).then_some(())
    });
    let kept: Vec<_> = fs::read_dir(world.home().join("jobs")).expect("listed").collect();
    // Only what printed is kept.
    assert_eq!(kept.len(), 13, "{kept:?}");
}
