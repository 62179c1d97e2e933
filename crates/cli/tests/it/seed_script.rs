//! A script that was written for the first document's command line runs with only the command's name replaced.
//!
//! It runs as root where the tests do, with the default profile, on every provider; on `fake` a script says what its jobs do.
use crate::support::plain;
use bailiwick_testkit::{TestEnv, User};
use std::fs;
use std::path::Path;

const SCRIPT: &str = include_str!("scripts/seed.sh");

/// What the jobs of the script do where nothing is executed.
const FAKE: &str = include_str!("scripts/seed-fake.json");

/// Runs the script with the command's name replaced, and nothing else.
fn run_renamed(env: &TestEnv) {
    let name = env.program().file_name().expect("a name").to_str().expect("text");
    let script = env.write("seed.sh", SCRIPT.replace("headspace", name));
    let folder = env.program().parent().expect("a folder").to_str().expect("text").to_owned();
    let line = format!("PATH={folder}:$PATH exec sh {}", script.display());
    let output = env.host("sh", ["-c", &line]).exits(0);
    assert!(output.out().ends_with("every step was as written\n"), "{output}");
}

#[test]
fn a_script_of_the_seed_runs_on_native() {
    let env = TestEnv::with_sandbox(User::all()[0], env!("CARGO_BIN_EXE_bailiwick"));
    run_renamed(&env);
}

#[test]
fn a_script_of_the_seed_runs_on_fake() {
    let mut env = plain();
    let script = env.write("fake.json", FAKE);
    env.set("BAILIWICK_PROVIDER", "fake");
    env.set("BAILIWICK_FAKE_SCRIPT", script.as_os_str());
    run_renamed(&env);
    assert!(fs::read_dir(env.home().join("fake")).is_ok_and(|mut left| left.next().is_some()));
    assert!(!Path::new(&env.home().join("host.json")).exists(), "nothing of the host was probed");
}
