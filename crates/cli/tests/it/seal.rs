//! `seal`: what a workspace still allows afterwards, and what keeps it from being sealed.
use crate::support::{create, each_user, fact, marker, wait_for_job};

#[test]
fn a_sealed_workspace_is_read_only_until_it_is_destroyed() {
    each_user(|env| {
        create(env, &[]);
        let script = "echo kept; echo bytes > out";
        drop(env.json(0, &["run", "--declare", "out=an output", "ws", "sh", "-c", script]));
        let sealed = env.json(0, &["seal", "ws"]);
        assert_eq!(fact(&sealed, "state"), "completed");
        assert!(sealed["attention"].to_string().contains("export ws out"), "{sealed}");
        let again = env.json(0, &["seal", "ws"]);
        assert!(again["outcome_summary"].to_string().contains("was sealed already"), "{again}");
        drop(env.write("a", "a"));
        for line in [&["run", "ws", "true"][..], &["put", "ws", "a", "a"]] {
            let refused = env.json(1, line);
            assert_eq!(refused["reason"], "workspace_sealed", "{refused}");
        }
        let listed = env.json(0, &["list", "--state", "completed"]);
        assert_eq!(listed["workspaces"][0]["workspace_id"], "ws", "{listed}");
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "completed");
        assert_eq!(env.run(["logs", "--raw", "ws"]).exits(0).out(), "kept\n");
        drop(env.json(0, &["export", "ws", "out", "--to", "out"]));
        let destroyed = env.json(0, &["destroy", "ws"]);
        let path = "lifecycle path: completed -> destroyed";
        assert!(destroyed["key_findings"].to_string().contains(path), "{destroyed}");
        assert_eq!(env.json(1, &["seal", "ws"])["reason"], "workspace_destroyed");
        assert_eq!(env.json(1, &["seal", "nope"])["reason"], "unknown_workspace");
    });
}

#[test]
fn a_running_workspace_is_not_sealed_and_the_job_is_named() {
    each_user(|env| {
        create(env, &[]);
        let marker = marker(env);
        let script = format!("sleep 60; : {marker}");
        let line = ["run", "--job-id", "long", "ws", "sh", "-c", script.as_str()];
        let mut running = env.start(line);
        wait_for_job(&mut running, &marker);
        let refused = env.json(1, &["seal", "ws"]);
        assert_eq!(refused["reason"], "workspace_running", "{refused}");
        assert!(refused["message"].to_string().contains("job long"), "{refused}");
        drop(env.run(["stop", "--apply", "ws"]).exits(5));
        drop(running.wait().exits(5));
        assert_eq!(fact(&env.json(0, &["seal", "ws"]), "state"), "completed");
    });
}
