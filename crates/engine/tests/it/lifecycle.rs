//! The happy path of each verb, and that each appends twice: before its effect and after it.
use crate::provider::Script;
use crate::world::{World, declaring, job, running, writing_pi, ws};
use bailiwick_contract::bytes::Secret;
use bailiwick_contract::context::Clock as _;
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::job::EnvVar;
use bailiwick_contract::package::Status;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::render::{self, Sections};
use bailiwick_engine::requests::{
    Bound, CreateRequest, InputRequest, InspectRequest, JobEnvironment, JobRequest, ListRequest,
    PolicyRequest, PutRequest, RunRequest,
};
use core::time::Duration;

#[test]
fn a_workspace_lives_through_create_run_export_and_destroy() {
    let world = World::new();
    let created = world.create("demo").expect("created").package;
    assert_eq!(created.facts.state.as_deref(), Some("ready"));
    assert_eq!(created.warnings.len(), 1, "{:?}", created.warnings);
    assert_eq!(
        world.batches(),
        [
            vec!["intent_opened", "workspace_added", "workspace_moved"],
            vec!["workspace_moved", "intent_closed"]
        ]
    );
    world.script(writing_pi());
    let ran = world.run(declaring()).expect("ran").package;
    assert_eq!((ran.status, ran.facts.exit_status), (Status::Success, Some(0)));
    assert_eq!(ran.evidence[0].excerpt, "done\n");
    assert!(ran.attention[0].contains("bailiwick export demo pi --to PATH"), "{:?}", ran.attention);
    assert_eq!(
        world.batches(),
        [
            vec!["intent_opened", "job_added", "artifact_declared", "workspace_moved"],
            vec!["workspace_moved", "job_ended", "intent_closed"]
        ]
    );
    let exported = world.export("pi", world.path("out")).expect("exported").package;
    assert_eq!(exported.artifacts[0].size_bytes, 12);
    assert_eq!(std::fs::read(world.path("out")).expect("published"), b"3.1415926536");
    assert_eq!(world.batches().len(), 2);
    let destroyed = world.destroy(false).expect("destroyed").package;
    assert!(destroyed.key_findings.contains(&"lifecycle path: cancelled -> destroyed".into()));
    assert_eq!(destroyed.facts.state.as_deref(), Some("destroyed"));
    assert_eq!(world.batches().len(), 2);
    assert!(world.store.tables().intents.is_empty());
    assert!(world.inspect("demo").is_ok(), "the tombstone stays readable");
    assert_eq!(world.run(job(&["true"])).expect_err("gone").reason, "workspace_destroyed");
}

#[test]
fn a_job_that_fails_leaves_its_workspace_ready() {
    let world = World::with_demo();
    world.script(Script { exit_code: 7, ..Script::default() });
    let report = world.run(job(&["false"])).expect("ran");
    assert_eq!(
        (report.exit, report.package.status),
        (ExitCode::ComputationFailed, Status::Failure)
    );
    assert!(report.package.key_findings[0].ends_with("exit status 7"));
    assert_eq!(world.state(), WorkspaceState::Ready);
}

#[test]
fn a_declared_artifact_that_is_not_there_makes_a_partial_success() {
    let world = World::with_demo();
    let report = world.run(declaring()).expect("ran");
    assert_eq!((report.exit, report.package.status), (ExitCode::Success, Status::PartialSuccess));
    assert!(report.package.attention[0].contains("did not write it"));
    assert_eq!(report.package.attention.len(), 1, "an export that would fail is not advised");
    assert_eq!(report.package.facts.job_status.as_deref(), Some("partial_success"));
}

#[test]
fn a_job_that_failed_is_not_told_to_export_what_it_did_not_write() {
    let world = World::with_demo();
    world.script(Script { exit_code: 3, ..Script::default() });
    let package = world.run(declaring()).expect("ran").package;
    assert_eq!(package.status, Status::Failure);
    assert_eq!(package.attention.len(), 1, "{:?}", package.attention);
    assert!(package.attention[0].contains("did not write it"), "{:?}", package.attention);
}

#[test]
fn a_run_lists_no_artifact_of_another_job() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    let pending = world.run(job(&["ls"])).expect("ran").package.attention;
    assert!(pending.is_empty(), "{pending:?}");
    world.export("pi", world.path("out")).expect("exported");
    assert!(world.run(job(&["ls"])).expect("ran").package.artifacts.is_empty());
    assert_eq!(world.inspect("demo").expect("seen").package.artifacts.len(), 1);
}

