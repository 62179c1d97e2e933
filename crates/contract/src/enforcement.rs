//! What a host makes of a policy: each limit with its label and the mechanism behind it.
//!
//! `resolve` decides, from values alone, whether a policy can be honoured; it never weakens one silently.
//! The rules are told in docs/concepts.md.
use crate::bytes::ByteString;
use crate::policy::{Access, Limit, Network, Policy};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Whether a limit holds, or is only watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// By the kernel, or by our own process for wall clock, output and concurrency.
    Enforced,
    /// Not held by the kernel. Memory and storage are sampled, and the job is stopped once it is over.
    Measured,
}

impl Label {
    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Measured => "measured",
        }
    }
}

/// What enforces or measures a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// A network namespace of the job's own.
    NetNamespace,
    /// A mount namespace that holds declared parts only.
    MountNamespace,
    /// A group of cgroup version 1.
    #[serde(rename = "cgroup-v1")]
    CgroupV1,
    /// A group of cgroup version 2.
    #[serde(rename = "cgroup-v2")]
    CgroupV2,
    /// `RLIMIT_NPROC`, counted per user namespace since Linux 5.14.
    RlimitNproc,
    /// Whole cores by affinity, with `sched_setaffinity` denied.
    CpuAffinity,
    /// The supervisor samples the job's memory every 20 ms.
    WatchMemory,
    /// The supervisor samples `statfs` every 20 ms, and walks the disk when that says so.
    WatchStatfs,
    /// A timer in the supervisor and a second one in the sandbox's init.
    SupervisorTimer,
    /// The supervisor drains, counts and keeps head and tail.
    SupervisorCapture,
    /// One lock a job in flight, held by its supervisor.
    SlotLock,
    /// A script says what a job does, so that there is nothing to hold.
    Scripted,
}

impl Mechanism {
    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NetNamespace => "net-namespace",
            Self::MountNamespace => "mount-namespace",
            Self::CgroupV1 => "cgroup-v1",
            Self::CgroupV2 => "cgroup-v2",
            Self::RlimitNproc => "rlimit-nproc",
            Self::CpuAffinity => "cpu-affinity",
            Self::WatchMemory => "watch-memory",
            Self::WatchStatfs => "watch-statfs",
            Self::SupervisorTimer => "supervisor-timer",
            Self::SupervisorCapture => "supervisor-capture",
            Self::SlotLock => "slot-lock",
            Self::Scripted => "scripted",
        }
    }
}

/// How well a host can hold one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enforcement {
    /// Whether it holds.
    pub label: Label,
    /// By what.
    pub mechanism: Mechanism,
}

impl Enforcement {
    /// A limit that holds.
    #[must_use]
    pub const fn enforced(mechanism: Mechanism) -> Self {
        Self { label: Label::Enforced, mechanism }
    }

    /// A limit that is watched.
    #[must_use]
    pub const fn measured(mechanism: Mechanism) -> Self {
        Self { label: Label::Measured, mechanism }
    }
}

/// What a provider can hold on this host; `None` where it can do nothing about a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    /// An empty network.
    pub network_disabled: Option<Enforcement>,
    /// A network with a way out.
    pub network_enabled: Option<Enforcement>,
    /// Declared host paths and nothing else of the host.
    pub filesystem: Option<Enforcement>,
    /// Memory.
    pub memory: Option<Enforcement>,
    /// A whole number of cores.
    pub cpu_whole: Option<Enforcement>,
    /// A fraction of a core.
    pub cpu_fraction: Option<Enforcement>,
    /// Processes and threads.
    pub pids: Option<Enforcement>,
    /// The disk.
    pub storage: Option<Enforcement>,
    /// Wall clock.
    pub wall_clock: Option<Enforcement>,
    /// Captured output.
    pub output_bytes: Option<Enforcement>,
    /// Jobs in flight.
    pub concurrency: Option<Enforcement>,
    /// What the host lacks, for `doctor` and for refusals.
    pub lacks: Vec<Lack>,
}

