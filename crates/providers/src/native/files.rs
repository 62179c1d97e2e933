//! Reads files out of a workspace's disk, and writes batches of files into it.
//!
//! Every path is resolved below the disk with openat2(2) (Linux 5.6), without links, so that nothing a job has planted leads
//! out. A batch is staged beside the disk, checked, and then moved into place; when one move fails, those before it are undone.
use super::home::{Home, make_private};
use super::trouble;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::{ByteSink, EntryKind, EntrySource, ProviderError};
use bailiwick_isolation::disk;
use bailiwick_isolation::facts::HostFacts;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps,
    Uid, fchown, fstat, futimens, mkdirat, openat, openat2, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// One read or write.
const CHUNK_BYTES: usize = 128 << 10;

pub(crate) const BELOW: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

pub(crate) fn open_tree(home: &Home, id: &WorkspaceId) -> Result<OwnedFd, ProviderError> {
    let tree = home.tree(id);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, &tree, flags, Mode::empty()) {
        Ok(dir) => Ok(dir),
        Err(Errno::NOENT) => Err(ProviderError::NoWorkspace { id: id.clone() }),
        Err(error) => Err(trouble::on("open the disk", &tree)(error.into())),
    }
}

pub(crate) fn printable(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// Reads one regular file.
pub(crate) fn read(
    home: &Home,
    id: &WorkspaceId,
    path: &WsPath,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let tree = open_tree(home, id)?;
    let file = open_regular(&tree, id, path)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut moved = 0_u64;
    loop {
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        let length = rustix::io::read(&file, buffer.as_mut_slice())
            .map_err(|error| step("read", path.as_bytes(), id, error))?;
        if length == 0 {
            return Ok(());
        }
        moved += length as u64;
        if moved > cx.budget_bytes {
            return Err(not_a_file(id, path, "larger than this operation may read"));
        }
        sink.push(&buffer[..length]).map_err(ProviderError::Peer)?;
    }
}

/// Without blocking, since a job can put a FIFO there.
fn open_regular(tree: &OwnedFd, id: &WorkspaceId, path: &WsPath) -> Result<OwnedFd, ProviderError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat2(tree, path.as_bytes(), flags, Mode::empty(), BELOW);
    let file = opened.map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => {
            ProviderError::NoFile { id: id.clone(), path: printable(path.as_bytes()) }
        }
        Errno::LOOP => not_a_file(id, path, "a link, or lies behind one"),
        Errno::XDEV => not_a_file(id, path, "outside the workspace's disk"),
        Errno::NXIO | Errno::NODEV => not_a_file(id, path, "a socket, a FIFO or a device"),
        other => step("open", path.as_bytes(), id, other),
    })?;
    let meta = fstat(&file).map_err(|error| step("look at", path.as_bytes(), id, error))?;
    match FileType::from_raw_mode(meta.st_mode) {
        FileType::RegularFile => Ok(file),
        FileType::Directory => Err(not_a_file(id, path, "a directory")),
        _ => Err(not_a_file(id, path, "a socket, a FIFO or a device")),
    }
}

fn not_a_file(id: &WorkspaceId, path: &WsPath, what: &'static str) -> ProviderError {
    ProviderError::NotAFile { id: id.clone(), path: printable(path.as_bytes()), what }
}

fn step(verb: &str, path: &[u8], id: &WorkspaceId, error: Errno) -> ProviderError {
    trouble::named(
        format!("could not {verb} `{}` in workspace {id}", printable(path)),
        io::Error::from(error),
    )
}

/// A batch of entries for one workspace.
pub(crate) struct Batch<'a> {
    pub(crate) home: &'a Home,
    pub(crate) facts: &'a HostFacts,
    pub(crate) id: &'a WorkspaceId,
    pub(crate) overwrite: bool,
}

/// An entry that is staged or published.
struct Staged {
    destination: WsPath,
    directory: bool,
    /// What was at the destination lies where the entry was staged.
    replaced: bool,
}

