//! Checks and measurements: what they say of a job, and what is left of them when a caller dies.
use crate::provider::Script;
use crate::world::{World, declaring, job, writing_pi, ws};
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::id::{IntentId, JobId};
use bailiwick_contract::job::{CheckDeclaration, JobStatus, Stdin};
use bailiwick_contract::journal::{IntentDetail, IntentKind};
use bailiwick_contract::package::{EvidenceKind, ResultPackage, Status};
use bailiwick_contract::policy::{Budget, Policy};
use bailiwick_contract::provider::{Provider as _, Recovered, Slots};
use bailiwick_contract::record::OpenIntent;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;
use bailiwick_engine::declare;
use bailiwick_engine::requests::{CreateRequest, JobRequest, PolicyRequest};
use core::time::Duration;

fn failing(code: i32) -> Script {
    Script { exit_code: code, output: b"no such line\n".to_vec(), ..Script::default() }
}

/// A job called `j` with the checks `good` and `bad`.
fn checked() -> JobRequest {
    let check =
        |name: &str, command: &str| CheckDeclaration { name: name.into(), command: command.into() };
    JobRequest {
        job: Some(JobId::parse("j").expect("an id")),
        checks: vec![check("good", "test -s out"), check("bad", "grep x out")],
        cwd: declare::cwd(b"src").expect("a path"),
        ..job(&["make"])
    }
}

fn world() -> World {
    let world = World::with_demo();
    world.provider.inner().shell.insert("grep x out", failing(1));
    world
}

fn told(package: &ResultPackage) -> Vec<(&str, bool, Option<i32>, bool)> {
    let checks = package.facts.checks.iter();
    checks.map(|c| (c.name.as_str(), c.passed, c.exit_status, c.job.is_some())).collect()
}

#[test]
fn a_job_whose_check_fails_succeeded_in_part() {
    let world = world();
    drop(world.batches());
    let report = world.run(checked()).expect("ran");
    let package = &report.package;
    assert_eq!((report.exit, package.status), (ExitCode::Success, Status::PartialSuccess));
    assert_eq!(told(package), [("good", true, Some(0), true), ("bad", false, Some(1), true)]);
    assert_eq!(package.facts.exit_status, Some(0), "it is the job's own");
    let kinds: Vec<EvidenceKind> = package.evidence.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [EvidenceKind::Excerpt, EvidenceKind::Check, EvidenceKind::Check]);
    let bad = &package.evidence[2];
    assert_eq!(bad.label, "check bad");
    assert_eq!(bad.excerpt, "$ grep x out\nfailed with exit status 1\nno such line\n");
    assert_eq!(Some(&bad.source), package.facts.checks[1].job.as_ref());
    assert!(package.key_findings.contains(&"check 'good': passed".into()));
    let (gate, settled) = (["intent_opened", "job_added"], ["job_ended", "intent_closed"]);
    let batches = world.batches();
    assert_eq!(batches.len(), 4, "{batches:?}");
    assert_eq!((&batches[1][..], &batches[2][..]), (&gate[..], &gate[..]));
    assert_eq!(batches[3], [&["workspace_moved"], &settled[..], &settled, &settled].concat());
    assert_eq!(world.state(), WorkspaceState::Ready);
    assert_eq!(world.wait("j").expect("on record"), report);
    let seen = world.inspect("demo").expect("seen").package;
    assert!(seen.key_findings.iter().any(|line| line.starts_with("last job: j reads partial_su")));
    assert_eq!(seen.evidence[0].source, "j");
}

