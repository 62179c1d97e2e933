//! `seal`: ends what can happen in a workspace, and keeps it readable.
//!
//! To give its disk back as well is the business of `destroy`.
use crate::app::App;
use crate::args::CommonArgs;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::SealRequest;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
}

const EXAMPLES: &str = "\
It takes no job and no file afterwards; inspect, logs, export and destroy still work.

Examples:
  bailiwick seal demo";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = SealRequest { workspace: args.workspace, bound: Some(args.common.bound()) };
    let report = app.engine_for(&args.common.base, request.workspace.as_str())?.seal(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
