//! Jobs that are ended: by `stop`, by their caller's token, by their wall clock.
use crate::world::World;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{JobOutcome, JobStatus, Reason};
use bailiwick_contract::policy::{Budget, Policy};
use bailiwick_contract::provider::{Provider, StopReply};
use std::time::{Duration, Instant};

/// Runs `script` until it has made `began`, calls `end`, and returns what came of it and how long that took.
fn ended_by(
    world: &World,
    script: &str,
    end: impl FnOnce(&JobId),
) -> (JobOutcome, Vec<u8>, Duration) {
    let job = world.script(script);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.try_run(&job).expect("an outcome"));
        world.wait_for("began");
        let began = Instant::now();
        end(&job.id);
        let outcome = running.join().expect("no panic");
        (outcome, world.kept(&job.id), began.elapsed())
    })
}

const IGNORES: &str =
    "trap '' TERM; echo printed; echo > began; while :; do sleep 1000 & wait; done";
const LISTENS: &str =
    "trap 'echo bye; exit 7' TERM; echo > began; while :; do sleep 1000 & wait; done";

fn assert_cancelled(outcome: &JobOutcome) {
    assert_eq!((outcome.status, &outcome.reason), (JobStatus::Cancelled, &Some(Reason::Stopped)));
    assert_eq!((outcome.exit_status, outcome.signal), (None, None));
}

#[test]
fn a_job_that_ignores_the_signal_is_killed_after_the_grace() {
    let world = World::new();
    let grace = Duration::from_millis(300);
    let (outcome, output, took) = ended_by(&world, IGNORES, |job| {
        let reply = world.native.stop(job, grace, &world.cx()).expect("asked");
        assert_eq!(reply, StopReply::Stopped);
    });
    assert_cancelled(&outcome);
    assert_eq!(output, b"printed\n");
    assert!(took >= grace, "it had its grace: {took:?}");
}

#[test]
fn a_job_that_listens_may_end_by_itself() {
    let world = World::new();
    let grace = Duration::from_secs(250);
    let (outcome, output, took) = ended_by(&world, LISTENS, |job| {
        world.native.stop(job, grace, &world.cx()).expect("asked");
    });
    assert_cancelled(&outcome);
    assert_eq!(output, b"bye\n");
    assert!(took < grace, "nobody waits for what is left of the grace");
}

#[test]
fn a_second_stop_may_be_shorter() {
    let world = World::new();
    let (outcome, _, _) = ended_by(&world, IGNORES, |job| {
        std::thread::scope(|scope| {
            let patient = scope.spawn(|| {
                world.native.stop(job, Duration::from_secs(250), &world.cx()).expect("asked")
            });
            let reply = world.native.stop(job, Duration::ZERO, &world.cx()).expect("asked");
            assert_eq!(reply, StopReply::Stopped);
            // Whichever came first, it was told as well, or found the job ended.
            patient.join().expect("no panic");
        });
    });
    assert_cancelled(&outcome);
}

#[test]
fn what_does_not_run_is_not_stopped() {
    let world = World::new();
    let job = world.script("echo done");
    world.try_run(&job).expect("it ran");
    let never = JobId::parse("job-never").expect("an id");
    for id in [&job.id, &never] {
        let reply = world.native.stop(id, Duration::ZERO, &world.cx()).expect("asked");
        assert_eq!(reply, StopReply::NotRunning);
    }
}

#[test]
fn a_cancelled_caller_stops_its_job() {
    let world = World::new();
    let (outcome, output, _) = ended_by(&world, LISTENS, |_| world.cancel.cancel());
    assert_cancelled(&outcome);
    assert_eq!(output, b"bye\n");
}

#[test]
fn the_wall_clock_ends_a_job_at_once_and_with_all_its_processes() {
    let budget = Budget { wall_clock_ms: 700, ..Budget::default() };
    let policy = Policy { budget, ..Policy::default() };
    for world in [World::under(&policy), World::without_groups(&policy)] {
        let done =
            world.sh("echo early; setsid sleep 1000 & trap '' TERM; while :; do sleep 1000; done");
        let outcome = done.outcome;
        assert_eq!(done.text, "early\n");
        assert_eq!(
            (outcome.status, &outcome.reason),
            (JobStatus::Timeout, &Some(Reason::WallClock))
        );
        assert!(outcome.usage.wall_time_us >= 700_000, "{:?}", outcome.usage);
        assert_eq!(outcome.exit_status, None);
        assert_eq!(world.sh("echo usable").text, "usable\n");
    }
}