#[test]
fn a_check_is_a_job_of_its_own_in_the_same_place_with_less_time_and_no_secret() {
    let world = world();
    let mut request = checked();
    request.timeout = Some(Duration::from_secs(2));
    request.stdin = Stdin::File("data".into());
    let vars = bailiwick_engine::env::gather(&[b"T".to_vec()], &|_| Some(b"x".to_vec()), &[]);
    request.environment = vars.expect("gathered");
    world.run(request).expect("ran");
    let specs = world.provider.inner().specs.clone();
    assert_eq!(specs[0].policy.policy.budget.wall_clock_ms, 2_000);
    assert_eq!((specs[0].stdin.clone(), specs[0].env.len()), (Stdin::File("data".into()), 1));
    for spec in &specs[1..] {
        assert_eq!(spec.cwd, specs[0].cwd);
        assert_eq!((spec.stdin.clone(), spec.env.len()), (Stdin::Empty, 0));
        assert_eq!(spec.policy.policy.budget.wall_clock_ms, 2_000 - 31);
    }
    let jobs = world.store.tables().jobs.clone();
    let parent = JobId::parse("j").expect("an id");
    assert_eq!(jobs[1].terms.check_of, Some((parent, "good".into())));
    let one = world.inspect(jobs[1].id.as_str()).expect("seen").package;
    assert!(one.outcome_summary.contains("it is check 'good' of job j"), "{}", one.outcome_summary);
}

#[test]
fn a_job_that_failed_is_checked_and_one_that_was_ended_is_not() {
    let world = world();
    world.script(failing(7));
    let report = world.run(checked()).expect("ran");
    assert_eq!(
        (report.exit, report.package.status),
        (ExitCode::ComputationFailed, Status::Failure)
    );
    assert!(report.package.facts.checks[1].job.is_some());

    let world = self::world();
    world.script(Script { timed_out: true, ..Script::default() });
    let report = world.run(checked()).expect("ran");
    assert_eq!((report.exit, report.package.status), (ExitCode::Timeout, Status::Timeout));
    assert_eq!(told(&report.package), [("good", false, None, false), ("bad", false, None, false)]);
    let line = &report.package.attention[0];
    assert!(line.starts_with("check 'good' was not run"), "{line}");
}

#[test]
fn nothing_is_checked_once_the_wall_clock_is_used_up() {
    let world = world();
    let timeout = Some(Duration::from_millis(31));
    let report = world.run(JobRequest { timeout, ..checked() }).expect("ran");
    assert_eq!(report.package.status, Status::PartialSuccess);
    let line = "check 'good' was not run: nothing is left of the job's wall clock";
    assert_eq!(report.package.attention[0], line);
    assert_eq!(world.store.tables().jobs.len(), 1);
}

#[test]
fn a_measurement_is_read_from_the_file_that_the_job_left() {
    let world = World::with_demo();
    let writes = vec![("loss", b" 0.25\n".to_vec()), ("odd", b"much".to_vec())];
    world.script(Script { writes, ..Script::default() });
    let measure = |given: &str| declare::measure(given.as_bytes()).expect("good");
    let one = JobRequest { measures: vec![measure("loss=loss")], ..job(&["train"]) };
    let package = world.run(one).expect("ran").package;
    assert_eq!(package.status, Status::Success);
    assert_eq!(package.facts.measurements[0].value.as_deref(), Some("0.25"));
    assert_eq!(package.evidence[1].kind, EvidenceKind::Measurement);
    assert_eq!(package.evidence[1].excerpt, "loss: 0.25\n");

    let measures = ["loss=loss", "odd=odd", "gone=gone"].map(measure).into();
    let package = world.run(JobRequest { measures, ..job(&["train"]) }).expect("ran").package;
    assert_eq!(package.status, Status::PartialSuccess);
    let values: Vec<_> = package.facts.measurements.iter().map(|one| one.value.clone()).collect();
    assert_eq!(values, [Some("0.25".into()), None, None]);
    let warned = |name: &str| package.warnings.iter().any(|line| line.contains(name));
    assert!(warned("'odd': there is no finite number in `odd`") && warned("'gone'"));
}