impl Capabilities {
    fn of(&self, limit: Limit, policy: &Policy) -> Option<Enforcement> {
        match limit {
            Limit::Network => match policy.network {
                Network::Disabled => self.network_disabled,
                Network::Enabled => self.network_enabled,
            },
            Limit::Filesystem => self.filesystem,
            Limit::Memory => self.memory,
            Limit::Cpu if policy.budget.cpu_milli.is_multiple_of(1_000) => self.cpu_whole,
            Limit::Cpu => self.cpu_fraction,
            Limit::Pids => self.pids,
            Limit::Storage => self.storage,
            Limit::WallClock => self.wall_clock,
            Limit::OutputBytes => self.output_bytes,
            Limit::Concurrency => self.concurrency,
        }
    }
}

/// Something that the host does not offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lack {
    /// The stable name that `doctor` uses, such as `user-namespaces`.
    pub id: String,
    /// What does not work, in one sentence.
    pub message: String,
    /// What to do about it; a command where there is one.
    pub remediation: String,
    /// Whether nothing can run without it.
    pub fatal: bool,
}

/// One limit of an effective policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitFacts {
    /// The limit itself, in the unit of its flag.
    pub value: LimitValue,
    /// Whether it holds.
    pub label: Label,
    /// What enforces or measures it.
    pub mechanism: Mechanism,
    /// By how much a watched limit was exceeded before the job was stopped, in the unit of `value`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub overshoot: Option<u64>,
    /// How many inodes the disk may hold; storage only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inodes: Option<u64>,
}

/// The value of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum LimitValue {
    /// A whole number.
    Whole(u64),
    /// Cores, or seconds with a fraction.
    Number(f64),
    /// The kind of network.
    Text(String),
    /// Host paths.
    Paths(Vec<String>),
}

/// A policy as this host holds it: what a workspace is created under.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EffectivePolicy {
    /// What was asked for.
    pub policy: Policy,
    /// The enforcement of each limit, in the order of [`Limit::ALL`].
    pub limits: [Enforcement; 9],
}

/// What a caller says about limits that can only be watched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Strictness {
    /// The limits that the caller named; the others hold the defaults.
    pub named: Vec<Limit>,
    /// `--allow-watched`: a named limit may be watched.
    pub allow_watched: bool,
    /// `--require-enforced`: a default may not be watched either.
    pub require_enforced: bool,
}

/// Why a policy cannot be honoured; nothing was created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The provider can do nothing about the limit.
    #[error("this host cannot provide {limit}={value}{}", because(.lack.as_ref()))]
    Unavailable {
        /// Which limit.
        limit: Limit,
        /// What was asked for.
        value: String,
        /// What the host lacks, where that is known.
        lack: Option<Lack>,
    },
    /// The provider can only watch a limit that was named.
    #[error("this host can only watch {limit}={value}, and a named limit has to be enforced")]
    OnlyWatched {
        /// Which limit.
        limit: Limit,
        /// What was asked for.
        value: String,
    },
    /// `--require-enforced`, and the provider can only watch a default.
    #[error(
        "this host can only watch the default {limit}={value}, and --require-enforced was given"
    )]
    DefaultOnlyWatched {
        /// Which limit.
        limit: Limit,
        /// The default.
        value: String,
    },
}

fn because(lack: Option<&Lack>) -> String {
    lack.map(|lack| format!(": {}", lack.message)).unwrap_or_default()
}

