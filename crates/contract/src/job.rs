//! One command run in a workspace: what is asked for, and what came of it.
//!
//! A spec carries the values of forwarded variables and is therefore never stored; an outcome carries none.
//! Which status a set of observations amounts to is decided here, in one place, by [`judge`].
use crate::bytes::{ByteString, Secret};
use crate::enforcement::EffectivePolicy;
use crate::id::JobId;
use crate::input::WsPath;
use crate::policy::Limit;
use crate::time::Timestamp;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// A job as a provider is asked to run it.
#[derive(Debug, Clone)]
pub struct JobSpec {
    /// Its id.
    pub id: JobId,
    /// The command; never empty.
    pub argv: Vec<ByteString>,
    /// The forwarded variables; they are put over the provider's own environment.
    pub env: Vec<EnvVar>,
    /// The policy of its workspace; a job's own limits may be narrower.
    pub policy: EffectivePolicy,
    /// The directory that it starts in; none means the workspace's root.
    pub cwd: Option<WsPath>,
    /// What it reads from standard input.
    pub stdin: Stdin,
}

/// What a job reads from standard input. The bytes are copied to it; it is never given the descriptor itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stdin {
    /// Nothing: the end of file at once.
    #[default]
    Empty,
    /// A host file, which the caller opens.
    File(ByteString),
    /// The caller's own standard input, to its end.
    Caller,
}

/// A forwarded variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvVar {
    /// `[A-Za-z_][A-Za-z0-9_]*`.
    pub name: String,
    /// Its value, which nothing records.
    pub value: Secret,
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Exit status 0.
    Success,
    /// Exit status 0, but a declared artifact is missing or a check failed.
    PartialSuccess,
    /// Another exit status, or a signal of its own making.
    Failure,
    /// `stop` ended it.
    Cancelled,
    /// The wall clock ended it.
    Timeout,
    /// The sandbox broke: its supervisor was lost, or could not be set up.
    InfrastructureFailure,
    /// It went over memory or storage and was killed for it.
    ResourceExhausted,
}

impl JobStatus {
    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::PartialSuccess => "partial_success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::InfrastructureFailure => "infrastructure_failure",
            Self::ResourceExhausted => "resource_exhausted",
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a job did not end by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The kernel's out-of-memory killer, or the watch, ended it over `memory`.
    Memory,
    /// The watch ended it over `storage` (bytes).
    Storage,
    /// The watch ended it over `storage` (inodes).
    Inodes,
    /// It ran past its wall clock.
    WallClock,
    /// `stop` asked for it.
    Stopped,
    /// The command is not there (127).
    CommandNotFound,
    /// The command is there but cannot be executed (126).
    CommandNotExecutable,
    /// The supervisor was killed; what the job did until then is not known.
    SupervisorLost,
    /// The sandbox could not be set up.
    SetupFailed,
    /// The caller was killed before the job was let go; nothing of it ran.
    NeverStarted,
    /// The watch ended it since the host's file system was nearly full, whoever filled it.
    HostDiskFull,
}

impl Reason {
    /// Returns the stable name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Storage => "storage",
            Self::Inodes => "inodes",
            Self::WallClock => "wall_clock",
            Self::Stopped => "stopped",
            Self::CommandNotFound => "command_not_found",
            Self::CommandNotExecutable => "command_not_executable",
            Self::SupervisorLost => "supervisor_lost",
            Self::SetupFailed => "setup_failed",
            Self::NeverStarted => "never_started",
            Self::HostDiskFull => "host_disk_full",
        }
    }
}

/// Where an accounting figure comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The kernel's counter of the job's control group.
    Cgroup,
    /// `wait4` of the reaped children; memory is that of the largest process.
    Wait4,
    /// The largest of the samples that the watch took.
    Watch,
    /// Nothing ran.
    #[default]
    None,
}

impl Basis {
    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::Wait4 => "wait4",
            Self::Watch => "watch",
            Self::None => "none",
        }
    }
}

/// What a job used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Usage {
    /// From the payload's start to its end, in microseconds.
    pub wall_time_us: u64,
    /// User and system time of all processes, in microseconds.
    pub cpu_us: u64,
    /// Where `cpu_us` comes from.
    pub cpu_basis: Basis,
    /// Peak memory, in bytes.
    pub memory_bytes_max: u64,
    /// Where `memory_bytes_max` comes from.
    pub memory_basis: Basis,
    /// Bytes on the workspace's disk at the end.
    pub storage_bytes: u64,
    /// By how many bytes a watched memory limit was exceeded before the job was killed.
    pub memory_overshoot_bytes: u64,
    /// By how many bytes the storage limit was exceeded before the job was killed.
    pub storage_overshoot_bytes: u64,
}

