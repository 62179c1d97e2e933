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
use crate::time::Timestamp;
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
    /// Workspaces whose jobs do what a script says; nothing is executed.
    Fake,
}

impl ProviderName {
    /// All of them; the first is the default.
    pub const ALL: [Self; 2] = [Self::Native, Self::Fake];

    /// Returns the name that flags and packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Fake => "fake",
        }
    }

    /// Finds a back end by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file with its permission bits and its modification time, in seconds since the epoch.
    File {
        /// Permission bits; anything beyond 0o777 is dropped.
        mode: u32,
        /// Seconds since the epoch.
        mtime: i64,
    },
    /// A directory, also an empty one.
    Directory,
    /// A symbolic link; whoever announces it has seen to it that it stays inside what is written.
    Link {
        /// What it says, as readlink(2) gives it.
        target: ByteString,
    },
}

/// What lies at a path in a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Where.
    pub path: WsPath,
    /// What.
    pub what: ListedKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, in seconds since the epoch.
    pub mtime: i64,
}

/// The kinds of entries that a job can leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListedKind {
    /// A regular file of so many bytes.
    File {
        /// Its length.
        size_bytes: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link, wherever it leads.
    Link {
        /// What it says.
        target: ByteString,
    },
    /// A FIFO, a socket or a device: never read.
    Special,
}

/// Which entries are wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListSpec {
    /// Below which directory; none means the workspace's root. A file is listed as itself.
    pub below: Option<WsPath>,
    /// Also what lies in the directories that are found.
    pub recursive: bool,
    /// At most this many.
    pub limit: u64,
}

/// What was found, in the order of the paths' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Listed>,
    /// Whether there are more than the limit allowed.
    pub more: bool,
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
    /// Produced bytes `start..end`, as far as they were kept: `head` is what lies in the kept beginning, `tail` what lies in the kept
    /// end, and `omitted` what of the range was produced and lies between.
    Range {
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
    },
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

/// Which of a job's two streams is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Streams {
    /// Both, in order of arrival.
    #[default]
    Both,
    /// Standard output; where a flood of switches was not recorded, what cannot be told apart belongs to it.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How far the output of a job was followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Followed {
    /// The produced byte that comes next.
    pub next: u64,
    /// How many bytes were skipped because they are not kept any more.
    pub omitted: u64,
    /// Whether the job has ended and nothing comes after `next`.
    pub ended: bool,
}

/// Captured output that a provider keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptOutput {
    /// Whose.
    pub job: JobId,
    /// Bytes on disk.
    pub bytes: u64,
    /// When it last changed.
    pub changed_at: Timestamp,
}

/// What a job is run with, beside what it is.
pub struct Ports<'a> {
    /// The slot that it runs in; shared with whatever outlives the caller.
    pub hold: &'a dyn Hold,
    /// Opened once it is prepared and before anything of it runs.
    pub gate: &'a mut dyn Gate,
    /// Is given output while the job runs, in order of arrival and on a best-effort basis: a sink that is too slow misses
    /// what the budget dropped. An error of it ends the giving, never the job.
    pub live: Option<&'a mut dyn ByteSink>,
}

impl core::fmt::Debug for Ports<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Ports").field("hold", &self.hold).finish_non_exhaustive()
    }
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

    /// Says what a job of such a workspace would be started with, one step a line; makes nothing.
    ///
    /// # Errors
    /// As [`Provider::create`].
    fn plan(&self, spec: &WorkspaceSpec, cx: &OpCx<'_>) -> Result<Vec<String>, ProviderError>;

    /// Runs a job to its end; the hold is shared with whatever outlives the caller.
    ///
    /// # Errors
    /// Nothing of the job ran; what was prepared for it is gone. Once the gate was opened, trouble is an outcome.
    fn run(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<JobOutcome, ProviderError>;

    /// Lets a job go and returns; it runs on without its caller, under the same limits. [`Provider::recover`] says later
    /// what came of it. Nobody is given its output live.
    ///
    /// # Errors
    /// Nothing of the job ran; what was prepared for it is gone.
    fn launch(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError>;

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

    /// Streams all captured output that was kept, of both streams or of one. Which output is whose is known once the job has
    /// ended: until then, and where its supervisor was lost, only both can be had.
    ///
    /// # Errors
    /// `sink` got a prefix of it; nothing, where one stream cannot be told apart.
    fn stream_output(
        &self,
        job: &JobId,
        streams: Streams,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError>;

    /// Gives what was produced from byte `from` on, as far as it is there by now; never waits.
    ///
    /// # Errors
    /// `sink` got a prefix of it.
    fn follow_output(
        &self,
        job: &JobId,
        from: u64,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<Followed, ProviderError>;

    /// Lists the jobs whose output is kept. It costs as much as there are jobs.
    ///
    /// # Errors
    /// The output is as it was.
    fn kept_outputs(&self, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError>;

    /// Removes what is kept of a job that has ended, its outcome too, which has to be on record; nothing happens to one that is in
    /// flight, or is gone already.
    ///
    /// # Errors
    /// Some of it may be left; removing again goes on.
    fn discard_output(&self, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError>;

    /// Lists what lies in a workspace; never follows a link.
    ///
    /// # Errors
    /// The workspace is as it was.
    fn list(
        &self,
        id: &WorkspaceId,
        spec: &ListSpec,
        cx: &OpCx<'_>,
    ) -> Result<Listing, ProviderError>;

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

    /// Writes a batch of entries: all of them, or none. Everything is copied aside first; then the gate is opened, when
    /// every source has been read to its end; then the batch is moved into place.
    ///
    /// # Errors
    /// The workspace is as it was.
    fn write(
        &self,
        id: &WorkspaceId,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        overwrite: bool,
        gate: &mut dyn Gate,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError>;

    /// Removes what a batch had copied aside that was killed before it began to be moved into place; nothing happens
    /// where its writer is alive.
    ///
    /// # Errors
    /// Some of it may be left; the next call goes on.
    fn clear_stage(&self, _id: &WorkspaceId) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Does the same, and brings a batch to its end that was killed while it was moved into place: the rest follows, or,
    /// where something stands against it, what was moved is taken back. Only who holds the workspace calls it.
    ///
    /// # Errors
    /// Some of it may be left; the next call goes on.
    fn finish_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        self.clear_stage(id)
    }

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
    /// The file that says what scripted jobs do cannot be used.
    #[error("the script `{path}` cannot be used: {why}")]
    Script {
        /// The file, made printable.
        path: String,
        /// Why not.
        why: String,
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
    /// What a job was to read from standard input cannot be read.
    #[error("`{path}` cannot be a job's standard input: {why}")]
    Stdin {
        /// The path, made printable.
        path: String,
        /// Why.
        why: String,
    },
    /// A job was to start in what is no directory of its workspace, or lies behind a link.
    #[error("a job cannot start in `{path}` of workspace {id}: {why}")]
    WorkingDirectory {
        /// The workspace.
        id: WorkspaceId,
        /// The path, made printable.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// The provider does not hold the workspace.
    #[error("the provider no longer holds workspace {id}")]
    NoWorkspace {
        /// Which.
        id: WorkspaceId,
    },
    /// It holds files under that id already, whoever put them there.
    #[error("there is a disk of workspace {id} already, and it holds something")]
    Occupied {
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
