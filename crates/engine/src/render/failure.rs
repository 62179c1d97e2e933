//! A failure as its caller sees it: two lines of text, or one line of JSON.
//!
//! A message may quote an argument or a path, so it is shown like any other text that is not ours. What the codes and
//! words mean is the contract's business.
use super::escape::escape_line;
use super::json::json_line;
use bailiwick_contract::error::{ExitCode, Failure};

/// Returns `error: …`, where there is something to do `hint: …`, and a `note: …` for each thing that was settled on the
/// way; without a final newline.
#[must_use]
pub fn failure_text(failure: &Failure) -> String {
    let mut text = failure_lines(failure);
    for note in &failure.notes {
        text.extend(["\nnote: ", &escape_line(note)]);
    }
    text
}

fn failure_lines(failure: &Failure) -> String {
    let message = escape_line(&failure.message);
    let error = if failure.code >= ExitCode::PolicyDenied {
        format!("error: [{}] {message}", failure.code.category())
    } else {
        format!("error: {message}")
    };
    if failure.remediation.is_empty() {
        return error;
    }
    format!("{error}\nhint: {}", escape_line(&failure.remediation))
}

/// Returns the failure as one line of JSON, without a newline.
#[must_use]
pub fn failure_json(failure: &Failure) -> String {
    json_line(&failure.to_wire())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_refusal_says_its_category_and_what_to_do() {
        let failure = Failure::new(
            ExitCode::PolicyDenied,
            "limit_unenforceable",
            "this host can only watch memory=\u{1b}[2J536870912",
            "pass --allow-watched",
        );
        expect![[r"
            error: [policy_denied] this host can only watch memory=\x1b[2J536870912
            hint: pass --allow-watched"]]
        .assert_eq(&failure_text(&failure));
        expect![[r#"{"code": 3, "message": "this host can only watch memory=\u001b[2J536870912", "remediation": "pass --allow-watched", "category": "policy_denied", "reason": "limit_unenforceable", "retryable": false}"#]]
        .assert_eq(&failure_json(&failure));
    }

    #[test]
    fn what_was_settled_on_the_way_is_told_too() {
        let notes = ["reconciled workspace a: its\nremoval was finished".to_owned()];
        let failure = Failure::user("workspace_destroyed", "gone", "").noting(&notes);
        expect![[r"
            error: gone
            note: reconciled workspace a: its\nremoval was finished"]]
        .assert_eq(&failure_text(&failure));
        assert!(failure_json(&failure).contains("\"notes\": [\"reconciled workspace a:"));
    }

    #[test]
    fn a_users_mistake_has_no_category_and_may_lack_a_hint() {
        let failure = Failure::user("unknown_workspace", "no workspace `a\nb`", "");
        expect![r"error: no workspace `a\nb`"].assert_eq(&failure_text(&failure));
    }
}