#[test]
fn files_land_once_and_are_recorded_by_digest() {
    let world = World::with_demo();
    world.batches();
    let file = world.host_file("a", "hello\n");
    let put = world.put(file.clone(), "data/a").expect("put").package;
    assert_eq!(put.resource_usage.storage_bytes, 6);
    assert!(put.provenance.inputs[0].starts_with("data/a (sha256:5891b5b522d5df08"));
    assert_eq!(world.batches(), [vec!["intent_opened"], vec!["inputs_added", "intent_closed"]]);
    assert_eq!(world.put(file, "data/a").expect_err("there").reason, "destination_exists");
    assert_eq!(world.store.tables().inputs.len(), 1);
    assert!(world.store.tables().intents.is_empty(), "the second put is abandoned, not open");
    assert_eq!(
        world.inspect("demo").expect("seen").package.provenance.inputs,
        put.provenance.inputs
    );
}

#[test]
fn variables_reach_the_job_and_nothing_else() {
    let world = World::with_demo();
    let vars = vec![EnvVar { name: "TOKEN".into(), value: Secret::new(b"hunter2".to_vec()) }];
    let environment = JobEnvironment { vars, files: vec!["secrets.env".into()] };
    let report = world.run(JobRequest { environment, ..job(&["env"]) }).expect("ran");
    assert_eq!(world.provider.inner().env, [("TOKEN".into(), b"hunter2".to_vec())]);
    let recorded = format!("{:?} {report:?}", world.store.tables());
    assert!(recorded.contains("TOKEN") && !recorded.contains("hunter2"));
    assert!(report.package.provenance.inputs.iter().any(|line| line.starts_with("env TOKEN")));
}

#[test]
fn an_input_is_copied_in_before_the_job() {
    let world = World::with_demo();
    world.batches();
    let source = world.host_file("a", "hello\n");
    let inputs = vec![InputRequest { destination: "x".into(), source }];
    let report = world.run(JobRequest { inputs, ..job(&["cat", "x"]) }).expect("ran");
    assert_eq!(world.batches().len(), 4, "a put's two batches, then the run's");
    assert!(report.package.outcome_summary.contains("1 file(s) of 6 bytes"));
    assert_eq!(report.package.provenance.inputs[..2], ["cat", "x"]);
    assert!(report.package.provenance.inputs[2].starts_with("x (sha256:"));
}

#[test]
fn a_cut_package_can_be_had_whole() {
    let world = World::with_demo();
    let long = "x".repeat(100_000);
    let report = world.run(job(&["echo", &long])).expect("ran");
    assert!(report.cut);
    assert!(report.package.provenance.inputs.iter().all(|line| line.len() < 8_192));
    let id = report.package.provenance.job_id;
    let whole = world.inspect(&id).expect("seen").package;
    assert_eq!(whole.provenance.inputs, ["echo", &long]);
    let bound = Some(Bound::default());
    let again = world.engine().inspect(&InspectRequest { handle: id, bound }).expect("seen");
    assert!(again.cut);
}

#[test]
fn output_is_returned_byte_for_byte() {
    let world = World::with_demo();
    world.script(Script { output: b"\xff\xfe\0".to_vec(), ..Script::default() });
    let id = world.run(job(&["true"])).expect("ran").package.provenance.job_id;
    let logs = world.engine().logs(&id).expect("read");
    assert_eq!((logs.jobs[0].encoding, &logs.jobs[0].output[..]), (Some("base64"), "//4A"));
    let json = serde_json::to_string(&logs).expect("serializes");
    assert!(
        json.starts_with(&format!("{{\"handle\":\"{id}\",\"workspace_id\":\"demo\"")),
        "{json}"
    );
    assert_eq!(world.engine().logs("demo").expect("read").jobs.len(), 1);
    assert_eq!(world.engine().logs("nope").expect_err("unknown").reason, "unknown_workspace");
}

#[test]
fn a_listing_names_what_there_is() {
    let world = World::with_demo();
    world.create("other").expect("created");
    world.run(declaring()).expect("ran");
    let all =
        world.engine().list(&ListRequest { limit: 10, ..ListRequest::default() }).expect("listed");
    let ids: Vec<_> = all.workspaces.iter().map(|row| row.workspace_id.as_str()).collect();
    assert_eq!((ids, all.total), (vec!["other", "demo"], 2));
    assert_eq!(all.left_out, 0);
    world.destroy(true).expect("destroyed");
    let ready =
        ListRequest { states: vec![WorkspaceState::Ready], limit: 10, ..ListRequest::default() };
    let ready = world.engine().list(&ready).expect("listed");
    assert_eq!((ready.workspaces.len(), ready.total, ready.left_out), (1, 1, 1));
    assert_eq!((all.workspaces[1].jobs, all.workspaces[1].artifacts_pending), (1, 1));
}

