//! `bench-worker`: takes the samples of one row as whoever runs it, and prints them.
//!
//! Hidden: `bench` starts it, from a copy of this program that the ordinary user may run. One JSON object a line.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::stats::Samples;
use crate::bench::{rows, sample};
use crate::failure::Failure;
use crate::options::Options;

/// Measures and prints.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(words);
    let row = options.value("--row")?.and_then(|name| rows::find(&name));
    let runs = options.count("--runs")?;
    let programs = options.value("--programs")?.map(PathBuf::from);
    options.finish()?;
    let (Some(row), Some(runs), Some(programs)) = (row, runs, programs) else {
        return Err(Failure::new("called by `bench` with --row, --runs and --programs"));
    };
    print!("{}", lines(&sample::take(row, runs, &programs)?));
    Ok(())
}

/// Returns the words that start a worker.
pub(super) fn words(row: &str, runs: usize, programs: &str) -> [String; 7] {
    let runs = runs.to_string();
    ["bench-worker", "--row", row, "--runs", &runs, "--programs", programs].map(str::to_owned)
}

fn lines(samples: &Samples) -> String {
    let side = |name: &'static str, runs: &[Duration]| {
        let lines = runs.iter().map(|run| format!("{}\n", json!({ name: nanos(*run) })));
        lines.collect::<String>()
    };
    let mut text = side("ours", &samples.ours) + &side("theirs", &samples.theirs);
    if let Some(kib) = samples.supervisor_kib {
        text += &format!("{}\n", json!({ "supervisor_kib": kib }));
    }
    text
}

/// A run of 500 years does not fit, and does not end.
fn nanos(run: Duration) -> u64 {
    u64::try_from(run.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads what a worker printed.
///
/// # Errors
/// When a line is not one of a worker's.
pub(super) fn parse(text: &str) -> Result<Samples, Failure> {
    let mut samples = Samples::default();
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).map_err(Failure::at(line))?;
        if let Some(nanos) = value["ours"].as_u64() {
            samples.ours.push(Duration::from_nanos(nanos));
        } else if let Some(nanos) = value["theirs"].as_u64() {
            samples.theirs.push(Duration::from_nanos(nanos));
        } else if let Some(kib) = value["supervisor_kib"].as_u64() {
            samples.supervisor_kib = Some(kib);
        } else {
            return Err(Failure::new(format!("a worker does not say `{line}`")));
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Samples, lines, parse};

    #[test]
    fn what_a_worker_prints_is_read_back() {
        let samples = Samples {
            ours: vec![Duration::from_nanos(12), Duration::from_millis(3)],
            theirs: vec![Duration::from_nanos(7)],
            supervisor_kib: Some(4096),
        };
        assert_eq!(parse(&lines(&samples)).unwrap(), samples);
        assert!(parse("{\"other\":1}").is_err());
    }
}
