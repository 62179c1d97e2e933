//! The journal: what is appended, in one transaction, before and after every effect.
//!
//! Each entry is a line of the store's one log and, at the same time, the change to the records that it stands for, so
//! that the two cannot differ. The order of a verb is intent, act, settle.
use crate::artifact::{ArtifactDeclaration, ArtifactExport};
use crate::bytes::ByteString;
use crate::id::{IntentId, JobId, WorkspaceId};
use crate::input::InputRecord;
use crate::job::JobOutcome;
use crate::record::{JobRecord, WorkspaceRecord};
use crate::state::WorkspaceState;
use crate::time::Timestamp;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// What a verb is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentKind {
    /// Make a workspace.
    Create,
    /// Copy files in.
    Put,
    /// Run a job.
    Run,
    /// Publish an artifact.
    Export,
    /// Remove a workspace.
    Remove,
}

impl IntentKind {
    /// Returns the name that the journal uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Put => "put",
            Self::Run => "run",
            Self::Export => "export",
            Self::Remove => "remove",
        }
    }
}

/// How an intent was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// By the verb that opened it.
    Settled,
    /// By the verb that opened it, which gave up.
    Abandoned,
    /// By a later verb.
    Reconciled,
}

/// One entry of a workspace's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The workspace whose journal it belongs to.
    pub workspace: WorkspaceId,
    /// When.
    pub at: Timestamp,
    /// What.
    pub change: Change,
}

/// What an entry says and does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a batch holds a few of them, and is gone with its verb"
)]
pub enum Change {
    /// A verb is about to act.
    IntentOpened {
        /// The intent.
        intent: IntentId,
        /// What it will do.
        verb: IntentKind,
        /// The job, for `run`.
        job: Option<JobId>,
        /// Further facts: destinations and digests of a `put`, the name of an export.
        detail: IntentDetail,
    },
    /// A verb has acted.
    IntentClosed {
        /// The intent.
        intent: IntentId,
        /// How.
        phase: Phase,
        /// In one sentence, where it was not simply settled.
        detail: Option<String>,
    },
    /// A workspace exists on record.
    WorkspaceAdded {
        /// The record, in the state that it begins with.
        record: WorkspaceRecord,
    },
    /// A workspace moved; conflicts when it is not in `from`.
    WorkspaceMoved {
        /// The state that it has to be in.
        from: WorkspaceState,
        /// The state that it goes to.
        to: WorkspaceState,
    },
    /// The tombstone of a destroyed workspace lost its jobs, artifacts and inputs; its id, and theirs, stay taken.
    /// Conflicts when the workspace is not destroyed, was pruned before, or has an open intent.
    WorkspacePruned,
    /// An output was declared; conflicts when the name is taken.
    ArtifactDeclared {
        /// The job that will make it.
        job: JobId,
        /// The declaration.
        declaration: ArtifactDeclaration,
    },
    /// An output is durable on the host.
    ArtifactExported {
        /// Its name.
        name: ByteString,
        /// What was published, where.
        export: ArtifactExport,
    },
    /// A declared output was given up.
    ArtifactDiscarded {
        /// Its name.
        name: ByteString,
    },
    /// Files landed.
    InputsAdded {
        /// The files.
        inputs: Vec<InputRecord>,
    },
    /// A job exists on record; conflicts when the id was ever used.
    JobAdded {
        /// The record, without an outcome.
        record: JobRecord,
    },
    /// A job ended.
    JobEnded {
        /// The job.
        job: JobId,
        /// What came of it.
        outcome: JobOutcome,
        /// The whole result package, where a bound cut what was returned.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        package: Option<String>,
    },
}

impl Change {
    /// Returns the name that the log's `kind` column holds.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::IntentOpened { .. } => "intent_opened",
            Self::IntentClosed { .. } => "intent_closed",
            Self::WorkspaceAdded { .. } => "workspace_added",
            Self::WorkspaceMoved { .. } => "workspace_moved",
            Self::WorkspacePruned => "workspace_pruned",
            Self::ArtifactDeclared { .. } => "artifact_declared",
            Self::ArtifactExported { .. } => "artifact_exported",
            Self::ArtifactDiscarded { .. } => "artifact_discarded",
            Self::InputsAdded { .. } => "inputs_added",
            Self::JobAdded { .. } => "job_added",
            Self::JobEnded { .. } => "job_ended",
        }
    }
}

/// What an intent says beside its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IntentDetail {
    /// Nothing more.
    None,
    /// The files that will land, with their digests; reconciliation looks whether they did.
    Inputs(Vec<InputRecord>),
    /// Which artifact will be published, and where.
    Export {
        /// The artifact's name.
        name: ByteString,
        /// The host path.
        destination: ByteString,
    },
    /// Whether unexported artifacts are given up, and whether the job before it keeps the workspace when it fails.
    Remove {
        /// `destroy --force`.
        force: bool,
        /// The removal belongs to an `exec` and follows its job.
        after_job: bool,
    },
}
