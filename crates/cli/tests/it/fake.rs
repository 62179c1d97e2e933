//! The fake provider from a shell: many processes, one state, and nothing that is executed.
use crate::support::{SOON, fact, plain, scripted};
use bailiwick_testkit::{TestEnv, until};

fn status(env: &TestEnv) -> String {
    fact(&env.json(0, &["inspect", "ws"]), "state").as_str().expect("a word").to_owned()
}

#[test]
fn a_job_outlives_its_killed_caller_and_its_outcome_is_found() {
    let env = scripted(
        r#"[{"argv": ["slow"], "delay_ms": 3000, "stdout": "said\n", "end": {"exit_code": 4},
             "files": [{"path": "left", "content": "by it"}]}]"#,
    );
    drop(env.run(["create", "--workspace-id", "ws"]).exits(0));
    let mut caller = env.start(["run", "--job-id", "j", "ws", "slow"]);
    until("the job runs", SOON, || {
        caller.assert_alive();
        (status(&env) == "running").then_some(())
    });
    drop(caller.kill());
    assert_eq!(status(&env), "running", "nobody was needed for it");
    until("the job has ended", SOON, || (status(&env) == "ready").then_some(()));
    assert_eq!(env.run(["logs", "--raw", "j"]).exits(0).out(), "said\n");
    let package = env.json(0, &["inspect", "ws"]);
    let told = (fact(&package, "job_status"), fact(&package, "exit_status"));
    assert_eq!(told, (&"failure".into(), &4.into()), "{package}");
}

#[test]
fn a_second_run_waits_for_a_job_whose_caller_was_killed() {
    let env = scripted(r#"[{"argv": ["slow"], "delay_ms": 2000}]"#);
    drop(env.run(["create", "--workspace-id", "ws"]).exits(0));
    let caller = env.start(["run", "ws", "slow"]);
    until("the job runs", SOON, || (status(&env) == "running").then_some(()));
    drop(caller.kill());
    let refused = env.run(["run", "--wait", "0", "ws", "true"]);
    assert_ne!(refused.code(), Some(0), "{refused}");
    drop(env.run(["run", "ws", "true"]).exits(0));
}

#[test]
fn every_end_of_a_script_is_an_exit_code() {
    let env = scripted(
        r#"[{"argv": ["fails"], "end": {"exit_code": 3}},
            {"argv": ["dies"], "end": {"signal": 11}},
            {"argv": ["absent"], "end": {"refused": 127}},
            {"argv": ["hungry"], "memory_bytes": 1000000000},
            {"argv": ["fills"], "files": [{"path": "f", "content": "x", "repeat": 200000000}]},
            {"argv": ["breaks"], "end": {"breaks": "the machine is on fire"}},
            {"argv": ["hangs"], "delay_ms": 60000, "ignores_sigterm": true}]"#,
    );
    let limits =
        ["--wall-clock-seconds", "0.3", "--storage-bytes", "100MB", "--workspace-id", "ws"];
    drop(env.run([&["create"], &limits[..]].concat()).exits(0));
    for (command, code) in [
        ("fine", 0),
        ("fails", 6),
        ("dies", 6),
        ("absent", 6),
        ("hungry", 8),
        ("fills", 8),
        ("breaks", 7),
        ("hangs", 4),
    ] {
        let output = env.run(["run", "ws", command]);
        assert_eq!(output.code(), Some(code), "{command}: {output}");
    }
}

#[test]
fn a_flag_chooses_the_provider_and_a_workspace_keeps_it() {
    let env = plain();
    drop(env.run(["create", "--provider", "fake", "--workspace-id", "ws"]).exits(0));
    drop(env.run(["run", "--provider", "fake", "ws", "anything", "at", "all"]).exits(0));
    drop(env.run(["exec", "--provider=fake", "--", "anything"]).exits(0));
    let refused = env.run(["run", "--provider", "native", "--json", "ws", "true"]);
    assert_eq!(refused.error()["reason"], "other_provider", "{refused}");
    // Who names none gets the one that holds it, by the workspace as by its job.
    drop(env.run(["run", "--job-id", "job-f", "ws", "anything"]).exits(0));
    for handle in ["ws", "job-f"] {
        let seen = env.json(0, &["inspect", handle]);
        assert_eq!(seen["facts"]["provider"], "fake", "{handle}");
        drop(env.run(["logs", handle]).exits(0));
    }
    let unknown = env.run(["list", "--provider", "docker"]).exits(1);
    assert!(unknown.mentions("`native`") && unknown.mentions("`fake`"), "{unknown}");
    let profile = env.json(0, &["inspect", "--provider", "fake", "ws"]);
    assert_eq!(profile["provenance"]["profile"], "python3.12");
    drop(env.run(["destroy", "ws"]).exits(0));
}

#[test]
fn a_malformed_script_refuses_before_anything_is_made() {
    let env = scripted(r#"[{"argv": ["x"], "exit": 1}]"#);
    let refused = env.run(["create", "--workspace-id", "ws", "--json"]).exits(2);
    assert_eq!(refused.error()["reason"], "bad_script");
    assert!(refused.mentions("unknown field `exit`"), "{refused}");
    assert!(refused.mentions("docs/fake.md"), "{refused}");
    assert!(env.run(["inspect", "ws"]).exits(1).mentions("there is no workspace"));
    let doctor = env.run(["doctor"]).exits(1);
    assert!(doctor.mentions("unknown field `exit`"), "{doctor}");
}

#[test]
fn a_script_that_is_no_regular_file_is_refused_and_not_waited_for() {
    let mut env = scripted("[]");
    let fifo = env.work().join("fifo");
    drop(env.host("mkfifo", [&fifo]).exits(0));
    env.set("BAILIWICK_FAKE_SCRIPT", fifo);
    let refused = env.run(["create", "--workspace-id", "ws", "--json"]).exits(2);
    assert_eq!(refused.error()["reason"], "bad_script");
    assert!(refused.mentions("it is not a regular file"), "{refused}");
}

#[test]
fn doctor_and_list_need_no_supervisor() {
    let env = scripted("[]");
    drop(env.run(["create", "--workspace-id", "ws"]).exits(0));
    let doctor = env.run(["doctor"]).exits(0);
    assert!(doctor.mentions("fake can run jobs here"), "{doctor}");
    assert!(!doctor.mentions("supervisor"), "{doctor}");
    let listed = env.json(0, &["list"]);
    assert_eq!(listed["workspaces"][0]["provider"], "fake", "{listed}");
}
