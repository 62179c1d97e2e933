//! What a sandbox is asked to be: the input of [`plan`](crate::plan::plan).
//!
//! Everything here is a value that the caller has looked up already; `plan` asks the host nothing. Paths are absolute
//! and resolved.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::EffectivePolicy;
use bailiwick_contract::id::JobId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::EnvVar;
use bailiwick_contract::policy::Access;

/// A sandbox for one job.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// The job.
    pub job: JobId,
    /// The name of its control groups, unique on this host ([`crate::remains::group_name`]).
    pub group: String,
    /// The directory that becomes `/workspace`.
    pub disk: ByteString,
    /// The directory that the supervisor works in: output, outcome and control socket.
    pub job_dir: ByteString,
    /// The command.
    pub argv: Vec<ByteString>,
    /// The forwarded variables.
    pub env: Vec<EnvVar>,
    /// The directory below `/workspace` that it starts in; none means `/workspace` itself.
    pub cwd: Option<WsPath>,
    /// The policy as it is held.
    pub policy: EffectivePolicy,
    /// The host paths of the policy, looked up.
    pub host_paths: Vec<HostPathFacts>,
}

/// A host path as it is on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPathFacts {
    /// The path.
    pub path: ByteString,
    /// Whether the job may write there.
    pub access: Access,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// Its owner on disk.
    pub owner_uid: u32,
    /// Its group on disk.
    pub owner_gid: u32,
    /// Whether it goes first in `PATH`.
    pub toolchain: bool,
}
