//! What a workspace may do: network, host paths, seven budgets. Closed by default.
//!
//! A policy is what the caller asks for; what the host makes of it is an
//! [`EffectivePolicy`](crate::enforcement::EffectivePolicy). It is fixed for the workspace's life.
use crate::bytes::ByteString;
use alloc::vec::Vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// What a workspace may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Which network a job sees.
    pub network: Network,
    /// The host paths that a job sees, beside the profile's read-only parts.
    pub host_paths: Vec<HostPath>,
    /// How much a job may use.
    pub budget: Budget,
}

/// Which network a job sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// An empty network with a loopback of its own.
    #[default]
    Disabled,
    /// The outside world, by user-mode NAT; no provider offers it yet.
    Enabled,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disabled => "disabled",
            Self::Enabled => "enabled",
        })
    }
}

/// A directory or file of the host that a job sees at the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HostPath {
    /// The absolute path, resolved: it holds no link and no `..`.
    pub path: ByteString,
    /// Whether a job may write there.
    pub access: Access,
    /// Whether the path's directory goes first in a job's `PATH` (`--toolchain`).
    pub toolchain: bool,
}

/// Whether a job may write to a host path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// `:ro`, the default.
    ReadOnly,
    /// `:rw`.
    ReadWrite,
}

/// The seven budgets; none of them is ever zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Memory of all processes of a job together, in bytes.
    pub memory_bytes: u64,
    /// Processor time per wall-clock time, in thousandths of a core.
    pub cpu_milli: u64,
    /// Processes and threads alive at once.
    pub pids: u64,
    /// Bytes on the workspace's disk.
    pub storage_bytes: u64,
    /// Time from a job's start to its end, in milliseconds.
    pub wall_clock_ms: u64,
    /// Bytes of captured output that are kept; more is drained and counted.
    pub output_bytes: u64,
    /// Jobs in flight at once.
    pub concurrency: u64,
}

/// 512 MiB, 1 core, 128 processes, 1 GiB, 300 s, 10 MiB, 1 job: enough for a script, and never "unlimited".
impl Default for Budget {
    fn default() -> Self {
        Self {
            memory_bytes: 512 << 20,
            cpu_milli: 1_000,
            pids: 128,
            storage_bytes: 1 << 30,
            wall_clock_ms: 300_000,
            output_bytes: 10 << 20,
            concurrency: 1,
        }
    }
}

impl Budget {
    /// Returns how many inodes the disk may hold: one for every 16 KiB, at least 10 000: a little more than mke2fs(8) gives by default.
    #[must_use]
    pub const fn inodes(&self) -> u64 {
        let by_size = self.storage_bytes / (16 << 10);
        if by_size > 10_000 { by_size } else { 10_000 }
    }
}

/// The nine things that a policy limits, in the order in which they are always listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The network.
    Network,
    /// Host paths.
    Filesystem,
    /// Memory.
    Memory,
    /// Processor time.
    Cpu,
    /// Processes and threads.
    Pids,
    /// The workspace's disk, bytes and inodes.
    Storage,
    /// Wall-clock time.
    WallClock,
    /// Captured output.
    OutputBytes,
    /// Jobs in flight.
    Concurrency,
}

impl Limit {
    /// All limits, in order.
    pub const ALL: [Self; 9] = [
        Self::Network,
        Self::Filesystem,
        Self::Memory,
        Self::Cpu,
        Self::Pids,
        Self::Storage,
        Self::WallClock,
        Self::OutputBytes,
        Self::Concurrency,
    ];

    /// Returns the name that packages use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Filesystem => "filesystem",
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Storage => "storage",
            Self::WallClock => "wall_clock",
            Self::OutputBytes => "output_bytes",
            Self::Concurrency => "concurrency",
        }
    }

    /// Returns the flag that sets it.
    #[must_use]
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Network => "--network",
            Self::Filesystem => "--allow-host-path",
            Self::Memory => "--memory-bytes",
            Self::Cpu => "--cpu-limit",
            Self::Pids => "--pids-limit",
            Self::Storage => "--storage-bytes",
            Self::WallClock => "--wall-clock-seconds",
            Self::OutputBytes => "--output-bytes",
            Self::Concurrency => "--concurrency",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
