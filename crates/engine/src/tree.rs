//! Directories as artifacts: published as a tree or as one tar file, with the same digest.
//!
//! The digest is SHA-256 of the canonical tar: entries in the order of their paths' bytes, times and owners 0, modes 0755
//! for directories and what may be executed and 0644 for the rest, GNU long names, two blocks of zeros at the end. Links
//! are kept where they stay inside the tree; anything special refuses.
use crate::engine::Engine;
use crate::publish::{Destination, NEW, Publication, check_digest, over_storage, temporary_name};
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::IntentId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::{ByteSink, ListSpec, Listed, ListedKind, ProviderError};
use bailiwick_contract::record::WorkspaceRecord;
use core::error::Error;
use rustix::fs::{Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;

/// The media type of a directory that was published, in either form: its digest is that of a tar file.
pub(crate) const MEDIA_TYPE: &str = "application/x-tar";

/// The most entries that a tree may have.
const ENTRIES_MAX: u64 = 1_000_000;

/// The unit of a tar file.
const BLOCK: usize = 512;

/// The longest name that a header holds itself.
const NAME_BYTES_MAX: usize = 100;

/// What a workspace has at an artifact's place.
pub(crate) enum Seen {
    /// A file, with its permissions and its length; or something that reading it will refuse.
    Leaf { mode: u32, size_bytes: u64 },
    /// A directory.
    Directory,
}

/// Everything below a directory of a workspace.
struct Tree {
    /// What was listed, with the place below the directory of each.
    entries: Vec<(Vec<u8>, Listed)>,
    bytes: u64,
}

impl Engine<'_> {
    /// Looks at an artifact's place before anything is copied.
    pub(crate) fn look(
        &self,
        record: &WorkspaceRecord,
        at: &WsPath,
    ) -> Result<Seen, ProviderError> {
        let spec = ListSpec { below: Some(at.clone()), recursive: false, limit: 1 };
        let found = self.provider.list(&record.id, &spec, &self.cx())?;
        let own = found.entries.first().filter(|entry| entry.path == *at);
        Ok(own.map_or(Seen::Directory, |entry| {
            let size_bytes = match entry.what {
                ListedKind::File { size_bytes } => size_bytes,
                _ => 0,
            };
            Seen::Leaf { mode: entry.mode, size_bytes }
        }))
    }

    /// Publishes a directory as one tar file.
    pub(crate) fn publish_tar(
        &self,
        record: &WorkspaceRecord,
        at: &WsPath,
        destination: Destination,
        intent: &IntentId,
        expected: Option<Digest>,
    ) -> Result<(Digest, u64), Failure> {
        let tree = self.tree(record, at)?;
        // Headers come on top of the budget, which is about contents.
        let mut publication = Publication::begin(destination, intent, 0o644, u64::MAX)?;
        for (below, entry) in &tree.entries {
            let into = |bytes: &[u8]| publication.push(bytes).map_err(of_sink);
            self.pack(record, below, entry, into)?;
        }
        publication.push(&[0; 2 * BLOCK]).map_err(of_sink)?;
        publication.commit(expected)
    }

    /// Publishes a directory as a tree.
    pub(crate) fn publish_tree(
        &self,
        record: &WorkspaceRecord,
        at: &WsPath,
        destination: Destination,
        intent: &IntentId,
        expected: Option<Digest>,
    ) -> Result<(Digest, u64), Failure> {
        destination.check_absent()?;
        let tree = self.tree(record, at)?;
        let staged = Staged::begin(destination, intent)?;
        let mut hasher = Sha256::new();
        for (below, entry) in &tree.entries {
            let mut file = staged.make(below, entry)?;
            let mut contents = false;
            self.pack(record, below, entry, |bytes| {
                hasher.update(bytes);
                // The header comes first and the padding last; what is in between is the file's own.
                match &mut file {
                    Some((file, left)) if contents && *left > 0 => {
                        *left = left.saturating_sub(bytes.len() as u64);
                        file.write_all(bytes).map_err(|error| staged.destination.unwritable(&error))
                    }
                    _ => {
                        contents = true;
                        Ok(())
                    }
                }
            })?;
        }
        hasher.update([0; 2 * BLOCK]);
        let digest = Digest::new(hasher.finalize().into());
        check_digest(digest, expected)?;
        staged.commit()?;
        Ok((digest, tree.bytes))
    }

    /// Lists a directory, and refuses what cannot be published as it is.
    fn tree(&self, record: &WorkspaceRecord, at: &WsPath) -> Result<Tree, Failure> {
        let spec = ListSpec { below: Some(at.clone()), recursive: true, limit: ENTRIES_MAX };
        let found = self.provider.list(&record.id, &spec, &self.cx());
        let found = found.map_err(|error| self.provider_failure(error))?;
        if found.more {
            let message =
                format!("`{}` has more entries than can be published", printable(at.as_bytes()));
            return Err(refused(&message));
        }
        let budget = record.policy.policy.budget.storage_bytes;
        let mut tree = Tree { entries: Vec::with_capacity(found.entries.len()), bytes: 0 };
        for entry in found.entries {
            let below = entry.path.as_bytes().get(at.as_bytes().len() + 1..).unwrap_or_default();
            check(below, &entry)?;
            if let ListedKind::File { size_bytes } = entry.what {
                tree.bytes = tree.bytes.saturating_add(size_bytes);
            }
            tree.entries.push((below.to_vec(), entry));
        }
        if tree.bytes > budget { Err(over_storage(budget)) } else { Ok(tree) }
    }

    /// Hands one entry of the canonical tar to `into`: its header as one piece, its contents, its padding.
    fn pack(
        &self,
        record: &WorkspaceRecord,
        below: &[u8],
        entry: &Listed,
        mut into: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        into(&header(below, entry))?;
        let ListedKind::File { size_bytes } = entry.what else { return Ok(()) };
        let mut contents = Contents { into: &mut into, left: size_bytes };
        let read = self.provider.read(&record.id, &entry.path, &mut contents, &self.cx());
        read.map_err(|error| self.provider_failure(error))?;
        if contents.left > 0 {
            return Err(changed(entry));
        }
        let over = usize::try_from(size_bytes % BLOCK as u64).unwrap_or_default();
        if over == 0 { Ok(()) } else { into(&[0; BLOCK][over..]) }
    }
}

