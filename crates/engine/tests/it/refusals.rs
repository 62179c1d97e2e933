//! What is refused, with which code, and that nothing was done then.
use crate::world::{World, declaring, job, running, writing_pi, ws};
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::JobId;
use bailiwick_contract::policy::Network;
use bailiwick_engine::requests::{
    Bound, CreateRequest, DestroyRequest, ExecRequest, ExportRequest, JobRequest, PolicyRequest,
    RunRequest, StopRequest,
};
use bailiwick_engine::{declare, render};
use core::time::Duration;

fn check(failure: &Failure, code: u8, reason: &str) {
    assert_eq!((failure.code.code(), failure.reason), (code, reason), "{failure:?}");
    assert!(!failure.remediation.is_empty(), "{failure:?}");
}

#[test]
fn a_bound_below_the_floor_is_refused_before_anything() {
    let world = World::new();
    let bound = Some(Bound { max_bytes: render::FLOOR - 1, nine: false });
    let request = CreateRequest { bound, ..CreateRequest::default() };
    check(&world.engine().create(&request).expect_err("too small"), 1, "bound_below_floor");
    assert!(world.provider.inner().calls.is_empty());
    assert_eq!(world.store.tables().opened, 0);
}

#[test]
fn a_policy_that_cannot_be_held_makes_nothing() {
    let world = World::new();
    let mut policy = PolicyRequest::default();
    policy.policy.network = Network::Enabled;
    let request = CreateRequest { policy, ..CreateRequest::default() };
    let failure = world.engine().create(&request).expect_err("no network");
    check(&failure, 3, "limit_unenforceable");
    assert!(failure.remediation.ends_with("leave --network out"), "{failure:?}");
    let request = CreateRequest { profile: Some("nope".into()), ..CreateRequest::default() };
    check(&world.engine().create(&request).expect_err("no profile"), 1, "unknown_profile");
    assert!(world.store.tables().workspaces.is_empty());
}

#[test]
fn names_are_used_once() {
    let world = World::with_demo();
    check(&world.create("demo").expect_err("taken"), 1, "workspace_exists");
    world.script(writing_pi());
    let id = Some(JobId::parse("one").expect("an id"));
    world.run(JobRequest { job: id.clone(), ..declaring() }).expect("ran");
    check(&world.run(declaring()).expect_err("declared"), 1, "artifact_declared");
    let again = JobRequest { job: id, ..job(&["true"]) };
    check(&world.run(again).expect_err("taken"), 1, "job_exists");
}

#[test]
fn an_id_names_a_workspace_or_a_job_and_never_both() {
    let world = World::with_demo();
    let named = |id: &str| JobRequest { job: JobId::parse(id).ok(), ..job(&["true"]) };
    drop(world.create("other").expect("created"));
    for id in ["demo", "other"] {
        check(&world.run(named(id)).expect_err("of a workspace"), 1, "id_taken");
        check(&world.exec(named(id)).expect_err("of a workspace"), 1, "id_taken");
    }
    let both = ExecRequest {
        workspace: Some(ws("both")),
        job: named("both"),
        bound: None,
        ..ExecRequest::default()
    };
    check(&world.engine().exec(&both).expect_err("of its own"), 1, "id_taken");
    assert!(!world.provider.inner().calls.contains(&"payload"));
    world.run(named("one")).expect("ran");
    check(&world.create("one").expect_err("of a job"), 1, "id_taken");
    drop(world.destroy(false).expect("destroyed"));
    let again = ExecRequest { job: named("demo"), bound: None, ..ExecRequest::default() };
    check(&world.engine().exec(&again).expect_err("of a destroyed one"), 1, "id_taken");
}

#[test]
fn a_used_id_says_that_it_is_gone() {
    let world = World::with_demo();
    let kept = world.destroy(false).expect("destroyed").package.key_findings;
    assert!(kept.contains(&"retained: captured output and records".into()), "{kept:?}");
    let failure = world.create("demo").expect_err("used");
    check(&failure, 1, "workspace_exists");
    assert!(failure.message.starts_with("demo was used before and is destroyed"), "{failure}");
}

#[test]
fn a_declared_name_has_to_be_a_path_of_the_workspace() {
    let world = World::with_demo();
    for name in ["/x", "../x", "a/../../x", "."] {
        let mut request = declaring();
        request.declares[0].name = name.into();
        check(&world.run(request.clone()).expect_err(name), 1, "bad_artifact_path");
        check(&world.exec(request).expect_err(name), 1, "bad_artifact_path");
    }
    assert!(!world.provider.inner().calls.contains(&"payload"));
}

