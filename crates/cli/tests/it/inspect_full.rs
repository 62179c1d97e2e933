//! Whole answers: each section by its name in both forms, of workspaces, of jobs and of tombstones.
use crate::support::{KEYS, create, each_user, fact, run_script};
use std::fs;

#[test]
fn every_section_is_returned_whole_in_both_forms() {
    each_user(|env| {
        create(env, &["--purpose", &"why ".repeat(60)]);
        let names: Vec<String> = (0..400).map(|n| format!("a-file-with-a-name-{n}")).collect();
        env.make_folder(&env.work().join("in"), 0o700);
        names.iter().for_each(|name| drop(env.write(&format!("in/{name}"), "x")));
        drop(env.run(["put", "ws", "in", "in"]).exits(0));
        let ran = run_script(env, 0, "yes | head -c 40000");
        let job = ran["provenance"]["job_id"].as_str().expect("an id").to_owned();
        for handle in ["ws", &job] {
            let full = env.json(0, &["inspect", "--full", handle]);
            for key in KEYS {
                let one = env.json(0, &["inspect", "--section", key, handle]);
                assert_eq!(one.as_object().map(serde_json::Map::len), Some(1), "{key}");
                // How long this call took is the one thing that differs between two.
                if !["facts", "provenance"].contains(&key) {
                    assert_eq!(one[key], full[key], "{key} of {handle}");
                }
                let text = env.run(["inspect", "--section", key, handle]).exits(0);
                let headings = text.out().lines().filter(|line| line.starts_with("## ")).count();
                assert_eq!(headings, 1, "{key} of {handle}: {text}");
            }
        }
        let inputs = env.json(0, &["inspect", "--section", "provenance", "ws"]);
        assert_eq!(inputs["provenance"]["inputs"].as_array().map(Vec::len), Some(400));
        let text = env.run(["inspect", "--section", "provenance", "ws"]).exits(0);
        assert!(names.iter().all(|name| text.out().contains(name.as_str())), "whole in text too");
        let cut = env.run(["inspect", "ws"]).exits(0);
        assert!(cut.out().len() <= 8_192 && cut.out().contains("--full"), "{cut}");
    });
}

#[test]
fn a_tombstone_answers_like_the_workspace_did() {
    each_user(|env| {
        create(env, &[]);
        drop(env.write("a", "a"));
        drop(env.run(["put", "ws", "a", "a"]).exits(0));
        let line = ["run", "--declare", "out=an output", "ws", "sh", "-c", "echo kept; cp a out"];
        let ran = env.json(0, &line);
        let job = ran["provenance"]["job_id"].as_str().expect("an id").to_owned();
        drop(env.run(["export", "ws", "out", "--to", "out"]).exits(0));
        let before = env.json(0, &["inspect", "ws"]);
        drop(env.run(["destroy", "ws"]).exits(0));
        let after = env.json(0, &["inspect", "ws"]);
        assert_eq!(fact(&after, "state"), "destroyed");
        for key in ["artifacts", "evidence"] {
            assert_eq!(after[key], before[key], "{key}");
        }
        assert_eq!(after["provenance"]["inputs"], before["provenance"]["inputs"]);
        let again = env.json(0, &["inspect", &job]);
        assert_eq!(again["outcome_summary"], ran["outcome_summary"]);
        assert_eq!(again["resource_usage"], ran["resource_usage"]);
        assert_eq!(fact(&again, "output/sha256"), fact(&ran, "output/sha256"));
        assert_eq!(env.run(["logs", "--raw", &job]).exits(0).out(), "kept\n");
    });
}

#[test]
fn a_lost_workspace_reads_failed_in_full_too() {
    each_user(|env| {
        create(env, &[]);
        fs::remove_dir_all(env.home().join("disks/ws")).expect("removed");
        let seen = env.json(0, &["inspect", "--full", "ws"]);
        assert_eq!(fact(&seen, "state"), "failed");
        assert!(seen["warnings"].to_string().contains("no longer holds"), "{seen}");
    });
}
