//! Measures and removes a workspace's disk, whatever a job has made of it.
//!
//! Both walk by descriptors and never follow a link; neither recurses, so that no tree is too deep. Blocks are counted, not
//! sizes: a sparse file costs what it costs (stat(2), `st_blocks`).
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// What a disk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Bytes of its blocks.
    pub bytes: u64,
    /// Files, directories and links, the disk's own root not counted.
    pub inodes: u64,
    /// Whether a part could not be read: a job can close a directory to its owner, or nest too deep.
    pub partial: bool,
}

/// Descriptors that a walk may hold; deeper trees are reported as partial.
const DEPTH_MAX: usize = 128;

/// Measures the disk at `path`.
///
/// # Errors
/// The root itself is not there, or is no directory.
pub fn usage(path: &Path) -> io::Result<DiskUsage> {
    let mut walk = Walk::default();
    let root = match open_directory(CWD, path) {
        // A job can close the disk's root, too.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(DiskUsage { partial: true, ..DiskUsage::default() });
        }
        other => other?,
    };
    let mut stack = vec![walk.level(root)?];
    while let Some(level) = stack.last_mut() {
        let Some(name) = level.below.pop() else {
            stack.pop();
            continue;
        };
        let child = open_directory(level.dir.as_fd(), &name).and_then(|dir| walk.level(dir));
        match child {
            Ok(child) if stack.len() < DEPTH_MAX => stack.push(child),
            // Removed meanwhile, or replaced by something else: the job may be running.
            Err(error) if is_gone(&error) => {}
            _ => walk.usage.partial = true,
        }
    }
    Ok(walk.usage)
}

/// One directory of a walk, with the names of the directories in it that are still to be visited.
struct Level {
    dir: OwnedFd,
    below: Vec<CString>,
}

#[derive(Default)]
struct Walk {
    usage: DiskUsage,
    /// Files with several names that were counted under another one.
    linked: HashSet<(u64, u64)>,
}

