//! `run --detach` and `wait`: who settles a job that nobody waits for, and that it reads as if somebody had.
use crate::provider::Script;
use crate::world::{World, declaring, job, running, writing_pi, ws};
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{CheckDeclaration, Observed};
use bailiwick_contract::package::Status;
use bailiwick_contract::policy::{Budget, Policy};
use bailiwick_contract::provider::Recovered;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::requests::{
    CreateRequest, JobRequest, Live, LogPart, PolicyRequest, RunRequest,
};
use core::time::Duration;
use std::collections::BTreeMap;

fn named(id: &str, request: JobRequest) -> JobRequest {
    JobRequest { job: Some(JobId::parse(id).expect("an id")), ..request }
}

fn endless() -> Script {
    Script { endless: true, ..Script::default() }
}

fn ended(exit_code: i32) -> Observed {
    Observed { exit_code: Some(exit_code), ..Observed::default() }
}

#[test]
fn a_detached_job_runs_on_and_its_package_names_what_comes_next() {
    let world = World::with_demo();
    world.script(endless());
    let report = world.detach(named("j", job(&["serve"]))).expect("let go");
    let package = report.package;
    assert_eq!((report.exit, package.status), (ExitCode::Success, Status::Success));
    assert!(package.outcome_summary.contains("job j is running in workspace demo, detached"));
    assert_eq!(package.facts.state.as_deref(), Some("running"));
    assert_eq!(package.facts.job_status.as_deref(), Some("running"));
    for next in ["bailiwick wait j ", "logs --follow j ", "stop --apply demo "] {
        assert!(
            package.attention.iter().any(|line| line.contains(next)),
            "{:?}",
            package.attention
        );
    }
    assert_eq!((world.state(), world.store.tables().intents.len()), (WorkspaceState::Running, 1));
    assert!(world.store.tables().jobs[0].terms.detached);
    assert_eq!(world.run(job(&["true"])).expect_err("held").reason, "workspace_busy");
    let seen = world.inspect("demo").expect("seen").package;
    assert_eq!(seen.evidence[0].label, "output of job j so far");
    assert_eq!(seen.evidence[0].excerpt, "done\n");
}

#[test]
fn who_waits_is_told_what_run_would_have_told() {
    let request = || named("j", declaring());
    let (here, there) = (World::with_demo(), World::with_demo());
    for (script, status) in [
        (Script::default(), Status::PartialSuccess),
        (Script { exit_code: 3, ..writing_pi() }, Status::Failure),
        (writing_pi(), Status::Success),
    ] {
        let (here, there) = (World::with_demo(), World::with_demo());
        here.script(script.clone());
        there.script(script);
        let ran = here.run(request()).expect("ran");
        there.detach(request()).expect("let go");
        let waited = there.wait("j").expect("waited");
        assert_eq!(waited, ran);
        assert_eq!(waited.package.status, status);
        assert_eq!(there.wait("demo").expect("again, from the record"), ran);
        assert_eq!(there.store.tables().intents.len(), 0);
        assert_eq!(there.state(), WorkspaceState::Ready);
    }
    // A large result is cut, and its whole is kept, whoever settles it.
    let large = |world: &World| {
        world.script(Script { output: vec![b'x'; 50_000], ..Script::default() });
        world.detach(named("l", job(&["yes"]))).expect("let go");
        world.wait("l").expect("waited")
    };
    assert_eq!(large(&here), large(&there));
    assert!(here.store.tables().jobs[0].package.is_some());
}