/// Decides whether `capabilities` can hold `policy`, and how.
///
/// # Errors
/// [`PolicyError`] for the first limit, in the order of [`Limit::ALL`], that cannot be held as the caller wants.
pub fn resolve(
    policy: &Policy,
    strictness: &Strictness,
    capabilities: &Capabilities,
) -> Result<EffectivePolicy, PolicyError> {
    let mut limits = [Enforcement::measured(Mechanism::WatchStatfs); 9];
    for (slot, limit) in limits.iter_mut().zip(Limit::ALL) {
        *slot = hold(limit, policy, strictness, capabilities)?;
    }
    Ok(EffectivePolicy { policy: policy.clone(), limits })
}

fn hold(
    limit: Limit,
    policy: &Policy,
    strictness: &Strictness,
    capabilities: &Capabilities,
) -> Result<Enforcement, PolicyError> {
    let value = || plain(&value_of(limit, policy));
    let Some(held) = capabilities.of(limit, policy) else {
        let lack = capabilities.lacks.iter().find(|lack| lack.id == limit.name()).cloned();
        return Err(PolicyError::Unavailable { limit, value: value(), lack });
    };
    // Storage may always be measured: few hosts can do better for a plain directory.
    if held.label == Label::Enforced || limit == Limit::Storage {
        return Ok(held);
    }
    let named = strictness.named.contains(&limit);
    if named && !strictness.allow_watched {
        return Err(PolicyError::OnlyWatched { limit, value: value() });
    }
    if strictness.require_enforced {
        return Err(PolicyError::DefaultOnlyWatched { limit, value: value() });
    }
    Ok(held)
}

#[expect(clippy::cast_precision_loss, reason = "thousandths of values far below 2^53")]
fn value_of(limit: Limit, policy: &Policy) -> LimitValue {
    let budget = &policy.budget;
    match limit {
        Limit::Network => LimitValue::Text(policy.network.to_string()),
        Limit::Filesystem => LimitValue::Paths(policy.host_paths.iter().map(shown).collect()),
        Limit::Memory => LimitValue::Whole(budget.memory_bytes),
        Limit::Cpu => LimitValue::Number(budget.cpu_milli as f64 / 1_000.0),
        Limit::Pids => LimitValue::Whole(budget.pids),
        Limit::Storage => LimitValue::Whole(budget.storage_bytes),
        Limit::WallClock if budget.wall_clock_ms.is_multiple_of(1_000) => {
            LimitValue::Whole(budget.wall_clock_ms / 1_000)
        }
        Limit::WallClock => LimitValue::Number(budget.wall_clock_ms as f64 / 1_000.0),
        Limit::OutputBytes => LimitValue::Whole(budget.output_bytes),
        Limit::Concurrency => LimitValue::Whole(budget.concurrency),
    }
}

fn shown(path: &crate::policy::HostPath) -> String {
    let mode = match path.access {
        Access::ReadOnly => "ro",
        Access::ReadWrite => "rw",
    };
    format!("{}:{mode}", text_of(&path.path))
}

fn text_of(bytes: &ByteString) -> String {
    bytes.to_text().into_owned()
}

fn plain(value: &LimitValue) -> String {
    match value {
        LimitValue::Whole(number) => number.to_string(),
        // A float always shows its point, as callers' scripts expect: `cpu=1.0`.
        LimitValue::Number(number) => format!("{number:?}"),
        LimitValue::Text(text) => text.to_owned(),
        LimitValue::Paths(paths) if paths.len() == 1 => format!("('{}',)", paths[0]),
        LimitValue::Paths(paths) => {
            let quoted: Vec<String> = paths.iter().map(|path| format!("'{path}'")).collect();
            format!("({})", quoted.join(", "))
        }
    }
}

impl EffectivePolicy {
    /// Returns how `limit` is held.
    #[must_use]
    pub fn enforcement(&self, limit: Limit) -> Enforcement {
        self.limits[limit as usize]
    }

