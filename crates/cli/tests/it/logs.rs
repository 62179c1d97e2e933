//! Captured output as text and as JSON: nothing in it can pass for ours, and what is missing is counted.
use crate::support::{create, each_user, marker, run_script, signal, supervisor_of, wait_for_job};
use bailiwick_testkit::until;
use rustix::process::Signal;
use std::time::Duration;

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
            until("the supervisor is gone", Duration::from_secs(10), || {
                crate::support::read_proc(supervisor, "cmdline").is_empty().then_some(())
            });
            let output = env.run([line, &[name.as_str()]].concat()).exits(0);
            let told = if line == ["inspect"] { output.out() } else { output.err() };
            assert!(told.contains("lost its supervisor"), "{output}");
        });
    }
}
