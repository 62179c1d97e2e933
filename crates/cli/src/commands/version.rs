//! `version`: which build this is, and which schemas it speaks.
//!
//! It opens nothing. The commit is known to a distribution build only, so that a source archive builds too.
use crate::app::App;
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
  bailiwick version
  bailiwick version --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// This build.
#[derive(Serialize)]
pub(crate) struct Version {
    name: &'static str,
    /// As in `Cargo.toml`.
    pub(crate) version: &'static str,
    commit: &'static str,
    schemas: Schemas,
}

/// The versions of what outlives a process: the database and the result package.
#[derive(Serialize)]
struct Schemas {
    state: &'static str,
    package: &'static str,
}

/// This build.
pub(crate) const VERSION: Version = Version {
    name: "bailiwick",
    version: env!("CARGO_PKG_VERSION"),
    commit: match option_env!("BAILIWICK_COMMIT") {
        Some(commit) => commit,
        None => "unknown",
    },
    schemas: Schemas { state: crate::compose::STATE_SCHEMA, package: "1.0" },
};

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, _app: &App) -> Result<Outcome, Failure> {
    Ok(if args.json { Outcome::json(&VERSION) } else { Outcome::text(text()) })
}

/// Returns what `--version` prints.
pub(crate) fn text() -> String {
    let Version { name, version, commit, schemas } = VERSION;
    format!(
        "{name} {version} (commit {commit})\nstate schema {}, package schema {}\n",
        schemas.state, schemas.package
    )
}
