//! Workspaces: their records, their moves, and what stays of them.
//!
//! A move happens from the state that the caller saw or not at all; which moves there are is the contract's to say.
//! Rows stay for good, since an id is never used again; one that was pruned is found by its id only.
use crate::column::{Json, instant, instant_or_none, json, json_or_none, micros, name};
use crate::fault::Fault;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::record::{About, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::WorkspaceFilter;
use bailiwick_contract::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// Adds a workspace under an id that was never used.
pub(crate) fn add(connection: &Connection, record: &WorkspaceRecord) -> Result<(), Fault> {
    if let Some(state) = state(connection, &record.id)? {
        let id = &record.id;
        return Err(Fault::Conflict(format!(
            "workspace id `{id}` is taken: there is a workspace of that name, and it is {state}"
        )));
    }
    connection
        .prepare_cached(
            "INSERT INTO workspace \
             (id, state, provider, profile, image_digest, policy, created_at, updated_at, about, \
             pruned_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute(params![
            record.id.as_str(),
            record.state.name(),
            record.provider.name(),
            record.profile,
            record.image_digest,
            Json(&record.policy),
            micros(record.created_at),
            micros(record.updated_at),
            (record.about != About::default()).then_some(Json(&record.about)),
            record.pruned_at.map(micros),
        ])?;
    Ok(())
}

/// Moves a workspace from one state to the next.
pub(crate) fn advance(
    connection: &Connection,
    id: &WorkspaceId,
    at: Timestamp,
    from: WorkspaceState,
    to: WorkspaceState,
) -> Result<(), Fault> {
    match state(connection, id)? {
        None => return Err(Fault::Conflict(format!("there is no workspace `{id}`"))),
        Some(now) if now != from => {
            return Err(Fault::Conflict(format!("workspace `{id}` is {now}, not {from}")));
        }
        Some(_) if !from.next().contains(&to) => {
            return Err(Fault::Conflict(format!(
                "workspace `{id}` is {from}, from which no step leads to {to}"
            )));
        }
        Some(_) => {}
    }
    connection
        .prepare_cached("UPDATE workspace SET state = ?, updated_at = ? WHERE id = ?")?
        .execute(params![to.name(), micros(at), id.as_str()])?;
    Ok(())
}

fn state(connection: &Connection, id: &WorkspaceId) -> Result<Option<WorkspaceState>, Fault> {
    Ok(connection
        .prepare_cached("SELECT state FROM workspace WHERE id = ?")?
        .query_row([id.as_str()], |row| name(row, 0))
        .optional()?)
}

/// Finds a workspace.
pub(crate) fn find(
    connection: &Connection,
    id: &WorkspaceId,
) -> Result<Option<WorkspaceRecord>, Fault> {
    Ok(connection
        .prepare_cached(
            "SELECT id, state, provider, profile, image_digest, policy, created_at, updated_at, about, \
             pruned_at FROM workspace WHERE id = ?",
        )?
        .query_row([id.as_str()], read)
        .optional()?)
}

/// What a listing wants, with its states by name.
struct Wanted<'f> {
    states: Vec<&'static str>,
    filter: &'f WorkspaceFilter,
}

/// Which rows a listing wants. A label is a pair of a key and a value, or null where any value will do.
macro_rules! conditions {
    () => {
        "pruned_at IS NULL \
         AND (?1 = '[]' OR state IN (SELECT value FROM json_each(?1))) \
         AND (?2 IS NULL OR about ->> '$.owner' = ?2) \
         AND NOT EXISTS (SELECT 1 FROM json_each(?3) AS wanted WHERE NOT EXISTS \
           (SELECT 1 FROM json_each(about, '$.labels') AS has WHERE has.key = wanted.value ->> 0 \
            AND ifnull(wanted.value ->> 1, has.value) = has.value)) \
         AND (?4 IS NULL OR about ->> '$.expires_at' <= ?4) \
         AND (?5 IS NULL OR updated_at <= ?5)"
    };
}

/// Lists workspaces, newest first, and counts all that match; both in the caller's transaction.
pub(crate) fn list(
    connection: &Connection,
    filter: &WorkspaceFilter,
) -> Result<(Vec<WorkspaceRecord>, u64), Fault> {
    let states = filter.states.iter().map(|state| state.name()).collect();
    let wanted = Wanted { states, filter };
    Ok((rows(connection, &wanted)?, count(connection, &wanted)?))
}

fn rows(connection: &Connection, wanted: &Wanted<'_>) -> Result<Vec<WorkspaceRecord>, Fault> {
    let WorkspaceFilter { owner, labels, overdue_at, unchanged_since, limit, .. } = wanted.filter;
    let mut statement = connection.prepare_cached(concat!(
        "SELECT id, state, provider, profile, image_digest, policy, created_at, updated_at, about, \
         pruned_at FROM workspace WHERE ",
        conditions!(),
        " ORDER BY ordinal DESC LIMIT ?6"
    ))?;
    let rows = statement.query_map(
        params![
            Json(&wanted.states),
            owner,
            Json(labels),
            overdue_at.map(micros),
            unchanged_since.map(micros),
            i64::try_from(*limit).unwrap_or(i64::MAX),
        ],
        read,
    )?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn count(connection: &Connection, wanted: &Wanted<'_>) -> Result<u64, Fault> {
    let WorkspaceFilter { owner, labels, overdue_at, unchanged_since, .. } = wanted.filter;
    let number: i64 = connection
        .prepare_cached(concat!("SELECT count(*) FROM workspace WHERE ", conditions!()))?
        .query_row(
            params![
                Json(&wanted.states),
                owner,
                Json(labels),
                overdue_at.map(micros),
                unchanged_since.map(micros),
            ],
            |row| row.get(0),
        )?;
    Ok(number.cast_unsigned())
}

fn read(row: &Row<'_>) -> rusqlite::Result<WorkspaceRecord> {
    Ok(WorkspaceRecord {
        id: name(row, 0)?,
        state: name(row, 1)?,
        provider: name(row, 2)?,
        profile: row.get(3)?,
        image_digest: row.get(4)?,
        policy: json(row, 5)?,
        created_at: instant(row, 6)?,
        updated_at: instant(row, 7)?,
        about: json_or_none(row, 8)?.unwrap_or_default(),
        pruned_at: instant_or_none(row, 9)?,
    })
}