#[test]
fn stop_and_run_have_one_verdict() {
    let world = World::with_demo();
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(job(&["sleep", "60"])).expect("ran"));
        world.provider.wait_for_job();
        let preview = world.stop(false).expect("previewed");
        assert_eq!((preview.exit, preview.package.status), (ExitCode::Success, Status::Success));
        assert!(
            world.destroy(false).expect_err("running").remediation.contains("stop --apply demo")
        );
        let stopped = world.stop(true).expect("stopped");
        let ran = running.join().expect("joined");
        assert_eq!((stopped.exit, ran.exit), (ExitCode::Cancelled, ExitCode::Cancelled));
        assert_eq!(
            (stopped.package.facts.exit_status, ran.package.facts.exit_status),
            (None, None)
        );
        assert_eq!(stopped.package.provenance.job_id, ran.package.provenance.job_id);
    });
    assert_eq!(world.stop(true).expect("nothing runs").exit, ExitCode::Success);
    assert_eq!(world.state(), WorkspaceState::Ready);
}

#[test]
fn a_forced_destroy_stops_first_and_says_what_it_gave_up() {
    let world = World::with_demo();
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(declaring()).expect("ran"));
        world.provider.wait_for_job();
        let destroyed = world.destroy(true).expect("destroyed").package;
        assert!(destroyed.attention.iter().any(|line| line.contains("'pi' was discarded")));
        assert_eq!(running.join().expect("joined").exit, ExitCode::Cancelled);
    });
    assert_eq!(world.state(), WorkspaceState::Destroyed);
}

#[test]
fn a_removal_that_breaks_fails_the_workspace_and_can_be_repeated() {
    let world = World::with_demo();
    world.provider.inner().remove_fails = true;
    assert_eq!(world.destroy(false).expect_err("broken").code, ExitCode::InfrastructureFailure);
    assert_eq!(world.state(), WorkspaceState::Failed);
    world.provider.inner().remove_fails = false;
    let destroyed = world.destroy(false).expect("destroyed").package;
    assert!(destroyed.key_findings.contains(&"lifecycle path: failed -> destroyed".into()));
}

#[test]
fn both_renderings_stay_within_the_bound_and_whole_with_none() {
    let world = World::with_demo();
    for n in 0..1_000 {
        world.host_file(&format!("a-file-with-a-name-{n}"), "x");
    }
    let put = PutRequest {
        workspace: ws("demo"),
        source: world.host.path().into(),
        destination: "in".into(),
        overwrite: false,
        ignore_file: None,
        bound: Some(Bound::default()),
    };
    let report = world.engine().put(&put).expect("put");
    assert!(report.cut);
    for nine in [Sections::All, Sections::Nine] {
        assert!(render::json(&report.package, nine).len() < 8_192);
        assert!(render::markdown(&report.package, nine).len() < 8_192);
    }
    assert_eq!(world.inspect("demo").expect("seen").package.provenance.inputs.len(), 1_000);
}

#[test]
fn a_second_run_waits_and_says_for_whom() {
    let world = World::with_demo();
    let hold = hold_demo(&world);
    let told = std::sync::Mutex::new(Vec::new());
    let request = RunRequest {
        job: job(&["true"]),
        wait: Some(Duration::from_secs(1)),
        notice: &|line| told.lock().expect("not poisoned").push(line.to_owned()),
        ..running("demo")
    };
    let refused = world.engine().run(&request).expect_err("held all the time");
    assert_eq!((refused.reason, refused.retryable), ("workspace_busy", true));
    assert_eq!(told.lock().expect("not poisoned").len(), 1);
    assert_eq!(world.run(job(&["true"])).expect_err("--wait 0").reason, "workspace_busy");
    assert_eq!(world.put(world.path("x"), "x").expect_err("held").reason, "workspace_busy");
    drop(hold);
    assert!(world.engine().run(&request).is_ok());
}

fn hold_demo(world: &World) -> Box<dyn bailiwick_contract::provider::Hold> {
    use bailiwick_contract::provider::{Provider as _, Slots};
    world.provider.hold(&ws("demo"), Slots::One(1)).expect("asked").expect("free")
}

