//! `cli` and `cli overview`: the command line described by itself.
//!
//! Both answer the same; the noun alone does so that nobody has to know its one verb. It opens nothing.
use super::overview::{Overview, Section, outcome};
use crate::app::App;
use crate::catalogue;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List the verbs and the conventions that all of them keep
    #[command(after_help = OVERVIEW_EXAMPLES)]
    Overview,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick cli
  bailiwick cli overview --json";

const OVERVIEW_EXAMPLES: &str = "\
Examples:
  bailiwick cli overview
  bailiwick cli overview --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// What holds for every verb.
const CONVENTIONS: [&str; 7] = [
    "results go to standard output, everything else to standard error",
    "an error leaves standard output empty, and says what to do next",
    "every verb takes --json: one line, for results and errors alike",
    "the exit code alone says how it ended: `bailiwick explain exit-codes`",
    "a long flag may be shortened as far as it stays unique",
    "flags of ours come before the command of a job; what follows is the job's",
    "nothing is asked: there are no prompts and no pager",
];

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, _app: &App) -> Result<Outcome, Failure> {
    let (None | Some(What::Overview)) = args.what;
    Ok(outcome(&overview(), args.json))
}

/// Returns the overview of the command line.
pub(super) fn overview() -> Overview {
    let verbs = catalogue::verbs(&catalogue::tree());
    let verbs = verbs.iter().map(catalogue::Verb::line).collect();
    let conventions = CONVENTIONS.iter().map(|line| (*line).to_owned()).collect();
    let sections = vec![Section::new("Verbs", verbs), Section::new("Conventions", conventions)];
    Overview { subject: "bailiwick cli", sections }
}
