//! The host side of copy-in: which entries there are, and a stream of each file.
//!
//! No link is followed, also none that takes the place of a directory meanwhile: whoever may write to the tree must not
//! choose what its caller reads. One inside a tree is kept as a link where it stays inside the tree; sizes are taken when the
//! tree is walked, contents once, when they are copied. Directories are read in the order of their names.
use crate::failure::{cancelled, told};
use crate::ignore::Ignore;
use crate::ledger::{Delivery, Ledger, Room};
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::CancelToken;
use bailiwick_contract::error::Failure;
use bailiwick_contract::input::{WsPath, WsPathError};
use bailiwick_contract::provider::{EntryKind, EntrySource};
use core::error::Error;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2,
    readlinkat, statat,
};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep a batch may go: every directory on the way to an entry is open while it is staged.
const DEPTH_MAX: usize = 256;

/// A host entry that will be copied in.
#[derive(Debug)]
struct Planned {
    place: Place,
    destination: WsPath,
    kind: EntryKind,
}

/// Where an entry is: what was named itself, or below a directory that was named.
#[derive(Debug)]
struct Place {
    /// As its caller and messages name it.
    path: PathBuf,
    /// Below which of the named directories, and where there.
    tree: Option<(usize, Vec<u8>)>,
}

/// A directory that was named and walked.
#[derive(Debug)]
struct Root {
    path: PathBuf,
    /// Device and inode of what was walked.
    identity: (u64, u64),
}

impl Root {
    /// Opens it again: held open from the walk on, many inputs would be more descriptors than a process may have.
    fn open(&self) -> Result<Arc<OwnedFd>, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = rustix::fs::open(&self.path, flags, Mode::empty())?;
        let stat = fstat(&root)?;
        // As if it had become a link.
        if (stat.st_dev, stat.st_ino) == self.identity {
            Ok(Arc::new(root))
        } else {
            Err(Errno::LOOP)
        }
    }
}

/// A named directory that is open while its entries are read.
type OpenRoot = Result<Arc<OwnedFd>, Errno>;

/// Everything that one or several sources bring.
#[derive(Debug)]
pub(crate) struct Plan {
    entries: Vec<Planned>,
    roots: Vec<Root>,
    bytes: u64,
    ledger: Ledger,
}

/// An entry that the walk has found and not yet visited.
struct Pending {
    source: PathBuf,
    /// The directory that it was found in; none for what was named itself.
    found: Option<Arc<OwnedFd>>,
    /// None for the source's root, where it becomes the workspace's.
    destination: Option<WsPath>,
    /// Below the source's root; empty for the root itself.
    below: Vec<u8>,
}

impl Pending {
    /// Returns a directory and the one name in it by which to look this up: a single name passes through no link.
    fn at(&self) -> (BorrowedFd<'_>, &OsStr) {
        match (&self.found, self.source.file_name()) {
            (Some(directory), Some(name)) => (directory.as_fd(), name),
            _ => (CWD, self.source.as_os_str()),
        }
    }
}

impl Plan {
    pub(crate) fn new(room: Room) -> Self {
        Self { entries: Vec::new(), roots: Vec::new(), bytes: 0, ledger: Ledger::new(room) }
    }

    /// Walks `source`; what `ignore` names is left out.
    pub(crate) fn add(
        &mut self,
        source: &Path,
        destination: &[u8],
        ignore: Option<&Ignore>,
        cancel: &CancelToken,
    ) -> Result<(), Failure> {
        let destination = destination_of(destination)?;
        let source = source.to_path_buf();
        let root = Pending { source, found: None, destination, below: Vec::new() };
        let mut pending = vec![root];
        while let Some(next) = pending.pop() {
            if cancel.is_cancelled() {
                return Err(cancelled());
            }
            self.visit(next, &mut pending, ignore)?;
            self.ledger.room().check(self.bytes, self.entries.len() as u64)?;
        }
        Ok(())
    }

    fn visit(
        &mut self,
        mut next: Pending,
        pending: &mut Vec<Pending>,
        ignore: Option<&Ignore>,
    ) -> Result<(), Failure> {
        let stat = look(&next)?;
        let kind = kind_of(&next, &stat)?;
        let is_directory = kind == EntryKind::Directory;
        let is_root = next.below.is_empty();
        if !is_root && ignore.is_some_and(|ignore| ignore.covers(&next.below, is_directory)) {
            self.ledger.ignore();
            return Ok(());
        }
        if is_directory {
            if is_root {
                let identity = (stat.st_dev, stat.st_ino);
                self.roots.push(Root { path: next.source.clone(), identity });
            }
            pending.extend(children(&next)?);
        }
        let is_file = matches!(kind, EntryKind::File { .. });
        let size_bytes = if is_file { u64::try_from(stat.st_size).unwrap_or_default() } else { 0 };
        self.bytes = self.bytes.saturating_add(size_bytes);
        match next.destination.take() {
            Some(destination) => {
                check_depth(&destination)?;
                let tree = next.found.is_some().then(|| (self.roots.len() - 1, next.below));
                let place = Place { path: next.source, tree };
                self.entries.push(Planned { place, destination, kind });
            }
            None if is_directory => {}
            None => return Err(bad_destination(b".", WsPathError::Empty)),
        }
        Ok(())
    }

