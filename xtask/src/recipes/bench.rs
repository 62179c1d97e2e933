//! `bench`: builds what is shipped, measures it against its peers and reports.
//!
//! It does no measuring itself: each row is sampled by a `bench-worker` that runs as root or as the ordinary user.
//! The rows and bars are in `bench/rows.rs`.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::{bench_worker, dist};
use crate::bench::machine::{self, IDLE_PERCENT_MIN};
use crate::bench::person::{self, Person};
use crate::bench::report::{self, Measured};
use crate::bench::rows::{self, ROWS, Row};
use crate::bench::stage::Stage;
use crate::failure::Failure;
use crate::host;
use crate::options::Options;

/// Runs of each side when `--runs` does not say: below about 200 the p95 is a handful of runs.
const RUNS: usize = 200;

/// Measures all rows, or the one that `--only` names.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(words);
    let runs = options.count("--runs")?.unwrap_or(RUNS);
    let only = options.value("--only")?;
    let (check, save) = (options.switch("--check"), options.switch("--save"));
    options.finish()?;
    let rows = chosen(only.as_deref())?;

    let mut programs = dist::build()?;
    programs.push(std::env::current_exe().map_err(Failure::at("this program"))?);
    need_bubblewrap()?;
    let stage = Stage::set(&programs)?;
    let idle_percent = machine::settled_idle_percent()?;
    if idle_percent < IDLE_PERCENT_MIN {
        eprintln!("warning: {idle_percent:.0} % idle, below {IDLE_PERCENT_MIN} %: other work runs");
    }
    let results = measure(&rows, runs, &stage)?;
    let facts = machine::facts(stage.folder(), idle_percent);
    print!("{}", report::markdown(&facts, &results));
    if save {
        write(&facts, &results)?;
    }
    if check { verdict(&results) } else { Ok(()) }
}

fn chosen(only: Option<&str>) -> Result<Vec<&'static Row>, Failure> {
    let Some(name) = only else { return Ok(ROWS.iter().collect()) };
    let known = || ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
    let row = rows::find(name);
    row.map(|row| vec![row]).ok_or_else(|| Failure::new(format!("`--only` takes {}", known())))
}

/// Sees to it that the peer is there.
fn need_bubblewrap() -> Result<(), Failure> {
    if host::has_program("bwrap") {
        return Ok(());
    }
    if !host::is_root() || !host::has_program("apt-get") {
        return Err(Failure::new("bwrap is missing; `apt-get install bubblewrap` mends it"));
    }
    let mut apt = host::command("apt-get");
    host::run(apt.args(["install", "--yes", "--quiet", "bubblewrap"]).stdout(Stdio::null()))
}

fn measure(rows: &[&'static Row], runs: usize, stage: &Stage) -> Result<Vec<Measured>, Failure> {
    let people = person::everybody()?;
    let mut results = Vec::new();
    for row in rows {
        for person in &people {
            eprintln!("{} as {}", row.name, person.name);
            results.push(series(row, runs, person, stage.folder())?);
        }
    }
    Ok(results)
}

/// One row as one person, in a state folder that nobody used before.
fn series(
    row: &'static Row,
    runs: usize,
    person: &Person,
    stage: &Path,
) -> Result<Measured, Failure> {
    let folder = person.folder(stage)?;
    let words = bench_worker::words(row.name, runs, &stage.to_string_lossy());
    let mut worker = person.command(&stage.join("xtask"), &folder);
    worker.args(words).env("BAILIWICK_HOME", folder.join("state"));
    let samples = host::output(&mut worker).and_then(|text| bench_worker::parse(&text));
    std::fs::remove_dir_all(&folder).map_err(Failure::at(folder.display()))?;
    Ok(Measured { row, person: person.name.clone(), samples: samples? })
}

/// Writes both renderings to `benches/results/<date>-<commit>`.
fn write(facts: &Value, results: &[Measured]) -> Result<(), Failure> {
    let word = |key: &str| facts[key].as_str().unwrap_or("unknown").to_owned();
    let name = format!("{}-{}", word("date"), word("commit"));
    let folder: PathBuf = host::root().join("benches/results");
    std::fs::create_dir_all(&folder).map_err(Failure::at(folder.display()))?;
    let document = format!("{:#}\n", report::document(facts, results));
    for (ending, text) in [("json", document), ("md", report::markdown(facts, results))] {
        let path = folder.join(format!("{name}.{ending}"));
        std::fs::write(&path, text).map_err(Failure::at(path.display()))?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

/// Fails when a binding bar was not kept.
fn verdict(results: &[Measured]) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for result in results {
        for verdict in result.verdicts().iter().filter(|verdict| verdict.fails()) {
            let words = report::words(verdict);
            failed.push(format!("{} as {}: {words}", result.row.name, result.person));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(failed.join("\n"))) }
}
