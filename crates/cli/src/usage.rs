//! From words to a verb, and from clap's complaints to ours.
//!
//! Whatever a caller could have mistyped around a secret is never echoed: of `--flag=value` only the flag, and of a word
//! with `=` only what is before it. Whether an error is JSON is decided by a `--json` of ours, never by one of the job.
use crate::commands::{Cli, Command, version_text};
use crate::output;
use crate::settings::Settings;
use bailiwick_contract::error::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory as _, Parser as _};
use std::error::Error as _;
use std::ffi::OsString;
use std::process::ExitCode;

/// The longest piece of an argument that a message repeats, in characters.
const ECHO_CHARS_MAX: usize = 64;

/// Why no verb is run.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Help or version was asked for.
    Answered(String),
    /// The arguments are wrong; whether the caller wants to read it as JSON.
    Refused(Failure, bool),
}

impl Stopped {
    /// Prints what there is to say.
    pub(crate) fn report(self) -> ExitCode {
        match self {
            Self::Answered(text) => output::finish(Ok(output::Outcome::text(text)), false),
            Self::Refused(failure, json) => output::finish(Err(failure), json),
        }
    }
}

/// Returns whether the verb is one that runs a job, before anything else about it is known.
pub(crate) fn asks_for_a_job(settings: &Settings) -> bool {
    let verb = settings.args.get(1).is_some_and(|verb| verb == "exec" || verb == "run");
    // Which provider a flag names is known when the arguments are parsed; it may be one that starts nothing.
    let named = |word: &OsString| word.as_encoded_bytes().starts_with(b"--provider");
    verb && !settings.args.iter().any(named)
}

/// Parses the arguments.
///
/// # Errors
/// [`Stopped`], also where help was asked for.
pub(crate) fn parse(settings: &Settings) -> Result<Command, Stopped> {
    let args = without_help_verb(&settings.args);
    match Cli::try_parse_from(&args) {
        Ok(cli) => Ok(cli.command),
        Err(error) => Err(stopped(&error, &args, settings.colour)),
    }
}

/// Makes `VERB --help` of `help VERB`, and `--help` of a bare `help`.
fn without_help_verb(args: &[OsString]) -> Vec<OsString> {
    if args.get(1).is_none_or(|word| word != "help") {
        return args.to_vec();
    }
    let verb = args.get(2).filter(|word| *word != "help");
    args.iter().take(1).chain(verb).cloned().chain([OsString::from("--help")]).collect()
}

fn stopped(error: &clap::Error, args: &[OsString], colour: bool) -> Stopped {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Stopped::Answered(help(error, colour))
        }
        ErrorKind::DisplayVersion => Stopped::Answered(version_text()),
        _ => Stopped::Refused(failure(error, args), wants_json(args)),
    }
}

fn help(error: &clap::Error, colour: bool) -> String {
    let text = error.render();
    if colour { text.ansi().to_string() } else { text.to_string() }
}

fn failure(error: &clap::Error, args: &[OsString]) -> Failure {
    Failure::user("usage", message(error), advice(error, args))
}

fn message(error: &clap::Error) -> String {
    let given = |kind| redacted(&ours(error, kind));
    let arg = ours(error, ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            format!("unknown argument `{}`", given(ContextKind::InvalidArg))
        }
        ErrorKind::InvalidSubcommand => {
            format!("unknown verb `{}`", given(ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingRequiredArgument => format!("an argument is missing: {arg}"),
        ErrorKind::ArgumentConflict => {
            format!("`{arg}` cannot be used with `{}`", ours(error, ContextKind::PriorArg))
        }
        ErrorKind::TooManyValues => format!("`{arg}` takes no value"),
        ErrorKind::InvalidUtf8 => "an argument that has to be text is not UTF-8".to_owned(),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => invalid_value(error, &flag(&arg)),
        _ => "the arguments cannot be understood".to_owned(),
    }
}

/// The values that reach this are of flags that clap checks, none of which takes a secret.
fn invalid_value(error: &clap::Error, flag: &str) -> String {
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => printable(value),
        _ => String::new(),
    };
    if let Some(reason) = error.source() {
        return format!("`{flag} {value}`: {reason}");
    }
    let known = ours(error, ContextKind::ValidValue);
    if value.is_empty() {
        return format!("`{flag}` needs a value");
    }
    format!("`{flag} {value}`: the values are {known}")
}

fn advice(error: &clap::Error, args: &[OsString]) -> String {
    let suggestions = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand];
    let suggested =
        suggestions.into_iter().map(|kind| ours(error, kind)).find(|near| !near.is_empty());
    let verb = verb(args).map(|verb| format!(" {verb}")).unwrap_or_default();
    let help = format!("run `bailiwick{verb} --help` to see valid arguments");
    match suggested {
        Some(near) => format!("did you mean `{near}`? {help}"),
        None => help,
    }
}

