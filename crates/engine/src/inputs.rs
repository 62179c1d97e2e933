//! The host side of copy-in: which files there are, what is in them, and a stream of each.
//!
//! No link is followed, at the top or below it, and a file that changes between its digest and its copy fails the whole
//! batch. Directories are read in the order of their names, so that the same tree gives the same records.
use crate::failure::{cancelled, told};
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::CancelToken;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::JobId;
use bailiwick_contract::input::{InputRecord, WsPath, WsPathError};
use bailiwick_contract::provider::{EntryKind, EntrySource};
use bailiwick_contract::time::Timestamp;
use core::error::Error;
use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// 64 KiB: the default size of a pipe (pipe(7)), and the size of each read here.
const CHUNK_BYTES: usize = 64 << 10;

/// What an input may bring along; more is refused before a byte is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes that the workspace's budget has left.
    pub bytes: u64,
    /// Entries that it has left.
    pub entries: u64,
}

/// A host entry that will be copied in.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    source: PathBuf,
    destination: WsPath,
    kind: EntryKind,
    size_bytes: u64,
    digest: Option<Digest>,
}

/// Everything that one or several sources bring.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plan {
    entries: Vec<Planned>,
}

impl Plan {
    /// Walks `source` and measures every file of it.
    pub(crate) fn add(
        &mut self,
        source: &Path,
        destination: &[u8],
        room: Room,
        cancel: &CancelToken,
    ) -> Result<(), Failure> {
        let destination = destination_of(destination)?;
        let first = self.entries.len();
        self.walk(source, destination, room, cancel)?;
        self.check_room(room)?;
        self.entries[first..].iter_mut().try_for_each(|entry| entry.measure(cancel))?;
        // A file may have grown since it was listed; what was read is what counts.
        self.check_room(room)
    }

    /// Refuses two sources for one destination.
    pub(crate) fn check_distinct(&self) -> Result<(), Failure> {
        let mut files: Vec<&WsPath> = self.files().map(|file| &file.destination).collect();
        files.sort_unstable();
        match files.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(Failure::user(
                "input_twice",
                format!("two inputs go to `{}`", printable(pair[0].as_bytes())),
                "give each --input a destination of its own",
            )),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files().map(|file| file.size_bytes).sum()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the record of each file, as it will be once the batch has landed.
    pub(crate) fn records(&self, at: Timestamp, job: Option<&JobId>) -> Vec<InputRecord> {
        let record = |file: &Planned| {
            Some(InputRecord {
                source: ByteString::from(file.source.as_os_str().as_bytes()),
                destination: file.destination.clone(),
                size_bytes: file.size_bytes,
                sha256: file.digest?,
                recorded_at: at,
                job: job.cloned(),
            })
        };
        self.files().filter_map(record).collect()
    }

    /// Returns the streams that a provider copies from.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Box<dyn EntrySource>> + '_ {
        self.entries.iter().map(|entry| {
            let source = Source { entry: entry.clone(), open: None };
            Box::new(source) as Box<dyn EntrySource>
        })
    }

    fn files(&self) -> impl Iterator<Item = &Planned> {
        self.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. }))
    }

    fn check_room(&self, room: Room) -> Result<(), Failure> {
        let (bytes, entries) = (self.bytes(), self.entries.len() as u64);
        if bytes <= room.bytes && entries <= room.entries {
            return Ok(());
        }
        Err(Failure::new(
            ExitCode::PolicyDenied,
            "inputs_over_storage",
            format!(
                "the inputs are {bytes} bytes in {entries} entries, and the storage budget has room for {} bytes in {}",
                room.bytes, room.entries
            ),
            "copy less in, or create a workspace with a larger --storage-bytes",
        ))
    }

    fn walk(
        &mut self,
        source: &Path,
        destination: WsPath,
        room: Room,
        cancel: &CancelToken,
    ) -> Result<(), Failure> {
        let mut pending = vec![(source.to_path_buf(), destination)];
        while let Some((source, destination)) = pending.pop() {
            check_cancelled(cancel)?;
            let stat = look(&source)?;
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_directory {
                pending.extend(children(&source, &destination)?);
            }
            self.entries.push(Planned {
                kind: if is_directory { EntryKind::Directory } else { file_kind(&stat) },
                size_bytes: if is_directory { 0 } else { size_of(&stat) },
                source,
                destination,
                digest: None,
            });
            if self.entries.len() as u64 > room.entries {
                return self.check_room(room);
            }
        }
        Ok(())
    }
}

