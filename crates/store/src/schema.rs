//! What version the database has, and how it gets to the one that this program writes.
//!
//! `PRAGMA user_version` is major × 1000 + minor, so that 1000 is schema 1.0. A newer minor version is used as it is:
//! it only adds. A newer major one is refused before anything is written. An older one is copied beside the database
//! (`state.db.<schema>-<microseconds>.backup`) and migrated in one transaction; nothing ever goes back.
use crate::fault::{BUSY_MAX, Fault};
use crate::home::Home;
use crate::lock::WriteLock;
use bailiwick_contract::store::StoreError;
use bailiwick_contract::time::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// One step; `to` is the version that the database has after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    to: u32,
    sql: &'static str,
}

/// All steps, oldest first; one is never changed after a release.
pub(crate) const MIGRATIONS: &[Migration] = &[
    Migration { to: 1_000, sql: include_str!("../migrations/0001_log.sql") },
    Migration { to: 1_000, sql: include_str!("../migrations/0002_workspace.sql") },
    Migration { to: 1_000, sql: include_str!("../migrations/0003_job.sql") },
    Migration { to: 1_000, sql: include_str!("../migrations/0004_artifact.sql") },
    Migration { to: 1_000, sql: include_str!("../migrations/0005_input.sql") },
    Migration { to: 1_000, sql: include_str!("../migrations/0006_intent.sql") },
    Migration { to: 1_001, sql: include_str!("../migrations/0007_about.sql") },
    Migration { to: 1_001, sql: include_str!("../migrations/0008_pruned.sql") },
];

/// The version of the schema that this program writes.
pub const SCHEMA: &str = "1.1";

/// Minor versions of a major one.
const MINORS: u32 = 1_000;
/// `bail`, in the header of our databases (file(1) and sqlite.org/fileformat.html, offset 68).
const APPLICATION_ID: i32 = 0x6261_696c;
/// Every statement of the crate fits, so that each is prepared once a connection.
const STATEMENTS: usize = 48;
/// SQLite takes a file of one byte for an empty one (`unixFileSize` in os_unix.c) and would begin it anew.
const EMPTY_BYTES_MAX: u64 = 1;

fn shown(version: u32) -> String {
    format!("{}.{}", version / MINORS, version % MINORS)
}

/// Opens the database at the newest version of `migrations`, and makes it where there is none.
pub(crate) fn connect(
    home: &Home,
    lock: &WriteLock,
    migrations: &[Migration],
    now: Timestamp,
) -> Result<Connection, StoreError> {
    if home.database_bytes()?.unwrap_or(0) <= EMPTY_BYTES_MAX {
        found(home, lock)?;
    }
    let database = home.database();
    let at = |fault: Fault| fault.at(&database, "opening the state");
    let mut connection = dial(&database).map_err(at)?;
    let known = migrations.last().map_or(0, |last| last.to);
    let version = version(&connection).map_err(at)?;
    if version / MINORS > known / MINORS {
        leave(home, &connection)?;
        let path = database.display().to_string();
        return Err(StoreError::Newer { path, found: shown(version), known: shown(known) });
    }
    if version < known {
        let _guard = lock.acquire(home)?;
        upgrade(home, &mut connection, migrations, now)?;
    }
    Ok(connection)
}

/// Makes the empty file; the lock keeps two processes from taking each other's beginning for damage.
fn found(home: &Home, lock: &WriteLock) -> Result<(), StoreError> {
    let _guard = lock.acquire(home)?;
    let damaged = |why: &str| {
        let path = home.database().display().to_string();
        Err(StoreError::Damaged { path, why: why.into() })
    };
    match home.database_bytes()? {
        None => home.create_database(),
        // SQLite would delete the log of an empty database, and with it all that there is.
        Some(0) if home.database_log_bytes()?.unwrap_or(0) > 0 => {
            damaged("it is empty, but its write-ahead log is not")
        }
        Some(EMPTY_BYTES_MAX) => damaged("it is one byte long"),
        Some(_) => Ok(()),
    }
}

