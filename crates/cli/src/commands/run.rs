//! `run`: runs one command in a workspace and returns once it has ended.
//!
//! Flags go before the workspace; everything after it belongs to the job, whatever it looks like. The two are one
//! trailing argument to clap, so that it never looks at a word of the job.
use crate::app::App;
use crate::args::{CommonArgs, JobArgs, parse_duration, workspace_id};
use crate::output::{LiveOutput, Outcome};
use crate::progress::Progress;
use bailiwick_contract::error::Failure;
use bailiwick_engine::requests::{Live, RunRequest};
use std::ffi::OsString;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "bailiwick run [OPTIONS] <WORKSPACE> <COMMAND>...")]
pub(crate) struct Args {
    /// How long to wait while other jobs hold the workspace; 0 refuses [default: its wall clock]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    wait: Option<Duration>,
    /// Return once the job was let go; it runs on without this command
    #[arg(long, conflicts_with = "stream")]
    detach: bool,
    #[command(flatten)]
    common: CommonArgs,
    /// The workspace, then the command; what follows the workspace belongs to the command
    #[arg(required = true, trailing_var_arg = true, value_name = "WORKSPACE> <COMMAND")]
    words: Vec<OsString>,
    #[command(flatten)]
    job: JobArgs,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick run demo python3 -c 'print(6 * 7)'
  bailiwick run --declare out.json='the result' --input data.csv=./data.csv demo ./job --json
  bailiwick run --env API_TOKEN --wait 0 demo make test
  bailiwick run --stream --timeout 2m --check tests='make -s test' --cwd src demo make
  bailiwick run --stdin - --measure loss=out/loss demo ./train < rows.csv
  bailiwick run --detach demo ./serve     # then: wait, logs --follow, stop --apply

Without --stdin a job reads nothing, also where something is piped into this command. A check gets
the job's directory, but neither its variables nor its input, and shares its wall clock; it is not
run where the job was ended. The checks of a detached job are run by `wait`; a verb that changes the
workspace before that gives them up. Paths of --declare, --input and --measure are relative to the
workspace, not to --cwd.

A value given by --env or --env-file is never recorded by Bailiwick. A job that prints its own
environment writes it into its captured output, which is kept.";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let mut words = args.words.into_iter();
    let workspace = workspace_id(&words.next().unwrap_or_default())?;
    let mut argv: Vec<OsString> = words.collect();
    if argv.first().is_some_and(|word| word == "--") {
        argv.remove(0);
    }
    if argv.is_empty() {
        let advice = "write the command after the workspace: `bailiwick run WORKSPACE COMMAND...`";
        return Err(Failure::user("no_command", "no command was given to run", advice));
    }
    let stream = args.job.stream();
    let job = args.job.request(argv)?;
    let engine = app.engine_for(&args.common.base, workspace.as_str())?;
    let progress = Progress::unless(stream || args.detach, &app.settings);
    let notice = |line: &str| progress.say(line);
    let shown = LiveOutput::new();
    let listen = |bytes: &[u8]| shown.show(bytes);
    let request = RunRequest {
        workspace,
        job,
        wait: args.wait,
        notice: &notice,
        detach: args.detach,
        live: Live(stream.then_some(&listen)),
        bound: Some(args.common.bound()),
    };
    let report = engine.run(&request);
    progress.finish();
    shown.finish();
    Ok(Outcome::package(&report?, &args.common))
}