/// Nothing has been copied yet, so that the caller's wish to stop ends it here.
fn check_cancelled(cancel: &CancelToken) -> Result<(), Failure> {
    if cancel.is_cancelled() { Err(cancelled()) } else { Ok(()) }
}

fn destination_of(bytes: &[u8]) -> Result<WsPath, Failure> {
    WsPath::parse(bytes).map_err(|error| bad_destination(bytes, error))
}

fn bad_destination(bytes: &[u8], error: WsPathError) -> Failure {
    Failure::user(
        "bad_destination",
        format!("the destination `{}` cannot be used: {error}", printable(bytes)),
        "name a place below the workspace, such as data/input.csv",
    )
}

/// Looks at one entry and refuses what cannot be copied in.
fn look(path: &Path) -> Result<Stat, Failure> {
    let stat = rustix::fs::lstat(path).map_err(|error| unreadable(path, error))?;
    let shown = printable(path.as_os_str().as_bytes());
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => Ok(stat),
        FileType::Symlink => Err(Failure::user(
            "input_is_link",
            format!("`{shown}` is a symbolic link, and links are not copied in"),
            "name what it points to; for a tree with links, show the directory with --allow-host-path PATH:ro \
             and copy it inside with cp -r",
        )),
        _ => Err(Failure::user(
            "input_is_special",
            format!("`{shown}` is neither a regular file nor a directory"),
            "copy regular files and directories only",
        )),
    }
}