#[test]
fn jobs_share_a_workspace_up_to_its_concurrency() {
    let world = World::new();
    let mut policy = PolicyRequest::default();
    policy.policy.budget.concurrency = 2;
    let request = CreateRequest { workspace: Some(ws("demo")), policy, ..CreateRequest::default() };
    world.engine().create(&request).expect("created");
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| world.run(job(&["sleep", "60"])).expect("ran"));
        world.provider.wait_for_job();
        world.script(Script::default());
        let second = world.run(job(&["true"])).expect("beside the first");
        assert_eq!(second.package.facts.state.as_deref(), Some("running"));
        assert_eq!(world.state(), WorkspaceState::Running);
        assert_eq!(world.stop(true).expect("stopped").exit, ExitCode::Cancelled);
        first.join().expect("joined");
    });
    assert_eq!(world.state(), WorkspaceState::Ready);
}

#[test]
fn a_hold_that_outlasts_its_job_is_waited_for() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    let file = world.host_file("a", "hello\n");
    let verbs: [(&str, &(dyn Fn() -> bool + Sync)); 4] = [
        ("run --wait 0", &|| world.run(job(&["true"])).is_ok()),
        ("put", &|| world.put(file.clone(), "a").is_ok()),
        ("export", &|| world.export("pi", world.path("out")).is_ok()),
        ("destroy", &|| world.destroy(false).is_ok()),
    ];
    for (name, verb) in verbs {
        let hold = hold_demo(&world);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(verb);
            std::thread::sleep(Duration::from_millis(30));
            drop(hold);
            assert!(waiting.join().expect("joined"), "{name}");
        });
    }
}

#[test]
fn somebody_at_work_is_not_waited_for() {
    let world = World::with_demo();
    world.script(Script { endless: true, ..Script::default() });
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(job(&["sleep", "60"])).expect("ran"));
        world.provider.wait_for_job();
        let before = world.clock.monotonic();
        assert_eq!(world.put(world.path("x"), "x").expect_err("busy").reason, "workspace_busy");
        assert_eq!(world.destroy(false).expect_err("busy").reason, "workspace_running");
        assert_eq!(world.clock.monotonic(), before, "no time was spent");
        world.stop(true).expect("stopped");
        running.join().expect("joined");
    });
}

#[test]
fn a_package_that_was_never_cut_lists_its_own_inputs_when_it_is_made_again() {
    let world = World::with_demo();
    let source = world.host_file("a", "hello\n");
    world.put(source.clone(), "of-a-put").expect("put");
    let with = |name: &str| {
        let inputs = vec![InputRequest { destination: name.into(), source: source.clone() }];
        world.run(JobRequest { inputs, ..job(&["cat", name]) }).expect("ran")
    };
    let (first, second) = (with("x"), with("y"));
    for ran in [first, second] {
        assert!(!ran.cut);
        let again = world.inspect(&ran.package.provenance.job_id).expect("seen").package;
        assert_eq!(again.provenance.inputs, ran.package.provenance.inputs);
        assert_eq!(again.outcome_summary, ran.package.outcome_summary);
        assert_eq!(again.key_findings, ran.package.key_findings);
    }
    let ran = world
        .exec(JobRequest {
            inputs: vec![InputRequest { destination: "z".into(), source }],
            ..job(&["cat", "z"])
        })
        .expect("ran");
    let again = world.inspect(&ran.package.provenance.job_id).expect("seen").package;
    assert_eq!(again.provenance.inputs, ran.package.provenance.inputs);
}

#[test]
fn cancelling_while_files_are_read_ends_with_five_and_leaves_nothing() {
    let world = World::with_demo();
    let file = world.host_file("a", "hello\n");
    world.cancel.cancel();
    assert_eq!(world.put(file.clone(), "a").expect_err("cancelled").code, ExitCode::Cancelled);
    let inputs = vec![InputRequest { destination: "x".into(), source: file }];
    let request = JobRequest { inputs, ..job(&["true"]) };
    assert_eq!(world.run(request.clone()).expect_err("cancelled").code, ExitCode::Cancelled);
    assert_eq!(world.exec(request).expect_err("cancelled").code, ExitCode::Cancelled);
    assert!(world.store.tables().intents.is_empty());
    assert!(world.provider.inner().disks.values().all(std::collections::BTreeMap::is_empty));
}
