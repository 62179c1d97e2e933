//! Holds on a workspace: one lock a job slot, by flock(2).
//!
//! The first slot is the workspace's own directory, further ones are files in it. A lock belongs to an open file description,
//! which a caller shares with its job's supervisor: the slot stays taken until both are gone, however they go. Who holds it is
//! told by the store, not here.
use super::home::Home;
use super::trouble;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{Hold, ProviderError, Slots};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use std::any::Any;
use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Slots of one workspace; more jobs at once than this are refused as busy.
const SLOTS_MAX: u64 = 256;

/// Locked slots.
#[derive(Debug)]
pub(super) struct NativeHold {
    files: Vec<OwnedFd>,
    /// The directories of the jobs that were run under it: who shares the workspace sees that their caller is alive.
    jobs: RefCell<Vec<OwnedFd>>,
}

impl NativeHold {
    /// Returns the hold that this provider made.
    pub(super) fn of(hold: &dyn Hold) -> Option<&Self> {
        hold.as_any().downcast_ref()
    }

    /// Locks the directory of a job for as long as the hold lasts, which is until its outcome is on record; returns what its
    /// supervisor shares: that lock, and one slot, which is enough to keep the workspace held.
    pub(super) fn keep(&self, dir: &Path) -> io::Result<Vec<OwnedFd>> {
        let job = lock(dir, 0)?;
        let shared: io::Result<Vec<OwnedFd>> =
            self.files.first().into_iter().chain(&job).map(OwnedFd::try_clone).collect();
        self.jobs.borrow_mut().extend(job);
        shared
    }
}

/// Locks the directory of a job; `None` while its caller or its supervisor has the lock.
pub(super) fn lock_job(dir: &Path) -> io::Result<Option<OwnedFd>> {
    lock(dir, 0)
}

/// Returns whether the caller of a job is alive, given the job's directory. It looks with a shared lock, so that two who look
/// do not take each other for the caller.
pub(crate) fn is_kept(dir: &Path) -> io::Result<bool> {
    let looked = open(dir, 0).and_then(|file| {
        flock(&file, FlockOperation::NonBlockingLockShared).map_err(io::Error::from)
    });
    match looked {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

impl Hold for NativeHold {
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Takes one slot, or all, without waiting.
pub(super) fn take(
    home: &Home,
    id: &WorkspaceId,
    slots: Slots,
) -> Result<Option<Box<dyn Hold>>, ProviderError> {
    let files = take_slots(home, id, slots, &|slot| lock(&home.workspace(id), slot))?;
    Ok(files.map(|files| Box::new(NativeHold { files, jobs: RefCell::default() }) as Box<dyn Hold>))
}

/// Takes what `take` gives for one slot, or for all; `None` where that cannot be had.
pub(crate) fn take_slots<T>(
    home: &Home,
    id: &WorkspaceId,
    slots: Slots,
    take: &dyn Fn(u64) -> io::Result<Option<T>>,
) -> Result<Option<Vec<T>>, ProviderError> {
    let (count, all) = match slots {
        Slots::One(count) => (count, false),
        Slots::All(count) => (count, true),
    };
    let mut taken = Vec::new();
    for slot in 0..count.clamp(1, SLOTS_MAX) {
        match take(slot) {
            Ok(Some(one)) => taken.push(one),
            Ok(None) if all => return Ok(None),
            Ok(None) => continue,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ProviderError::NoWorkspace { id: id.clone() });
            }
            Err(error) => return Err(trouble::on("lock a slot in", &home.workspace(id))(error)),
        }
        if !all {
            break;
        }
    }
    Ok((!taken.is_empty()).then_some(taken))
}

fn open(dir: &Path, slot: u64) -> io::Result<OwnedFd> {
    let kept = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if slot == 0 {
        return Ok(openat(CWD, dir, OFlags::RDONLY | OFlags::DIRECTORY | kept, Mode::empty())?);
    }
    let path = dir.join(format!("slot.{slot}"));
    Ok(openat(CWD, &path, OFlags::CREATE | OFlags::RDWR | kept, Mode::RUSR | Mode::WUSR)?)
}

pub(crate) fn lock(dir: &Path, slot: u64) -> io::Result<Option<OwnedFd>> {
    let file = open(dir, slot)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
