//! Odd arguments, odd output and odd jobs: a clear error or a typed outcome, and nothing is left running.
use crate::support::{
    SOON, create, each_user, exec_script, fact, marker, run_script, sha256, wait_for_job,
    wait_for_nothing,
};
use bailiwick_testkit::{Output, TestEnv};
use serde_json::Value;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Instant;

#[test]
fn an_unknown_profile_is_refused_and_the_known_ones_are_named() {
    each_user(|env| {
        let error = env.json(1, &["create", "--profile", "nope"]);
        assert_eq!(error["reason"], "unknown_profile", "{error}");
        assert!(error["remediation"].as_str().expect("text").contains("host"), "{error}");
        let python = env.json(1, &["create", "--profile", "python3.12"]);
        assert_eq!(python["reason"], "unknown_profile", "{python}");
    });
}

#[test]
fn an_id_that_is_taken_is_refused_also_after_its_end() {
    each_user(|env| {
        create(env, &[]);
        drop(env.json(1, &["create", "--workspace-id", "ws"]));
        drop(env.json(0, &["destroy", "ws"]));
        drop(env.json(1, &["create", "--workspace-id", "ws"]));
        drop(env.json(1, &["run", "ws", "true"]));
    });
}

#[test]
fn the_greatest_limits_are_held_and_one_more_process_is_refused() {
    each_user(|env| {
        let above = ["create", "--workspace-id", "ws", "--pids-limit", "4194304"];
        let refused = env.run(above).exits(1);
        assert!(refused.mentions("it is beyond the greatest value, 4194303"), "{refused}");
        let most = [
            ["--pids-limit", "4194303"],
            ["--memory-bytes", "9223372036854775807"],
            ["--output-bytes", "9223372036854775807"],
            ["--concurrency", "9223372036854775807"],
            ["--wall-clock-seconds", "2147483647"],
            ["--cpu-limit", "1000000"],
            ["--storage-bytes", "9223372036854775807"],
        ];
        for [flag, value] in most {
            drop(env.run(["exec", "--allow-watched", flag, value, "--", "true"]).exits(0));
        }
    });
}

#[test]
fn arguments_reach_the_job_byte_for_byte() {
    each_user(|env| {
        create(env, &[]);
        let odd: [&[u8]; 8] = [
            b"\xff\xfe\x80",
            b"a\nb\n\n## Status\n\nfailure",
            "a\u{2028}b\u{85}c".as_bytes(),
            b"\x1b[2J\x1b]0;title\x07",
            b"``` `` ` ````",
            b"--json",
            b"--",
            b"",
        ];
        for bytes in odd {
            let words = ["run", "ws", "printf", "%s"].map(OsStr::new);
            let output = env.run(words.into_iter().chain([OsStr::from_bytes(bytes)])).exits(0);
            assert!(std::str::from_utf8(&output.stdout).is_ok(), "a rendering is text: {output}");
            assert_eq!(output.out().matches("\n## Status\n").count(), 1, "{output}");
            assert!(!output.stdout.contains(&0x1b), "{output}");
        }
        let raw = env.run(["logs", "--raw", "ws"]).exits(0);
        assert_eq!(raw.stdout, odd.concat());
    });
}

#[test]
fn flags_after_the_workspace_and_one_leading_dash_dash_belong_to_the_job() {
    each_user(|env| {
        create(env, &[]);
        let printed = |line: &[&str]| {
            let package = env.json(0, line);
            package["evidence"][0]["excerpt"].as_str().expect("text").to_owned()
        };
        assert_eq!(printed(&["run", "ws", "echo", "--json", "--wait", "0"]), "--json --wait 0\n");
        assert_eq!(printed(&["run", "ws", "--", "echo", "--"]), "--\n");
        assert_eq!(printed(&["exec", "--", "echo", "--", "--json"]), "-- --json\n");
        assert_eq!(printed(&["exec", "echo", "--json"]), "--json\n");
    });
}

