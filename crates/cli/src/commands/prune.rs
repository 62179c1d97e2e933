//! `prune`: gives back what nobody needs any more.
//!
//! Without `--apply` it says what that is, and removes nothing.
use crate::app::App;
use crate::args::{CommonArgs, parse_duration};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::quantity::{self, QuantityError};
use bailiwick_engine::requests::{KEEP_BYTES_DEFAULT, PruneRequest};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Remove it; without this flag the verb only says what it would remove
    #[arg(long)]
    apply: bool,
    /// Remove expired workspaces also where declared artifacts were never exported
    #[arg(long)]
    force: bool,
    /// How old captured output and tombstones have to be; units: ms, s, m, h, d
    #[arg(long, value_name = "SECONDS", value_parser = parse_duration, default_value = "7d",
          allow_hyphen_values = true)]
    older_than: Duration,
    /// How much of the younger captured output is kept, newest first; units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB
    #[arg(long, value_name = "N", value_parser = parse_bytes, default_value_t = Kept(KEEP_BYTES_DEFAULT),
          allow_hyphen_values = true)]
    keep_bytes: Kept,
    #[command(flatten)]
    common: CommonArgs,
}

/// A number of bytes that may be zero, shown in the unit in which it is documented.
#[derive(Debug, Clone, Copy)]
struct Kept(u64);

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            KEEP_BYTES_DEFAULT => f.write_str("1GiB"),
            bytes => bytes.fmt(f),
        }
    }
}

const EXAMPLES: &str = "\
It removes, in this order:
  - workspaces whose time to live is over, unless artifacts of theirs were never exported
  - captured output that is old, then the oldest until what is left is at most --keep-bytes
  - tombstones that are old, with what is known of their jobs; the id stays taken
  - what killed verbs left on no record
Jobs in flight and workspaces that were made with --retain are left alone.

Examples:
  bailiwick prune
  bailiwick prune --apply
  bailiwick prune --apply --older-than 1d --keep-bytes 100MiB

Captured output goes by its age, whatever the state of its workspace; never that of a job in flight,
nor of a workspace that was made with --retain.";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.common.base.json
    }
}

fn parse_bytes(text: &str) -> Result<Kept, QuantityError> {
    match quantity::bytes(text) {
        Ok(bytes) => Ok(Kept(bytes)),
        Err(QuantityError::NotPositive) if !text.trim_start().starts_with('-') => Ok(Kept(0)),
        Err(error) => Err(error),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let request = PruneRequest {
        apply: args.apply,
        force: args.force,
        older_than: args.older_than,
        keep_bytes: args.keep_bytes.0,
        bound: Some(args.common.bound()),
    };
    let report = app.engine(&args.common.base)?.prune(&request)?;
    Ok(Outcome::package(&report, &args.common))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_may_be_kept_but_not_less() {
        assert_eq!(parse_bytes("0").expect("zero").0, 0);
        assert_eq!(parse_bytes("2KiB").expect("two").0, 2_048);
        assert_eq!(parse_bytes(&Kept(KEEP_BYTES_DEFAULT).to_string()).expect("default").0, 1 << 30);
        assert!(parse_bytes("-1").is_err() && parse_bytes("1x").is_err());
    }
}
