//! What there is to know about the verbs: the table of arguments, read as data, and a page for each verb and topic.
//!
//! Verbs, flags and summaries come from the table that parses them; only what it cannot know is written here. Nothing of
//! this is made before a verb asks for it, so the others pay nothing.
mod pages;
mod topics;

use self::pages::{About, Group};
use crate::commands::Cli;
use bailiwick_contract::error::ExitCode;
use clap::CommandFactory as _;
use std::fmt::Write as _;

/// What the program is for, in one sentence.
pub(crate) const PURPOSE: &str = "A bounded workspace for AI agents: declare what may happen, run it in isolation, \
                                  get back evidence.";

/// The width of help inside a page, in columns.
const COLUMNS: usize = 100;

/// A verb, as the table of arguments knows it.
#[derive(Debug)]
pub(crate) struct Verb {
    /// Its words, such as `cli` and `overview`.
    pub(crate) path: Vec<String>,
    /// What it does, in a line.
    pub(crate) summary: String,
    /// Its row of the table.
    pub(crate) command: clap::Command,
}

impl Verb {
    /// Returns its words as they are typed.
    pub(crate) fn name(&self) -> String {
        self.path.join(" ")
    }

    /// Returns its name and its summary.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.name(), self.summary)
    }

    /// Returns what the table of arguments does not know.
    pub(crate) fn about(&self) -> Option<&'static About> {
        pages::about(&self.name())
    }
}

/// Returns the table of arguments, whole.
pub(crate) fn tree() -> clap::Command {
    let mut root = Cli::command().term_width(COLUMNS);
    root.build();
    root
}

/// Returns every verb, in the order of the help.
pub(crate) fn verbs(root: &clap::Command) -> Vec<Verb> {
    let mut found = Vec::new();
    collect(root, &[], &mut found);
    found
}

fn collect(command: &clap::Command, above: &[String], found: &mut Vec<Verb>) {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        let path = [above, &[inner.get_name().to_owned()]].concat();
        let summary = inner.get_about().map(ToString::to_string).unwrap_or_default();
        found.push(Verb { path: path.clone(), summary, command: inner.clone() });
        collect(inner, &path, found);
    }
}

/// Returns the verbs by kind, with the kind's title.
pub(crate) fn grouped(verbs: &[Verb]) -> [(&'static str, Vec<&Verb>); 2] {
    [Group::Lifecycle, Group::Introspection].map(|group| {
        let kind =
            |verb: &&Verb| verb.about().map_or(Group::Lifecycle, |about| about.group) == group;
        (group.title(), verbs.iter().filter(kind).collect())
    })
}

/// Returns a line for each verb, in two columns.
pub(crate) fn listed(verbs: &[&Verb]) -> String {
    let width = verbs.iter().map(|verb| verb.name().len()).max().unwrap_or_default();
    verbs.iter().fold(String::new(), |mut out, verb| {
        writeln!(out, "  {:width$}  {}", verb.name(), verb.summary)
            .expect("a String takes any text");
        out
    })
}

/// Returns what an exit code means, whatever the verb.
pub(crate) const fn meaning(code: ExitCode) -> &'static str {
    match code {
        ExitCode::Success => "the verb completed",
        ExitCode::UserError => {
            "the request has to change: a bad flag, an unknown id, a workspace that is busy"
        }
        ExitCode::EnvironmentError => "this machine has to be mended, such as a full disk",
        ExitCode::PolicyDenied => "the policy cannot be held here; nothing ran",
        ExitCode::Timeout => "the wall clock ended the job",
        ExitCode::Cancelled => "the job was stopped on request",
        ExitCode::ComputationFailed => "the job ran and failed",
        ExitCode::InfrastructureFailure => {
            "the sandbox broke, such as by the loss of its supervisor or of the workspace's disk"
        }
        ExitCode::ResourceExhausted => "the job was killed over a limit",
    }
}

/// Returns the page of a verb or a topic; the empty path is the program as a whole.
pub(crate) fn page(path: &[String]) -> Option<String> {
    let root = tree();
    let verbs = verbs(&root);
    if let Some(verb) = verbs.iter().find(|verb| verb.path == path) {
        return Some(verb_page(verb));
    }
    topics::page(&path.join(" "), &root, &verbs)
}

