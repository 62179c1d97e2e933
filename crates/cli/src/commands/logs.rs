//! `logs`: captured output of a job, or of all jobs of a workspace; whole, a part of it, or as it comes.
//!
//! `--raw` gives the bytes themselves, as they arrived. Output outlives its workspace.
use crate::app::App;
use crate::args::{BaseArgs, parse_range};
use crate::output::{Outcome, Stdout, note};
use bailiwick_contract::error::Failure;
use bailiwick_contract::provider::Streams;
use bailiwick_engine::requests::LogPart;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the bytes themselves, and nothing else
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Go on printing what the job prints, until its end; an interrupt ends this and leaves the job alone
    #[arg(long, conflicts_with_all = ["json", "range", "grep", "stdout", "stderr"])]
    follow: bool,
    /// Only bytes A to before B of what one job produced; either may be left out
    #[arg(long, value_name = "A:B", value_parser = parse_range, conflicts_with_all = ["stdout", "stderr", "grep"])]
    range: Option<(u64, u64)>,
    /// Only the lines in which the pattern is found, with their numbers; it is a regular expression over bytes
    #[arg(long, value_name = "RE", allow_hyphen_values = true, conflicts_with = "raw")]
    grep: Option<String>,
    /// Only what went to standard output
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Only what went to standard error
    #[arg(long)]
    stderr: bool,
    #[command(flatten)]
    base: BaseArgs,
    /// A workspace or a job
    handle: String,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick logs demo
  bailiwick logs --raw job-5f0c1a2b3c4d > output.bin
  bailiwick logs --follow demo
  bailiwick logs --raw --range 1000000: job-5f0c1a2b3c4d
  bailiwick logs --grep '(?i)error' --stderr demo

--follow and --raw write bytes as they are, but --follow without --raw escapes what could act on a
terminal where standard output is one. Classes of --grep, such as \\w, are ASCII; of each job at most
10000 lines are shown.";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.base.json
    }

    const fn part(&self) -> LogPart {
        let streams = match (self.stdout, self.stderr) {
            (true, _) => Streams::Stdout,
            (false, true) => Streams::Stderr,
            (false, false) => Streams::Both,
        };
        LogPart { streams, range: self.range }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let engine = app.engine_for(&args.base, &args.handle)?;
    if args.follow {
        let mut stdout = if args.raw { Stdout::default() } else { Stdout::for_eyes() };
        let followed = engine.follow(&args.handle, &mut stdout, &note);
        return stdout.finish(followed);
    }
    if args.raw {
        let mut stdout = Stdout::default();
        let streamed = engine.raw_logs_part(&args.handle, args.part(), &mut stdout, &note);
        return stdout.finish(streamed);
    }
    if let Some(pattern) = &args.grep {
        let found = engine.grep(&args.handle, pattern, args.part().streams)?;
        return Ok(Outcome::matches(&found, args.base.json));
    }
    let logs = engine.logs_part(&args.handle, args.part())?;
    Ok(Outcome::logs(&logs, args.base.json))
}
