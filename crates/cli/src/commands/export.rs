//! `export`: publishes a declared artifact to a host path, verified by its digest.
//!
//! The file appears whole or not at all.
use crate::app::App;
use crate::args::{CommonArgs, bytes};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::ExportRequest;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where it goes on this host
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Where it is in the workspace, if not at its name
    #[arg(long, value_name = "WSPATH")]
    path: Option<OsString>,
    /// Publish only what has this digest
    #[arg(long, value_name = "HEX")]
    expect_sha256: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
    /// The artifact's declared name
    name: OsString,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick export demo report.json --to ./report.json
  bailiwick export --path build/out.bin --to ./out.bin demo out.bin";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = ExportRequest {
        workspace: args.workspace,
        name: bytes(args.name),
        destination: args.to,
        path: args.path.map(bytes),
        expect_sha256: args.expect_sha256,
        bound: Some(args.common.bound()),
    };
    let report = app.engine(&args.common.base)?.export(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
