//! The disks of workspaces: plain directories, each in a directory of its own.
//!
//! The outer directory is the home owner's alone; the inner one, `tree`, belongs to the job's outside id. Measuring and
//! removing a tree that a job has made is in `bailiwick_isolation::disk`.
use super::home::{Home, make_private};
use super::{host_path, trouble};
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{Inspection, ProviderError, Removed, WorkspaceSpec};
use bailiwick_isolation::disk;
use bailiwick_isolation::facts::HostFacts;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;

/// Makes an empty disk.
pub(super) fn create(
    home: &Home,
    facts: &HostFacts,
    spec: &WorkspaceSpec,
) -> Result<(), ProviderError> {
    if let Some(lack) = facts.lacks.iter().find(|lack| lack.fatal) {
        return Err(ProviderError::Unavailable {
            provider: "native",
            message: lack.message.clone(),
            remediation: lack.remediation.clone(),
        });
    }
    host_path::look_up(home, &spec.policy.policy)?;
    let dir = home.workspace(&spec.id);
    match make_private(&dir) {
        // What a killed `exec` left before its intent was durable: nothing ran there.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            refuse_used(home, &spec.id)?;
        }
        other => other.map_err(trouble::on("make the disk", &dir))?,
    }
    make_tree(home, facts, &spec.id).map_err(|error| {
        // Nothing is left behind; the error that matters is the first one.
        disk::remove(&dir).ok();
        trouble::on("make the disk", &dir)(error)
    })
}

fn refuse_used(home: &Home, id: &WorkspaceId) -> Result<(), ProviderError> {
    let tree = home.tree(id);
    let empty = fs::read_dir(&tree).map_or(true, |mut entries| entries.next().is_none());
    if empty {
        return Ok(());
    }
    let error = io::Error::from(io::ErrorKind::AlreadyExists);
    Err(trouble::on("make the disk", &tree)(error))
}

fn make_tree(home: &Home, facts: &HostFacts, id: &WorkspaceId) -> io::Result<()> {
    let tree = home.tree(id);
    match make_private(&tree) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if facts.by_root {
        chown(&tree, Some(facts.outside_uid), Some(facts.outside_gid))?;
    }
    Ok(())
}

/// Measures a disk.
pub(super) fn inspect(home: &Home, id: &WorkspaceId) -> Result<Inspection, ProviderError> {
    let tree = home.tree(id);
    match disk::usage(&tree) {
        Ok(usage) => {
            Ok(Inspection { present: true, storage_bytes: usage.bytes, inodes: usage.inodes })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Inspection { present: false, storage_bytes: 0, inodes: 0 })
        }
        Err(error) => Err(trouble::on("measure the disk", &tree)(error)),
    }
}

/// Removes a disk, tree first: a removal that was cut short finds the rest again.
pub(super) fn remove(home: &Home, id: &WorkspaceId) -> Result<Removed, ProviderError> {
    let dir = home.workspace(id);
    if !dir.exists() {
        return Ok(Removed::WasAbsent);
    }
    remove_all(&home.tree(id), &dir).map_err(trouble::on("remove the disk", &dir))?;
    Ok(Removed::Gone)
}

fn remove_all(tree: &Path, dir: &Path) -> io::Result<()> {
    disk::remove(tree)?;
    disk::remove(dir)
}
