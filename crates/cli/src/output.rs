//! What goes out: results on standard output, everything else on standard error, and the exit code.
//!
//! The only file that prints. A reader that went away ends the output quietly; the exit code stays that of the result.
#![expect(clippy::print_stderr, reason = "this is where notes and errors are printed")]
use crate::args::CommonArgs;
use bailiwick_contract::error::{self, Failure};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::ByteSink;
use bailiwick_engine::grep::MatchingLogs;
use bailiwick_engine::logs::CapturedLogs;
use bailiwick_engine::render::{self, Sections, Terminal};
use bailiwick_engine::requests::Report;
use serde::Serialize;
use std::cell::RefCell;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

/// What a verb answers.
#[derive(Debug)]
pub(crate) struct Outcome {
    text: Vec<u8>,
    exit: error::ExitCode,
}

impl Outcome {
    /// Text, as it is.
    pub(crate) fn text(text: impl Into<Vec<u8>>) -> Self {
        Self { text: text.into(), exit: error::ExitCode::Success }
    }

    /// One line.
    fn line(mut text: String) -> Self {
        text.push('\n');
        Self::text(text)
    }

    /// One line of JSON.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        Self::line(render::json_line(value))
    }

    /// A result package, in the form that was asked for.
    pub(crate) fn package(report: &Report, common: &CommonArgs) -> Self {
        let form = if common.base.json { render::json } else { render::markdown };
        Self::line(form(&report.package, common.sections())).with_exit(report.exit)
    }

    /// One section of a result package, by its key.
    pub(crate) fn section(report: &Report, key: &str, json: bool) -> Self {
        let outcome = if json {
            Self::line(section_json(&report.package, key))
        } else {
            let place = SECTIONS.iter().position(|section| *section == key).unwrap_or_default();
            Self::line(nth_section(&render::markdown(&report.package, Sections::All), place))
        };
        outcome.with_exit(report.exit)
    }

    /// Captured output, as text or as one line of JSON; beside the text, what has to be known is said.
    pub(crate) fn logs(logs: &CapturedLogs, json: bool) -> Self {
        if json {
            return Self::json(logs);
        }
        logs.attention.iter().for_each(|line| note(line));
        Self::text(render::logs_text(logs))
    }

    /// The lines of captured output that match, as text or as one line of JSON.
    pub(crate) fn matches(logs: &MatchingLogs, json: bool) -> Self {
        if json {
            return Self::json(logs);
        }
        logs.attention.iter().for_each(|line| note(line));
        Self::text(render::matches_text(logs))
    }

    /// The same with another exit code.
    pub(crate) const fn with_exit(mut self, exit: error::ExitCode) -> Self {
        self.exit = exit;
        self
    }
}

/// The keys of a package, in order.
pub(crate) const SECTIONS: [&str; 10] = [
    "outcome_summary",
    "status",
    "key_findings",
    "evidence",
    "artifacts",
    "warnings",
    "resource_usage",
    "provenance",
    "attention",
    "facts",
];

/// Returns one section of a package as an object with one key.
fn section_json(package: &ResultPackage, key: &str) -> String {
    let value = match key {
        "outcome_summary" => render::json_line(&package.outcome_summary),
        "status" => render::json_line(&package.status),
        "key_findings" => render::json_line(&package.key_findings),
        "evidence" => render::json_line(&package.evidence),
        "artifacts" => render::json_line(&package.artifacts),
        "warnings" => render::json_line(&package.warnings),
        "resource_usage" => render::json_line(&package.resource_usage),
        "provenance" => render::json_line(&package.provenance),
        "attention" => render::json_line(&package.attention),
        _ => render::json_line(&package.facts),
    };
    format!("{{\"{key}\": {value}}}")
}

