//! `conformance`: runs the suite of promises over every provider and prints a table.
//!
//! The suite is a test of `bailiwick-providers`; here is only the table that it becomes: the peer's checks by name, then ours, one
//! column a provider, and what failed in full.

use std::collections::BTreeMap;
use std::process::Command;

use crate::failure::Failure;
use crate::host;
use crate::options::Options;

/// The providers, in the order of the columns.
const PROVIDERS: [&str; 2] = ["native", "fake"];

/// The group of checks that the peer's own suite has.
const PEER: &str = "peer";

/// One check and what came of it, a provider each.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    group: String,
    name: String,
    passed: [Option<bool>; 2],
}

/// Builds and runs the suite, and prints what came of it.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    Options::new(words).finish()?;
    let mut build = host::command("cargo");
    build.current_dir(host::root()).args(["build", "--quiet", "-p", "bailiwick-supervisor"]);
    host::run(&mut build)?;
    let (_, listed) = host::printed(suite().arg("--list"))?;
    let (passed, text) = host::printed(suite().args(["--color", "never", "--format", "pretty"]))?;
    let rows = rows(&listed, &text);
    if rows.is_empty() {
        return Err(Failure::new(format!("the suite did not run:\n{text}")));
    }
    print!("{}", table(&rows));
    let others = others(&text);
    others.iter().for_each(|line| println!("{line}"));
    if passed {
        return Ok(());
    }
    let why = text.split_once("\nfailures:\n").map_or(text.as_str(), |(_, why)| why);
    Err(Failure::new(format!("a promise is not kept\n{why}")))
}

/// Returns the command that runs the suite; what follows are the suite's own flags.
fn suite() -> Command {
    let mut suite = host::command("cargo");
    suite.current_dir(host::root()).args(["test", "-p", "bailiwick-providers"]);
    suite.args(["--test", "conformance", "--"]);
    suite
}

/// Splits `test native::peer::write_lands ... ok` into its parts and whether it passed.
fn trial(line: &str) -> Option<(Vec<&str>, bool)> {
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    Some((name.trim_end().split("::").collect(), end.trim() == "ok"))
}

/// Returns the checks in the order in which the suite lists them; they end in any.
fn rows(listed: &str, text: &str) -> Vec<Row> {
    let told: BTreeMap<_, _> = text.lines().filter_map(trial).collect();
    let mut rows: Vec<Row> = Vec::new();
    for name in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        let parts: Vec<_> = name.split("::").collect();
        let [provider, group, name] = parts[..] else { continue };
        let Some(column) = PROVIDERS.iter().position(|known| *known == provider) else { continue };
        let place = rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            rows.push(Row { group: group.into(), name: name.into(), passed: [None; 2] });
            rows.len() - 1
        });
        rows[place].passed[column] = told.get(&parts).copied();
    }
    rows
}

/// Returns the trials that are no check of one provider, as they were told.
fn others(text: &str) -> Vec<String> {
    let is_other = |line: &&str| trial(line).is_some_and(|(parts, _)| parts.len() != 3);
    text.lines().filter(is_other).map(str::to_owned).collect()
}

const fn word(passed: Option<bool>) -> &'static str {
    match passed {
        Some(true) => "ok",
        Some(false) => "FAILED",
        None => "-",
    }
}

fn table(rows: &[Row]) -> String {
    use std::fmt::Write as _;
    let width = rows.iter().map(|row| row.name.len() + 2).max().unwrap_or(0);
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{}", text.trim_end()).expect("a String takes it");
    let (peer, own): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.group == PEER);
    for (title, part) in [("the peer's checks", peer), ("ours", own)] {
        line(format!("{title:width$}  {:8}{}", PROVIDERS[0], PROVIDERS[1]));
        let mut group = "";
        for row in &part {
            if row.group != group && row.group != PEER {
                group = &row.group;
                line(format!(" {group}"));
            }
            let name = format!("  {}", row.name);
            line(format!("{name:width$}  {:8}{}", word(row.passed[0]), word(row.passed[1])));
        }
        let kept = |column: usize| {
            let kept = part.iter().filter(|row| row.passed[column] == Some(true)).count();
            format!("{kept}/{}", part.len())
        };
        line(format!("{:width$}  {:8}{}", "kept", kept(0), kept(1)));
        line(String::new());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{others, rows, table};

    const LISTED: &str = "\
native::peer::write_lands: test
native::gate::a_gate_is_opened_once: test
fake::peer::write_lands: test
fake::gate::a_gate_is_opened_once: test
native::as_an_ordinary_user: test
";

    const TOLD: &str = "
running 5 tests
test native::gate::a_gate_is_opened_once ... ok
test native::peer::write_lands                 ... ok
test fake::peer::write_lands ... FAILED
test fake::gate::a_gate_is_opened_once ... ok
test native::as_an_ordinary_user ... ok
";

    #[test]
    fn the_suite_becomes_a_table() {
        let wanted = "\
the peer's checks        native  fake
  write_lands            ok      FAILED
kept                     1/1     0/1

ours                     native  fake
 gate
  a_gate_is_opened_once  ok      ok
kept                     1/1     1/1

";
        assert_eq!(table(&rows(LISTED, TOLD)), wanted);
        assert_eq!(others(TOLD), ["test native::as_an_ordinary_user ... ok"]);
    }

    #[test]
    fn what_is_no_trial_is_no_row() {
        assert!(rows("error", "error: it does not compile\ntest result: ok. 3 passed").is_empty());
    }
}
