//! `man`: manual pages, printed or written to a directory.
//!
//! Generated from the table of arguments and the catalogue. Writing replaces our own pages and touches nothing else; a
//! page appears whole, under its name, or not at all.
use super::VERSION;
use crate::app::App;
use crate::catalogue::{self, Verb, meaning};
use crate::output::Outcome;
use bailiwick_contract::error::{ExitCode, Failure};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write every page to this directory, which has to be there
    #[arg(long, value_name = "DIR", conflicts_with = "path")]
    all: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// The verb [default: the program as a whole]
    #[arg(value_name = "VERB")]
    path: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick man run | man -l -
  bailiwick man --all ~/.local/share/man/man1";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// The answer of `man`.
#[derive(Serialize)]
struct Pages {
    pages: Vec<Page>,
}

/// A page, and where it was written.
#[derive(Serialize)]
struct Page {
    name: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, _app: &App) -> Result<Outcome, Failure> {
    let root = catalogue::tree();
    if let Some(folder) = &args.all {
        return write_all(&root, folder, args.json);
    }
    let page = if args.path.is_empty() {
        page(&root, None)
    } else {
        let verbs = catalogue::verbs(&root);
        let verb = verbs.iter().find(|verb| verb.path == args.path);
        let verb = verb.ok_or_else(|| unknown(&args.path))?;
        page(&verb.command, Some(verb))
    };
    Ok(if args.json {
        Outcome::json(&Pages { pages: vec![page] })
    } else {
        Outcome::text(page.text)
    })
}

fn unknown(path: &[String]) -> Failure {
    let shown: String = path.join(" ").chars().take(64).flat_map(char::escape_debug).collect();
    let message = format!("there is no verb `{shown}`");
    Failure::user("unknown_verb", message, "run `bailiwick --help` to see the verbs")
}

/// Returns the page of a command; that of the whole program has no verb.
fn page(command: &clap::Command, verb: Option<&Verb>) -> Page {
    let name = verb.map_or_else(String::new, |verb| format!("-{}", verb.path.join("-")));
    let name = format!("bailiwick{name}.1");
    let man = Man::new(command.clone())
        .source(format!("bailiwick {}", VERSION.version))
        .manual("Bailiwick manual");
    let mut text = Vec::new();
    sections(&man, command, &mut text).expect("a Vec takes any text");
    ending(command, verb).to_writer(&mut text).expect("a Vec takes any text");
    let text = String::from_utf8(text).expect("our own help is text");
    // Each section comes with the definition of an apostrophe; once is enough.
    let text = format!("{APOSTROPHE}{}", text.replace(APOSTROPHE, ""));
    Page { name, text, path: None }
}

/// How roff is taught to print an apostrophe as one.
const APOSTROPHE: &str = ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n";

/// Writes the sections that follow from the table of arguments.
fn sections(man: &Man, command: &clap::Command, out: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() { man.render_subcommands_section(out) } else { Ok(()) }
}

/// Returns the sections that the table of arguments does not know, or knows as lines that have to stay lines.
fn ending(command: &clap::Command, verb: Option<&Verb>) -> Roff {
    let mut roff = Roff::new();
    let about = verb.and_then(Verb::about);
    if let Some(about) = about {
        roff.control("SH", ["NOTES"]).text([roman(about.does)]);
        roff.control("PP", []).text([roman(format!("What it leaves: {}", about.leaves))]);
    }
    roff.control("SH", ["EXIT STATUS"]);
    for code in about.map_or(&ExitCode::ALL[..], |about| about.exits) {
        roff.control("TP", []).text([bold(code.code().to_string())]);
        roff.text([roman(meaning(*code))]);
    }
    if let Some(help) = command.get_after_help() {
        let help = help.to_string();
        let examples = ["Examples:\n", "Try:\n"].iter().find_map(|start| help.split_once(start));
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        roff.text([roman(examples.map_or(help.as_str(), |(_, examples)| examples))]);
        roff.control("fi", []);
    }
    roff
}

fn write_all(root: &clap::Command, folder: &Path, json: bool) -> Result<Outcome, Failure> {
    let verbs = catalogue::verbs(root);
    let all = verbs.iter().map(|verb| page(&verb.command, Some(verb)));
    let mut pages = Vec::new();
    for mut page in std::iter::once(page(root, None)).chain(all) {
        let path = folder.join(&page.name);
        write(folder, &page).map_err(|error| unwritable(&path, &error))?;
        page.path = Some(crate::identity::shown(&path));
        pages.push(page);
    }
    if json {
        return Ok(Outcome::json(&Pages { pages }));
    }
    let lines = pages.into_iter().filter_map(|page| page.path);
    Ok(Outcome::text(lines.fold(String::new(), |all, line| all + &line + "\n")))
}

/// Writes beside the name and renames, so that a link of that name is replaced and not followed.
fn write(folder: &Path, page: &Page) -> io::Result<()> {
    let partial = folder.join(format!(".{}.{}", page.name, std::process::id()));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
    let mut file = File::from(rustix::fs::open(&partial, flags, mode)?);
    let written = file
        .write_all(page.text.as_bytes())
        .and_then(|()| std::fs::rename(&partial, folder.join(&page.name)));
    if written.is_err() {
        drop(std::fs::remove_file(&partial));
    }
    written
}

/// A wrong directory is the caller's to mend, a full disk the machine's owner's.
fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let path = crate::identity::shown(path);
    let message = format!("the page `{path}` cannot be written: {error}");
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
            let advice = "name a directory that is there and that you may write to";
            Failure::user("unwritable", message, advice)
        }
        _ => Failure::environment("unwritable", message, "mend what the message says, and repeat"),
    }
}
