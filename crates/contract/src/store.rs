//! What the durable state has to offer: one `append`, and readers by noun.
//!
//! A batch is one transaction and one sync to disk; when `append` returns, the batch survives a power cut. There is no
//! other way to change a record than an entry.
use crate::artifact::ArtifactRecord;
use crate::id::{JobId, WorkspaceId};
use crate::input::InputRecord;
use crate::journal::Entry;
use crate::record::{JobRecord, OpenIntent, WorkspaceRecord};
use crate::state::WorkspaceState;
use crate::time::Timestamp;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;

/// Proof that a batch is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Receipts {
    /// The sequence number, in its stream, of each entry of the batch.
    pub seqs: Vec<u64>,
}

/// Which workspaces a listing wants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkspaceFilter {
    /// Only those in one of these states; empty means any.
    pub states: Vec<WorkspaceState>,
    /// Only those of this owner.
    pub owner: Option<String>,
    /// Only those that have each of these labels, with this value where one is given.
    pub labels: Vec<(String, Option<String>)>,
    /// Only those whose time was over by then.
    pub overdue_at: Option<Timestamp>,
    /// Only those whose state has not changed since then.
    pub unchanged_since: Option<Timestamp>,
    /// At most this many, newest first.
    pub limit: u64,
}

/// The durable state.
pub trait Store: Send + Sync {
    /// Appends a batch: all of it or nothing, durable when this returns.
    ///
    /// # Errors
    /// [`StoreError`]; nothing of the batch was kept.
    fn append(&self, batch: &[Entry]) -> Result<Receipts, StoreError>;

    /// Finds a workspace, also a destroyed one.
    ///
    /// # Errors
    /// [`StoreError`], never for an unknown id.
    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRecord>, StoreError>;

    /// Lists workspaces, newest first, and says how many match in all. One that was pruned is in no listing.
    ///
    /// # Errors
    /// [`StoreError`].
    fn workspaces(
        &self,
        filter: &WorkspaceFilter,
    ) -> Result<(Vec<WorkspaceRecord>, u64), StoreError>;

    /// Finds a job, also of a destroyed workspace.
    ///
    /// # Errors
    /// [`StoreError`], never for an unknown id.
    fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError>;

    /// Finds the workspace of a job that was pruned with it.
    ///
    /// # Errors
    /// [`StoreError`], never for an unknown id.
    fn pruned_job(&self, id: &JobId) -> Result<Option<WorkspaceId>, StoreError>;

    /// Lists a workspace's jobs, oldest first.
    ///
    /// # Errors
    /// [`StoreError`].
    fn jobs(&self, workspace: &WorkspaceId) -> Result<Vec<JobRecord>, StoreError>;

    /// Lists a workspace's artifacts in the order of their declaration.
    ///
    /// # Errors
    /// [`StoreError`].
    fn artifacts(&self, workspace: &WorkspaceId) -> Result<Vec<ArtifactRecord>, StoreError>;

    /// Lists a workspace's inputs in the order in which they landed.
    ///
    /// # Errors
    /// [`StoreError`].
    fn inputs(&self, workspace: &WorkspaceId) -> Result<Vec<InputRecord>, StoreError>;

    /// Lists open intents, oldest first: of one workspace, or of all.
    ///
    /// # Errors
    /// [`StoreError`].
    fn open_intents(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<OpenIntent>, StoreError>;

    /// Looks for damage in what is kept, as far as that can be told without knowing what it means; it reads everything.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] names the first thing that does not fit together.
    fn check(&self) -> Result<(), StoreError>;
}

/// Opens the store when it is first needed; a verb that runs a job starts its supervisor before.
pub trait StorePort: Send + Sync {
    /// Opens it, or returns the one that is open.
    ///
    /// # Errors
    /// [`StoreError`]; nothing was rewritten.
    fn open(&self) -> Result<&dyn Store, StoreError>;
}

/// Why the durable state could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The home is not a directory that we may use.
    #[error("the home `{path}` {why}")]
    Home {
        /// The home, made printable.
        path: String,
        /// Why not, as the end of a sentence.
        why: String,
    },
    /// A newer major version wrote it.
    #[error("the state in `{path}` has schema {found}, and this program knows up to {known}")]
    Newer {
        /// The database, made printable.
        path: String,
        /// Its schema, `major.minor`.
        found: String,
        /// The newest schema that this program knows.
        known: String,
    },
    /// It is damaged, or no database of ours.
    #[error("the state in `{path}` cannot be read: {why}")]
    Damaged {
        /// The database, made printable.
        path: String,
        /// What SQLite says.
        why: String,
    },
    /// The disk is full or the home is read-only.
    #[error("the state in `{path}` cannot be written: {why}")]
    Unwritable {
        /// The database, made printable.
        path: String,
        /// Why.
        why: String,
    },
    /// The state moved on: another verb was quicker. Nothing was changed.
    #[error("{what}")]
    Conflict {
        /// What does not fit.
        what: String,
    },
    /// Another process kept the write lock for too long.
    #[error(
        "the state in `{path}` is busy: another process has held its write lock for {seconds} s"
    )]
    Busy {
        /// The database, made printable.
        path: String,
        /// How long this process waited.
        seconds: u64,
    },
    /// Something else.
    #[error("{step}")]
    Other {
        /// What was tried.
        step: String,
        /// Why it failed.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}