/// Lists a directory; the last name first, since the walk takes from the end.
fn children(source: &Path, destination: &WsPath) -> Result<Vec<(PathBuf, WsPath)>, Failure> {
    let unlisted = |error: std::io::Error| unreadable_io(source, &error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(source).map_err(unlisted)? {
        let name = entry.map_err(unlisted)?.file_name();
        let below = destination
            .join(name.as_bytes())
            .map_err(|error| bad_destination(name.as_bytes(), error))?;
        found.push((source.join(&name), below));
    }
    found.sort_unstable_by(|a, b| b.1.cmp(&a.1));
    Ok(found)
}

fn file_kind(stat: &Stat) -> EntryKind {
    EntryKind::File { mode: stat.st_mode & 0o777, mtime: stat.st_mtime }
}

fn size_of(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

impl Planned {
    /// Reads the file once, for its digest and its true size.
    fn measure(&mut self, cancel: &CancelToken) -> Result<(), Failure> {
        if self.kind == EntryKind::Directory {
            return Ok(());
        }
        let mut reading = Reading::open(&self.source)?;
        let mut buffer = vec![0_u8; CHUNK_BYTES];
        while reading.next(&mut buffer, &self.source)? > 0 {
            check_cancelled(cancel)?;
        }
        self.kind = reading.kind.clone();
        (self.size_bytes, self.digest) = (reading.size_bytes, Some(reading.digest()));
        Ok(())
    }
}

/// A file that is being read and hashed.
struct Reading {
    file: File,
    hasher: Sha256,
    size_bytes: u64,
    kind: EntryKind,
}

impl Reading {
    fn open(path: &Path) -> Result<Self, Failure> {
        // Without NONBLOCK a pipe that took the file's place would block here for ever.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| unreadable(path, error))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| unreadable(path, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(changed(path));
        }
        let (hasher, kind) = (Sha256::new(), file_kind(&stat));
        Ok(Self { file: File::from(file), hasher, size_bytes: 0, kind })
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

    fn digest(&mut self) -> Digest {
        Digest::new(self.hasher.finalize_reset().into())
    }
}

/// One entry as a provider copies it.
struct Source {
    entry: Planned,
    open: Option<Reading>,
}

impl EntrySource for Source {
    fn destination(&self) -> &WsPath {
        &self.entry.destination
    }

    fn kind(&self) -> EntryKind {
        self.entry.kind.clone()
    }

    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>> {
        if self.entry.kind == EntryKind::Directory {
            return Ok(0);
        }
        let path = &self.entry.source;
        let reading = match &mut self.open {
            Some(reading) => reading,
            closed => closed.insert(Reading::open(path)?),
        };
        let read = reading.next(buffer, path)?;
        let grown = reading.size_bytes > self.entry.size_bytes;
        if grown || (read == 0 && !buffer.is_empty() && Some(reading.digest()) != self.entry.digest)
        {
            return Err(Box::new(changed(path)));
        }
        Ok(read)
    }
}

fn changed(path: &Path) -> Failure {
    Failure::user(
        "input_changed",
        format!(
            "`{}` changed while it was copied; nothing landed",
            printable(path.as_os_str().as_bytes())
        ),
        "copy it again once nothing writes to it",
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
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const ROOM: Room = Room { bytes: 1 << 20, entries: 100 };

    fn plan(source: &Path, destination: &[u8], room: Room) -> Result<Plan, Failure> {
        let mut plan = Plan::default();
        plan.add(source, destination, room, &CancelToken::new()).map(|()| plan)
    }

    #[test]
    fn a_caller_who_cancels_ends_the_reading() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("f");
        std::fs::write(&file, "bytes").expect("written");
        let cancel = CancelToken::new();
        cancel.cancel();
        let mut entry = plan(&file, b"f", ROOM).expect("a good file").entries.remove(0);
        assert_eq!(entry.measure(&cancel).expect_err("cancelled").code, ExitCode::Cancelled);
        let ended = Plan::default().add(&file, b"f", ROOM, &cancel).expect_err("cancelled");
        assert_eq!(ended.reason, "cancelled");
    }

    #[test]
    fn a_tree_keeps_modes_and_empty_directories_in_the_order_of_names() {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(home.path().join("empty")).expect("made");
        std::fs::write(home.path().join("b.sh"), "true\n").expect("written");
        std::fs::write(home.path().join("a"), "").expect("written");
        let script = home.path().join("b.sh");
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("set");
        let plan = plan(home.path(), b"in/./tree", ROOM).expect("a good tree");
        let shown: Vec<String> =
            plan.entries.iter().map(|e| printable(e.destination.as_bytes())).collect();
        assert_eq!(shown, ["in/tree", "in/tree/a", "in/tree/b.sh", "in/tree/empty"]);
        assert!(matches!(plan.entries[2].kind, EntryKind::File { mode: 0o755, .. }));
        assert_eq!((plan.records(Timestamp::default(), None).len(), plan.bytes()), (2, 5));
    }

    #[test]
    fn links_special_files_and_absent_ones_are_refused() {
        let home = tempfile::tempdir().expect("a directory");
        symlink("/etc/passwd", home.path().join("link")).expect("linked");
        let refused = |name: &str| plan(&home.path().join(name), b"x", ROOM).expect_err(name);
        assert_eq!(refused("link").reason, "input_is_link");
        assert!(refused("link").remediation.contains("--allow-host-path PATH:ro"));
        assert_eq!(refused("absent").reason, "no_such_input");
        assert_eq!(plan(home.path(), b"x", ROOM).expect_err("inside").reason, "input_is_link");
        assert_eq!(
            plan(Path::new("/dev/null"), b"x", ROOM).expect_err("dev").reason,
            "input_is_special"
        );
        assert_eq!(plan(home.path(), b"../x", ROOM).expect_err("out").reason, "bad_destination");
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_read() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("f");
        std::fs::write(&file, "12345").expect("written");
        let tight = Room { bytes: 4, ..ROOM };
        assert_eq!(plan(&file, b"f", tight).expect_err("tight").code, ExitCode::PolicyDenied);
        let few = Room { entries: 1, ..ROOM };
        assert_eq!(plan(home.path(), b"f", few).expect_err("few").code, ExitCode::PolicyDenied);
    }

    #[test]
    fn a_file_that_changes_before_its_copy_fails_the_copy() {
        let home = tempfile::tempdir().expect("a directory");
        let file = home.path().join("f");
        std::fs::write(&file, "before").expect("written");
        let plan = plan(&file, b"f", ROOM).expect("a good file");
        std::fs::write(&file, "behind").expect("written");
        let mut source = plan.sources().next().expect("one entry");
        let mut buffer = [0_u8; 64];
        let end = (0..2).try_for_each(|_| source.pull(&mut buffer).map(drop));
        let error = end.expect_err("changed").downcast::<Failure>().expect("a failure of ours");
        assert_eq!(error.reason, "input_changed");
    }
}
