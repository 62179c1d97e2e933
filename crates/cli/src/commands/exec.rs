//! `exec`: makes a workspace, runs one command in it, exports what was declared, and removes the workspace.
//!
//! If an export fails, the workspace is kept and named.
use crate::app::App;
use crate::args::{AboutArgs, CommonArgs, JobArgs, PolicyArgs, check_destination};
use crate::output::{LiveOutput, Outcome};
use crate::progress::Progress;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_engine::declare;
use bailiwick_engine::requests::{ExecRequest, ExportTarget, Live};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "bailiwick exec [OPTIONS] -- <COMMAND>...")]
pub(crate) struct Args {
    /// Where a declared file goes on this host; repeatable, one for each --declare
    #[arg(long, value_name = "NAME=PATH")]
    export: Vec<OsString>,
    /// The runtime environment [default: host]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// The workspace's id [default: a fresh one]
    #[arg(long, value_name = "ID", value_parser = WorkspaceId::parse)]
    workspace_id: Option<WorkspaceId>,
    #[command(flatten)]
    common: CommonArgs,
    /// The command
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    about: AboutArgs,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick exec -- echo hello
  bailiwick exec --wall-clock-seconds 10 --memory-bytes 256MiB --allow-watched -- ./untrusted
  bailiwick exec --declare pi.json='pi' --export pi.json=./pi.json -- python3 pi.py
  bailiwick exec --stdin rows.csv --check 'not empty'='test -s out' --stream -- sh -c 'sort > out'

Without --stdin a job reads nothing, also where something is piped into this command. A check gets
the job's directory, but neither its variables nor its input, and shares its wall clock; it is not
run where the job was ended. It is run before anything is exported.

A value given by --env or --env-file is never recorded by Bailiwick. A job that prints its own
environment writes it into its captured output, which is kept.";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let exports = args.export.iter().map(|given| declare::export(given.as_bytes()));
    let stream = args.job.stream();
    let shown = LiveOutput::new();
    let listen = |bytes: &[u8]| shown.show(bytes);
    let exports: Vec<ExportTarget> = exports.collect::<Result<_, _>>()?;
    let home = app.settings.home()?;
    exports.iter().try_for_each(|one| check_destination("--export", &one.destination, &home))?;
    let request = ExecRequest {
        workspace: args.workspace_id,
        profile: args.profile,
        exports,
        job: args.job.request(args.command)?,
        policy: args.policy.request(&home)?,
        live: Live(stream.then_some(&listen)),
        about: args.about.request(),
        bound: Some(args.common.bound()),
    };
    let engine = app.engine(&args.common.base)?;
    let progress = Progress::unless(stream, &app.settings);
    let report = engine.exec(&request);
    progress.finish();
    shown.finish();
    Ok(Outcome::package(&report?, &args.common))
}
