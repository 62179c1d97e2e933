//! The host side of copy-in: which entries there are, and a stream of each file.
//!
//! No link is followed. One inside a tree is kept as a link where it stays inside the tree; sizes are taken when the tree
//! is walked, contents once, when they are copied. Directories are read in the order of their names.
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
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// How deep a batch may go: every directory on the way to an entry is open while it is staged.
const DEPTH_MAX: usize = 256;

/// A host entry that will be copied in.
#[derive(Debug)]
struct Planned {
    source: PathBuf,
    destination: WsPath,
    kind: EntryKind,
}

/// Everything that one or several sources bring.
#[derive(Debug)]
pub(crate) struct Plan {
    entries: Vec<Planned>,
    bytes: u64,
    ledger: Ledger,
}

/// An entry that the walk has found and not yet visited.
struct Pending {
    source: PathBuf,
    /// None for the source's root, where it becomes the workspace's.
    destination: Option<WsPath>,
    /// Below the source's root; empty for the root itself.
    below: Vec<u8>,
}

impl Plan {
    pub(crate) fn new(room: Room) -> Self {
        Self { entries: Vec::new(), bytes: 0, ledger: Ledger::new(room) }
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
        let root = Pending { source: source.to_path_buf(), destination, below: Vec::new() };
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
        next: Pending,
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
            pending.extend(children(&next)?);
        }
        let is_file = matches!(kind, EntryKind::File { .. });
        let size_bytes = if is_file { u64::try_from(stat.st_size).unwrap_or_default() } else { 0 };
        self.bytes = self.bytes.saturating_add(size_bytes);
        match next.destination {
            Some(destination) => {
                check_depth(&destination)?;
                self.entries.push(Planned { source: next.source, destination, kind });
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
        let entries = self.entries.into_iter().map(move |entry| {
            match entry.kind {
                EntryKind::Directory => ledger.directory(),
                EntryKind::Link { .. } => ledger.link(),
                EntryKind::File { .. } => {}
            }
            let source = Source { entry, open: None, ledger: ledger.clone() };
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
    let stat = rustix::fs::lstat(path).map_err(|error| unreadable(path, error))?;
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
            let target = rustix::fs::readlink(&next.source, Vec::new())
                .map_err(|error| unreadable(&next.source, error))?;
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
    let unlisted = |error: std::io::Error| unreadable_io(&at.source, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&at.source).map_err(unlisted)? {
        let name = entry.map_err(unlisted)?.file_name();
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
        let source = at.source.join(&name);
        found.push(Pending { source, destination: Some(destination), below });
    }
    found.sort_unstable_by(|a, b| b.below.cmp(&a.below));
    Ok(found)
}

/// A file that is being read and hashed.
struct Reading {
    file: File,
    hasher: Sha256,
    size_bytes: u64,
}

impl Reading {
    fn open(path: &Path) -> Result<Self, Failure> {
        // Without NONBLOCK a pipe that took the file's place would block here for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::open(path, flags, Mode::empty()) {
            // It was no link when the tree was walked.
            Err(Errno::LOOP) => return Err(changed(path)),
            other => other.map_err(|error| unreadable(path, error))?,
        };
        let stat = rustix::fs::fstat(&file).map_err(|error| unreadable(path, error))?;
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
        let path = &self.entry.source;
        let mut reading = match self.open.take() {
            Some(reading) => reading,
            None => Reading::open(path)?,
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
