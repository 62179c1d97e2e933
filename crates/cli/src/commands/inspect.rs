//! `inspect`: a workspace's or a job's state, and what it has cost.
//!
//! `--logs` prints captured output and `--full` the whole package; neither has a bound.
use crate::app::App;
use crate::args::CommonArgs;
use crate::output::{Outcome, SECTIONS};
use bailiwick_contract::error::Failure;
use bailiwick_engine::requests::InspectRequest;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print all captured output that was kept
    #[arg(long, conflicts_with_all = ["full", "section"])]
    logs: bool,
    /// Print the whole result, without a bound
    #[arg(long)]
    full: bool,
    /// Print this section only; implies --full
    #[arg(long, value_name = "NAME", value_parser = SECTIONS)]
    section: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
    /// A workspace or a job
    handle: String,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick inspect demo
  bailiwick inspect --logs job-5f0c1a2b3c4d
  bailiwick inspect --section provenance job-5f0c1a2b3c4d";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let engine = app.engine_for(&args.common.base, &args.handle)?;
    if args.logs {
        let logs = engine.logs(&args.handle)?;
        return Ok(Outcome::logs(&logs, args.common.base.json));
    }
    let bound = (!args.full && args.section.is_none()).then(|| args.common.bound());
    let report = engine.inspect(&InspectRequest { handle: args.handle, bound })?;
    match args.section {
        Some(section) => Ok(Outcome::section(&report, &section, args.common.base.json)),
        None => Ok(Outcome::package(&report, &args.common)),
    }
}
