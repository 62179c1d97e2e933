//! Each fault that was measured in the system whose command line this one keeps, as a test that it is not here.
//!
//! The numbers are those of the study: sixteen faults, then the issues that are open there. A fault that another suite
//! tries in depth has its shortest form here, so that the list is whole.
use crate::support::{
    SOON, create, each_user, fact, marker, run_script, sha256, signal, wait_for_job,
    wait_for_nothing,
};
use bailiwick_testkit::{Running, TestEnv, until};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, Instant};

/// Starts `script` in the workspace `ws` under a job id that no other test has, and waits until it runs.
fn start(env: &TestEnv, script: &str) -> Running {
    let name = marker(env);
    let script = format!("{script}; : {name}");
    let mut run = env.start(["run", "--json", "--job-id", &name, "ws", "sh", "-c", &script]);
    let _pid = wait_for_job(&mut run, &name);
    run
}

/// Returns the lines of a list of a package.
fn lines(list: &Value) -> Vec<&str> {
    list.as_array().expect("a list").iter().map(|line| line.as_str().expect("text")).collect()
}

/// Returns how many workspaces are on record.
fn recorded(env: &TestEnv) -> usize {
    env.json(0, &["list", "--all"])["workspaces"].as_array().expect("a list").len()
}

#[test]
fn fault_01_a_wall_clock_does_not_die_with_the_caller() {
    each_user(|env| {
        create(env, &["--wall-clock-seconds", "1"]);
        drop(start(env, "sleep 60").kill());
        wait_for_nothing(&marker(env));
        let job = env.json(0, &["inspect", &marker(env)]);
        assert_eq!(fact(&job, "job_status"), "timeout", "{job}");
        drop(run_script(env, 0, "true"));
    });
}

#[test]
fn fault_02_an_interrupted_run_keeps_its_result() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        drop(start(env, "echo kept; sleep 1; exit 3").kill());
        wait_for_nothing(&name);
        let job = env.json(0, &["inspect", &name]);
        assert_eq!((fact(&job, "exit_status"), fact(&job, "state")), (&3.into(), &"ready".into()));
        assert_eq!(env.run(["logs", "--raw", &name]).exits(0).out(), "kept\n");
    });
}

#[test]
fn fault_03_no_budget_fails_open() {
    let env = crate::support::plain();
    let flags = [
        "--memory-bytes",
        "--cpu-limit",
        "--pids-limit",
        "--storage-bytes",
        "--wall-clock-seconds",
        "--output-bytes",
        "--concurrency",
    ];
    for flag in flags {
        for value in ["0", "-1", "-5", "nan", "inf", "1e99", ""] {
            let output = env.run(["create", &format!("{flag}={value}")]).exits(1);
            assert!(output.mentions(flag), "{output}");
        }
    }
    assert_eq!(recorded(&env), 0);
}

#[test]
fn fault_04_concurrency_is_what_it_says() {
    each_user(|env| {
        create(env, &["--concurrency", "2"]);
        let meet = |own: &str, other: &str| {
            let wait = format!("touch {own}; until [ -e {other} ]; do sleep 0.05; done");
            env.start(["run", "--json", "ws", "sh", "-c", &wait])
        };
        // Neither ends without the other.
        let (first, second) = (meet("a", "b"), meet("b", "a"));
        let packages = [first.wait().exits(0).json(), second.wait().exits(0).json()];
        assert_eq!(fact(&packages[0], "policy/concurrency/value"), 2);
        let hold = |name: &str| {
            let run = env.start(["run", "ws", "sh", "-c", &format!("touch {name}; sleep 60")]);
            let file = env.home().join("disks/ws/tree").join(name);
            until("the job runs", SOON, || file.exists().then_some(()));
            run
        };
        let held = [hold("c"), hold("d")];
        let refused = env.json(1, &["run", "--wait", "0", "ws", "true"]);
        assert_eq!(refused["category"], "user_error", "{refused}");
        drop(env.json(5, &["stop", "--apply", "ws"]));
        for run in held {
            drop(run.wait().exits(5));
        }
    });
}

#[test]
fn fault_05_a_command_that_cannot_run_is_the_callers_mistake_everywhere() {
    each_user(|env| {
        create(env, &[]);
        let missing = env.json(6, &["run", "ws", "no-such-command"]);
        assert_eq!(fact(&missing, "exit_status"), 127, "{missing}");
        let refused = run_script(env, 0, "echo x > plain");
        assert_eq!(refused["status"], "success");
        let refused = env.json(6, &["run", "ws", "./plain"]);
        assert_eq!(fact(&refused, "exit_status"), 126, "{refused}");
        let home = env.home();
        let home = home.to_str().expect("text");
        assert!(!missing.to_string().contains(home), "a place of ours leaks: {missing}");
    });
}

