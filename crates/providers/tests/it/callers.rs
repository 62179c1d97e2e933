//! Callers that are killed: what they held, what they ran, and what is known of it afterwards.
use crate::world::{Open, SOON, World, myself, ports, told};
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus, Reason};
use bailiwick_contract::provider::{Gate, Provider, Recovered, Slots, StopReply};
use bailiwick_testkit::{cgroups_holding, until};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

/// Tells the copy of this test that is the caller which home to use.
const RUNS: &str = "BAILIWICK_TEST_RUNS";
const WAITS: &str = "BAILIWICK_TEST_WAITS";

/// A gate at which its caller waits for ever.
struct Shut(PathBuf);

impl Gate for Shut {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        fs::write(&self.0, "")?;
        loop {
            std::thread::park();
        }
    }
}

fn job_of_the_caller(world: &World) -> JobSpec {
    let script = "echo printed; trap '' TERM; echo > began; while :; do sleep 1000; done";
    JobSpec { id: id(), ..world.script(script) }
}

fn id() -> JobId {
    JobId::parse("job-of-the-caller").expect("an id")
}

#[test]
fn what_a_caller_does() {
    // Without a variable this is no caller, and there is nothing to do.
    if let Some(home) = told(RUNS) {
        let world = World::at(home);
        world.run_in(&world.id, &job_of_the_caller(&world), &mut Open).expect("never returns");
    }
    if let Some(home) = told(WAITS) {
        let mut gate = Shut(home.join("at-the-gate"));
        let world = World::at(home);
        world.run_in(&world.id, &job_of_the_caller(&world), &mut gate).expect("never returns");
    }
}

fn caller(variable: &str, world: &World) -> Child {
    myself("callers::what_a_caller_does", variable, world.home())
}

fn kill(mut child: Child) {
    child.kill().expect("it lives");
    child.wait().expect("reaped");
}

fn recover(world: &World) -> Recovered {
    world.native.recover(&world.id, &id(), &world.cx()).expect("recovered")
}

fn is_free(world: &World) -> bool {
    world.native.hold(&world.id, Slots::One(1)).expect("asked").is_some()
}

#[test]
fn a_job_outlives_its_caller_and_holds_the_workspace_until_it_is_stopped() {
    let world = World::new();
    let child = caller(RUNS, &world);
    world.wait_for("began");
    assert_eq!(recover(&world), Recovered::Alive);
    assert!(!is_free(&world));
    kill(child);
    assert_eq!(recover(&world), Recovered::Alive);
    assert!(!is_free(&world), "the supervisor shares the hold");
    assert!(world.native.hold(&world.id, Slots::All(1)).expect("asked").is_none());
    let reply = world.native.stop(&id(), Duration::ZERO, &world.cx()).expect("stopped");
    assert_eq!(reply, StopReply::Stopped);
    // Whoever was told of the end may use the workspace.
    drop(world.hold(&world.id, Slots::One(1)));
    let Recovered::Ended(outcome) = recover(&world) else { panic!("it has ended") };
    assert_eq!((outcome.status, outcome.reason), (JobStatus::Cancelled, Some(Reason::Stopped)));
    assert_eq!(world.kept(&id()), b"printed\n");
    let again = world.native.stop(&id(), Duration::ZERO, &world.cx()).expect("asked");
    assert_eq!(again, StopReply::NotRunning);
}

#[test]
fn a_caller_that_dies_at_the_gate_takes_the_job_with_it() {
    let world = World::new();
    let child = caller(WAITS, &world);
    until("the gate", SOON, || world.home().join("at-the-gate").exists().then_some(()));
    assert!(!is_free(&world));
    kill(child);
    until("never started", SOON, || (recover(&world) == Recovered::NeverStarted).then_some(()));
    until("the hold is gone", SOON, || is_free(&world).then_some(()));
    assert_eq!(fs::read_dir(world.tree()).expect("listed").count(), 0, "nothing ran");
    let name = bailiwick_isolation::remains::group_name(world.home(), &id());
    until("the groups are gone", SOON, || cgroups_holding(&name).is_empty().then_some(()));
}

/// A gate that asks what is known of its job while it opens.
struct Asks<'a> {
    world: &'a World,
    job: &'a JobId,
    known: Option<Recovered>,
}

impl Gate for Asks<'_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let world = self.world;
        self.known = Some(world.native.recover(&world.id, self.job, &world.cx())?);
        Ok(())
    }
}

#[test]
fn a_job_is_alive_from_before_its_gate_opens_until_its_caller_lets_go() {
    let world = World::new();
    for script in ["true", "echo x"] {
        let job = world.script(script);
        let hold = world.hold(&world.id, Slots::One(1));
        let mut gate = Asks { world: &world, job: &job.id, known: None };
        world.native.run(&world.id, &job, ports(&*hold, &mut gate), &world.cx()).expect("it ran");
        // Its supervisor has hardly begun: whoever takes it for lost would sweep what it is making.
        assert_eq!(gate.known, Some(Recovered::Alive));
        let recover = || world.native.recover(&world.id, &job.id, &world.cx()).expect("recovered");
        assert_eq!(recover(), Recovered::Alive, "its caller has not recorded it yet");
        drop(hold);
        // A caller that dies before it has recorded the outcome loses nothing, also of a silent job.
        until("what came of it", SOON, || matches!(recover(), Recovered::Ended(_)).then_some(()));
    }
}

/// Finds the supervisor that works in `dir`.
pub(crate) fn supervisor_in(dir: &Path) -> Option<rustix::process::Pid> {
    fs::read_dir("/proc").expect("listed").flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let working = fs::read_link(entry.path().join("cwd")).ok()?;
        let command = fs::read(entry.path().join("cmdline")).ok()?;
        let is_supervisor = command.ends_with(b"bailiwick-supervisor\0--socket\0");
        (working == dir && is_supervisor).then(|| rustix::process::Pid::from_raw(pid))?
    })
}

#[test]
fn a_job_whose_supervisor_is_killed_is_lost_and_its_output_kept() {
    let world = World::new();
    let job = job_of_the_caller(&world);
    let dir = world.job_dir(&job.id).canonicalize().unwrap_or_else(|_| world.job_dir(&job.id));
    let outcome: JobOutcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| world.try_run(&job));
        world.wait_for("began");
        until("its output", SOON, || (world.kept(&job.id) == b"printed\n").then_some(()));
        let pid = supervisor_in(&dir).expect("it lives");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
        running.join().expect("no panic").expect("an outcome")
    });
    assert_eq!(outcome.status, JobStatus::InfrastructureFailure);
    assert_eq!(outcome.reason, Some(Reason::SupervisorLost));
    assert_eq!((outcome.exit_status, outcome.output.bytes), (None, 8));
    assert_eq!(recover(&world), Recovered::Lost);
    assert_eq!(world.kept(&job.id), b"printed\n");
    until("the hold is gone", SOON, || is_free(&world).then_some(()));
    let name = bailiwick_isolation::remains::group_name(world.home(), &job.id);
    until("the groups are gone", SOON, || cgroups_holding(&name).is_empty().then_some(()));
    let reply = world.native.stop(&job.id, Duration::ZERO, &world.cx()).expect("asked");
    assert_eq!(reply, StopReply::NotRunning);
    world.native.sweep(&job.id, &world.cx()).expect("swept");
    assert!(!world.job_dir(&job.id).join("control.sock").exists());
    assert_eq!(world.sh("echo usable").text, "usable\n");
}