#[test]
fn what_a_job_wrote_is_not_denied_once_it_was_exported_and_is_gone() {
    let denied = |world: &World| {
        let told = world.wait("j").expect("on record").package;
        let line = |line: &String| line.contains("the job did not write it");
        (told.status, told.artifacts.len(), told.attention.iter().any(line))
    };
    for (check, status) in [("true", Status::Success), ("false", Status::PartialSuccess)] {
        let world = World::with_demo();
        world.script(writing_pi());
        let failing = Script { exit_code: 1, ..Script::default() };
        world.provider.inner().shell.insert("false", failing);
        let checks = vec![CheckDeclaration { name: "one".into(), command: check.into() }];
        world.run(named("j", JobRequest { checks, ..declaring() })).expect("ran");
        world.export("pi", world.path("out")).expect("exported");
        // As a later job may leave it.
        world.provider.inner().disks.values_mut().for_each(BTreeMap::clear);
        assert_eq!(denied(&world), (status, 1, false));
    }
}

#[test]
fn a_wait_that_takes_too_long_changes_nothing_and_an_interrupt_ends_it() {
    let world = World::with_demo();
    world.script(endless());
    world.detach(named("j", job(&["serve"]))).expect("let go");
    drop(world.batches());
    let failure = world.wait_within("j", Some(Duration::from_secs(3))).expect_err("still there");
    assert_eq!((failure.code, failure.reason), (ExitCode::Timeout, "wait_timeout"));
    world.cancel.cancel();
    let failure = world.wait("demo").expect_err("interrupted");
    assert_eq!((failure.code, failure.reason), (ExitCode::Cancelled, "cancelled"));
    assert_eq!(world.batches().len(), 0);
    assert!(world.provider.inner().stopped.is_empty(), "the job was left alone");
}

#[test]
fn the_next_verb_settles_a_detached_job_that_has_ended() {
    let world = World::with_demo();
    world.script(writing_pi());
    world.detach(named("j", declaring())).expect("let go");
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.attention[0].contains("job j had ended with success"), "{:?}", seen.attention);
    assert_eq!(world.wait("j").expect("on record").package.status, Status::Success);
    assert!(world.export("pi", world.path("out")).is_ok());
}

#[test]
fn a_detached_job_can_be_stopped_and_reads_so_for_who_waits() {
    let world = World::with_demo();
    world.script(endless());
    world.detach(named("j", job(&["serve"]))).expect("let go");
    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.wait("j"));
        let stopped = world.stop(true).expect("stopped");
        assert_eq!(
            (stopped.exit, stopped.package.status),
            (ExitCode::Cancelled, Status::Cancelled)
        );
        waiting.join().expect("no panic")
    });
    let waited = waited.expect("waited");
    assert_eq!((waited.exit, waited.package.status), (ExitCode::Cancelled, Status::Cancelled));
}

#[test]
fn a_job_that_lost_its_supervisor_or_its_caller_is_waited_for_too() {
    for (recovered, reason) in
        [(Recovered::Lost, "supervisor_lost"), (Recovered::NeverStarted, "never_started")]
    {
        let world = World::with_demo();
        world.run_and_die(named("j", job(&["true"])));
        let id = JobId::parse("j").expect("an id");
        world.provider.inner().recovered.insert(id, recovered);
        let waited = world.wait("j").expect("settled");
        assert_eq!(waited.exit, ExitCode::InfrastructureFailure);
        assert_eq!(waited.package.facts.reason.as_deref(), Some(reason));
    }
}