    /// Returns the facts about `limit` that a package carries.
    #[must_use]
    pub fn facts(&self, limit: Limit) -> LimitFacts {
        let Enforcement { label, mechanism } = self.enforcement(limit);
        LimitFacts {
            value: value_of(limit, &self.policy),
            label,
            mechanism,
            // Only what is watched until the job is stopped can be overshot.
            overshoot: matches!(mechanism, Mechanism::WatchMemory | Mechanism::WatchStatfs)
                .then_some(0),
            inodes: (limit == Limit::Storage).then(|| self.policy.budget.inodes()),
        }
    }

    /// Returns the limits that are only watched.
    pub fn measured(&self) -> impl Iterator<Item = Limit> + '_ {
        Limit::ALL.into_iter().filter(|limit| self.enforcement(*limit).label == Label::Measured)
    }

    /// Returns the one line that `provenance.policy_summary` holds.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut parts = Vec::with_capacity(Limit::ALL.len());
        for limit in Limit::ALL {
            let value = plain(&value_of(limit, &self.policy));
            let suffix = match self.enforcement(limit).label {
                Label::Enforced => "",
                Label::Measured => " (measured)",
            };
            parts.push(format!("{limit}={value}{suffix}"));
        }
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn host(memory: Option<Enforcement>) -> Capabilities {
        let yes = Some(Enforcement::enforced(Mechanism::MountNamespace));
        Capabilities {
            network_disabled: yes,
            network_enabled: None,
            filesystem: yes,
            memory,
            cpu_whole: yes,
            cpu_fraction: Some(Enforcement::measured(Mechanism::CpuAffinity)),
            pids: yes,
            storage: Some(Enforcement::measured(Mechanism::WatchStatfs)),
            wall_clock: yes,
            output_bytes: yes,
            concurrency: yes,
            lacks: Vec::new(),
        }
    }

    const WATCHED: Option<Enforcement> = Some(Enforcement::measured(Mechanism::WatchMemory));

    fn named(limit: Limit) -> Strictness {
        Strictness { named: vec![limit], ..Strictness::default() }
    }

    #[test]
    fn the_summary_lists_every_limit_and_what_is_measured() {
        let held = Some(Enforcement::enforced(Mechanism::CgroupV1));
        let effective = resolve(&Policy::default(), &Strictness::default(), &host(held))
            .expect("the defaults hold");
        assert_eq!(
            effective.summary(),
            "network=disabled, filesystem=(), memory=536870912, cpu=1.0, pids=128, \
             storage=1073741824 (measured), wall_clock=300, output_bytes=10485760, concurrency=1"
        );
    }

    #[test]
    fn a_named_limit_that_can_only_be_watched_refuses() {
        let asked = Policy::default();
        let refused = resolve(&asked, &named(Limit::Memory), &host(WATCHED));
        assert!(matches!(refused, Err(PolicyError::OnlyWatched { limit: Limit::Memory, .. })));
        let allowed = Strictness { allow_watched: true, ..named(Limit::Memory) };
        assert!(resolve(&asked, &allowed, &host(WATCHED)).is_ok());
    }

    #[test]
    fn a_default_is_watched_unless_enforcement_is_required() {
        let asked = Policy::default();
        let lax = resolve(&asked, &Strictness::default(), &host(WATCHED)).expect("watched");
        assert_eq!(lax.measured().collect::<Vec<_>>(), [Limit::Memory, Limit::Storage]);
        let strict = Strictness { require_enforced: true, ..Strictness::default() };
        let refused = resolve(&asked, &strict, &host(WATCHED));
        assert!(matches!(
            refused,
            Err(PolicyError::DefaultOnlyWatched { limit: Limit::Memory, .. })
        ));
    }

    #[test]
    fn a_limit_that_nothing_holds_refuses_whatever_the_caller_allows() {
        let asked = Policy { network: Network::Enabled, ..Policy::default() };
        let lax = Strictness { allow_watched: true, ..Strictness::default() };
        assert!(matches!(
            resolve(&asked, &lax, &host(WATCHED)),
            Err(PolicyError::Unavailable { limit: Limit::Network, .. })
        ));
    }
}
