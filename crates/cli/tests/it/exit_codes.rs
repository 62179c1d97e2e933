//! One command for each exit code, 0 to 8, and the table of `docs/exit-codes.md`.
use crate::support::{
    create, each_user, exec_script, fact, marker, signal, supervisor_of, wait_for_job,
};
use bailiwick_contract::error::ExitCode;
use bailiwick_testkit::TestEnv;
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;

/// A row of the table: a code, its category, and a command that ends with it.
struct Row {
    code: i32,
    category: String,
    command: String,
}

fn table() -> Vec<Row> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/exit-codes.md");
    let text = std::fs::read_to_string(path).expect("the table is there");
    let cells = text.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter_map(|cells| match cells[..] {
        ["", code, category, _, command, ""] => Some(Row {
            code: code.parse().ok()?,
            category: category.trim_matches('`').to_owned(),
            command: command.trim_matches('`').to_owned(),
        }),
        _ => None,
    });
    rows.collect()
}

#[test]
fn the_table_in_the_docs_has_every_code_with_its_category() {
    let told: Vec<(i32, String)> =
        table().into_iter().map(|row| (row.code, row.category)).collect();
    let known = ExitCode::ALL.map(|code| (i32::from(code.code()), code.category().to_owned()));
    assert_eq!(told, known);
}

/// Runs a command of the table in a shell, as a reader would.
fn shell(env: &mut TestEnv, command: &str) -> bailiwick_testkit::Output {
    let folder = env.program().parent().expect("it lies somewhere");
    let mut path = OsString::from(folder);
    path.push(":/usr/local/bin:/usr/bin:/bin");
    env.set("PATH", path);
    env.host("sh", ["-c", command])
}

#[test]
fn every_command_of_the_table_ends_with_its_code() {
    each_user(|env| {
        create(env, &[]);
        // 5 and 7 need a job in flight; their own tests bring one about.
        for row in table().into_iter().filter(|row| ![5, 7].contains(&row.code)) {
            drop(shell(env, &row.command).exits(row.code));
        }
    });
}

#[test]
fn exit_code_0_is_a_success() {
    each_user(|env| {
        let package = env.json(0, &["exec", "--", "true"]);
        assert_eq!(package["status"], "success");
        assert_eq!(fact(&package, "exit_status"), 0);
        assert_eq!(fact(&package, "signal"), &Value::Null);
        assert_eq!(fact(&package, "job_status"), "success");
        let policy = fact(&package, "policy").as_object().expect("an object");
        assert_eq!(policy.len(), 9, "every limit has its facts: {package}");
        for (limit, facts) in policy {
            let label = facts["label"].as_str().expect("a label");
            assert!(["enforced", "measured"].contains(&label), "{limit}: {facts}");
            assert!(facts["mechanism"].is_string(), "{limit}: {facts}");
        }
    });
}

#[test]
fn exit_code_1_is_the_callers_mistake() {
    each_user(|env| {
        let error = env.json(1, &["run", "nowhere", "true"]);
        assert_eq!(
            (&error["code"], &error["category"]),
            (&1.into(), &"user_error".into()),
            "{error}"
        );
        assert_eq!(error["reason"], "unknown_workspace", "{error}");
    });
}

#[test]
fn exit_code_2_is_the_machines_owners_to_mend() {
    each_user(|env| {
        let file = env.write("file", "");
        env.set("BAILIWICK_HOME", file);
        let error = env.json(2, &["create"]);
        assert_eq!(error["category"], "environment_error", "{error}");
    });
}

#[test]
fn exit_code_3_is_a_policy_that_cannot_be_held() {
    each_user(|env| {
        let error = env.json(3, &["create", "--network", "enabled"]);
        assert_eq!(error["category"], "policy_denied", "{error}");
        assert_eq!(env.json(0, &["list"])["total"], 0, "nothing was made");
    });
}

#[test]
fn exit_code_4_is_a_job_over_its_wall_clock() {
    each_user(|env| {
        let package = env.json(4, &["exec", "--wall-clock-seconds", "500ms", "--", "sleep", "60"]);
        assert_eq!(package["status"], "timeout");
        assert_eq!(fact(&package, "exit_status"), &Value::Null);
        assert_eq!(fact(&package, "reason"), "wall_clock");
    });
}

#[test]
fn exit_code_5_is_a_job_that_was_stopped_for_stop_and_run_alike() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let mut run =
            env.start(["run", "--json", "ws", "sh", "-c", &format!("sleep 60; : {name}")]);
        let _pid = wait_for_job(&mut run, &name);
        let preview = env.json(0, &["stop", "ws"]);
        assert_eq!(preview["status"], "success", "{preview}");
        let stopped = env.json(5, &["stop", "--apply", "ws"]);
        assert_eq!(stopped["status"], "cancelled", "{stopped}");
        let package = run.wait().exits(5).json();
        assert_eq!(package["status"], "cancelled", "{package}");
        assert_eq!(fact(&package, "exit_status"), &Value::Null);
        // `stop` returns once the outcome is settled.
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn exit_code_6_is_a_job_that_failed() {
    each_user(|env| {
        let package = exec_script(env, 6, &[], "exit 7");
        assert_eq!(package["status"], "failure");
        assert_eq!(fact(&package, "exit_status"), 7);
        let killed = exec_script(env, 6, &[], "kill -SEGV $$");
        assert_eq!(fact(&killed, "exit_status"), 139);
        assert_eq!(fact(&killed, "signal"), 11);
    });
}

#[test]
fn exit_code_7_is_a_supervisor_that_was_lost() {
    each_user(|env| {
        create(env, &[]);
        let name = marker(env);
        let mut run =
            env.start(["run", "--json", "ws", "sh", "-c", &format!("sleep 60; : {name}")]);
        let _pid = wait_for_job(&mut run, &name);
        signal(supervisor_of(run.pid()), Signal::KILL);
        let package = run.wait().exits(7).json();
        assert_eq!(package["status"], "infrastructure_failure", "{package}");
        assert_eq!(fact(&package, "reason"), "supervisor_lost");
    });
}

#[test]
fn exit_code_8_is_a_job_over_its_memory() {
    each_user(|env| {
        let hungry = "import time\nkept = []\nwhile True:\n  kept.append(b'x' * (1 << 20))\n  time.sleep(0.005)";
        let flags = ["--memory-bytes", "64MiB", "--allow-watched", "--", "python3", "-c", hungry];
        let package = env.json(8, &[&["exec"][..], &flags].concat());
        assert_eq!(package["status"], "resource_exhausted");
        assert_eq!(fact(&package, "reason"), "memory");
        assert_eq!(fact(&package, "policy/memory/value"), 64 << 20);
    });
}
