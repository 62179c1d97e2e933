//! The files in a job's directory: what it does, when it was let go, who stopped it, what came of it.
//!
//! Each is written beside its name and renamed, so that a reader sees all of it or nothing. Whoever stops or settles a job holds
//! the lock of its record meanwhile: two processes never come to two verdicts.
use super::course::{Stop, Work};
use crate::native::home::make_private;
use bailiwick_contract::job::JobOutcome;
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::disk;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What the job does.
const WORK: &str = "work";
/// When it was let go.
const STARTED: &str = "started";
/// That it was asked to end.
const STOP: &str = "stop";
/// How its end leaves its workspace's disk, before it does.
const LANDING: &str = "landing";
/// What came of it.
const OUTCOME: &str = "outcome";

/// A job's directory.
#[derive(Debug, Clone)]
pub(super) struct JobDir(PathBuf);

/// What a job's end does to the disk: decided once, so that doing it again changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Landing {
    /// How many of its entries fit.
    pub(super) entries: usize,
    /// Whether one did not.
    pub(super) over_storage: bool,
    pub(super) over_inodes: bool,
}

impl JobDir {
    pub(super) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// The job's id, which names it.
    pub(super) fn name(&self) -> &str {
        self.0.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default()
    }

    /// Makes it.
    pub(super) fn make(&self) -> io::Result<()> {
        make_private(&self.0)
    }

    /// Removes it. What the job does goes first: of the rest, nobody could make an end that happens a second time.
    pub(super) fn remove(&self) -> io::Result<()> {
        match fs::remove_file(self.0.join(WORK)) {
            Err(error) if !is_absent(&error) => Err(error),
            _ => disk::remove(&self.0),
        }
    }

    pub(super) fn set_work(&self, work: &Work) -> io::Result<()> {
        self.write(WORK, work)
    }

    /// What the job does; `None` where there is no such job, or what is there is no record.
    pub(super) fn work(&self) -> io::Result<Option<Work>> {
        self.read(WORK)
    }

    pub(super) fn set_started(&self, at: Timestamp) -> io::Result<()> {
        self.write(STARTED, &at)
    }

    pub(super) fn started(&self) -> io::Result<Option<Timestamp>> {
        self.read(STARTED)
    }

    /// Notes that the job is asked to end.
    pub(super) fn set_stop(&self, stop: Stop) -> io::Result<()> {
        self.write(STOP, &stop.after(self.stop()?))
    }

    pub(super) fn stop(&self) -> io::Result<Option<Stop>> {
        self.read(STOP)
    }

    pub(super) fn set_landing(&self, landing: Landing) -> io::Result<()> {
        self.write(LANDING, &landing)
    }

    pub(super) fn landing(&self) -> io::Result<Option<Landing>> {
        self.read(LANDING)
    }

    pub(super) fn set_outcome(&self, outcome: &JobOutcome) -> io::Result<()> {
        self.write(OUTCOME, outcome)
    }

    pub(super) fn outcome(&self) -> io::Result<Option<JobOutcome>> {
        self.read(OUTCOME)
    }

    /// Waits for the lock of the record, which others hold only for moments; `None` where there is no record.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        let file = match File::open(self.0.join(WORK)) {
            Err(error) if is_absent(&error) => return Ok(None),
            other => other?,
        };
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.map(|()| Some(file)).map_err(io::Error::from),
            }
        }
    }

    fn write<T: Serialize>(&self, name: &str, value: &T) -> io::Result<()> {
        write_private(&self.0.join(name), &serde_json::to_vec(value)?)
    }

    /// What is damaged, as after a power cut, says nothing.
    fn read<T: DeserializeOwned>(&self, name: &str) -> io::Result<Option<T>> {
        match fs::read(self.0.join(name)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether an error says that there is nothing.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Writes a file of its owner's, all of it or nothing.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One writer at a time: the lock of the record, or the directory is not yet known to others.
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&draft)?;
    file.write_all(bytes)?;
    fs::rename(&draft, path)
}