/// Kills the caller of a checked job where `at` says, and returns what the next verb makes of it.
fn died(at: impl FnOnce(&World)) -> (World, ResultPackage) {
    let world = world();
    at(&world);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(world.run(checked()))))
        .expect_err("the caller is killed");
    world.provider.inner().shell.clear();
    let notes = world.inspect("demo").expect("seen").package.attention;
    assert!(notes[0].contains("job j had ended with partial_success"), "{notes:?}");
    assert!(world.store.tables().intents.is_empty(), "all of it is settled");
    assert_eq!(world.state(), WorkspaceState::Ready);
    let package = world.inspect("j").expect("seen").package;
    assert_eq!(package.status, Status::PartialSuccess);
    (world, package)
}

#[test]
fn a_caller_that_dies_among_the_checks_leaves_what_is_on_record() {
    let dying = || Script { kills_after: true, ..Script::default() };
    let (_, package) = died(|world| world.script(dying()));
    assert_eq!(told(&package), [("good", false, None, false), ("bad", false, None, false)]);
    assert!(package.attention[0].starts_with("check 'good' was not run"));

    let at = |check: &'static str, script: Script| {
        move |world: &World| drop(world.provider.inner().shell.insert(check, script))
    };
    let (world, package) = died(at("test -s out", dying()));
    assert_eq!(told(&package), [("good", true, Some(0), true), ("bad", false, None, false)]);
    let check = world.store.tables().jobs[1].clone();
    assert_eq!(check.outcome.expect("settled").status, JobStatus::Success);

    let (_, package) = died(at("grep x out", Script { kills_before: true, ..Script::default() }));
    assert_eq!(told(&package), [("good", true, Some(0), true), ("bad", false, None, false)]);
    let (_, package) = died(at("grep x out", Script { kills_caller: true, ..Script::default() }));
    assert_eq!(told(&package), [("good", true, Some(0), true), ("bad", false, None, true)]);
    let (_, package) = died(at("grep x out", Script { kills_after: true, ..failing(1) }));
    assert_eq!(told(&package)[1], ("bad", false, Some(1), true));
}

