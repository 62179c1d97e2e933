//! `completions`: what a shell needs to complete our words.
//!
//! Generated from the table of arguments each time, so that it cannot be older than the program. It writes no file.
use crate::app::App;
use crate::catalogue;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use clap_complete::Shell;
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick completions bash > ~/.local/share/bash-completion/completions/bailiwick
  bailiwick completions fish > ~/.config/fish/completions/bailiwick.fish
  bailiwick completions zsh --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// The answer of `completions`.
#[derive(Serialize)]
struct Completions {
    shell: String,
    script: String,
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, _app: &App) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut catalogue::tree(), "bailiwick", &mut script);
    if !args.json {
        return Ok(Outcome::text(script));
    }
    let script = String::from_utf8(script).expect("our own help is text");
    Ok(Outcome::json(&Completions { shell: args.shell.to_string(), script }))
}
