//! The records that outlive a process: workspaces and jobs.
//!
//! They are what the store keeps and the verbs read; how they are laid out in tables is the store's business.
//! No record holds a value of a forwarded variable or the contents of a file.
use crate::bytes::ByteString;
use crate::enforcement::EffectivePolicy;
use crate::id::{IntentId, JobId, WorkspaceId};
use crate::job::JobOutcome;
use crate::journal::{IntentDetail, IntentKind};
use crate::provider::ProviderName;
use crate::state::WorkspaceState;
use crate::time::Timestamp;
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
