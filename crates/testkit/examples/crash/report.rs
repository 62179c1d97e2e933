//! What is printed: progress, the table, the coverage, and each finding with the line that repeats it.
use crate::case::Case;
use crate::model::Finding;
use bailiwick_testkit::User;
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Points that no scenario passes, each with its reason.
const NOT_PASSED: &[(&str, &str)] = &[];

/// A scenario's part of the matrix.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// Its name.
    pub(crate) scenario: &'static str,
    /// How often a point was passed.
    pub(crate) passings: usize,
    /// The cases.
    pub(crate) cases: usize,
    /// The combinations in which there is nobody to kill.
    pub(crate) not_applicable: usize,
}

/// What came of one case.
#[derive(Debug)]
pub(crate) struct Result {
    /// The case.
    pub(crate) case: Case,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
    /// Whoever should have been killed had gone by itself this time.
    pub(crate) missed: bool,
}

/// What came of the matrix of one user.
#[derive(Debug)]
pub(crate) struct Played {
    /// Who.
    pub(crate) user: User,
    /// The table.
    pub(crate) rows: Vec<Row>,
    /// The points that the programs have; `append:` ones by change.
    pub(crate) declared: BTreeSet<String>,
    /// The points that were passed.
    pub(crate) passed: BTreeSet<String>,
    /// The cases.
    pub(crate) results: Vec<Result>,
}

impl Default for Played {
    fn default() -> Self {
        Self {
            user: User::Ordinary,
            rows: Vec::new(),
            declared: BTreeSet::new(),
            passed: BTreeSet::new(),
            results: Vec::new(),
        }
    }
}

/// Says how far it is, now and then, and each finding at once.
pub(crate) fn progress(done: usize, all: usize, last: Option<&Result>) {
    if let Some(result) = last.filter(|result| !result.findings.is_empty()) {
        println!("FAILED {}", result.case);
        result.findings.iter().for_each(|finding| println!("  {finding:?}"));
    }
    if done.is_multiple_of(50) || done == all {
        println!("{done}/{all}");
    }
}

/// Returns the declared points that were not passed.
fn uncovered(declared: &BTreeSet<String>, passed: &BTreeSet<String>) -> Vec<String> {
    let is_passed = |point: &&String| match point.strip_prefix("append:") {
        Some(change) => passed.iter().any(|passed| {
            let parts = passed.strip_prefix("append:").unwrap_or_default().split('+');
            parts.into_iter().any(|part| part.split('(').next() == Some(change))
        }),
        None => passed.contains(*point),
    };
    declared.iter().filter(|point| !is_passed(point)).cloned().collect()
}

/// Prints the sum and returns whether the matrix holds; `whole` says that every scenario was wanted.
pub(crate) fn finish(played: &[Played], whole: bool) -> ExitCode {
    let mut good = true;
    for one in played {
        table(one);
        let missing = uncovered(&one.declared, &one.passed);
        let excuse = |point: &String| NOT_PASSED.iter().find(|(name, _)| name == point);
        for point in &missing {
            match excuse(point) {
                Some((_, reason)) => println!("not passed: {point}: {reason}"),
                None if whole => {
                    good = false;
                    println!("NOT PASSED: {point}; add a scenario, or a reason");
                }
                None => {}
            }
        }
        let passed = one.declared.len() - missing.len();
        println!("coverage: {passed} of {} points are passed", one.declared.len());
        good &= sum(one);
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn table(played: &Played) {
    println!("\n{:<18} {:>8} {:>8} {:>15}", "scenario", "passings", "cases", "not applicable");
    for Row { scenario, passings, cases, not_applicable } in &played.rows {
        println!("{scenario:<18} {passings:>8} {cases:>8} {not_applicable:>15}");
    }
}

fn sum(played: &Played) -> bool {
    let findings = || played.results.iter().flat_map(|result| &result.findings);
    let lost = findings().filter(|finding| matches!(finding, Finding::Lost(_))).count();
    let wrong = findings().count() - lost;
    for result in played.results.iter().filter(|result| !result.findings.is_empty()) {
        println!("cargo xtask crash --only '{}'", result.case);
        result.findings.iter().for_each(|finding| println!("  {finding:?}"));
    }
    let absent: usize = played.rows.iter().map(|row| row.not_applicable).sum();
    let missed = played.results.iter().filter(|result| result.missed).count();
    println!(
        "matrix as {:?}: {} cases, {absent} not applicable (nobody to kill there), {missed} missed (gone by itself), {lost} lost outcomes, {wrong} wrong states",
        played.user,
        played.results.len(),
    );
    lost + wrong == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_that_nothing_passes_is_found() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let declared: BTreeSet<String> =
            set(&["effect:run", "effect:stop", "append:job_added", "append:job_ended"]);
        let passed = set(&["effect:run", "append:intent_opened(run)+job_added"]);
        assert_eq!(uncovered(&declared, &passed), ["append:job_ended", "effect:stop"]);
    }
}
