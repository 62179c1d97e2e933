//! What the next verb makes of what a killed one left.
use crate::provider::ended;
use crate::world::{World, declaring, job, writing_pi, ws};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::JobId;
use bailiwick_contract::package::Status;
use bailiwick_contract::provider::{ByteSink, Provider as _, Recovered, Slots};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::requests::ListRequest;

fn last_job(world: &World) -> JobId {
    world.store.tables().jobs.last().expect("a job").id.clone()
}

/// Kills the caller of a run, lets the provider find `recovered`, and returns what `inspect` says of the job.
fn check(recovered: Recovered, status: Status, note: &str) {
    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    assert_eq!(world.state(), WorkspaceState::Running);
    let id = last_job(&world);
    world.provider.inner().recovered.insert(id.clone(), recovered);
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].starts_with("reconciled workspace demo: "), "{:?}", seen.attention);
    assert!(seen.attention[0].contains(note), "{:?}", seen.attention);
    assert_eq!(world.state(), WorkspaceState::Ready);
    assert_eq!(world.inspect(id.as_str()).expect("seen").package.status, status);
    assert!(world.inspect("demo").expect("seen").package.attention.is_empty(), "said once");
    assert!(world.run(job(&["true"])).is_ok(), "usable at once");
}

#[test]
fn a_job_is_settled_as_its_provider_can_prove() {
    let world = World::new();
    check(ended(&world.cx()), Status::Success, "had ended with success");
    check(Recovered::NeverStarted, Status::InfrastructureFailure, "never started");
    check(Recovered::Lost, Status::InfrastructureFailure, "lost its supervisor");
}

#[test]
fn a_job_that_lives_is_left_alone() {
    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    let hold = world.provider.hold(&ws("demo"), Slots::One(1)).expect("asked").expect("free");
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention.is_empty(), "{:?}", seen.attention);
    assert_eq!((world.state(), world.store.tables().intents.len()), (WorkspaceState::Running, 1));
    assert_eq!(world.destroy(false).expect_err("running").reason, "workspace_running");
    drop(hold);
}

#[test]
fn the_artifacts_of_a_recovered_job_are_looked_for() {
    let world = World::with_demo();
    world.run_and_die(declaring());
    world.provider.inner().recovered.insert(last_job(&world), ended(&world.cx()));
    world.inspect("demo").expect("seen");
    let seen = world.inspect(last_job(&world).as_str()).expect("seen").package;
    assert_eq!(seen.status, Status::PartialSuccess);
}

#[test]
fn an_exec_whose_caller_died_is_finished_or_kept() {
    let world = World::new();
    world.die(|| drop(world.exec(job(&["true"]))));
    world.provider.inner().recovered.insert(last_job(&world), ended(&world.cx()));
    let all = ListRequest { limit: 10, ..ListRequest::default() };
    let notes = world.engine().list(&all).expect("listed").attention;
    assert!(notes.iter().any(|line| line.contains("its removal was finished")), "{notes:?}");
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    assert!(world.provider.inner().disks.is_empty());

    world.script(writing_pi());
    world.die(|| drop(world.exec(declaring())));
    world.provider.inner().recovered.insert(last_job(&world), ended(&world.cx()));
    let notes = world.engine().list(&all).expect("listed").attention;
    assert!(notes.iter().any(|line| line.contains("it is kept for 1 artifact(s)")), "{notes:?}");
    assert_eq!(world.state(), WorkspaceState::Ready);
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn an_exec_that_never_started_leaves_nothing() {
    let world = World::new();
    world.die(|| drop(world.exec(declaring())));
    world.provider.inner().recovered.insert(last_job(&world), Recovered::NeverStarted);
    world.inspect(last_job(&world).as_str()).expect("seen");
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    assert!(world.provider.inner().disks.is_empty());
}

/// Leaves the first batch of a verb without its second one.
fn cut_short(world: &World, verb: impl FnOnce()) {
    world.store.tables().room = Some(1);
    verb();
    world.store.tables().room = None;
    assert_eq!(world.store.tables().intents.len(), 1);
}

#[test]
fn a_creation_is_finished_or_failed() {
    let world = World::new();
    cut_short(&world, || drop(world.create("demo")));
    assert_eq!(world.state(), WorkspaceState::Provisioning);
    world.inspect("demo").expect("seen");
    assert_eq!(world.state(), WorkspaceState::Ready);

    cut_short(&world, || drop(world.create("other")));
    world.provider.inner().disks.remove(&ws("other"));
    world.inspect("other").expect("seen");
    assert_eq!(world.state(), WorkspaceState::Failed);
}

#[test]
fn a_put_counts_when_every_file_is_there() {
    let world = World::with_demo();
    let file = world.host_file("a", "hello\n");
    cut_short(&world, || drop(world.put(file.clone(), "a")));
    assert!(world.inspect("demo").expect("seen").package.attention[0].contains("had landed"));
    assert_eq!(world.store.tables().inputs.len(), 1);

    cut_short(&world, || drop(world.put(file, "b")));
    let demo = ws("demo");
    world.provider.inner().disks.get_mut(&demo).expect("a disk").remove(&b"b"[..]);
    assert!(world.inspect("demo").expect("seen").package.attention[0].contains("was cut short"));
    assert_eq!(world.store.tables().inputs.len(), 1);
}

#[test]
fn a_put_that_landed_in_part_says_what_is_there() {
    let world = World::with_demo();
    std::fs::create_dir(world.path("d")).expect("made");
    let [_, _] = ["d/a", "d/b"].map(|name| world.host_file(name, "hello\n"));
    cut_short(&world, || drop(world.put(world.path("d"), "d")));
    let demo = ws("demo");
    world.provider.inner().disks.get_mut(&demo).expect("a disk").remove(&b"d/b"[..]);
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].contains("1 are there; put them again with --overwrite"), "{seen:?}");
    assert!(world.provider.inner().calls.contains(&"clear_stage"));
    assert!(world.store.tables().inputs.is_empty());
}

