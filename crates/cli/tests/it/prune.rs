//! `prune` on a real home: what a preview says, what an apply does, and what stays.
use crate::support::{create, each_user, exec_script, fact, run_script};
use bailiwick_testkit::TestEnv;
use serde_json::Value;
use std::thread;
use std::time::Duration;

fn prune(env: &TestEnv, flags: &[&str]) -> Value {
    env.json(0, &[&["prune"], flags].concat())
}

#[test]
fn a_preview_removes_nothing_and_an_apply_what_it_named() {
    each_user(|env| {
        create(env, &["--ttl", "4s"]);
        drop(run_script(env, 0, "echo bytes > f"));
        thread::sleep(Duration::from_secs(4));
        let preview = prune(env, &[]);
        assert_eq!(fact(&preview, "prune/applied"), false);
        assert_eq!(fact(&preview, "prune/workspaces"), 1, "{preview}");
        assert!(fact(&preview, "prune/freed_bytes").as_u64() >= Some(6), "{preview}");
        assert!(env.home().join("disks/ws").exists());
        let done = prune(env, &["--apply"]);
        assert_eq!(fact(&done, "prune/workspaces"), 1, "{done}");
        assert!(done["key_findings"].to_string().contains("expired workspaces: 1 (ws)"), "{done}");
        assert!(!env.home().join("disks/ws").exists());
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "state"), "destroyed");
        assert_eq!(fact(&prune(env, &["--apply"]), "prune/workspaces"), 0);
    });
}

#[test]
fn artifacts_keep_an_expired_workspace_until_they_are_given_up() {
    each_user(|env| {
        create(env, &["--ttl", "4s"]);
        drop(env.json(0, &["run", "--declare", "out=an output", "ws", "touch", "out"]));
        thread::sleep(Duration::from_secs(4));
        let kept = prune(env, &["--apply"]);
        assert_eq!(
            (fact(&kept, "prune/workspaces"), fact(&kept, "prune/kept")),
            (&0.into(), &1.into())
        );
        assert!(kept["attention"].to_string().contains("export ws out --to PATH"), "{kept}");
        assert!(env.home().join("disks/ws").exists());
        let forced = prune(env, &["--apply", "--force"]);
        assert_eq!(fact(&forced, "prune/workspaces"), 1, "{forced}");
        assert!(forced["warnings"].to_string().contains("cannot be had back"), "{forced}");
    });
}

#[test]
fn a_wrong_age_or_size_is_refused() {
    each_user(|env| {
        for flags in [["--older-than", "-1"], ["--older-than", "x"], ["--keep-bytes", "-1"]] {
            assert_eq!(env.json(1, &["prune", flags[0], flags[1]])["reason"], "usage");
        }
    });
}

#[test]
fn old_output_and_tombstones_go_and_their_ids_stay_taken() {
    each_user(|env| {
        let ran = exec_script(env, 0, &["--workspace-id", "gone"], "echo words");
        let job = ran["provenance"]["job_id"].as_str().expect("an id").to_owned();
        create(env, &[]);
        drop(run_script(env, 0, "echo more words"));
        drop(env.run(["create", "--workspace-id", "kept", "--retain"]).exits(0));
        drop(env.run(["run", "--job-id", "spared", "kept", "echo", "spared"]).exits(0));
        let none = prune(env, &["--apply"]);
        assert_eq!(fact(&none, "prune/outputs"), 0, "all is young, and little: {none}");
        let all = ["--apply", "--older-than", "0"];
        let done = prune(env, &all);
        assert_eq!(fact(&done, "prune/outputs"), 2, "{done}");
        assert_eq!(fact(&done, "prune/tombstones"), 1, "{done}");
        assert!(fact(&done, "prune/freed_bytes").as_u64() >= Some(17), "{done}");
        assert_eq!(env.json(1, &["inspect", &job])["reason"], "job_pruned");
        let seen = env.json(0, &["inspect", "gone"]);
        assert!(seen["outcome_summary"].to_string().contains("pruned at"), "{seen}");
        assert_eq!(
            env.json(1, &["create", "--workspace-id", "gone"])["reason"],
            "workspace_exists"
        );
        assert_eq!(env.json(1, &["run", "--job-id", &job, "ws", "true"])["code"], 1);
        assert!(env.run(["logs", "ws"]).exits(0).err().contains("kept any more"));
        assert_eq!(env.run(["logs", "--raw", "spared"]).exits(0).out(), "spared\n");
        let again = prune(env, &all);
        assert_eq!(again["outcome_summary"], "there was nothing to remove", "{again}");
        assert!(!env.json(0, &["list", "--all"]).to_string().contains("\"gone\""));
    });
}

#[test]
fn a_prune_that_is_killed_is_finished_by_the_next() {
    each_user(|env| {
        let names: Vec<String> = (0..8).map(|n| format!("gone-{n}")).collect();
        for name in &names {
            drop(exec_script(env, 0, &["--workspace-id", name], "echo words"));
        }
        // Somewhere in the middle, or after the end where this machine is quick.
        for millis in [2, 4, 8] {
            let killed = env.start(["prune", "--apply", "--older-than", "0"]);
            thread::sleep(Duration::from_millis(millis));
            drop(killed.kill());
        }
        drop(prune(env, &["--apply", "--older-than", "0"]));
        assert_eq!(std::fs::read_dir(env.home().join("jobs")).map_or(0, Iterator::count), 0);
        for name in &names {
            let seen = env.json(0, &["inspect", name]);
            assert!(seen["outcome_summary"].to_string().contains("pruned at"), "{seen}");
        }
        let health = env.json(0, &["doctor"]);
        assert!(!health.to_string().contains("on no record"), "{health}");
    });
}
