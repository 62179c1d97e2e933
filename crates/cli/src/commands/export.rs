//! `export`: publishes an artifact to a host path, verified by its digest.
//!
//! A file or a directory appears whole or not at all, and never in Bailiwick's own home.
use crate::app::App;
use crate::args::{CommonArgs, bytes, check_destination};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::ExportRequest;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where it goes on this host; a directory goes where nothing is yet
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    /// Where it is in the workspace, if not at its name
    #[arg(long, value_name = "WSPATH")]
    path: Option<OsString>,
    /// Publish what --path names although no job declared it; NAME is how the answer calls it
    #[arg(long, requires = "path")]
    undeclared: bool,
    /// Publish a directory as one tar file
    #[arg(long)]
    tar: bool,
    /// Refuse where something is at PATH already
    #[arg(long)]
    no_clobber: bool,
    /// Publish only what has this digest; a directory's is that of the file which --tar makes
    #[arg(long, value_name = "HEX")]
    expect_sha256: Option<String>,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
    /// The artifact's declared name: a file's or a directory's
    name: OsString,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick export demo report.json --to ./report.json
  bailiwick export --path build/out.bin --to ./out.bin demo out.bin
  bailiwick export --tar demo site --to ./site.tar
  bailiwick export --undeclared --path target/app --to ./app demo app";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    check_destination("--to", &args.to, &app.settings.home()?)?;
    let request = ExportRequest {
        workspace: args.workspace,
        name: bytes(args.name),
        destination: args.to,
        path: args.path.map(bytes),
        undeclared: args.undeclared,
        tar: args.tar,
        no_clobber: args.no_clobber,
        expect_sha256: args.expect_sha256,
        bound: Some(args.common.bound()),
    };
    let report = app.engine_for(&args.common.base, request.workspace.as_str())?.export(&request)?;
    Ok(Outcome::package(&report, &args.common))
}
