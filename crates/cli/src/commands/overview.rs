//! `overview`: who this program is, and its verbs by kind.
//!
//! It only reads, and whatever it is pointed at is no error: a caller that knows nothing can begin here.
use super::whoami;
use crate::app::App;
use crate::catalogue;
use crate::identity;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// `cli` for the command line; anything else stands for this program
    target: Option<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick overview
  bailiwick overview --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.json
    }
}

/// What there is to say of a subject.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    /// What it is about.
    pub(super) subject: &'static str,
    /// In the order in which they are read.
    pub(super) sections: Vec<Section>,
}

/// A few lines under a title.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    title: &'static str,
    items: Vec<String>,
}

impl Section {
    /// Makes one.
    pub(super) const fn new(title: &'static str, items: Vec<String>) -> Self {
        Self { title, items }
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    if args.target.is_some_and(|target| target == "cli") {
        return Ok(outcome(&super::cli::overview(), args.json));
    }
    Ok(outcome(&overview(app), args.json))
}

/// Returns an overview in the form that was asked for.
pub(super) fn outcome(overview: &Overview, json: bool) -> Outcome {
    if json { Outcome::json(overview) } else { Outcome::text(text(overview)) }
}

fn overview(app: &App) -> Overview {
    // An identity that cannot be read is a fact about this place, not a reason to say nothing.
    let who = match whoami::who(app) {
        Ok(who) => whoami::lines(&who),
        Err(failure) => vec![failure.message],
    };
    let verbs = catalogue::verbs(&catalogue::tree());
    let mut sections = vec![Section::new("Identity", who)];
    for (title, group) in catalogue::grouped(&verbs) {
        sections.push(Section::new(title, group.iter().map(|verb| verb.line()).collect()));
    }
    sections.push(Section::new("Identity files", files(app)));
    Overview { subject: "bailiwick", sections }
}

/// Says where the two halves of an identity lie.
fn files(app: &App) -> Vec<String> {
    let found = identity::here(app.settings.user_home());
    let Some((file, folder)) = found.file().and_then(|file| Some((file, file.parent()?))) else {
        return vec!["there is no culture.yaml here: the built-in identity is used".to_owned()];
    };
    let prompts = identity::prompts(folder);
    std::iter::once(identity::shown(file)).chain(prompts).collect()
}

fn text(overview: &Overview) -> String {
    let mut out = format!("# {}\n", overview.subject);
    for section in &overview.sections {
        write!(out, "\n## {}\n\n", section.title).expect("a String takes any text");
        for item in &section.items {
            writeln!(out, "- {item}").expect("a String takes any text");
        }
    }
    out
}