#[test]
fn half_a_copy_that_a_killed_export_left_is_removed_and_no_other() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    cut_short(&world, || drop(world.export("pi", world.path("out"))));
    let intent = world.store.tables().intents[0].id.clone();
    let left = world.host_file(&format!(".bailiwick-{intent}.partial"), "half");
    let other = world.host_file(".bailiwick-int-ffffffffffff.partial", "of somebody at work");
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].contains("half a copy beside it was removed"), "{seen:?}");
    assert!(!left.exists() && other.exists());
}

#[test]
fn an_export_stays_declared_and_a_removal_goes_on() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    cut_short(&world, || drop(world.export("pi", world.path("out"))));
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].contains("export it again"), "{:?}", seen.attention);
    assert!(seen.attention[1].contains("declared but not exported"));
    world.export("pi", world.path("out")).expect("exported");
    cut_short(&world, || drop(world.destroy(false)));
    assert_eq!(world.run(job(&["true"])).expect_err("gone").reason, "workspace_destroyed");
    assert_eq!(world.state(), WorkspaceState::Destroyed);
}

#[test]
fn a_lost_workspace_reads_failed_from_then_on() {
    let world = World::with_demo();
    world.provider.inner().disks.clear();
    let seen = world.inspect("demo").expect("seen").package;
    assert_eq!(seen.facts.state.as_deref(), Some("failed"));
    assert!(seen.warnings.iter().any(|line| line.contains("no longer holds")));
    assert_eq!(world.state(), WorkspaceState::Failed);
    let again = world.inspect("demo").expect("seen").package;
    assert_eq!(again.warnings, seen.warnings, "as long as it is so");
    assert_eq!(world.run(job(&["true"])).expect_err("lost").reason, "workspace_not_ready");
    let destroyed = world.destroy(false).expect("destroyed").package;
    assert!(destroyed.key_findings[0].contains("the storage was gone before"), "{destroyed:?}");
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    assert!(
        world.inspect("demo").expect("seen").package.warnings.iter().all(|w| !w.contains("gone"))
    );
}

/// A verb that meets a lost workspace.
type Meet<'a> = &'a dyn Fn(&World) -> Failure;

#[test]
fn every_verb_that_meets_a_lost_workspace_records_it_and_names_the_way_out() {
    let file = |world: &World| world.host_file("a", "hello\n");
    let verbs: [(&str, Meet<'_>); 3] = [
        ("run", &|world| world.run(job(&["true"])).expect_err("lost")),
        ("put", &|world| world.put(file(world), "a").expect_err("lost")),
        ("export", &|world| world.export("pi", world.path("out")).expect_err("lost")),
    ];
    for (verb, meet) in verbs {
        let world = World::with_demo();
        world.provider.inner().disks.clear();
        let failure = meet(&world);
        assert_eq!((failure.code.code(), failure.reason), (7, "workspace_lost"), "{verb}");
        assert!(failure.remediation.contains("bailiwick destroy demo"), "{verb}: {failure:?}");
        assert_eq!(world.state(), WorkspaceState::Failed, "{verb}");
    }
    let world = World::with_demo();
    world.provider.inner().disks.clear();
    let all = ListRequest { limit: 10, ..ListRequest::default() };
    let listing = world.engine().list(&all).expect("listed");
    assert_eq!(listing.workspaces[0].state, "failed");
    assert!(listing.attention[0].contains("bailiwick destroy demo"), "{:?}", listing.attention);
    world.create("kept").expect("created");
    assert!(world.engine().list(&all).expect("listed").attention.is_empty());
}

#[test]
fn a_workspace_that_is_lost_under_its_dead_job_is_settled_and_destroyed() {
    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    world.provider.inner().disks.clear();
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].contains("lost its supervisor"), "{:?}", seen.attention);
    assert_eq!(world.state(), WorkspaceState::Failed);
    assert!(world.destroy(false).is_ok());
}