#[test]
fn a_job_is_no_workspace_and_the_hint_names_its_own() {
    let world = World::with_demo();
    let one = JobId::parse("h1").expect("an id");
    world.run(JobRequest { job: Some(one), ..job(&["true"]) }).expect("ran");
    let (engine, workspace) = (world.engine(), ws("h1"));
    let asked = |apply| StopRequest {
        workspace: workspace.clone(),
        apply,
        grace: Duration::ZERO,
        bound: None,
    };
    let failure = engine.stop(&asked(true)).expect_err("a job");
    check(&failure, 1, "job_not_workspace");
    assert_eq!(failure.message, "h1 is a job of workspace demo");
    assert!(failure.remediation.ends_with("bailiwick stop demo"), "{failure:?}");
    let request = DestroyRequest { workspace: workspace.clone(), force: true, bound: None };
    let failure = engine.destroy(&request).expect_err("a job");
    assert!(failure.remediation.ends_with("bailiwick destroy demo"), "{failure:?}");
    let request = RunRequest { workspace, job: job(&["true"]), wait: None, ..running("demo") };
    let failure = engine.run(&request).expect_err("a job");
    assert!(failure.remediation.ends_with("bailiwick run demo COMMAND..."), "{failure:?}");
    let request = DestroyRequest { workspace: ws("h2"), force: true, bound: None };
    check(&engine.destroy(&request).expect_err("nothing"), 1, "unknown_workspace");
}

#[test]
fn a_gate_that_does_not_open_runs_nothing() {
    let world = World::with_demo();
    world.store.tables().room = Some(0);
    let failure = world.run(job(&["true"])).expect_err("the disk is full");
    check(&failure, 2, "store_unwritable");
    assert!(!world.provider.inner().calls.contains(&"payload"));
    assert!(world.store.tables().jobs.is_empty());
}

#[test]
fn unexported_artifacts_keep_a_workspace() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    let failure = world.destroy(false).expect_err("not exported");
    check(&failure, 1, "artifacts_not_exported");
    assert!(failure.message.contains("(pi)"), "{failure}");
    assert_eq!(world.provider.inner().disks.len(), 1);
}

#[test]
fn an_export_takes_declared_names_and_right_digests() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    check(&world.export("other", world.path("out")).expect_err(""), 1, "artifact_not_declared");
    let expecting = |digest: &str| {
        world.engine().export(&ExportRequest {
            workspace: ws("demo"),
            name: "pi".into(),
            destination: world.path("out"),
            path: None,
            undeclared: false,
            tar: false,
            no_clobber: false,
            expect_sha256: Some(digest.into()),
            bound: None,
        })
    };
    check(&expecting("zz").expect_err("malformed"), 1, "bad_digest");
    check(&expecting(&"0".repeat(64)).expect_err("another"), 2, "digest_mismatch");
    assert!(!world.path("out").exists());
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn a_put_that_does_not_fit_is_a_matter_of_policy() {
    let world = World::new();
    let mut policy = PolicyRequest::default();
    policy.policy.budget.storage_bytes = 4;
    let request = CreateRequest { workspace: Some(ws("demo")), policy, ..CreateRequest::default() };
    world.engine().create(&request).expect("created");
    let file = world.host_file("a", "hello");
    check(&world.put(file, "a").expect_err("too large"), 3, "inputs_over_storage");
    world.provider.inner().write_fails = true;
    let file = world.host_file("b", "hi");
    check(&world.put(file, "b").expect_err("no room"), 2, "no_space");
    assert!(world.store.tables().inputs.is_empty());
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn a_cancelled_wait_ends_with_five() {
    let world = World::with_demo();
    use bailiwick_contract::provider::{Provider as _, Slots};
    let _hold = world.provider.hold(&ws("demo"), Slots::All(1)).expect("asked").expect("free");
    world.cancel.cancel();
    let request =
        RunRequest { job: job(&["true"]), wait: Some(Duration::from_secs(9)), ..running("demo") };
    check(&world.engine().run(&request).expect_err("cancelled"), 5, "cancelled");
}

#[test]
fn arguments_need_both_sides() {
    let declared = declare::artifact(b" pi = ten = digits ").expect("good");
    assert_eq!((declared.name, declared.purpose), ("pi".into(), "ten = digits".into()));
    let bad: [&[u8]; 5] = [b"", b"pi", b"=x", b"pi=", b" = "];
    for bad in bad {
        check(&declare::artifact(bad).expect_err("bad"), 1, "bad_argument");
    }
    check(&declare::input(b"x").expect_err("bad"), 1, "bad_argument");
    check(&declare::export(b"x=").expect_err("bad"), 1, "bad_argument");
    check(&declare::workspace_id("a/b").expect_err("bad"), 1, "bad_id");
    assert_eq!(ExitCode::UserError.code(), 1);
}