/// What is known of a job's output, beside the output itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputFacts {
    /// Bytes produced.
    pub bytes: u64,
    /// Bytes kept; fewer than `bytes` where the budget cut the middle out.
    pub kept: u64,
    /// Bytes of `bytes` that went to standard output.
    pub stdout_bytes: u64,
    /// Bytes of `bytes` that went to standard error.
    pub stderr_bytes: u64,
    /// Line feeds produced.
    pub lines: u64,
    /// Whether each stream, taken whole, is UTF-8.
    pub encoding: Encoding,
    /// SHA-256 of the bytes kept, in order of arrival, as 64 hex digits: what `logs --raw | sha256sum` gives.
    pub sha256: String,
}

/// SHA-256 of nothing (FIPS 180-4).
pub const SHA256_OF_NOTHING: &str =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

impl Default for OutputFacts {
    fn default() -> Self {
        Self {
            bytes: 0,
            kept: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            lines: 0,
            encoding: Encoding::Utf8,
            sha256: SHA256_OF_NOTHING.into(),
        }
    }
}

/// Whether output is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Encoding {
    /// All of it is UTF-8.
    #[serde(rename = "utf-8")]
    Utf8,
    /// Some of it is not.
    #[serde(rename = "binary")]
    Binary,
}

impl Encoding {
    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Binary => "binary",
        }
    }
}

/// A declared assertion: a shell command that has to succeed in the workspace once the job has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckDeclaration {
    /// Its name, taken once in a job.
    pub name: String,
    /// What `sh -c` runs.
    pub command: ByteString,
}

/// A declared measurement: a file in which the job leaves one number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasureDeclaration {
    /// Its name, taken once in a job.
    pub name: String,
    /// The file.
    pub path: WsPath,
}

/// How a job was asked to run, beside its command; all of it is on record, since it holds no value of a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct JobTerms {
    /// `--cwd`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<WsPath>,
    /// `--stdin`: the host path, or `-`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<ByteString>,
    /// `--timeout`, in milliseconds; the workspace's wall clock where it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// `--detach`: nobody waits for it.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub detached: bool,
    /// `--check`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckDeclaration>,
    /// `--measure`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<MeasureDeclaration>,
    /// The job that this one checks, and under which name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_of: Option<(JobId, String)>,
}

impl JobTerms {
    /// Returns whether nothing was asked for but the command.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// What came of a declared assertion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CheckResult {
    /// Its name.
    pub name: String,
    /// Whether it held.
    pub passed: bool,
    /// The job that ran it; none where it was not run.
    pub job: Option<String>,
    /// Its exit status; none where it was stopped, or not run.
    pub exit_status: Option<i32>,
}

/// What came of a declared measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measurement {
    /// Its name.
    pub name: String,
    /// The number as the job wrote it; none where the file holds no finite number.
    pub value: Option<String>,
}

/// A limit that a job ran into without being killed for it, or that was watched to the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuotaEvent {
    /// Which limit.
    pub limit: Limit,
    /// How often, where that was counted; else 1.
    pub count: u64,
    /// What happened, in one sentence of ours.
    pub detail: String,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOutcome {
    /// How it ended.
    pub status: JobStatus,
    /// The exit status by shell convention (128 + signal); none where we stopped it.
    pub exit_status: Option<i32>,
    /// The signal that ended its main process.
    pub signal: Option<i32>,
    /// Why it did not end by itself.
    pub reason: Option<Reason>,
    /// What was tried and on what, where the sandbox broke; never output, never a secret.
    pub detail: Option<String>,
    /// When the payload was let go.
    pub started_at: Timestamp,
    /// When its end was seen.
    pub finished_at: Timestamp,
    /// What it used.
    pub usage: Usage,
    /// What is known of its output.
    pub output: OutputFacts,
    /// Limits that it ran into.
    pub quota_events: Vec<QuotaEvent>,
    /// What came of its checks, in the order of their declaration. Written also when empty: the supervisor's frames are
    /// read by position.
    #[serde(default)]
    pub checks: Vec<CheckResult>,
    /// What came of its measurements, in the order of their declaration.
    #[serde(default)]
    pub measurements: Vec<Measurement>,
}

