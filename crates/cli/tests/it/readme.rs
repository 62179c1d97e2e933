//! The documents, kept true: every transcript is run as it stands, and the reference is the help.
//!
//! A block that is fenced as `console` is a transcript. A line that begins with `$ ` is a command, which goes on while
//! its lines end with `\`; what follows is its output, both streams together. A line `...` stands for any number of
//! lines, ` ...` at an end for the rest of the line, and a command without output may print what it likes. Ids, digests, times and measured figures match any
//! other of their kind. A command ends with 0, unless its line says otherwise (`|| echo "exit $?"`). The commands of
//! one document run in order, in one folder, once for each user.
//!
//! `UPDATE_EXPECT=1 cargo test -p bailiwick-cli readme` writes `docs/reference.md` anew.
use crate::support::{each_user, plain, sha256};
use bailiwick_testkit::{Output, TestEnv};
use expect_test::expect_file;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The documents that have transcripts.
const TRANSCRIPTS: [&str; 2] = ["README.md", "docs/guide.md"];

/// The documents whose links are checked.
const LINKING: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benches/README.md",
    "docs/concepts.md",
    "docs/exit-codes.md",
    "docs/fake.md",
    "docs/guide.md",
    "docs/reference.md",
];

/// What stands for any number of lines.
const ELISION: &str = "...";

/// Figures that differ from run to run, and what they are based on, which differs from host to host.
const MEASURED: [&str; 6] = [
    "wall_time_seconds",
    "cpu_seconds",
    "max_memory_bytes",
    "max_memory_basis",
    "storage_bytes",
    "duration_ms",
];

/// One command of a transcript and what it prints.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    command: String,
    printed: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

/// Returns the transcripts of a document, each as its steps.
fn transcripts(text: &str) -> Vec<Vec<Step>> {
    let mut lines = text.lines();
    let mut found = Vec::new();
    while lines.by_ref().any(|line| line == "```console") {
        found.push(steps(lines.by_ref().take_while(|line| *line != "```")));
    }
    found
}

fn steps<'t>(lines: impl Iterator<Item = &'t str>) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), printed: Vec::new() });
            goes_on = line.ends_with('\\');
            continue;
        }
        let step = steps.last_mut().expect("a transcript begins with a command");
        if goes_on {
            step.command = format!("{}\n{line}", step.command);
            goes_on = line.ends_with('\\');
        } else {
            step.printed.push(line.to_owned());
        }
    }
    steps
}

/// Whether the command is one that this test does not run: it builds, or runs this very test.
fn is_script(step: &Step) -> bool {
    step.command.starts_with("./scripts/")
}

/// Runs one command in a shell, as a reader would.
fn shell(env: &TestEnv, command: &str) -> Output {
    env.host("sh", ["-c", &format!("exec 2>&1\n{command}\n")])
}

/// Puts the command under test first in the `PATH`.
fn enter(env: &mut TestEnv) {
    let mut path = OsString::from(env.program().parent().expect("it lies somewhere"));
    path.push(":/usr/local/bin:/usr/bin:/bin");
    env.set("PATH", path);
}

/// Replaces what differs from run to run.
fn steady(line: &str) -> String {
    let trimmed = line.trim_start().trim_start_matches("- ");
    if let Some((key, _)) = trimmed.split_once(": ").filter(|(key, _)| MEASURED.contains(key)) {
        return format!("{}{key}: <measured>", &line[..line.len() - trimmed.len()]);
    }
    let in_word = |c: char| c.is_ascii_alphanumeric() || "-+.:_".contains(c);
    let mut out = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(in_word) {
        let length = rest[start..].find(|c| !in_word(c)).unwrap_or(rest.len() - start);
        let (word, after) = rest[start..].split_at(length);
        write!(out, "{}{}", &rest[..start], steady_word(word)).expect("a String takes any text");
        rest = after;
    }
    out + rest
}

fn steady_word(word: &str) -> String {
    let bare = word.trim_end_matches(['.', ':']);
    let tail = &word[bare.len()..];
    let hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    if let Some((prefix, _)) = bare.split_once('-').filter(|(_, id)| hex(id, 12)) {
        return format!("{prefix}-<id>{tail}");
    }
    if hex(bare.trim_start_matches("sha256:"), 64) {
        return format!("<digest>{tail}");
    }
    let is_time = bare.len() > 19 && bare.is_ascii() && bare[10..].starts_with('T');
    if is_time { format!("<time>{tail}") } else { word.to_owned() }
}

/// Returns whether `printed` is what `wanted` says, whose elisions stand for any number of lines.
fn agrees(wanted: &[String], printed: &[String]) -> bool {
    match wanted.split_first() {
        None => printed.is_empty(),
        Some((line, rest)) if line.trim() == ELISION => {
            (0..=printed.len()).any(|skipped| agrees(rest, &printed[skipped..]))
        }
        Some((line, rest)) => {
            printed.first().is_some_and(|first| is_line(line, first)) && agrees(rest, &printed[1..])
        }
    }
}

fn is_line(wanted: &str, printed: &str) -> bool {
    match wanted.strip_suffix(" ...") {
        Some(start) => printed.starts_with(start),
        None => printed == wanted,
    }
}

/// Returns how a command differs from its transcript, if it does.
fn difference(step: &Step, output: &Output) -> Option<String> {
    let lines = |text: &str| text.lines().map(|line| steady(line.trim_end())).collect::<Vec<_>>();
    let (wanted, printed) = (lines(&step.printed.join("\n")), lines(output.out()));
    let agree = wanted.is_empty() || agrees(&wanted, &printed);
    (output.code() != Some(0) || !agree).then(|| {
        format!(
            "$ {}\n--- the document says:\n{}\n--- it printed, and ended with {:?}:\n{}\n",
            step.command,
            wanted.join("\n"),
            output.code(),
            printed.join("\n")
        )
    })
}

