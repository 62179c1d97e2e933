//! Writes batches of entries into a workspace's disk: all of them, or none.
//!
//! A batch is staged beside the disk, as a tree of the same shape; then the gate is opened, and what is new is moved into
//! place. A directory that is not there yet is moved whole, so that most batches are one rename(2). A stage is locked while
//! its writer lives, and whoever can lock it may remove it, or finish what had begun to move.
use super::files::{BELOW, open_tree, printable, step};
use super::home::{Home, make_private};
use super::moves::{Move, Place, Plan, clear_stages, split};
use super::trouble;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::{EntryKind, EntrySource, Gate, ProviderError};
use bailiwick_isolation::disk;
use bailiwick_isolation::facts::HostFacts;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chownat,
    fchmod, fchown, flock, fstat, futimens, mkdirat, openat, openat2, statat, symlinkat,
};
use rustix::io::Errno;
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// One read and write: 256 KiB, beyond which a copy of cached pages becomes no faster.
const CHUNK_BYTES: usize = 256 << 10;

pub(super) const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A batch of entries for one workspace.
pub(crate) struct Batch<'a> {
    pub(crate) home: &'a Home,
    pub(crate) facts: &'a HostFacts,
    pub(crate) id: &'a WorkspaceId,
    pub(crate) overwrite: bool,
}

/// A directory of the stage that is open, and the one at the same place on the disk.
struct Level {
    /// Its last part; empty at the root.
    name: Vec<u8>,
    staged: OwnedFd,
    /// None where the disk has no such directory; then nothing below it can be in the way.
    there: Option<OwnedFd>,
}

/// A batch that is being staged.
struct Staging<'b, 'a> {
    batch: &'b Batch<'a>,
    /// From the root down to the directory of the last entry.
    levels: Vec<Level>,
    moves: Vec<Move>,
    /// The directories that are moved whole.
    whole: HashSet<Vec<u8>>,
    buffer: Vec<u8>,
    /// Bytes that the operation may still write.
    left: u64,
}

impl Batch<'_> {
    /// Writes all entries, or none.
    pub(crate) fn write(
        &self,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        gate: &mut dyn Gate,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let tree = open_tree(self.home, self.id)?;
        let workspace = self.home.workspace(self.id);
        clear_stages(self.home, self.id)?;
        let (path, stage) =
            make_stage(&workspace).map_err(trouble::on("make a stage in", &workspace))?;
        let written = self.stage(&tree, &stage, entries, cx).and_then(|moves| {
            gate.open().map_err(ProviderError::Gate)?;
            let place =
                Place { id: self.id, tree: &tree, stage: &stage, overwrite: self.overwrite };
            land(&path, &place, moves)
        });
        // Also what was replaced: it lies on the stage now. What cannot be removed here is removed by the next batch;
        // it is no reason to deny what has landed, nor does it matter more than why nothing did.
        disk::remove(&path).ok();
        written
    }

    fn stage(
        &self,
        tree: &OwnedFd,
        stage: &OwnedFd,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        cx: &OpCx<'_>,
    ) -> Result<Vec<Move>, ProviderError> {
        let opened = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 0);
        let dup = |error: Errno| trouble::named("could not open a directory".into(), error.into());
        let root = Level {
            name: Vec::new(),
            staged: opened(stage).map_err(dup)?,
            there: Some(opened(tree).map_err(dup)?),
        };
        let mut staging = Staging {
            batch: self,
            levels: vec![root],
            moves: Vec::new(),
            whole: HashSet::new(),
            buffer: vec![0; CHUNK_BYTES],
            left: cx.budget_bytes,
        };
        for mut entry in entries {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            staging.add(entry.as_mut(), cx)?;
        }
        Ok(staging.moves)
    }

    /// Makes it the job's, where that is somebody else than us.
    fn give(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        match self.owner() {
            Some((uid, gid)) => fchown(file, Some(uid), Some(gid)),
            None => Ok(()),
        }
    }

    fn owner(&self) -> Option<(Uid, Gid)> {
        let (uid, gid) = (self.facts.outside_uid, self.facts.outside_gid);
        self.facts.by_root.then(|| (Uid::from_raw(uid), Gid::from_raw(gid)))
    }

    fn in_the_way(&self, path: &[u8], what: &'static str) -> ProviderError {
        ProviderError::InTheWay { id: self.id.clone(), path: printable(path), what }
    }

    fn exists(&self, path: &[u8]) -> ProviderError {
        ProviderError::Exists { id: self.id.clone(), path: printable(path) }
    }
}

