//! `list`: which workspaces there are.
//!
//! Newest first, as far as `--limit` goes; destroyed ones only on request. What was left out is counted.
use crate::app::App;
use crate::args::BaseArgs;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::quantity;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::list::{Listing, Row};
use bailiwick_engine::requests::ListRequest;
use std::fmt::Write as _;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Every workspace, destroyed ones too
    #[arg(long, conflicts_with = "state")]
    all: bool,
    /// Only those in this state; repeatable [default: every state but destroyed]
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    state: Vec<WorkspaceState>,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = quantity::count, default_value = "100",
          allow_hyphen_values = true)]
    limit: u64,
    #[command(flatten)]
    base: BaseArgs,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick list
  bailiwick list --all
  bailiwick list --state ready --state running --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.base.json
    }
}

fn parse_state(text: &str) -> Result<WorkspaceState, String> {
    WorkspaceState::from_name(text).ok_or_else(|| {
        "the states are requested, provisioning, ready, running, completed, failed, cancelled, \
         expired and destroyed"
            .to_owned()
    })
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let shown = Shown::of(&args);
    let request = ListRequest { states: shown.states(args.state), limit: args.limit };
    let listing = app.engine(&args.base)?.list(&request)?;
    if args.base.json {
        return Ok(Outcome::json(&listing));
    }
    Ok(Outcome::text(table(&listing, &shown)))
}

/// Which workspaces a listing shows.
enum Shown {
    /// All but the destroyed ones.
    Living,
    /// Every one.
    All,
    /// Those that these flags name.
    Named(String),
}

impl Shown {
    fn of(args: &Args) -> Self {
        match args.state[..] {
            _ if args.all => Self::All,
            [] => Self::Living,
            _ => Self::Named(
                args.state.iter().map(|state| format!(" --state {}", state.name())).collect(),
            ),
        }
    }

    /// Returns the states to ask for; none means every one.
    fn states(&self, named: Vec<WorkspaceState>) -> Vec<WorkspaceState> {
        match self {
            Self::Living => LIVING.to_vec(),
            Self::All | Self::Named(_) => named,
        }
    }

    /// Returns the flags that show the same again.
    fn flags(&self) -> &str {
        match self {
            Self::Living => "",
            Self::All => " --all",
            Self::Named(flags) => flags,
        }
    }

    /// Returns what the others are.
    const fn others(&self) -> &'static str {
        match self {
            Self::Living | Self::All => "destroyed",
            Self::Named(_) => "in other states",
        }
    }
}

/// The states of a workspace that is not gone.
const LIVING: [WorkspaceState; 8] = [
    WorkspaceState::Requested,
    WorkspaceState::Provisioning,
    WorkspaceState::Ready,
    WorkspaceState::Running,
    WorkspaceState::Completed,
    WorkspaceState::Failed,
    WorkspaceState::Cancelled,
    WorkspaceState::Expired,
];

/// The columns of the table, in order.
const COLUMNS: [&str; 6] = ["WORKSPACE", "STATE", "AGE", "JOBS", "SIZE", "PENDING"];

fn table(listing: &Listing, kind: &Shown) -> String {
    let rows: Vec<[String; 6]> = listing.workspaces.iter().map(cells).collect();
    let mut widths = COLUMNS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let mut out = String::new();
    push_row(&mut out, &COLUMNS.map(str::to_owned), &widths);
    rows.iter().for_each(|row| push_row(&mut out, row, &widths));
    let shown = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    if shown < listing.total {
        let left = listing.total - shown;
        let (flags, total) = (kind.flags(), listing.total);
        writeln!(out, "...and {left} more: `bailiwick list{flags} --limit {total}`")
            .expect("a String takes any text");
    }
    if listing.left_out > 0 {
        let (left, others) = (listing.left_out, kind.others());
        writeln!(out, "...and {left} {others}: `bailiwick list --all`")
            .expect("a String takes any text");
    }
    for line in &listing.attention {
        writeln!(out, "note: {line}").expect("a String takes any text");
    }
    out
}

fn push_row(out: &mut String, row: &[String; 6], widths: &[usize; 6]) {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    out.push_str(cells.join("  ").trim_end());
    out.push('\n');
}

fn cells(row: &Row) -> [String; 6] {
    [
        row.workspace_id.clone(),
        row.state.clone(),
        age(row.age_seconds),
        row.jobs.to_string(),
        row.storage_bytes.map_or_else(|| "-".to_owned(), size),
        row.artifacts_pending.to_string(),
    ]
}

/// Returns an age in its greatest whole unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a size in its greatest unit, rounded down.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, 0);
    while value >= 1_024 && unit + 1 < UNITS.len() {
        value /= 1_024;
        unit += 1;
    }
    format!("{value} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, age_seconds: u64, storage_bytes: Option<u64>) -> Row {
        Row {
            workspace_id: id.into(),
            state: "ready".into(),
            provider: "native".into(),
            profile: "host".into(),
            created_at: "2026-11-30T17:41:38+00:00".into(),
            age_seconds,
            jobs: 2,
            storage_bytes,
            artifacts_pending: 0,
        }
    }

    #[test]
    fn a_listing_is_a_table_that_says_what_it_leaves_out() {
        let listing = Listing {
            workspaces: vec![row("ws-9a8b7c6d5e4f", 59, Some(2_047)), row("demo", 90_000, None)],
            total: 5,
            left_out: 2,
            attention: vec!["one was settled".into()],
        };
        expect_test::expect![[r"
            WORKSPACE        STATE  AGE  JOBS  SIZE   PENDING
            ws-9a8b7c6d5e4f  ready  59s  2     1 KiB  0
            demo             ready  1d   2     -      0
            ...and 3 more: `bailiwick list --limit 5`
            ...and 2 destroyed: `bailiwick list --all`
            note: one was settled
        "]]
        .assert_eq(&table(&listing, &Shown::Living));
        let named = table(&listing, &Shown::Named(" --state ready".into()));
        assert!(named.contains("more: `bailiwick list --state ready --limit 5`"), "{named}");
        assert!(named.contains("...and 2 in other states: `bailiwick list --all`"), "{named}");
    }
}
