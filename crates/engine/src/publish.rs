//! The host side of export: a file or a tree that appears at its destination whole, verified and durable, or not at all.
//!
//! The bytes go to a temporary name beside the destination, and are renamed over it only when they are complete and on disk
//! (rename(2), fsync(2)). A failure removes what is temporary and touches nothing else. The temporary name is the
//! intent's, so that what a killed export left can be told from everybody else's.
use crate::failure::told;
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::IntentId;
use bailiwick_contract::provider::ByteSink;
use core::error::Error;
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What may be done to something that is at a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clobber {
    /// A file there is replaced.
    Yes,
    /// Anything there refuses: `--no-clobber`.
    No,
}

/// A destination that was looked at: its directory is open and nothing is in the way.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) directory: OwnedFd,
    parent: PathBuf,
    name: OsString,
    pub(crate) shown: String,
    clobber: Clobber,
}

impl Destination {
    /// Opens the directory that the file will be in.
    pub(crate) fn open(path: &Path, clobber: Clobber) -> Result<Self, Failure> {
        let shown = printable(path.as_os_str().as_bytes());
        let is_name = path.as_os_str().as_bytes().last().is_some_and(|byte| *byte != b'/');
        let Some(name) = path.file_name().filter(|_| is_name) else {
            return Err(is_directory(&shown));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = parent.unwrap_or_else(|| Path::new(".")).to_path_buf();
        let directory = rustix::fs::open(&parent, flags, Mode::empty())
            .map_err(|error| no_directory(&shown, error))?;
        let found = Self { directory, parent, name: name.into(), shown, clobber };
        found.check_free().map(|()| found)
    }

    /// Refuses a directory in the place of the file; a file or a dangling link there is replaced where it may be.
    fn check_free(&self) -> Result<(), Failure> {
        if self.clobber == Clobber::No && self.is_taken() {
            return Err(self.taken());
        }
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::empty()) {
            Ok(stat) => match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
                kind if kind.is_dir() => Err(is_directory(&self.shown)),
                kind if kind.is_file() => Ok(()),
                _ => Err(Failure::user(
                    "destination_is_special",
                    format!("the destination `{}` is a device, a FIFO or a socket", self.shown),
                    "name a file; --to replaces what is there",
                )),
            },
            Err(_) => Ok(()),
        }
    }

    /// Returns whether anything is there, also a link that leads nowhere.
    fn is_taken(&self) -> bool {
        rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Refuses what a tree cannot take the place of: anything.
    pub(crate) fn check_absent(&self) -> Result<(), Failure> {
        if self.is_taken() { Err(self.taken()) } else { Ok(()) }
    }

    fn taken(&self) -> Failure {
        Failure::user(
            "destination_taken",
            format!("something is at `{}` already; nothing was published", self.shown),
            "name another --to; a directory is published only where nothing is, a file also over a file unless \
             --no-clobber is given",
        )
    }

    /// Returns where something temporary of this destination lies.
    pub(crate) fn beside(&self, temporary: &str) -> PathBuf {
        self.parent.join(temporary)
    }

    /// Moves what is complete and on disk into place.
    pub(crate) fn take_place(&self, temporary: &str, is_tree: bool) -> Result<(), Failure> {
        let (directory, failed) = (&self.directory, |error: Errno| self.unwritable(&error.into()));
        let moved = if is_tree || self.clobber == Clobber::No {
            let flags = RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(directory, temporary, directory, &self.name, flags)
        } else {
            rustix::fs::renameat(directory, temporary, directory, &self.name)
        };
        moved.map_err(|error| match error {
            Errno::ISDIR => is_directory(&self.shown),
            Errno::EXIST => self.taken(),
            other => failed(other),
        })
    }

    pub(crate) fn unwritable(&self, error: &std::io::Error) -> Failure {
        unwritable(&self.shown, error)
    }
}

/// Returns the name of what is temporary while `intent` is carried out.
pub(crate) fn temporary_name(intent: &IntentId) -> String {
    format!(".bailiwick-{}.partial", intent.as_str())
}

