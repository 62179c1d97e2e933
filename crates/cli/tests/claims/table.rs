//! Tries the claims of a theme as every user, prints what came of each, and fails with those that do not hold.
use crate::claim::{Claim, Verdict};
use crate::scene::Scene;
use bailiwick_testkit::User;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Tries `claims`.
#[track_caller]
pub(crate) fn check(theme: &str, claims: &[Claim]) {
    let mut table =
        format!("{theme:<24}  {:<9}  {:<24}  {:<24}\n", "user", "inside", "control outside");
    let mut wrong = Vec::new();
    for user in User::all() {
        let mut scene = Scene::new(*user);
        for claim in claims.iter().filter(|claim| claim.is_made_for(*user)) {
            let verdict = claim.judge(&mut scene);
            writeln!(table, "{}", row(claim, *user, &verdict)).expect("a String takes any text");
            if let Some(why) = verdict.lacking() {
                skip(&format!("the claim {} as {user:?}: {why}", claim.id));
            } else if !verdict.holds() {
                wrong.push(format!("{} as {user:?}: {}", claim.id, claim.sentence));
                wrong.push(format!("  inside: {}\n  outside: {}", verdict.inside, verdict.control));
            }
        }
    }
    for claim in claims.iter().filter(|claim| !User::all().iter().any(|u| claim.is_made_for(*u))) {
        skip(&format!("the claim {}: only root can try it", claim.id));
    }
    show(&table);
    assert!(wrong.is_empty(), "claims that do not hold:\n{}\n{table}", wrong.join("\n"));
}

fn row(claim: &Claim, user: User, verdict: &Verdict) -> String {
    let cut = |text: String| text.lines().next().unwrap_or_default().chars().take(24).collect();
    let [inside, control]: [String; 2] =
        [&verdict.inside, &verdict.control].map(|seen| cut(seen.to_string()));
    let user = format!("{user:?}").to_lowercase();
    format!("{:<24}  {user:<9}  {inside:<24}  {control:<24}", claim.id)
}

/// Shows the table also where the test holds: a print macro would be captured.
fn show(table: &str) {
    std::io::stderr().write_all(table.as_bytes()).ok();
}

/// Names a claim that could not be tried.
#[expect(clippy::disallowed_methods, reason = "tests have their own variables")]
fn skip(reason: &str) {
    show(&format!("skipped: {reason}\n"));
    let Some(path) = std::env::var_os("BAILIWICK_TEST_SKIPS") else { return };
    let mut file =
        OpenOptions::new().append(true).create(true).open(path).expect("a list of skips");
    writeln!(file, "{reason}").expect("the list can be written");
}