    /// Refuses two sources for one destination.
    pub(crate) fn check_distinct(&self) -> Result<(), Failure> {
        let own = self.entries.iter().filter(|entry| entry.kind != EntryKind::Directory);
        let mut own: Vec<&WsPath> = own.map(|entry| &entry.destination).collect();
        own.sort_unstable();
        match own.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(Failure::user(
                "input_twice",
                format!("two inputs go to `{}`", printable(pair[0].as_bytes())),
                "give each --input a destination of its own",
            )),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the streams that a provider copies from.
    pub(crate) fn deliver(self) -> Delivery {
        let ledger = self.ledger.clone();
        let roots = self.roots;
        let mut open: Option<(usize, OpenRoot)> = None;
        let entries = self.entries.into_iter().map(move |entry| {
            match entry.kind {
                EntryKind::Directory => ledger.directory(),
                EntryKind::Link { .. } => ledger.link(),
                EntryKind::File { .. } => {}
            }
            let root = entry.place.tree.as_ref().map(|(index, _)| {
                if open.as_ref().is_none_or(|(of, _)| of != index) {
                    open = Some((*index, roots[*index].open()));
                }
                open.as_ref().expect("it was opened just now, or before").1.clone()
            });
            let source = Source { entry, root, open: None, ledger: ledger.clone() };
            Box::new(source) as Box<dyn EntrySource>
        });
        Delivery { entries: Box::new(entries), ledger: self.ledger }
    }
}

/// Reads a destination; `None` is the workspace's root.
pub(crate) fn destination_of(bytes: &[u8]) -> Result<Option<WsPath>, Failure> {
    match WsPath::parse(bytes) {
        Ok(path) => Ok(Some(path)),
        Err(WsPathError::Empty) if !bytes.is_empty() => Ok(None),
        Err(error) => Err(bad_destination(bytes, error)),
    }
}

pub(crate) fn bad_destination(bytes: &[u8], error: WsPathError) -> Failure {
    Failure::user(
        "bad_destination",
        format!("the destination `{}` cannot be used: {error}", printable(bytes)),
        "name a place below the workspace, such as data/input.csv; `.` takes a directory only",
    )
}

/// Refuses what lies too deep to be staged.
pub(crate) fn check_depth(path: &WsPath) -> Result<(), Failure> {
    if path.as_bytes().split(|byte| *byte == b'/').count() <= DEPTH_MAX {
        return Ok(());
    }
    Err(Failure::user(
        "input_too_deep",
        format!("`{}` lies more than {DEPTH_MAX} directories deep", printable(path.as_bytes())),
        "pack the tree into one file, and unpack it inside",
    ))
}

/// Looks at one entry and refuses what cannot be copied in.
fn look(next: &Pending) -> Result<Stat, Failure> {
    let path = &next.source;
    let (at, name) = next.at();
    let stat = statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
    let stat = stat.map_err(|error| unreadable(path, error))?;
    let shown = printable(path.as_os_str().as_bytes());
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => Ok(stat),
        FileType::Symlink if !next.below.is_empty() => Ok(stat),
        FileType::Symlink => Err(Failure::user(
            "input_is_link",
            format!(
                "`{shown}` is a symbolic link, and a link that is named itself is not copied in"
            ),
            "name what it points to",
        )),
        _ => Err(Failure::user(
            "input_is_special",
            format!("`{shown}` is neither a regular file nor a directory"),
            "copy regular files and directories only",
        )),
    }
}

fn kind_of(next: &Pending, stat: &Stat) -> Result<EntryKind, Failure> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Ok(EntryKind::Directory),
        FileType::Symlink => {
            let (at, name) = next.at();
            let target = match readlinkat(at, name, Vec::new()) {
                // It was a link a moment ago.
                Err(Errno::INVAL) => return Err(changed(&next.source)),
                other => other.map_err(|error| unreadable(&next.source, error))?,
            };
            if stays_inside(&next.below, target.as_bytes()) {
                return Ok(EntryKind::Link { target: target.into_bytes().into() });
            }
            Err(leaves(next.source.as_os_str().as_bytes(), target.as_bytes()))
        }
        _ => Ok(EntryKind::File { mode: stat.st_mode & 0o777, mtime: stat.st_mtime }),
    }
}

/// Returns whether a link at `path` in a tree stays in that tree, by its words alone; it need not lead anywhere.
pub(crate) fn stays_inside(path: &[u8], target: &[u8]) -> bool {
    if target.first() == Some(&b'/') || target.is_empty() {
        return false;
    }
    // Directories between the tree's root and the place that was reached; below zero is outside.
    let mut depth = path.iter().filter(|byte| **byte == b'/').count();
    for part in target.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match depth.checked_sub(1) {
                Some(up) => depth = up,
                None => return false,
            },
            _ => depth += 1,
        }
    }
    true
}

