//! What a back end that holds workspaces has to offer.
//!
//! Every call blocks, takes an [`OpCx`] and says in its errors what state is left behind; those sentences are what
//! the tests of a provider try. Records, locks between verbs and reconciliation are the engine's, not a provider's.
use crate::artifact::Digest;
use crate::bytes::ByteString;
use crate::context::{Interrupted, OpCx};
use crate::enforcement::{Capabilities, EffectivePolicy};
use crate::id::{JobId, WorkspaceId};
use crate::input::WsPath;
use crate::job::{JobOutcome, JobSpec};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// The back ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProviderName {
    /// Linux namespaces on this host.
    Native,
}

impl ProviderName {
    /// Returns the name that flags and packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
        }
    }
}

/// What a provider is asked to make.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkspaceSpec {
    /// Its id.
    pub id: WorkspaceId,
    /// The profile's name, which the provider knows.
    pub profile: String,
    /// The policy as the provider said it could hold it.
    pub policy: EffectivePolicy,
}

/// A runtime environment that a provider offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// SHA-256 of what identifies it.
    pub digest: Digest,
}

/// What a provider says of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Whether the provider still holds it.
    pub present: bool,
    /// Bytes on its disk.
    pub storage_bytes: u64,
    /// Entries on its disk.
    pub inodes: u64,
}

/// What a provider knows of a job whose caller is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// Its supervisor, or the caller that started it, is alive.
    Alive,
    /// It ended, and this came of it.
    Ended(Box<JobOutcome>),
    /// It was never let go: nothing of the caller's ran.
    NeverStarted,
    /// It was let go, and nothing says how it ended.
    Lost,
}

/// What `stop` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReply {
    /// The job was told to end, and has ended.
    Stopped,
    /// It had ended before.
    NotRunning,
}

/// What removal did to one part of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It was there and is gone.
    Gone,
    /// It was not there.
    WasAbsent,
}

/// What a provider keeps under an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// A workspace's disk.
    Workspace(WorkspaceId),
    /// A job's output and outcome.
    Job(JobId),
}

/// Something that a provider keeps and that is on no record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// What it is.
    pub kept: Kept,
    /// Whether it was removed; one that holds what a job made is left.
    pub removed: bool,
}

/// Makes an intent durable; a provider calls it once, after it has prepared a job and before anything of it runs.
pub trait Gate {
    /// Opens the gate.
    ///
    /// # Errors
    /// The intent is not durable; the provider ends what it prepared and runs nothing.
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// The kind of an entry that is written into a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file with its permission bits and its modification time, in seconds since the epoch.
    File {
        /// Permission bits; anything beyond 0o777 is dropped.
        mode: u32,
        /// Seconds since the epoch.
        mtime: i64,
    },
    /// A directory.
    Directory,
}

/// Bytes that are read from a workspace; the provider pushes them, the caller keeps what it wants.
pub trait ByteSink {
    /// Takes the next bytes.
    ///
    /// # Errors
    /// The caller cannot take more; reading ends there.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// One entry that is written into a workspace, and where its bytes come from.
pub trait EntrySource {
    /// Where it goes.
    fn destination(&self) -> &WsPath;

    /// What it is.
    fn kind(&self) -> EntryKind;

    /// Fills `buffer` with the next bytes and returns how many; 0 at the end.
    ///
    /// # Errors
    /// The source cannot be read, or is not what was announced; the batch is undone.
    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>>;
}

/// Which captured output is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputPart {
    /// All that was kept.
    Kept,
    /// At most this many bytes from the start and from the end of what was kept.
    HeadTail {
        /// Bytes from the start.
        head: u64,
        /// Bytes from the end.
        tail: u64,
    },
}

/// Captured output, as far as it was kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputBytes {
    /// From the start.
    pub head: ByteString,
    /// How many bytes lie between `head` and `tail`, kept or not.
    pub omitted: u64,
    /// From the end; empty where `head` reaches the end.
    pub tail: ByteString,
}