#[test]
fn a_check_whose_sandbox_cannot_be_set_up_was_not_run_and_why_is_said() {
    let world = world();
    let script = Script { fails: true, ..Script::default() };
    world.provider.inner().shell.insert("test -s out", script);
    let package = world.run(checked()).expect("ran").package;
    assert_eq!(told(&package), [("good", false, None, false), ("bad", false, Some(1), true)]);
    let line = &package.attention[0];
    assert!(line.starts_with("check 'good' was not run: make a namespace"), "{line}");
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn checks_that_could_not_be_settled_are_settled_by_the_next_verb() {
    let world = world();
    world.store.tables().room = Some(3);
    let package = world.run(checked()).expect("ran").package;
    assert!(package.attention.iter().any(|line| line.contains("not recorded yet")));
    world.store.tables().room = None;
    world.inspect("demo").expect("seen");
    let later = world.inspect("j").expect("seen").package;
    assert_eq!(told(&later), [("good", true, Some(0), true), ("bad", false, Some(1), true)]);
    assert_eq!(later.status, Status::PartialSuccess);
}

#[test]
fn a_check_that_cannot_be_recorded_is_never_taken_for_one_that_holds() {
    let world = world();
    // The gate of the job is recorded, that of its first check is not.
    world.store.tables().misfit_after = Some(1);
    let package = world.run(checked()).expect("ran").package;
    assert_eq!(package.status, Status::PartialSuccess);
    assert_eq!(told(&package), [("good", false, None, false), ("bad", false, Some(1), true)]);
    let line = &package.attention[0];
    assert!(line.starts_with("check 'good' was not run: it moved on"), "{line}");
    assert!(world.store.tables().intents.is_empty());

    let world = self::world();
    world.store.tables().misfit_after = Some(1);
    let package = world.exec(checked()).expect("ran").package;
    assert_eq!(package.status, Status::PartialSuccess);
    assert_eq!(told(&package), [("good", false, None, false), ("bad", false, Some(1), true)]);
}

#[test]
fn who_waits_runs_the_checks_also_while_another_slot_copies_files_in() {
    let world = World::new();
    let budget = Budget { concurrency: 2, ..Budget::default() };
    let policy = Policy { budget, ..Policy::default() };
    let policy = PolicyRequest { policy, ..PolicyRequest::default() };
    let request = CreateRequest { workspace: Some(ws("demo")), policy, ..CreateRequest::default() };
    world.engine().create(&request).expect("created");
    world.provider.inner().shell.insert("grep x out", failing(1));
    world.detach(checked()).expect("let go");
    let _slot = world.provider.hold(&ws("demo"), Slots::One(2)).expect("asked").expect("free");
    world.store.tables().intents.push(OpenIntent {
        id: IntentId::parse("0123456789ab").expect("an id"),
        kind: IntentKind::Put,
        workspace: ws("demo"),
        job: None,
        detail: IntentDetail::Inputs(Vec::new()),
        opened_at: Timestamp::default(),
    });
    let waited = world.wait("j").expect("waited").package;
    assert_eq!(told(&waited), [("good", true, Some(0), true), ("bad", false, Some(1), true)]);
    assert_eq!(world.store.tables().intents.len(), 1, "the copy is left to whoever makes it");
}

#[test]
fn who_waits_runs_the_checks_who_reads_leaves_them_and_who_acts_gives_them_up() {
    let world = world();
    let detached = world.detach(checked()).expect("let go").package;
    assert!(detached.attention[3].contains("its checks are run by that wait"));
    let waited = world.wait("j").expect("waited");
    assert_eq!(
        told(&waited.package),
        [("good", true, Some(0), true), ("bad", false, Some(1), true)]
    );
    assert_eq!(waited, self::world().run(checked()).expect("ran"), "as run would have told it");

    let world = self::world();
    world.detach(checked()).expect("let go");
    for handle in ["demo", "j"] {
        let notes = world.inspect(handle).expect("seen").package.attention;
        assert_eq!(
            notes[0],
            "job j has ended and waits for its checks: bailiwick wait j runs them"
        );
    }
    assert_eq!(
        world
            .list(&bailiwick_engine::requests::ListRequest { limit: 9, ..Default::default() })
            .attention
            .len(),
        1
    );
    let waited = world.wait("j").expect("they were left to it").package;
    assert_eq!(told(&waited), [("good", true, Some(0), true), ("bad", false, Some(1), true)]);

    let world = self::world();
    world.detach(checked()).expect("let go");
    let notes = world.seal().expect("sealed").package.attention;
    assert!(notes[0].ends_with("2 check(s) were not run"), "{notes:?}");
    let waited = world.wait("j").expect("on record");
    assert_eq!(waited.package.status, Status::PartialSuccess);
    assert_eq!(told(&waited.package)[0], ("good", false, None, false));

    // A wait that died among them counts as any dead caller.
    let world = self::world();
    let script = Script { kills_caller: true, ..Script::default() };
    world.provider.inner().shell.insert("grep x out", script);
    world.detach(checked()).expect("let go");
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(world.wait("j"))))
        .expect_err("killed");
    let waited = world.wait("j").expect("settled").package;
    assert_eq!(told(&waited), [("good", true, Some(0), true), ("bad", false, None, true)]);
}

#[test]
fn a_stop_among_the_checks_ends_them_all() {
    let world = world();
    let endless = Script { endless: true, ..Script::default() };
    world.provider.inner().shell.insert("test -s out", endless);
    let ran = std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(checked()));
        while world.provider.inner().running.is_empty() || world.store.tables().jobs.len() < 2 {
            std::thread::yield_now();
        }
        let stopped = world.stop(true).expect("stopped");
        assert_eq!(stopped.exit, ExitCode::Cancelled);
        running.join().expect("no panic").expect("ran")
    });
    assert_eq!(ran.package.status, Status::PartialSuccess);
    assert_eq!(told(&ran.package), [("good", false, None, true), ("bad", false, None, false)]);
}

