//! Jobs: what was run, and what came of it.
//!
//! A job ends once; who comes second is told how it ended. Neither a variable's value nor output is stored here.
use crate::column::{Json, instant, json, json_or_none, micros, name};
use crate::fault::Fault;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::job::JobOutcome;
use bailiwick_contract::record::JobRecord;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Adds a job under an id that was never used.
pub(crate) fn add(connection: &Connection, record: &JobRecord) -> Result<(), Fault> {
    if let Some((workspace, _)) = place(connection, &record.id)? {
        let id = &record.id;
        return Err(Fault::Conflict(format!(
            "job id `{id}` is taken: workspace `{workspace}` has a job of that name"
        )));
    }
    // One statement: each costs a process its preparation, and a job is added on the way to its start.
    let added = connection
        .prepare_cached(
            "INSERT INTO job (id, workspace, status, argv, env_names, env_files, started_at, \
             outcome, package, terms) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 \
             WHERE NOT EXISTS (SELECT 1 FROM pruned_job WHERE id = ?1)",
        )?
        .execute(params![
            record.id.as_str(),
            record.workspace.as_str(),
            record.outcome.as_ref().map(|outcome| outcome.status.name()),
            Json(&record.argv),
            Json(&record.env_names),
            Json(&record.env_files),
            micros(record.started_at),
            record.outcome.as_ref().map(Json),
            record.package,
            (!record.terms.is_plain()).then_some(Json(&record.terms)),
        ])?;
    if added == 0 {
        let id = &record.id;
        return Err(Fault::Conflict(format!(
            "job id `{id}` is taken: a workspace that was pruned had a job of that name"
        )));
    }
    Ok(())
}

/// Records what came of a job in flight.
pub(crate) fn end(
    connection: &Connection,
    workspace: &WorkspaceId,
    id: &JobId,
    outcome: &JobOutcome,
    package: Option<&str>,
) -> Result<(), Fault> {
    match place(connection, id)? {
        Some((found, None)) if found == workspace.as_str() => {}
        Some((found, Some(status))) if found == workspace.as_str() => {
            return Err(Fault::Conflict(format!("job `{id}` has already ended: {status}")));
        }
        _ => {
            return Err(Fault::Conflict(format!("workspace `{workspace}` has no job `{id}`")));
        }
    }
    connection
        .prepare_cached("UPDATE job SET status = ?, outcome = ?, package = ? WHERE id = ?")?
        .execute(params![outcome.status.name(), Json(outcome), package, id.as_str()])?;
    Ok(())
}

/// Returns a job's workspace and its status.
fn place(connection: &Connection, id: &JobId) -> Result<Option<(String, Option<String>)>, Fault> {
    Ok(connection
        .prepare_cached("SELECT workspace, status FROM job WHERE id = ?")?
        .query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Finds a job.
pub(crate) fn find(connection: &Connection, id: &JobId) -> Result<Option<JobRecord>, Fault> {
    Ok(connection
        .prepare_cached(
            "SELECT id, workspace, argv, env_names, env_files, started_at, outcome, package, terms \
             FROM job WHERE id = ?",
        )?
        .query_row([id.as_str()], read)
        .optional()?)
}

/// Lists a workspace's jobs, oldest first.
pub(crate) fn list(
    connection: &Connection,
    workspace: &WorkspaceId,
) -> Result<Vec<JobRecord>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT id, workspace, argv, env_names, env_files, started_at, outcome, package, terms \
         FROM job WHERE workspace = ? ORDER BY ordinal",
    )?;
    let rows = statement.query_map([workspace.as_str()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<JobRecord> {
    Ok(JobRecord {
        id: name(row, 0)?,
        workspace: name(row, 1)?,
        argv: json(row, 2)?,
        env_names: json(row, 3)?,
        env_files: json(row, 4)?,
        started_at: instant(row, 5)?,
        outcome: json_or_none(row, 6)?,
        package: row.get(7)?,
        terms: json_or_none(row, 8)?.unwrap_or_default(),
    })
}
