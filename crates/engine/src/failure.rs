//! How the errors of providers, stores and policies leave the engine.
//!
//! Each mapping is one exhaustive `match`, so that a new variant cannot go without a code, a stable reason and a next
//! step. Messages hold the whole chain of causes, in one printable line.
use crate::text::printable;
use bailiwick_contract::context::Interrupted;
use bailiwick_contract::enforcement::PolicyError;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::policy::Limit;
use bailiwick_contract::provider::ProviderError;
use bailiwick_contract::store::StoreError;
use core::error::Error;
use rustix::io::Errno;

/// Returns `error` and its causes in one printable line.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut line = printable(error.to_string().as_bytes());
    let mut cause = error.source();
    while let Some(inner) = cause {
        line.push_str(": ");
        line.push_str(&printable(inner.to_string().as_bytes()));
        cause = inner.source();
    }
    line
}

/// Maps what a provider met; `program` is the command that hints name.
pub(crate) fn of_provider(error: ProviderError, program: &str) -> Failure {
    let message = told(&error);
    match error {
        ProviderError::UnknownProfile { known, .. } => Failure::user(
            "unknown_profile",
            message,
            format!("profiles here: {known}; pass one of them as --profile"),
        ),
        ProviderError::HostPath { .. } => Failure::new(
            ExitCode::PolicyDenied,
            "host_path_denied",
            message,
            "name another path with --allow-host-path (a :rw one has to be owned by an ordinary user), or copy the files \
             in with --input",
        ),
        ProviderError::Stdin { .. } => Failure::user(
            "stdin_unusable",
            message,
            "name a regular file or a FIFO that you may read, or - for the standard input of this command",
        ),
        ProviderError::WorkingDirectory { .. } => Failure::user(
            "cwd_unusable",
            message,
            "name a directory that is there before the job starts, without a link on the way to it",
        ),
        ProviderError::Occupied { id } => Failure::user(
            "workspace_left",
            message,
            format!(
                "a killed verb left it: {program} destroy --force {id} removes it; or choose another id"
            ),
        ),
        ProviderError::NoWorkspace { id } => Failure::new(
            ExitCode::InfrastructureFailure,
            "workspace_lost",
            message,
            format!(
                "{program} inspect {id} says what is left of it; {program} destroy {id} ends it"
            ),
        ),
        ProviderError::Interrupted(interrupted) => of_interrupted(interrupted),
        ProviderError::Gate(source) => of_other_side(source, message, "gate_failed"),
        ProviderError::Peer(source) => of_other_side(source, message, "copy_failed"),
        file @ (ProviderError::NoFile { .. }
        | ProviderError::NotAFile { .. }
        | ProviderError::Exists { .. }
        | ProviderError::InTheWay { .. }) => of_file(&file, message),
        host @ (ProviderError::Unavailable { .. }
        | ProviderError::Supervisor { .. }
        | ProviderError::Script { .. }
        | ProviderError::Home { .. }
        | ProviderError::NoSpace { .. }
        | ProviderError::Host { .. }) => of_host(&host, message, program),
    }
}

/// Maps what is wrong with this host, its set-up or its disks.
fn of_host(error: &ProviderError, message: String, program: &str) -> Failure {
    let infrastructure = |reason, message, remediation: String| {
        Failure::new(ExitCode::InfrastructureFailure, reason, message, remediation)
    };
    match error {
        ProviderError::Unavailable { remediation, .. } => {
            infrastructure("provider_unavailable", message, or_doctor(remediation, program))
        }
        ProviderError::Supervisor { .. } => Failure::environment(
            "supervisor_missing",
            message,
            "build and install both programs of the same version: ./scripts/install",
        ),
        ProviderError::Script { .. } => Failure::environment(
            "bad_script",
            message,
            "correct the file that BAILIWICK_FAKE_SCRIPT names; docs/fake.md says what it may hold",
        ),
        ProviderError::Home { .. } => Failure::environment(
            "home_unusable",
            message,
            "point BAILIWICK_HOME at a directory that this user owns and may write to",
        ),
        ProviderError::NoSpace { .. } => Failure::environment(
            "no_space",
            message,
            "free space in the home, or point BAILIWICK_HOME at a disk that has some",
        )
        .retryable(),
        ProviderError::Host { source, .. } if is_unwritable(&**source) => Failure::environment(
            "home_unwritable",
            message,
            "make the home writable and give it room, or point BAILIWICK_HOME elsewhere",
        )
        .retryable(),
        _ => infrastructure(
            "host_step_failed",
            message,
            format!("{program} doctor checks this host"),
        ),
    }
}