/// Passes a file's contents on, and no more than its header has announced.
struct Contents<'i> {
    into: &'i mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    left: u64,
}

impl ByteSink for Contents<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or_else(|| refused("a file grew while it was copied"))?;
        Ok((self.into)(bytes)?)
    }
}

/// Refuses what cannot be published as it is.
fn check(below: &[u8], entry: &Listed) -> Result<(), Failure> {
    let shown = printable(entry.path.as_bytes());
    match &entry.what {
        ListedKind::Special => Err(refused(&format!("`{shown}` is a socket, a FIFO or a device"))),
        ListedKind::Link { target } if !leads_inside(below, target.as_bytes()) => {
            let target = printable(target.as_bytes());
            Err(refused(&format!(
                "`{shown}` is a link to `{target}`, which is not inside what is published"
            )))
        }
        // What is in it may be more than was listed.
        ListedKind::Directory if entry.mode & 0o500 != 0o500 => {
            Err(refused(&format!("`{shown}` is closed to its owner")))
        }
        _ => Ok(()),
    }
}

/// Returns whether a link stays in its tree on a host that follows it.
///
/// Stricter than for what is copied in: a `..` behind a name could lead out through another link, so that it may only
/// stand at the beginning.
fn leads_inside(path: &[u8], target: &[u8]) -> bool {
    let parts = target.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let late = parts.skip_while(|part| *part == b"..").any(|part| part == b"..");
    !late && crate::inputs::stays_inside(path, target)
}

fn refused(message: &str) -> Failure {
    Failure::user(
        "tree_refused",
        format!("{message}; nothing was published"),
        "let the job leave it out, or pack what is wanted into one file",
    )
}

fn changed(entry: &Listed) -> Failure {
    let shown = printable(entry.path.as_bytes());
    refused(&format!("`{shown}` became shorter while it was copied"))
}

fn of_sink(error: Box<dyn Error + Send + Sync>) -> Failure {
    error.downcast::<Failure>().map_or_else(
        |error| {
            let advice = "make room, or name another --to";
            Failure::new(
                ExitCode::EnvironmentError,
                "destination_unwritable",
                error.to_string(),
                advice,
            )
        },
        |failure| *failure,
    )
}

/// A tree on its way to a destination.
struct Staged {
    destination: Destination,
    temporary: String,
    root: OwnedFd,
    committed: bool,
}

impl Staged {
    fn begin(destination: Destination, intent: &IntentId) -> Result<Self, Failure> {
        let temporary = temporary_name(intent);
        let failed = |error: rustix::io::Errno| destination.unwritable(&error.into());
        mkdirat(&destination.directory, &temporary, Mode::from_raw_mode(0o777)).map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root =
            openat(&destination.directory, &temporary, flags, Mode::empty()).map_err(failed)?;
        Ok(Self { destination, temporary, root, committed: false })
    }

