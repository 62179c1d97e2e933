//! What the table of arguments cannot know of a verb: what it really does, what stays behind, how it can end.
//!
//! One row a verb, and a test that misses the rows that are not there. No flag is named that the help does not explain.
use bailiwick_contract::error::ExitCode::{
    self, Cancelled, EnvironmentError, InfrastructureFailure, PolicyDenied, Success, UserError,
};

/// The two kinds of verbs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Group {
    /// Makes, uses, shows or ends workspaces.
    Lifecycle,
    /// Describes this program and this host.
    Introspection,
}

impl Group {
    /// Returns the title of a list of them.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Lifecycle => "Lifecycle verbs",
            Self::Introspection => "Introspection verbs",
        }
    }
}

/// A row about a verb.
#[derive(Debug)]
pub(crate) struct About {
    /// Its words.
    pub(crate) verb: &'static str,
    /// Its kind.
    pub(crate) group: Group,
    /// What it does, in a paragraph.
    pub(crate) does: &'static str,
    /// What is there afterwards that was not there before.
    pub(crate) leaves: &'static str,
    /// The codes with which it can end, in order.
    pub(crate) exits: &'static [ExitCode],
}

/// Returns the row about a verb.
pub(super) fn about(verb: &str) -> Option<&'static About> {
    ALL.iter().find(|about| about.verb == verb)
}

/// The codes of a verb that runs a job, or tells how one ended.
const JOB: &[ExitCode] = &ExitCode::ALL;
/// Those of a verb that makes a workspace, or moves files, under a policy.
const BOUND: &[ExitCode] =
    &[Success, UserError, EnvironmentError, PolicyDenied, InfrastructureFailure];
/// Those of a verb that reaches into a workspace.
const REACHING: &[ExitCode] = &[Success, UserError, EnvironmentError, InfrastructureFailure];
/// Those of a verb that reads the records, or writes files of its own.
const READING: &[ExitCode] = &[Success, UserError, EnvironmentError];
/// Those of a verb that opens nothing.
const TELLING: &[ExitCode] = &[Success, UserError];

const NOTHING: &str = "Nothing.";

