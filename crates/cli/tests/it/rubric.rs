//! What every verb has, checked over the verbs that `learn` names, so that a new one is under it from its first day.
//!
//! `--json`, an example in the help, a page of `explain`, and refusals of one form: nothing on standard output, two lines
//! or one object on standard error, something to do next, and the documented exit code.
use crate::support::plain;
use bailiwick_contract::error::ExitCode;
use bailiwick_testkit::{Output, TestEnv};
use serde_json::Value;

/// Returns the words of every verb.
fn verbs(env: &TestEnv) -> Vec<Vec<String>> {
    let lesson = env.json(0, &["learn"]);
    let commands = lesson["commands"].as_array().expect("a list").clone();
    let path = |entry: Value| serde_json::from_value(entry["path"].clone()).expect("words");
    let paths: Vec<Vec<String>> = commands.into_iter().map(path).collect();
    assert!(paths.len() > 15, "{paths:?}");
    paths
}

/// Calls `test` with each verb, its words as they are typed, and its help.
fn each_verb(test: impl Fn(&TestEnv, &[&str], &str)) {
    let env = plain();
    for path in verbs(&env) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let help = env.run([&words[..], &["--help"]].concat()).exits(0);
        test(&env, &words, help.out());
    }
}

/// Returns the lines of a help that follow `heading`, up to an empty one.
fn section<'h>(help: &'h str, heading: &str) -> Vec<&'h str> {
    let after = help.lines().skip_while(|line| *line != heading).skip(1);
    after.take_while(|line| !line.is_empty()).collect()
}

#[test]
fn every_verb_takes_json_and_says_so() {
    each_verb(|_, words, help| {
        let flags = section(help, "Options:");
        assert!(
            flags.iter().any(|line| line.trim_start().starts_with("--json ")),
            "{words:?}: {help}"
        );
    });
}

#[test]
fn the_help_of_every_verb_has_an_example_of_that_verb() {
    each_verb(|_, words, help| {
        let start = format!("  bailiwick {}", words.join(" "));
        let examples = section(help, "Examples:");
        assert!(!examples.is_empty(), "{words:?}: {help}");
        assert!(examples.iter().all(|line| line.starts_with("  bailiwick ")), "{words:?}: {help}");
        assert!(examples.iter().any(|line| line.starts_with(&start)), "{words:?}: {help}");
    });
}

#[test]
fn every_verb_has_a_page_with_its_flags_and_its_exit_codes() {
    each_verb(|env, words, help| {
        let page = env.run([&["explain"][..], words].concat()).exits(0);
        let page = page.out();
        assert!(page.starts_with(&format!("# bailiwick {}\n", words.join(" "))), "{page}");
        for flag in help.lines().filter_map(|line| line.trim_start().strip_prefix("--")) {
            let flag = flag.split(' ').next().expect("a word");
            assert!(page.contains(&format!("--{flag}")), "--{flag}: {page}");
        }
        for heading in ["## Usage", "## What it leaves", "## Exit codes"] {
            assert!(page.contains(&format!("\n{heading}\n\n")), "{words:?} {heading}: {page}");
        }
    });
}

/// Returns words for every required argument that a verb's usage names.
///
/// What names a workspace or a job names one that is not there; a command is left out; of anything
/// else there is one too many.
fn wrong_words(help: &str) -> Vec<String> {
    let usage = help.lines().find_map(|line| line.strip_prefix("Usage: bailiwick "));
    let usage = usage.unwrap_or_else(|| panic!("a usage: {help}"));
    let mut words: Vec<String> = Vec::new();
    let mut names_one = false;
    for word in usage.split(' ').filter(|word| word.starts_with("--") || word.starts_with('<')) {
        names_one |= ["<WORKSPACE>", "<HANDLE>", "<JOB>"].contains(&word);
        words.push(match word {
            "<WORKSPACE>" | "<HANDLE>" => "nowhere".to_owned(),
            "<JOB>" => "job-000000000000".to_owned(),
            flag if flag.starts_with("--") => flag.to_owned(),
            _ => "x".to_owned(),
        });
    }
    if names_one {
        return words;
    }
    if words.iter().any(|word| word == "--") {
        return vec!["--".to_owned()];
    }
    words.into_iter().chain(["x".into(), "y".into()]).collect()
}

/// Checks a refusal in both forms.
fn check(env: &TestEnv, verb: &[&str], wrong: &[&str]) {
    let text = env.run([verb, wrong].concat());
    let code = refused(&text);
    check_text(&text);
    let json = env.run([verb, &["--json"], wrong].concat());
    assert_eq!(refused(&json), code, "both forms end alike: {json}");
    check_json(&json, code);
}

/// Returns the exit code of a refusal, which has no result.
fn refused(output: &Output) -> i32 {
    assert!(output.stdout.is_empty(), "an error has no result: {output}");
    let code = output.code().unwrap_or_else(|| panic!("it ends by itself: {output}"));
    // Whatever is wrong with the words is the caller's to mend.
    assert_eq!(code, 1, "{output}");
    code
}

fn check_text(output: &Output) {
    let lines: Vec<&str> = output.err().lines().collect();
    let [error, hint] = lines[..] else { panic!("two lines: {output}") };
    assert!(error.starts_with("error: ") && error.len() > 15, "{output}");
    assert!(hint.starts_with("hint: ") && hint.len() > 15, "{output}");
}

fn check_json(output: &Output, code: i32) {
    assert_eq!(output.err().lines().count(), 1, "one line: {output}");
    let error = output.error();
    let category = ExitCode::ALL.into_iter().find(|one| i32::from(one.code()) == code);
    assert_eq!(error["code"], code, "{output}");
    assert_eq!(error["category"], category.expect("it is one of the nine").category(), "{output}");
    for key in ["message", "remediation", "reason"] {
        assert!(error[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {output}");
    }
}

#[test]
fn every_verb_refuses_what_it_does_not_know_in_one_form() {
    each_verb(|env, verb, help| {
        check(env, verb, &["--no-such-flag"]);
        check(env, verb, &["--help=yes"]);
        let wrong = wrong_words(help);
        check(env, verb, &wrong.iter().map(String::as_str).collect::<Vec<_>>());
    });
}

#[test]
fn a_verb_that_takes_a_workspace_names_the_one_that_is_not_there() {
    let env = plain();
    // `put` looks at the host first.
    drop(env.write("x", ""));
    let mut checked = 0;
    for path in verbs(&env) {
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let help = env.run([&words[..], &["--help"]].concat()).exits(0);
        if !help
            .out()
            .lines()
            .any(|line| line.starts_with("Usage:") && line.contains("<WORKSPACE>"))
        {
            continue;
        }
        let wrong = wrong_words(help.out());
        let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
        let error = env.json(1, &[&words[..], &wrong].concat());
        assert_eq!(error["reason"], "unknown_workspace", "{words:?}: {error}");
        checked += 1;
    }
    assert!(checked >= 5, "{checked} verbs take a workspace");
}

#[test]
fn words_for_a_verb_follow_from_its_usage() {
    let words =
        |usage: &str| wrong_words(&format!("A verb\n\nUsage: bailiwick {usage}\n")).join(" ");
    assert_eq!(words("export [OPTIONS] --to <PATH> <WORKSPACE> <NAME>"), "--to x nowhere x");
    assert_eq!(words("exec [OPTIONS] -- <COMMAND>..."), "--");
    assert_eq!(words("list [OPTIONS]"), "x y");
}
