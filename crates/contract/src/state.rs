//! The nine lifecycle states of a workspace and the steps between them.
//!
//! A job's failure never fails its workspace. What moves a workspace is the engine; this file only says which
//! moves there are.
use core::fmt;
use serde::{Deserialize, Serialize};

/// Where a workspace is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceState {
    /// Recorded, nothing made yet.
    Requested,
    /// The provider is making it.
    Provisioning,
    /// It can run jobs.
    Ready,
    /// A job is in flight.
    Running,
    /// Sealed: readable, but it runs nothing any more.
    Completed,
    /// The provider could not make it, or lost it.
    Failed,
    /// Ended on request.
    Cancelled,
    /// Ended by its time to live.
    Expired,
    /// Gone; the record stays as a tombstone.
    Destroyed,
}

impl WorkspaceState {
    /// Returns the states that may follow.
    #[must_use]
    pub const fn next(self) -> &'static [Self] {
        use WorkspaceState::{
            Cancelled, Completed, Destroyed, Expired, Failed, Provisioning, Ready, Requested,
            Running,
        };
        match self {
            Requested => &[Provisioning, Cancelled, Failed, Expired],
            Provisioning => &[Ready, Failed, Cancelled],
            Ready => &[Running, Completed, Cancelled, Expired, Failed],
            Running => &[Ready, Completed, Failed, Cancelled],
            Completed | Failed | Cancelled => &[Destroyed, Expired],
            Expired => &[Destroyed],
            Destroyed => &[],
        }
    }

    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Provisioning => "provisioning",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Destroyed => "destroyed",
        }
    }

    /// Parses a name that packages use.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        const ALL: [WorkspaceState; 9] = [
            WorkspaceState::Requested,
            WorkspaceState::Provisioning,
            WorkspaceState::Ready,
            WorkspaceState::Running,
            WorkspaceState::Completed,
            WorkspaceState::Failed,
            WorkspaceState::Cancelled,
            WorkspaceState::Expired,
            WorkspaceState::Destroyed,
        ];
        ALL.into_iter().find(|state| state.name() == name)
    }

    /// Returns the states on the way to `destroyed`, this one first; `None` where a job has to end before.
    #[must_use]
    pub const fn removal_path(self) -> Option<&'static [Self]> {
        use WorkspaceState::{Cancelled, Completed, Destroyed, Expired, Failed};
        match self {
            Self::Requested | Self::Provisioning | Self::Ready => Some(&[Cancelled, Destroyed]),
            Self::Completed => Some(&[Completed, Destroyed]),
            Self::Failed => Some(&[Failed, Destroyed]),
            Self::Cancelled => Some(&[Cancelled, Destroyed]),
            Self::Expired => Some(&[Expired, Destroyed]),
            Self::Running | Self::Destroyed => None,
        }
    }
}

impl fmt::Display for WorkspaceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_but_running_leads_to_destroyed() {
        for state in [WorkspaceState::Ready, WorkspaceState::Failed, WorkspaceState::Completed] {
            let path = state.removal_path().expect("removable");
            assert_eq!(path.last(), Some(&WorkspaceState::Destroyed));
            assert!(path[0] == state || state.next().contains(&path[0]), "{state}");
        }
        assert!(WorkspaceState::Running.removal_path().is_none());
    }
}
