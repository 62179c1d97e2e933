//! The result package: nine sections for readers, then `facts` for programs.
//!
//! The order of the fields is the order of the keys on the wire. Building a package is the engine's business, and so are
//! its bound and its Markdown; here are only the shapes.
use crate::enforcement::LimitFacts;
use crate::error::ExitCode;
use crate::job::{CheckResult, Measurement, OutputFacts, QuotaEvent};
use crate::policy::Limit;
use crate::record::About;
use crate::time::Timestamp;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The answer of every lifecycle verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultPackage {
    /// What happened, in one sentence.
    pub outcome_summary: String,
    /// How it ended; the exit code follows from it.
    pub status: Status,
    /// The facts that matter, one a line.
    pub key_findings: Vec<String>,
    /// What supports them.
    pub evidence: Vec<Evidence>,
    /// The artifacts that were exported.
    pub artifacts: Vec<Artifact>,
    /// What is weaker than a reader might think.
    pub warnings: Vec<String>,
    /// What it used.
    pub resource_usage: ResourceUsage,
    /// Where it comes from.
    pub provenance: Provenance,
    /// What a caller should do or know next; never cut by the bound.
    pub attention: Vec<String>,
    /// The typed form of all that the prose says.
    pub facts: Facts,
}

/// How a verb ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It completed.
    Success,
    /// The command succeeded, but a declared artifact is missing or a check failed.
    PartialSuccess,
    /// The job failed.
    Failure,
    /// The job was stopped.
    Cancelled,
    /// The wall clock ended the job.
    Timeout,
    /// The policy could not be satisfied.
    PolicyDenied,
    /// The provider broke.
    InfrastructureFailure,
    /// The job was killed over a limit.
    ResourceExhausted,
}

impl Status {
    /// Returns the exit code that stands for it.
    #[must_use]
    pub const fn exit_code(self) -> ExitCode {
        match self {
            Self::Success | Self::PartialSuccess => ExitCode::Success,
            Self::Failure => ExitCode::ComputationFailed,
            Self::Cancelled => ExitCode::Cancelled,
            Self::Timeout => ExitCode::Timeout,
            Self::PolicyDenied => ExitCode::PolicyDenied,
            Self::InfrastructureFailure => ExitCode::InfrastructureFailure,
            Self::ResourceExhausted => ExitCode::ResourceExhausted,
        }
    }

    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::PartialSuccess => "partial_success",
            Self::Failure => "failure",
            Self::Cancelled => "cancelled",
            Self::Timeout => "timeout",
            Self::PolicyDenied => "policy_denied",
            Self::InfrastructureFailure => "infrastructure_failure",
            Self::ResourceExhausted => "resource_exhausted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that supports a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What it is.
    pub label: String,
    /// `excerpt`, `check`, `measurement` or `reference`.
    pub kind: EvidenceKind,
    /// The job that it comes from.
    pub source: String,
    /// Whether the capture or the bound cut it.
    pub truncated: bool,
    /// The text; head and tail where it was cut.
    pub excerpt: String,
}

/// The kinds of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EvidenceKind {
    /// Captured output.
    Excerpt,
    /// A declared assertion, and whether it held.
    Check,
    /// A number that the job left.
    Measurement,
    /// Where something whole can be had, with its digest.
    Reference,
}

impl EvidenceKind {
    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Excerpt => "excerpt",
            Self::Check => "check",
            Self::Measurement => "measurement",
            Self::Reference => "reference",
        }
    }
}

/// An exported artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Artifact {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// Its media type.
    pub media_type: String,
    /// SHA-256 of the published bytes, as 64 hex digits.
    pub digest: String,
    /// How many bytes were published.
    pub size_bytes: u64,
    /// The host path, as it was given.
    pub reference: String,
}

/// What a verb used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceUsage {
    /// Seconds from the job's start to its end.
    pub wall_time_seconds: f64,
    /// User and system seconds of all processes.
    pub cpu_seconds: f64,
    /// Peak memory.
    pub max_memory_bytes: u64,
    /// Where `max_memory_bytes` comes from: `cgroup`, `wait4`, `watch` or `none`.
    pub max_memory_basis: String,
    /// Bytes on the disk, or of the artifact or the files copied.
    pub storage_bytes: u64,
    /// Bytes of output produced.
    pub output_bytes: u64,
}

