//! Jobs that are let go: they run on without whoever started them.
use crate::world::{Open, SOON, World, ports, told};
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{JobSpec, JobStatus, Reason};
use bailiwick_contract::policy::{Budget, Policy};
use bailiwick_contract::provider::{Gate, Provider, ProviderError, Recovered, Slots, StopReply};
use bailiwick_testkit::until;
use std::error::Error;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Tells the copy of this test that is the caller which home to use.
const LAUNCHES: &str = "BAILIWICK_TEST_LAUNCHES";

fn recover(world: &World, job: &JobId) -> Recovered {
    world.native.recover(&world.id, job, &world.cx()).expect("recovered")
}

#[test]
fn a_job_that_was_let_go_is_alive_and_then_ended() {
    let world = World::new();
    let job = world.script("echo began > began; while [ ! -e go ]; do sleep 0.02; done; echo done");
    world.launch(&job).expect("let go");
    assert_eq!(recover(&world, &job.id), Recovered::Alive);
    world.wait_for("began");
    let held = world.native.hold(&world.id, Slots::One(1)).expect("asked");
    assert!(held.is_none(), "its supervisor holds the workspace");
    std::fs::write(world.tree().join("go"), "").expect("a file");
    let outcome = world.wait_for_end(&job.id);
    assert_eq!((outcome.status, outcome.output.bytes), (JobStatus::Success, 5));
    drop(world.hold(&world.id, Slots::One(1)));
    assert_eq!(world.kept(&job.id), b"done\n");
    world.native.settled(&job.id, &outcome);
    assert_eq!(world.kept(&job.id), b"done\n");
}

#[test]
fn a_silent_job_that_was_let_go_leaves_nothing_once_it_is_settled() {
    let world = World::new();
    let job = world.script("exit 3");
    world.launch(&job).expect("let go");
    let outcome = world.wait_for_end(&job.id);
    assert_eq!(outcome.exit_status, Some(3));
    drop(world.hold(&world.id, Slots::One(1)));
    until("nothing is left", SOON, || {
        world.native.settled(&job.id, &outcome);
        (!world.job_dir(&job.id).exists()).then_some(())
    });
}

#[test]
fn a_job_that_was_let_go_keeps_its_limits_and_can_be_stopped() {
    let budget = Budget { wall_clock_ms: 1_000, ..Budget::default() };
    let world = World::under(&Policy { budget, ..Policy::default() });
    let job = world.script("sleep 1000");
    world.launch(&job).expect("let go");
    let outcome = world.wait_for_end(&job.id);
    assert_eq!((outcome.status, outcome.reason), (JobStatus::Timeout, Some(Reason::WallClock)));
    let world = World::new();
    let job = world.script("sleep 1000");
    world.launch(&job).expect("let go");
    let reply = world.native.stop(&job.id, Duration::ZERO, &world.cx()).expect("stopped");
    assert_eq!(reply, StopReply::Stopped);
    assert_eq!(world.wait_for_end(&job.id).status, JobStatus::Cancelled);
}

/// A gate that does not open.
struct Stuck;

impl Gate for Stuck {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("no".into())
    }
}

#[test]
fn a_job_whose_gate_does_not_open_was_never_let_go() {
    let world = World::new();
    let job = world.script("echo > ran");
    let hold = world.hold(&world.id, Slots::One(1));
    let refused = world.native.launch(&world.id, &job, ports(&*hold, &mut Stuck), &world.cx());
    assert!(matches!(refused, Err(ProviderError::Gate(_))), "{refused:?}");
    assert!(!world.job_dir(&job.id).exists() && !world.tree().join("ran").exists());
}

#[test]
fn a_sandbox_that_breaks_is_an_outcome_of_a_job_that_was_let_go() {
    let world = World::new();
    // Something is there when the provider looks; init finds that it is no directory.
    let disks = world.home().join("disks");
    let job = world.script("true");
    let hold = world.hold(&world.id, Slots::One(1));
    world.native.expect_job();
    std::fs::rename(world.tree(), disks.join("aside")).expect("moved");
    std::fs::write(world.tree(), "no disk").expect("written");
    world.native.launch(&world.id, &job, ports(&*hold, &mut Open), &world.cx()).expect("let go");
    drop(hold);
    let outcome = world.wait_for_end(&job.id);
    assert_eq!(outcome.status, JobStatus::InfrastructureFailure);
    assert_eq!(outcome.reason, Some(Reason::SetupFailed));
    let detail = outcome.detail.expect("it says why");
    assert!(detail.contains("/workspace"), "{detail}");
}

fn job_of_the_caller(world: &World) -> JobSpec {
    let script = "echo > began; while [ ! -e go ]; do sleep 0.02; done; echo late";
    let id = JobId::parse("job-of-the-caller").expect("an id");
    JobSpec { id, ..world.script(script) }
}

#[test]
fn what_a_caller_that_lets_go_does() {
    // Without the variable this is no caller, and there is nothing to do.
    if let Some(home) = told(LAUNCHES) {
        let world = World::at(home);
        world.launch(&job_of_the_caller(&world)).expect("let go");
    }
}

#[test]
fn a_caller_whose_output_is_read_to_its_end_does_not_keep_the_reader_waiting() {
    let world = World::new();
    let own = std::env::current_exe().expect("this test has a path");
    #[expect(clippy::disallowed_methods, reason = "a test starts itself")]
    let mut child = Command::new("sh")
        // Also through a descriptor that nobody expects.
        .args(["-c", "exec \"$0\" \"$@\" 7>&1"])
        .arg(own)
        .args(["--exact", "detached::what_a_caller_that_lets_go_does", "--nocapture"])
        .env(LAUNCHES, world.home())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program");
    let mut said = String::new();
    let mut pipe = child.stdout.take().expect("piped");
    pipe.read_to_string(&mut said).expect("read to its end");
    assert!(child.wait().expect("reaped").success(), "{said}");
    world.wait_for("began");
    let job = job_of_the_caller(&world).id;
    assert_eq!(recover(&world, &job), Recovered::Alive, "the end came while it ran");
    std::fs::write(world.tree().join("go"), "").expect("a file");
    assert_eq!(world.wait_for_end(&job).status, JobStatus::Success);
    assert_eq!(world.kept(&job), b"late\n");
}
