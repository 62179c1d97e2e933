//! The policy flags of `create` and `exec`.
//!
//! Which flags were given matters beside their values: a limit that the caller names has to be enforced, a default may
//! be watched (docs/concepts.md).
use super::host_path;
use bailiwick_contract::enforcement::Strictness;
use bailiwick_contract::error::Failure;
use bailiwick_contract::policy::{Budget, Limit, Network, Policy};
use bailiwick_contract::quantity;
use bailiwick_engine::requests::PolicyRequest;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::Path;

// Without a doc comment: clap would show it in the place of the verb's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Policy")]
pub(crate) struct PolicyArgs {
    /// Which network a job sees [default: disabled]
    #[arg(long, value_name = "KIND", value_enum)]
    network: Option<NetworkKind>,
    /// Show a job this host path, at the same place; repeatable [default: read-only]
    #[arg(long, value_name = "PATH[:ro|:rw]")]
    allow_host_path: Vec<OsString>,
    /// Show a job this directory read-only and put it first in its PATH; repeatable
    #[arg(long, value_name = "DIR")]
    toolchain: Vec<OsString>,
    /// Memory of all processes of a job together; units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB [default: 512MiB]
    #[arg(long, value_name = "N", value_parser = quantity::bytes, allow_hyphen_values = true)]
    memory_bytes: Option<u64>,
    /// Cores, also a fraction [default: 1]
    #[arg(long, value_name = "CORES", value_parser = quantity::cpu_milli, allow_hyphen_values = true)]
    cpu_limit: Option<u64>,
    /// Processes and threads at once [default: 128]
    #[arg(long, value_name = "N", value_parser = quantity::pids, allow_hyphen_values = true)]
    pids_limit: Option<u64>,
    /// Bytes on the workspace's disk; units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB [default: 1GiB]
    #[arg(long, value_name = "N", value_parser = quantity::bytes, allow_hyphen_values = true)]
    storage_bytes: Option<u64>,
    /// How long a job may take; units: ms, s, m, h, d [default: 300]
    #[arg(long, value_name = "SECONDS", value_parser = quantity::millis, allow_hyphen_values = true)]
    wall_clock_seconds: Option<u64>,
    /// How much of a job's output is kept; units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB [default: 10MiB]
    #[arg(long, value_name = "N", value_parser = quantity::bytes, allow_hyphen_values = true)]
    output_bytes: Option<u64>,
    /// Jobs at once [default: 1]
    #[arg(long, value_name = "N", value_parser = quantity::count, allow_hyphen_values = true)]
    concurrency: Option<u64>,
    /// Accept a limit named here that this host can only watch
    #[arg(long)]
    allow_watched: bool,
    /// Refuse a default that this host can only watch, too
    #[arg(long)]
    require_enforced: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum NetworkKind {
    Disabled,
    Enabled,
}

impl PolicyArgs {
    /// Returns the policy that was asked for; `home` is what no job may be shown.
    ///
    /// # Errors
    /// For a host path that is not there or cannot be allowed.
    pub(crate) fn request(self, home: &Path) -> Result<PolicyRequest, Failure> {
        let strictness = Strictness {
            named: self.named(),
            allow_watched: self.allow_watched,
            require_enforced: self.require_enforced,
        };
        let network = match self.network {
            Some(NetworkKind::Enabled) => Network::Enabled,
            Some(NetworkKind::Disabled) | None => Network::Disabled,
        };
        let mut host_paths = Vec::new();
        for argument in &self.toolchain {
            host_paths.push(host_path::toolchain(argument, home)?);
        }
        for argument in &self.allow_host_path {
            host_paths.push(host_path::allowed(argument, home)?);
        }
        let policy = Policy { network, host_paths, budget: self.budget() };
        Ok(PolicyRequest { policy, strictness })
    }

    fn budget(&self) -> Budget {
        let default = Budget::default();
        Budget {
            memory_bytes: self.memory_bytes.unwrap_or(default.memory_bytes),
            cpu_milli: self.cpu_limit.unwrap_or(default.cpu_milli),
            pids: self.pids_limit.unwrap_or(default.pids),
            storage_bytes: self.storage_bytes.unwrap_or(default.storage_bytes),
            wall_clock_ms: self.wall_clock_seconds.unwrap_or(default.wall_clock_ms),
            output_bytes: self.output_bytes.unwrap_or(default.output_bytes),
            concurrency: self.concurrency.unwrap_or(default.concurrency),
        }
    }

    fn named(&self) -> Vec<Limit> {
        let given = [
            (Limit::Network, self.network.is_some()),
            (Limit::Filesystem, !self.allow_host_path.is_empty() || !self.toolchain.is_empty()),
            (Limit::Memory, self.memory_bytes.is_some()),
            (Limit::Cpu, self.cpu_limit.is_some()),
            (Limit::Pids, self.pids_limit.is_some()),
            (Limit::Storage, self.storage_bytes.is_some()),
            (Limit::WallClock, self.wall_clock_seconds.is_some()),
            (Limit::OutputBytes, self.output_bytes.is_some()),
            (Limit::Concurrency, self.concurrency.is_some()),
        ];
        given.into_iter().filter(|row| row.1).map(|row| row.0).collect()
    }
}
