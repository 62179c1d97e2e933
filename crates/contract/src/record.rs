//! The records that outlive a process: workspaces and jobs.
//!
//! They are what the store keeps and the verbs read; how they are laid out in tables is the store's business.
//! No record holds a value of a forwarded variable or the contents of a file.
use crate::bytes::ByteString;
use crate::enforcement::EffectivePolicy;
use crate::id::{IntentId, JobId, WorkspaceId};
use crate::job::{JobOutcome, JobTerms};
use crate::journal::{IntentDetail, IntentKind};
use crate::provider::ProviderName;
use crate::state::WorkspaceState;
use crate::time::Timestamp;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A workspace; after its destruction, its tombstone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceRecord {
    /// Its id.
    pub id: WorkspaceId,
    /// Where it is in its life.
    pub state: WorkspaceState,
    /// Which back end holds it.
    pub provider: ProviderName,
    /// The profile's name.
    pub profile: String,
    /// `sha256:<64 hex>` of what identifies the profile.
    pub image_digest: String,
    /// The policy as it is held.
    pub policy: EffectivePolicy,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// What its owner says about it.
    #[serde(default)]
    pub about: About,
    /// When its tombstone was pruned: nothing is known of its jobs, artifacts and inputs from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pruned_at: Option<Timestamp>,
}

impl WorkspaceRecord {
    /// Returns whether its time is over.
    #[must_use]
    pub fn is_overdue(&self, now: Timestamp) -> bool {
        self.about.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns whether it has to be moved to `expired`: its time is over while it waits for something to do. A job in
    /// flight is not interrupted, and what was ended in another way stays what it is.
    #[must_use]
    pub fn has_to_expire(&self, now: Timestamp) -> bool {
        let waits = matches!(self.state, WorkspaceState::Requested | WorkspaceState::Ready);
        waits && self.is_overdue(now)
    }
}

/// What the owner of a workspace says about it; nothing here changes what a job may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct About {
    /// `--purpose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// `--owner`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// `--parent`: the task that it belongs to, in the owner's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// `--label`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// `--ttl`: when it expires; never where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// `--retain`: `prune` leaves its record and its output alone.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub retain: bool,
}

/// A job, in flight or over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its id.
    pub id: JobId,
    /// Its workspace.
    pub workspace: WorkspaceId,
    /// The command.
    pub argv: Vec<ByteString>,
    /// The names of forwarded variables.
    pub env_names: Vec<String>,
    /// The files that variables were read from.
    pub env_files: Vec<ByteString>,
    /// How it was asked to run.
    #[serde(default, skip_serializing_if = "JobTerms::is_plain")]
    pub terms: JobTerms,
    /// When its intent was made durable.
    pub started_at: Timestamp,
    /// What came of it; none while it is in flight.
    pub outcome: Option<JobOutcome>,
    /// The whole result package, kept where a bound cut what was returned.
    pub package: Option<String>,
}

/// An intent that nothing has settled yet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenIntent {
    /// Its id.
    pub id: IntentId,
    /// What was intended.
    pub kind: IntentKind,
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The job, for `run`.
    pub job: Option<JobId>,
    /// What the intent says beside its kind; reconciliation decides by it.
    pub detail: IntentDetail,
    /// When it was made durable.
    pub opened_at: Timestamp,
}
