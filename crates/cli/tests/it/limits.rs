//! Each limit, hit for real, as docs/concepts.md says.
use crate::support::{SOON, check_wall_clock, each_user, exec_script, fact};
use bailiwick_testkit::{TestEnv, until};
use serde_json::Value;
use std::time::Instant;

/// Returns whether the job ran into `limit` without being killed for it.
fn has_event(package: &Value, limit: &str) -> bool {
    let events = fact(package, "quota_events").as_array().expect("a list");
    events.iter().any(|event| event["limit"] == limit && event["count"].as_u64() > Some(0))
}

#[track_caller]
fn check_mechanism(package: &Value, limit: &str, mechanisms: &[&str]) {
    let named = fact(package, &format!("policy/{limit}/mechanism")).as_str().expect("a word");
    assert!(mechanisms.contains(&named), "{limit} by {named}: {package}");
    let watched = named.starts_with("watch-");
    let label = if watched { "measured" } else { "enforced" };
    assert_eq!(fact(package, &format!("policy/{limit}/label")), label, "{package}");
}

#[test]
fn memory_beyond_the_limit_is_killed_and_named() {
    each_user(|env| {
        // Slower than the watch, also than one that has to wait for a processor: from the limit to the backstop is more than a
        // second. Shared memory and descriptors of memory count too.
        let hungry = [
            "kept.append(bytearray(b'x') * (1 << 20))",
            "m = mmap.mmap(-1, 1 << 20); m.write(b'x' * (1 << 20)); kept.append(m)",
            "os.write(fd, b'x' * (1 << 20))",
        ];
        for step in hungry {
            let script = format!(
                "import mmap, os, time\nkept = []\nfd = os.memfd_create('m')\n\
                 while True:\n  {step}\n  time.sleep(0.02)"
            );
            let flags =
                ["--memory-bytes", "64MiB", "--allow-watched", "--", "python3", "-c", &script];
            let package = env.json(8, &[&["exec"][..], &flags].concat());
            assert_eq!(fact(&package, "reason"), "memory", "{package}");
            check_mechanism(&package, "memory", &["cgroup-v1", "cgroup-v2", "watch-memory"]);
        }
    });
}

#[test]
fn memory_that_is_taken_faster_than_a_watch_looks_is_bounded_all_the_same() {
    each_user(|env| {
        let script = "kept = []\nwhile True: kept.append(bytearray(b'x') * (8 << 20))";
        let flags = ["--memory-bytes", "64MiB", "--allow-watched", "--", "python3", "-c", script];
        let output = env.run([&["exec", "--json"][..], &flags].concat());
        // Killed over the limit, or refused by the backstop at twice the limit, which is the job's own failure.
        assert!([Some(6), Some(8)].contains(&output.code()), "{output}");
        let peak = output.json()["resource_usage"]["max_memory_bytes"].as_u64().expect("a number");
        assert!(peak <= 2 * (64 << 20) + (16 << 20), "{peak} bytes: {output}");
    });
}

#[test]
fn processes_beyond_the_limit_are_refused_to_the_job() {
    each_user(|env| {
        let script = "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done";
        let package = exec_script(env, 6, &["--pids-limit", "16", "--allow-watched"], script);
        assert!(has_event(&package, "pids"), "{package}");
        check_mechanism(&package, "pids", &["cgroup-v1", "cgroup-v2", "rlimit-nproc"]);
    });
}

#[test]
fn a_fork_bomb_ends_with_its_wall_clock_or_by_itself() {
    each_user(|env| {
        let begun = Instant::now();
        let flags = ["--pids-limit", "32", "--wall-clock-seconds", "2"];
        let bomb = ["--", "sh", "-c", ":() { : | : & }; : ; sleep 60"];
        let output = env.run([&["exec", "--json"][..], &flags, &bomb].concat());
        assert!(begun.elapsed() < SOON, "{output}");
        match output.code() {
            Some(4) => check_wall_clock(&output.json(), 2.0),
            code => assert_eq!(code, Some(6), "{output}"),
        }
    });
}

#[test]
fn a_job_gets_no_more_than_its_cores() {
    each_user(|env| {
        let spin = "import os, time\nfor _ in range(3): os.fork()\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass";
        let flags = ["--cpu-limit", "1", "--allow-watched", "--", "python3", "-c", spin];
        let package = env.json(0, &[&["exec"][..], &flags].concat());
        let cpu = package["resource_usage"]["cpu_seconds"].as_f64().expect("a number");
        let wall = package["resource_usage"]["wall_time_seconds"].as_f64().expect("a number");
        assert!(cpu <= wall * 1.25, "one core: {cpu} s of {wall} s");
        check_mechanism(&package, "cpu", &["cgroup-v1", "cgroup-v2", "cpu-affinity"]);
    });
}

