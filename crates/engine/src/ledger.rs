//! What a copy-in takes from its sources: each file's size and digest, as they were read, and the room that is left.
//!
//! Sources and the gate share one ledger. A source is read once, so that the digest on record is of the very bytes that
//! landed, and a file that changes meanwhile is what it was when it was read.
use crate::text::printable;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::JobId;
use bailiwick_contract::input::{InputRecord, WsPath};
use bailiwick_contract::provider::EntrySource;
use bailiwick_contract::time::Timestamp;
use core::cell::RefCell;
use std::rc::Rc;

/// What an input may bring along; more is refused, where its size is known before a byte is copied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Bytes that the workspace's budget has left.
    pub bytes: u64,
    /// Entries that it has left.
    pub entries: u64,
}

impl Room {
    /// Refuses what does not fit.
    pub(crate) fn check(self, bytes: u64, entries: u64) -> Result<(), Failure> {
        if bytes <= self.bytes && entries <= self.entries {
            return Ok(());
        }
        Err(Failure::new(
            ExitCode::PolicyDenied,
            "inputs_over_storage",
            format!(
                "the inputs are at least {bytes} bytes in {entries} entries, and the storage budget has room for {} \
                 bytes in {}",
                self.bytes, self.entries
            ),
            "copy less in, or create a workspace with a larger --storage-bytes",
        ))
    }
}

/// A file that was read to its end.
#[derive(Debug)]
struct Taken {
    source: ByteString,
    destination: WsPath,
    size_bytes: u64,
    sha256: Digest,
}

#[derive(Debug)]
struct Inner {
    room: Room,
    bytes: u64,
    links: u64,
    directories: u64,
    ignored: u64,
    files: Vec<Taken>,
    refusal: Option<Failure>,
}

/// The account of one batch, shared by its sources, its gate and its verb.
#[derive(Debug, Clone)]
pub(crate) struct Ledger(Rc<RefCell<Inner>>);

impl Ledger {
    pub(crate) fn new(room: Room) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            room,
            bytes: 0,
            links: 0,
            directories: 0,
            ignored: 0,
            files: Vec::new(),
            refusal: None,
        })))
    }

    pub(crate) fn room(&self) -> Room {
        self.0.borrow().room
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.borrow().bytes
    }

    /// Counts bytes that were read, and refuses those that the budget has no room for.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), Failure> {
        let mut inner = self.0.borrow_mut();
        inner.bytes = inner.bytes.saturating_add(bytes as u64);
        if inner.bytes > inner.room.bytes { inner.room.check(inner.bytes, 0) } else { Ok(()) }
    }

    /// Counts a directory.
    pub(crate) fn directory(&self) {
        self.0.borrow_mut().directories += 1;
    }

    /// Counts a link.
    pub(crate) fn link(&self) {
        self.0.borrow_mut().links += 1;
    }

    /// Counts something that an ignore file named, with all that is in it.
    pub(crate) fn ignore(&self) {
        self.0.borrow_mut().ignored += 1;
    }

    /// Notes a file that was read to its end.
    pub(crate) fn file(
        &self,
        source: ByteString,
        destination: WsPath,
        size_bytes: u64,
        sha256: Digest,
    ) {
        let taken = Taken { source, destination, size_bytes, sha256 };
        self.0.borrow_mut().files.push(taken);
    }

    /// Notes why the batch ended before its end; the gate then refuses.
    pub(crate) fn refuse(&self, failure: Failure) {
        self.0.borrow_mut().refusal.get_or_insert(failure);
    }

    /// Returns why nothing may land, if something speaks against it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.0.borrow().refusal.clone().map_or(Ok(()), Err)
    }

    /// Returns the record of each file, in the order of their destinations.
    pub(crate) fn records(&self, at: Timestamp, job: Option<&JobId>) -> Vec<InputRecord> {
        let record = |file: &Taken| InputRecord {
            source: file.source.clone(),
            destination: file.destination.clone(),
            size_bytes: file.size_bytes,
            sha256: file.sha256,
            recorded_at: at,
            job: job.cloned(),
        };
        let mut records: Vec<InputRecord> = self.0.borrow().files.iter().map(record).collect();
        records.sort_by(|a, b| a.destination.cmp(&b.destination));
        records
    }

    /// Returns the findings about what is no file.
    pub(crate) fn findings(&self, ignored_by: Option<&[u8]>) -> Vec<String> {
        let inner = self.0.borrow();
        let mut findings = Vec::new();
        if inner.links > 0 {
            findings.push(format!("{} symbolic link(s) were copied in as links", inner.links));
        }
        if inner.files.is_empty() && inner.directories > 0 {
            findings.push(format!("{} director(ies) were made, and no file", inner.directories));
        }
        if let Some(path) = ignored_by {
            let shown = printable(path);
            findings.push(format!("{} entr(ies) were left out as {shown} says", inner.ignored));
        }
        findings
    }
}

/// A batch on its way to a provider, and its account.
pub(crate) struct Delivery {
    pub(crate) entries: Box<dyn Iterator<Item = Box<dyn EntrySource>>>,
    pub(crate) ledger: Ledger,
}
