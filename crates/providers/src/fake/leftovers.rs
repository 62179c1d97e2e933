//! Removes what verbs that were killed before their first record left.
//!
//! Only what is old, held by nobody and never used goes; everything else that is on no record is named. How both are found
//! is the native provider's, whose disks these are.
use super::hold;
use super::record::JobDir;
use super::settle::{Known, look};
use crate::native::disks::{self, remove_unused};
use crate::native::hold::is_kept;
use crate::native::home::Home;
use crate::native::trouble;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::JobId;
use bailiwick_contract::provider::{Kept, Orphan, ProviderError, Slots};
use bailiwick_contract::time::Timestamp;
use std::io;
use std::time::Duration;

/// Removes what is on no record and was never used; returns that, and what is on no record and holds something.
pub(super) fn remove(
    home: &Home,
    is_known: &dyn Fn(&Kept) -> bool,
    age: Duration,
    cx: &OpCx<'_>,
) -> Result<Vec<Orphan>, ProviderError> {
    let removal = |kept: &Kept| match kept {
        Kept::Workspace(id) => {
            let held = hold::take(home, id, Slots::All(1), cx.clock.now());
            remove_unused(home, id, held, &|| is_known(kept))
        }
        Kept::Job(id) => job(home, id, cx.clock.now()),
    };
    disks::remove_orphans(home, is_known, age, cx, &removal)
}

/// Removes a job's directory where the job was never let go; `None` where it goes on, or its caller is there.
fn job(home: &Home, id: &JobId, now: Timestamp) -> Result<Option<bool>, ProviderError> {
    let dir = JobDir::at(home.job(id));
    let look = || -> io::Result<Option<bool>> {
        if is_kept(dir.path())? {
            return Ok(None);
        }
        let is_unused = match look(home, id, now)? {
            Known::Alive { .. } => return Ok(None),
            Known::Waiting | Known::Nothing => true,
            Known::Ended { .. } => false,
        };
        if is_unused {
            dir.remove()?;
        }
        Ok(Some(is_unused))
    };
    look().map_err(trouble::on("look at the job in", dir.path()))
}