/// Removes what an export that was killed left beside `destination`; returns whether there was something of ours.
pub(crate) fn remove_partial(destination: &Path, intent: &IntentId) -> bool {
    // What is not absolute was meant from a folder that nobody knows any more.
    let Some(parent) = destination.parent().filter(|_| destination.is_absolute()) else {
        return false;
    };
    let path = parent.join(temporary_name(intent));
    let Ok(meta) = std::fs::symlink_metadata(&path) else { return false };
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return false;
    }
    let removed = match meta.file_type() {
        kind if kind.is_dir() => std::fs::remove_dir_all(&path),
        kind if kind.is_file() => std::fs::remove_file(&path),
        _ => return false,
    };
    removed.is_ok()
}

/// A file on its way to a destination.
#[derive(Debug)]
pub(crate) struct Publication {
    destination: Destination,
    temporary: String,
    file: File,
    hasher: Sha256,
    size_bytes: u64,
    bytes_max: u64,
    committed: bool,
}

impl Publication {
    /// Makes the temporary file, for at most `bytes_max` bytes; its permissions are `mode` less the umask.
    pub(crate) fn begin(
        destination: Destination,
        intent: &IntentId,
        mode: u32,
        bytes_max: u64,
    ) -> Result<Self, Failure> {
        let temporary = temporary_name(intent);
        // Whatever the job made of its file, what is published stays its owner's to read and replace.
        let mode = Mode::from_raw_mode(mode & 0o777 | 0o600);
        let file = rustix::fs::openat(&destination.directory, &temporary, NEW, mode)
            .map_err(|error| unwritable(&destination.shown, &error.into()))?;
        let (file, hasher) = (File::from(file), Sha256::new());
        Ok(Self {
            destination,
            temporary,
            file,
            hasher,
            size_bytes: 0,
            bytes_max,
            committed: false,
        })
    }

    /// Publishes what was written, if it is what `expected` says; returns its digest and size.
    pub(crate) fn commit(mut self, expected: Option<Digest>) -> Result<(Digest, u64), Failure> {
        let digest = Digest::new(self.hasher.finalize_reset().into());
        check_digest(digest, expected)?;
        let failed = |error: std::io::Error| self.destination.unwritable(&error);
        self.file.sync_all().map_err(failed)?;
        self.destination.take_place(&self.temporary, false)?;
        self.committed = true;
        rustix::fs::fsync(&self.destination.directory).map_err(|error| failed(error.into()))?;
        Ok((digest, self.size_bytes))
    }
}

impl ByteSink for Publication {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes > self.bytes_max {
            return Err(Box::new(over_storage(self.bytes_max)));
        }
        self.hasher.update(bytes);
        let written = self.file.write_all(bytes);
        Ok(written.map_err(|error| unwritable(&self.destination.shown, &error))?)
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        if !self.committed {
            // Nothing can be done about a failure here, and the name says what the file was.
            rustix::fs::unlinkat(&self.destination.directory, &self.temporary, AtFlags::empty())
                .ok();
        }
    }
}

/// How what is new on the host is opened.
pub(crate) const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Refuses what is not what was expected.
pub(crate) fn check_digest(digest: Digest, expected: Option<Digest>) -> Result<(), Failure> {
    match expected.filter(|expected| *expected != digest) {
        None => Ok(()),
        Some(expected) => Err(Failure::environment(
            "digest_mismatch",
            format!(
                "the artifact is sha256:{digest}, and sha256:{expected} was expected; nothing was published"
            ),
            "find out which of the two is wrong, then export again with the right --expect-sha256",
        )),
    }
}

/// Makes the refusal of an artifact that is larger than its workspace may be.
pub(crate) fn over_storage(bytes_max: u64) -> Failure {
    Failure::new(
        ExitCode::PolicyDenied,
        "artifact_over_storage",
        format!("the artifact is larger than the storage budget of {bytes_max} bytes"),
        "let the job write a smaller file; a sparse one counts with its full length",
    )
}

/// Reads `--expect-sha256`.
pub(crate) fn expectation(text: Option<&str>) -> Result<Option<Digest>, Failure> {
    let Some(text) = text else { return Ok(None) };
    Digest::parse(text).map(Some).ok_or_else(|| {
        Failure::user(
            "bad_digest",
            "--expect-sha256 takes 64 hex digits",
            "pass what sha256sum prints, without a prefix",
        )
    })
}

fn is_directory(shown: &str) -> Failure {
    Failure::user(
        "destination_is_directory",
        format!("`{shown}` is a directory, which an artifact does not replace"),
        "name the file in it, or a directory that is not there yet, without a slash at the end",
    )
}

