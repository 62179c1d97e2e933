//! `put`: copies a host file or directory into a workspace.
//!
//! A directory keeps its links, modes and times. The record holds destination, size and digest of each file, never its bytes.
use crate::app::App;
use crate::args::{CommonArgs, bytes};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::requests::PutRequest;
use std::ffi::OsString;
use std::io::{IsTerminal as _, Stdin};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Replace what is at the destination
    #[arg(long)]
    overwrite: bool,
    /// Leave out what the patterns of this file name, in the syntax of gitignore, relative to HOST_PATH
    #[arg(long, value_name = "PATH")]
    ignore_file: Option<PathBuf>,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
    /// What to copy: a file or a directory, or `-` for a tar stream on standard input
    host_path: PathBuf,
    /// Where it goes, relative to the workspace; `.` is the workspace itself
    destination: OsString,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick put demo ./data.csv input/data.csv
  bailiwick put --overwrite demo ./src src
  bailiwick put --ignore-file .gitignore demo . .
  bailiwick put demo - src < src.tar";

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
        ignore_file: args.ignore_file,
        bound: Some(args.common.bound()),
    };
    let engine = app.engine_for(&args.common.base, request.workspace.as_str())?;
    let report = if request.source.as_os_str() == "-" {
        engine.put_archive(&request, Box::new(piped_stdin()?))?
    } else {
        engine.put(&request)?
    };
    Ok(Outcome::package(&report, &args.common))
}

/// Returns standard input, unless somebody would have to type an archive.
fn piped_stdin() -> Result<Stdin, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Ok(stdin);
    }
    let message = "HOST_PATH is `-`, and standard input is a terminal";
    let advice = "pipe a tar stream in: tar -c -C DIR . | bailiwick put WORKSPACE - DESTINATION";
    Err(Failure::user("bad_archive", message, advice))
}
