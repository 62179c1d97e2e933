//! `destroy`: removes a workspace.
//!
//! Its record stays, and so does the captured output of its jobs.
use crate::app::App;
use crate::args::CommonArgs;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::DestroyRequest;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Stop what runs, and give up declared artifacts that were never exported
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick destroy demo
  bailiwick destroy --force demo";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = DestroyRequest {
        workspace: args.workspace,
        force: args.force,
        bound: Some(args.common.bound()),
    };
    let report =
        app.engine_for(&args.common.base, request.workspace.as_str())?.destroy(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
