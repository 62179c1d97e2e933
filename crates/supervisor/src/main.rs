//! `bailiwick-supervisor`: the small program that owns one sandbox.
//!
//! It owns the wall clock, the capture of output and the record of the outcome, so that killing its caller loses nothing.
//! It decides nothing: its plan comes over its socket. It reads no environment and no file but its plan's.
#![forbid(unsafe_code)]

mod capture;
mod control;
mod input;
mod job;
mod keep;
mod memory;
mod outcome;
mod ring;
mod serve;
mod settle;
mod storage;

use bailiwick_isolation::wire::WIRE_VERSION;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    bailiwick_isolation::interrupt::prepare();
    #[cfg(feature = "faults")]
    arm();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["--socket"] => serve::main(),
        ["--version"] => print(&format!("{} {WIRE_VERSION}", env!("CARGO_PKG_VERSION"))),
        ["--probe", key, seed] => probe(key, seed),
        _ => fail("this program is started by `bailiwick`; it takes --version"),
    }
}

/// Takes the plan that its caller handed on: the one thing that it reads from its environment, and never in a release.
#[cfg(feature = "faults")]
#[expect(
    clippy::disallowed_methods,
    reason = "the caller read it once, and hands it down this way"
)]
fn arm() {
    use bailiwick_isolation::faults;
    faults::arm(std::env::var_os(faults::VARIABLE));
    for name in ["set_up", "go", "outcome", "outcome.rename", "hang_up", "tell", "end"] {
        faults::declare(&format!("supervisor:{name}"));
    }
}

fn probe(key: &str, seed: &str) -> ExitCode {
    let facts = bailiwick_isolation::probe::probe(key.to_owned(), seed.parse().unwrap_or(0));
    match facts.and_then(|facts| serde_json::to_string(&facts).map_err(Into::into)) {
        Ok(json) => print(&json),
        Err(error) => fail(&format!("could not probe the host: {error}")),
    }
}

fn print(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(text: &str) -> ExitCode {
    // Nobody is left to tell when standard error is closed.
    writeln!(std::io::stderr(), "bailiwick-supervisor: {text}").ok();
    ExitCode::FAILURE
}
