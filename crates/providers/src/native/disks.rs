//! The disks of workspaces: plain directories, each in a directory of its own.
//!
//! The outer directory is the home owner's alone; the inner one, `tree`, belongs to the job's outside id. Measuring and
//! removing a tree that a job has made is in `bailiwick_isolation::disk`.
use super::home::{Home, make_private};
use super::{host_path, moves, stop, trouble};
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{
    Hold, Inspection, Kept, Orphan, ProviderError, Recovered, Removed, WorkspaceSpec,
};
use bailiwick_isolation::disk;
use bailiwick_isolation::facts::HostFacts;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::Duration;

/// Makes an empty disk.
pub(super) fn create(
    home: &Home,
    facts: &HostFacts,
    spec: &WorkspaceSpec,
) -> Result<(), ProviderError> {
    refuse_lacking(facts)?;
    host_path::look_up(home, facts, &spec.policy.policy)?;
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

/// Refuses a host on which nothing can run.
pub(super) fn refuse_lacking(facts: &HostFacts) -> Result<(), ProviderError> {
    match facts.lacks.iter().find(|lack| lack.fatal) {
        None => Ok(()),
        Some(lack) => Err(ProviderError::Unavailable {
            provider: "native",
            message: lack.message.clone(),
            remediation: lack.remediation.clone(),
        }),
    }
}

pub(crate) fn refuse_used(home: &Home, id: &WorkspaceId) -> Result<(), ProviderError> {
    let tree = home.tree(id);
    let empty = fs::read_dir(&tree).map_or(true, |mut entries| entries.next().is_none());
    if empty {
        return Ok(());
    }
    Err(ProviderError::Occupied { id: id.clone() })
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
pub(crate) fn inspect(home: &Home, id: &WorkspaceId) -> Result<Inspection, ProviderError> {
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
pub(crate) fn remove(home: &Home, id: &WorkspaceId) -> Result<Removed, ProviderError> {
    let dir = home.workspace(id);
    if !dir.exists() {
        return Ok(Removed::WasAbsent);
    }
    let there = is_present(home, id)?;
    remove_all(&home.tree(id), &dir).map_err(trouble::on("remove the disk", &dir))?;
    Ok(if there { Removed::Gone } else { Removed::WasAbsent })
}

/// Returns whether a disk is there, without a look at what is on it.
pub(crate) fn is_present(home: &Home, id: &WorkspaceId) -> Result<bool, ProviderError> {
    let tree = home.tree(id);
    tree.try_exists().map_err(trouble::on("look at the disk", &tree))
}

/// Removes what is on no record and was never used, and says whether it did; `None` where it is somebody's after all.
pub(crate) type Removal<'a> = dyn Fn(&Kept) -> Result<Option<bool>, ProviderError> + 'a;

/// Applies `removal` to what is on no record; returns what was removed, and what is on no record and holds something.
pub(crate) fn remove_orphans(
    home: &Home,
    is_known: &dyn Fn(&Kept) -> bool,
    age: Duration,
    cx: &OpCx<'_>,
    removal: &Removal<'_>,
) -> Result<Vec<Orphan>, ProviderError> {
    let mut orphans = Vec::new();
    for kept in listed(home, age, cx)? {
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        if is_known(&kept) {
            match &kept {
                // Its disk stays; what a batch that was killed before its intent staged for it does not.
                Kept::Workspace(id) => moves::clear_stages(home, id)?,
                Kept::Job(id) => stop::sweep_ended(home, id)?,
            }
            continue;
        }
        orphans.extend(removal(&kept)?.map(|removed| Orphan { kept, removed }));
    }
    Ok(orphans)
}

/// Lists the disks and the jobs whose directories have not changed for `age`.
fn listed(home: &Home, age: Duration, cx: &OpCx<'_>) -> Result<Vec<Kept>, ProviderError> {
    let before = cx.clock.now().as_micros() / 1_000_000;
    let before = i64::try_from(before.saturating_sub(age.as_secs())).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    for name in old_names(&home.path().join("disks"), before)? {
        found.extend(WorkspaceId::parse(&name).ok().map(Kept::Workspace));
    }
    for name in old_names(&home.path().join("jobs"), before)? {
        found.extend(JobId::parse(&name).ok().map(Kept::Job));
    }
    Ok(found)
}

/// Returns the names of the directories in `folder` that were last changed before `before`, in seconds.
fn old_names(folder: &Path, before: i64) -> Result<Vec<String>, ProviderError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(trouble::on("list", folder))?,
    };
    let old = |entry: &fs::DirEntry| {
        // One that is gone meanwhile is nobody's orphan.
        entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.mtime() < before)
    };
    let names = entries.flatten().filter(old);
    Ok(names.filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// Removes a disk that nobody holds and on which there is nothing; `None` where it is somebody's after all.
///
/// `held` is what came of taking the first slot: whoever makes a workspace without a record holds all of them.
pub(crate) fn remove_unused(
    home: &Home,
    id: &WorkspaceId,
    held: Result<Option<Box<dyn Hold>>, ProviderError>,
    is_known: &dyn Fn() -> bool,
) -> Result<Option<bool>, ProviderError> {
    let hold = match held {
        Err(ProviderError::NoWorkspace { .. }) => return Ok(None),
        other => other?,
    };
    if hold.is_none() || is_known() {
        return Ok(None);
    }
    let tree = home.tree(id);
    let is_unused = match fs::read_dir(&tree) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(trouble::on("list the disk", &tree)(error)),
    };
    if is_unused {
        remove(home, id)?;
    }
    Ok(Some(is_unused))
}

/// Removes a job's directory where nothing of the job ever ran; `None` where its supervisor is alive.
pub(super) fn remove_unstarted(home: &Home, id: &JobId) -> Result<Option<bool>, ProviderError> {
    let dir = home.job(id);
    let is_unused = match stop::recover(home, id)? {
        Recovered::Alive => return Ok(None),
        Recovered::NeverStarted => true,
        Recovered::Lost => !dir.join("output").exists(),
        Recovered::Ended(_) => false,
    };
    if is_unused {
        disk::remove(&dir).map_err(trouble::on("remove the job's directory", &dir))?;
    }
    Ok(Some(is_unused))
}

fn remove_all(tree: &Path, dir: &Path) -> io::Result<()> {
    disk::remove(tree)?;
    disk::remove(dir)
}
