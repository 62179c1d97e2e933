//! `explain`: the page of a verb or a topic.
//!
//! What a page says of flags comes from the table of arguments, the rest from the catalogue. It opens nothing.
use crate::app::App;
use crate::catalogue;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// A verb, or a topic: exit-codes, policy, package, identity [default: the program as a whole]
    #[arg(value_name = "PATH")]
    path: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick explain
  bailiwick explain run
  bailiwick explain cli overview
  bailiwick explain exit-codes --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// The answer of `explain`.
#[derive(Serialize)]
struct Explained {
    path: Vec<String>,
    markdown: String,
}

pub(super) fn run(args: Args, _app: &App) -> Result<Outcome, Failure> {
    // `explain bailiwick run` is what somebody says who has the whole command in mind.
    let named = args.path.first().is_some_and(|word| word == "bailiwick");
    let path: Vec<String> = args.path.into_iter().skip(usize::from(named)).collect();
    let markdown = catalogue::page(&path).ok_or_else(|| unknown(&path))?;
    Ok(if args.json {
        Outcome::json(&Explained { path, markdown })
    } else {
        Outcome::text(markdown)
    })
}

/// The longest piece of the path that a message repeats, in characters.
const ECHO_CHARS_MAX: usize = 64;

fn unknown(path: &[String]) -> Failure {
    let said = path.join(" ");
    let shown: String = said.chars().take(ECHO_CHARS_MAX).flat_map(char::escape_debug).collect();
    let near = catalogue::near(&said);
    let advice = if near.is_empty() {
        "run `bailiwick explain` to see every page".to_owned()
    } else {
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        format!("did you mean {}? run `bailiwick explain` to see every page", near.join(" or "))
    };
    Failure::user("unknown_page", format!("there is no page about `{shown}`"), advice)
}
