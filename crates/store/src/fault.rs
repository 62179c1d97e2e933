//! What can go wrong below the trait, and what of it a caller is told.
//!
//! SQLite's result codes (sqlite.org/rescode.html) are sorted here by who can act: free the disk, restore a backup,
//! try again. Nothing is retried here.
use bailiwick_contract::store::StoreError;
use rusqlite::{ErrorCode, ffi};
use std::path::Path;
use std::time::Duration;

/// 5 s: readers wait only for another process that rebuilds SQLite's index after a crash, which takes milliseconds.
pub(crate) const BUSY_MAX: Duration = Duration::from_secs(5);

/// Why a statement or a change failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The change does not fit what is on record.
    Conflict(String),
    /// What is on record does not fit together.
    Damaged(String),
    /// SQLite, or a conversion from what it holds.
    Sqlite(rusqlite::Error),
    /// A change has no JSON form.
    Body(serde_json::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Fault {
    /// Returns what the caller is told, who tried `step` on `database`.
    pub(crate) fn at(self, database: &Path, step: &str) -> StoreError {
        let path = database.display().to_string();
        let step = format!("{step} in `{path}`");
        match self {
            Self::Conflict(what) => StoreError::Conflict { what },
            Self::Damaged(why) => StoreError::Damaged { path, why },
            Self::Body(error) => StoreError::Other { step, source: error.into() },
            Self::Sqlite(error) => sort(error, path, step),
        }
    }
}

fn sort(error: rusqlite::Error, path: String, step: String) -> StoreError {
    use rusqlite::Error as E;
    match error {
        E::SqliteFailure(code, _) => sort_code(code, error, path, step),
        E::FromSqlConversionFailure(..)
        | E::InvalidColumnType(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..) => StoreError::Damaged { path, why: error.to_string() },
        _ => StoreError::Other { step, source: error.into() },
    }
}

fn sort_code(code: ffi::Error, error: rusqlite::Error, path: String, step: String) -> StoreError {
    let unwritable = |path, why: &str| StoreError::Unwritable { path, why: why.into() };
    match code.code {
        ErrorCode::DiskFull => unwritable(path, "the disk is full"),
        ErrorCode::ReadOnly => unwritable(path, "the file or its file system is read-only"),
        ErrorCode::PermissionDenied => unwritable(path, "permission is denied"),
        ErrorCode::CannotOpen => unwritable(
            path,
            "it or a file beside it (`-wal`, `-shm`) cannot be opened or made; the home may be \
             read-only, or out of descriptors",
        ),
        ErrorCode::SystemIoFailure if !is_read(code.extended_code) => {
            StoreError::Unwritable { path, why: error.to_string() }
        }
        // `Unknown` is a table or a column that is not there: the version promised it.
        ErrorCode::SystemIoFailure
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::Unknown => StoreError::Damaged { path, why: error.to_string() },
        ErrorCode::DatabaseBusy
        | ErrorCode::DatabaseLocked
        | ErrorCode::FileLockingProtocolFailed => {
            StoreError::Busy { path, seconds: BUSY_MAX.as_secs() }
        }
        ErrorCode::ConstraintViolation
            if code.extended_code == ffi::SQLITE_CONSTRAINT_FOREIGNKEY =>
        {
            let what = "the batch names a workspace or a job that is not on record".into();
            StoreError::Conflict { what }
        }
        _ => StoreError::Other { step, source: error.into() },
    }
}

/// Whether the extended code is about reading the database, not about writing beside it.
const fn is_read(extended_code: i32) -> bool {
    matches!(
        extended_code,
        ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_SHORT_READ | ffi::SQLITE_IOERR_CORRUPTFS
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_codes_are_sorted_by_who_can_act() {
        let cases = [
            (ffi::SQLITE_FULL, "cannot be written: the disk is full"),
            (ffi::SQLITE_READONLY_DBMOVED, "the file or its file system is read-only"),
            (ffi::SQLITE_IOERR_WRITE, "cannot be written"),
            (ffi::SQLITE_IOERR_READ, "cannot be read"),
            (ffi::SQLITE_CORRUPT, "cannot be read"),
            (ffi::SQLITE_NOTADB, "cannot be read"),
            (ffi::SQLITE_BUSY_RECOVERY, "busy"),
            (ffi::SQLITE_CANTOPEN, "the home may be read-only"),
            (ffi::SQLITE_CONSTRAINT_FOREIGNKEY, "not on record"),
            (ffi::SQLITE_NOMEM, "reading in `/h/state.db`"),
        ];
        for (code, text) in cases {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let told = Fault::Sqlite(error).at(Path::new("/h/state.db"), "reading").to_string();
            assert!(told.contains(text), "{code}: {told}");
        }
    }
}
