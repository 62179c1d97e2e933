//! The append-only log: one stream a workspace, each row bound to the one before it.
//!
//! `prev_hash` of a stream's first row is 32 zero bytes; of any other row it is SHA-256 over the row before it:
//! `prev_hash` (32 bytes), `seq` and `ts` (8 bytes each, little-endian), then `stream`, `kind` and `body`, each as its
//! length in bytes (8 bytes, little-endian) followed by the bytes. `seq` counts from 1 without gaps; `body` is the JSON
//! of the [`Change`](bailiwick_contract::journal::Change), as it was written. The chain shows that a row was changed,
//! put in or taken out; that rows at the end are gone, or that all of it was made anew, it cannot show.
//!
//! A stream's name is a workspace's id, which holds no `/`; other kinds of stream will have one.
use crate::column::{Whole, instant, micros, whole};
use crate::fault::Fault;
use bailiwick_contract::journal::Entry;
use bailiwick_contract::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The length of a SHA-256 digest.
type Hash = [u8; 32];

/// One row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// The stream: for a journal, the workspace's id.
    pub stream: String,
    /// The place in the stream, from 1.
    pub seq: u64,
    /// When.
    pub ts: Timestamp,
    /// The name of the change.
    pub kind: String,
    /// The change, as JSON.
    pub body: String,
}

/// A row with its link to the one before.
struct Link {
    row: LogRow,
    prev_hash: Hash,
}

impl Link {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { row: read_row(row)?, prev_hash: row.get(5)? })
    }

    fn hash(&self) -> Hash {
        let LogRow { stream, seq, ts, kind, body } = &self.row;
        let mut sha256 = Sha256::new();
        sha256.update(self.prev_hash);
        sha256.update(seq.to_le_bytes());
        sha256.update(ts.as_micros().to_le_bytes());
        for text in [stream, kind, body] {
            sha256.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
            sha256.update(text);
        }
        sha256.finalize().into()
    }
}

/// Where a stream goes on.
#[derive(Clone, Copy)]
struct End {
    seq: u64,
    prev_hash: Hash,
}

impl End {
    const NEW: Self = Self { seq: 1, prev_hash: [0; 32] };

    fn after(link: &Link) -> Self {
        Self { seq: link.row.seq + 1, prev_hash: link.hash() }
    }
}

/// Writes the rows of one transaction; it reads the end of each stream once.
pub(crate) struct LogWriter<'a> {
    connection: &'a Connection,
    ends: BTreeMap<String, End>,
}

impl<'a> LogWriter<'a> {
    pub(crate) const fn new(connection: &'a Connection) -> Self {
        Self { connection, ends: BTreeMap::new() }
    }

    /// Writes the row of `entry`, whose change has the JSON form `body`, and returns its sequence number.
    pub(crate) fn write(&mut self, entry: &Entry, body: String) -> Result<u64, Fault> {
        let stream = entry.workspace.as_str();
        let End { seq, prev_hash } = match self.ends.get(stream) {
            Some(end) => *end,
            None => end_of(self.connection, stream)?,
        };
        let kind = entry.change.kind();
        self.connection
            .prepare_cached(
                "INSERT INTO log (stream, seq, ts, kind, body, prev_hash) VALUES (?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![stream, Whole(seq), micros(entry.at), kind, body, prev_hash])?;
        let row = LogRow { stream: stream.into(), seq, ts: entry.at, kind: kind.into(), body };
        self.ends.insert(stream.into(), End::after(&Link { row, prev_hash }));
        Ok(seq)
    }
}

fn end_of(connection: &Connection, stream: &str) -> Result<End, Fault> {
    let last = connection
        .prepare_cached(
            "SELECT stream, seq, ts, kind, body, prev_hash FROM log \
             WHERE stream = ? ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([stream], Link::read)
        .optional()?;
    Ok(last.as_ref().map_or(End::NEW, End::after))
}

/// Reads at most `limit` rows of a stream, from the one after `after` on.
pub(crate) fn rows(
    connection: &Connection,
    stream: &str,
    after: u64,
    limit: u64,
) -> Result<Vec<LogRow>, Fault> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(
        "SELECT stream, seq, ts, kind, body FROM log \
         WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?",
    )?;
    let rows = statement.query_map(params![stream, Whole(after), limit], read_row)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    Ok(LogRow {
        stream: row.get(0)?,
        seq: whole(row, 1)?,
        ts: instant(row, 2)?,
        kind: row.get(3)?,
        body: row.get(4)?,
    })
}

/// Follows a stream's chain from its first row to its last, and returns how many rows there are.
pub(crate) fn verify(connection: &Connection, stream: &str) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT stream, seq, ts, kind, body, prev_hash FROM log WHERE stream = ? ORDER BY seq",
    )?;
    let mut end = End::NEW;
    for link in statement.query_map([stream], Link::read)? {
        let link = link?;
        if link.row.seq != end.seq || link.prev_hash != end.prev_hash {
            let (found, wanted) = (link.row.seq, end.seq);
            return Err(Fault::Damaged(format!(
                "row {found} of the log of `{stream}` does not follow from the row before it \
                 (row {wanted} was expected)"
            )));
        }
        end = End::after(&link);
    }
    Ok(end.seq - 1)
}