/// Runs what a document says, in order and in one folder.
fn follow(document: &str, env: &mut TestEnv) {
    let transcripts = transcripts(&read(document));
    assert!(!transcripts.is_empty(), "{document} has transcripts");
    enter(env);
    let steps = transcripts.iter().flatten().filter(|step| !is_script(step));
    let wrong: Vec<String> =
        steps.filter_map(|step| difference(step, &shell(env, &step.command))).collect();
    assert!(wrong.is_empty(), "{document}\n{}", wrong.join("\n"));
}

#[test]
fn every_transcript_runs_as_it_stands() {
    for document in TRANSCRIPTS {
        each_user(|env| follow(document, env));
    }
}

#[test]
fn the_example_of_the_fake_provider_needs_no_sandbox() {
    follow("docs/fake.md", &mut plain());
}

#[test]
fn the_first_screen_installs_runs_and_tests() {
    let transcripts = transcripts(&read("README.md"));
    let [install, exec, test] = &transcripts[0][..] else {
        panic!("three commands: {transcripts:?}")
    };
    for (step, script) in [(install, "./scripts/install"), (test, "./scripts/test")] {
        let typed = step.command.split(" #").next().unwrap_or_default().trim();
        assert_eq!(typed, script);
        assert!(root().join(script).is_file(), "{script} is there");
    }
    each_user(|env| {
        enter(env);
        let output = shell(env, &exec.command).exits(0);
        let exported = fs::read(env.work().join("pi.json")).expect("it was exported");
        let digest = output.out().lines().find_map(|line| line.strip_prefix("  - digest: "));
        assert_eq!(digest, Some(sha256(&exported).as_str()), "{output}");
        assert_eq!(exported, b"{\"pi\": 3.1415926536}");
    });
}

/// Returns the targets of the Markdown links of `text`, code left out.
fn links(text: &str) -> Vec<String> {
    let fenced = text.split("\n```").step_by(2);
    let plain = fenced.flat_map(|part| part.split('`').step_by(2)).collect::<Vec<_>>().join("`");
    let targets = plain.split("](").skip(1);
    targets.filter_map(|part| part.split_once(')').map(|(target, _)| target.to_owned())).collect()
}

/// Returns the anchors of the headings of `text`, as code hosts make them.
fn anchors(text: &str) -> Vec<String> {
    let anchor = |heading: &str| -> String {
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn every_link_leads_to_a_file_and_to_a_heading() {
    let mut broken = Vec::new();
    for document in LINKING {
        let folder = root().join(document).parent().expect("it lies somewhere").to_owned();
        for link in links(&read(document)).iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(document) } else { folder.join(path) };
            let found = target.exists()
                && (anchor.is_empty()
                    || fs::read_to_string(&target)
                        .is_ok_and(|text| anchors(&text).iter().any(|one| one == anchor)));
            if !found {
                broken.push(format!("{document}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// What `docs/reference.md` says before the help.
const PREFACE: &str = "\
# Reference

Every verb and every flag, as `--help` prints them. This file is generated and tested:
`UPDATE_EXPECT=1 cargo test -p bailiwick-cli --test it readme` writes it anew. Exit codes: [exit-codes.md](exit-codes.md).
JSON schemas: [package.json](../schemas/package.json), [error.json](../schemas/error.json).
";

#[test]
fn the_reference_is_the_help_of_every_verb() {
    let env = plain();
    let help = |verb: &[&str]| -> String {
        let output = env.run([verb, &["--help"]].concat()).exits(0);
        output.out().trim_end().to_owned()
    };
    let all = help(&[]);
    let listed = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next());
    let mut page = format!("{PREFACE}\n## bailiwick\n\n```text\n{all}\n```\n");
    for verb in verbs {
        write!(page, "\n## {verb}\n\n```text\n{}\n```\n", help(&[verb]))
            .expect("a String takes any text");
    }
    expect_file!["../../../../docs/reference.md"].assert_eq(&page);
}

#[test]
fn a_transcript_is_read_as_commands_and_their_output() {
    let text = "# A\n```console\n$ one \\\n  two\nout\n...\n$ three\n```\n```sh\n$ no\n```\n";
    let step = |command: &str, printed: &[&str]| Step {
        command: command.into(),
        printed: printed.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(transcripts(text), [[step("one \\\n  two", &["out", "..."]), step("three", &[])]]);
}

#[test]
fn an_elision_stands_for_any_number_of_lines_and_a_line_for_itself() {
    let check = |wanted: &str, printed: &str, agree: bool| {
        let lines = |text: &str| text.split_terminator('/').map(steady).collect::<Vec<_>>();
        assert_eq!(agrees(&lines(wanted), &lines(printed)), agree, "{wanted} and {printed}");
    };
    check("a/b", "a/b", true);
    check("a/b", "a/c", false);
    check("a/.../d", "a/b/c/d", true);
    check("a/...", "a", true);
    check(".../b/...", "a/c", false);
    check("a b ...", "a b c", true);
    check("a b ...", "a", false);
    check("job job-0123456789ab ended", "job job-ba9876543210 ended", true);
    check("job job-0123456789ab ended", "job ws-ba9876543210 ended", false);
    check("- cpu_seconds: 0.1", "- cpu_seconds: 0.2", true);
    check("- exit_status: 0", "- exit_status: 1", false);
}
