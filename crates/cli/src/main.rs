//! The `bailiwick` command: reads the environment once, parses the arguments, runs one verb, renders its answer.
//!
//! What a verb does is the engine's business; a verb's file here turns flags into a request. Results go to standard
//! output, everything else to standard error, and the exit code is that of the result.
#![forbid(unsafe_code)]

mod app;
mod args;
mod catalogue;
mod commands;
mod compose;
#[cfg(feature = "faults")]
mod faults;
mod identity;
mod output;
mod progress;
mod settings;
mod usage;

use crate::app::App;
use crate::settings::Settings;
use std::process::ExitCode;

fn main() -> ExitCode {
    bailiwick_isolation::interrupt::prepare();
    output::catch_bugs();
    let settings = Settings::read();
    #[cfg(feature = "faults")]
    faults::arm(settings.faults.clone());
    let app = App::new(settings);
    // A supervisor takes as long to start as the arguments take to parse.
    if usage::asks_for_a_job(&app.settings) {
        app.expect_job();
    }
    let code = match usage::parse(&app.settings) {
        Ok(command) => {
            let json = command.json();
            output::finish(output::caught(|| command.run(&app)), json)
        }
        Err(stopped) => stopped.report(),
    };
    // Everything that has to be durable is; the kernel closes the rest faster than we would.
    std::mem::forget(app);
    code
}
