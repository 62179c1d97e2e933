//! `stop`: ends a workspace's job.
//!
//! Without `--apply` it only says what it would end.
use crate::app::App;
use crate::args::{CommonArgs, parse_duration};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::{GRACE_DEFAULT, StopRequest};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Really end it; exit code 5 says that a job was ended
    #[arg(long)]
    apply: bool,
    /// How long the job may take to end by itself before it is killed [default: 2s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    grace: Option<Duration>,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick stop demo
  bailiwick stop --apply --grace 500ms demo";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = StopRequest {
        workspace: args.workspace,
        apply: args.apply,
        grace: args.grace.unwrap_or(GRACE_DEFAULT),
        bound: Some(args.common.bound()),
    };
    let report = app.engine_for(&args.common.base, request.workspace.as_str())?.stop(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