/// The rows, in the order of the help.
pub(super) const ALL: &[About] = &[
    About {
        verb: "create",
        group: Group::Lifecycle,
        does: "Makes a workspace: an id, a disk, and a policy that never changes afterwards. The policy is checked \
               against this host first. A limit that you name and that the host can only watch is refused, and nothing \
               is made. `bailiwick explain policy` tells what is open by default: nothing but the toolchain.",
        leaves: "A workspace in the state `ready`, until `destroy`. Nothing runs and nothing waits in it.",
        exits: BOUND,
    },
    About {
        verb: "put",
        group: Group::Lifecycle,
        does: "Copies a file or a directory of the host into a workspace, as one batch: all of it arrives or none. \
               Digests are taken on the way and recorded; contents are not. What is at the destination stays unless \
               --overwrite is given.",
        leaves: "The files on the workspace's disk, and a record of each with its size and SHA-256.",
        exits: BOUND,
    },
    About {
        verb: "run",
        group: Group::Lifecycle,
        does: "Runs one command in a workspace and answers with a result package: status, exit status, an excerpt of the \
               output, and what it cost. Flags come before the workspace; everything after it is the command's, and no \
               shell reads it. A declared file that the command did not write makes the result `partial_success`, with \
               exit code 0.",
        leaves: "What the command wrote to the workspace's disk, its captured output, and a record. No process of it \
                 lives on once it has ended.",
        exits: JOB,
    },
    About {
        verb: "exec",
        group: Group::Lifecycle,
        does: "Does in one call what `create`, `run`, `export` and `destroy` do. Each declared file needs a place to go, \
               because the workspace is removed afterwards. The exit code is the job's, else that of a failed export, \
               and then the workspace is kept and named.",
        leaves: "The exported files, the captured output, and the record of a destroyed workspace.",
        exits: JOB,
    },
    About {
        verb: "stop",
        group: Group::Lifecycle,
        does: "Shows which job it would end; with --apply it sends SIGTERM to every process of the job, and SIGKILL after \
               the grace. It returns when the outcome is recorded, so that a `destroy` can follow at once. The stopped \
               `run` and the `stop` end with the same code.",
        leaves: "The workspace, ready for the next job, and the job's record, which reads `cancelled`.",
        exits: &[Success, UserError, EnvironmentError, Cancelled, InfrastructureFailure],
    },
    About {
        verb: "wait",
        group: Group::Lifecycle,
        does: "Waits until a job that was left to itself has ended, and answers with the result package that a `run` of \
               it would have given. A job that has ended before is told at once.",
        leaves: "The job's outcome on record; the wait itself adds nothing.",
        exits: JOB,
    },
    About {
        verb: "inspect",
        group: Group::Lifecycle,
        does: "Reports the state of a workspace or a job and what it has cost so far. It also records how a job ended \
               that nobody waited for, and says so. A result that was cut elsewhere is had whole with --full.",
        leaves: "Nothing new, but for outcomes that were not recorded yet.",
        exits: REACHING,
    },
    About {
        verb: "export",
        group: Group::Lifecycle,
        does: "Publishes a declared artifact to a path of the host. The file is read without following a link, hashed on \
               the way, synced and renamed into place: the digest in the result is that of the bytes that are there.",
        leaves: "The file on the host, and a record of its digest. The workspace keeps its own copy.",
        exits: BOUND,
    },
    About {
        verb: "destroy",
        group: Group::Lifecycle,
        does: "Removes a workspace and its disk. It refuses while a job runs and while a declared artifact was never \
               exported; --force stops the one and gives up the other.",
        leaves: "The record, so that the id is never used again, and the captured output of its jobs.",
        exits: REACHING,
    },
    About {
        verb: "list",
        group: Group::Lifecycle,
        does: "Lists workspaces, newest first, without the destroyed ones unless they are asked for. What was left out is \
               counted. It also settles what killed callers left open, and says so.",
        leaves: "Nothing new, but for outcomes that were not recorded yet.",
        exits: READING,
    },
    About {
        verb: "logs",
        group: Group::Lifecycle,
        does: "Prints the captured output of a job, or of all jobs of a workspace. As text it is escaped, indented and \
               fenced, so that it cannot act on a terminal or pass for a line of ours; --raw prints the bytes \
               themselves. Where the middle was not kept, a line says how much is missing.",
        leaves: NOTHING,
        exits: READING,
    },
    About {
        verb: "files",
        group: Group::Lifecycle,
        does: "Lists or reads files inside a workspace without running a job in it. Links are shown as links and never \
               followed out of the workspace.",
        leaves: NOTHING,
        exits: REACHING,
    },
    About {
        verb: "seal",
        group: Group::Lifecycle,
        does: "Ends the life of a workspace and keeps it readable: no job runs in it and nothing is put into it any more, \
               while its files, logs and records can still be had.",
        leaves: "The workspace in the state `completed`, until `destroy`.",
        exits: REACHING,
    },
    About {
        verb: "prune",
        group: Group::Lifecycle,
        does: "Removes what nobody needs any more: what has expired, and captured output past its age or its share of the \
               disk. It shows what it would remove, and removes it only when told to.",
        leaves: "Less than there was. What was removed is counted in the answer.",
        exits: REACHING,
    },
    About {
        verb: "doctor",
        group: Group::Introspection,
        does: "Looks at this host and says for each limit whether it is enforced here and by what; for each lack, the \
               command that mends it. It also checks the state, the supervisor beside this program, and that the \
               identity of this directory has the prompt of its backend.",
        leaves: "A record of what was found out about the host, which the next verb reads. It removes what killed verbs \
                 left on no record, and says so.",
        exits: TELLING,
    },
    About {
        verb: "version",
        group: Group::Introspection,
        does: "Prints the version and the commit of this build, and the versions of the state and of the result package \
               that it speaks. It opens no file.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "whoami",
        group: Group::Introspection,
        does: "Prints who answers here: name, backend and model of the nearest `culture.yaml` above the working directory, \
               else the built-in identity, and this program's version. `bailiwick explain identity` tells how the file \
               is found and what it may say.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "learn",
        group: Group::Introspection,
        does: "Prints what a model has to know before it uses this program: the purpose, every verb, the rules that hold \
               for all of them, and the exit codes. The list of verbs is taken from the program itself.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "explain",
        group: Group::Introspection,
        does: "Prints a page about a verb or a topic. Where there is no such page it names those that come near. Without \
               an argument it explains the program as a whole and lists the pages.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "overview",
        group: Group::Introspection,
        does: "Describes this program: who it is, its verbs by kind, and where its identity is written. Whatever it is \
               pointed at, it answers; `overview cli` answers as `cli overview` does.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "cli",
        group: Group::Introspection,
        does: "Describes the command line itself, as against the program behind it: the same answer as `cli overview`.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "cli overview",
        group: Group::Introspection,
        does: "Lists every verb in a line each, and the conventions that all of them keep: where results and errors go, \
               what --json means, where the flags of a job begin.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "completions",
        group: Group::Introspection,
        does: "Prints the script with which a shell completes verbs and flags. It is made from the same table that parses \
               them, so make it anew after an upgrade; `scripts/install --extras` does.",
        leaves: NOTHING,
        exits: TELLING,
    },
    About {
        verb: "man",
        group: Group::Introspection,
        does: "Prints a manual page in roff, of this program or of one verb; with --all it writes every page to a \
               directory that is there already. A page that is there is replaced, and nothing else is touched.",
        leaves: "Nothing; with --all, the files that the answer names.",
        exits: READING,
    },
];
