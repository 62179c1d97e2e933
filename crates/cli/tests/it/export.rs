//! Publication of files and directories, and what it refuses.
use crate::support::{create, each_user, run_script, sha256};
use bailiwick_testkit::TestEnv;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

/// Runs a script that makes what `name` declares.
fn make(env: &TestEnv, name: &str, script: &str) -> Value {
    let declare = format!("{name}=something");
    env.json(0, &["run", "--declare", &declare, "ws", "sh", "-c", script])
}

const SITE: &str =
    "umask 022; mkdir -p site/a/b site/empty; echo index > site/index; echo deep > site/a/b/f
    printf '#!/bin/sh\\necho ran\\n' > site/a/tool; chmod 755 site/a/tool; ln -s ../index site/a/l
    : > \"site/$(printf n%0150d 0)\"; touch -d @5 site/index";

fn leftovers(env: &TestEnv) -> Vec<String> {
    let entries = fs::read_dir(env.work()).expect("listed").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(".bailiwick")).collect()
}

#[test]
fn a_directory_is_published_as_a_tree_or_as_a_tar_file_with_one_digest() {
    each_user(|env| {
        create(env, &[]);
        let ran = make(env, "site", SITE);
        assert_eq!(ran["status"], "success", "a declared directory counts as made: {ran}");
        let tree = env.json(0, &["export", "ws", "site", "--to", "out"]);
        let tar = env.json(0, &["export", "--tar", "ws", "site", "--to", "out.tar"]);
        let digest =
            |package: &Value| package["artifacts"][0]["digest"].as_str().expect("hex").to_owned();
        assert_eq!(digest(&tree), digest(&tar));
        assert_eq!(tree["artifacts"][0]["media_type"], "application/x-tar");
        let bytes = fs::read(env.work().join("out.tar")).expect("published");
        assert_eq!(sha256(&bytes), digest(&tar));
        assert_eq!(tar["artifacts"][0]["size_bytes"], bytes.len());
        let out = env.work().join("out");
        assert_eq!(fs::read(out.join("a/b/f")).expect("published"), b"deep\n");
        assert_eq!(fs::read_link(out.join("a/l")).expect("a link").to_str(), Some("../index"));
        assert_eq!(
            fs::metadata(out.join("a/tool")).expect("there").permissions().mode() & 0o777,
            0o755
        );
        assert!(out.join("empty").is_dir());
        // A tar of somebody else's makes the same tree of it.
        env.make_folder(&env.work().join("unpacked"), 0o755);
        drop(env.host("tar", ["-x", "-f", "out.tar", "-C", "unpacked"]).exits(0));
        drop(env.host("diff", ["-r", "--no-dereference", "out", "unpacked"]).exits(0));
        let expect = digest(&tree);
        drop(env.json(0, &["export", "--expect-sha256", &expect, "ws", "site", "--to", "again"]));
        let wrong = env.json(
            2,
            &["export", "--expect-sha256", &"0".repeat(64), "ws", "site", "--to", "wrong"],
        );
        assert_eq!(wrong["reason"], "digest_mismatch", "{wrong}");
        assert!(!env.work().join("wrong").exists() && leftovers(env).is_empty());
        // It may be packed as it came: what lands is what it was made of.
        drop(
            env.host(
                "sh",
                ["-c", "\"$0\" put ws - back < out.tar", env.program().to_str().expect("UTF-8")],
            )
            .exits(0),
        );
        drop(run_script(env, 0, "diff -r --no-dereference site back"));
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn a_tree_takes_the_place_of_nothing_and_holds_nothing_that_leads_out() {
    each_user(|env| {
        create(env, &[]);
        drop(make(env, "site", SITE));
        env.make_folder(&env.work().join("there"), 0o755);
        drop(env.write("file", "kept"));
        for (to, reason) in [("there", "destination_is_directory"), ("file", "destination_taken")] {
            assert_eq!(env.json(1, &["export", "ws", "site", "--to", to])["reason"], reason);
        }
        assert_eq!(
            env.json(1, &["export", "--tar", "ws", "site", "--path", "site/index", "--to", "t"])["reason"],
            "not_a_directory"
        );
        for odd in [
            "ln -s /etc/passwd site/odd",
            "ln -s ../.. site/odd",
            "ln -s a/../.. site/odd",
            "ln -s a/b/../../../x site/odd",
            "mkfifo site/odd",
            "mkdir -m 0 site/odd",
        ] {
            drop(run_script(env, 0, odd));
            let error = env.json(1, &["export", "ws", "site", "--to", "new"]);
            assert_eq!(error["reason"], "tree_refused", "{odd}: {error}");
            assert!(error["message"].as_str().expect("text").contains("site/odd"), "{error}");
            drop(run_script(env, 0, "rm -rf site/odd"));
        }
        assert!(!env.work().join("new").exists() && leftovers(env).is_empty());
        assert_eq!(fs::read(env.work().join("file")).expect("there"), b"kept");
    });
}

#[test]
fn what_nobody_declared_is_published_on_request_and_gates_nothing() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(env, 0, "mkdir -p t/d; echo app > t/app; chmod 755 t/app; echo x > t/d/x"));
        drop(env.json(1, &["export", "--path", "t/app", "ws", "app", "--to", "app"]));
        drop(env.json(1, &["export", "--undeclared", "ws", "t/app", "--to", "app"]));
        let package =
            env.json(0, &["export", "--undeclared", "--path", "t/app", "ws", "app", "--to", "app"]);
        assert_eq!(package["artifacts"][0]["name"], "app", "{package}");
        assert_eq!(package["artifacts"][0]["digest"], sha256(b"app\n").as_str());
        drop(env.json(0, &["export", "--undeclared", "--path", "t/d", "ws", "d", "--to", "d"]));
        assert_eq!(fs::read(env.work().join("d/x")).expect("published"), b"x\n");
        let again =
            ["export", "--undeclared", "--path", "t/app", "--no-clobber", "ws", "app", "--to"];
        assert_eq!(env.json(1, &[&again[..], &["app"]].concat())["reason"], "destination_taken");
        symlink("nowhere", env.work().join("dangling")).expect("linked");
        assert_eq!(
            env.json(1, &[&again[..], &["dangling"]].concat())["reason"],
            "destination_taken"
        );
        drop(env.json(0, &[&again[..], &["fresh"]].concat()));
        drop(make(env, "app", "echo other > app"));
        assert_eq!(env.json(1, &[&again[..], &["new"]].concat())["reason"], "artifact_declared");
        assert_eq!(
            env.json(1, &["destroy", "ws"])["category"],
            "user_error",
            "the declared one is pending"
        );
        drop(env.json(0, &["export", "ws", "app", "--to", "app"]));
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn permissions_stay_and_a_sparse_giant_is_refused_unread() {
    each_user(|env| {
        create(env, &["--storage-bytes", "4MiB"]);
        let tool = "umask 022; printf '#!/bin/sh\\necho ran\\n' > tool; chmod 755 tool";
        drop(make(env, "tool", tool));
        drop(env.json(0, &["export", "ws", "tool", "--to", "tool"]));
        let meta = fs::metadata(env.work().join("tool")).expect("published");
        assert_eq!(meta.permissions().mode() & 0o777, 0o755);
        assert_eq!(env.host("./tool", [""; 0]).exits(0).out(), "ran\n");
        // No job could make it: its files end at the budget.
        let giant = fs::File::create(env.home().join("disks/ws/tree/giant")).expect("made");
        giant.set_len(1 << 40).expect("sparse");
        let words = ["export", "--undeclared", "--path", "giant", "ws", "g", "--to", "g"];
        let refused = env.json(3, &words);
        assert_eq!(refused["reason"], "artifact_over_storage", "{refused}");
        drop(run_script(env, 0, "mkdir d; for i in 1 2 3; do truncate -s 2M d/$i; done"));
        let words = ["export", "--undeclared", "--path", "d", "ws", "g", "--to", "g"];
        assert_eq!(env.json(3, &words)["reason"], "artifact_over_storage");
        assert!(!env.work().join("g").exists() && leftovers(env).is_empty());
    });
}

#[test]
fn nothing_is_published_into_the_home() {
    each_user(|env| {
        create(env, &[]);
        drop(make(env, "a", "echo a > a"));
        symlink(env.home(), env.work().join("home-link")).expect("linked");
        let own = env.home().join("disks/ws/tree/b");
        for to in [own.to_str().expect("UTF-8"), "home-link/x", "../state/x"] {
            let error = env.json(1, &["export", "ws", "a", "--to", to]);
            assert_eq!(error["reason"], "destination_in_home", "{to}: {error}");
        }
        let to = format!("a={}", env.home().join("x").display());
        let error = env.json(1, &["exec", "--declare", "a=x", "--export", &to, "--", "touch", "a"]);
        assert_eq!(error["reason"], "destination_in_home", "{error}");
    });
}

#[test]
fn an_exec_publishes_a_directory() {
    each_user(|env| {
        let line =
            ["exec", "--declare", "site=all of it", "--export", "site=out", "--", "sh", "-c", SITE];
        let package = env.json(0, &line);
        assert_eq!(package["status"], "success", "{package}");
        assert_eq!(fs::read(env.work().join("out/a/b/f")).expect("published"), b"deep\n");
        assert_eq!(env.json(0, &["list"])["total"], 0, "nothing is kept");
        let uid = fs::metadata(env.work()).expect("there").uid();
        assert_eq!(fs::metadata(env.work().join("out/a/tool")).expect("there").uid(), uid);
    });
}