/// Returns the verb, if the first word is one.
fn verb(args: &[OsString]) -> Option<String> {
    let word = args.get(1)?.to_str()?;
    let command = Cli::command();
    command.find_subcommand(word).map(|found| found.get_name().to_owned())
}

/// Returns what a complaint is about, which is a name of ours in all complaints but those about unknown words.
fn ours(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}

/// Returns a word of the caller's without what follows a `=`.
fn redacted(text: &str) -> String {
    match text.split_once('=') {
        Some((before, _)) => format!("{}=…", printable(before)),
        None => printable(text),
    }
}

/// Returns the flag of `--flag <VALUE>`.
fn flag(arg: &str) -> String {
    arg.split(' ').next().unwrap_or_default().to_owned()
}

fn printable(text: &str) -> String {
    let escaped: String = text.chars().take(ECHO_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().count() > ECHO_CHARS_MAX { format!("{escaped}…") } else { escaped }
}

/// Looks for a `--json` of ours: what follows the job's command, or the workspace of a `run`, is the job's.
fn wants_json(args: &[OsString]) -> bool {
    let mut root = Cli::command();
    root.build();
    let words: Vec<&str> = args.iter().skip(1).map(|word| word.to_str().unwrap_or("")).collect();
    let Some(verb) = words.first().and_then(|word| root.find_subcommand(word)) else {
        return words.iter().take_while(|word| **word != "--").any(|word| *word == "--json");
    };
    let has_job = verb.get_positionals().any(Arg::is_trailing_var_arg_set);
    let flags: Vec<&Arg> = verb.get_arguments().filter(|arg| arg.get_long().is_some()).collect();
    let mut rest = words.into_iter().skip(1);
    while let Some(word) = rest.next() {
        if word == "--" {
            return false;
        }
        let Some(long) = word.strip_prefix("--") else {
            if has_job && !word.starts_with('-') {
                return false;
            }
            continue;
        };
        let (name, value) =
            long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
        let Some(flag) = meant(&flags, name) else { continue };
        if flag.get_long() == Some("json") {
            return true;
        }
        if value.is_none() && flag.get_action().takes_values() {
            rest.next();
        }
    }
    false
}

/// Finds a flag by its name or by the beginning of it, as clap does.
fn meant<'a>(flags: &[&'a Arg], name: &str) -> Option<&'a Arg> {
    let long = |flag: &Arg| flag.get_long().unwrap_or_default().to_owned();
    let exact = flags.iter().find(|flag| long(flag) == name);
    let mut near = flags.iter().filter(|flag| long(flag).starts_with(name));
    exact.or_else(|| near.next().filter(|_| near.next().is_none())).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, json: bool) {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        assert_eq!(wants_json(&args), json, "{line}");
    }

    #[test]
    fn only_a_json_flag_of_ours_makes_an_error_json() {
        check("bailiwick create --bogus --json", true);
        check("bailiwick create --bogus --js", true);
        check("bailiwick create --profile --json", false);
        check("bailiwick create -- --json", false);
        check("bailiwick run --bogus demo python --json", false);
        check("bailiwick run --bogus --json demo python", true);
        check("bailiwick run --declare a=b --json demo python", true);
        check("bailiwick run --declare=a=b demo --json", false);
        check("bailiwick exec --bogus -- python --json", false);
        check("bailiwick exec --bogus --json -- python", true);
        check("bailiwick stop demo --bogus --json", true);
        check("bailiwick bogus --json", true);
        check("bailiwick", false);
    }

    #[test]
    fn the_table_of_arguments_is_consistent() {
        Cli::command().debug_assert();
    }
}
