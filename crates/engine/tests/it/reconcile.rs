//! What the next verb makes of what a killed one left.
use crate::provider::ended;
use crate::world::{World, declaring, job, writing_pi, ws};
use bailiwick_contract::id::JobId;
use bailiwick_contract::package::Status;
use bailiwick_contract::provider::{Provider as _, Recovered, Slots};
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
    let all = ListRequest { states: Vec::new(), limit: 10 };
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
    assert_eq!(world.run(job(&["true"])).expect_err("lost").reason, "workspace_not_ready");
    assert!(world.destroy(false).is_ok());
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
