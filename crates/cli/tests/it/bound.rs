//! The bound of a result: nothing that a job or a caller does makes it longer.
use crate::support::{create, each_user, fact, sha256};
use bailiwick_testkit::{Output, TestEnv};
use std::fs;

/// The default bound.
const BOUND: usize = 8_192;

/// Runs `line` in both renderings, with a fresh job each, and checks what a bound may never cut.
#[track_caller]
fn check(env: &TestEnv, code: i32, line: &[&str]) -> Output {
    let markdown = env.run(line).exits(code);
    assert!(markdown.stdout.len() <= BOUND, "{} bytes: {markdown}", markdown.stdout.len());
    for heading in ["## Status", "## Suggested attention", "## Facts", "exit_status: 0"] {
        assert!(markdown.out().contains(heading), "{heading} is missing: {markdown}");
    }
    let mut line = line.to_vec();
    line.insert(1, "--json");
    let json = env.run(line).exits(code);
    assert!(json.stdout.len() <= BOUND, "{} bytes: {json}", json.stdout.len());
    let package = json.json();
    assert_eq!(package["status"], "success", "{package}");
    assert_eq!(fact(&package, "exit_status"), 0);
    json
}

/// Runs the command that a marker of `output` names.
#[track_caller]
fn follow(env: &TestEnv, output: &Output) -> Output {
    let package = output.json().to_string();
    let marker = package.split("...[truncated").nth(1).expect("something was cut and says so");
    let command = marker.split('`').nth(1).expect("a marker names a command");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "bailiwick", "{command}");
    env.run(&words[1..]).exits(0)
}

#[test]
fn a_long_argument_is_cut_and_can_be_got_back() {
    each_user(|env| {
        create(env, &[]);
        let long = format!("begin-{}-end", "x".repeat(100_000));
        let line = ["run", "--declare", "kept=an output", "ws", "true", &long];
        let output = env.run(line).exits(0);
        assert!(output.stdout.len() <= BOUND, "{} bytes", output.stdout.len());
        assert!(output.out().contains("kept"), "attention is never cut: {output}");
        let json = check(env, 0, &["run", "ws", "true", &long]);
        let job = json.json()["provenance"]["job_id"].as_str().expect("an id").to_owned();
        let full = env.json(0, &["inspect", "--full", &job]);
        let inputs = full["provenance"]["inputs"].as_array().expect("a list");
        assert!(inputs.iter().any(|input| input == &long), "the argument is there, whole");
        let followed = follow(env, &json);
        assert!(followed.mentions(&long), "the marker's command returns what was cut");
    });
}

#[test]
fn a_thousand_inputs_are_counted_and_can_be_got_back() {
    each_user(|env| {
        create(env, &[]);
        let folder = env.work().join("in");
        env.make_folder(&folder, 0o700);
        for index in 0..1_000 {
            drop(env.write(&format!("in/input-number-{index:04}.txt"), index.to_string()));
        }
        let put = env.run(["put", "--json", "ws", "in", "put"]).exits(0);
        assert!(put.stdout.len() <= BOUND, "{} bytes", put.stdout.len());
        let run = env.run(["run", "--json", "--input", "given=in", "ws", "true"]).exits(0);
        assert!(run.stdout.len() <= BOUND, "{} bytes", run.stdout.len());
        let job = run.json()["provenance"]["job_id"].as_str().expect("an id").to_owned();
        let full = env.json(0, &["inspect", "--full", &job]).to_string();
        for index in 0..1_000 {
            assert!(full.contains(&format!("given/input-number-{index:04}.txt")), "input {index}");
        }
    });
}

#[test]
fn ten_mebibytes_of_output_keep_head_and_tail_and_can_be_got_back() {
    each_user(|env| {
        create(env, &[]);
        let script = "echo first; head -c 10000000 /dev/zero | tr '\\0' x; echo; echo last";
        let json = check(env, 0, &["run", "ws", "sh", "-c", script]);
        let evidence = &json.json()["evidence"][0];
        assert_eq!(evidence["truncated"], true);
        let excerpt = evidence["excerpt"].as_str().expect("text");
        assert!(excerpt.starts_with("first\n") && excerpt.contains("last\n"), "{excerpt}");
        let job = json.json()["provenance"]["job_id"].as_str().expect("an id").to_owned();
        let raw = env.run(["logs", "--raw", &job]).exits(0);
        let whole = [&b"first\n"[..], &vec![b'x'; 10_000_000], b"\nlast\n"].concat();
        assert_eq!(raw.stdout.len(), whole.len());
        assert_eq!(sha256(&raw.stdout), sha256(&whole));
        assert_eq!(fact(&json.json(), "output/sha256"), &sha256(&whole));
        assert!(follow(env, &json).stdout.len() > BOUND);
    });
}

#[test]
fn the_smallest_bound_still_holds_status_and_facts() {
    each_user(|env| {
        create(env, &["--max-result-bytes", "2048"]);
        let long = "y".repeat(50_000);
        let output =
            env.run(["run", "--json", "--max-result-bytes", "2048", "ws", "echo", &long]).exits(0);
        assert!(output.stdout.len() <= 2_048, "{} bytes", output.stdout.len());
        assert_eq!(fact(&output.json(), "exit_status"), 0);
        drop(fs::read_dir(env.home()).expect("the home is there"));
    });
}

#[test]
fn one_section_of_a_full_result_comes_alone() {
    each_user(|env| {
        create(env, &[]);
        let json = env.json(0, &["inspect", "--full", "--section", "facts", "ws"]);
        assert_eq!(json.as_object().expect("an object").keys().collect::<Vec<_>>(), ["facts"]);
        let markdown = env.run(["inspect", "--full", "--section", "attention", "ws"]).exits(0);
        assert!(markdown.out().starts_with("## Suggested attention\n"), "{markdown}");
        assert_eq!(markdown.out().matches("\n## ").count(), 0, "{markdown}");
    });
}
