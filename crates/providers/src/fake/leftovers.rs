//! Removes what verbs that were killed before their first record left.
//!
//! Only what is old, held by nobody and never used goes; everything else that is on no record is named.
use super::hold;
use super::settle::{Known, look};
use crate::native::hold::is_kept;
use crate::native::home::Home;
use crate::native::moves::clear_stages;
use crate::native::{disks, trouble};
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{Kept, Orphan, ProviderError, Slots};
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::disk;
use std::fs;
use std::io;
use std::time::Duration;

/// Removes what is on no record and was never used; returns that, and what is on no record and holds something.
pub(super) fn remove(
    home: &Home,
    is_known: &dyn Fn(&Kept) -> bool,
    age: Duration,
    cx: &OpCx<'_>,
) -> Result<Vec<Orphan>, ProviderError> {
    let mut orphans = Vec::new();
    for kept in disks::listed(home, age, cx)? {
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        if is_known(&kept) {
            // Its disk stays; what a batch that was killed before its intent staged for it does not.
            if let Kept::Workspace(id) = &kept {
                clear_stages(home, id)?;
            }
            continue;
        }
        let removed = match &kept {
            Kept::Workspace(id) => workspace(home, id, &|| is_known(&kept), cx.clock.now())?,
            Kept::Job(id) => job(home, id, cx.clock.now())?,
        };
        orphans.extend(removed.map(|removed| Orphan { kept, removed }));
    }
    Ok(orphans)
}

/// Removes a disk that nobody holds and on which there is nothing; `None` where it is somebody's after all.
fn workspace(
    home: &Home,
    id: &WorkspaceId,
    is_known: &dyn Fn() -> bool,
    now: Timestamp,
) -> Result<Option<bool>, ProviderError> {
    // Whoever makes a workspace without a record holds all its slots, the first one too.
    let hold = match hold::take(home, id, Slots::All(1), now) {
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
        disks::remove(home, id)?;
    }
    Ok(Some(is_unused))
}

/// Removes a job's directory where the job was never let go; `None` where it goes on, or its caller is there.
fn job(home: &Home, id: &JobId, now: Timestamp) -> Result<Option<bool>, ProviderError> {
    let dir = home.job(id);
    let look = || -> io::Result<Option<bool>> {
        if is_kept(&dir)? {
            return Ok(None);
        }
        let is_unused = match look(home, id, now)? {
            Known::Alive { .. } => return Ok(None),
            Known::Waiting | Known::Nothing => true,
            Known::Ended { .. } => false,
        };
        if is_unused {
            disk::remove(&dir)?;
        }
        Ok(Some(is_unused))
    };
    look().map_err(trouble::on("look at the job in", &dir))
}
