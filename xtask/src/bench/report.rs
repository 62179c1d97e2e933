//! The result of a bench: one value, as Markdown for people and as JSON for scripts.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::rows::{Measure, Row};
use super::stats::{Samples, Summary, Verdict, judge, measure, summarise};

/// What was measured for one row by one person.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) row: &'static Row,
    pub(crate) person: String,
    pub(crate) samples: Samples,
}

impl Measured {
    /// Returns a verdict for each bar of the row.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        judge(self.row.bars, &self.samples)
    }
}

/// Returns the results as JSON.
pub(crate) fn document(machine: &Value, results: &[Measured]) -> Value {
    json!({ "machine": machine, "results": results.iter().map(json_of_one).collect::<Vec<_>>() })
}

fn json_of_one(result: &Measured) -> Value {
    let bars = result.verdicts().into_iter().map(|verdict| {
        json!({
            "measure": name(verdict.bar.measure),
            "value": verdict.value,
            "at_most": verdict.bar.at_most,
            "binding": verdict.bar.binding,
            "within": verdict.within(),
        })
    });
    json!({
        "bench": result.row.name,
        "user": result.person,
        "ours": side(&result.samples.ours),
        "theirs": side(&result.samples.theirs),
        "ours_command": result.row.ours,
        "theirs_command": result.row.theirs,
        "bars": bars.collect::<Vec<_>>(),
    })
}

fn side(runs: &[std::time::Duration]) -> Value {
    let summary = summarise(runs);
    let ms = |pick: fn(&Summary) -> f64| summary.as_ref().map(pick);
    json!({
        "runs": runs.len(),
        "p50_ms": ms(|summary| summary.p50),
        "p95_ms": ms(|summary| summary.p95),
        "p99_ms": ms(|summary| summary.p99),
    })
}

/// Returns the results as a Markdown document.
pub(crate) fn markdown(machine: &Value, results: &[Measured]) -> String {
    let mut text = String::from("# Bench\n\n");
    for (key, value) in machine.as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        writeln!(text, "- {key}: {value}").expect("a String takes any text");
    }
    text.push_str("\nMilliseconds as p50 / p95 / p99; the ratio is ours over the peer's.\n\n");
    text.push_str("| bench | user | runs | ours | peer | ratio p50 | ratio p95 | bars |\n");
    text.push_str("|---|---|---|---|---|---|---|---|\n");
    for result in results {
        text.push_str(&line(result));
    }
    text
}

fn line(result: &Measured) -> String {
    let samples = &result.samples;
    let percentiles = |runs| {
        summarise(runs).map_or_else(
            || "-".into(),
            |summary| format!("{:.2} / {:.2} / {:.2}", summary.p50, summary.p95, summary.p99),
        )
    };
    let ratio = |which| {
        measure(which, samples).map_or_else(|| "-".into(), |ratio: f64| format!("{ratio:.2}"))
    };
    let bars: Vec<String> = result.verdicts().iter().map(words).collect();
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
        result.row.name,
        result.person,
        samples.ours.len(),
        percentiles(&samples.ours),
        percentiles(&samples.theirs),
        ratio(Measure::RatioP50),
        ratio(Measure::RatioP95),
        bars.join("; "),
    )
}

/// Says a verdict in words, such as `ratio p50 1.08 <= 1.3`.
pub(crate) fn words(verdict: &Verdict) -> String {
    let value = verdict.value.map_or_else(|| "nothing".into(), |value| format!("{value:.2}"));
    let end = match (verdict.within(), verdict.bar.binding) {
        (true, _) => "",
        (false, true) => ": FAILED",
        (false, false) => ": target missed",
    };
    let sign = if verdict.within() { "<=" } else { "over" };
    format!("{} {value} {sign} {}{end}", name(verdict.bar.measure), verdict.bar.at_most)
}

fn name(measure: Measure) -> &'static str {
    match measure {
        Measure::RatioP50 => "ratio p50",
        Measure::RatioP95 => "ratio p95",
        Measure::OverMs => "ms over",
        Measure::SupervisorMib => "supervisor MiB",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{Measured, document, markdown};
    use crate::bench::rows;
    use crate::bench::stats::Samples;

    fn measured(ours_ms: u64) -> Measured {
        let samples = Samples {
            ours: vec![Duration::from_millis(ours_ms)],
            theirs: vec![Duration::from_millis(10)],
            supervisor_kib: None,
        };
        let row = rows::find("exec-true").expect("a row of the table");
        Measured { row, person: "root".into(), samples }
    }

    #[test]
    fn a_line_says_which_bar_and_which_target_was_missed() {
        let machine = json!({ "kernel": "6.1", "cores": 2 });
        let text = markdown(&machine, &[measured(12), measured(14)]);
        assert!(text.contains("- kernel: 6.1\n"), "{text}");
        assert!(text.contains("ratio p50 1.20 <= 1.3; ratio p50 1.20 over 1.15: target missed"));
        assert!(text.contains("ratio p50 1.40 over 1.3: FAILED"), "{text}");
    }

    #[test]
    fn the_document_holds_both_sides() {
        let document = document(&json!({}), &[measured(12)]);
        let result = &document["results"][0];
        assert_eq!(result["ours"]["p50_ms"], 12.0);
        assert_eq!(result["theirs"]["p50_ms"], 10.0);
        assert_eq!(result["bars"][0]["within"], true);
    }
}
