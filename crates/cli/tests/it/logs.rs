//! Captured output as text and as JSON: nothing in it can pass for ours, and what is missing is counted.
use crate::support::{
    SOON, create, each_user, marker, run_script, signal, supervisor_of, wait_for_job,
    wait_until_it_listens,
};
use bailiwick_testkit::{Output, TestEnv, until};
use rustix::process::Signal;

#[test]
fn nothing_that_a_job_prints_acts_or_reads_as_a_heading_of_ours() {
    each_user(|env| {
        create(env, &[]);
        let odd = "\\n## job job-0 \\033[2J\\n```\\n# captured output for x\\r## job y\\n";
        let ran = run_script(env, 0, &format!("printf '{odd}'"));
        let job = ran["provenance"]["job_id"].as_str().expect("an id");
        for line in [&["logs", "ws"][..], &["inspect", "--logs", job]] {
            let output = env.run(line).exits(0);
            let ours = |text: &&str| !text.is_empty() && !text.starts_with("  ");
            let margin: Vec<&str> = output.out().lines().filter(ours).collect();
            assert_eq!(margin.len(), 2, "{output}");
            assert!(margin[1].starts_with(&format!("## job {job} ")), "{output}");
            assert!(!output.out().contains('\x1b') && !output.out().contains('\r'), "{output}");
        }
        let raw = env.run(["logs", "--raw", job]).exits(0);
        assert_eq!(raw.stdout, b"\n## job job-0 \x1b[2J\n```\n# captured output for x\r## job y\n");
    });
}

#[test]
fn a_gap_is_shown_where_it_is_and_counted() {
    each_user(|env| {
        create(env, &["--output-bytes", "10"]);
        drop(run_script(env, 0, "printf aaaaabbbbbbbbbbccccc"));
        let logs = env.json(0, &["logs", "ws"]);
        let job = &logs["jobs"][0];
        assert_eq!(job["output"], "aaaaaccccc", "{logs}");
        assert_eq!((&job["head_bytes"], &job["omitted_bytes"]), (&5.into(), &10.into()), "{logs}");
        let text = env.run(["logs", "ws"]).exits(0);
        let gap = "  aaaaa\n  ```\n...[10 bytes omitted]\n  ```\n  ccccc\n";
        assert!(text.out().contains(gap), "{text}");
        assert_eq!(env.run(["logs", "--raw", "ws"]).exits(0).out(), "aaaaaccccc");
    });
}

#[test]
fn whoever_reads_the_output_of_a_job_that_nobody_waited_for_says_what_was_settled() {
    for line in [&["logs"][..], &["logs", "--raw"], &["inspect", "--logs"], &["inspect"]] {
        each_user(|env| {
            create(env, &[]);
            let name = marker(env);
            let script = format!("sleep 60; : {name}");
            let mut run = env.start(["run", "--job-id", &name, "ws", "sh", "-c", &script]);
            let _pid = wait_for_job(&mut run, &name);
            let supervisor = supervisor_of(run.pid());
            drop(run.kill());
            signal(supervisor, Signal::KILL);
            until("the supervisor is gone", SOON, || {
                crate::support::read_proc(supervisor, "cmdline").is_empty().then_some(())
            });
            let output = env.run([line, &[name.as_str()]].concat()).exits(0);
            let told = if line == ["inspect"] { output.out() } else { output.err() };
            assert!(told.contains("lost its supervisor"), "{output}");
        });
    }
}

#[test]
fn a_part_of_the_output_is_exactly_that_part() {
    each_user(|env| {
        create(env, &["--output-bytes", "100"]);
        let script = "printf 0123456789; printf %0200d 0; printf abcdefghij";
        let ran = run_script(env, 0, script);
        let job = ran["provenance"]["job_id"].as_str().expect("an id");
        for (range, bytes) in
            [("2:5", "234"), (":3", "012"), ("215:", "fghij"), ("900:", ""), ("4:4", "")]
        {
            let raw = env.run(["logs", "--raw", "--range", range, job]).exits(0);
            assert_eq!(raw.out(), bytes, "{range}");
            let logs = env.json(0, &["logs", "--range", range, "ws"]);
            assert_eq!(logs["jobs"][0]["output"], bytes, "{range}: {logs}");
        }
        // Of 220 bytes the first and the last 50 are kept.
        let raw = env.run(["logs", "--raw", "--range", "48:172", job]).exits(0);
        assert_eq!(raw.out(), "0000");
        assert!(raw.err().contains("120 bytes of that range"), "{raw}");
        let logs = env.json(0, &["logs", "--range", "48:172", job]);
        assert_eq!(
            (&logs["jobs"][0]["head_bytes"], &logs["jobs"][0]["omitted_bytes"]),
            (&2.into(), &120.into()),
            "{logs}"
        );
        let text = env.run(["logs", "--range", "2:5", job]).exits(0);
        assert!(text.out().contains("220 bytes produced, bytes 2 to 5\n"), "{text}");
        drop(run_script(env, 0, "true"));
        assert_eq!(env.json(1, &["logs", "--range", "0:1", "ws"])["reason"], "which_job");
    });
}