/// Opens a connection without reading the file.
///
/// `synchronous=FULL` is SQLite's default, and WAL mode is the file's. Without a checkpoint on close the log stays
/// where it is, so that the file control for a persistent WAL has nothing left to do.
fn dial(database: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FKEY, true)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(BUSY_MAX)?;
    // 64 pages: the next first connection rebuilds SQLite's index in 0.2 ms; 1000 pages cost it 1 ms.
    connection.query_row("PRAGMA wal_autocheckpoint = 64", [], |_| Ok(()))?;
    Ok(connection)
}

fn version(connection: &Connection) -> Result<u32, Fault> {
    Ok(connection.query_row("PRAGMA user_version", [], |row| row.get(0))?)
}

/// Has SQLite take away the files that our look at the database made, but never one that held anything.
fn leave(home: &Home, connection: &Connection) -> Result<(), StoreError> {
    if home.database_log_bytes()? == Some(0) {
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(|error| Fault::from(error).at(&home.database(), "closing the state"))?;
    }
    Ok(())
}

/// Brings the database to the newest version; the caller holds the write lock.
fn upgrade(
    home: &Home,
    connection: &mut Connection,
    migrations: &[Migration],
    now: Timestamp,
) -> Result<(), StoreError> {
    let database = home.database();
    let at = |fault: Fault| fault.at(&database, "migrating the state");
    let known = migrations.last().map_or(0, |last| last.to);
    let version = version(connection).map_err(at)?;
    if version >= known {
        return Ok(()); // another process was quicker
    }
    check_ours(connection, version).map_err(at)?;
    match version {
        0 => set_wal(connection).map_err(at)?,
        _ => back_up(home, connection, version, now)?,
    }
    migrate(connection, migrations, version, now).map_err(at)
}

/// Refuses a database that some other program made.
fn check_ours(connection: &Connection, version: u32) -> Result<(), Fault> {
    let ours = if version == 0 {
        connection.query_row("SELECT NOT EXISTS (SELECT 1 FROM sqlite_schema)", [], |r| r.get(0))?
    } else {
        connection.query_row("PRAGMA application_id", [], |row| row.get::<_, i32>(0))?
            == APPLICATION_ID
    };
    if ours { Ok(()) } else { Err(Fault::Damaged("it is another program's database".into())) }
}

/// Makes WAL the file's mode, once for all connections.
fn set_wal(connection: &Connection) -> Result<(), Fault> {
    Ok(connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?)
}

/// Copies the database beside itself, log and all.
fn back_up(
    home: &Home,
    connection: &Connection,
    version: u32,
    now: Timestamp,
) -> Result<(), StoreError> {
    let name = format!("state.db.{}-{}.backup", shown(version), now.as_micros());
    let path = home.path().join(&name);
    home.create_empty(&name)?;
    let target = ToSqlOutput::Borrowed(ValueRef::Text(path.as_os_str().as_bytes()));
    let copied = connection.execute("VACUUM INTO ?", params![target]);
    copied.map(drop).map_err(|error| {
        // Half a backup is worse than none; that it cannot be removed says no more than `error` does.
        drop(std::fs::remove_file(&path));
        Fault::from(error).at(&path, "backing up the state")
    })
}