/// Returns whether a step failed because a file could not be written. EPERM is not among these: it is what a host
/// answers that forbids a namespace or a mount.
fn is_unwritable(source: &(dyn Error + Send + Sync + 'static)) -> bool {
    let errno = source.downcast_ref::<std::io::Error>().and_then(Errno::from_io_error);
    matches!(errno, Some(Errno::ACCESS | Errno::ROFS | Errno::NOSPC | Errno::DQUOT))
}

fn of_file(error: &ProviderError, message: String) -> Failure {
    let (reason, remediation) = match error {
        ProviderError::NoFile { .. } => {
            ("no_such_file", "name the file's place in the workspace with --path")
        }
        ProviderError::NotAFile { .. } => {
            ("not_a_file", "let the job pack it into one regular file, and name that with --path")
        }
        ProviderError::Exists { .. } => {
            ("destination_exists", "choose another destination, or replace it with put --overwrite")
        }
        _ => ("destination_in_the_way", "choose another destination"),
    };
    Failure::user(reason, message, remediation)
}

/// The other side of a copy or of a gate is the engine itself, which hands a [`Failure`] through the provider.
fn of_other_side(
    source: Box<dyn Error + Send + Sync>,
    message: String,
    reason: &'static str,
) -> Failure {
    match source.downcast::<Failure>() {
        Ok(failure) => *failure,
        Err(_) => Failure::environment(reason, message, "nothing was changed; try again"),
    }
}

fn of_interrupted(interrupted: Interrupted) -> Failure {
    let (code, reason) = match interrupted {
        Interrupted::Cancelled => (ExitCode::Cancelled, "cancelled"),
        Interrupted::DeadlinePassed => (ExitCode::Timeout, "deadline_passed"),
    };
    Failure::new(code, reason, interrupted.to_string(), "run the same command again").retryable()
}

/// Returns the refusal of a verb whose caller wants no more of it.
pub(crate) fn cancelled() -> Failure {
    of_interrupted(Interrupted::Cancelled)
}

fn or_doctor(remediation: &str, program: &str) -> String {
    if remediation.is_empty() {
        format!("{program} doctor names what this host lacks")
    } else {
        printable(remediation.as_bytes())
    }
}

/// Maps what the store met.
pub(crate) fn of_store(error: &StoreError, program: &str) -> Failure {
    let message = told(error);
    match error {
        StoreError::Home { .. } => Failure::environment(
            "home_unusable",
            message,
            "point BAILIWICK_HOME at a directory that this user owns and may write to",
        ),
        StoreError::Newer { .. } => Failure::environment(
            "store_newer",
            message,
            format!("use the {program} that wrote it, or another BAILIWICK_HOME; nothing was rewritten"),
        ),
        StoreError::Damaged { .. } => Failure::environment(
            "store_damaged",
            message,
            "move the home aside, or restore a backup of it; nothing was rewritten",
        ),
        StoreError::Unwritable { .. } => Failure::environment(
            "store_unwritable",
            message,
            "free space, make the home writable, or point BAILIWICK_HOME elsewhere; nothing was run",
        )
        .retryable(),
        StoreError::Conflict { .. } => Failure::user(
            "conflict",
            message,
            format!("{program} inspect shows where the workspace is now"),
        )
        .retryable(),
        StoreError::Busy { .. } => {
            Failure::environment("store_busy", message, "try again when that process is done")
                .retryable()
        }
        StoreError::Other { .. } => Failure::environment(
            "store_failed",
            message,
            format!("{program} doctor checks the home"),
        ),
    }
}

/// Maps why a policy cannot be honoured; nothing was created.
pub(crate) fn of_policy(error: &PolicyError, program: &str) -> Failure {
    let (reason, remediation) = match error {
        PolicyError::Unavailable { limit: Limit::Network, value, .. } if value == "enabled" => (
            "limit_unenforceable",
            "this provider gives jobs no network in this version; leave --network out".into(),
        ),
        PolicyError::Unavailable { limit, lack, .. } => {
            let mend = lack.as_ref().map(|lack| printable(lack.remediation.as_bytes()));
            let mend = mend.filter(|text| !text.is_empty());
            let other = || {
                format!("leave {} out; {program} doctor says what this host offers", limit.flag())
            };
            ("limit_unenforceable", mend.unwrap_or_else(other))
        }
        PolicyError::OnlyWatched { limit, .. } => (
            "limit_only_watched",
            format!("pass --allow-watched to have it watched, or leave {} out", limit.flag()),
        ),
        PolicyError::DefaultOnlyWatched { .. } => (
            "default_only_watched",
            format!("leave --require-enforced out; {program} doctor says what this host lacks"),
        ),
    };
    Failure::new(ExitCode::PolicyDenied, reason, told(error), remediation)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::id::WorkspaceId;

    fn code_of(error: ProviderError) -> (u8, &'static str) {
        let failure = of_provider(error, "bailiwick");
        assert!(!failure.remediation.is_empty(), "{failure:?}");
        (failure.code.code(), failure.reason)
    }

    #[test]
    fn each_trouble_has_a_code_and_a_next_step() {
        let id = WorkspaceId::parse("demo").expect("an id");
        let path = String::from("f");
        let no_space = ProviderError::NoSpace { what: "the disk of demo".into() };
        assert_eq!(code_of(no_space), (2, "no_space"));
        let script = ProviderError::Script { path: path.clone(), why: "it is no JSON".into() };
        assert_eq!(code_of(script), (2, "bad_script"));
        let missing = ProviderError::NoFile { id: id.clone(), path: path.clone() };
        assert_eq!(code_of(missing), (1, "no_such_file"));
        let denied = ProviderError::HostPath { path, why: "it is `/`".into() };
        assert_eq!(code_of(denied), (3, "host_path_denied"));
        let host = |errno: Errno| ProviderError::Host {
            step: "could not make `disks/demo`".into(),
            source: Box::new(std::io::Error::from(errno)),
        };
        assert_eq!(code_of(host(Errno::ROFS)), (2, "home_unwritable"));
        assert_eq!(code_of(host(Errno::PERM)), (7, "host_step_failed"));
        assert_eq!(code_of(ProviderError::NoWorkspace { id }), (7, "workspace_lost"));
        assert_eq!(code_of(ProviderError::Interrupted(Interrupted::Cancelled)), (5, "cancelled"));
    }

    #[test]
    fn a_gate_keeps_the_words_of_the_store() {
        let full = StoreError::Unwritable { path: "/h/state.db".into(), why: "disk full".into() };
        let inner = of_store(&full, "bailiwick");
        let failure = of_provider(ProviderError::Gate(Box::new(inner.clone())), "bailiwick");
        assert_eq!(failure, inner);
        assert_eq!(failure.code, ExitCode::EnvironmentError);
    }

    #[test]
    fn causes_are_told_in_one_printable_line() {
        let source = std::io::Error::other("bad\nworld\u{1b}");
        let error = ProviderError::Host { step: "open `x`".into(), source: Box::new(source) };
        assert_eq!(told(&error), "open `x`: bad\\nworld\\u{1b}");
    }
}
