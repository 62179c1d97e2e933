//! The verbs: one file each, which holds the flags and turns them into a request.
//!
//! To add one: write `NAME.rs` after the pattern of `destroy.rs`, and add its line to the table below.
mod cli;
mod completions;
mod create;
mod destroy;
mod doctor;
mod exec;
mod explain;
mod export;
mod files;
mod inspect;
mod learn;
mod list;
mod logs;
mod man;
mod overview;
mod prune;
mod put;
mod run;
mod seal;
mod stop;
mod version;
mod wait;
mod whoami;

pub(crate) use version::{VERSION, text as version_text};

use crate::app::App;
use crate::output::Outcome;
use bailiwick_contract::error::Failure;
use clap::{Parser, Subcommand};

/// A bounded workspace for AI agents: declare what may happen, run it in isolation, get back evidence.
#[derive(Debug, Parser)]
#[command(
    name = "bailiwick",
    version,
    disable_help_subcommand = true,
    infer_long_args = true,
    args_override_self = true,
    max_term_width = 100,
    after_help = AFTER_HELP
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Exit codes:
  0 success   1 user error   2 environment error   3 policy denied   4 timeout   5 cancelled
  6 the job failed   7 infrastructure failure   8 a resource limit was exceeded

Try:
  bailiwick exec -- echo hello";

/// Declares each verb once: its variant, its file, and the two ways in which all verbs are used.
macro_rules! verbs {
    ($($(#[$about:meta])* $variant:ident in $module:ident,)*) => {
        /// The verbs.
        #[derive(Debug, Subcommand)]
        #[command(defer = true)]
        pub(crate) enum Command {
            $($(#[$about])* $variant(Box<$module::Args>),)*
        }

        impl Command {
            /// Returns whether results and errors are JSON.
            pub(crate) fn json(&self) -> bool {
                match self { $(Self::$variant(args) => args.json(),)* }
            }

            /// Runs the verb.
            ///
            /// # Errors
            /// [`Failure`] where there is no result.
            pub(crate) fn run(self, app: &App) -> Result<Outcome, Failure> {
                match self { $(Self::$variant(args) => $module::run(*args, app),)* }
            }
        }
    };
}

verbs! {
    /// Make a workspace under a declared policy
    Create in create,
    /// Copy a host file or directory into a workspace
    Put in put,
    /// Run one command in a workspace
    Run in run,
    /// Create, run, export and destroy in one call
    Exec in exec,
    /// Wait for a job's end and report it
    Wait in wait,
    /// End a workspace's job; previews unless --apply is given
    Stop in stop,
    /// Report a workspace's state and what it has cost, or a job's captured output
    Inspect in inspect,
    /// List what lies in a workspace, or read a file of it, without a job
    Files in files,
    /// Publish a declared artifact to a host path, verified by its digest
    Export in export,
    /// End what can happen in a workspace, and keep it readable
    Seal in seal,
    /// Remove a workspace
    Destroy in destroy,
    /// Remove what nobody needs any more; previews unless --apply is given
    Prune in prune,
    /// List workspaces, newest first
    List in list,
    /// Print captured output; it outlives its workspace
    Logs in logs,
    /// Check whether jobs can run here, and say what is missing
    Doctor in doctor,
    /// Print version, commit and schema versions
    Version in version,
    /// Print who answers here: name, version, backend and model
    Whoami in whoami,
    /// Teach the whole command in one page, for a model or a person
    Learn in learn,
    /// Explain a verb or a topic: what it does, what it leaves, how it ends
    Explain in explain,
    /// Describe this program: who it is, and its verbs by kind
    Overview in overview,
    /// Describe the command line itself
    Cli in cli,
    /// Print the completions of a shell
    Completions in completions,
    /// Print a manual page, or write all of them
    Man in man,
}