impl Staging<'_, '_> {
    fn add(&mut self, entry: &mut dyn EntrySource, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        let path = entry.destination().clone();
        let kind = entry.kind();
        if kind == EntryKind::Directory {
            return self.descend(path.as_bytes());
        }
        let (above, name) = split(path.as_bytes());
        self.descend(above)?;
        let is_new = self.check(path.as_bytes(), name)?;
        match kind {
            EntryKind::File { mode, mtime } => self.file(entry, &path, mode, mtime, cx)?,
            EntryKind::Link { target } => self.link(&path, name, target.as_bytes())?,
            EntryKind::Directory => {}
        }
        if is_new {
            self.moves.push(Move::of(path.as_bytes()));
        }
        Ok(())
    }

    /// Opens the directory `path` on the stage, making what is missing, and finds the one on the disk.
    fn descend(&mut self, path: &[u8]) -> Result<(), ProviderError> {
        let parts: Vec<&[u8]> =
            path.split(|byte| *byte == b'/').filter(|p| !p.is_empty()).collect();
        let open = self.levels[1..].iter().zip(&parts);
        let shared = open.take_while(|(level, part)| level.name == **part).count();
        self.levels.truncate(shared + 1);
        let mut end: usize = parts[..shared].iter().map(|part| part.len() + 1).sum();
        for part in &parts[shared..] {
            end += part.len();
            self.enter(&path[..end], part)?;
            end += 1;
        }
        Ok(())
    }