/// Returns the page of a verb: what it does, its flags, what it leaves, how it ends.
fn verb_page(verb: &Verb) -> String {
    let mut out = format!("# bailiwick {}\n\n{}.\n", verb.name(), verb.summary);
    let about = verb.about();
    if let Some(about) = about {
        write!(out, "\n{}\n", about.does).expect("a String takes any text");
    }
    let help = verb.command.clone().render_help().to_string();
    let usage = help.split_once("\n\n").map_or(help.as_str(), |(_, usage)| usage);
    write!(out, "\n## Usage\n\n```text\n{}\n```\n", usage.trim_end())
        .expect("a String takes any text");
    if let Some(about) = about {
        write!(out, "\n## What it leaves\n\n{}\n\n## Exit codes\n\n", about.leaves)
            .expect("a String takes any text");
        out.push_str(&codes(about.exits));
    }
    out
}

/// Returns a line for each code.
fn codes(codes: &[ExitCode]) -> String {
    codes.iter().fold(String::new(), |mut out, code| {
        writeln!(out, "- {} `{}`: {}", code.code(), code.category(), meaning(*code))
            .expect("a String takes any text");
        out
    })
}

/// How alike two names have to be, from 0 to 1: what clap asks of the verbs that it suggests.
const ALIKE_MIN: f64 = 0.7;

/// How many names are suggested.
const NEAR_MAX: usize = 3;

/// The longest text that is compared, in bytes; no name is half as long.
const COMPARED_BYTES_MAX: usize = 64;

/// Returns the names of the pages that come near to what was asked for, the nearest first.
pub(crate) fn near(said: &str) -> Vec<String> {
    if said.len() > COMPARED_BYTES_MAX {
        return Vec::new();
    }
    let verbs = verbs(&tree());
    let names = verbs.iter().map(Verb::name).chain(topics::NAMES.map(str::to_owned));
    let mut alike: Vec<(f64, String)> =
        names.map(|name| (strsim::jaro(said, &name), name)).collect();
    alike.retain(|(score, _)| *score > ALIKE_MIN);
    alike.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    alike.into_iter().take(NEAR_MAX).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_written_about() {
        let without: Vec<String> =
            verbs(&tree()).iter().filter(|verb| verb.about().is_none()).map(Verb::name).collect();
        assert!(without.is_empty(), "add to catalogue/pages.rs: {without:?}");
    }

    #[test]
    fn every_verb_can_succeed_and_be_asked_wrongly() {
        for about in pages::ALL {
            let both = [ExitCode::Success, ExitCode::UserError];
            assert!(about.exits.starts_with(&both), "{}: the codes begin with 0 and 1", about.verb);
            assert!(about.exits.is_sorted(), "{}", about.verb);
            assert!(about.does.len() > 40 && about.leaves.len() > 5, "{}", about.verb);
        }
    }

    #[test]
    fn no_verb_is_written_about_twice() {
        let mut names: Vec<&str> = pages::ALL.iter().map(|about| about.verb).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn a_page_holds_the_flags_and_what_was_written_and_is_not_cut_to_a_terminal() {
        let page = page(&["run".to_owned()]).expect("there is one");
        assert!(page.starts_with("# bailiwick run\n\nRun one command in a workspace.\n"), "{page}");
        for part in ["--env-file", "## What it leaves", "- 8 `resource_exhausted`: ", "Examples:"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn every_topic_has_a_page() {
        for name in topics::NAMES {
            let page = page(&[name.to_owned()]).expect("there is one");
            assert!(page.len() > 300, "{page}");
        }
        assert!(page(&[]).expect("the root").contains("exit-codes"));
        assert_eq!(page(&["nothing".to_owned()]), None);
    }

    #[test]
    fn what_is_near_is_found_and_what_is_not_is_not() {
        assert_eq!(near("inspcet").first().map(String::as_str), Some("inspect"));
        assert_eq!(near("exit codes").first().map(String::as_str), Some("exit-codes"));
        assert_eq!(near("zzz"), [] as [&str; 0]);
        assert_eq!(near(&"run".repeat(1 << 20)), [] as [&str; 0]);
    }
}
