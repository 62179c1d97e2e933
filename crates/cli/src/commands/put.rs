//! `put`: copies a host file or directory into a workspace.
//!
//! The record holds destination, size and digest of each file, never its bytes.
use crate::app::App;
use crate::args::{CommonArgs, bytes};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::PutRequest;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Replace what is at the destination
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
    /// What to copy
    host_path: PathBuf,
    /// Where it goes, relative to the workspace
    destination: OsString,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick put demo ./data.csv input/data.csv
  bailiwick put --overwrite demo ./src src";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = PutRequest {
        workspace: args.workspace,
        source: args.host_path,
        destination: bytes(args.destination),
        overwrite: args.overwrite,
        bound: Some(args.common.bound()),
    };
    let report = app.engine(&args.common.base)?.put(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