/// Makes the refusal of a link that leaves its tree.
pub(crate) fn leaves(path: &[u8], target: &[u8]) -> Failure {
    Failure::user(
        "link_leaves_tree",
        format!(
            "`{}` is a symbolic link to `{}`, which is not inside what is copied",
            printable(path),
            printable(target)
        ),
        "leave it out with --ignore-file, make it relative to the tree, or copy a directory that holds both",
    )
}

/// Lists a directory; the last name first, since the walk takes from the end.
fn children(at: &Pending) -> Result<Vec<Pending>, Failure> {
    let unlisted = |error: Errno| unreadable(&at.source, error);
    let directory = Arc::new(open_directory(at)?);
    let mut found = Vec::new();
    for entry in Dir::read_from(&directory).map_err(unlisted)? {
        let entry = entry.map_err(unlisted)?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let bytes = name.as_bytes();
        let destination = match &at.destination {
            Some(above) => above.join(bytes),
            None => WsPath::parse(bytes),
        };
        let destination = destination.map_err(|error| bad_destination(bytes, error))?;
        let below = if at.below.is_empty() {
            bytes.to_vec()
        } else {
            [&at.below, &b"/"[..], bytes].concat()
        };
        let source = at.source.join(name);
        let above = Some(directory.clone());
        found.push(Pending { source, found: above, destination: Some(destination), below });
    }
    found.sort_unstable_by(|a, b| b.below.cmp(&a.below));
    Ok(found)
}

/// Opens a directory that was one a moment ago.
fn open_directory(at: &Pending) -> Result<OwnedFd, Failure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (above, name) = at.at();
    match openat(above, name, flags, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) => Err(changed(&at.source)),
        other => other.map_err(|error| unreadable(&at.source, error)),
    }
}

/// Opens what is at `place`, where neither it nor anything between it and its root is a link.
fn open_file(place: &Place, root: Option<&OpenRoot>) -> Result<OwnedFd, Errno> {
    // Without NONBLOCK a pipe that took the file's place would block here for ever.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match (&place.tree, root) {
        (Some((_, below)), Some(root)) => {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            openat2(
                root.as_ref().map_err(|error| *error)?,
                below.as_slice(),
                flags,
                Mode::empty(),
                resolve,
            )
        }
        _ => rustix::fs::open(&place.path, flags, Mode::empty()),
    }
}

/// A file that is being read and hashed.
struct Reading {
    file: File,
    hasher: Sha256,
    size_bytes: u64,
}

impl Reading {
    fn open(place: &Place, root: Option<&OpenRoot>) -> Result<Self, Failure> {
        let path = &place.path;
        let file = match open_file(place, root) {
            // Nothing on the way was a link when the tree was walked.
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(changed(path)),
            other => other.map_err(|error| unreadable(path, error))?,
        };
        let stat = fstat(&file).map_err(|error| unreadable(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(changed(path));
        }
        Ok(Self { file: File::from(file), hasher: Sha256::new(), size_bytes: 0 })
    }

    fn next(&mut self, buffer: &mut [u8], path: &Path) -> Result<usize, Failure> {
        let read = loop {
            match self.file.read(buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.map_err(|error| unreadable_io(path, &error))?,
            }
        };
        self.hasher.update(&buffer[..read]);
        self.size_bytes += read as u64;
        Ok(read)
    }
}

/// One entry as a provider copies it.
struct Source {
    entry: Planned,
    /// The named directory that it lies below.
    root: Option<OpenRoot>,
    open: Option<Reading>,
    ledger: Ledger,
}

impl EntrySource for Source {
    fn destination(&self) -> &WsPath {
        &self.entry.destination
    }

    fn kind(&self) -> EntryKind {
        self.entry.kind.clone()
    }

    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>> {
        if !matches!(self.entry.kind, EntryKind::File { .. }) {
            return Ok(0);
        }
        let path = &self.entry.place.path;
        let mut reading = match self.open.take() {
            Some(reading) => reading,
            None => Reading::open(&self.entry.place, self.root.as_ref())?,
        };
        let read = reading.next(buffer, path)?;
        if read == 0 {
            let (source, to) = (path.as_os_str().as_bytes(), self.entry.destination.clone());
            let digest = Digest::new(reading.hasher.finalize().into());
            self.ledger.file(ByteString::from(source), to, reading.size_bytes, digest);
            return Ok(0);
        }
        self.open = Some(reading);
        self.ledger.take(read)?;
        Ok(read)
    }
}

fn changed(path: &Path) -> Failure {
    Failure::user(
        "input_changed",
        format!(
            "`{}` became something else while it was copied; nothing landed",
            printable(path.as_os_str().as_bytes())
        ),
        "copy it again once nothing replaces it",
    )
    .retryable()
}

fn unreadable(path: &Path, error: Errno) -> Failure {
    unreadable_io(path, &error.into())
}

fn unreadable_io(path: &Path, error: &std::io::Error) -> Failure {
    let message = format!("`{}`: {}", printable(path.as_os_str().as_bytes()), told(error));
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            Failure::user("no_such_input", message, "name a file or directory that exists")
        }
        _ => Failure::environment(
            "input_unreadable",
            message,
            "make it readable for this user, or leave it out",
        ),
    }
}

#[cfg(test)]
mod tests;