#[test]
fn an_exec_whose_caller_died_is_settled_whole_by_who_waits() {
    let world = World::new();
    world.die(|| drop(world.exec(named("j", job(&["true"])))));
    let id = JobId::parse("j").expect("an id");
    world.provider.inner().recovered.insert(id, crate::provider::ended(&world.cx()));
    assert_eq!(world.wait("j").expect("settled").package.status, Status::Success);
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn a_workspace_is_waited_for_until_all_its_jobs_have_ended() {
    let world = World::new();
    let budget = Budget { concurrency: 3, ..Budget::default() };
    let policy = PolicyRequest {
        policy: Policy { budget, ..Policy::default() },
        ..PolicyRequest::default()
    };
    let request = CreateRequest { workspace: Some(ws("demo")), policy, ..CreateRequest::default() };
    world.engine().create(&request).expect("created");
    assert_eq!(world.wait("demo").expect_err("no job").reason, "no_job");
    world.script(endless());
    for id in ["a", "b"] {
        world.detach(named(id, job(&["serve"]))).expect("let go");
    }
    let follow = world.engine().follow("demo", &mut Vec::new().sink(), &|_| {});
    assert_eq!(follow.expect_err("two jobs").reason, "which_job");
    let report = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| world.wait("demo"));
        for (id, code) in [("b", 0), ("a", 4)] {
            world.provider.finish(&JobId::parse(id).expect("an id"), &ended(code), &world.cx());
        }
        waiting.join().expect("no panic").expect("waited")
    });
    assert_eq!(report.package.provenance.job_id, "b");
    let told = &report.package.key_findings;
    assert!(told.iter().any(|line| line == "job a ended too: failure"), "{told:?}");
    assert_eq!(world.state(), WorkspaceState::Ready);
}

#[test]
fn what_needs_a_caller_is_refused_without_one() {
    let world = World::with_demo();
    let listen = |_: &[u8]| Ok(());
    let live = RunRequest {
        job: job(&["true"]),
        detach: true,
        live: Live(Some(&listen)),
        ..running("demo")
    };
    assert_eq!(world.engine().run(&live).expect_err("").reason, "detached_stream");
    assert!(world.store.tables().jobs.is_empty());
}

#[test]
fn a_follower_gets_everything_until_the_end_and_settles_nothing() {
    let world = World::with_demo();
    world.script(endless());
    world.detach(named("j", job(&["serve"]))).expect("let go");
    let mut got = Vec::new();
    std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            let mut sink = got.sink();
            world.engine().follow("demo", &mut sink, &|line| panic!("{line}"))
        });
        let id = JobId::parse("j").expect("an id");
        world.provider.inner().outputs.get_mut(&id).expect("some").extend_from_slice(b"more\n");
        world.provider.finish(&id, &ended(0), &world.cx());
        following.join().expect("no panic").expect("followed");
    });
    assert_eq!(got, b"done\nmore\n");
    assert_eq!(world.store.tables().intents.len(), 1, "the job is there to be waited for");
    world.cancel.cancel();
    assert!(world.engine().follow("j", &mut Vec::new().sink(), &|_| {}).is_ok(), "it has ended");
}

#[test]
fn a_range_of_output_is_what_was_asked_for() {
    let world = World::with_demo();
    world.script(Script { output: b"0123456789".to_vec(), ..Script::default() });
    world.run(named("j", job(&["true"]))).expect("ran");
    let raw = |start, end| {
        let mut got = Vec::new();
        let part = LogPart { range: Some((start, end)), ..LogPart::default() };
        world.engine().raw_logs_part("j", part, &mut got.sink(), &|_| {}).expect("read");
        let logs = world.engine().logs_part("demo", part).expect("read");
        assert_eq!(logs.jobs[0].bytes, got);
        let reached = end.min(start + got.len() as u64);
        assert_eq!(logs.jobs[0].range, Some((start, reached)));
        String::from_utf8(got).expect("text")
    };
    assert_eq!(raw(0, 3), "012");
    assert_eq!(raw(4, u64::MAX), "456789");
    assert_eq!(raw(5, 5), "");
    assert_eq!(raw(70, 80), "");
    world.run(job(&["true"])).expect("ran");
    let part = LogPart { range: Some((0, 1)), ..LogPart::default() };
    assert_eq!(world.engine().logs_part("demo", part).expect_err("two").reason, "which_job");
}

/// Collects in a vector.
trait Sink {
    fn sink(&mut self) -> Into<'_>;
}

struct Into<'v>(&'v mut Vec<u8>);

impl Sink for Vec<u8> {
    fn sink(&mut self) -> Into<'_> {
        Into(self)
    }
}

impl bailiwick_contract::provider::ByteSink for Into<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn core::error::Error + Send + Sync>> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}
