//! The recipes of the workspace: `cargo xtask NAME`, one file a recipe under `recipes/`.
//!
//! Nothing here is shipped, and no recipe is needed to build or test with plain cargo, except that `dist` is
//! the only place that knows the link flags of the shipped binaries. The idea is matklad's cargo-xtask.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "recipes talk to a terminal")]

mod bench;
mod failure;
mod host;
mod options;
mod recipes;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_else(|| "help".into());
    let rest: Vec<String> = words.collect();
    match recipes::run(&name, &rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask {name}: {failure}");
            ExitCode::FAILURE
        }
    }
}
