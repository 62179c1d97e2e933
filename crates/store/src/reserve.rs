//! A megabyte that is kept free, so that what has begun can also be ended on a full disk.
//!
//! Without it a job that fills the disk could be neither settled nor destroyed, and the disk not be freed. Nothing new begins
//! unless the reserve is in place; only entries that end something, and opening the database for them, may use it up.
use crate::home::Home;
use bailiwick_contract::journal::{Change, Entry, IntentKind};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// The file whose blocks are the reserve.
const RESERVE: &str = "reserve";

/// Room for SQLite's shared memory (32 KiB) and some tens of batches of about 25 pages.
const RESERVE_BYTES: u64 = 1 << 20;

/// Returns whether a batch begins something: it opens an intent that is not about an end.
pub(crate) fn begins(batch: &[Entry]) -> bool {
    batch.iter().any(|entry| {
        matches!(&entry.change, Change::IntentOpened { verb, .. } if *verb != IntentKind::Remove)
    })
}

/// Makes sure that the reserve is in place.
pub(crate) fn ensure(home: &Home) -> Result<(), Errno> {
    let dir = home.dir();
    match rustix::fs::statat(dir, RESERVE, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if u64::try_from(stat.st_size).is_ok_and(|size| size >= RESERVE_BYTES) => Ok(()),
        Ok(_) | Err(Errno::NOENT) => take(dir).inspect_err(|_| {
            release(home);
        }),
        Err(error) => Err(error),
    }
}

fn take(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::openat(dir, RESERVE, flags, Mode::RUSR | Mode::WUSR)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, RESERVE_BYTES) {
        // A file system that cannot allocate ahead keeps what is written.
        Err(Errno::OPNOTSUPP) => {
            let zeros = [0; 64 << 10];
            for _ in 0..RESERVE_BYTES / (64 << 10) {
                rustix::io::write(&file, &zeros)?;
            }
            Ok(())
        }
        other => other,
    }
}

/// Gives the reserve up; returns whether there was one.
pub(crate) fn release(home: &Home) -> bool {
    rustix::fs::unlinkat(home.dir(), RESERVE, AtFlags::empty()).is_ok()
}
