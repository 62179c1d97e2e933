//! `create`: makes a workspace under a declared policy.
//!
//! A policy that the host cannot hold is refused before anything is made; `--dry-run` ends there.
use crate::app::App;
use crate::args::{AboutArgs, CommonArgs, PolicyArgs};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::{CreateRequest, DryRun};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The runtime environment [default: host]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The workspace's id [default: a fresh one]
    #[arg(long, value_name = "ID", value_parser = WorkspaceId::parse)]
    workspace_id: Option<WorkspaceId>,
    /// Check everything and make nothing
    #[arg(long)]
    dry_run: bool,
    /// With --dry-run: also show the policy as it would be held, and the steps of a job's isolation
    #[arg(long, requires = "dry_run")]
    plan: bool,
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    about: AboutArgs,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick create --workspace-id demo
  bailiwick create --memory-bytes 2GiB --cpu-limit 1.5 --wall-clock-seconds 5m --allow-watched
  bailiwick create --allow-host-path ./data:ro --json
  bailiwick create --purpose 'nightly build' --owner ci --label branch=main --ttl 2h
  bailiwick create --dry-run --plan --memory-bytes 2GiB";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let dry_run = match (args.dry_run, args.plan) {
        (false, _) => None,
        (true, false) => Some(DryRun::Check),
        (true, true) => Some(DryRun::Plan),
    };
    let request = CreateRequest {
        workspace: args.workspace_id,
        profile: args.profile,
        policy: args.policy.request(&app.settings.home()?)?,
        about: args.about.request(),
        dry_run,
        bound: Some(args.common.bound()),
    };
    let report = app.engine(&args.common.base)?.create(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