/// Returns one section of a package in Markdown: only a section's heading begins a line with `## `.
fn nth_section(markdown: &str, place: usize) -> String {
    let mut headings = 0;
    let lines = markdown.lines().filter(|line| {
        headings += usize::from(line.starts_with("## "));
        headings == place + 1
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// Prints a line about what goes on.
pub(crate) fn note(line: &str) {
    eprintln!("note: {line}");
}

/// Shows output of a job on standard error while it runs: as it is, or printable where that is a terminal.
#[derive(Debug)]
pub(crate) struct LiveOutput(Option<RefCell<Terminal>>);

impl LiveOutput {
    /// Finds out what standard error is.
    pub(crate) fn new() -> Self {
        Self(io::stderr().is_terminal().then(RefCell::default))
    }

    /// Shows the next piece.
    ///
    /// # Errors
    /// Where standard error takes no more.
    pub(crate) fn show(
        &self,
        bytes: &[u8],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let mut stderr = io::stderr().lock();
        match &self.0 {
            Some(terminal) => stderr.write_all(terminal.borrow_mut().show(bytes).as_bytes())?,
            None => stderr.write_all(bytes)?,
        }
        Ok(stderr.flush()?)
    }

    /// Shows what waits for the rest of a character.
    pub(crate) fn finish(&self) {
        let Some(terminal) = &self.0 else { return };
        // Where standard error is gone, there is nobody to show it to.
        drop(io::stderr().write_all(terminal.borrow_mut().finish().as_bytes()));
    }
}

/// What the last bug said, for the thread that runs the verb.
static BUG: Mutex<String> = Mutex::new(String::new());

/// Keeps the runtime from printing a bug in a form of its own.
pub(crate) fn catch_bugs() {
    panic::set_hook(Box::new(|bug| {
        let mut told = BUG.lock().unwrap_or_else(PoisonError::into_inner);
        *told = bug.to_string();
    }));
}

/// Runs a verb, and makes a failure of a bug in it.
///
/// # Errors
/// The verb's own failure, or `bug`.
pub(crate) fn caught(verb: impl FnOnce() -> Result<Outcome, Failure>) -> Result<Outcome, Failure> {
    panic::catch_unwind(AssertUnwindSafe(verb)).unwrap_or_else(|_| {
        let told = BUG.lock().unwrap_or_else(PoisonError::into_inner);
        let advice =
            "report it as a bug, with this message; `bailiwick inspect` shows what was done";
        Err(Failure::new(
            error::ExitCode::InfrastructureFailure,
            "bug",
            format!("unexpected: {told}"),
            advice,
        ))
    })
}

/// Prints a verb's answer and returns its exit code.
pub(crate) fn finish(answer: Result<Outcome, Failure>, json: bool) -> ExitCode {
    let answer = answer.and_then(|outcome| match write(&outcome.text) {
        Ok(()) => Ok(outcome.exit),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(outcome.exit),
        Err(error) => Err(unwritable(&error)),
    });
    match answer {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            let form = if json { render::failure_json } else { render::failure_text };
            // Where standard error is gone, the exit code has to do.
            drop(writeln!(io::stderr(), "{}", form(&failure)));
            ExitCode::from(failure.code.code())
        }
    }
}

fn write(text: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text)?;
    stdout.flush()
}

fn unwritable(error: &io::Error) -> Failure {
    let message = format!("the result cannot be written to standard output: {error}");
    Failure::environment(
        "stdout",
        message,
        "`bailiwick list` and `bailiwick inspect` show what was done",
    )
}

/// Standard output, as a sink for bytes.
#[derive(Debug, Default)]
pub(crate) struct Stdout {
    /// Where what could act on a terminal is escaped: how far it came.
    terminal: Option<Terminal>,
    /// Why the last write failed; the reader that went away is told apart from a full disk by it.
    failed: Option<io::Error>,
}

impl ByteSink for Stdout {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let written = match &mut self.terminal {
            Some(terminal) => write(terminal.show(bytes).as_bytes()),
            None => write(bytes),
        };
        written.map_err(|error| {
            let told = io::Error::from(error.kind());
            self.failed = Some(error);
            told.into()
        })
    }
}

impl Stdout {
    /// One that a person may look at: on a terminal, what could act on it is escaped.
    pub(crate) fn for_eyes() -> Self {
        Self { terminal: io::stdout().is_terminal().then(Terminal::default), failed: None }
    }

    /// Makes the answer of what was streamed.
    ///
    /// # Errors
    /// Why the stream ended early, unless its reader went away.
    pub(crate) fn finish(self, streamed: Result<(), Failure>) -> Result<Outcome, Failure> {
        let rest = self.terminal.map(|mut terminal| terminal.finish()).unwrap_or_default();
        match self.failed {
            Some(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Outcome::text("")),
            Some(error) => Err(unwritable(&error)),
            None => streamed.map(|()| Outcome::text(rest)),
        }
    }
}
