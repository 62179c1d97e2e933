//! The directory that holds everything durable, and the checks that it is ours.
//!
//! It knows the names of the store's own files only; jobs, disks and host facts belong to those who write them.
//! Modes do not depend on the umask: directories are 0700, files 0600.
use bailiwick_contract::store::StoreError;
use rustix::fs::{AtFlags, CWD, Dev, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The database.
const DATABASE: &str = "state.db";
/// What SQLite has committed and not yet copied into the database.
const DATABASE_LOG: &str = "state.db-wal";
/// The file whose flock a writer holds.
const WRITE_LOCK: &str = "write.lock";

/// 0600.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// 0700.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// The permission bits by which others could replace our files.
const WRITABLE_BY_OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);

/// An open home that belongs to the effective user.
#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    dir: OwnedFd,
}

impl Home {
    /// Opens a home, and makes it where there is none.
    ///
    /// # Errors
    /// [`StoreError::Home`] where it is a link, no directory, another user's, or writable by others.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let refuse = |why: String| StoreError::Home { path: path.display().to_string(), why };
        let absolute = std::path::absolute(path)
            .map_err(|error| refuse(format!("has no absolute path: {error}")))?;
        // Without a trailing slash, which would have the kernel follow a link.
        let path: PathBuf = absolute.components().collect();
        let dir = open_or_create(&path).map_err(refuse)?;
        let stat = rustix::fs::fstat(&dir).map_err(|error| refuse(cannot_open(error)))?;
        check(&stat).map_err(refuse)?;
        Ok(Self { path, dir })
    }

    /// Returns the absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory, for files of the store's own.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns the path of the database, which only SQLite opens.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Returns the size of the database in bytes; `None` where there is none.
    pub(crate) fn database_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.size_of(DATABASE)
    }

    /// Returns the size of SQLite's write-ahead log in bytes; `None` where there is none.
    pub(crate) fn database_log_bytes(&self) -> Result<Option<u64>, StoreError> {
        self.size_of(DATABASE_LOG)
    }

    fn size_of(&self, name: &str) -> Result<Option<u64>, StoreError> {
        let damaged = |why: String| StoreError::Damaged {
            path: self.path.join(name).display().to_string(),
            why,
        };
        match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Some(u64::try_from(stat.st_size).unwrap_or(0)))
            }
            Ok(_) => Err(damaged("it is no regular file".into())),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(damaged(error.to_string())),
        }
    }

    /// Makes an empty database, without a descriptor: closing one would drop SQLite's locks (fcntl(2)).
    pub(crate) fn create_database(&self) -> Result<(), StoreError> {
        self.create_empty(DATABASE)
    }

    /// Makes an empty file that SQLite will fill.
    pub(crate) fn create_empty(&self, name: &str) -> Result<(), StoreError> {
        rustix::fs::mknodat(&self.dir, name, FileType::RegularFile, FILE_MODE, Dev::default())
            .and_then(|()| rustix::fs::chmodat(&self.dir, name, FILE_MODE, AtFlags::empty()))
            .map_err(|error| StoreError::Unwritable {
                path: self.path.join(name).display().to_string(),
                why: error.to_string(),
            })
    }

    /// Opens the lock file, and makes it where there is none.
    pub(crate) fn open_write_lock(&self) -> Result<OwnedFd, Errno> {
        open_write_lock(self.dir.as_fd())
    }
}

fn open_write_lock(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::openat(dir, WRITE_LOCK, flags, Mode::empty()) {
        Err(Errno::NOENT) => {}
        opened => return opened,
    }
    let new = flags | OFlags::CREATE | OFlags::EXCL;
    match rustix::fs::openat(dir, WRITE_LOCK, new, FILE_MODE) {
        Ok(file) => rustix::fs::fchmod(&file, FILE_MODE).map(|()| file),
        Err(Errno::EXIST) => rustix::fs::openat(dir, WRITE_LOCK, flags, Mode::empty()),
        Err(error) => Err(error),
    }
}

fn open_or_create(path: &Path) -> Result<OwnedFd, String> {
    match open_directory(path) {
        Err(Errno::NOENT) => {
            create(path).map_err(|error| format!("cannot be made: {error}"))?;
            open_directory(path)
        }
        opened => opened,
    }
    .map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP if path.is_symlink() => "is a symbolic link".into(),
        Errno::NOTDIR => "is not a directory".into(),
        error => cannot_open(error),
    })
}

fn cannot_open(error: Errno) -> String {
    format!("cannot be opened: {error}")
}

fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}

/// Makes a directory and those above it, each durable in the one above.
fn create(path: &Path) -> Result<(), Errno> {
    let parent = path.parent().ok_or(Errno::NOENT)?;
    let parent = match rustix::fs::open(parent, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => {
            create(parent)?;
            open_directory(parent)?
        }
        opened => opened?,
    };
    let name = path.file_name().ok_or(Errno::INVAL)?;
    match rustix::fs::mkdirat(&parent, name, DIRECTORY_MODE) {
        Ok(()) => rustix::fs::chmodat(&parent, name, DIRECTORY_MODE, AtFlags::empty())?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    rustix::fs::fsync(&parent)
}

fn check(stat: &Stat) -> Result<(), String> {
    let user = rustix::process::geteuid().as_raw();
    if stat.st_uid != user {
        return Err(format!("belongs to user {}, and this program runs as {user}", stat.st_uid));
    }
    if Mode::from_raw_mode(stat.st_mode).intersects(WRITABLE_BY_OTHERS) {
        return Err("can be written by other users; `chmod 700` it".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn why(path: &Path) -> String {
        match Home::open(path) {
            Err(StoreError::Home { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("ours");
    }

    #[test]
    fn a_missing_home_is_made_for_its_owner_only() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("above/home");
        let home = Home::open(&path).expect("makes it");
        assert_eq!(std::fs::metadata(&path).expect("made").mode() & 0o7777, 0o700);
        assert_eq!(home.path(), path);
        home.create_database().expect("makes it");
        assert_eq!(std::fs::metadata(home.database()).expect("made").mode() & 0o7777, 0o600);
        assert_eq!(home.database_bytes().expect("there"), Some(0));
    }

    #[test]
    fn what_is_no_directory_of_ours_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let file = scratch.path().join("file");
        std::fs::write(&file, b"").expect("writes");
        assert_eq!(why(&file), "is not a directory");
        let link = scratch.path().join("link");
        symlink(scratch.path(), &link).expect("links");
        assert_eq!(why(&link), "is a symbolic link");
        assert_eq!(why(&link.join("")), "is a symbolic link");
        let open = scratch.path().join("open");
        std::fs::create_dir(&open).expect("makes it");
        set_mode(&open, 0o770);
        assert_eq!(why(&open), "can be written by other users; `chmod 700` it");
        set_mode(&open, 0o755);
        assert!(Home::open(&open).is_ok(), "others may see that it is there");
    }

    #[test]
    fn another_users_home_is_refused() {
        let scratch = tempfile::tempdir().expect("a directory");
        let foreign = match std::os::unix::fs::chown(scratch.path(), Some(1), None) {
            Ok(()) => scratch.path(),
            Err(_) => Path::new("/"), // an ordinary user cannot give a directory away; this one is root's
        };
        assert!(why(foreign).starts_with("belongs to user "));
    }
}
