//! Every answer fits its committed schema.
use crate::support::{create, each_user};
use serde_json::Value;
use std::fs;
use std::path::Path;

#[track_caller]
fn check(schema: &str, document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas").join(schema);
    let text = fs::read_to_string(&path).expect("`cargo xtask schemas` writes it");
    let parsed: Value = serde_json::from_str(&text).expect("a schema is JSON");
    let validator = jsonschema::validator_for(&parsed).expect("a schema is valid");
    let complaints: Vec<String> =
        validator.iter_errors(document).map(|error| error.to_string()).collect();
    assert!(complaints.is_empty(), "{complaints:#?} in {document}");
}

#[test]
fn packages_and_errors_fit_their_schemas() {
    each_user(|env| {
        create(env, &[]);
        drop(env.write("a", "a"));
        let check_flags = ["--check", "made=test -e b2", "--measure", "size=b2"];
        let checked = [&["run"], &check_flags[..], &["ws", "sh", "-c", "echo 7 > b2"]].concat();
        let packages: [(i32, &[&str]); 14] = [
            (0, &["put", "ws", "a", "a"]),
            (0, &checked),
            (0, &["create", "--dry-run", "--plan", "--label", "tier=one", "--ttl", "1h"]),
            (0, &["run", "--detach", "--job-id", "later", "ws", "true"]),
            (0, &["wait", "later"]),
            (0, &["prune"]),
            (0, &["run", "--declare", "b=a copy", "ws", "cp", "a", "b"]),
            (6, &["run", "ws", "false"]),
            (6, &["run", "ws", "no-such-command"]),
            (0, &["inspect", "ws"]),
            (0, &["stop", "ws"]),
            (0, &["export", "ws", "b", "--to", "b"]),
            (0, &["destroy", "ws"]),
            (4, &["exec", "--wall-clock-seconds", "200ms", "--", "sleep", "60"]),
        ];
        for (code, line) in packages {
            check("package.json", &env.json(code, line));
        }
        let errors: [(i32, &[&str]); 3] = [
            (1, &["create", "--bogus"]),
            (1, &["run", "ws", "true"]),
            (3, &["create", "--network", "enabled"]),
        ];
        for (code, line) in errors {
            check("error.json", &env.json(code, line));
        }
        create(env, &["--workspace-id", "listed", "--owner", "me", "--purpose", "to be listed"]);
        drop(env.json(0, &["put", "listed", "a", "a"]));
        check("list.json", &env.json(0, &["list", "--all", "--size"]));
        check("files.json", &env.json(0, &["files", "listed"]));
    });
}