#[test]
fn a_removal_that_is_about_to_be_recorded_is_left_to_its_owner() {
    let world = World::with_demo();
    cut_short(&world, || drop(world.destroy(false)));
    // Its disk is gone, its intent is open: the record follows while somebody else looks.
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| world.inspect("demo").expect("seen").package);
        std::thread::sleep(core::time::Duration::from_millis(30));
        let mut tables = world.store.tables();
        tables.intents.clear();
        tables.workspaces[0].state = WorkspaceState::Destroyed;
        drop(tables);
        let seen = looking.join().expect("joined");
        assert_eq!(seen.facts.state.as_deref(), Some("destroyed"));
        assert!(seen.attention.is_empty(), "{:?}", seen.attention);
    });
}

#[test]
fn whoever_settles_a_job_says_so() {
    let died = || {
        let world = World::with_demo();
        world.run_and_die(job(&["true"]));
        let id = last_job(&world);
        world.provider.inner().recovered.insert(id.clone(), ended(&world.cx()));
        (world, id)
    };
    for named in ["job", "workspace"] {
        let (world, id) = died();
        let handle = if named == "job" { id.as_str() } else { "demo" };
        let logs = world.engine().logs(handle).expect("read");
        assert!(logs.attention[0].contains("had ended with success"), "{named}: {logs:?}");
        assert_eq!(logs.jobs[0].status, "success");
        let (world, id) = died();
        let handle = if named == "job" { id.as_str() } else { "demo" };
        let told = std::sync::Mutex::new(Vec::new());
        let notice = |line: &str| told.lock().expect("not poisoned").push(line.to_owned());
        let mut sink = Sink::default();
        world.engine().raw_logs(handle, &mut sink, &notice).expect("read");
        assert!(told.lock().expect("not poisoned")[0].contains("had ended"), "{named}");
        let (world, id) = died();
        let handle = if named == "job" { id.as_str() } else { "demo" };
        let seen = world.inspect(handle).expect("seen").package;
        assert!(seen.attention[0].contains("had ended"), "{named}: {:?}", seen.attention);
    }
    let (world, _) = died();
    assert!(world.stop(true).expect("settled").package.attention[0].contains("had ended"));
}

#[derive(Default)]
struct Sink(Vec<u8>);

impl ByteSink for Sink {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn core::error::Error + Send + Sync>> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn output_that_is_not_kept_any_more_is_told_apart_from_none() {
    let world = World::with_demo();
    let id = world.run(job(&["true"])).expect("ran").package.provenance.job_id;
    assert!(world.engine().logs(&id).expect("read").attention.is_empty());
    world.provider.inner().outputs.clear();
    let logs = world.engine().logs("demo").expect("read");
    assert!(logs.attention[0].contains("kept any more"), "{logs:?}");
    let told = std::sync::Mutex::new(0);
    let count = |_: &str| *told.lock().expect("not poisoned") += 1;
    world.engine().raw_logs(&id, &mut Sink::default(), &count).expect("read");
    assert_eq!(*told.lock().expect("not poisoned"), 1);
    let seen = world.inspect(&id).expect("seen").package;
    assert!(seen.warnings.iter().any(|line| line.contains("kept any more")), "{seen:?}");
}

#[test]
fn a_listing_removes_what_an_exec_left_before_its_record() {
    let world = World::with_demo();
    let disks = [("empty", Vec::new()), ("used", vec![(b"f".to_vec(), b"x".to_vec())])];
    for (id, files) in disks {
        world.provider.inner().disks.insert(ws(id), files.into_iter().collect());
    }
    let all = ListRequest { limit: 10, ..ListRequest::default() };
    let lines = world.engine().list(&all).expect("listed").attention;
    assert!(lines[0].contains("of workspace empty"), "{lines:?}");
    assert!(lines[1].starts_with("workspace used is on no record, and is kept"), "{lines:?}");
    let left: Vec<_> = world.provider.inner().disks.keys().cloned().collect();
    assert_eq!(left, [ws("demo"), ws("used")]);
}

#[test]
fn stop_settles_what_nobody_waits_for() {
    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    world.provider.inner().recovered.insert(last_job(&world), ended(&world.cx()));
    let report = world.stop(true).expect("settled");
    assert_eq!(report.package.status, Status::Success);
    assert!(report.package.outcome_summary.contains("had ended before"), "{report:?}");
}
