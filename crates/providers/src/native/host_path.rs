//! Looks the host paths of a policy up, and refuses those that no job may see.
//!
//! What lies in the home, or holds it, would give a job the store and every other workspace. What no job may see anywhere is
//! refused by `bailiwick_isolation::plan`.
use super::home::Home;
use super::trouble;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::policy::{HostPath, Policy};
use bailiwick_contract::provider::ProviderError;
use bailiwick_isolation::facts::HostFacts;
use bailiwick_isolation::plan::{PlanError, check_host_path};
use bailiwick_isolation::spec::HostPathFacts;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Looks all of them up.
pub(super) fn look_up(
    home: &Home,
    host: &HostFacts,
    policy: &Policy,
) -> Result<Vec<HostPathFacts>, ProviderError> {
    let found = policy.host_paths.iter().map(|path| look_up_one(home, path));
    found.map(|facts| facts.and_then(|facts| checked(facts, host))).collect()
}

/// When the workspace is made, not only when a job is planned: the policy is fixed from then on.
fn checked(facts: HostPathFacts, host: &HostFacts) -> Result<HostPathFacts, ProviderError> {
    check_host_path(&facts, host).map_err(refused)?;
    Ok(facts)
}

/// Says why no sandbox can be planned.
pub(super) fn refused(error: PlanError) -> ProviderError {
    match error {
        PlanError::HostPath { path, why } => ProviderError::HostPath { path, why: why.into() },
        other => ProviderError::Host {
            step: "the sandbox cannot be planned".into(),
            source: Box::new(other),
        },
    }
}

fn look_up_one(home: &Home, wanted: &HostPath) -> Result<HostPathFacts, ProviderError> {
    let path = Path::new(OsStr::from_bytes(wanted.path.as_bytes()));
    let refuse = |why: String| ProviderError::HostPath { path: trouble::printable(path), why };
    let resolved = fs::canonicalize(path).map_err(|error| refuse(error.to_string()))?;
    // Resolved when the policy was made; a link that appeared since is not followed.
    if resolved != path {
        return Err(refuse(format!("it leads to `{}`", trouble::printable(&resolved))));
    }
    let own =
        fs::canonicalize(home.path()).map_err(trouble::on("resolve the home", home.path()))?;
    if resolved.starts_with(&own) || own.starts_with(&resolved) {
        return Err(refuse("it holds bailiwick's own state, or lies in it".into()));
    }
    let meta = fs::symlink_metadata(&resolved).map_err(|error| refuse(error.to_string()))?;
    if !meta.is_dir() && !meta.is_file() {
        return Err(refuse("it is neither a directory nor a regular file".into()));
    }
    Ok(HostPathFacts {
        path: ByteString::from(resolved.as_os_str().as_bytes()),
        access: wanted.access,
        is_dir: meta.is_dir(),
        owner_uid: meta.uid(),
        owner_gid: meta.gid(),
        toolchain: wanted.toolchain,
    })
}
