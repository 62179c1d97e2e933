//! Inputs: host files that were copied in, by destination, size and digest.
//!
//! A later copy to the same place is a further record, not a change of the first. No file's bytes are stored.
use crate::column::{Whole, blob, instant, micros, name_or_none, whole};
use crate::fault::Fault;
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::{InputRecord, WsPath};
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};

/// Adds the files of one batch.
pub(crate) fn add(
    connection: &Connection,
    workspace: &WorkspaceId,
    inputs: &[InputRecord],
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO input (workspace, source, destination, size_bytes, sha256, recorded_at, job) \
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )?;
    for input in inputs {
        statement.execute(params![
            workspace.as_str(),
            input.source.as_bytes(),
            input.destination.as_bytes(),
            Whole(input.size_bytes),
            input.sha256.as_bytes(),
            micros(input.recorded_at),
            input.job.as_ref().map(JobId::as_str),
        ])?;
    }
    Ok(())
}

/// Lists a workspace's inputs in the order in which they landed.
pub(crate) fn list(
    connection: &Connection,
    workspace: &WorkspaceId,
) -> Result<Vec<InputRecord>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT source, destination, size_bytes, sha256, recorded_at, job \
         FROM input WHERE workspace = ? ORDER BY ordinal",
    )?;
    let rows = statement.query_map([workspace.as_str()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<InputRecord> {
    Ok(InputRecord {
        source: blob(row, 0)?,
        destination: path(row, 1)?,
        size_bytes: whole(row, 2)?,
        sha256: Digest::new(row.get(3)?),
        recorded_at: instant(row, 4)?,
        job: name_or_none(row, 5)?,
    })
}

fn path(row: &Row<'_>, column: usize) -> rusqlite::Result<WsPath> {
    WsPath::parse(blob(row, column)?.as_bytes()).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Blob, error.into())
    })
}
