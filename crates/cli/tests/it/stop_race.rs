//! A job that is stopped, also at the moment at which it comes to its own end: one verdict, whoever is asked.
use crate::support::{
    SOON, create, each_user, fact, marker, root_or_caller, scripted, wait_for_nothing,
    wait_for_payload,
};
use bailiwick_testkit::TestEnv;
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};

/// How long a job sleeps before it ends by itself.
const SLEEP: &str = "sleep 0.02";

/// How far the stop is moved after each race: towards the job's end after a cancelled one, away from it after a success.
const STEP: Duration = Duration::from_micros(1_500);

/// What both callers said.
struct Race {
    run: Value,
    stop: Value,
    /// Whether the stop came before anything of the job was on record.
    too_early: bool,
}

/// Runs a job, and `after` a while stops what its workspace runs.
fn race(env: &TestEnv, after: Duration) -> Race {
    let begun = Instant::now();
    let mut run = env.start(["run", "--json", "ws", "sh", "-c", SLEEP]);
    thread::sleep(after.saturating_sub(begun.elapsed()));
    let stop = env.run(["stop", "--json", "--apply", "--grace", "5s", "ws"]);
    let is_under_way = !run.has_ended();
    let run = run.wait();
    let is_known = |code| [Some(0), Some(5)].contains(&code);
    assert!(is_known(run.code()) && is_known(stop.code()), "{run}\n{stop}");
    let (run, stop) = (run.json(), stop.json());
    let too_early = is_under_way && fact(&stop, "job_status").is_null();
    Race { run, stop, too_early }
}

#[test]
fn a_job_that_ignores_the_wish_is_killed_after_the_grace_and_both_say_so() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("trap '' TERM; echo begun; sleep 60; : {name}");
        for grace in ["0", "400ms"] {
            let run = env.start(["run", "--json", "ws", "sh", "-c", &script]);
            let _pid = wait_for_payload(&name);
            let begun = Instant::now();
            let stop = env.json(5, &["stop", "--apply", "--grace", grace, "ws"]);
            assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
            let run = run.wait().exits(5).json();
            assert_eq!(stop["provenance"]["job_id"], run["provenance"]["job_id"]);
            for told in [&run, &stop] {
                assert_eq!(fact(told, "reason"), "stopped", "{told}");
                assert_eq!(fact(told, "exit_status"), &Value::Null, "{told}");
            }
            wait_for_nothing(&name);
        }
    });
}

/// Runs races, and checks of each that both agree, and that both ends occur.
fn races(env: &TestEnv, races: u32) {
    create(env, &[]);
    let mut after = Duration::from_millis(20);
    let (mut ended, mut stopped, mut met) = (0, 0, 0);
    for number in 0..races {
        let Race { run, stop, too_early } = race(env, after);
        let cancelled = run["status"] == "cancelled";
        assert_eq!(stop["status"] == "cancelled", cancelled, "race {number}: {run}\n{stop}");
        if cancelled {
            assert_eq!(fact(&run, "reason"), "stopped", "{run}");
            assert_eq!(fact(&stop, "job_status"), "cancelled", "{stop}");
            stopped += 1;
            after += STEP;
        } else {
            assert_eq!(run["status"], "success", "race {number}: {run}\n{stop}");
            // It met the job, which had ended, or a workspace that ran nothing yet, or nothing any more.
            let said = fact(&stop, "job_status");
            assert!(said.is_null() || said == "success", "race {number}: {run}\n{stop}");
            ended += 1;
            met += u32::from(said == "success");
            after = if too_early { after + STEP } else { after.saturating_sub(STEP) };
        }
    }
    eprintln!(
        "{ended} jobs ended by themselves, {met} of them under a stop; {stopped} were stopped"
    );
    let least = races / 20;
    assert!(ended >= least && stopped >= least, "{ended} ended, {stopped} stopped");
}

#[test]
fn in_a_thousand_races_run_and_stop_agree_and_both_ends_occur() {
    races(&root_or_caller(), 1_000);
}

#[test]
fn in_races_on_a_scripted_job_run_and_stop_agree_and_both_ends_occur() {
    let script = r#"[{"argv": ["sh", "**"], "delay_ms": 20, "stdout": "said\n"}]"#;
    races(&scripted(script), 300);
}
