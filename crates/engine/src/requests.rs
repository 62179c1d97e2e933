//! What each verb is asked for, and what it answers.
//!
//! The composition roots (the CLI, the Python module) build requests from flags or parameters; the engine decides
//! everything else. Nothing here acts.
use bailiwick_contract::artifact::ArtifactDeclaration;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::Strictness;
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{CheckDeclaration, EnvVar, MeasureDeclaration, Stdin};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::policy::Policy;
use bailiwick_contract::provider::Streams;
use bailiwick_contract::state::WorkspaceState;
use core::error::Error;
use core::fmt;
use core::time::Duration;
use std::path::PathBuf;

/// The bound of a package that a caller who names none gets, in bytes.
pub const BOUND_BYTES_DEFAULT: usize = 8_192;

/// The grace between asking a job to end and killing it, where the caller names none.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(2);

/// How much a package may hold, in both renderings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// `--max-result-bytes`; below the floor the verb refuses before it does anything.
    pub max_bytes: usize,
    /// `--package nine`: without `facts`, which then take no room either.
    pub nine: bool,
}

impl Default for Bound {
    fn default() -> Self {
        Self { max_bytes: BOUND_BYTES_DEFAULT, nine: false }
    }
}

/// A policy as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyRequest {
    /// What the workspace may do.
    pub policy: Policy,
    /// Which limits the caller named, and what it says about watched ones.
    pub strictness: Strictness,
}

/// A host file or directory that is copied in before a job: `--input NAME=HOST_PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRequest {
    /// Where it goes; checked by the verb.
    pub destination: ByteString,
    /// Where it comes from, as it was given.
    pub source: PathBuf,
}

/// Where a declared artifact goes: `--export NAME=PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportTarget {
    /// The artifact's name.
    pub name: ByteString,
    /// The host path, as it was given.
    pub destination: PathBuf,
}

/// The variables that a job is handed; [`crate::env`] parses them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobEnvironment {
    /// Names and values; only the names are ever recorded.
    pub vars: Vec<EnvVar>,
    /// The files that some of them come from.
    pub files: Vec<ByteString>,
}

/// Says something to the caller while a verb is still at work, such as who holds the workspace; one line, printable.
pub type Notice<'a> = &'a dyn Fn(&str);

/// Takes output of a job while it runs; an error ends the giving, never the job.
pub type Listener<'a> = &'a dyn Fn(&[u8]) -> Result<(), Box<dyn Error + Send + Sync>>;

/// Who is given a job's output while it runs: `--stream`.
#[derive(Clone, Copy, Default)]
pub struct Live<'a>(pub Option<Listener<'a>>);

impl fmt::Debug for Live<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Live").field(&self.0.is_some()).finish()
    }
}

/// What the owner of a new workspace says about it; [`crate::about`] checks it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AboutRequest {
    /// `--purpose`.
    pub purpose: Option<String>,
    /// `--owner`.
    pub owner: Option<String>,
    /// `--parent`.
    pub parent: Option<String>,
    /// `--label`, in the order of the flags.
    pub labels: Vec<(String, String)>,
    /// `--ttl`; none means that it never expires.
    pub ttl: Option<Duration>,
    /// `--retain`.
    pub retain: bool,
}

/// How far a `create` goes that makes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DryRun {
    /// `--dry-run`: everything is checked.
    Check,
    /// `--dry-run --plan`: and the policy and the isolation plan are shown.
    Plan,
}

/// `create`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CreateRequest {
    /// `--workspace-id`; minted where it is absent.
    pub workspace: Option<WorkspaceId>,
    /// `--profile`; the provider's default where it is absent.
    pub profile: Option<String>,
    /// The policy flags.
    pub policy: PolicyRequest,
    /// What its owner says about it.
    pub about: AboutRequest,
    /// `--dry-run`: nothing is made.
    pub dry_run: Option<DryRun>,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// `put`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The host file or directory; how it is called, where it is a stream.
    pub source: PathBuf,
    /// Where it goes, relative to the workspace; `.` is the workspace itself.
    pub destination: ByteString,
    /// `--overwrite`.
    pub overwrite: bool,
    /// `--ignore-file`: patterns of what is left out, relative to the source.
    pub ignore_file: Option<PathBuf>,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// What a job is, for `run` and `exec` alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobRequest {
    /// `--job-id`; minted where it is absent.
    pub job: Option<JobId>,
    /// The command; empty refuses.
    pub argv: Vec<ByteString>,
    /// `--declare`; [`crate::declare::artifact`] parses one.
    pub declares: Vec<ArtifactDeclaration>,
    /// `--input`; [`crate::declare::input`] parses one.
    pub inputs: Vec<InputRequest>,
    /// `--env` and `--env-file`.
    pub environment: JobEnvironment,
    /// `--cwd`; the workspace's root where it is absent.
    pub cwd: Option<WsPath>,
    /// `--stdin`.
    pub stdin: Stdin,
    /// `--timeout`: no more than the workspace's wall clock, which holds where it is absent.
    pub timeout: Option<Duration>,
    /// `--check`; [`crate::declare::check`] parses one.
    pub checks: Vec<CheckDeclaration>,
    /// `--measure`; [`crate::declare::measure`] parses one.
    pub measures: Vec<MeasureDeclaration>,
}