/// A hold on one of a workspace's job slots, or on all of them, until it is dropped.
///
/// The hold is the kernel's: it ends, at the latest, with the processes that have it. A job's supervisor shares its
/// caller's hold until the job's processes are gone, so that a workspace stays held when the caller is killed.
pub trait Hold: Send + core::fmt::Debug {
    /// Returns the hold as the type that its provider made it.
    fn as_any(&self) -> &dyn core::any::Any;
}

/// Which slots a verb wants to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// Any one of the first so many: a job's.
    One(u64),
    /// All of the first so many: a verb that changes the whole workspace.
    All(u64),
}

/// Holds workspaces in one kind of back end.
pub trait Provider: Send + Sync {
    /// Returns which back end it is.
    fn name(&self) -> ProviderName;

    /// Returns what this host can hold; probed, not inferred.
    ///
    /// # Errors
    /// [`ProviderError::Unavailable`] where nothing can run here.
    fn capabilities(&self, cx: &OpCx<'_>) -> Result<Capabilities, ProviderError>;

    /// Finds a profile by name; `None` names the default.
    ///
    /// # Errors
    /// [`ProviderError::UnknownProfile`].
    fn profile(&self, name: Option<&str>, cx: &OpCx<'_>) -> Result<Profile, ProviderError>;

    /// Makes a workspace with an empty disk.
    ///
    /// # Errors
    /// Nothing of the workspace is left behind.
    fn create(&self, spec: &WorkspaceSpec, cx: &OpCx<'_>) -> Result<(), ProviderError>;

    /// Looks at a workspace; one that the provider lost is not an error.
    ///
    /// # Errors
    /// The workspace is as it was.
    fn inspect(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<Inspection, ProviderError>;

    /// Returns whether it holds a workspace; costs little, where `inspect` measures.
    ///
    /// # Errors
    /// The workspace is as it was.
    fn is_present(&self, id: &WorkspaceId) -> Result<bool, ProviderError>;

    /// Takes a hold without waiting; `None` where somebody else has it.
    ///
    /// # Errors
    /// Nothing is held. [`ProviderError::NoWorkspace`] says that nobody can hold it from now on; who had it may still
    /// be about to record why it is gone.
    fn hold(&self, id: &WorkspaceId, slots: Slots) -> Result<Option<Box<dyn Hold>>, ProviderError>;

    /// Says that a job will follow soon, so that whatever takes time may begin; nothing is left of it if none does.
    fn expect_job(&self) {}

    /// Runs a job to its end; `hold` is shared with whatever outlives the caller.
    ///
    /// # Errors
    /// Nothing of the job ran; what was prepared for it is gone. Once `gate` was opened, trouble is an outcome.
    fn run(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        hold: &dyn Hold,
        gate: &mut dyn Gate,
        cx: &OpCx<'_>,
    ) -> Result<JobOutcome, ProviderError>;

    /// Says that the outcome of a job is on record, so that what only proves it may go.
    fn settled(&self, _job: &JobId, _outcome: &JobOutcome) {}

    /// Returns what is known of a job whose caller may be gone.
    ///
    /// # Errors
    /// The job is as it was.
    fn recover(
        &self,
        id: &WorkspaceId,
        job: &JobId,
        cx: &OpCx<'_>,
    ) -> Result<Recovered, ProviderError>;

    /// Ends a job: asks, waits for `grace`, then kills the whole tree; returns once the outcome is recorded.
    ///
    /// # Errors
    /// The job may still run.
    fn stop(&self, job: &JobId, grace: Duration, cx: &OpCx<'_>)
    -> Result<StopReply, ProviderError>;

    /// Reads captured output, which outlives the workspace.
    ///
    /// # Errors
    /// The output is as it was.
    fn output(
        &self,
        job: &JobId,
        part: OutputPart,
        cx: &OpCx<'_>,
    ) -> Result<OutputBytes, ProviderError>;

    /// Streams all captured output that was kept.
    ///
    /// # Errors
    /// `sink` got a prefix of it.
    fn stream_output(
        &self,
        job: &JobId,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError>;

    /// Reads one regular file; never follows a link out, and never a link at the end.
    ///
    /// # Errors
    /// `sink` got a prefix of it.
    fn read(
        &self,
        id: &WorkspaceId,
        path: &WsPath,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError>;

    /// Writes a batch of entries: all of them, or none.
    ///
    /// # Errors
    /// The workspace is as it was.
    fn write(
        &self,
        id: &WorkspaceId,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        overwrite: bool,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError>;

    /// Removes a workspace's disk; captured output stays.
    ///
    /// # Errors
    /// Some of the disk may be left; removing again goes on.
    fn remove(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<Removed, ProviderError>;

    /// Removes what a job left outside its workspace: control groups of a killed supervisor.
    ///
    /// # Errors
    /// Some of it may be left; the next call goes on.
    fn sweep(&self, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError>;

    /// Removes workspaces and jobs that `is_known` does not know, that nobody holds, that have not changed for `age`,
    /// and in which nothing ever ran: what a verb that was killed before its first record left. It costs as much as
    /// there are workspaces and jobs. Returns every one that it removed, and every unknown one that holds something
    /// and was therefore left.
    ///
    /// # Errors
    /// Some of it may be left; the next call goes on.
    fn remove_orphans(
        &self,
        is_known: &dyn Fn(&Kept) -> bool,
        age: Duration,
        cx: &OpCx<'_>,
    ) -> Result<Vec<Orphan>, ProviderError>;
}

/// Why a provider could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// Nothing can run on this host.
    #[error("the {provider} provider cannot run here: {message}")]
    Unavailable {
        /// Which provider.
        provider: &'static str,
        /// What is lacking.
        message: String,
        /// What to do about it.
        remediation: String,
    },
    /// The home is not a directory that we may use.
    #[error("the home `{path}` {why}")]
    Home {
        /// The home, made printable.
        path: String,
        /// Why not, as the end of a sentence.
        why: String,
    },
    /// The supervisor's program is not where it should be, or is another version.
    #[error("{message}")]
    Supervisor {
        /// What was found, and where.
        message: String,
    },
    /// There is no such profile.
    #[error("there is no profile `{name}` here")]
    UnknownProfile {
        /// The name, made printable.
        name: String,
        /// The profiles that there are.
        known: String,
    },
    /// A host path cannot be shown to a job.
    #[error("the host path `{path}` cannot be allowed: {why}")]
    HostPath {
        /// The path, made printable.
        path: String,
        /// Why.
        why: String,
    },
    /// The provider does not hold the workspace.
    #[error("the provider no longer holds workspace {id}")]
    NoWorkspace {
        /// Which.
        id: WorkspaceId,
    },
    /// There is no such file in the workspace.
    #[error("workspace {id} has no file `{path}`")]
    NoFile {
        /// The workspace.
        id: WorkspaceId,
        /// The path, made printable.
        path: String,
    },
    /// The path is there but is no regular file, or leads through a link.
    #[error("`{path}` in workspace {id} is {what}")]
    NotAFile {
        /// The workspace.
        id: WorkspaceId,
        /// The path, made printable.
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// Something is at the destination already.
    #[error("workspace {id} already has something at `{path}`")]
    Exists {
        /// The workspace.
        id: WorkspaceId,
        /// The path, made printable.
        path: String,
    },
    /// A directory is at the destination of a file, or the reverse.
    #[error("`{path}` in workspace {id} is {what}, which an input cannot replace")]
    InTheWay {
        /// The workspace.
        id: WorkspaceId,
        /// The path, made printable.
        path: String,
        /// What is there.
        what: &'static str,
    },
    /// The home's disk is full, or its inodes or quota are used up.
    #[error("no space is left: {what}")]
    NoSpace {
        /// What was being written.
        what: String,
    },
    /// The intent could not be made durable, so nothing was run.
    #[error("the intent could not be made durable, so nothing was run")]
    Gate(#[source] Box<dyn Error + Send + Sync>),
    /// The caller's own end of a copy failed.
    #[error("the copy was ended by its other side")]
    Peer(#[source] Box<dyn Error + Send + Sync>),
    /// The operation was interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A step on the host failed.
    #[error("{step}")]
    Host {
        /// What was tried, on what.
        step: String,
        /// Why it failed.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}
