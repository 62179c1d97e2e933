//! The store itself: one connection, one `append`, and the readers of each noun.
//!
//! A batch is one transaction under the write lock; the log's rows and what they do to the records are written
//! together, so that neither can be without the other. Which changes make sense in a verb is the engine's to know.
use crate::fault::Fault;
use crate::home::Home;
use crate::lock::{WAIT_MAX, WriteLock};
use crate::log::{LogRow, LogWriter};
use crate::{artifact, input, intent, job, log, prune, reserve, schema, workspace};
use bailiwick_contract::artifact::ArtifactRecord;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::journal::{Change, Entry};
use bailiwick_contract::record::{JobRecord, OpenIntent, WorkspaceRecord};
use bailiwick_contract::store::{Receipts, Store, StoreError, WorkspaceFilter};
use bailiwick_contract::time::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What opening a store takes.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The home; it is made where there is none.
    pub home: PathBuf,
    /// The time, for the record of a new database and the name of a backup.
    pub now: Timestamp,
}

/// The durable state in a home's `state.db`.
#[derive(Debug)]
pub struct SqliteStore {
    home: Home,
    lock: WriteLock,
    connection: Mutex<Connection>,
}

/// Opens the store of a home, and makes both where there is none.
///
/// # Errors
/// [`StoreError::Home`], [`StoreError::Newer`] and [`StoreError::Damaged`], and then nothing was rewritten;
/// [`StoreError::Unwritable`] where a new or older database cannot be brought to this program's version.
pub fn open(options: &OpenOptions) -> Result<SqliteStore, StoreError> {
    let home = Home::open(&options.home)?;
    let lock = WriteLock::new(WAIT_MAX);
    let connect = || schema::connect(&home, &lock, schema::MIGRATIONS, options.now);
    let connection = match connect() {
        // SQLite's shared memory needs room too; where there is no reserve, the first error is the one to tell.
        Err(StoreError::Unwritable { .. }) if reserve::release(&home) => connect()?,
        other => other?,
    };
    Ok(SqliteStore { home, lock, connection: Mutex::new(connection) })
}

impl SqliteStore {
    /// Returns the home that the store is in.
    #[must_use]
    pub const fn home(&self) -> &Home {
        &self.home
    }

    /// Reads at most `limit` entries of a workspace's journal, from the one after `after` on; 0 is before the first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn journal(
        &self,
        workspace: &WorkspaceId,
        after: u64,
        limit: u64,
    ) -> Result<Vec<LogRow>, StoreError> {
        self.read("reading a journal", |connection| {
            log::rows(connection, workspace.as_str(), after, limit)
        })
    }

    /// Checks the hash chain of a stream, and returns how many rows it has.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] names the first row that does not follow.
    pub fn verify(&self, stream: &str) -> Result<u64, StoreError> {
        self.read("verifying a journal", |connection| log::verify(connection, stream))
    }

    /// A panic elsewhere leaves no half transaction: rusqlite rolls back while unwinding.
    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(
        &self,
        step: &str,
        reader: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        reader(&self.connection()).map_err(|fault| fault.at(&self.home.database(), step))
    }

    fn write(&self, batch: &[Entry], bodies: &[String]) -> Result<Receipts, StoreError> {
        let seqs = write(&mut self.connection(), batch, bodies);
        seqs.map(|seqs| Receipts { seqs }).map_err(|fault| self.fault(fault))
    }

    fn no_room(&self, error: Errno) -> StoreError {
        let why = match error {
            Errno::NOSPC | Errno::DQUOT => "the disk is full".to_owned(),
            other => format!("no room can be reserved: {other}"),
        };
        StoreError::Unwritable { path: self.home.database().display().to_string(), why }
    }

    fn fault(&self, fault: Fault) -> StoreError {
        fault.at(&self.home.database(), "appending to the journal")
    }
}

impl Store for SqliteStore {
    fn append(&self, batch: &[Entry]) -> Result<Receipts, StoreError> {
        if batch.is_empty() {
            return Ok(Receipts { seqs: Vec::new() });
        }
        let bodies = bodies(batch).map_err(|fault| self.fault(fault))?;
        let _guard = self.lock.acquire(&self.home)?;
        if reserve::begins(batch) {
            reserve::ensure(&self.home).map_err(|error| self.no_room(error))?;
        }
        match self.write(batch, &bodies) {
            Err(StoreError::Unwritable { .. })
                if !reserve::begins(batch) && reserve::release(&self.home) =>
            {
                self.write(batch, &bodies)
            }
            other => other,
        }
    }

    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRecord>, StoreError> {
        self.read("reading a workspace", |connection| workspace::find(connection, id))
    }

    fn workspaces(
        &self,
        filter: &WorkspaceFilter,
    ) -> Result<(Vec<WorkspaceRecord>, u64), StoreError> {
        self.read("listing workspaces", |connection| {
            let transaction = connection.unchecked_transaction()?;
            workspace::list(&transaction, filter)
        })
    }

    fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError> {
        self.read("reading a job", |connection| job::find(connection, id))
    }