#[test]
fn output_that_is_no_text_is_kept_byte_for_byte() {
    each_user(|env| {
        create(env, &[]);
        let package = run_script(env, 0, "printf '\\377\\376ab\\0c'");
        assert_eq!(fact(&package, "output/encoding"), "binary");
        assert_eq!(fact(&package, "output/bytes"), 6);
        assert_eq!(fact(&package, "output/sha256"), &sha256(b"\xff\xfeab\0c"));
        assert_eq!(env.run(["logs", "--raw", "ws"]).exits(0).stdout, b"\xff\xfeab\0c");
        let logs = env.json(0, &["inspect", "--logs", "ws"]);
        assert_eq!(logs["jobs"][0]["encoding"], "base64", "{logs}");
        assert_eq!(logs["jobs"][0]["output"], "//5hYgBj", "{logs}");
    });
}

#[test]
fn endless_output_without_a_newline_ends_with_the_wall_clock() {
    each_user(|env| {
        let script = "exec python3 -c 'import sys\nwhile True: sys.stdout.write(\"x\" * 65536)'";
        let package = exec_script(env, 4, &["--wall-clock-seconds", "1"], script);
        assert_eq!(fact(&package, "output/kept"), 10 << 20);
        assert!(fact(&package, "output/bytes").as_u64() > Some(10 << 20), "{package}");
        assert_eq!(fact(&package, "output/lines"), 0);
    });
}

#[test]
fn a_command_that_is_missing_or_not_executable_is_the_callers_mistake() {
    each_user(|env| {
        let missing = env.json(6, &["exec", "--", "no-such-command"]);
        assert_eq!(fact(&missing, "exit_status"), 127);
        assert_eq!(fact(&missing, "reason"), "command_not_found");
        let text = env.json(6, &["exec", "--", "/etc/passwd"]);
        assert_eq!(fact(&text, "exit_status"), 126);
        assert_eq!(fact(&text, "reason"), "command_not_executable");
    });
}

#[test]
fn a_job_that_ignores_sigterm_is_killed_after_the_grace() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("trap '' TERM; while :; do sleep 1; done; : {name}");
        let mut run = env.start(["run", "--json", "ws", "sh", "-c", &script]);
        let _pid = wait_for_job(&mut run, &name);
        let begun = Instant::now();
        drop(env.json(5, &["stop", "--apply", "--grace", "300ms", "ws"]));
        assert!(begun.elapsed() < SOON, "the grace is 0.3 s: {:?}", begun.elapsed());
        assert_eq!(fact(&run.wait().exits(5).json(), "exit_status"), &Value::Null);
        wait_for_nothing(&name);
    });
}

#[test]
fn processes_that_leave_their_session_end_with_the_job() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("(setsid sh -c 'sleep 300; : {name}' >/dev/null 2>&1 &) ; echo left");
        let package = run_script(env, 0, &script);
        assert_eq!(package["evidence"][0]["excerpt"], "left\n", "{package}");
        wait_for_nothing(&name);
    });
}

#[test]
fn a_home_that_cannot_be_written_to_is_an_environment_error() {
    each_user(|env| {
        // Nobody, not even root, makes a folder there.
        env.set("BAILIWICK_HOME", "/sys/bailiwick");
        for line in [&["create"][..], &["exec", "--", "true"], &["list"]] {
            let error = env.json(2, line);
            assert_eq!(error["category"], "environment_error", "{error}");
        }
    });
}

#[test]
fn a_busy_workspace_is_waited_for_and_its_holder_is_named() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let script = format!("sleep 2; : {name}");
        let mut first = env.start(["run", "--job-id", "first", "ws", "sh", "-c", &script]);
        let _pid = wait_for_job(&mut first, &name);
        let refused = env.json(1, &["run", "--wait", "0", "ws", "true"]);
        assert!(refused["message"].as_str().expect("text").contains("first"), "{refused}");
        let waited = env.run(["run", "--wait", "20", "ws", "echo", "second"]).exits(0);
        assert!(waited.err().contains("first"), "who holds it is said on standard error: {waited}");
        let busy = env.run(["destroy", "ws"]);
        drop(busy.exits(0));
        drop(first.wait().exits(0));
    });
}

#[test]
fn a_declaration_without_an_export_is_refused_by_exec_before_anything_runs() {
    each_user(|env| {
        drop(env.json(1, &["exec", "--declare", "a=something", "--", "touch", "a"]));
        assert!(!env.home().exists() || env.json(0, &["list"])["total"] == 0);
    });
}

