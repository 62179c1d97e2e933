//! `--stream`: what a job prints is on standard error while it runs, and the result on standard output as ever.
use crate::support::{SOON, create, each_user, marker, wait_for_nothing};
use bailiwick_testkit::until;
use std::fs;

#[test]
fn a_pipe_gets_the_bytes_themselves_and_the_result_stays_alone() {
    each_user(|env| {
        create(env, &[]);
        let script = "printf 'a\\033[2J\\377\\n'; sleep 0.3; echo err >&2; exit 3";
        let run = env.run(["run", "--json", "--stream", "ws", "sh", "-c", script]).exits(6);
        assert_eq!(run.stderr, b"a\x1b[2J\xff\nerr\n");
        assert_eq!(run.json()["status"], "failure");
        let exec = env.run(["exec", "--json", "--stream", "--", "sh", "-c", script]).exits(6);
        assert_eq!(exec.stderr, run.stderr);
        let quiet = env.run(["run", "--json", "ws", "sh", "-c", script]).exits(6);
        assert_eq!(quiet.stderr, b"");
        let refused = env.json(1, &["run", "--stream", "--detach", "ws", "true"]);
        assert_eq!(refused["reason"], "usage", "{refused}");
    });
}

#[test]
fn it_is_there_before_the_job_has_ended() {
    each_user(|env| {
        create(env, &[]);
        let program = env.program().to_str().expect("a plain path");
        drop(env.write("err", ""));
        let name = marker(env);
        let line =
            format!("exec \"$0\" run --stream ws sh -c 'echo begun; sleep 60; : {name}' 2> err");
        let running = std::thread::scope(|scope| {
            let run = scope.spawn(|| env.host("sh", ["-c", line.as_str(), program]));
            until("it was shown", SOON, || {
                (fs::read(env.work().join("err")).ok()? == b"begun\n").then_some(())
            });
            drop(env.json(5, &["stop", "--apply", "ws"]));
            run.join().expect("no panic")
        });
        drop(running.exits(5));
        wait_for_nothing(&name);
    });
}

#[test]
fn a_terminal_gets_what_cannot_act_on_it() {
    each_user(|env| {
        create(env, &[]);
        let program = env.program().to_str().expect("a plain path");
        // script(1) gives the command a terminal, and copies what is shown on it.
        let line = format!("'{program}' run --json --stream ws printf 'a\\033[2J\\n' > out.json");
        let shown = env.host("script", ["-qec", line.as_str(), "/dev/null"]).exits(0);
        assert!(shown.out().contains("a\\x1b[2J"), "{shown}");
        assert!(!shown.out().contains("\x1b[2J"), "{shown}");
    });
}

#[test]
fn a_reader_that_goes_away_does_not_end_the_job() {
    each_user(|env| {
        create(env, &[]);
        let program = env.program().to_str().expect("a plain path");
        let line = "{ \"$0\" run --json --stream ws sh -c 'seq 100000; sleep 0.3; seq 100000' 2>&1 >&3 | head -c 10; } 3> out.json";
        drop(env.host("sh", ["-c", line, program]).exits(0));
        let text = fs::read_to_string(env.work().join("out.json")).expect("the result");
        assert!(
            text.contains("\"status\": \"success\"") && text.contains("\"lines\": 200000"),
            "{text}"
        );
    });
}