    fn enter(&mut self, path: &[u8], name: &[u8]) -> Result<(), ProviderError> {
        let (batch, last) = (self.batch, self.levels.len() - 1);
        let above = &self.levels[last];
        let trouble = |error| step("stage", path, batch.id, error);
        let made = match mkdirat(&above.staged, name, Mode::from_raw_mode(0o755)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(trouble(error)),
        };
        let staged = match openat(&above.staged, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Err(batch.in_the_way(path, "no directory in this very batch"));
            }
            other => other.map_err(trouble)?,
        };
        if made {
            batch.give(staged.as_fd()).map_err(trouble)?;
        }
        let there = self.directory_there(path, name)?;
        if there.is_none() && self.levels[last].there.is_some() {
            if made {
                self.moves.push(Move::of(path));
                self.whole.insert(path.to_vec());
            } else if !self.whole.contains(path) {
                // It was there when the batch met it before: nothing would move what comes into it now.
                return Err(trouble(Errno::NOENT));
            }
        }
        self.levels.push(Level { name: name.to_vec(), staged, there });
        Ok(())
    }

    /// Opens the directory of the disk at `path`, where there is one.
    fn directory_there(&self, path: &[u8], name: &[u8]) -> Result<Option<OwnedFd>, ProviderError> {
        let above = self.levels.last().and_then(|level| level.there.as_ref());
        let Some(above) = above else { return Ok(None) };
        match openat2(above, name, DIRECTORY, Mode::empty(), BELOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR) => Err(self.batch.in_the_way(path, "no directory")),
            Err(Errno::LOOP) => Err(self.batch.in_the_way(path, "a link, or behind one")),
            Err(error) => Err(step("look at", path, self.batch.id, error)),
        }
    }

    /// Refuses what cannot be replaced, before it is read; returns whether the entry is moved on its own.
    fn check(&self, path: &[u8], name: &[u8]) -> Result<bool, ProviderError> {
        let above = self.levels.last().and_then(|level| level.there.as_ref());
        let Some(above) = above else { return Ok(false) };
        match statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(true),
            Err(error) => Err(step("look at", path, self.batch.id, error)),
            Ok(meta) => match FileType::from_raw_mode(meta.st_mode) {
                FileType::Directory => Err(self.batch.in_the_way(path, "a directory")),
                _ if self.batch.overwrite => Ok(true),
                _ => Err(self.batch.exists(path)),
            },
        }
    }

    fn file(
        &mut self,
        entry: &mut dyn EntrySource,
        path: &WsPath,
        mode: u32,
        mtime: i64,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let (batch, (_, name)) = (self.batch, split(path.as_bytes()));
        let trouble = |error| step("stage", path.as_bytes(), batch.id, error);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let above = &self.levels[self.levels.len() - 1].staged;
        let file = match openat(above, name, flags, Mode::RUSR | Mode::WUSR) {
            // The same destination twice.
            Err(Errno::EXIST) => return Err(batch.exists(path.as_bytes())),
            other => other.map_err(trouble)?,
        };
        self.fill(&file, entry, cx)?;
        batch.give(file.as_fd()).map_err(trouble)?;
        fchmod(&file, Mode::from_raw_mode(mode & 0o777)).map_err(trouble)?;
        let time = Timespec { tv_sec: mtime, tv_nsec: 0 };
        futimens(&file, &Timestamps { last_access: time, last_modification: time }).map_err(trouble)
    }

    fn link(&self, path: &WsPath, name: &[u8], target: &[u8]) -> Result<(), ProviderError> {
        let batch = self.batch;
        let trouble = |error| step("stage", path.as_bytes(), batch.id, error);
        let above = &self.levels[self.levels.len() - 1].staged;
        match symlinkat(target, above, name) {
            Err(Errno::EXIST) => return Err(batch.exists(path.as_bytes())),
            other => other.map_err(trouble)?,
        }
        match batch.owner() {
            Some((uid, gid)) => {
                chownat(above, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(trouble)
            }
            None => Ok(()),
        }
    }

    fn fill(
        &mut self,
        file: &OwnedFd,
        entry: &mut dyn EntrySource,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        loop {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            let length = entry.pull(&mut self.buffer).map_err(ProviderError::Peer)?;
            if length == 0 {
                return Ok(());
            }
            let trouble =
                |error| step("write", entry.destination().as_bytes(), self.batch.id, error);
            self.left = self.left.checked_sub(length as u64).ok_or_else(|| trouble(Errno::FBIG))?;
            let mut rest = &self.buffer[..length];
            while !rest.is_empty() {
                let written = rustix::io::write(file, rest).map_err(trouble)?;
                rest = &rest[written..];
            }
        }
    }
}

/// Moves what is staged into place. A single move is whole by itself and needs no plan.
fn land(path: &Path, place: &Place<'_>, mut moves: Vec<Move>) -> Result<(), ProviderError> {
    if moves.len() < 2 {
        return place.publish(&mut moves);
    }
    let plan = Plan::write(path, place, &moves).map_err(trouble::on("plan the moves of", path))?;
    let published = place.publish(&mut moves);
    plan.remove();
    published
}

/// Makes a stage that is locked, so that nobody takes it for one that was left.
fn make_stage(workspace: &Path) -> io::Result<(PathBuf, OwnedFd)> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = workspace.join(format!("{STAGE}{}.{count}", std::process::id()));
        match make_private(&path) {
            // Of a process that had this id before, and is being removed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            other => other?,
        }
        if let Some(stage) = lock_stage(&path)? {
            return Ok((path, stage));
        }
    }
}

/// Opens and locks a stage; `None` where it is somebody else's, or gone.
pub(super) fn lock_stage(path: &Path) -> io::Result<Option<OwnedFd>> {
    let stage = match openat(CWD, path, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        other => other?,
    };
    match flock(&stage, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
        Ok(()) => Ok((fstat(&stage)?.st_nlink > 0).then_some(stage)),
    }
}

/// What the name of a stage begins with.
pub(super) const STAGE: &str = "stage.";
