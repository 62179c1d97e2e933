//! A home of which somebody has removed a part: nothing is a dead end, and what is gone is said to be gone.
use crate::support::{create, each_user, run_script};
use bailiwick_testkit::TestEnv;
use rustix::fs::{CWD, Timespec, Timestamps, utimensat};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Checks that `ws` is lost: every verb says so and names a way out, and the way out works.
#[track_caller]
fn check_lost(env: &TestEnv) {
    let seen = env.json(0, &["inspect", "ws"]);
    assert_eq!(seen["facts"]["state"], "failed", "{seen}");
    assert!(seen["warnings"].to_string().contains("no longer holds workspace ws"), "{seen}");
    let listed = env.json(0, &["list"]);
    assert_eq!(listed["workspaces"][0]["state"], "failed", "{listed}");
    for line in [
        &["run", "ws", "true"][..],
        &["put", "ws", "/etc/hostname", "x"],
        &["export", "ws", "out", "--to", "out"],
    ] {
        let output = env.run(line);
        assert!(matches!(output.code(), Some(1 | 7)), "{output}");
        assert!(output.err().contains("bailiwick destroy ws"), "{output}");
    }
    check_destroyed(env);
}

#[track_caller]
fn check_destroyed(env: &TestEnv) {
    let destroyed = env.json(0, &["destroy", "--force", "ws"]);
    let findings = destroyed["key_findings"].to_string();
    assert!(findings.contains("the storage was gone before"), "{destroyed}");
    let tombstone = env.json(0, &["inspect", "ws"]);
    assert_eq!(tombstone["facts"]["state"], "destroyed", "{tombstone}");
}

#[test]
fn a_workspace_whose_disk_is_gone_is_failed_and_can_be_destroyed() {
    for part in ["disks/ws", "disks", "disks/ws/tree"] {
        each_user(|env| {
            create(env, &[]);
            let script = "echo kept; : > out";
            drop(env.json(0, &["run", "--declare", "out=an output", "ws", "sh", "-c", script]));
            fs::remove_dir_all(env.home().join(part)).expect("removed");
            check_lost(env);
            assert_eq!(env.run(["logs", "--raw", "ws"]).exits(0).out(), "kept\n");
        });
    }
}

#[test]
fn a_lost_workspace_is_noticed_by_whoever_comes_first() {
    each_user(|env| {
        create(env, &[]);
        fs::remove_dir_all(env.home().join("disks/ws")).expect("removed");
        let listed = env.json(0, &["list"]);
        assert_eq!(listed["workspaces"][0]["state"], "failed", "{listed}");
        check_destroyed(env);
        let make = |id: &str| drop(env.run(["create", "--workspace-id", id]).exits(0));
        make("k");
        fs::remove_dir_all(env.home().join("disks/k")).expect("removed");
        let error = env.json(7, &["run", "k", "true"]);
        assert_eq!(error["reason"], "workspace_lost", "{error}");
        assert_eq!(env.json(0, &["inspect", "k"])["facts"]["state"], "failed");
        drop(env.json(0, &["destroy", "k"]));
        make("l");
        fs::remove_dir_all(env.home().join("disks/l")).expect("removed");
        drop(env.json(0, &["destroy", "l"]));
    });
}

#[test]
fn output_that_was_removed_is_not_taken_for_none() {
    each_user(|env| {
        create(env, &[]);
        let ran = run_script(env, 0, "echo gone");
        let job = ran["provenance"]["job_id"].as_str().expect("an id");
        fs::remove_dir_all(env.home().join("jobs")).expect("removed");
        for line in [&["logs", job][..], &["logs", "--raw", job], &["inspect", "--logs", "ws"]] {
            let output = env.run(line).exits(0);
            assert!(output.err().contains("kept any more"), "{output}");
        }
        let logs = env.json(0, &["logs", job]);
        assert!(logs["attention"].to_string().contains("kept any more"), "{logs}");
        let package = env.json(0, &["inspect", job]);
        assert!(package["warnings"].to_string().contains("kept any more"), "{package}");
        assert_eq!(run_script(env, 0, "echo usable")["status"], "success");
    });
}

/// Makes a path look as if nothing had touched it for an hour.
fn age(path: &Path) {
    let meta = fs::metadata(path).expect("it is there");
    let then = std::os::unix::fs::MetadataExt::mtime(&meta) - 3_600;
    let time = Timespec { tv_sec: then, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, rustix::fs::AtFlags::empty()).expect("ours");
}

#[test]
fn a_listing_removes_what_nothing_ran_in_and_no_record_knows() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(env, 0, "echo kept"));
        let [disks, jobs] = ["disks", "jobs"].map(|name| env.home().join(name));
        for folder in [disks.join("ws-0"), disks.join("ws-0/tree"), disks.join("ws-0/stage.1")] {
            env.make_folder(&folder, 0o700);
        }
        for folder in [disks.join("young"), jobs.join("job-0"), jobs.join("used")] {
            env.make_folder(&folder, 0o700);
        }
        let output = jobs.join("used/output");
        fs::write(&output, "words\n").expect("written");
        for path in
            fs::read_dir(&disks).expect("listed").chain(fs::read_dir(&jobs).expect("listed"))
        {
            let path = path.expect("an entry").path();
            if !path.ends_with("young") {
                age(&path);
            }
        }
        let health = env.json(0, &["doctor"]);
        let said = health.to_string();
        assert!(said.contains("left of workspace ws-0"), "{health}");
        for folder in [disks.join("ws-0"), disks.join("ws-0/tree"), jobs.join("job-0")] {
            env.make_folder(&folder, 0o700);
        }
        [disks.join("ws-0"), jobs.join("job-0")].iter().for_each(|path| age(path));
        let listed = env.json(0, &["list"]);
        let said: Vec<&str> = strings(&listed["attention"]);
        assert_eq!(said.len(), 3, "{listed}");
        assert!(said.iter().any(|line| line.contains("left of workspace ws-0")), "{listed}");
        assert!(said.iter().any(|line| line.contains("left of job job-0")), "{listed}");
        assert!(said.iter().any(|line| line.starts_with("job used is on no record")), "{listed}");
        assert!(!disks.join("ws-0").exists() && !jobs.join("job-0").exists());
        assert!(disks.join("young").exists() && output.exists() && disks.join("ws").exists());
        assert_eq!(env.run(["logs", "--raw", "ws"]).exits(0).out(), "kept\n");
        assert_eq!(strings(&env.json(0, &["list"])["attention"]).len(), 1);
    });
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

#[test]
fn files_of_a_workspace_on_no_record_are_in_nobodys_way_for_ever() {
    each_user(|env| {
        create(env, &[]);
        for folder in ["left", "left/tree"] {
            env.make_folder(&env.home().join("disks").join(folder), 0o700);
        }
        let file = env.home().join("disks/left/tree/input");
        fs::write(&file, "copied in before the verb was killed").expect("written");
        env.give(&file);
        let refused = env.json(1, &["exec", "--workspace-id", "left", "--", "true"]);
        assert_eq!(refused["reason"], "workspace_left", "{refused}");
        let way = "bailiwick destroy --force left";
        assert!(refused["remediation"].as_str().expect("text").contains(way), "{refused}");
        drop(env.json(1, &["destroy", "left"]));
        let gone = env.json(0, &["destroy", "--force", "left"]);
        assert_eq!(gone["provenance"]["workspace_id"], "left", "{gone}");
        drop(env.json(1, &["destroy", "--force", "left"]));
        drop(env.json(0, &["exec", "--workspace-id", "left", "--", "true"]));
    });
}
