//! `exec`: what it asks of whom in which order, and what it leaves when something goes wrong.
use crate::provider::Script;
use crate::world::{World, declaring, job, writing_pi};
use bailiwick_contract::artifact::ArtifactDeclaration;
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::package::Status;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::requests::{ExecRequest, ExportTarget, InputRequest, JobRequest};

#[test]
fn one_call_makes_runs_exports_and_removes_in_two_batches() {
    let world = World::new();
    world.script(writing_pi());
    let report = world.exec(declaring()).expect("ran");
    assert_eq!((report.exit, report.package.status), (ExitCode::Success, Status::Success));
    assert_eq!(report.package.facts.state.as_deref(), Some("destroyed"));
    assert_eq!(report.package.artifacts[0].name, "pi");
    assert!(report.package.attention.is_empty(), "{:?}", report.package.attention);
    assert_eq!(std::fs::read(world.path("out")).expect("published"), b"3.1415926536");
    assert_eq!(world.batches().len(), 2);
    assert!(world.store.tables().intents.is_empty());
    assert!(world.provider.inner().disks.is_empty());
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    let id = report.package.provenance.job_id;
    assert_eq!(world.engine().logs(&id).expect("kept").jobs[0].output, "done\n");
}

#[test]
fn the_store_is_not_touched_before_the_gate() {
    let world = World::new();
    let refused = world.exec(job(&[])).expect_err("no command");
    assert_eq!((refused.code, world.store.tables().opened), (ExitCode::UserError, 0));
    world.store.tables().room = Some(0);
    let failure = world.exec(job(&["true"])).expect_err("the disk is full");
    assert_eq!((failure.code, failure.reason), (ExitCode::EnvironmentError, "store_unwritable"));
    assert!(failure.message.contains("the disk is full"), "{failure}");
    let inner = world.provider.inner();
    assert_eq!(inner.calls, ["capabilities", "create", "run", "remove"]);
    assert!(inner.disks.is_empty());
    assert_eq!(world.store.tables().opened, 1);
}

#[test]
fn what_is_declared_is_exported_and_the_reverse() {
    let world = World::new();
    let without = ExecRequest { job: declaring(), ..ExecRequest::default() };
    assert_eq!(world.engine().exec(&without).expect_err("").reason, "declare_without_export");
    let exports = vec![ExportTarget { name: "pi".into(), destination: world.path("out") }];
    let stray = ExecRequest { job: job(&["true"]), exports, ..ExecRequest::default() };
    assert_eq!(world.engine().exec(&stray).expect_err("").reason, "export_not_declared");
    let destination = world.path("absent/out");
    let exports = vec![ExportTarget { name: "pi".into(), destination }];
    let nowhere = ExecRequest { job: declaring(), exports, ..ExecRequest::default() };
    assert_eq!(world.engine().exec(&nowhere).expect_err("").reason, "no_such_directory");
    let export = |name: &str| ExportTarget { name: name.into(), destination: world.path("out") };
    let mut job = declaring();
    job.declares.push(ArtifactDeclaration { name: "tau".into(), ..job.declares[0].clone() });
    let exports = vec![export("pi"), export("tau")];
    let twice = ExecRequest { job, exports, ..ExecRequest::default() };
    assert_eq!(world.engine().exec(&twice).expect_err("").reason, "export_twice");
    assert!(world.provider.inner().calls.is_empty());
}

#[test]
fn a_workspace_is_kept_when_its_artifact_did_not_come_out() {
    let world = World::new();
    let report = world.exec(declaring()).expect("ran");
    assert_eq!((report.exit, report.package.status), (ExitCode::UserError, Status::PartialSuccess));
    assert_eq!(report.package.facts.state.as_deref(), Some("ready"));
    let id = &report.package.provenance.workspace_id;
    assert!(report.package.attention[0].contains(&format!("bailiwick destroy --force {id}")));
    assert_eq!(world.provider.inner().disks.len(), 1);
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn an_artifact_that_cannot_be_published_can_be_exported_again() {
    let world = World::new();
    // The destination becomes a directory while the job runs.
    world.script(writing_pi());
    world.provider.inner().makes_directory = Some(world.path("out"));
    let report = world.exec(declaring()).expect("ran");
    assert_eq!((report.exit, report.package.status), (ExitCode::UserError, Status::Success));
    let id = &report.package.provenance.workspace_id;
    assert!(report.package.attention[0].contains(&format!("bailiwick export {id} pi --to PATH")));
    let names: Vec<_> = std::fs::read_dir(world.host.path()).expect("listed").collect();
    assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
    assert_eq!(world.state(), WorkspaceState::Ready);
}

#[test]
fn a_failed_job_exports_what_it_wrote_and_loses_what_it_did_not() {
    let world = World::new();
    world.script(Script { exit_code: 3, ..Script::default() });
    let report = world.exec(declaring()).expect("ran");
    assert_eq!(report.exit, ExitCode::ComputationFailed);
    assert_eq!(report.package.facts.state.as_deref(), Some("destroyed"));
    assert!(report.package.attention[0].contains("'pi' was not exported"));
    world.script(Script { exit_code: 3, ..writing_pi() });
    let report = world.exec(declaring()).expect("ran");
    assert_eq!((report.exit, report.package.artifacts.len()), (ExitCode::ComputationFailed, 1));
}

#[test]
fn inputs_are_there_and_on_record() {
    let world = World::new();
    let source = world.host_file("a", "hello\n");
    let inputs = vec![InputRequest { destination: "x".into(), source }];
    let report = world.exec(JobRequest { inputs, ..job(&["cat", "x"]) }).expect("ran");
    assert!(report.package.provenance.inputs[2].starts_with("x (sha256:"));
    assert_eq!((world.batches().len(), world.store.tables().inputs.len()), (2, 1));
}

#[test]
fn a_result_outlives_a_store_that_fails_after_the_job() {
    let world = World::new();
    world.store.tables().room = Some(1);
    let report = world.exec(job(&["true"])).expect("ran");
    assert_eq!(report.exit, ExitCode::Success);
    assert!(report.package.attention[0].contains("not recorded yet"));
    world.store.tables().room = None;
    let id = report.package.provenance.job_id;
    let seen = world.inspect(&id).expect("seen").package;
    assert_eq!(seen.facts.job_status.as_deref(), Some("success"));
    assert_eq!(world.state(), WorkspaceState::Destroyed);
}

#[test]
fn a_disk_that_cannot_be_removed_fails_its_workspace() {
    let world = World::new();
    world.provider.inner().remove_fails = true;
    let report = world.exec(job(&["true"])).expect("ran");
    assert_eq!(report.package.facts.state.as_deref(), Some("failed"));
    assert!(report.package.attention[0].contains("could not be removed"));
}
