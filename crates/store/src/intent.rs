//! Intents that are open: what a verb began and nobody has closed yet.
//!
//! Closing one removes it, so reading them costs as much as there is to reconcile; how it was closed is in the log.
//! Whether an id was open before is not asked: ids are minted from randomness.
use crate::column::{Json, instant, json, micros, name, name_or_none};
use crate::fault::Fault;
use bailiwick_contract::id::{IntentId, JobId, WorkspaceId};
use bailiwick_contract::record::OpenIntent;
use rusqlite::{Connection, Row, params};

/// Opens an intent.
pub(crate) fn open(connection: &Connection, record: &OpenIntent) -> Result<(), Fault> {
    let added = connection
        .prepare_cached(
            "INSERT INTO intent (id, kind, workspace, job, detail, opened_at) \
             SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM intent WHERE id = ?1)",
        )?
        .execute(params![
            record.id.as_str(),
            record.kind.name(),
            record.workspace.as_str(),
            record.job.as_ref().map(JobId::as_str),
            Json(&record.detail),
            micros(record.opened_at),
        ])?;
    if added == 0 {
        return Err(Fault::Conflict(format!("intent `{}` is open already", record.id)));
    }
    Ok(())
}

/// Closes an open intent.
pub(crate) fn close(
    connection: &Connection,
    workspace: &WorkspaceId,
    intent: &IntentId,
) -> Result<(), Fault> {
    let removed = connection
        .prepare_cached("DELETE FROM intent WHERE id = ? AND workspace = ?")?
        .execute([intent.as_str(), workspace.as_str()])?;
    if removed == 0 {
        return Err(Fault::Conflict(format!(
            "workspace `{workspace}` has no open intent `{intent}`; another verb closed it"
        )));
    }
    Ok(())
}

/// Lists open intents, oldest first: of one workspace, or of all.
pub(crate) fn list(
    connection: &Connection,
    workspace: Option<&WorkspaceId>,
) -> Result<Vec<OpenIntent>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, kind, workspace, job, detail, opened_at FROM intent \
         WHERE ?1 IS NULL OR workspace = ?1 ORDER BY ordinal",
    )?;
    let rows = statement.query_map([workspace.map(WorkspaceId::as_str)], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<OpenIntent> {
    Ok(OpenIntent {
        id: name(row, 0)?,
        kind: name(row, 1)?,
        workspace: name(row, 2)?,
        job: name_or_none(row, 3)?,
        detail: json(row, 4)?,
        opened_at: instant(row, 5)?,
    })
}
