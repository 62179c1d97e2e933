//! SIGKILL of the caller, of the supervisor, and of both.
use crate::support::{
    SOON, check_no_cgroup, check_wall_clock, create, each_user, fact, marker, read_proc,
    run_script, signal, supervisor_of, wait_for_job, wait_for_nothing,
};
use bailiwick_testkit::{Running, TestEnv, files_holding, until};
use rustix::process::Signal;

/// Starts a job that says something and then sleeps, and returns once that was captured.
fn start(env: &TestEnv) -> Running {
    let name = marker(env);
    let script = format!("echo begun; sleep 60; : {name}");
    let mut run = env.start(["run", "--json", "--job-id", &name, "ws", "sh", "-c", &script]);
    let _pid = wait_for_job(&mut run, &name);
    let output = env.home().join("jobs").join(&name);
    until("its output is captured", SOON, || {
        (!files_holding(&output, b"begun").is_empty()).then_some(())
    });
    run
}

/// Checks that the outcome and the output of the job are there, and that the workspace can be used at once.
#[track_caller]
fn check_settled(env: &TestEnv, status: &str, reason: &str) {
    let name = marker(env);
    let package = env.json(0, &["inspect", &name]);
    assert_eq!(fact(&package, "job_status"), status, "{package}");
    assert_eq!(fact(&package, "reason"), reason, "{package}");
    let logs = env.run(["logs", "--raw", &name]).exits(0);
    assert_eq!(logs.out(), "begun\n", "{logs}");
    let next = run_script(env, 0, "echo usable");
    assert_eq!(next["evidence"][0]["excerpt"], "usable\n", "{next}");
    drop(env.json(0, &["destroy", "ws"]));
    wait_for_nothing(&name);
    check_no_cgroup(&name);
}

#[test]
fn a_job_whose_caller_was_killed_ends_by_its_wall_clock_and_keeps_its_outcome() {
    each_user(|env| {
        create(env, &["--wall-clock-seconds", "3"]);
        let run = start(env);
        drop(run.kill());
        wait_for_nothing(&marker(env));
        check_wall_clock(&env.json(0, &["inspect", &marker(env)]), 3.0);
        check_settled(env, "timeout", "wall_clock");
    });
}

#[test]
fn a_job_whose_caller_was_killed_can_be_stopped() {
    each_user(|env| {
        create(env, &[]);
        drop(start(env).kill());
        let stopped = env.json(5, &["stop", "--apply", "ws"]);
        assert_eq!(stopped["status"], "cancelled", "{stopped}");
        check_settled(env, "cancelled", "stopped");
    });
}

#[test]
fn a_supervisor_that_was_stopped_is_given_up_after_the_wall_clock() {
    each_user(|env| {
        create(env, &["--wall-clock-seconds", "1"]);
        let marker = marker(env);
        let mut caller =
            env.start(["run", "--json", "ws", "sh", "-c", &format!(": {marker}; sleep 60")]);
        wait_for_job(&mut caller, &marker);
        let supervisor = supervisor_of(caller.pid());
        signal(supervisor, Signal::STOP);
        let output = caller.wait();
        assert_eq!(output.code(), Some(7), "{output}");
        wait_for_nothing(&marker);
        drop(env.run(["run", "ws", "true"]).exits(0));
    });
}

#[test]
fn a_job_whose_supervisor_was_stopped_can_be_ended() {
    each_user(|env| {
        let _supervisor = start_silent(env);
        let stopped = env.json(0, &["stop", "--apply", "--grace", "0s", "ws"]);
        let summary = stopped["outcome_summary"].as_str().expect("a summary");
        assert!(summary.contains("how it ended is not known"), "{stopped}");
        wait_for_nothing(&marker(env));
        check_settled(env, "infrastructure_failure", "supervisor_lost");
    });
}

#[test]
fn a_workspace_whose_supervisor_was_stopped_can_be_destroyed() {
    each_user(|env| {
        let supervisor = start_silent(env);
        drop(env.json(0, &["destroy", "--force", "ws"]));
        assert!(read_proc(supervisor, "cmdline").is_empty(), "the supervisor is gone");
        wait_for_nothing(&marker(env));
        check_no_cgroup(&marker(env));
    });
}

/// Starts a job whose caller is gone and whose supervisor answers nobody; returns the supervisor.
fn start_silent(env: &TestEnv) -> u32 {
    create(env, &[]);
    let run = start(env);
    let supervisor = supervisor_of(run.pid());
    drop(run.kill());
    signal(supervisor, Signal::STOP);
    supervisor
}

#[test]
fn a_job_whose_supervisor_was_killed_dies_and_its_caller_says_so() {
    each_user(|env| {
        create(env, &[]);
        let run = start(env);
        signal(supervisor_of(run.pid()), Signal::KILL);
        let output = run.wait().exits(7);
        assert_eq!(fact(&output.json(), "reason"), "supervisor_lost", "{output}");
        wait_for_nothing(&marker(env));
        check_settled(env, "infrastructure_failure", "supervisor_lost");
    });
}

#[test]
fn a_job_whose_caller_and_supervisor_were_killed_is_settled_by_the_next_verb() {
    each_user(|env| {
        create(env, &[]);
        let run = start(env);
        let supervisor = supervisor_of(run.pid());
        drop(run.kill());
        signal(supervisor, Signal::KILL);
        wait_for_nothing(&marker(env));
        let next = run_script(env, 0, "true");
        let attention = next["attention"].to_string();
        assert!(attention.contains(&marker(env)), "the next verb says what it settled: {next}");
        check_settled(env, "infrastructure_failure", "supervisor_lost");
    });
}
