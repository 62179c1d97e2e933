//! `wait`: waits for the end of a job that was started elsewhere, and reports it as `run` would have.
//!
//! The exit code is that of the job. An interrupt ends the wait and leaves the job alone.
use crate::app::App;
use crate::args::{CommonArgs, parse_duration};
use crate::output::Outcome;
use crate::progress::Progress;
use bailiwick_contract::error::Failure;
use bailiwick_engine::requests::WaitRequest;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How long to wait; then the exit code is 4 and the job goes on; 0 only looks [default: until the end]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    #[command(flatten)]
    common: CommonArgs,
    /// A job, or a workspace: all its jobs in flight, else the last one
    handle: String,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick wait demo
  bailiwick wait --timeout 30s --json job-5f0c1a2b3c4d

The declared checks of a detached job are run here, once it has ended. Of several jobs the one that
was started last is reported, with a line for each other one.";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let bound = Some(args.common.bound());
    let request = WaitRequest { handle: args.handle, timeout: args.timeout, bound };
    let engine = app.engine_for(&args.common.base, &request.handle)?;
    let progress = Progress::start(&app.settings);
    let report = engine.wait(&request);
    progress.finish();
    Ok(Outcome::package(&report?, &args.common))
}