/// What was seen at a job's end; [`judge`] makes a status of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    /// The exit code of the main process.
    pub exit_code: Option<i32>,
    /// The signal that ended the main process.
    pub signal: Option<i32>,
    /// The command could not be started: 127 or 126, as `exit_code` says.
    pub refused: bool,
    /// `stop` ended it.
    pub stopped: bool,
    /// The wall clock ended it.
    pub timed_out: bool,
    /// The kernel's OOM counter of the job's group rose, or the watch killed it over memory.
    pub over_memory: bool,
    /// The watch killed it over the disk's bytes.
    pub over_storage: bool,
    /// The watch killed it over the disk's inodes.
    pub over_inodes: bool,
    /// The watch killed it since the host's file system was nearly full.
    pub host_disk_full: bool,
}

/// A job's verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// How it ended.
    pub status: JobStatus,
    /// The exit status by shell convention.
    pub exit_status: Option<i32>,
    /// The signal.
    pub signal: Option<i32>,
    /// Why it did not end by itself.
    pub reason: Option<Reason>,
}

/// Decides what a job's observations amount to.
///
/// A job that came to its own end with status 0 is a success whatever happened beside it; then a stop beats the
/// wall clock, which beats a limit, which beats the exit code. 137 alone is never read as out of memory.
#[must_use]
pub fn judge(seen: &Observed) -> Verdict {
    let exit_status = seen.exit_code.or_else(|| seen.signal.map(|signal| 128 + signal));
    let verdict = |status, exit_status, reason| Verdict {
        status,
        exit_status,
        signal: if exit_status.is_some() { seen.signal } else { None },
        reason,
    };
    if exit_status == Some(0) {
        return verdict(JobStatus::Success, Some(0), None);
    }
    if seen.stopped {
        return verdict(JobStatus::Cancelled, None, Some(Reason::Stopped));
    }
    if seen.timed_out {
        return verdict(JobStatus::Timeout, None, Some(Reason::WallClock));
    }
    let over = [
        (seen.over_memory, Reason::Memory),
        (seen.over_storage, Reason::Storage),
        (seen.over_inodes, Reason::Inodes),
        (seen.host_disk_full, Reason::HostDiskFull),
    ];
    if let Some((_, reason)) = over.into_iter().find(|case| case.0) {
        return verdict(JobStatus::ResourceExhausted, exit_status.or(Some(137)), Some(reason));
    }
    match exit_status {
        Some(126) if seen.refused => {
            verdict(JobStatus::Failure, Some(126), Some(Reason::CommandNotExecutable))
        }
        Some(code) if seen.refused => {
            verdict(JobStatus::Failure, Some(code), Some(Reason::CommandNotFound))
        }
        Some(code) => verdict(JobStatus::Failure, Some(code), None),
        None => verdict(JobStatus::InfrastructureFailure, None, Some(Reason::SupervisorLost)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: &Observed, status: JobStatus, exit_status: Option<i32>) {
        let verdict = judge(seen);
        assert_eq!((verdict.status, verdict.exit_status), (status, exit_status), "{seen:?}");
    }

    #[test]
    fn one_order_of_causes_decides_the_status() {
        let none = Observed::default();
        let code = |code| Observed { exit_code: Some(code), ..Observed::default() };
        let killed = Observed { signal: Some(9), ..Observed::default() };
        check(&code(0), JobStatus::Success, Some(0));
        check(&code(7), JobStatus::Failure, Some(7));
        check(&killed, JobStatus::Failure, Some(137));
        check(&none, JobStatus::InfrastructureFailure, None);
        let stopped = Observed { stopped: true, timed_out: true, ..killed.clone() };
        check(&stopped, JobStatus::Cancelled, None);
        let timed_out = Observed { timed_out: true, over_memory: true, ..killed.clone() };
        check(&timed_out, JobStatus::Timeout, None);
        let over = Observed { over_memory: true, ..killed };
        check(&over, JobStatus::ResourceExhausted, Some(137));
        check(&Observed { stopped: true, ..code(0) }, JobStatus::Success, Some(0));
        check(&Observed { refused: true, ..code(127) }, JobStatus::Failure, Some(127));
    }
}