#[test]
fn one_stream_and_the_lines_that_match_can_be_asked_for() {
    each_user(|env| {
        create(env, &[]);
        // Two pipes: what is to arrive in order is printed with a pause between.
        let script = "echo one; sleep 0.3; echo Two >&2; sleep 0.3; echo three; sleep 0.3; echo 'two\\033[2J' >&2; sleep 0.3; printf two";
        drop(run_script(env, 0, script));
        let lines = |flags: &[&str]| {
            let found = env.json(0, &[&["logs"], flags, &["ws"]].concat());
            let matches = found["jobs"][0]["matches"].as_array().expect("a list").clone();
            matches.iter().map(|one| one["line"].as_u64().expect("a number")).collect::<Vec<_>>()
        };
        assert_eq!(lines(&["--grep", "two"]), [4, 5]);
        assert_eq!(lines(&["--grep", "(?i)^two$"]), [2, 5]);
        assert_eq!(lines(&["--grep", "two", "--stderr"]), [2]);
        assert_eq!(lines(&["--grep", "-", "--stdout"]), [0_u64; 0]);
        let text = env.run(["logs", "--grep", "two", "ws"]).exits(0);
        assert!(text.out().contains("\n  4: two\\u{1b}[2J\n  5: two\n"), "{text}");
        assert_eq!(env.run(["logs", "--raw", "--stdout", "ws"]).exits(0).out(), "one\nthree\ntwo");
        let logs = env.json(0, &["logs", "--stderr", "ws"]);
        assert_eq!(
            (&logs["jobs"][0]["stream"], &logs["jobs"][0]["output_bytes"]),
            (&"stderr".into(), &12.into())
        );
        assert_eq!(env.json(1, &["logs", "--grep", "(", "ws"])["reason"], "bad_pattern");
    });
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let env = crate::support::plain();
    for line in [
        &["--raw", "--json"][..],
        &["--follow", "--json"],
        &["--follow", "--range", "0:1"],
        &["--follow", "--grep", "x"],
        &["--follow", "--stderr"],
        &["--range", "0:1", "--stdout"],
        &["--range", "0:1", "--grep", "x"],
        &["--range", "2:1"],
        &["--range", "1"],
        &["--grep", "x", "--raw"],
        &["--stdout", "--stderr"],
    ] {
        drop(env.run([&["logs"], line, &["ws"]].concat()).exits(1));
    }
}

/// Follows `ws` until its first line was shown, and interrupts that.
fn interrupted_follower(env: &TestEnv) -> Output {
    let program = env.program().to_str().expect("a plain path");
    for name in ["pid", "seen"] {
        drop(env.write(name, ""));
    }
    let line = "echo $$ > pid; exec \"$0\" logs --follow ws > seen";
    std::thread::scope(|scope| {
        let left = scope.spawn(|| env.host("sh", ["-c", line, program]));
        until("it was shown", SOON, || {
            (std::fs::read(env.work().join("seen")).ok()? == b"one\n").then_some(())
        });
        let pid = std::fs::read_to_string(env.work().join("pid")).expect("written");
        signal(pid.trim_end().parse().expect("a number"), Signal::INT);
        left.join().expect("no panic")
    })
}

#[test]
fn a_follower_gets_what_comes_until_the_end_and_can_be_interrupted() {
    each_user(|env| {
        create(env, &[]);
        let script = "echo one; while [ ! -e go ]; do sleep 0.1; done; echo two >&2";
        drop(env.json(0, &["run", "--detach", "ws", "sh", "-c", script]));
        drop(interrupted_follower(env).exits(5));
        let seen = env.json(0, &["inspect", "ws"]);
        assert_eq!(seen["facts"]["state"], "running", "an interrupt left it alone: {seen}");
        let mut following = env.start(["logs", "--follow", "--raw", "ws"]);
        wait_until_it_listens(&mut following);
        std::fs::write(env.home().join("disks/ws/tree/go"), "").expect("a file");
        assert_eq!(following.wait().exits(0).out(), "one\ntwo\n");
    });
}