#[test]
fn a_host_path_is_shown_as_it_was_allowed() {
    each_user(|env| {
        let folder = env.work().join("shown");
        env.make_folder(&folder, 0o755);
        drop(env.write("shown/in.txt", "from the host"));
        let path = folder.canonicalize().expect("it exists");
        let shown = path.to_str().expect("text");
        let read =
            exec_script(env, 0, &["--allow-host-path", "shown"], &format!("cat {shown}/in.txt"));
        assert_eq!(read["evidence"][0]["excerpt"], "from the host", "{read}");
        drop(exec_script(
            env,
            6,
            &["--allow-host-path", "shown"],
            &format!("echo x > {shown}/out.txt"),
        ));
        assert!(!folder.join("out.txt").exists());
        drop(exec_script(env, 6, &[], &format!("cat {shown}/in.txt")));
    });
}

#[test]
fn the_same_job_id_may_be_in_use_in_two_homes_at_once() {
    each_user(|env| {
        let name = marker(env);
        let homes = ["one", "two"].map(|home| env.work().join(home));
        let script = format!("sleep 1; : {name}");
        let runs = homes.map(|home| {
            env.set("BAILIWICK_HOME", home);
            env.start(["exec", "--job-id", "same", "--", "sh", "-c", &script])
        });
        for run in runs {
            drop(run.wait().exits(0));
        }
    });
}

/// Runs the command below a shell that first does `before`.
fn run_after(env: &TestEnv, before: &str, arguments: &[&str]) -> Output {
    let line = format!("{before}; exec \"$0\" \"$@\"");
    let program = env.program().to_str().expect("UTF-8").to_owned();
    let words = ["-c", &line, &program].into_iter().chain(arguments.iter().copied());
    env.host("sh", words)
}

#[test]
fn a_caller_that_ignores_its_children_gets_the_outcome_all_the_same() {
    each_user(|env| {
        // Twice: the first call also probes the host.
        for _ in 0..2 {
            let arguments = ["exec", "--wall-clock-seconds", "20", "--", "true"];
            drop(run_after(env, "trap '' CHLD", &arguments).exits(0));
        }
    });
}

#[test]
fn limits_of_the_caller_that_are_below_ours_hold_for_the_job() {
    each_user(|env| {
        let limits = "ulimit -n 256; ulimit -l 32";
        let output = run_after(env, limits, &["exec", "--", "sh", "-c", "ulimit -n; ulimit -l"]);
        assert!(output.mentions("256") && output.mentions("32"), "{output}");
        drop(output.exits(0));
    });
}

#[test]
fn a_damaged_outcome_reads_lost_and_stands_in_nobodys_way() {
    each_user(|env| {
        create(env, &[]);
        drop(env.run(["run", "--job-id", "j", "ws", "sh", "-c", "echo hi"]).exits(0));
        let outcome = env.home().join("jobs/j/outcome");
        std::fs::write(&outcome, "{").expect("damaged");
        env.give(&outcome);
        for line in
            [&["inspect", "ws"][..], &["logs", "j"], &["run", "ws", "true"], &["destroy", "ws"]]
        {
            drop(env.run(line).exits(0));
        }
    });
}

#[test]
fn a_device_is_never_replaced_by_an_export() {
    each_user(|env| {
        let fifo = env.work().join("fifo");
        drop(env.host("mkfifo", [&fifo]).exits(0));
        let target = format!("o={}", fifo.display());
        let line = ["exec", "--declare", "o=x", "--export", &target, "--", "sh", "-c", "echo > o"];
        let error = env.json(1, &line);
        assert_eq!(error["reason"], "destination_is_special", "{error}");
    });
}

#[test]
fn a_home_without_its_host_facts_still_runs_jobs_in_old_workspaces() {
    each_user(|env| {
        create(env, &[]);
        drop(run_script(env, 0, "echo kept > f"));
        std::fs::remove_file(env.home().join("host.json")).expect("removed");
        let package = run_script(env, 0, "cat f; echo more >> f");
        assert_eq!(fact(&package, "output/bytes"), 5, "{package}");
    });
}

#[test]
fn a_caller_that_may_write_no_file_gets_an_error_and_no_signal() {
    each_user(|env| {
        drop(env.run(["exec", "--", "true"]).exits(0));
        let output = run_after(env, "ulimit -f 0", &["exec", "--", "true"]);
        assert_eq!(output.code(), Some(2), "{output}");
    });
}
