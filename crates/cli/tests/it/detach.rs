//! `run --detach`: the job goes on without its caller, under the same limits, and is settled by whoever comes next.
use crate::support::{
    SOON, create, each_user, fact, marker, processes, read_proc, run_script, signal,
    wait_for_nothing, wait_for_payload,
};
use bailiwick_testkit::{TestEnv, until};
use rustix::process::Signal;
use serde_json::Value;

/// Lets a script go under an id that is the test's marker.
#[track_caller]
fn detach(env: &TestEnv, flags: &[&str], script: &str) -> Value {
    let name = marker(env);
    let script = format!("{script}; : {name}");
    let line = [&["run", "--detach", "--job-id", &name], flags, &["ws", "sh", "-c", &script]];
    env.json(0, &line.concat())
}

fn supervisor_of_detached(payload: u32) -> u32 {
    // The payload's parent is init, and init's is the supervisor.
    let parent = |pid: u32| {
        let status = String::from_utf8(read_proc(pid, "status")).expect("text");
        let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).expect("a parent");
        line.trim().parse().expect("a number")
    };
    parent(parent(payload))
}

#[test]
fn a_detached_job_runs_on_and_says_what_can_be_done_with_it() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let package = detach(env, &[], "echo begun; sleep 60");
        assert_eq!(package["status"], "success", "{package}");
        assert_eq!(fact(&package, "state"), "running");
        assert_eq!(fact(&package, "job_status"), "running");
        let attention = package["attention"].to_string();
        for next in [
            format!("bailiwick wait {name}"),
            format!("bailiwick logs --follow {name}"),
            "bailiwick stop --apply ws".into(),
        ] {
            assert!(attention.contains(&next), "{package}");
        }
        let _pid = wait_for_payload(&name);
        let seen = until("its output is seen", SOON, || {
            let seen = env.json(0, &["inspect", "ws"]);
            (!seen["evidence"].as_array().expect("a list").is_empty()).then_some(seen)
        });
        assert_eq!(seen["evidence"][0]["excerpt"], "begun\n", "{seen}");
        assert_eq!(fact(&seen, "state"), "running");
        assert_eq!(env.json(1, &["run", "--wait", "0", "ws", "true"])["reason"], "workspace_busy");
        let stopped = env.json(5, &["stop", "--apply", "--grace", "0", "ws"]);
        assert_eq!(stopped["status"], "cancelled", "{stopped}");
        wait_for_nothing(&name);
        assert_eq!(env.json(5, &["wait", &name])["status"], "cancelled");
        assert_eq!(run_script(env, 0, "echo usable")["evidence"][0]["excerpt"], "usable\n");
    });
}

#[test]
fn a_detached_job_gets_its_inputs_its_variables_and_its_input_and_leaves_its_artifact() {
    each_user(|env| {
        env.set("TOKEN", "s3cret");
        drop(env.write("in.txt", "given "));
        drop(env.write("stdin.txt", "piped "));
        create(env, &[]);
        let flags = [
            "--declare",
            "out=all",
            "--input",
            "a=in.txt",
            "--env",
            "TOKEN",
            "--stdin",
            "stdin.txt",
        ];
        let script = "cat a - > out; printf %s \"$TOKEN\" | wc -c >> out";
        let package = detach(env, &flags, script);
        assert!(!package.to_string().contains("s3cret"), "{package}");
        let waited = env.json(0, &["wait", "ws"]);
        assert_eq!(waited["status"], "success", "{waited}");
        assert!(waited["attention"].to_string().contains("'out' is declared but not exported"));
        drop(env.run(["export", "ws", "out", "--to", "out"]).exits(0));
        let out = std::fs::read_to_string(env.work().join("out")).expect("exported");
        assert_eq!(out.trim_end(), "given piped 6");
    });
}

#[test]
fn a_detached_job_that_ended_is_settled_by_the_next_verb() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        drop(detach(env, &[], "exit 3"));
        let next = env.json(0, &["run", "ws", "echo", "next"]);
        let attention = next["attention"].to_string();
        assert!(attention.contains(&format!("job {name} had ended with failure")), "{next}");
        let package = env.json(6, &["wait", &name]);
        assert_eq!(fact(&package, "exit_status"), 3, "{package}");
    });
}

#[test]
fn a_detached_job_is_held_to_its_timeout() {
    each_user(|env| {
        create(env, &[]);
        drop(detach(env, &["--timeout", "500ms"], "sleep 60"));
        let package = env.json(4, &["wait", "ws"]);
        assert_eq!(fact(&package, "reason"), "wall_clock", "{package}");
        assert_eq!(fact(&package, "policy/wall_clock/value"), 0.5, "{package}");
        wait_for_nothing(&marker(env));
    });
}

#[test]
fn a_detached_job_whose_supervisor_was_killed_reads_lost_for_who_waits() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        drop(detach(env, &[], "sleep 60"));
        let payload = wait_for_payload(&name);
        let supervisor = supervisor_of_detached(payload);
        assert!(processes().contains(&supervisor));
        let waiting = env.start(["wait", "--json", "ws"]);
        signal(supervisor, Signal::KILL);
        let package = waiting.wait().exits(7).json();
        assert_eq!(fact(&package, "reason"), "supervisor_lost", "{package}");
        wait_for_nothing(&name);
    });
}
