//! `list`: which workspaces there are.
//!
//! Newest first, as far as `--limit` goes; destroyed ones only on request. What was left out is counted.
use crate::app::App;
use crate::args::{BaseArgs, wanted_label};
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use bailiwick_contract::listing::{WorkspaceListing, WorkspaceRow};
use bailiwick_contract::quantity;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::requests::ListRequest;
use bailiwick_engine::text::{clipped, printable, quoted};
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
    /// Only those of this owner
    #[arg(long, value_name = "TEXT")]
    owner: Option<String>,
    /// Only those with this label; repeatable, and all of them have to be there
    #[arg(long, value_name = "KEY[=VALUE]", value_parser = wanted_label)]
    label: Vec<(String, Option<String>)>,
    /// Measure each disk now, which walks it; without this flag SIZE is as the last job left it
    #[arg(long)]
    size: bool,
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
  bailiwick list --owner ci --label branch=main --size
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
    let request = ListRequest {
        states: shown.states(args.state),
        owner: args.owner,
        labels: args.label,
        size: args.size,
        limit: args.limit,
    };
    let listing = app.engine(&args.base)?.list(&request)?;
    if args.base.json {
        return Ok(Outcome::json(&listing));
    }
    Ok(Outcome::text(table(&listing, &shown)))
}

/// Which workspaces a listing shows.
struct Shown {
    kind: Kind,
    /// The flags that narrow it further.
    narrowed: String,
}

/// Which states a listing shows.
enum Kind {
    /// All but the destroyed ones.
    Living,
    /// Every one.
    All,
    /// Those that these flags name.
    Named(String),
}

impl Shown {
    fn of(args: &Args) -> Self {
        let kind = match args.state[..] {
            _ if args.all => Kind::All,
            [] => Kind::Living,
            _ => Kind::Named(
                args.state.iter().map(|state| format!(" --state {}", state.name())).collect(),
            ),
        };
        let owner = args.owner.iter().map(|owner| format!(" --owner {}", quoted(owner.as_bytes())));
        let labels = args.label.iter().map(|(key, value)| {
            let label =
                value.as_ref().map_or_else(|| key.clone(), |value| format!("{key}={value}"));
            format!(" --label {}", quoted(label.as_bytes()))
        });
        Self { kind, narrowed: owner.chain(labels).collect() }
    }

    /// Returns the states to ask for; none means every one.
    fn states(&self, named: Vec<WorkspaceState>) -> Vec<WorkspaceState> {
        match self.kind {
            Kind::Living => LIVING.to_vec(),
            Kind::All | Kind::Named(_) => named,
        }
    }

    /// Returns the flags that show the same again.
    fn flags(&self) -> String {
        let states = match &self.kind {
            Kind::Living => "",
            Kind::All => " --all",
            Kind::Named(flags) => flags,
        };
        format!("{states}{}", self.narrowed)
    }

    /// Returns what the others are.
    const fn others(&self) -> &'static str {
        match self.kind {
            Kind::Living | Kind::All => "destroyed",
            Kind::Named(_) => "in other states",
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
const COLUMNS: [&str; 8] =
    ["WORKSPACE", "STATE", "AGE", "JOBS", "SIZE", "PENDING", "OWNER", "PURPOSE"];

/// What a cell shows of an owner or a purpose, in bytes; `--json` has all of it.
const TEXT_BYTES_MAX: usize = 48;

fn table(listing: &WorkspaceListing, kind: &Shown) -> String {
    let rows: Vec<[String; 8]> = listing.workspaces.iter().map(cells).collect();
    let mut widths = COLUMNS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    push_row(&mut out, &COLUMNS.map(str::to_owned), &widths);
    rows.iter().for_each(|row| push_row(&mut out, row, &widths));
    push_notes(&mut out, listing, kind);
    out
}

/// Says what the table leaves out, and what was done on the way.
fn push_notes(out: &mut String, listing: &WorkspaceListing, kind: &Shown) {
    let shown = u64::try_from(listing.workspaces.len()).unwrap_or(u64::MAX);
    if shown < listing.total {
        let left = listing.total - shown;
        let (flags, total) = (kind.flags(), listing.total);
        writeln!(out, "...and {left} more: `bailiwick list{flags} --limit {total}`")
            .expect("a String takes any text");
    }
    if listing.left_out > 0 {
        let (left, others, narrowed) = (listing.left_out, kind.others(), &kind.narrowed);
        writeln!(out, "...and {left} {others}: `bailiwick list --all{narrowed}`")
            .expect("a String takes any text");
    }
    for line in &listing.attention {
        writeln!(out, "note: {line}").expect("a String takes any text");
    }
}

fn push_row(out: &mut String, row: &[String; 8], widths: &[usize; 8]) {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    out.push_str(cells.join("  ").trim_end());
    out.push('\n');
}

fn cells(row: &WorkspaceRow) -> [String; 8] {
    let about = row.about.clone().unwrap_or_default();
    [
        row.workspace_id.clone(),
        row.state.clone(),
        age(row.age_seconds),
        row.jobs.to_string(),
        row.storage_bytes.map_or_else(|| "-".to_owned(), size),
        row.artifacts_pending.to_string(),
        cell(about.owner),
        cell(about.purpose),
    ]
}

/// Returns text of others as a cell, which cannot act on a terminal or pass for a row.
fn cell(text: Option<String>) -> String {
    text.map_or_else(|| "-".into(), |text| clipped(&printable(text.as_bytes()), TEXT_BYTES_MAX))
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

    use bailiwick_contract::package::AboutFacts;

    fn row(id: &str, age_seconds: u64, storage_bytes: Option<u64>) -> WorkspaceRow {
        WorkspaceRow {
            workspace_id: id.into(),
            state: "ready".into(),
            provider: "native".into(),
            profile: "host".into(),
            created_at: "2026-11-30T17:41:38+00:00".into(),
            age_seconds,
            jobs: 2,
            storage_bytes,
            artifacts_pending: 0,
            about: None,
        }
    }

    fn shown(kind: Kind, narrowed: &str) -> Shown {
        Shown { kind, narrowed: narrowed.into() }
    }

    #[test]
    fn a_listing_is_a_table_that_says_what_it_leaves_out() {
        let about = AboutFacts {
            owner: Some("amy\n".into()),
            purpose: Some("é".repeat(40)),
            ..AboutFacts::default()
        };
        let demo = WorkspaceRow { about: Some(about), ..row("demo", 90_000, None) };
        let listing = WorkspaceListing {
            workspaces: vec![row("ws-9a8b7c6d5e4f", 59, Some(2_047)), demo],
            total: 5,
            left_out: 2,
            attention: vec!["one was settled".into()],
        };
        expect_test::expect![[r"
            WORKSPACE        STATE  AGE  JOBS  SIZE   PENDING  OWNER  PURPOSE
            ws-9a8b7c6d5e4f  ready  59s  2     1 KiB  0        -      -
            demo             ready  1d   2     -      0        amy\n  éééééééééééééééééééééé…
            ...and 3 more: `bailiwick list --limit 5`
            ...and 2 destroyed: `bailiwick list --all`
            note: one was settled
        "]]
        .assert_eq(&table(&listing, &shown(Kind::Living, "")));
        let named = table(&listing, &shown(Kind::Named(" --state ready".into()), " --owner amy"));
        let again = "more: `bailiwick list --state ready --owner amy --limit 5`";
        assert!(named.contains(again), "{named}");
        let others = "...and 2 in other states: `bailiwick list --all --owner amy`";
        assert!(named.contains(others), "{named}");
    }
}
