//! The ends of a workspace that keep it readable: its time is over, or it was sealed.
use crate::provider::Script;
use crate::world::{World, declaring, job, writing_pi, ws};
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::provider::{Provider as _, Recovered, Slots};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::requests::{AboutRequest, CreateRequest, ListRequest, PolicyRequest};
use core::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn for_an_hour() -> AboutRequest {
    AboutRequest { ttl: Some(HOUR), ..AboutRequest::default() }
}

fn expiring() -> World {
    let world = World::new();
    world.create_about("demo", for_an_hour()).expect("created");
    world
}

/// Checks a refusal that names what is still possible.
#[track_caller]
fn check_over(refused: Result<impl core::fmt::Debug, Failure>, reason: &str) {
    let failure = refused.expect_err("over");
    assert_eq!((failure.code, failure.reason), (ExitCode::UserError, reason), "{failure:?}");
    assert!(failure.remediation.contains("inspect, logs, files and export still work on demo"));
    assert!(failure.remediation.contains("bailiwick destroy demo"), "{failure:?}");
}

#[test]
fn a_workspace_whose_time_is_over_can_be_read_and_not_used() {
    let world = expiring();
    world.script(writing_pi());
    world.pass(HOUR - Duration::from_secs(1));
    world.run(declaring()).expect("a second is left");
    world.pass(Duration::from_secs(1));
    world.batches();
    check_over(world.run(job(&["true"])), "workspace_expired");
    assert_eq!(world.state(), WorkspaceState::Expired);
    assert_eq!(world.batches(), [["workspace_moved"]], "one move, and nothing else");
    let file = world.host_file("a", "hello\n");
    check_over(world.put(file, "a"), "workspace_expired");
    check_over(world.seal(), "workspace_expired");
    let seen = world.inspect("demo").expect("seen").package;
    assert_eq!(seen.facts.state.as_deref(), Some("expired"));
    assert!(world.engine().logs("demo").is_ok());
    world.export("pi", world.path("out")).expect("exported");
    let destroyed = world.destroy(false).expect("destroyed").package;
    assert!(destroyed.key_findings.contains(&"lifecycle path: expired -> destroyed".into()));
}

#[test]
fn whoever_meets_it_first_expires_it_and_says_so() {
    type Verb = (&'static str, fn(&World) -> Vec<String>);
    let verbs: [Verb; 4] = [
        ("run", |world| world.run(job(&["true"])).expect_err("over").notes),
        ("put", |world| world.put(world.host_file("a", "x"), "a").expect_err("over").notes),
        ("inspect", |world| world.inspect("demo").expect("seen").package.attention),
        ("list", |world| world.list(&ListRequest::default()).attention),
    ];
    for (name, verb) in verbs {
        let world = expiring();
        world.pass(HOUR);
        let notes = verb(&world);
        assert_eq!(world.state(), WorkspaceState::Expired, "{name}");
        assert!(notes[0].starts_with("workspace demo has expired: its time was over at"), "{name}");
        assert!(world.inspect("demo").expect("seen").package.attention.is_empty(), "said once");
    }
}

#[test]
fn a_listing_by_state_finds_what_it_has_just_expired() {
    let world = expiring();
    world.create("other").expect("created");
    world.pass(HOUR);
    let states = vec![WorkspaceState::Expired];
    let listing = world.list(&ListRequest { states, ..ListRequest::default() });
    assert_eq!(listing.workspaces.len(), 1);
    assert_eq!(listing.workspaces[0].workspace_id, "demo");
    assert_eq!(world.state_of("other"), WorkspaceState::Ready);
}

#[test]
fn a_running_job_is_not_interrupted_and_its_workspace_expires_afterwards() {
    let world = expiring();
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(job(&["sleep", "60"])).expect("ran"));
        world.provider.wait_for_job();
        world.pass(HOUR);
        let seen = world.inspect("demo").expect("seen").package;
        assert_eq!(seen.facts.state.as_deref(), Some("running"));
        world.stop(true).expect("stopped");
        running.join().expect("joined");
    });
    let seen = world.inspect("demo").expect("seen").package;
    assert_eq!(seen.facts.state.as_deref(), Some("expired"));
}