fn no_directory(shown: &str, error: Errno) -> Failure {
    let message =
        format!("the directory of `{shown}` cannot be used: {}", std::io::Error::from(error));
    match error {
        Errno::NOENT | Errno::NOTDIR => Failure::user(
            "no_such_directory",
            message,
            "make the directory first: it is not created here",
        ),
        _ => Failure::environment(
            "destination_unwritable",
            message,
            "make it accessible for this user",
        ),
    }
}

fn unwritable(shown: &str, error: &std::io::Error) -> Failure {
    Failure::environment(
        "destination_unwritable",
        format!("`{shown}` cannot be published: {}", told(error)),
        "make room and make the directory writable for this user, or name another --to",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent() -> IntentId {
        IntentId::parse("0123456789ab").expect("an id")
    }

    fn open(path: &Path) -> Result<Destination, Failure> {
        Destination::open(path, Clobber::Yes)
    }

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).expect("listed");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    }

    fn publish(path: &Path, expected: Option<Digest>) -> Result<(Digest, u64), Failure> {
        let mut publication = Publication::begin(open(path)?, &intent(), 0o644, 8)?;
        publication.push(b"artifact").expect("within the budget");
        publication.commit(expected)
    }

    #[test]
    fn a_file_appears_whole_and_replaces_what_was_there() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("out");
        std::fs::write(&path, "old").expect("written");
        let (digest, size_bytes) = publish(&path, None).expect("published");
        assert_eq!(digest, Digest::new(Sha256::digest(b"artifact").into()));
        assert_eq!((std::fs::read(&path).expect("read"), size_bytes), (b"artifact".to_vec(), 8));
        assert_eq!(names(home.path()), ["out"]);
    }

    #[test]
    fn a_refusal_leaves_nothing_behind() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("out");
        let failure = publish(&path, Some(Digest::new([0; 32]))).expect_err("another digest");
        assert_eq!((failure.code, failure.reason), (ExitCode::EnvironmentError, "digest_mismatch"));
        let open = open(&path).expect("usable");
        let mut large = Publication::begin(open, &intent(), 0o644, 8).expect("begun");
        assert!(large.push(b"more than eight").is_err());
        drop(large);
        assert!(names(home.path()).is_empty());
    }

    #[test]
    fn a_destination_has_to_be_a_file_in_a_directory_that_exists() {
        let home = tempfile::tempdir().expect("a directory");
        let reason = |path: &Path| open(path).expect_err("refused").reason;
        assert_eq!(reason(home.path()), "destination_is_directory");
        assert_eq!(reason(Path::new("/")), "destination_is_directory");
        assert_eq!(reason(&home.path().join("absent/out")), "no_such_directory");
        assert_eq!(reason(&home.path().join("new/")), "destination_is_directory");
        assert!(expectation(Some("zz")).is_err());
    }

    #[test]
    fn what_may_not_be_replaced_refuses_before_and_after_the_copy() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("out");
        let free = Destination::open(&path, Clobber::No).expect("nothing is there");
        let mut publication = Publication::begin(free, &intent(), 0o644, 8).expect("begun");
        publication.push(b"new").expect("within the budget");
        std::os::unix::fs::symlink("nowhere", &path).expect("linked");
        let refused = Destination::open(&path, Clobber::No).expect_err("a dangling link");
        assert_eq!(refused.reason, "destination_taken");
        assert_eq!(publication.commit(None).expect_err("late").reason, "destination_taken");
        assert_eq!(names(home.path()), ["out"]);
    }

    #[test]
    fn only_our_own_leftover_of_this_very_intent_is_removed() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("out");
        assert!(!remove_partial(&path, &intent()));
        let other = home.path().join(".bailiwick-ba9876543210.partial");
        let own = home.path().join(temporary_name(&intent()));
        std::fs::write(&other, "of another export").expect("written");
        std::os::unix::fs::symlink(&other, &own).expect("linked");
        assert!(!remove_partial(&path, &intent()), "a link is nothing that an export makes");
        std::fs::remove_file(&own).expect("removed");
        std::fs::create_dir_all(own.join("deep")).expect("made");
        assert!(remove_partial(&path, &intent()));
        std::fs::write(&own, "half").expect("written");
        assert!(!remove_partial(Path::new("out"), &intent()), "from a folder that is not known");
        assert!(remove_partial(&path, &intent()));
        assert_eq!(names(home.path()), [other.file_name().expect("a name")]);
    }
}
