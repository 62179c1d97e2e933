//! SIGINT and SIGTERM to the command while a job runs.
use crate::support::{create, each_user, fact, marker, wait_for_job, wait_for_nothing};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn the_first_interrupt_stops_the_job_and_the_package_says_so() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        for interrupt in [Signal::INT, Signal::TERM] {
            let mut run =
                env.start(["run", "--json", "ws", "sh", "-c", &format!("sleep 60; : {name}")]);
            let _pid = wait_for_job(&mut run, &name);
            run.signal(interrupt);
            let package = run.wait().exits(5).json();
            assert_eq!(package["status"], "cancelled", "{package}");
            assert_eq!(fact(&package, "job_status"), "cancelled");
            wait_for_nothing(&name, Duration::from_secs(2));
        }
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn a_second_interrupt_ends_the_command_and_leaves_the_job_to_its_supervisor() {
    each_user(|env| {
        create(env, &["--wall-clock-seconds", "3"]);
        let name = marker(env);
        let script = format!("trap '' TERM; sleep 60; : {name}");
        let mut run = env.start(["run", "--json", "ws", "sh", "-c", &script]);
        let _pid = wait_for_job(&mut run, &name);
        run.signal(Signal::INT);
        run.signal(Signal::INT);
        let output = run.wait();
        let ended = output.signal() == Some(Signal::INT.as_raw()) || output.code() == Some(5);
        assert!(ended, "{output}");
        wait_for_nothing(&name, Duration::from_secs(6));
    });
}
