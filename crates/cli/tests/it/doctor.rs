//! What `doctor` says of a home: what killed verbs left open, a page that was scribbled on, a pipe among the files.
use crate::support::{
    SOON, create, each_user, fact, marker, run_script, signal, supervisor_of, wait_for_job,
};
use bailiwick_testkit::{TestEnv, until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;

fn check<'a>(health: &'a Value, id: &str) -> Vec<&'a Value> {
    let checks = health["checks"].as_array().expect("checks");
    checks.iter().filter(|check| check["id"] == id).collect()
}

/// Kills the caller and the supervisor of a job in `ws`.
fn kill_both(env: &TestEnv) {
    let marker = marker(env);
    let script = format!("sleep 60; : {marker}");
    let mut running = env.start(["run", "ws", "sh", "-c", script.as_str()]);
    let caller = running.pid();
    wait_for_job(&mut running, &marker);
    let open = check_message(&env.json(0, &["doctor"]));
    assert!(open.contains("1 open, each with somebody at work on it"), "{open}");
    let supervisor = supervisor_of(caller);
    drop(running.kill());
    signal(supervisor, Signal::KILL);
}

fn check_message(health: &Value) -> String {
    check(health, "intents")[0]["message"].as_str().expect("a message").to_owned()
}

#[test]
fn what_killed_verbs_left_open_is_told_and_settled_on_request() {
    each_user(|env| {
        create(env, &[]);
        assert_eq!(check_message(&env.json(0, &["doctor"])), "none is open");
        kill_both(env);
        // The locks of the killed processes end with them, which takes a moment.
        let health = until("nobody is at work", SOON, || {
            Some(env.json(0, &["doctor"])).filter(|health| !check_message(health).contains("each"))
        });
        let told = check(&health, "intents")[0];
        assert_eq!((&told["passed"], &told["severity"]), (&false.into(), &"warning".into()));
        assert!(told["message"].to_string().contains("1 left by killed verbs"), "{told}");
        assert!(told["remediation"].to_string().contains("doctor --reconcile"), "{told}");
        let settled = env.json(0, &["doctor", "--reconcile"]);
        let told = check_message(&settled);
        assert!(told.contains("reconciled workspace ws: job"), "{told}");
        assert!(told.contains("lost its supervisor"), "{told}");
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "ready");
        let again = check_message(&env.json(0, &["doctor", "--reconcile"]));
        assert_eq!(again, "none is open");
    });
}

#[test]
fn a_malformed_page_is_found() {
    each_user(|env| {
        create(env, &[]);
        for _ in 0..20 {
            drop(run_script(env, 0, "true"));
        }
        let good = env.json(0, &["doctor"]);
        let told = check(&good, "store")[0]["message"].to_string();
        assert!(told.contains("no page of it is malformed"), "{good}");
        // What the log holds is put into the file by the next writer's checkpoint; the page below is there by now.
        let database = env.home().join("state.db");
        let mut bytes = fs::read(&database).expect("reads");
        assert!(bytes.len() > 6 * 4_096, "{}", bytes.len());
        bytes[4 * 4_096..5 * 4_096].fill(0xa5);
        fs::write(&database, &bytes).expect("writes");
        for side in ["state.db-wal", "state.db-shm"] {
            fs::remove_file(env.home().join(side)).expect("removed");
        }
        let bad = env.json(1, &["doctor"]);
        assert_eq!(check(&bad, "store")[0]["passed"], false, "{bad}");
        assert!(check(&bad, "store")[0]["message"].to_string().contains("cannot be read"), "{bad}");
    });
}

#[test]
fn a_pipe_in_the_place_of_the_cached_facts_blocks_nobody() {
    each_user(|env| {
        drop(env.run(["doctor"]).exits(0));
        let facts = env.home().join("host.json");
        fs::remove_file(&facts).expect("it was made");
        drop(env.host("mkfifo", [&facts]).exits(0));
        drop(env.run(["doctor"]).exits(0));
        assert!(fs::symlink_metadata(&facts).expect("there").is_file(), "it was made again");
    });
}
