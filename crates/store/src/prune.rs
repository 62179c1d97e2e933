//! What is left of a tombstone that was pruned: the workspace's row, and the ids of its jobs.
//!
//! The rows of its jobs, artifacts and inputs go, while the log, which is bound by hashes, stays as it is. Which
//! tombstones are old enough is not asked here.
use crate::column::{micros, name};
use crate::fault::Fault;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

/// Removes what a destroyed workspace has beside its own row.
pub(crate) fn prune(connection: &Connection, id: &WorkspaceId, at: Timestamp) -> Result<(), Fault> {
    check(connection, id)?;
    for sql in [
        "INSERT INTO pruned_job (id, workspace) SELECT id, workspace FROM job WHERE workspace = ?",
        "DELETE FROM artifact WHERE workspace = ?",
        "DELETE FROM input WHERE workspace = ?",
        "DELETE FROM job WHERE workspace = ?",
    ] {
        connection.prepare_cached(sql)?.execute([id.as_str()])?;
    }
    connection
        .prepare_cached("UPDATE workspace SET pruned_at = ? WHERE id = ?")?
        .execute(params![micros(at), id.as_str()])?;
    Ok(())
}

/// Refuses what is no tombstone, or not any more, or still has something to settle.
fn check(connection: &Connection, id: &WorkspaceId) -> Result<(), Fault> {
    let found: Option<(WorkspaceState, bool, bool)> = connection
        .prepare_cached(
            "SELECT state, pruned_at IS NOT NULL, EXISTS (SELECT 1 FROM intent WHERE workspace = ?1) \
             FROM workspace WHERE id = ?1",
        )?
        .query_row([id.as_str()], |row| Ok((name(row, 0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let why = match found {
        None => return Err(Fault::Conflict(format!("there is no workspace `{id}`"))),
        Some((WorkspaceState::Destroyed, false, false)) => return Ok(()),
        Some((WorkspaceState::Destroyed, true, _)) => "was pruned before".into(),
        Some((WorkspaceState::Destroyed, false, true)) => "has an open intent".into(),
        Some((state, ..)) => format!("is {state}, and only a destroyed one can be pruned"),
    };
    Err(Fault::Conflict(format!("workspace `{id}` {why}")))
}

/// Finds the workspace of a job that was pruned with it.
pub(crate) fn workspace_of(
    connection: &Connection,
    id: &JobId,
) -> Result<Option<WorkspaceId>, Fault> {
    Ok(connection
        .prepare_cached("SELECT workspace FROM pruned_job WHERE id = ?")?
        .query_row([id.as_str()], |row| name(row, 0))
        .optional()?)
}