impl Default for ResourceUsage {
    fn default() -> Self {
        Self {
            wall_time_seconds: 0.0,
            cpu_seconds: 0.0,
            max_memory_bytes: 0,
            max_memory_basis: "none".into(),
            storage_bytes: 0,
            output_bytes: 0,
        }
    }
}

/// Where a result comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Provenance {
    /// The workspace.
    pub workspace_id: String,
    /// The job; empty where there is none.
    pub job_id: String,
    /// The profile's name.
    pub profile: String,
    /// `sha256:<64 hex>` of what identifies the profile.
    pub image_digest: String,
    /// The job's start; else the workspace's creation.
    pub started_at: String,
    /// When the result was made.
    pub finished_at: String,
    /// The policy in one line.
    pub policy_summary: String,
    /// The command, then each file copied in, then the names of forwarded variables.
    pub inputs: Vec<String>,
    /// What correlates results: the workspace's id.
    pub trace_id: String,
}

/// The typed form of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Facts {
    /// The exit status by shell convention; null where there is none.
    pub exit_status: Option<i32>,
    /// The signal that ended the job's main process.
    pub signal: Option<i32>,
    /// The workspace's state.
    pub state: Option<String>,
    /// The job's status.
    pub job_status: Option<String>,
    /// Why the job did not end by itself.
    pub reason: Option<String>,
    /// Which provider held the workspace.
    pub provider: String,
    /// How long the job, or else the verb, took.
    pub duration_ms: u64,
    /// Each limit with its value, label and mechanism.
    pub policy: PolicyFacts,
    /// The output.
    pub output: Option<OutputFacts>,
    /// Limits that the job ran into.
    pub quota_events: Vec<QuotaEvent>,
    /// What came of the declared checks; absent where none were declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// What came of the declared measurements; absent where none were declared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measurements: Vec<Measurement>,
    /// What the workspace's owner says about it; absent where nothing was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<AboutFacts>,
    /// What `prune` removed, or would remove; absent for every other verb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prune: Option<PruneFacts>,
}

/// What the owner of a workspace says about it, as packages and listings carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AboutFacts {
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Whose it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The task that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When it expires; absent where it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whether `prune` leaves its record and its output alone.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub retain: bool,
}

impl AboutFacts {
    /// Returns what there is to say; none where nothing was said.
    #[must_use]
    pub fn of(about: &About) -> Option<Self> {
        let About { purpose, owner, parent, labels, expires_at, retain } = about.clone();
        let expires_at = expires_at.map(Timestamp::to_iso);
        let facts = Self { purpose, owner, parent, labels, expires_at, retain };
        (facts != Self::default()).then_some(facts)
    }
}

/// What `prune` removed, or would remove, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PruneFacts {
    /// Whether it acted; a preview did not.
    pub applied: bool,
    /// Expired workspaces.
    pub workspaces: u64,
    /// Expired workspaces that are kept, for artifacts that were never exported or because they could not be removed.
    pub kept: u64,
    /// Jobs whose captured output goes.
    pub outputs: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// What killed verbs left on no record; a preview does not look for it.
    pub leftovers: u64,
    /// Bytes on disk that this frees, in disks and captured output.
    pub freed_bytes: u64,
}

/// Each limit that a policy holds, in the order of [`Limit::ALL`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PolicyFacts(pub Vec<(Limit, LimitFacts)>);

impl Serialize for PolicyFacts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(limit, facts)| (limit.name(), facts)))
    }
}

impl<'de> Deserialize<'de> for PolicyFacts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = alloc::collections::BTreeMap::<Limit, LimitFacts>::deserialize(deserializer)?;
        Ok(Self(map.into_iter().collect()))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for PolicyFacts {
    fn schema_name() -> alloc::borrow::Cow<'static, str> {
        "PolicyFacts".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let facts = generator.subschema_for::<LimitFacts>();
        let names: Vec<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        schemars::json_schema!({
            "description": "Each limit with its value, label and mechanism",
            "type": "object",
            "propertyNames": {"enum": names},
            "additionalProperties": facts,
        })
    }
}
