//! `logs`: captured output of a job, or of all jobs of a workspace.
//!
//! `--raw` gives the bytes themselves, as they arrived. Output outlives its workspace.
use crate::app::App;
use crate::args::BaseArgs;
use crate::output::{Outcome, Stdout, note};
use bailiwick_contract::error::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the bytes themselves, and nothing else
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    base: BaseArgs,
    /// A workspace or a job
    handle: String,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick logs demo
  bailiwick logs --raw job-5f0c1a2b3c4d > output.bin";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.base.json
    }
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let engine = app.engine(&args.base)?;
    if args.raw {
        let mut stdout = Stdout::default();
        let streamed = engine.raw_logs(&args.handle, &mut stdout, &note);
        return stdout.finish(streamed);
    }
    let logs = engine.logs(&args.handle)?;
    Ok(Outcome::logs(&logs, args.base.json))
}