impl Batch<'_> {
    /// Writes all entries, or none.
    pub(crate) fn write(
        &self,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let tree = open_tree(self.home, self.id)?;
        let workspace = self.home.workspace(self.id);
        clear_stages(&workspace).map_err(trouble::on("clear what was staged in", &workspace))?;
        let stage = workspace.join(stage_name(std::process::id()));
        make_private(&stage).map_err(trouble::on("make the stage", &stage))?;
        let written = self.stage_and_publish(&tree, &stage, entries, cx);
        // Also what was replaced: it lies on the stage now.
        let cleared = disk::remove(&stage).map_err(trouble::on("clear the stage", &stage));
        written.and(cleared)
    }

    fn stage_and_publish(
        &self,
        tree: &OwnedFd,
        stage: &PathBuf,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(CWD, stage, flags, Mode::empty())
            .map_err(|error| trouble::on("open the stage", stage)(error.into()))?;
        let mut staged = Vec::new();
        let mut left = cx.budget_bytes;
        for entry in entries {
            let mut entry = entry;
            let index = staged.len();
            self.stage_one(&dir, index, entry.as_mut(), &mut left, cx)?;
            self.check(tree, entry.destination(), entry.kind())?;
            staged.push(Staged {
                destination: entry.destination().clone(),
                directory: entry.kind() == EntryKind::Directory,
                replaced: false,
            });
        }
        self.publish(tree, &dir, &mut staged)
    }

    fn stage_one(
        &self,
        dir: &OwnedFd,
        index: usize,
        entry: &mut dyn EntrySource,
        left: &mut u64,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let EntryKind::File { mode, mtime } = entry.kind() else { return Ok(()) };
        let path = entry.destination().clone();
        let trouble = |error| step("stage", path.as_bytes(), self.id, error);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file =
            openat(dir, index.to_string(), flags, Mode::RUSR | Mode::WUSR).map_err(trouble)?;
        self.fill(&file, entry, left, cx)?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777)).map_err(trouble)?;
        self.give(file.as_fd()).map_err(trouble)?;
        let time = Timespec { tv_sec: mtime, tv_nsec: 0 };
        futimens(&file, &Timestamps { last_access: time, last_modification: time }).map_err(trouble)
    }

    fn fill(
        &self,
        file: &OwnedFd,
        entry: &mut dyn EntrySource,
        left: &mut u64,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            let length = entry.pull(&mut buffer).map_err(ProviderError::Peer)?;
            if length == 0 {
                return Ok(());
            }
            *left = left.checked_sub(length as u64).ok_or_else(|| {
                step("write more into", entry.destination().as_bytes(), self.id, Errno::FBIG)
            })?;
            let mut rest = &buffer[..length];
            while !rest.is_empty() {
                let written = rustix::io::write(file, rest).map_err(|error| {
                    step("write", entry.destination().as_bytes(), self.id, error)
                })?;
                rest = &rest[written..];
            }
        }
    }

    /// Makes it the job's, where that is somebody else than us.
    fn give(&self, file: BorrowedFd<'_>) -> rustix::io::Result<()> {
        if !self.facts.by_root {
            return Ok(());
        }
        let (uid, gid) = (self.facts.outside_uid, self.facts.outside_gid);
        fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
    }

    /// Refuses what cannot be replaced, before anything is moved.
    fn check(&self, tree: &OwnedFd, path: &WsPath, kind: EntryKind) -> Result<(), ProviderError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let there = match openat2(tree, path.as_bytes(), flags, Mode::empty(), BELOW) {
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR) => {
                return Err(self.in_the_way(path, "behind something that is no directory"));
            }
            // With PATH and NOFOLLOW a link at the end is opened itself; so this one is on the way.
            Err(Errno::LOOP) => return Err(self.in_the_way(path, "a link, or behind one")),
            other => other.map_err(|error| step("look at", path.as_bytes(), self.id, error))?,
        };
        let meta =
            fstat(&there).map_err(|error| step("look at", path.as_bytes(), self.id, error))?;
        let is_dir = FileType::from_raw_mode(meta.st_mode) == FileType::Directory;
        match (kind, is_dir) {
            (EntryKind::Directory, true) => Ok(()),
            (EntryKind::Link { .. }, _) => Err(self.in_the_way(path, "there")),
            (EntryKind::Directory, false) => Err(self.in_the_way(path, "no directory")),
            (EntryKind::File { .. }, true) => Err(self.in_the_way(path, "a directory")),
            (EntryKind::File { .. }, false) if self.overwrite => Ok(()),
            (EntryKind::File { .. }, false) => {
                Err(ProviderError::Exists { id: self.id.clone(), path: printable(path.as_bytes()) })
            }
        }
    }

    fn in_the_way(&self, path: &WsPath, what: &'static str) -> ProviderError {
        ProviderError::InTheWay { id: self.id.clone(), path: printable(path.as_bytes()), what }
    }

    fn publish(
        &self,
        tree: &OwnedFd,
        stage: &OwnedFd,
        staged: &mut [Staged],
    ) -> Result<(), ProviderError> {
        let mut made = Vec::new();
        for index in 0..staged.len() {
            let entry = &mut staged[index];
            if let Err(error) = self.publish_one(tree, stage, index, entry, &mut made) {
                undo(tree, stage, &staged[..index], &made);
                let path = staged[index].destination.as_bytes();
                return Err(match error {
                    Errno::EXIST => {
                        ProviderError::Exists { id: self.id.clone(), path: printable(path) }
                    }
                    other => step("publish", path, self.id, other),
                });
            }
        }
        Ok(())
    }

    fn publish_one(
        &self,
        tree: &OwnedFd,
        stage: &OwnedFd,
        index: usize,
        entry: &mut Staged,
        made: &mut Vec<Vec<u8>>,
    ) -> rustix::io::Result<()> {
        let path = entry.destination.as_bytes();
        if entry.directory {
            return self.directories(tree, path, made).map(drop);
        }
        let (parents, name) = split(path);
        let parent = self.directories(tree, parents, made)?;
        let from = index.to_string();
        match renameat_with(stage, from.as_str(), &parent, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) if self.overwrite => {
                entry.replaced = true;
                renameat_with(stage, from.as_str(), &parent, name, RenameFlags::EXCHANGE)
            }
            other => other,
        }
    }

    /// Opens `path` below the tree, making what is missing.
    fn directories(
        &self,
        tree: &OwnedFd,
        path: &[u8],
        made: &mut Vec<Vec<u8>>,
    ) -> rustix::io::Result<OwnedFd> {
        let mut at = rustix::io::fcntl_dupfd_cloexec(tree, 0)?;
        let mut end = 0;
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            end += part.len() + usize::from(end > 0);
            match mkdirat(&at, part, Mode::from_raw_mode(0o755)) {
                Ok(()) => made.push(path[..end].to_vec()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = openat(&at, part, flags, Mode::empty())?;
            if made.last().is_some_and(|last| last == &path[..end]) {
                self.give(next.as_fd())?;
            }
            at = next;
        }
        Ok(at)
    }
}

fn stage_name(pid: u32) -> String {
    format!("stage.{pid}")
}

/// Removes our own stage and those of processes that are gone: they were killed while they wrote.
fn clear_stages(workspace: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(workspace)? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("stage.")?.parse::<u32>().ok());
        let Some(pid) = pid else { continue };
        if pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists() {
            disk::remove(&workspace.join(stage_name(pid)))?;
        }
    }
    Ok(())
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Takes back what was published: the reverse order of the same moves. What fails here was changed by somebody else meanwhile,
/// and is left alone.
fn undo(tree: &OwnedFd, stage: &OwnedFd, published: &[Staged], made: &[Vec<u8>]) {
    for (index, entry) in published.iter().enumerate().rev() {
        if entry.directory {
            continue;
        }
        let flags = if entry.replaced { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let (from, path) = (index.to_string(), entry.destination.as_bytes());
        if statat(tree, path, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            renameat_with(tree, path, stage, from.as_str(), flags).ok();
        }
    }
    for path in made.iter().rev() {
        unlinkat(tree, path.as_slice(), AtFlags::REMOVEDIR).ok();
    }
}
