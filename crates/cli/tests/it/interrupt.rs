//! SIGINT and SIGTERM to the command while a job runs.
use crate::support::{
    create, each_user, fact, marker, wait_for_job, wait_for_nothing, wait_until_it_listens,
};
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
            wait_for_nothing(&name);
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
        wait_for_nothing(&name);
    });
}

#[test]
fn an_interrupt_while_files_are_read_ends_the_command_and_leaves_nothing() {
    each_user(|env| {
        create(env, &["--storage-bytes", "1TiB"]);
        let large = env.write("large", "");
        let file = std::fs::File::options().write(true).open(&large).expect("it was made");
        file.set_len(200 << 30).expect("a file without blocks");
        let put = ["put", "--json", "ws", "large", "x"];
        let run = ["run", "--json", "--input", "x=large", "ws", "true"];
        let exec =
            ["exec", "--json", "--storage-bytes", "1TiB", "--input", "x=large", "--", "true"];
        for line in [&put[..], &run, &exec] {
            let mut reading = env.start(line);
            wait_until_it_listens(&mut reading);
            std::thread::sleep(Duration::from_millis(500));
            reading.signal(Signal::INT);
            let output = reading.wait().exits(5);
            assert_eq!(output.error()["reason"], "cancelled", "{output}");
        }
        let seen = env.json(0, &["inspect", "ws"]);
        assert_eq!(seen["facts"]["state"], "ready", "{seen}");
        assert!(seen["attention"].as_array().expect("a list").is_empty(), "{seen}");
        let disks = std::fs::read_dir(env.home().join("disks")).expect("listed").count();
        assert_eq!(disks, 1, "no disk of the exec is left");
    });
}
