//! Looking into a workspace without a job.
use crate::support::{SOON, create, each_user, marker, run_script, wait_for_job};
use serde_json::Value;
use std::fs;
use std::path::Path;

const MAKE: &str = "mkdir -p d/e; printf 0123456789 > d/ten; printf '\\377\\n' > d/e/bin.dat
    ln -s /etc/passwd d/out; mkfifo d/fifo; : > \"$(printf 'a\\033[2Jb')\"; : > \"$(printf 'c\\377')\"";

fn entries(listing: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = listing["entries"].as_array().expect("a list").iter();
    entries.map(|entry| (text(&entry["path"]), text(&entry["kind"]))).collect()
}

fn names(listing: &Value) -> Vec<String> {
    entries(listing).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn a_listing_shows_what_there_is_and_follows_nothing() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(env, 0, MAKE));
        let top = env.json(0, &["files", "ws"]);
        assert_eq!(names(&top), ["a\u{1b}[2Jb", "{\"base64\":\"Y/8=\"}", "d"], "{top}");
        let below = env.json(0, &["files", "--recursive", "ws", "d"]);
        let wanted = [
            ("d/e", "directory"),
            ("d/e/bin.dat", "file"),
            ("d/fifo", "special"),
            ("d/out", "link"),
            ("d/ten", "file"),
        ];
        assert_eq!(entries(&below), wanted.map(|(a, b)| (a.to_owned(), b.to_owned())), "{below}");
        assert_eq!(below["entries"][3]["target"], "/etc/passwd");
        assert_eq!(below["entries"][4]["size_bytes"], 10);
        let text = env.run(["files", "--recursive", "ws"]).exits(0);
        assert!(!text.stdout.contains(&0x1b) && text.out().contains("a\\u{1b}[2Jb"), "{text}");
        assert!(
            text.out().contains("c\\xff") && text.out().contains("d/out -> /etc/passwd"),
            "{text}"
        );
        for (path, reason) in
            [("none", "no_such_file"), ("d/out/x", "not_a_file"), ("../x", "bad_path")]
        {
            assert_eq!(env.json(1, &["files", "ws", path])["reason"], reason, "{path}");
        }
    });
}

#[test]
fn patterns_and_limits_choose_and_say_what_was_cut() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(
            env,
            0,
            "mkdir -p src/a; for i in 1 2 3; do : > src/$i.rs; : > src/a/$i.md; done",
        ));
        assert_eq!(
            names(&env.json(0, &["files", "--glob", "*.rs", "ws"])),
            ["src/1.rs", "src/2.rs", "src/3.rs"]
        );
        assert_eq!(names(&env.json(0, &["files", "--glob", "a/*", "ws", "src"])).len(), 3);
        let cut = env.json(0, &["files", "--glob", "*.md", "--limit", "2", "ws"]);
        assert_eq!((names(&cut).len(), &cut["more"]), (2, &Value::Bool(true)), "{cut}");
        let whole = env.json(0, &["files", "--glob", "*.md", "--limit", "3", "ws"]);
        assert_eq!(whole["more"], false, "{whole}");
        let text = env.run(["files", "--recursive", "--limit", "4", "ws"]).exits(0);
        assert!(
            text.out().ends_with("...and more than these 4: pass --limit 40, a PATH or a --glob\n"),
            "{text}"
        );
        assert_eq!(env.json(1, &["files", "--glob", "[", "ws"])["reason"], "bad_glob");
    });
}

#[test]
fn a_file_is_read_byte_for_byte_in_whole_or_in_part() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(env, 0, MAKE));
        let read = |words: &[&str]| env.run([&["files", "--read"], words].concat()).exits(0).stdout;
        assert_eq!(read(&["ws", "d/ten"]), b"0123456789");
        assert_eq!(read(&["ws", "d/e/bin.dat"]), b"\xff\n");
        for (range, wanted) in [
            ("2:5", "234"),
            ("7:", "789"),
            (":3", "012"),
            ("8:99", "89"),
            ("5:5", ""),
            ("50:60", ""),
        ] {
            assert_eq!(read(&["--range", range, "ws", "d/ten"]), wanted.as_bytes(), "{range}");
        }
        for path in ["d", "d/out", "d/fifo"] {
            let refused = env.run(["files", "--read", "ws", path]).exits(1);
            assert!(refused.stdout.is_empty(), "{refused}");
        }
        for bad in [
            &["--read", "ws"][..],
            &["--range", "1:2", "ws", "d/ten"],
            &["--read", "--range", "5:2", "ws", "d/ten"],
        ] {
            drop(env.run([&["files"], bad].concat()).exits(1));
        }
    });
}

#[test]
fn files_are_seen_beside_a_running_job_and_not_after_the_end() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("echo here > f; sleep 60; : {name}");
        let mut run = env.start(["run", "--json", "ws", "sh", "-c", &script]);
        let _pid = wait_for_job(&mut run, &name);
        let seen =
            || fs::metadata(env.home().join("disks/ws/tree/f")).is_ok_and(|meta| meta.len() == 5);
        bailiwick_testkit::until("it has written", SOON, || seen().then_some(()));
        assert_eq!(env.run(["files", "--read", "ws", "f"]).exits(0).out(), "here\n");
        drop(env.json(5, &["stop", "--apply", "ws"]));
        drop(run.wait());
        assert_eq!(names(&env.json(0, &["files", "ws"])), ["f"]);
        drop(env.json(0, &["destroy", "ws"]));
        assert_eq!(env.json(1, &["files", "ws"])["reason"], "workspace_destroyed");
    });
}

#[test]
fn a_listing_fits_its_schema() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(env, 0, MAKE));
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/files.json");
        let text = fs::read_to_string(path).expect("`cargo xtask schemas` writes it");
        let schema: Value = serde_json::from_str(&text).expect("a schema is JSON");
        let validator = jsonschema::validator_for(&schema).expect("a schema is valid");
        let listing = env.json(0, &["files", "--recursive", "ws"]);
        let complaints: Vec<String> =
            validator.iter_errors(&listing).map(|error| error.to_string()).collect();
        assert!(complaints.is_empty(), "{complaints:#?} in {listing}");
    });
}
