//! The worked example, verb by verb, and the first screen of the README.
use crate::support::{KEYS, each_user, fact, keys_in_order, sha256};
use std::fs;

/// The script of the worked example.
const SCRIPT: &str = r#"
import json, math
value = round(math.pi, 10)
check = abs(value - 3.1415926536) < 1e-9
with open('report.json', 'w') as f:
    json.dump({'pi': value, 'check_passed': check}, f)
print(f'pi={value} check_passed={check}')
"#;

#[test]
fn the_worked_example_runs_as_four_shell_commands() {
    each_user(|env| {
        let program = env.program().to_str().expect("text").to_owned();
        let script = format!(
            "set -e\n\
             {program} create --workspace-id demo\n\
             {program} run --declare report.json=\"pi to 10 digits, with a sanity check\" \
               demo python3 -c \"{SCRIPT}\"\n\
             {program} export demo report.json --to ./report.json\n\
             cat ./report.json\n\
             {program} destroy demo\n"
        );
        let output = env.host("sh", ["-c", &script]).exits(0);
        let exported = "{\"pi\": 3.1415926536, \"check_passed\": true}";
        assert!(output.out().contains(exported), "{output}");
        assert!(output.out().contains("pi=3.1415926536 check_passed=True"), "{output}");
        assert_eq!(output.out().matches("\n## Status\n\nsuccess\n").count(), 4, "{output}");
        let report = fs::read(env.work().join("report.json")).expect("it was exported");
        assert_eq!(report, exported.as_bytes());
    });
}

#[test]
fn every_package_has_the_nine_keys_in_order_and_then_facts() {
    each_user(|env| {
        let lines: [&[&str]; 7] = [
            &["create", "--json", "--workspace-id", "demo"],
            &["put", "--json", "demo", "a.txt", "data/a.txt"],
            &["run", "--json", "--declare", "b.txt=a copy", "demo", "cp", "data/a.txt", "b.txt"],
            &["inspect", "--json", "demo"],
            &["stop", "--json", "demo"],
            &["export", "--json", "demo", "b.txt", "--to", "b.txt"],
            &["destroy", "--json", "demo"],
        ];
        drop(env.write("a.txt", "hello\n"));
        for line in lines {
            let output = env.run(line).exits(0);
            assert_eq!(keys_in_order(&output), KEYS, "{output}");
            assert_eq!(output.json()["status"], "success", "{output}");
        }
        let nine = env.run(["exec", "--json", "--package", "nine", "--", "true"]).exits(0);
        assert_eq!(keys_in_order(&nine), KEYS[..9], "{nine}");
    });
}

#[test]
fn an_exec_exports_what_its_package_says_and_leaves_no_workspace() {
    each_user(|env| {
        let code = "import json, math; json.dump({\"pi\": round(math.pi, 10)}, open(\"pi.json\", \"w\")); print(\"done\")";
        let flags = ["--declare", "pi.json=pi to ten digits", "--export", "pi.json=./pi.json"];
        let line = [&["exec"][..], &flags, &["--", "python3", "-c", code]].concat();
        let package = env.json(0, &line);
        let artifact = &package["artifacts"][0];
        let exported = fs::read(env.work().join("pi.json")).expect("it was exported");
        assert_eq!(artifact["digest"], sha256(&exported), "{package}");
        assert_eq!(artifact["size_bytes"], exported.len(), "{package}");
        assert_eq!(artifact["reference"], "./pi.json", "{package}");
        assert_eq!(fact(&package, "exit_status"), 0);
        assert_eq!(fact(&package, "state"), "destroyed");
        assert_eq!(package["evidence"][0]["excerpt"], "done\n", "{package}");
        assert_eq!(fact(&package, "output/sha256"), &sha256(b"done\n"));
    });
}

#[test]
fn a_destroy_refuses_to_lose_a_declared_artifact_unless_forced() {
    each_user(|env| {
        drop(env.json(0, &["create", "--workspace-id", "ws"]));
        drop(env.json(0, &["run", "--declare", "a=something", "ws", "touch", "a"]));
        let refusal = env.json(1, &["destroy", "ws"]);
        assert!(refusal["message"].as_str().expect("text").contains("never exported"), "{refusal}");
        let package = env.json(0, &["destroy", "--force", "ws"]);
        assert_eq!(fact(&package, "state"), "destroyed");
    });
}

#[test]
fn a_list_shows_the_workspaces_of_a_state() {
    each_user(|env| {
        for id in ["one", "two"] {
            drop(env.json(0, &["create", "--workspace-id", id]));
        }
        drop(env.json(0, &["destroy", "one"]));
        let listing = env.json(0, &["list", "--state", "ready"]);
        assert_eq!(listing["total"], 1, "{listing}");
        assert_eq!(listing["workspaces"][0]["workspace_id"], "two", "{listing}");
        let table = env.run(["list"]).exits(0);
        assert!(table.out().starts_with("WORKSPACE"), "{table}");
        assert!(table.out().ends_with("...and 1 destroyed: `bailiwick list --all`\n"), "{table}");
        assert_eq!(env.json(0, &["list"])["total"], 1);
        assert_eq!(env.json(0, &["list", "--all"])["total"], 2);
        let section = env.json(0, &["inspect", "--section", "status", "two"]);
        assert_eq!(section.as_object().map(serde_json::Map::len), Some(1), "{section}");
    });
}

#[test]
fn doctor_is_healthy_where_jobs_run() {
    each_user(|env| {
        let health = env.json(0, &["doctor"]);
        assert_eq!(health["healthy"], true, "{health}");
        let checks = health["checks"].as_array().expect("a list");
        for id in ["home", "store", "provider", "supervisor", "limit.memory", "limit.wall-clock"] {
            assert!(
                checks.iter().any(|check| check["id"] == id && check["passed"] == true),
                "{id}: {health}"
            );
        }
    });
}