#[test]
fn a_disk_that_is_too_full_ends_the_job() {
    each_user(|env| {
        let script = "while :; do head -c 1048576 /dev/zero >> f || exit 9; sleep 0.01; done";
        let flags = ["--storage-bytes", "16MiB", "--wall-clock-seconds", "30"];
        let output =
            env.run([&["exec", "--json"][..], &flags, &["--", "sh", "-c", script]].concat());
        let package = output.json();
        match output.code() {
            Some(8) => assert_eq!(fact(&package, "reason"), "storage", "{package}"),
            Some(6) => assert!(has_event(&package, "storage"), "{package}"),
            _ => panic!("{output}"),
        }
        assert_eq!(fact(&package, "policy/storage/value"), 16 << 20);
    });
}

#[test]
fn a_disk_with_too_many_files_ends_the_job() {
    each_user(|env| {
        let script = "import os\ni = 0\nwhile True:\n  open(f'f{i}', 'w').close()\n  i += 1";
        let flags = ["--storage-bytes", "16MiB", "--wall-clock-seconds", "60"];
        let output =
            env.run([&["exec", "--json"][..], &flags, &["--", "python3", "-c", script]].concat());
        let package = output.json();
        match output.code() {
            Some(8) => assert_eq!(fact(&package, "reason"), "inodes", "{package}"),
            Some(6) => assert!(has_event(&package, "storage"), "{package}"),
            _ => panic!("{output}"),
        }
        assert_eq!(fact(&package, "policy/storage/inodes"), 10_000);
    });
}

#[test]
fn output_beyond_the_budget_is_counted_and_keeps_head_and_tail() {
    each_user(|env| {
        let script = "echo first; head -c 1000000 /dev/zero | tr '\\0' x; echo last";
        let package = exec_script(env, 0, &["--output-bytes", "64KiB"], script);
        assert_eq!(fact(&package, "output/bytes"), 1_000_011);
        assert_eq!(fact(&package, "output/kept"), 65_536);
        assert_eq!(package["evidence"][0]["truncated"], true, "{package}");
        check_mechanism(&package, "output_bytes", &["supervisor-capture"]);
        let job = package["provenance"]["job_id"].as_str().expect("an id");
        let raw = env.run(["logs", "--raw", job]).exits(0);
        assert!(raw.out().starts_with("first\nx") && raw.out().ends_with("xlast\n"), "{raw}");
        assert_eq!(raw.stdout.len(), 65_536);
    });
}

#[test]
fn the_wall_clock_ends_a_job_that_ignores_everything() {
    each_user(|env| {
        let begun = Instant::now();
        let script = "trap '' TERM INT HUP; while :; do sleep 1; done";
        let package = exec_script(env, 4, &["--wall-clock-seconds", "1"], script);
        assert!(begun.elapsed() < SOON, "its caller was told: {:?}", begun.elapsed());
        check_wall_clock(&package, 1.0);
        check_mechanism(&package, "wall_clock", &["supervisor-timer"]);
    });
}

/// Waits until as many jobs of `ws` are on record.
#[track_caller]
fn wait_for_jobs(env: &TestEnv, count: u32) {
    until("all of them are on record", SOON, || {
        let seen = env.json(0, &["inspect", "ws"]);
        let summary = seen["outcome_summary"].as_str().expect("text");
        summary.contains(&format!("{count} job(s)")).then_some(())
    });
}

#[test]
fn as_many_jobs_as_the_concurrency_run_at_once_and_the_next_one_waits() {
    each_user(|env| {
        crate::support::create(env, &["--concurrency", "3"]);
        // Each job of the first three ends only once all three have begun; the fourth finds all of them over.
        let meet = "touch begun.$0; until [ $(ls begun.* | wc -l) -ge 3 ]; do sleep 0.05; done; touch over.$0";
        let runs = ["1", "2", "3"].map(|name| env.start(["run", "ws", "sh", "-c", meet, name]));
        wait_for_jobs(env, 3);
        let next = env.json(0, &["run", "--wait", "60s", "ws", "sh", "-c", "ls over.* | wc -l"]);
        for run in runs {
            drop(run.wait().exits(0));
        }
        let over = next["evidence"][0]["excerpt"].as_str().expect("text").trim_end();
        assert!(["1", "2", "3"].contains(&over), "it waited for a slot: {next}");
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn more_jobs_than_the_concurrency_refuse_with_wait_0() {
    each_user(|env| {
        crate::support::create(env, &["--concurrency", "2"]);
        let name = crate::support::marker(env);
        let script = format!("sleep 60; : {name}");
        let runs = [0, 1].map(|_| env.start(["run", "ws", "sh", "-c", &script]));
        wait_for_jobs(env, 2);
        let refused = env.json(1, &["run", "--wait", "0", "ws", "true"]);
        assert_eq!(refused["retryable"], true, "{refused}");
        for mut run in runs {
            assert!(!run.has_ended(), "two jobs run at once");
            drop(run.kill());
        }
        drop(env.run(["destroy", "--force", "ws"]).exits(0));
    });
}