/// `run`.
#[derive(Clone)]
pub struct RunRequest<'a> {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The job.
    pub job: JobRequest,
    /// `--wait`: how long to wait for a free slot; none means the workspace's wall clock, zero refuses at once.
    pub wait: Option<Duration>,
    /// Told once who holds the workspace, when the verb has to wait.
    pub notice: Notice<'a>,
    /// `--detach`: return once the job was let go.
    pub detach: bool,
    /// `--stream`; a detached job gives nobody its output live.
    pub live: Live<'a>,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

impl fmt::Debug for RunRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunRequest")
            .field("workspace", &self.workspace)
            .field("job", &self.job)
            .field("wait", &self.wait)
            .field("detach", &self.detach)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

/// `exec`: create, run, export and destroy in one call.
#[derive(Debug, Clone, Default)]
pub struct ExecRequest<'a> {
    /// `--workspace-id`; minted where it is absent.
    pub workspace: Option<WorkspaceId>,
    /// `--profile`; the provider's default where it is absent.
    pub profile: Option<String>,
    /// The policy flags.
    pub policy: PolicyRequest,
    /// What its owner says about the workspace.
    pub about: AboutRequest,
    /// The job.
    pub job: JobRequest,
    /// `--export`; one for each declared name, [`crate::declare::export`] parses one.
    pub exports: Vec<ExportTarget>,
    /// `--stream`.
    pub live: Live<'a>,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// `stop`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// `--apply`; without it the verb only says what it would end.
    pub apply: bool,
    /// `--grace`: between asking and killing; [`GRACE_DEFAULT`].
    pub grace: Duration,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// `wait`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitRequest {
    /// A workspace's or a job's id, as it was given; a workspace's wins.
    pub handle: String,
    /// `--timeout`: how long to wait; none means until the end.
    pub timeout: Option<Duration>,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// Which part of captured output `logs` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPart {
    /// `--stdout` or `--stderr`; both where neither is given.
    pub streams: Streams,
    /// `--range`: produced bytes from the first to before the second; only of both streams.
    pub range: Option<(u64, u64)>,
}

/// `inspect`, without `--logs` and without `--full`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectRequest {
    /// A workspace's or a job's id, as it was given; a workspace's wins.
    pub handle: String,
    /// The bound of the package; none means unbounded, which is what `--full` asks for.
    pub bound: Option<Bound>,
}

/// `export`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The declared artifact's name; with `undeclared`, how it is called in the answer.
    pub name: ByteString,
    /// `--to`.
    pub destination: PathBuf,
    /// `--path`: where it is in the workspace, if not at its name.
    pub path: Option<ByteString>,
    /// `--undeclared`: nobody declared it, and nothing is recorded but the intent.
    pub undeclared: bool,
    /// `--tar`: a directory becomes one tar file.
    pub tar: bool,
    /// `--no-clobber`: whatever is at the destination refuses.
    pub no_clobber: bool,
    /// `--expect-sha256`, as it was given.
    pub expect_sha256: Option<String>,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// `destroy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestroyRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// `--force`: stop what runs, and give up artifacts that were never exported.
    pub force: bool,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// `seal`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

/// How long captured output and tombstones are kept, where the caller names no age: 7 days.
pub const OLDER_THAN_DEFAULT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// How much captured output a home keeps, where the caller names no number: 1 GiB.
pub const KEEP_BYTES_DEFAULT: u64 = 1 << 30;

/// `prune`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneRequest {
    /// `--apply`; without it the verb only says what it would remove.
    pub apply: bool,
    /// `--force`: also expired workspaces with artifacts that were never exported.
    pub force: bool,
    /// `--older-than`: how old captured output and tombstones have to be; [`OLDER_THAN_DEFAULT`].
    pub older_than: Duration,
    /// `--keep-bytes`: how much captured output is kept of what is younger; [`KEEP_BYTES_DEFAULT`].
    pub keep_bytes: u64,
    /// The bound of the package; none means unbounded.
    pub bound: Option<Bound>,
}

impl Default for PruneRequest {
    fn default() -> Self {
        let (older_than, keep_bytes) = (OLDER_THAN_DEFAULT, KEEP_BYTES_DEFAULT);
        Self { apply: false, force: false, older_than, keep_bytes, bound: None }
    }
}

/// `list`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListRequest {
    /// `--state`, several allowed; none means every state.
    pub states: Vec<WorkspaceState>,
    /// `--owner`; none means anybody's.
    pub owner: Option<String>,
    /// `--label K[=V]`, all of which have to be there.
    pub labels: Vec<(String, Option<String>)>,
    /// `--size`: measure each disk, which walks it.
    pub size: bool,
    /// At most this many, newest first.
    pub limit: u64,
}

/// What a verb answers; a refusal is a [`bailiwick_contract::error::Failure`] instead.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The package, within its bound.
    pub package: ResultPackage,
    /// The exit code; that of the package's status, unless an `exec` could not export.
    pub exit: ExitCode,
    /// Whether the bound cut something.
    pub cut: bool,
}
