//! What comes of a check, and the few words in which checks are written.
use bailiwick_contract::provider::ProviderError;

/// Nothing, or what did not hold.
pub type Told = Result<(), String>;

/// What checks belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// What the peer's own suite tries.
    Peer,
    /// The gate.
    Gate,
    /// Jobs and what they are given.
    Jobs,
    /// Forwarded variables.
    Env,
    /// Limits.
    Limits,
    /// Jobs that nobody waits for.
    Launch,
    /// Holds.
    Holds,
    /// Stops.
    Stops,
    /// Captured output.
    Output,
    /// Reading and listing.
    Disk,
    /// Batches.
    Transfer,
    /// What killed verbs left.
    Leftovers,
    /// Back ends that do not work.
    Broken,
}

impl Group {
    /// Returns the name that a table shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Gate => "gate",
            Self::Jobs => "jobs",
            Self::Env => "env",
            Self::Limits => "limits",
            Self::Launch => "launch",
            Self::Holds => "holds",
            Self::Stops => "stops",
            Self::Output => "output",
            Self::Disk => "disk",
            Self::Transfer => "transfer",
            Self::Leftovers => "leftovers",
            Self::Broken => "broken",
        }
    }
}

/// Says what went wrong where nothing may.
pub(super) trait Works<T> {
    /// Returns the value.
    ///
    /// # Errors
    /// `what` was tried, and why it did not work.
    fn works(self, what: &str) -> Result<T, String>;
}

impl<T, E: std::fmt::Debug> Works<T> for Result<T, E> {
    fn works(self, what: &str) -> Result<T, String> {
        self.map_err(|error| format!("{what}: {error:?}"))
    }
}

/// Fails unless a condition holds.
macro_rules! holds {
    ($condition:expr, $($said:tt)+) => {
        if !$condition {
            return Err(format!($($said)+));
        }
    };
}

/// Fails unless two values are the same.
macro_rules! same {
    ($found:expr, $wanted:expr, $($said:tt)+) => {{
        let (found, wanted) = (&$found, &$wanted);
        if found != wanted {
            return Err(format!("{}: {found:?} instead of {wanted:?}", format!($($said)+)));
        }
    }};
}

/// Fails unless a result is an error of this shape.
macro_rules! refused {
    ($result:expr, $pattern:pat, $($said:tt)+) => {
        match $result {
            Err($pattern) => {}
            Err(error) => return Err(format!("{}: {error:?}", format!($($said)+))),
            Ok(_) => return Err(format!("{}: it was not refused", format!($($said)+))),
        }
    };
}

pub(super) use {holds, refused, same};

/// Who can act on an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// The request has to change.
    Caller,
    /// The host, or what runs on it.
    Infrastructure,
    /// The workspace is gone.
    Workspace,
    /// Somebody ended the operation.
    Peer,
}

/// Returns who can act on an error: what decides its exit code.
pub(super) const fn whose(error: &ProviderError) -> Whose {
    match error {
        ProviderError::UnknownProfile { .. }
        | ProviderError::HostPath { .. }
        | ProviderError::Stdin { .. }
        | ProviderError::WorkingDirectory { .. }
        | ProviderError::Occupied { .. }
        | ProviderError::NoFile { .. }
        | ProviderError::NotAFile { .. }
        | ProviderError::Exists { .. }
        | ProviderError::InTheWay { .. } => Whose::Caller,
        ProviderError::Unavailable { .. }
        | ProviderError::Script { .. }
        | ProviderError::Home { .. }
        | ProviderError::Supervisor { .. }
        | ProviderError::NoSpace { .. }
        | ProviderError::Host { .. } => Whose::Infrastructure,
        ProviderError::NoWorkspace { .. } => Whose::Workspace,
        ProviderError::Gate(_) | ProviderError::Peer(_) | ProviderError::Interrupted(_) => {
            Whose::Peer
        }
    }
}