#[test]
fn another_slot_leaves_a_job_alone_whose_caller_still_checks_it() {
    let world = World::new();
    let budget = Budget { concurrency: 2, ..Budget::default() };
    let policy = PolicyRequest {
        policy: Policy { budget, ..Policy::default() },
        ..PolicyRequest::default()
    };
    let request = CreateRequest { workspace: Some(ws("demo")), policy, ..CreateRequest::default() };
    world.engine().create(&request).expect("created");
    let endless = Script { endless: true, ..Script::default() };
    world.provider.inner().shell.insert("test -s out", endless);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(checked()));
        while world.store.tables().jobs.len() < 2 || world.provider.inner().running.is_empty() {
            std::thread::yield_now();
        }
        let other = world.run(job(&["true"])).expect("ran").package;
        assert_eq!(other.status, Status::Success);
        assert!(other.attention.is_empty(), "{:?}", other.attention);
        world.stop(true).expect("stopped");
        assert_eq!(
            running.join().expect("no panic").expect("ran").package.facts.exit_status,
            Some(0)
        );
    });
    assert_eq!(world.state(), WorkspaceState::Ready);
    assert!(world.provider.hold(&ws("demo"), Slots::All(2)).expect("asked").is_some());
}

#[test]
fn of_two_who_wait_one_runs_the_checks_and_both_are_told_the_same() {
    for _ in 0..40 {
        let world = World::new();
        let budget = Budget { concurrency: 2, ..Budget::default() };
        let policy = Policy { budget, ..Policy::default() };
        let policy = PolicyRequest { policy, ..PolicyRequest::default() };
        let workspace = Some(ws("demo"));
        let request = CreateRequest { workspace, policy, ..CreateRequest::default() };
        world.engine().create(&request).expect("created");
        world.provider.inner().shell.insert("grep x out", failing(1));
        world.detach(checked()).expect("let go");
        let [one, other] = std::thread::scope(|scope| {
            [(); 2].map(|()| scope.spawn(|| world.wait("j"))).map(|wait| wait.join().expect("ok"))
        });
        let (one, other) = (one.expect("waited"), other.expect("waited"));
        let failed = [("good", true, Some(0), true), ("bad", false, Some(1), true)];
        assert_eq!((told(&one.package), told(&other.package)), (failed.into(), failed.into()));
        assert_eq!(world.store.tables().jobs.len(), 3, "each check was run once");
        assert!(world.store.tables().intents.is_empty(), "nothing is left open");
        assert_eq!(world.state(), WorkspaceState::Ready);
    }
}

#[test]
fn an_exec_is_checked_before_its_workspace_goes() {
    let world = World::new();
    world.script(writing_pi());
    world.provider.inner().shell.insert("grep x out", failing(1));
    let request = JobRequest { declares: declaring().declares, ..checked() };
    let report = world.exec(request).expect("ran");
    assert_eq!((report.exit, report.package.status), (ExitCode::Success, Status::PartialSuccess));
    assert_eq!(told(&report.package)[1], ("bad", false, Some(1), true));
    assert_eq!(report.package.artifacts.len(), 1, "what it made is taken out all the same");
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    assert!(world.store.tables().intents.is_empty());
    assert!(world.provider.inner().disks.is_empty());
}

#[test]
fn an_exec_whose_caller_died_among_its_checks_is_finished() {
    let world = World::new();
    let script = Script { kills_caller: true, ..Script::default() };
    world.provider.inner().shell.insert("grep x out", script);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(world.exec(checked()))))
        .expect_err("the caller is killed");
    let waited = world.wait("j").expect("settled").package;
    assert_eq!(told(&waited), [("good", true, Some(0), true), ("bad", false, None, true)]);
    assert_eq!(world.state(), WorkspaceState::Destroyed);
    assert!(world.store.tables().intents.is_empty());
}

