//! A time to live: nobody watches it, and whoever comes after its end acts on it.
use crate::support::{create, each_user, fact, marker, run_script, wait_for_job};
use bailiwick_testkit::TestEnv;
use std::thread;
use std::time::Duration;

/// Makes `ws` with a file to export, and lets its time pass.
fn expired(env: &TestEnv) {
    create(env, &["--ttl", "6s"]);
    let script = "echo kept; echo bytes > out";
    let line = ["run", "--declare", "out=an output", "ws", "sh", "-c", script];
    drop(env.json(0, &line));
    thread::sleep(Duration::from_secs(6));
}

#[test]
fn an_expired_workspace_can_be_read_exported_and_destroyed() {
    each_user(|env| {
        expired(env);
        let refused = env.json(1, &["run", "ws", "true"]);
        assert_eq!(refused["reason"], "workspace_expired", "{refused}");
        assert!(refused["notes"][0].as_str().expect("a note").contains("has expired"), "{refused}");
        for verb in ["inspect", "export", "destroy"] {
            assert!(refused["remediation"].to_string().contains(verb), "{refused}");
        }
        drop(env.write("a", "a"));
        assert_eq!(env.json(1, &["put", "ws", "a", "a"])["reason"], "workspace_expired");
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "expired");
        assert_eq!(env.run(["logs", "--raw", "ws"]).exits(0).out(), "kept\n");
        assert_eq!(env.json(1, &["destroy", "ws"])["reason"], "artifacts_not_exported");
        drop(env.json(0, &["export", "ws", "out", "--to", "out"]));
        assert_eq!(std::fs::read(env.work().join("out")).expect("published"), b"bytes\n");
        let destroyed = env.json(0, &["destroy", "ws"]);
        let path = "lifecycle path: expired -> destroyed";
        assert!(destroyed["key_findings"].to_string().contains(path), "{destroyed}");
    });
}

#[test]
fn a_listing_expires_what_it_lists() {
    each_user(|env| {
        create(env, &["--ttl", "100ms"]);
        thread::sleep(Duration::from_millis(200));
        let listed = env.json(0, &["list", "--state", "expired"]);
        assert_eq!(listed["workspaces"][0]["workspace_id"], "ws", "{listed}");
        assert!(listed["attention"][0].to_string().contains("has expired"), "{listed}");
        assert_eq!(env.json(0, &["list"])["attention"].as_array().map(Vec::len), Some(0));
    });
}

#[test]
fn a_job_in_flight_is_not_interrupted() {
    each_user(|env| {
        create(env, &["--ttl", "5s"]);
        let marker = marker(env);
        let script = format!("while [ ! -e go ]; do sleep 0.1; done; : {marker}");
        let mut running = env.start(["run", "--json", "ws", "sh", "-c", script.as_str()]);
        wait_for_job(&mut running, &marker);
        thread::sleep(Duration::from_secs(5));
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "running");
        assert_eq!(env.json(5, &["stop", "--apply", "ws"])["status"], "cancelled");
        drop(running.wait().exits(5));
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "expired");
    });
}

#[test]
fn a_retained_workspace_never_expires() {
    each_user(|env| {
        create(env, &["--retain"]);
        drop(run_script(env, 0, "true"));
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "ready");
        let pruned = env.json(0, &["prune", "--older-than", "0", "--keep-bytes", "0"]);
        assert_eq!(fact(&pruned, "prune/workspaces"), 0, "{pruned}");
        assert_eq!(fact(&pruned, "prune/outputs"), 0, "{pruned}");
    });
}