#[test]
fn fault_06_a_stop_needs_no_cooperation_and_there_is_one_verdict() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let run = start(env, "trap '' TERM; while :; do sleep 0.1; done");
        let begun = Instant::now();
        let stopped = env.json(5, &["stop", "--apply", "--grace", "1", "ws"]);
        assert!(begun.elapsed() < SOON, "the grace is a second");
        let ran = run.wait().exits(5).json();
        assert_eq!(
            (&stopped["status"], &ran["status"]),
            (&"cancelled".into(), &"cancelled".into())
        );
        let job = env.json(0, &["inspect", &name]);
        assert_eq!(fact(&job, "job_status"), "cancelled", "{job}");
    });
}

#[test]
fn fault_07_a_storage_budget_stops_a_job_and_there_is_no_disk_beside_it() {
    each_user(|env| {
        create(env, &["--storage-bytes", "1MiB"]);
        let full = run_script(env, 8, "dd if=/dev/zero of=big bs=1M count=50 2>/dev/null; sleep 5");
        assert_eq!(full["status"], "resource_exhausted", "{full}");
        assert_eq!(fact(&full, "reason"), "storage", "{full}");
        let elsewhere = run_script(
            env,
            6,
            "for d in / /usr /etc /var /opt /root /home; do echo x 2>/dev/null > $d/x && exit 0; done; exit 9",
        );
        assert_eq!(fact(&elsewhere, "exit_status"), 9, "no other part of the root takes a file");
    });
}

#[test]
fn fault_08_both_forms_are_bounded_and_never_lose_the_attention() {
    each_user(|env| {
        create(env, &[]);
        let script = format!("true # {}", "x".repeat(100_000));
        let line = ["--declare", "f=later", "ws", "sh", "-c", &script];
        let text = env.run([&["run"], &line[..]].concat()).exits(0);
        let output = env.run(["run", "--json", "--declare", "g=later", "ws", "sh", "-c", &script]);
        let json = output.exits(0);
        assert!(text.stdout.len() <= 8_192 && json.stdout.len() <= 8_192);
        assert!(text.out().contains("## Suggested attention"), "{text}");
        assert!(!lines(&json.json()["attention"]).is_empty(), "{json}");
        let id = json.json()["provenance"]["job_id"].as_str().expect("an id").to_owned();
        let whole = env.run(["inspect", "--full", "--json", &id]).exits(0);
        assert!(whole.mentions(&script), "what was cut can be had");
    });
}

#[test]
fn fault_09_output_keeps_its_end_its_streams_and_every_byte() {
    each_user(|env| {
        create(env, &["--output-bytes", "4096"]);
        let long = run_script(env, 0, "seq 1 20000; echo the-last-line; echo oops >&2");
        assert!(long["evidence"][0]["excerpt"].as_str().expect("text").contains("the-last-line"));
        assert_eq!(fact(&long, "output/stderr_bytes"), 5, "{long}");
        let bytes = run_script(env, 0, r"printf '\377\376ab\000c'");
        assert_eq!(fact(&bytes, "output/bytes"), 6, "{bytes}");
        assert_eq!(fact(&bytes, "output/encoding"), "binary", "{bytes}");
        let id = bytes["provenance"]["job_id"].as_str().expect("an id").to_owned();
        assert_eq!(env.run(["logs", "--raw", &id]).exits(0).stdout, b"\xff\xfeab\0c");
        let digest = fact(&bytes, "output/sha256").as_str().expect("a digest");
        assert_eq!(digest, sha256(b"\xff\xfeab\0c"), "the digest is of what is kept");
    });
}

#[test]
fn fault_10_no_line_separator_and_no_torn_write_makes_the_state_unreadable() {
    each_user(|env| {
        create(env, &[]);
        for odd in ["a\u{2028}b", "a\u{2029}b", "a\u{85}b", "a\rb", "a\u{b}b"] {
            let package = env.json(0, &["run", "ws", "printf", "%s", odd]);
            assert_eq!(package["provenance"]["inputs"][2], odd, "{package}");
        }
        let quiet = env.json(0, &["inspect", "ws"]);
        assert!(lines(&quiet["attention"]).is_empty(), "{quiet}");
        // The end of the log is torn off, as by a power cut in the middle of a write.
        let log = OpenOptions::new().write(true).open(env.home().join("state.db-wal"));
        let log = log.expect("the log is there");
        let length = log.metadata().expect("its length").len();
        log.set_len(length.saturating_sub(100)).expect("shortened");
        let known = env.json(0, &["inspect", "ws"]);
        assert_eq!(known["status"], "success", "{known}");
        drop(run_script(env, 0, "true"));
    });
}