fn migrate(
    connection: &mut Connection,
    migrations: &[Migration],
    from: u32,
    now: Timestamp,
) -> Result<(), Fault> {
    let known = migrations.last().map_or(0, |last| last.to);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for step in migrations.iter().filter(|step| step.to > from) {
        transaction.execute_batch(step.sql)?;
    }
    transaction.execute(
        "INSERT INTO meta (id, schema, created_at) VALUES (1, ?, ?) \
         ON CONFLICT (id) DO UPDATE SET schema = excluded.schema",
        params![shown(known), now.as_micros().cast_signed()],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

/// Has SQLite look at every page, and stop at the first one that is malformed.
pub(crate) fn check(connection: &Connection) -> Result<(), Fault> {
    let found: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if found == "ok" { Ok(()) } else { Err(Fault::Damaged(found)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::WAIT_MAX;

    const NOW: Timestamp = Timestamp::from_micros(7);
    const FIRST: Migration =
        Migration { to: 1_000, sql: include_str!("../migrations/0001_log.sql") };
    const MINOR: Migration = Migration {
        to: 1_001,
        sql: "CREATE TABLE extra (n INTEGER) STRICT; INSERT INTO extra VALUES (1)",
    };
    const BROKEN: Migration =
        Migration { to: 1_002, sql: "CREATE TABLE half (n INTEGER) STRICT; SELECT * FROM nothing" };

    fn home() -> (tempfile::TempDir, Home) {
        let scratch = tempfile::tempdir().expect("a directory");
        let home = Home::open(scratch.path()).expect("opens");
        (scratch, home)
    }

    fn connect_with(home: &Home, migrations: &[Migration]) -> Result<Connection, StoreError> {
        connect(home, &WriteLock::new(WAIT_MAX), migrations, NOW)
    }

    fn text(connection: &Connection, sql: &str) -> String {
        connection
            .query_row(sql, [], |row| {
                row.get_ref(0)?
                    .as_str()
                    .map(String::from)
                    .or_else(|_| Ok(row.get::<_, i64>(0)?.to_string()))
            })
            .expect(sql)
    }

    fn names(home: &Home) -> Vec<String> {
        let entries = std::fs::read_dir(home.path()).expect("there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_schema_is_that_of_the_last_migration() {
        assert_eq!(shown(MIGRATIONS.last().expect("a migration").to), SCHEMA);
    }

    #[test]
    fn a_connection_is_set_up_as_it_was_measured() {
        let (_scratch, home) = home();
        drop(connect_with(&home, MIGRATIONS).expect("makes it"));
        let connection = connect_with(&home, MIGRATIONS).expect("opens it");
        let pragmas = [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("foreign_keys", "1"),
            ("trusted_schema", "0"),
            ("wal_autocheckpoint", "64"),
            ("user_version", "1001"),
        ];
        for (pragma, value) in pragmas {
            assert_eq!(text(&connection, &format!("PRAGMA {pragma}")), value, "{pragma}");
        }
        assert_eq!(text(&connection, "SELECT schema FROM meta"), SCHEMA);
    }

    #[test]
    fn an_older_minor_version_is_backed_up_and_migrated() {
        let (_scratch, home) = home();
        drop(connect_with(&home, &[FIRST]).expect("makes it"));
        let connection = connect_with(&home, &[FIRST, MINOR]).expect("migrates it");
        assert_eq!(text(&connection, "PRAGMA user_version"), "1001");
        assert_eq!(text(&connection, "SELECT schema || created_at FROM meta"), "1.17");
        assert_eq!(text(&connection, "SELECT n FROM extra"), "1");
        let backup = Connection::open(home.path().join("state.db.1.0-7.backup")).expect("there");
        assert_eq!(text(&backup, "PRAGMA user_version"), "1000");
        assert_eq!(text(&backup, "PRAGMA integrity_check"), "ok");
    }

    #[test]
    fn a_newer_minor_version_is_used_as_it_is() {
        let (_scratch, home) = home();
        drop(connect_with(&home, &[FIRST, MINOR]).expect("makes it"));
        let connection = connect_with(&home, &[FIRST]).expect("opens it");
        assert_eq!(text(&connection, "PRAGMA user_version"), "1001");
        assert!(names(&home).iter().all(|name| !name.ends_with(".backup")));
    }

    #[test]
    fn a_migration_that_fails_leaves_the_old_version() {
        let (_scratch, home) = home();
        drop(connect_with(&home, &[FIRST]).expect("makes it"));
        connect_with(&home, &[FIRST, MINOR, BROKEN]).expect_err("cannot migrate");
        let connection = connect_with(&home, &[FIRST]).expect("opens it");
        assert_eq!(text(&connection, "PRAGMA user_version"), "1000");
        let tables = "SELECT count(*) FROM sqlite_schema WHERE name IN ('extra', 'half')";
        assert_eq!(text(&connection, tables), "0");
    }

    #[test]
    fn migrations_never_go_back() {
        assert!(MIGRATIONS.is_sorted_by_key(|step| step.to));
    }
}