    fn pruned_job(&self, id: &JobId) -> Result<Option<WorkspaceId>, StoreError> {
        self.read("reading a pruned job", |connection| prune::workspace_of(connection, id))
    }

    fn jobs(&self, workspace: &WorkspaceId) -> Result<Vec<JobRecord>, StoreError> {
        self.read("listing jobs", |connection| job::list(connection, workspace))
    }

    fn artifacts(&self, workspace: &WorkspaceId) -> Result<Vec<ArtifactRecord>, StoreError> {
        self.read("listing artifacts", |connection| artifact::list(connection, workspace))
    }

    fn inputs(&self, workspace: &WorkspaceId) -> Result<Vec<InputRecord>, StoreError> {
        self.read("listing inputs", |connection| input::list(connection, workspace))
    }

    fn open_intents(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<OpenIntent>, StoreError> {
        self.read("listing open intents", |connection| intent::list(connection, workspace))
    }

    fn check(&self) -> Result<(), StoreError> {
        self.read("checking the state", schema::check)
    }
}

fn bodies(batch: &[Entry]) -> Result<Vec<String>, Fault> {
    batch.iter().map(|entry| serde_json::to_string(&entry.change).map_err(Fault::Body)).collect()
}

/// Writes a batch in one transaction; dropping it before its commit rolls back.
fn write(
    connection: &mut Connection,
    batch: &[Entry],
    bodies: &[String],
) -> Result<Vec<u64>, Fault> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut log = LogWriter::new(&transaction);
    let mut seqs = Vec::with_capacity(batch.len());
    for (entry, body) in batch.iter().zip(bodies) {
        apply(&transaction, entry)?;
        seqs.push(log.write(entry, body.clone())?);
    }
    transaction.commit()?;
    Ok(seqs)
}

/// Does to the records what an entry says.
fn apply(connection: &Connection, entry: &Entry) -> Result<(), Fault> {
    let Entry { workspace, at, change } = entry;
    match change {
        Change::IntentOpened { intent, verb, job, detail } => {
            let record = OpenIntent {
                id: intent.clone(),
                kind: *verb,
                workspace: workspace.clone(),
                job: job.clone(),
                detail: detail.clone(),
                opened_at: *at,
            };
            intent::open(connection, &record)
        }
        Change::IntentClosed { intent, .. } => intent::close(connection, workspace, intent),
        Change::WorkspaceAdded { record } => {
            check_own(workspace, &record.id)?;
            workspace::add(connection, record)
        }
        Change::WorkspaceMoved { from, to } => {
            workspace::advance(connection, workspace, *at, *from, *to)
        }
        Change::WorkspacePruned => prune::prune(connection, workspace, *at),
        Change::ArtifactDeclared { job, declaration } => {
            artifact::declare(connection, workspace, job, declaration)
        }
        Change::ArtifactExported { name, export } => {
            artifact::export(connection, workspace, name, export)
        }
        Change::ArtifactDiscarded { name } => artifact::discard(connection, workspace, name),
        Change::InputsAdded { inputs } => input::add(connection, workspace, inputs),
        Change::JobAdded { record } => {
            check_own(workspace, &record.workspace)?;
            job::add(connection, record)
        }
        Change::JobEnded { job, outcome, package } => {
            job::end(connection, workspace, job, outcome, package.as_deref())
        }
    }
}

/// Refuses a record of one workspace in the journal of another.
fn check_own(journal: &WorkspaceId, record: &WorkspaceId) -> Result<(), Fault> {
    if journal == record {
        return Ok(());
    }
    Err(Fault::Conflict(format!(
        "the journal of workspace `{journal}` cannot hold a record of workspace `{record}`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::id::IntentId;
    use bailiwick_contract::journal::{IntentDetail, IntentKind};

    #[test]
    fn a_store_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<SqliteStore>();
    }

    #[test]
    fn a_full_disk_is_named_and_nothing_is_kept() {
        let scratch = tempfile::tempdir().expect("a directory");
        let home = scratch.path().into();
        let store = open(&OpenOptions { home, now: Timestamp::default() }).expect("opens");
        store.connection().execute_batch("PRAGMA max_page_count = 1").expect("sets");
        let batch: Vec<Entry> = (0..100).map(opened).collect();
        let error = store.append(&batch).expect_err("full");
        assert!(error.to_string().ends_with("cannot be written: the disk is full"), "{error}");
        assert!(store.open_intents(None).expect("reads").is_empty());
        store.connection().execute_batch("PRAGMA max_page_count = 1000").expect("sets");
        assert_eq!(store.append(&batch).expect("there is room").seqs.len(), 100);
    }

    fn opened(number: u64) -> Entry {
        let intent = IntentId::parse(&format!("int-{number}")).expect("an id");
        let (verb, detail) = (IntentKind::Run, IntentDetail::None);
        Entry {
            workspace: WorkspaceId::parse("ws").expect("an id"),
            at: Timestamp::from_micros(number),
            change: Change::IntentOpened { intent, verb, job: None, detail },
        }
    }
}