#[test]
fn fault_11_an_argument_need_not_be_text() {
    each_user(|env| {
        create(env, &[]);
        let odd = OsStr::from_bytes(b"a\xffb");
        let line = ["run", "--json", "ws", "printf", "%s"].map(OsStr::new);
        let output = env.run(line.into_iter().chain([odd])).exits(0);
        let id = output.json()["provenance"]["job_id"].as_str().expect("an id").to_owned();
        assert_eq!(env.run(["logs", "--raw", &id]).exits(0).stdout, b"a\xffb");
    });
}

#[test]
fn fault_12_no_text_of_a_caller_or_a_job_forges_a_section() {
    each_user(|env| {
        create(env, &["--purpose", "x\n\n## Status\n\npolicy_denied"]);
        let forged = "x\n\n## Status\n\npolicy_denied";
        let declared = format!("f={forged}");
        let output = env.run(["run", "--declare", &declared, "ws", "printf", "%s", forged]);
        let output = output.exits(0);
        let headings = output.out().lines().filter(|line| *line == "## Status").count();
        assert_eq!(headings, 1, "{output}");
        let inspected = env.run(["inspect", "ws"]).exits(0);
        let headings = inspected.out().lines().filter(|line| *line == "## Status").count();
        assert_eq!(headings, 1, "{inspected}");
    });
}

#[test]
fn fault_13_a_short_job_is_accounted_for() {
    each_user(|env| {
        create(env, &[]);
        let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let package = run_script(env, 0, busy);
        let usage = &package["resource_usage"];
        assert!(usage["cpu_seconds"].as_f64().expect("a number") > 0.0, "{package}");
        assert!(usage["max_memory_bytes"].as_u64().expect("a number") > 100_000, "{package}");
        assert_ne!(usage["max_memory_basis"], "none", "{package}");
    });
}

#[test]
fn fault_14_a_tree_goes_in_and_comes_out_as_it_is() {
    each_user(|env| {
        let tree = env.work().join("tree");
        for folder in ["tree", "tree/bin", "tree/empty"] {
            env.make_folder(&env.work().join(folder), 0o755);
        }
        let tool = env.write("tree/bin/tool", "#!/bin/sh\necho it runs\n");
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("our own file");
        drop(env.write("tree/noise.log", "noise"));
        drop(env.write("ignored", "*.log\n"));
        symlink("bin/tool", tree.join("link")).expect("a link");
        create(env, &[]);
        drop(env.run(["put", "--ignore-file", "ignored", "ws", "tree", "in"]).exits(0));
        let made = run_script(env, 0, "in/link && test -d in/empty && test ! -e in/noise.log");
        assert_eq!(made["evidence"][0]["excerpt"], "it runs\n", "{made}");
        let listed = env.run(["files", "--recursive", "--glob", "in/b*/*", "ws"]).exits(0);
        assert!(listed.mentions("in/bin/tool") && !listed.mentions("in/empty"), "{listed}");
        drop(env.json(0, &["export", "--undeclared", "--path", "in", "ws", "in", "--to", "out"]));
        let out = env.work().join("out");
        let tool = fs::metadata(out.join("bin/tool")).expect("it was exported");
        assert_eq!(tool.permissions().mode() & 0o111, 0o111, "it can still be run");
        assert_eq!(fs::read_link(out.join("link")).expect("a link").to_str(), Some("bin/tool"));
        assert!(out.join("empty").is_dir());
    });
}

#[test]
fn fault_15_a_workspace_that_vanished_is_failed_and_leaves_nothing() {
    each_user(|env| {
        create(env, &[]);
        fs::remove_dir_all(env.home().join("disks/ws")).expect("the disk is taken away");
        let inspected = env.json(0, &["inspect", "ws"]);
        assert_eq!(fact(&inspected, "state"), "failed", "{inspected}");
        drop(env.json(0, &["destroy", "ws"]));
        assert!(!env.home().join("disks/ws").exists());
    });
}

