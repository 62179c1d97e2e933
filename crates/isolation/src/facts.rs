//! What a host offers: probed once, cached by boot id, then only a value.
//!
//! [`probe`](crate::probe::probe) makes it; [`plan`](crate::plan::plan) reads it. Nothing is inferred from a version
//! where it can be tried.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::{Capabilities, Enforcement, Lack, Mechanism};
use serde::{Deserialize, Serialize};

/// What a host offers to sandboxes of one home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// What the facts hold for: boot, user, namespaces and program.
    pub key: String,
    /// The kernel's release (uname(2)).
    pub kernel: String,
    /// Whether the caller is root.
    pub by_root: bool,
    /// The user id, outside, that a job runs as.
    pub outside_uid: u32,
    /// The group id, outside, that a job runs as.
    pub outside_gid: u32,
    /// The Landlock ABI, 0 where there is none.
    pub landlock_abi: u32,
    /// Control groups that can be used.
    pub cgroup: CgroupFacts,
    /// The processors that the caller may use.
    pub cpus: Vec<u32>,
    /// The directories and links at the root that make the host's toolchain visible.
    pub root_entries: Vec<RootEntry>,
    /// Commands that a toolchain has under another name only, such as `python`.
    pub links: Vec<CommandLink>,
    /// Which of the entries of `/proc` that are masked exist.
    pub proc_masks: Vec<ProcMask>,
    /// What the host lacks.
    pub lacks: Vec<Lack>,
}

/// A directory or a link at the host's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootEntry {
    /// A directory, shown read-only.
    Dir(ByteString),
    /// A symbolic link, such as `bin -> usr/bin`.
    Link {
        /// Its name.
        name: ByteString,
        /// Where it points.
        target: ByteString,
    },
}

/// A command that is offered under a second name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLink {
    /// The name that is offered.
    pub name: String,
    /// The program that it stands for.
    pub target: ByteString,
}

/// An entry of `/proc` that is hidden or protected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcMask {
    /// A file that reads as empty.
    File(String),
    /// A directory that is empty.
    Dir(String),
    /// A file or directory that is read-only.
    ReadOnly(String),
}

/// Control groups that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupFacts {
    /// None.
    Absent,
    /// Version 1: the group, in each hierarchy, under which ours are made.
    V1 {
        /// The hierarchy of `memory`.
        memory: Option<ByteString>,
        /// The hierarchy of `pids`.
        pids: Option<ByteString>,
        /// The hierarchy of `cpu`.
        cpu: Option<ByteString>,
    },
    /// Version 2: the group under which ours are made.
    V2 {
        /// Its directory.
        parent: ByteString,
        /// The controllers that it hands down.
        controllers: Vec<String>,
    },
}

impl CgroupFacts {
    /// Returns which version's groups hold `controller`, if any do.
    #[must_use]
    pub fn mechanism(&self, controller: &str) -> Option<Mechanism> {
        match self {
            Self::Absent => None,
            Self::V1 { memory, pids, cpu } => {
                let group = match controller {
                    "memory" => memory,
                    "pids" => pids,
                    _ => cpu,
                };
                group.as_ref().map(|_| Mechanism::CgroupV1)
            }
            Self::V2 { controllers, .. } => {
                controllers.iter().any(|name| name == controller).then_some(Mechanism::CgroupV2)
            }
        }
    }
}

impl HostFacts {
    /// Returns what the native provider can hold on this host.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let enforced = |mechanism| Some(Enforcement::enforced(mechanism));
        let group = |controller| self.cgroup.mechanism(controller).map(Enforcement::enforced);
        Capabilities {
            network_disabled: enforced(Mechanism::NetNamespace),
            network_enabled: None,
            filesystem: enforced(Mechanism::MountNamespace),
            memory: group("memory").or(Some(Enforcement::measured(Mechanism::WatchMemory))),
            cpu_whole: group("cpu").or_else(|| enforced(Mechanism::CpuAffinity)),
            cpu_fraction: group("cpu").or(Some(Enforcement::measured(Mechanism::CpuAffinity))),
            pids: group("pids").or_else(|| enforced(Mechanism::RlimitNproc)),
            storage: Some(Enforcement::measured(Mechanism::WatchStatfs)),
            wall_clock: enforced(Mechanism::SupervisorTimer),
            output_bytes: enforced(Mechanism::SupervisorCapture),
            concurrency: enforced(Mechanism::SlotLock),
            lacks: self.lacks.clone(),
        }
    }
}