#[test]
fn a_job_of_a_dead_caller_is_settled_before_its_workspace_expires() {
    let world = expiring();
    world.run_and_die(job(&["true"]));
    let id = world.store.tables().jobs[0].id.clone();
    world.provider.inner().recovered.insert(id, Recovered::Lost);
    world.pass(HOUR);
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].contains("lost its supervisor"), "{:?}", seen.attention);
    assert!(seen.attention[1].contains("has expired"), "{:?}", seen.attention);
    assert_eq!(world.state(), WorkspaceState::Expired);
}

#[test]
fn a_job_beside_another_is_refused_once_the_time_is_over() {
    let world = World::new();
    let mut policy = PolicyRequest::default();
    policy.policy.budget.concurrency = 2;
    let (workspace, about) = (Some(ws("demo")), for_an_hour());
    let request = CreateRequest { workspace, policy, about, ..CreateRequest::default() };
    world.engine().create(&request).expect("created");
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(job(&["sleep", "60"])).expect("ran"));
        world.provider.wait_for_job();
        world.pass(HOUR);
        check_over(world.run(job(&["true"])), "workspace_expired");
        assert_eq!(world.state(), WorkspaceState::Running);
        world.stop(true).expect("stopped");
        running.join().expect("joined");
    });
}

#[test]
fn somebody_at_work_is_not_expired() {
    let world = expiring();
    world.pass(HOUR);
    let hold = world.provider.hold(&ws("demo"), Slots::All(1)).expect("asked").expect("free");
    world.inspect("demo").expect("seen");
    assert_eq!(world.state(), WorkspaceState::Ready);
    drop(hold);
    world.inspect("demo").expect("seen");
    assert_eq!(world.state(), WorkspaceState::Expired);
}

#[test]
fn a_lost_workspace_reads_failed_however_long_its_time_is_over() {
    let world = expiring();
    world.pass(HOUR);
    world.provider.inner().disks.clear();
    let seen = world.inspect("demo").expect("seen").package;
    assert_eq!(seen.facts.state.as_deref(), Some("failed"));
    assert!(seen.warnings.iter().any(|line| line.contains("no longer holds")), "{seen:?}");
}

#[test]
fn a_sealed_workspace_can_be_read_and_not_used() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    world.batches();
    let sealed = world.seal().expect("sealed").package;
    assert_eq!(sealed.facts.state.as_deref(), Some("completed"));
    assert!(sealed.attention[0].contains("bailiwick export demo pi"), "{:?}", sealed.attention);
    assert_eq!(world.batches(), [["workspace_moved"]]);
    let again = world.seal().expect("it is");
    assert_eq!(again.exit, ExitCode::Success);
    assert!(again.package.outcome_summary.contains("was sealed already"));
    assert!(world.batches().is_empty());
    check_over(world.run(job(&["true"])), "workspace_sealed");
    check_over(world.put(world.host_file("a", "x"), "a"), "workspace_sealed");
    assert!(world.inspect("demo").is_ok() && world.engine().logs("demo").is_ok());
    world.export("pi", world.path("out")).expect("exported");
    let destroyed = world.destroy(false).expect("destroyed").package;
    assert!(destroyed.key_findings.contains(&"lifecycle path: completed -> destroyed".into()));
    assert_eq!(world.seal().expect_err("gone").reason, "workspace_destroyed");
}

#[test]
fn a_seal_waits_for_no_job_and_names_it() {
    let world = World::with_demo();
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(job(&["sleep", "60"])).expect("ran"));
        world.provider.wait_for_job();
        let refused = world.seal().expect_err("running");
        let job = world.store.tables().jobs[0].id.to_string();
        assert_eq!((refused.code, refused.reason), (ExitCode::UserError, "workspace_running"));
        assert!(refused.message.contains(&job), "{refused}");
        assert!(refused.remediation.contains("stop --apply demo"), "{refused:?}");
        world.stop(true).expect("stopped");
        running.join().expect("joined");
    });
    assert_eq!(world.seal().expect("quiet").exit, ExitCode::Success);
}

#[test]
fn a_sealed_workspace_does_not_expire_but_a_lost_one_is_not_sealed() {
    let world = expiring();
    world.seal().expect("sealed");
    world.pass(HOUR);
    let seen = world.inspect("demo").expect("seen").package;
    assert_eq!(seen.facts.state.as_deref(), Some("completed"));
    let world = World::with_demo();
    world.provider.inner().disks.clear();
    assert_eq!(world.seal().expect_err("lost").reason, "workspace_lost");
    assert_eq!(world.seal().expect_err("failed").reason, "workspace_not_ready");
}
