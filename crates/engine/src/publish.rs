//! The host side of export: a file that appears at its destination whole, verified and durable, or not at all.
//!
//! The bytes go to a temporary file beside the destination, and are renamed over it only when they are complete and on disk
//! (rename(2), fsync(2)). It is named after the intent: a failure removes it and touches nothing else, and whoever settles a
//! killed export finds it.
use crate::failure::told;
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::IntentId;
use bailiwick_contract::provider::ByteSink;
use core::error::Error;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// A destination that was looked at: its directory is open and nothing is in the way.
#[derive(Debug)]
pub(crate) struct Destination {
    directory: OwnedFd,
    name: OsString,
    shown: String,
}

impl Destination {
    /// Opens the directory that the file will be in.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let shown = printable(path.as_os_str().as_bytes());
        let is_name = path.as_os_str().as_bytes().last().is_some_and(|byte| *byte != b'/');
        let Some(name) = path.file_name().filter(|_| is_name) else {
            return Err(is_directory(&shown));
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(parent.unwrap_or_else(|| Path::new(".")), flags, Mode::empty())
                .map_err(|error| no_directory(&shown, error))?;
        let found = Self { directory, name: name.into(), shown };
        found.check_free().map(|()| found)
    }

    /// Refuses a directory in the place of the file; a file or a dangling link there is replaced.
    fn check_free(&self) -> Result<(), Failure> {
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
    /// Makes the temporary file, for at most `bytes_max` bytes.
    pub(crate) fn begin(
        destination: Destination,
        bytes_max: u64,
        intent: &IntentId,
    ) -> Result<Self, Failure> {
        let temporary = temporary_name(intent);
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // 0o666 less the umask, as any program's new file.
        let mode = Mode::from_raw_mode(0o666);
        let file = rustix::fs::openat(&destination.directory, &temporary, flags, mode)
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
        if let Some(expected) = expected.filter(|expected| *expected != digest) {
            return Err(Failure::environment(
                "digest_mismatch",
                format!(
                    "the artifact is sha256:{digest}, and sha256:{expected} was expected; nothing was published"
                ),
                "find out which of the two is wrong, then export again with the right --expect-sha256",
            ));
        }
        let failed = |error: std::io::Error| unwritable(&self.destination.shown, &error);
        self.file.sync_all().map_err(failed)?;
        let Destination { directory, name, shown } = &self.destination;
        match rustix::fs::renameat(directory, &self.temporary, directory, name) {
            Ok(()) => self.committed = true,
            Err(Errno::ISDIR) => return Err(is_directory(shown)),
            Err(error) => return Err(failed(error.into())),
        }
        rustix::fs::fsync(directory).map_err(|error| failed(error.into()))?;
        Ok((digest, self.size_bytes))
    }
}

impl ByteSink for Publication {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.size_bytes += bytes.len() as u64;
        if self.size_bytes > self.bytes_max {
            return Err(Box::new(Failure::new(
                ExitCode::PolicyDenied,
                "artifact_over_storage",
                format!(
                    "the artifact is larger than the storage budget of {} bytes",
                    self.bytes_max
                ),
                "let the job write a smaller file; a sparse one counts with its full length",
            )));
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

fn temporary_name(intent: &IntentId) -> String {
    format!(".bailiwick-{intent}.partial")
}

/// Removes what an export that was killed under `intent` left beside its destination.
pub(crate) fn discard(destination: &Path, intent: &IntentId) {
    let temporary = destination.with_file_name(temporary_name(intent));
    // Usually it is not there, and its directory may be gone.
    rustix::fs::unlink(&temporary).ok();
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
        format!("`{shown}` is a directory, and an artifact becomes one file"),
        "name the file in it",
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
        IntentId::parse("int-000000000007").expect("an id")
    }

    fn names(directory: &Path) -> Vec<OsString> {
        let entries = std::fs::read_dir(directory).expect("listed");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    }

    fn publish(path: &Path, expected: Option<Digest>) -> Result<(Digest, u64), Failure> {
        let mut publication = Publication::begin(Destination::open(path)?, 8, &intent())?;
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
        let open = Destination::open(&path).expect("usable");
        let mut large = Publication::begin(open, 8, &intent()).expect("begun");
        assert!(large.push(b"more than eight").is_err());
        drop(large);
        assert!(names(home.path()).is_empty());
    }

    #[test]
    fn what_a_killed_export_left_is_found_by_its_intent() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("out");
        let open = Destination::open(&path).expect("usable");
        let killed = Publication::begin(open, 8, &intent()).expect("begun");
        std::mem::forget(killed);
        assert_eq!(names(home.path()).len(), 1);
        discard(&path, &IntentId::parse("int-000000000008").expect("an id"));
        assert_eq!(names(home.path()).len(), 1);
        discard(&path, &intent());
        assert!(names(home.path()).is_empty());
    }

    #[test]
    fn a_destination_has_to_be_a_file_in_a_directory_that_exists() {
        let home = tempfile::tempdir().expect("a directory");
        let reason = |path: &Path| Destination::open(path).expect_err("refused").reason;
        assert_eq!(reason(home.path()), "destination_is_directory");
        assert_eq!(reason(Path::new("/")), "destination_is_directory");
        assert_eq!(reason(&home.path().join("absent/out")), "no_such_directory");
        assert_eq!(reason(&home.path().join("new/")), "destination_is_directory");
        assert!(expectation(Some("zz")).is_err());
    }
}