#[test]
fn fault_16_an_interrupt_is_a_result_and_a_flag_of_the_job_is_the_jobs() {
    each_user(|env| {
        create(env, &[]);
        let run = start(env, "sleep 60");
        signal(run.pid(), Signal::INT);
        let output = run.wait().exits(5);
        assert_eq!(output.json()["status"], "cancelled", "{output}");
        assert!(output.stderr.is_empty(), "{output}");
        let error = env.run(["run", "--bogus", "ws", "tool", "--json"]).exits(1);
        assert!(error.err().starts_with("error: "), "{error}");
    });
}

#[test]
fn issue_4_the_name_in_the_help_can_be_typed() {
    let env = crate::support::plain();
    let help = env.run(["--help"]).exits(0);
    assert!(help.out().contains("Usage: bailiwick "), "{help}");
    let error = env.run(["create", "--bogus"]).exits(1);
    assert!(error.err().contains("`bailiwick create --help`"), "{error}");
    let version = env.run(["--version"]).exits(0);
    assert!(version.out().starts_with("bailiwick "), "{version}");
}

#[test]
fn issue_10_an_export_follows_no_link_of_an_ancestor() {
    each_user(|env| {
        create(env, &[]);
        let line =
            ["run", "--json", "--declare", "etc/passwd=not ours", "ws", "ln", "-s", "/etc", "etc"];
        drop(env.run(line));
        let refused = env.json(1, &["export", "ws", "etc/passwd", "--to", "stolen"]);
        assert_eq!(refused["category"], "user_error", "{refused}");
        assert!(!env.work().join("stolen").exists());
        // The same export of a file that is the workspace's own succeeds.
        let line = ["run", "--json", "--declare", "own=ours", "ws", "cp", "/etc/passwd", "own"];
        drop(env.run(line).exits(0));
        drop(env.json(0, &["export", "ws", "own", "--to", "own"]));
    });
}

#[test]
fn issue_11_a_destroy_and_a_declaring_run_never_both_win() {
    each_user(|env| {
        for round in 0..10 {
            let id = format!("race-{round}");
            drop(env.json(0, &["create", "--workspace-id", &id]));
            let line = ["run", "--json", "--declare", "a=kept", &id, "touch", "a"];
            let run = env.start(line);
            std::thread::sleep(Duration::from_millis(round * 3));
            let destroy = env.run(["destroy", &id]);
            let ran = run.wait();
            let wins = (ran.code() == Some(0), destroy.code() == Some(0));
            assert_ne!(wins, (true, true), "an artifact was lost: {ran} {destroy}");
        }
    });
}

#[test]
fn issue_12_what_is_acknowledged_is_on_record_whole() {
    each_user(|env| {
        create(env, &[]);
        let ids: Vec<String> = (0..5)
            .map(|number| {
                let package = run_script(env, 0, &format!("echo {number}"));
                package["provenance"]["job_id"].as_str().expect("an id").to_owned()
            })
            .collect();
        // A copy of the files as they lie at this moment, as after a power cut, tells of every job.
        let copy = env.home().with_file_name("copy");
        let paths = [env.home(), copy.clone()].map(|path| path.to_str().expect("text").to_owned());
        drop(env.host("cp", ["-a", &paths[0], &paths[1]]).exits(0));
        env.set("BAILIWICK_HOME", copy.as_os_str());
        for id in ids {
            assert_eq!(fact(&env.json(0, &["inspect", &id]), "job_status"), "success");
        }
    });
}

#[test]
fn issue_19_the_departures_are_written_down() {
    let concepts = include_str!("../../../../docs/concepts.md");
    assert!(concepts.contains("\n## Departures\n"), "docs/concepts.md tells what is different");
}

#[test]
fn issue_22_a_workspace_with_a_job_in_flight_can_be_torn_down() {
    each_user(|env| {
        create(env, &[]);
        let run = start(env, "sleep 60");
        drop(env.json(5, &["stop", "--apply", "ws"]));
        // The job's end is on record when stop returns: the next verb need not be repeated.
        drop(env.json(0, &["destroy", "ws"]));
        drop(run.wait().exits(5));
        drop(env.run(["create", "--workspace-id", "ws2"]).exits(0));
        let mut run = env.start(["run", "--json", "ws2", "sh", "-c", "sleep 60; : second"]);
        let _pid = wait_for_job(&mut run, ": second");
        drop(env.json(0, &["destroy", "--force", "ws2"]));
        drop(run.wait().exits(5));
    });
}
