//! What an owner says of a workspace: in results, in listings, in a tombstone, and never as anything of ours.
use crate::support::{create, each_user, fact, run_script};
use bailiwick_testkit::TestEnv;
use serde_json::{Value, json};

const ABOUT: [&str; 11] = [
    "--purpose",
    "nightly\n## Status",
    "--owner",
    "ci",
    "--parent",
    "task-7",
    "--label",
    "branch=main",
    "--label",
    "tier=2=b",
    "--retain",
];

fn ids(listing: &Value) -> Vec<&str> {
    let rows = listing["workspaces"].as_array().expect("rows");
    rows.iter().map(|row| row["workspace_id"].as_str().expect("an id")).collect()
}

#[test]
fn what_an_owner_says_is_in_every_result_and_outlives_the_workspace() {
    each_user(|env| {
        create(env, &ABOUT);
        let about = json!({
            "purpose": "nightly\n## Status", "owner": "ci", "parent": "task-7",
            "labels": {"branch": "main", "tier": "2=b"}, "retain": true,
        });
        assert_eq!(fact(&run_script(env, 0, "true"), "about"), &about);
        let seen = env.json(0, &["inspect", "ws"]);
        let found = seen["key_findings"].to_string();
        for line in ["purpose: nightly", "owner: ci", "parent: task-7", "branch=main", "retained"] {
            assert!(found.contains(line), "{found}");
        }
        let page = env.run(["inspect", "ws"]).exits(0);
        assert_eq!(page.out().lines().filter(|line| *line == "## Status").count(), 1, "{page}");
        drop(env.run(["destroy", "ws"]).exits(0));
        assert_eq!(fact(&env.json(0, &["inspect", "ws"]), "about"), &about);
        let exec = env.json(0, &["exec", "--owner", "me", "--", "true"]);
        assert_eq!(fact(&exec, "about"), &json!({"owner": "me"}));
        let plain = env.json(0, &["exec", "--", "true"]);
        assert!(plain["facts"].get("about").is_none(), "{plain}");
    });
}

#[test]
fn a_listing_finds_workspaces_by_owner_label_and_state() {
    each_user(|env| {
        create(env, &ABOUT);
        drop(env.run(["create", "--workspace-id", "other", "--owner", "amy"]).exits(0));
        drop(run_script(env, 0, "head -c 70000 /dev/zero > f"));
        let list = |flags: &[&str]| env.json(0, &[&["list"], flags].concat());
        assert_eq!(ids(&list(&[])), ["other", "ws"]);
        assert_eq!(ids(&list(&["--owner", "ci"])), ["ws"]);
        assert_eq!(ids(&list(&["--label", "branch"])), ["ws"]);
        assert_eq!(ids(&list(&["--label", "branch=main", "--label", "tier=2=b"])), ["ws"]);
        assert!(ids(&list(&["--label", "branch=dev"])).is_empty());
        assert_eq!(ids(&list(&["--owner", "amy", "--state", "ready"])), ["other"]);
        assert!(ids(&list(&["--owner", "amy", "--state", "expired"])).is_empty());
        let sizes = list(&["--size"]);
        assert_eq!(sizes["workspaces"][0]["storage_bytes"], 0, "no job ran there: {sizes}");
        assert!(sizes["workspaces"][1]["storage_bytes"].as_u64() >= Some(70_000), "{sizes}");
        let table = env.run(["list"]).exits(0);
        assert!(table.out().lines().next().expect("a head").ends_with("OWNER  PURPOSE"), "{table}");
        assert!(table.out().contains("nightly\\n## Status"), "{table}");
        assert_eq!(table.out().lines().count(), 3, "{table}");
    });
}

#[track_caller]
fn check_refused(env: &TestEnv, flags: &[&str], text: &str) {
    let error = env.json(1, &[&["create", "--workspace-id", "ws"], flags].concat());
    assert!(error.to_string().contains(text), "{error}");
    assert_eq!(env.json(1, &["inspect", "ws"])["reason"], "unknown_workspace");
}

#[test]
fn what_is_too_long_too_much_or_contradicts_itself_is_refused() {
    each_user(|env| {
        check_refused(env, &["--purpose", &"x".repeat(257)], "257 bytes, and 256 are the most");
        check_refused(env, &["--owner", ""], "--owner is empty");
        check_refused(env, &["--label", "Key=v"], "no key of a label");
        check_refused(env, &["--label", "key"], "a label is KEY=VALUE");
        check_refused(env, &["--ttl", "1h", "--retain"], "cannot be used with");
        check_refused(env, &["--ttl", "0"], "greater than zero");
        check_refused(env, &["--ttl", "-5"], "greater than zero");
        let labels: Vec<String> = (0..33).map(|n| format!("k{n}=v")).collect();
        let flags = labels.iter().flat_map(|label| ["--label", label.as_str()]);
        check_refused(env, &flags.collect::<Vec<_>>(), "33 labels were given, and 32 are the most");
        create(env, &["--purpose", &"x".repeat(256), "--max-result-bytes", "2048"]);
    });
}
