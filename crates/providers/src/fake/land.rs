//! Brings what a job leaves to its workspace's disk.
//!
//! Nothing leads out: directories are made and entered one by one, without links. A file is written beside the disk and renamed,
//! so that a half-written one is never seen, and doing it all again changes nothing.
use super::record::Landing;
use super::script::{Entry, EntryKind};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::policy::Budget;
use bailiwick_isolation::disk::DiskUsage;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, fchmod, mkdirat, mknodat, openat, renameat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

/// What a block of a disk has, usually; files are counted in these.
const BLOCK_BYTES: u64 = 4_096;

/// One write.
const CHUNK_BYTES: usize = 1 << 20;

/// Decides how many of `entries` fit on a disk that holds `used`.
pub(super) fn fitting(used: &DiskUsage, budget: &Budget, entries: &[Entry]) -> Landing {
    let (mut bytes, mut inodes) = (used.bytes, used.inodes);
    for (index, entry) in entries.iter().enumerate() {
        bytes = bytes.saturating_add(entry.size().div_ceil(BLOCK_BYTES) * BLOCK_BYTES);
        inodes = inodes.saturating_add(1);
        let (over_storage, over_inodes) = (bytes > budget.storage_bytes, inodes > budget.inodes());
        if over_storage || over_inodes {
            return Landing { entries: index, over_storage, over_inodes };
        }
    }
    Landing { entries: entries.len(), over_storage: false, over_inodes: false }
}

/// Makes all of `entries` of `job`, relative to `cwd`.
///
/// # Errors
/// Which entry could not be made, and why, in one sentence; those before it are there.
pub(super) fn all(
    tree: &Path,
    job: &str,
    cwd: Option<&WsPath>,
    entries: &[Entry],
) -> Result<(), String> {
    let root = || -> rustix::io::Result<OwnedFd> {
        let root = openat(CWD, tree, DIRECTORY, Mode::empty())?;
        descend(root, cwd.map(WsPath::as_bytes).unwrap_or_default())
    };
    let said = |entry: &Entry, error: io::Error| {
        let path = String::from_utf8_lossy(entry.path.as_bytes()).escape_debug().to_string();
        format!("the script's file `{path}` cannot be made: {error}")
    };
    for entry in entries {
        let made = root().map_err(io::Error::from).and_then(|root| one(tree, job, root, entry));
        made.map_err(|error| said(entry, error))?;
    }
    Ok(())
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the directory `path` below `at`, and makes what is missing.
fn descend(mut at: OwnedFd, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
        match mkdirat(&at, part, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        at = openat(&at, part, DIRECTORY, Mode::empty())?;
    }
    Ok(at)
}

fn one(tree: &Path, job: &str, root: OwnedFd, entry: &Entry) -> io::Result<()> {
    let path = entry.path.as_bytes();
    if entry.kind == EntryKind::Directory {
        return Ok(descend(root, path).map(drop)?);
    }
    let name_at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let parent = descend(root, &path[..name_at])?;
    // Where no verb looks; whoever lands has the lock of the job's record, so that the name is ours.
    let beside = tree.parent().unwrap_or(tree);
    let beside = openat(CWD, beside, DIRECTORY, Mode::empty())?;
    let draft = format!("landing.{job}");
    match unlinkat(&beside, draft.as_str(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match &entry.kind {
        EntryKind::Link(target) => symlinkat(target.as_bytes(), &beside, draft.as_str())?,
        EntryKind::Fifo => {
            mknodat(&beside, draft.as_str(), FileType::Fifo, Mode::from_raw_mode(0o644), 0)?;
        }
        EntryKind::File | EntryKind::Directory => fill(&beside, &draft, entry)?,
    }
    Ok(renameat(&beside, draft.as_str(), &parent, &path[name_at..])?)
}

fn fill(beside: &OwnedFd, draft: &str, entry: &Entry) -> io::Result<()> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(openat(beside, draft, flags, Mode::RUSR | Mode::WUSR)?);
    let text = entry.content.as_bytes();
    let times = u64::try_from(CHUNK_BYTES / text.len().max(1)).unwrap_or(1).clamp(1, entry.repeat);
    let block = text.repeat(usize::try_from(times).unwrap_or(1));
    let mut left = entry.size();
    while left > 0 {
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(block.len());
        file.write_all(&block[..room])?;
        left -= room as u64;
    }
    Ok(fchmod(file.as_fd(), Mode::from_raw_mode(entry.mode()))?)
}
