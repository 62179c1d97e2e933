//! Declared outputs: the declaration, what became of it, and the last export.
//!
//! A name is taken for the workspace's life; an export may be repeated, and only what was not exported is given up.
//! The bytes themselves are on the host, not here.
use crate::column::{Json, blob, json_or_none, name};
use crate::fault::Fault;
use bailiwick_contract::artifact::{
    ArtifactDeclaration, ArtifactExport, ArtifactRecord, Retention,
};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::id::{JobId, WorkspaceId};
use rusqlite::{Connection, OptionalExtension, Row, params};

const fn retention_name(retention: Retention) -> &'static str {
    match retention {
        Retention::Declared => "declared",
        Retention::Exported => "exported",
        Retention::Discarded => "discarded",
    }
}

/// Adds a declaration under a name that its workspace does not have.
pub(crate) fn declare(
    connection: &Connection,
    workspace: &WorkspaceId,
    job: &JobId,
    declaration: &ArtifactDeclaration,
) -> Result<(), Fault> {
    let artifact = &declaration.name;
    if let Some(retention) = retention(connection, workspace, artifact)? {
        return Err(Fault::Conflict(format!(
            "workspace `{workspace}` already has an artifact `{}`, which is {}",
            shown(artifact),
            retention_name(retention)
        )));
    }
    connection
        .prepare_cached(
            "INSERT INTO artifact (workspace, name, purpose, media_type, job, retention) \
             VALUES (?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            workspace.as_str(),
            artifact.as_bytes(),
            declaration.purpose.as_bytes(),
            declaration.media_type,
            job.as_str(),
            retention_name(Retention::Declared),
        ])?;
    Ok(())
}

/// Records an export of an artifact that was not given up.
pub(crate) fn export(
    connection: &Connection,
    workspace: &WorkspaceId,
    artifact: &ByteString,
    export: &ArtifactExport,
) -> Result<(), Fault> {
    let open = [Retention::Declared, Retention::Exported];
    settle(connection, workspace, artifact, &open, Retention::Exported)?;
    connection
        .prepare_cached("UPDATE artifact SET export = ? WHERE workspace = ? AND name = ?")?
        .execute(params![Json(export), workspace.as_str(), artifact.as_bytes()])?;
    Ok(())
}

/// Gives up an artifact that was not exported.
pub(crate) fn discard(
    connection: &Connection,
    workspace: &WorkspaceId,
    artifact: &ByteString,
) -> Result<(), Fault> {
    settle(connection, workspace, artifact, &[Retention::Declared], Retention::Discarded)
}

fn settle(
    connection: &Connection,
    workspace: &WorkspaceId,
    artifact: &ByteString,
    from: &[Retention],
    to: Retention,
) -> Result<(), Fault> {
    let Some(now) = retention(connection, workspace, artifact)? else {
        let artifact = shown(artifact);
        return Err(Fault::Conflict(format!(
            "workspace `{workspace}` has no artifact `{artifact}`"
        )));
    };
    if !from.contains(&now) {
        return Err(Fault::Conflict(format!(
            "artifact `{}` of workspace `{workspace}` is already {}",
            shown(artifact),
            retention_name(now)
        )));
    }
    connection
        .prepare_cached("UPDATE artifact SET retention = ? WHERE workspace = ? AND name = ?")?
        .execute(params![retention_name(to), workspace.as_str(), artifact.as_bytes()])?;
    Ok(())
}

fn retention(
    connection: &Connection,
    workspace: &WorkspaceId,
    artifact: &ByteString,
) -> Result<Option<Retention>, Fault> {
    Ok(connection
        .prepare_cached("SELECT retention FROM artifact WHERE workspace = ? AND name = ?")?
        .query_row(params![workspace.as_str(), artifact.as_bytes()], |row| name(row, 0))
        .optional()?)
}

fn shown(artifact: &ByteString) -> String {
    artifact.to_text().chars().flat_map(char::escape_debug).collect()
}

/// Lists a workspace's artifacts in the order of their declaration.
pub(crate) fn list(
    connection: &Connection,
    workspace: &WorkspaceId,
) -> Result<Vec<ArtifactRecord>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT name, purpose, media_type, job, retention, export \
         FROM artifact WHERE workspace = ? ORDER BY ordinal",
    )?;
    let rows = statement.query_map([workspace.as_str()], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn read(row: &Row<'_>) -> rusqlite::Result<ArtifactRecord> {
    let declaration = ArtifactDeclaration {
        name: blob(row, 0)?,
        purpose: blob(row, 1)?,
        media_type: row.get(2)?,
    };
    Ok(ArtifactRecord {
        declaration,
        job: name(row, 3)?,
        retention: name(row, 4)?,
        export: json_or_none(row, 5)?,
    })
}
