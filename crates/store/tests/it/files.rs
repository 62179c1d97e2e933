//! The files of a home: who may read them, what is refused, and that nothing is rewritten then.
use crate::fixture::*;
use bailiwick_contract::journal::Change;
use bailiwick_contract::store::{Store, StoreError, WorkspaceFilter};
use bailiwick_store::SqliteStore;
use rusqlite::Connection;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Makes a home with two appends in it.
fn used_home() -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    for batch in exec("x") {
        drop(store.append(&batch).expect("fits"));
    }
    home
}

fn contents(home: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(home).expect("there");
    let read = |entry: std::fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, std::fs::read(entry.path()).expect("readable"))
    };
    entries.map(|entry| read(entry.expect("an entry"))).collect()
}

/// Changes the database as another program would, and leaves it without a log beside it.
fn alter(home: &Path, sql: &str) {
    let connection = Connection::open(home.join("state.db")).expect("opens");
    connection.execute_batch(sql).expect("runs");
}

fn refused(home: &Path) -> StoreError {
    bailiwick_store::open(&options(home)).expect_err("refused")
}

fn list(store: &SqliteStore) -> Result<u64, StoreError> {
    let filter = WorkspaceFilter { limit: 10, ..WorkspaceFilter::default() };
    store.workspaces(&filter).map(|(_, count)| count)
}

#[test]
fn only_the_owner_reads_the_files() {
    let home = used_home();
    for name in contents(home.path()).keys() {
        let mode = std::fs::metadata(home.path().join(name)).expect("there").mode();
        assert_eq!(mode & 0o7777, 0o600, "{name}");
    }
}

#[test]
fn a_newer_major_version_is_refused_and_left_alone() {
    let home = used_home();
    alter(home.path(), "PRAGMA user_version = 2003");
    let before = contents(home.path());
    assert!(!before.contains_key("state.db-wal"), "the other program cleaned up");
    let error = refused(home.path());
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
    assert!(error.to_string().contains("schema 2.3"), "{error}");
    assert!(contents(home.path()) == before, "a file was made or changed");
}

#[test]
fn a_newer_major_version_keeps_its_log() {
    let home = used_home();
    {
        let store = Connection::open(home.path().join("state.db")).expect("opens");
        let keep = rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        store.set_db_config(keep, true).expect("sets");
        store.execute_batch("PRAGMA user_version = 2000").expect("runs");
    }
    let before = contents(home.path());
    assert!(matches!(refused(home.path()), StoreError::Newer { .. }));
    let after = contents(home.path());
    for name in ["state.db", "state.db-wal"] {
        assert!(before[name] == after[name], "{name} was changed");
    }
}

#[test]
fn a_newer_minor_version_is_used() {
    let home = used_home();
    alter(home.path(), "PRAGMA user_version = 1001; ALTER TABLE workspace ADD COLUMN later TEXT");
    let store = open(home.path());
    let [batch, _] = exec("y");
    drop(store.append(&batch).expect("fits"));
    assert_eq!(list(&store).expect("reads"), 2);
}

#[test]
fn an_older_version_is_backed_up_and_migrated() {
    let home = tempfile::tempdir().expect("a directory");
    let old = "PRAGMA application_id = 0x6261696c; PRAGMA user_version = 900; \
               CREATE TABLE relic (n); INSERT INTO relic VALUES (5)";
    alter(home.path(), old);
    assert_eq!(list(&open(home.path())).expect("reads"), 0);
    let backup = home.path().join("state.db.0.900-1796060498785206.backup");
    assert_eq!(std::fs::metadata(&backup).expect("is there").mode() & 0o777, 0o600);
    for path in [backup, home.path().join("state.db")] {
        let connection = Connection::open(path).expect("opens");
        let relic = connection.query_row("SELECT n FROM relic", [], |row| row.get::<_, i64>(0));
        assert_eq!(relic, Ok(5));
    }
}

#[test]
fn damage_is_named_and_left_alone() {
    let garbage: Vec<u8> = (0..9_000_u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
    let foreign = tempfile::tempdir().expect("a directory");
    alter(foreign.path(), "CREATE TABLE theirs (n)");
    let foreign = std::fs::read(foreign.path().join("state.db")).expect("there");
    for bytes in [garbage, b"x".to_vec(), foreign] {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::write(home.path().join("state.db"), &bytes).expect("writes");
        let error = refused(home.path());
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        let kept = std::fs::read(home.path().join("state.db")).expect("there");
        assert!(kept == bytes, "it was rewritten");
    }
}

#[test]
fn a_truncated_database_is_damaged_and_left_alone() {
    let home = used_home();
    alter(home.path(), "PRAGMA wal_checkpoint(TRUNCATE)");
    let path = home.path().join("state.db");
    let whole = std::fs::read(&path).expect("there");
    for length in [0x1800, 0x2000] {
        std::fs::write(&path, &whole[..length]).expect("writes");
        let result = bailiwick_store::open(&options(home.path())).and_then(|store| {
            let [batch, _] = exec("y");
            store.append(&batch).map(drop).and_then(|()| list(&store))
        });
        assert!(matches!(result, Err(StoreError::Damaged { .. })), "{length}: {result:?}");
        assert!(std::fs::read(&path).expect("there") == whole[..length], "it was rewritten");
    }
}

#[test]
fn an_emptied_database_does_not_cost_its_log() {
    let home = used_home();
    let before = contents(home.path());
    assert!(!before["state.db-wal"].is_empty());
    std::fs::write(home.path().join("state.db"), b"").expect("writes");
    let error = refused(home.path());
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    assert!(contents(home.path())["state.db-wal"] == before["state.db-wal"]);
}

#[test]
fn a_changed_row_breaks_the_chain() {
    let changes = [
        "UPDATE log SET body = replace(body, 'ready', 'READY') WHERE seq = 4",
        "UPDATE log SET ts = ts + 1 WHERE seq = 2",
        "DELETE FROM log WHERE seq = 3",
        "UPDATE log SET stream = 'ws-y' WHERE seq < 3",
        "UPDATE log SET prev_hash = zeroblob(32) WHERE seq = 5",
    ];
    for sql in changes {
        let home = used_home();
        alter(home.path(), sql);
        let error = open(home.path()).verify("ws-x").expect_err("broken");
        assert!(matches!(error, StoreError::Damaged { .. }), "{sql}: {error:?}");
    }
}

#[test]
fn a_column_that_does_not_read_back_is_damage() {
    let home = used_home();
    alter(home.path(), "UPDATE workspace SET state = 'rotten'");
    assert!(matches!(list(&open(home.path())), Err(StoreError::Damaged { .. })));
    assert!(matches!(
        open(home.path()).append(&[entry(
            &workspace_id("ws-x"),
            1,
            Change::WorkspaceMoved {
                from: bailiwick_contract::state::WorkspaceState::Ready,
                to: bailiwick_contract::state::WorkspaceState::Running,
            }
        )]),
        Err(StoreError::Damaged { .. })
    ));
}
