//! `crash`: kills a verb at every point, and looks whether the next one finds the truth.
//!
//! It builds the programs with the feature `faults` into a folder of their own, so that nothing with fault points is ever
//! taken for what is shipped, and plays the matrix that lies in `crates/testkit/examples/crash`.

use std::path::Path;

use crate::failure::Failure;
use crate::host;
use crate::options::Options;

/// The features that compile the fault points.
const FEATURES: &str = "bailiwick-cli/faults,bailiwick-supervisor/faults";

/// Where homes are made when there is such a place: nothing here is about power cuts, and a sync to memory costs nothing.
const MEMORY: &str = "/dev/shm";

/// Builds, then plays.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(words);
    let mut passed_on = Vec::new();
    for flag in ["--only", "--user", "--jobs"] {
        if let Some(value) = options.value(flag)? {
            passed_on.extend([flag.to_owned(), value]);
        }
    }
    for flag in ["--list", "--verbose"] {
        if options.switch(flag) {
            passed_on.push(flag.to_owned());
        }
    }
    options.finish()?;
    let target = host::target_directory()?.join("faults");
    build(&target)?;
    play(&target.join("debug/bailiwick"), &passed_on)
}

fn build(target: &Path) -> Result<(), Failure> {
    let mut cargo = host::command("cargo");
    cargo
        .current_dir(host::root())
        .args(["build", "--package", "bailiwick-cli", "--package", "bailiwick-supervisor"])
        .args(["--features", FEATURES, "--target-dir"])
        .arg(target);
    host::run(&mut cargo)
}

fn play(program: &Path, flags: &[String]) -> Result<(), Failure> {
    let mut cargo = host::command("cargo");
    cargo
        .current_dir(host::root())
        .args(["run", "--quiet", "--package", "bailiwick-testkit", "--example", "crash", "--"])
        .arg("--program")
        .arg(program)
        .args(flags)
        // Another build's programs are not what is played here.
        .env_remove("BAILIWICK_TEST_BIN");
    if Path::new(MEMORY).is_dir() {
        cargo.env("TMPDIR", MEMORY);
    }
    let status = cargo.status().map_err(Failure::at("the crash matrix"))?;
    if status.success() { Ok(()) } else { Err(Failure::new("the matrix does not hold")) }
}
