//! `create`: makes a workspace under a declared policy.
//!
//! A policy that the host cannot hold is refused before anything is made.
use crate::app::App;
use crate::args::{CommonArgs, PolicyArgs};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::CreateRequest;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The runtime environment [default: host]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The workspace's id [default: a fresh one]
    #[arg(long, value_name = "ID", value_parser = WorkspaceId::parse)]
    workspace_id: Option<WorkspaceId>,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    policy: PolicyArgs,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick create --workspace-id demo
  bailiwick create --memory-bytes 2GiB --cpu-limit 1.5 --wall-clock-seconds 5m --allow-watched
  bailiwick create --allow-host-path ./data:ro --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = CreateRequest {
        workspace: args.workspace_id,
        profile: args.profile,
        policy: args.policy.request(&app.settings.home()?)?,
        bound: Some(args.common.bound()),
    };
    let report = app.engine(&args.common.base)?.create(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
