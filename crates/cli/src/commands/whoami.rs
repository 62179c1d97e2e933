//! `whoami`: who answers here.
//!
//! The name, backend and model are those of the nearest `culture.yaml`, else the built-in ones; the version is this
//! program's. It opens no state.
use super::VERSION;
use crate::app::App;
use crate::identity::{self, Identity};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick whoami
  bailiwick whoami --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// The answer of `whoami`, and the first section of `overview`.
#[derive(Debug, Serialize)]
pub(super) struct Who {
    nick: String,
    version: &'static str,
    backend: String,
    model: String,
    /// The file that says so, or `built-in`.
    source: String,
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let who = who(app)?;
    Ok(if args.json { Outcome::json(&who) } else { Outcome::text(lines(&who).join("\n") + "\n") })
}

/// Returns who answers here.
///
/// # Errors
/// `bad_identity`.
pub(super) fn who(app: &App) -> Result<Who, Failure> {
    let found = identity::here(app.settings.user_home());
    let Identity { nick, backend, model } = found.identity()?.clone();
    let source = found.file().map_or_else(|| "built-in".to_owned(), identity::shown);
    let model = model.unwrap_or_else(|| "unknown".to_owned());
    Ok(Who { nick, version: VERSION.version, backend, model, source })
}

/// Returns a line for each field, each in printable characters.
pub(super) fn lines(who: &Who) -> Vec<String> {
    let Who { nick, version, backend, model, source } = who;
    vec![
        format!("nick: {}", nick.escape_debug()),
        format!("version: {version}"),
        format!("backend: {backend}"),
        format!("model: {}", model.escape_debug()),
        format!("source: {source}"),
    ]
}
