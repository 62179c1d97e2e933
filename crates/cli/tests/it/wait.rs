//! `wait`: what it prints, when it gives up, and that it leaves the job alone.
use crate::support::{
    create, each_user, fact, keys_in_order, marker, wait_for_payload, wait_until_it_listens,
};
use rustix::process::Signal;
use serde_json::Value;

/// Removes what differs between two runs of the same command.
fn without_times(mut package: Value, id: &str) -> String {
    package["resource_usage"] = Value::Null;
    package["provenance"]["started_at"] = Value::Null;
    package["provenance"]["finished_at"] = Value::Null;
    package["facts"]["duration_ms"] = Value::Null;
    package.to_string().replace(id, "JOB")
}

#[test]
fn it_prints_what_run_would_have_printed_and_again_when_asked_again() {
    each_user(|env| {
        create(env, &[]);
        let words = ["ws", "sh", "-c", "echo out; exit 4"];
        let ran =
            env.run([&["run", "--json", "--job-id", "job-one"], &words[..]].concat()).exits(6);
        let detach = ["run", "--json", "--detach", "--job-id", "job-two"];
        drop(env.run([&detach[..], &words].concat()).exits(0));
        let waited = env.run(["wait", "--json", "job-two"]).exits(6);
        assert_eq!(keys_in_order(&waited), keys_in_order(&ran));
        assert_eq!(without_times(waited.json(), "job-two"), without_times(ran.json(), "job-one"));
        assert_eq!(env.run(["wait", "--json", "ws"]).exits(6).stdout, waited.stdout);
        // A job that somebody waited for already can be waited for too.
        assert_eq!(env.run(["wait", "--json", "job-one"]).exits(6).stdout, ran.stdout);
    });
}

#[test]
fn it_gives_up_after_its_timeout_or_an_interrupt_and_leaves_the_job_alone() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("sleep 60; : {name}");
        drop(env.json(0, &["run", "--detach", "--job-id", &name, "ws", "sh", "-c", &script]));
        let _pid = wait_for_payload(&name);
        for time in ["0", "300ms"] {
            let failure = env.json(4, &["wait", "--timeout", time, &name]);
            assert_eq!(failure["reason"], "wait_timeout", "{failure}");
            assert_eq!(failure["retryable"], true, "{failure}");
        }
        let mut waiting = env.start(["wait", "--json", "ws"]);
        wait_until_it_listens(&mut waiting);
        waiting.signal(Signal::INT);
        assert_eq!(waiting.wait().exits(5).error()["reason"], "cancelled");
        let seen = env.json(0, &["inspect", &name]);
        assert_eq!(fact(&seen, "job_status"), "running", "{seen}");
        drop(env.run(["destroy", "--force", "ws"]).exits(0));
    });
}

#[test]
fn it_waits_for_a_job_that_has_a_caller_too() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("sleep 1; : {name}");
        let run = env.start(["run", "--json", "ws", "sh", "-c", &script]);
        let _pid = wait_for_payload(&name);
        let waited = env.run(["wait", "--json", "ws"]).exits(0);
        assert_eq!(waited.stdout, run.wait().exits(0).stdout);
    });
}

#[test]
fn what_has_no_job_is_refused() {
    each_user(|env| {
        assert_eq!(env.json(1, &["wait", "nobody"])["reason"], "unknown_workspace");
        create(env, &[]);
        assert_eq!(env.json(1, &["wait", "ws"])["reason"], "no_job");
        assert_eq!(env.json(1, &["wait", "--timeout", "-1s", "ws"])["reason"], "usage");
    });
}