    /// Makes an entry; returns a file that waits for its contents, and how many bytes they have.
    fn make(&self, below: &[u8], entry: &Listed) -> Result<Option<(File, u64)>, Failure> {
        let failed = |error: rustix::io::Errno| self.destination.unwritable(&error.into());
        match &entry.what {
            ListedKind::File { size_bytes } => {
                let mode = Mode::from_raw_mode(entry.mode & 0o777 | 0o600);
                let below_only = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                let file = openat2(&self.root, below, NEW, mode, below_only).map_err(failed)?;
                Ok(Some((File::from(file), *size_bytes)))
            }
            ListedKind::Link { target } => {
                symlinkat(target.as_bytes(), &self.root, below).map_err(failed).map(|()| None)
            }
            _ => mkdirat(&self.root, below, Mode::from_raw_mode(0o777))
                .map_err(failed)
                .map(|()| None),
        }
    }

    fn commit(mut self) -> Result<(), Failure> {
        let failed = |error: rustix::io::Errno| self.destination.unwritable(&error.into());
        // One call for the whole tree, where a sync of each file would take as many waits for the disk.
        rustix::fs::syncfs(&self.root).map_err(failed)?;
        self.destination.take_place(&self.temporary, true)?;
        let synced = rustix::fs::fsync(&self.destination.directory).map_err(failed);
        self.committed = true;
        synced
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing can be done about a failure here, and the name says what the directory was.
            std::fs::remove_dir_all(self.destination.beside(&self.temporary)).ok();
        }
    }
}

/// Returns the header of an entry, after those that hold a long name or target.
fn header(below: &[u8], entry: &Listed) -> Vec<u8> {
    let (flag, mode, size, target): (u8, u32, u64, &[u8]) = match &entry.what {
        ListedKind::Directory => (b'5', 0o755, 0, b""),
        ListedKind::Link { target } => (b'2', 0o777, 0, target.as_bytes()),
        ListedKind::File { size_bytes } if entry.mode & 0o111 != 0 => {
            (b'0', 0o755, *size_bytes, b"")
        }
        ListedKind::File { size_bytes } => (b'0', 0o644, *size_bytes, b""),
        ListedKind::Special => unreachable!("`check` has refused it"),
    };
    let slash: &[u8] = if flag == b'5' { b"/" } else { b"" };
    let name = [below, slash].concat();
    let mut out = Vec::new();
    for (long, flag) in [(target, b'K'), (name.as_slice(), b'L')] {
        if long.len() > NAME_BYTES_MAX {
            let length = long.len() as u64 + 1;
            out.extend(block(b"././@LongLink", flag, 0, length, b""));
            out.extend(long);
            out.push(0);
            out.resize(out.len().next_multiple_of(BLOCK), 0);
        }
    }
    out.extend(block(&name, flag, mode, size, target));
    out
}

/// Returns one block of a header, in GNU's form.
fn block(name: &[u8], flag: u8, mode: u32, size: u64, target: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    let cut = |bytes: &[u8]| bytes[..bytes.len().min(NAME_BYTES_MAX)].to_vec();
    put(0, &cut(name));
    put(100, format!("{mode:07o}").as_bytes());
    put(108, b"0000000");
    put(116, b"0000000");
    if size < 1 << 33 {
        put(124, format!("{size:011o}").as_bytes());
    } else {
        // Twelve octal digits do not hold it: a high bit, and the number itself.
        put(124, &[0x80, 0, 0, 0]);
        put(128, &size.to_be_bytes());
    }
    put(136, b"00000000000");
    put(148, b"        ");
    put(156, &[flag]);
    put(157, &cut(target));
    put(257, b"ustar  \0");
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_could_lead_out_through_another_is_refused() {
        for target in ["a", "../x", "../../y/z", "./a", "a/b"] {
            assert!(leads_inside(b"d/e/l", target.as_bytes()), "{target}");
        }
        for target in ["a/..", "../a/../b", "../../..", "/a", ""] {
            assert!(!leads_inside(b"d/e/l", target.as_bytes()), "{target}");
        }
    }

    #[test]
    fn a_size_beyond_eight_gigabytes_is_a_binary_number() {
        let block = block(b"big", b'0', 0o644, 1 << 33, b"");
        assert_eq!(block[124..136], [0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    }
}