#[test]
fn output_that_was_cut_has_a_reference_to_the_whole() {
    let world = World::with_demo();
    world.script(Script { output: vec![b'x'; 50_000], ..Script::default() });
    let id = Some(JobId::parse("j").expect("an id"));
    // By a bound, which the whole package has not.
    let package = world.run(JobRequest { job: id, ..job(&["yes"]) }).expect("ran").package;
    assert_eq!(world.inspect("j").expect("seen").package.evidence.len(), 1);
    let reference = &package.evidence[1];
    assert_eq!(reference.kind, EvidenceKind::Reference);
    let sha256 = &package.facts.output.as_ref().expect("some").sha256;
    let told = format!("bailiwick logs --raw j\nall 50000 bytes were kept, with sha256 {sha256}\n");
    assert_eq!(reference.excerpt, told);
    world.script(Script { output: vec![b'x'; 70_000], ..Script::default() });
    let id = Some(JobId::parse("k").expect("an id"));
    world.run(JobRequest { job: id, ..job(&["yes"]) }).expect("ran");
    let full = world.inspect("k").expect("seen").package;
    assert_eq!(full.evidence[1].kind, EvidenceKind::Reference, "an excerpt is never that long");
    world.script(Script::default());
    let short = world.run(job(&["true"])).expect("ran").package;
    assert_eq!(short.evidence.len(), 1, "what is whole needs none");
}

#[test]
fn what_no_job_can_be_asked_for_is_refused_before_anything_is_done() {
    let world = World::with_demo();
    let refused = |request: JobRequest| {
        let failure = world.run(request.clone()).expect_err("refused");
        let engine = world.exec(request).expect_err("refused");
        assert_eq!((failure.code, failure.reason), (engine.code, engine.reason));
        (failure.code.code(), failure.reason, failure.message)
    };
    let timeout = Some(Duration::from_secs(301));
    let (code, reason, message) = refused(JobRequest { timeout, ..job(&["true"]) });
    assert_eq!((code, reason), (3, "timeout_over_wall_clock"));
    assert!(message.contains("300 s"), "{message}");
    let (code, reason, _) = refused(JobRequest { timeout: Some(Duration::ZERO), ..job(&["true"]) });
    assert_eq!((code, reason), (1, "bad_timeout"));
    let mut twice = checked();
    twice.checks[1].name = "good".into();
    assert_eq!(refused(twice).1, "declared_twice");
    let mut many = checked();
    many.checks = vec![many.checks[0].clone(); 65];
    assert_eq!(refused(many).1, "too_many_declared");
    for bad in ["=x", "name=", "a\nb=x", "a[b]=x", "name= "] {
        assert_eq!(declare::check(bad.as_bytes()).expect_err(bad).reason, "bad_argument");
    }
    assert_eq!(declare::measure(b"a=../x").expect_err("outside").reason, "bad_workspace_path");
    assert_eq!(declare::cwd(b"/etc").expect_err("outside").reason, "bad_workspace_path");
    assert_eq!(declare::cwd(b".").expect("the root"), None);
    assert!(world.store.tables().jobs.is_empty());
    assert!(!world.provider.inner().calls.contains(&"run"));
}

#[test]
fn a_job_that_is_lost_is_not_measured() {
    let world = World::with_demo();
    let measures = vec![declare::measure(b"loss=loss").expect("good")];
    let id = JobId::parse("j").expect("an id");
    world.run_and_die(JobRequest { job: Some(id.clone()), measures, ..job(&["train"]) });
    world.provider.inner().recovered.insert(id, Recovered::Lost);
    let package = world.wait("j").expect("settled").package;
    assert!(package.facts.measurements.is_empty());
}