impl Walk {
    /// Counts what is in `dir`.
    fn level(&mut self, dir: OwnedFd) -> io::Result<Level> {
        let mut below = Vec::new();
        for (name, kind) in entries(dir.as_fd())? {
            // Removed meanwhile: the job may be running.
            let Ok(meta) = statat(dir.as_fd(), &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            if kind == FileType::Directory {
                below.push(name);
            } else if meta.st_nlink > 1 && !self.linked.insert((meta.st_dev, meta.st_ino)) {
                continue;
            }
            self.usage.inodes += 1;
            self.usage.bytes += u64::try_from(meta.st_blocks).unwrap_or(0) * 512;
        }
        Ok(Level { dir, below })
    }
}

fn is_gone(error: &io::Error) -> bool {
    const GONE: [Errno; 3] = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    GONE.iter().any(|gone| error.raw_os_error() == Some(gone.raw_os_error()))
}

fn open_directory<P: rustix::path::Arg>(at: BorrowedFd<'_>, path: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, path, flags, Mode::empty())?)
}

fn entries(dir: BorrowedFd<'_>) -> io::Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |meta| FileType::from_raw_mode(meta.st_mode)),
            kind => kind,
        };
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

/// Removes the tree at `path`; what is not there is removed already.
///
/// A directory inside a directory is first moved up to the top, so that two descriptors are enough for any depth.
///
/// # Errors
/// What could not be removed; the rest may be gone, and removing again goes on.
pub fn remove(path: &Path) -> io::Result<()> {
    let root = match open_writable(CWD, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    let mut moved = 0_u64;
    loop {
        let found = entries(root.as_fd())?;
        if found.is_empty() {
            break;
        }
        for (name, kind) in found {
            if kind == FileType::Directory {
                empty(root.as_fd(), &name, &mut moved)?;
                unlinkat(root.as_fd(), &name, AtFlags::REMOVEDIR)?;
            } else {
                unlinkat(root.as_fd(), &name, AtFlags::empty())?;
            }
        }
    }
    Ok(unlinkat(CWD, path, AtFlags::REMOVEDIR)?)
}

/// Empties one directory of the top: files go, directories move up.
fn empty(root: BorrowedFd<'_>, name: &CString, moved: &mut u64) -> io::Result<()> {
    let dir = open_writable(root, name)?;
    for (child, kind) in entries(dir.as_fd())? {
        if kind != FileType::Directory {
            unlinkat(dir.as_fd(), &child, AtFlags::empty())?;
            continue;
        }
        match unlinkat(dir.as_fd(), &child, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => move_up(root, dir.as_fd(), &child, moved)?,
            other => other?,
        }
    }
    Ok(())
}

fn move_up(
    root: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    child: &CString,
    moved: &mut u64,
) -> io::Result<()> {
    // Moving a directory rewrites its `..`, which a mode without write forbids.
    rustix::fs::chmodat(dir, child, Mode::RWXU, AtFlags::empty()).ok();
    loop {
        *moved += 1;
        let name = format!(".bailiwick-removing-{moved}");
        match rustix::fs::renameat_with(
            dir,
            child,
            root,
            name.as_str(),
            rustix::fs::RenameFlags::NOREPLACE,
        ) {
            Err(Errno::EXIST) => {}
            other => return Ok(other?),
        }
    }
}

/// Opens a directory that its owner may have closed to itself.
fn open_writable<P: rustix::path::Arg + Copy>(
    root: BorrowedFd<'_>,
    name: P,
) -> io::Result<OwnedFd> {
    let opened = open_directory(root, name);
    let open = match opened {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            rustix::fs::chmodat(root, name, Mode::RWXU, AtFlags::empty())?;
            open_directory(root, name)?
        }
        other => other?,
    };
    if fstat(&open)?.st_mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&open, Mode::RWXU)?;
    }
    Ok(open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_disk_is_measured_by_its_blocks_and_names() {
        let root = tempfile::tempdir().expect("a directory");
        fs::create_dir(root.path().join("d")).expect("a directory");
        fs::write(root.path().join("d/f"), vec![1; 10_000]).expect("a file");
        fs::hard_link(root.path().join("d/f"), root.path().join("g")).expect("a link");
        let sparse = fs::File::create(root.path().join("s")).expect("a file");
        sparse.set_len(1 << 30).expect("sparse");
        symlink("/etc", root.path().join("l")).expect("a link");
        let usage = usage(root.path()).expect("measured");
        assert_eq!((usage.inodes, usage.partial), (4, false));
        assert!((8_192..64 << 10).contains(&usage.bytes), "{}", usage.bytes);
    }

    #[test]
    fn a_hostile_tree_is_removed() {
        let top = tempfile::tempdir().expect("a directory");
        let disk = top.path().join("disk");
        fs::create_dir(&disk).expect("a directory");
        let keep = top.path().join("keep");
        fs::write(&keep, "kept").expect("a file");
        symlink(top.path(), disk.join("link")).expect("a link");
        let mut dir = open_directory(CWD, &disk).expect("open");
        for _ in 0..3_000 {
            rustix::fs::mkdirat(&dir, "deeper", Mode::RWXU).expect("a directory");
            dir = open_directory(dir.as_fd(), "deeper").expect("open");
        }
        fs::create_dir_all(disk.join("closed/inner")).expect("directories");
        fs::set_permissions(disk.join("closed"), fs::Permissions::from_mode(0o0)).expect("closed");
        remove(&disk).expect("removed");
        assert!(!disk.exists() && keep.exists());
        remove(&disk).expect("removing again is no error");
    }

    #[test]
    fn a_tree_that_is_too_deep_to_measure_says_so() {
        let root = tempfile::tempdir().expect("a directory");
        let mut path = root.path().to_owned();
        for _ in 0..DEPTH_MAX + 2 {
            path.push("d");
        }
        fs::create_dir_all(&path).expect("directories");
        assert!(usage(root.path()).expect("measured").partial);
    }

    #[test]
    fn a_wide_tree_is_measured_whole() {
        let root = tempfile::tempdir().expect("a directory");
        for index in 0..DEPTH_MAX * 2 {
            fs::create_dir(root.path().join(index.to_string())).expect("a directory");
        }
        let usage = usage(root.path()).expect("measured");
        assert_eq!((usage.inodes, usage.partial), (256, false));
    }

    #[test]
    fn what_is_removed_while_it_is_measured_makes_nothing_partial() {
        let root = tempfile::tempdir().expect("a directory");
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    for index in 0..20 {
                        fs::create_dir(root.path().join(index.to_string())).expect("a directory");
                    }
                    for index in 0..20 {
                        fs::remove_dir(root.path().join(index.to_string())).expect("removed");
                    }
                }
            });
            let partial = (0..500).any(|_| usage(root.path()).expect("measured").partial);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(!partial);
        });
    }
}
