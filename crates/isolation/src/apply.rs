//! Carries the steps of a plan out, one after the other.
//!
//! The loop is too small to be wrong; what a step means is in [`LinuxKernel`], and a test's kernel records instead. It runs
//! in init, in the sandbox's own namespaces, before the payload exists.
use crate::facts::ProcMask;
use crate::plan::Step;
use crate::sys::mount::{MountChange, mount_setattr};
use bailiwick_contract::bytes::ByteString;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, symlinkat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount,
    open_tree, unmount,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Carries out one step.
pub trait Kernel {
    /// Does what `step` says.
    ///
    /// # Errors
    /// Why it could not be done; the namespaces are abandoned then.
    fn apply(&mut self, step: &Step) -> io::Result<()>;
}

/// A step that failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {step}")]
pub struct StepError {
    /// Which.
    pub step: String,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// Carries out `steps` in order.
///
/// # Errors
/// The first step that failed; none after it was tried.
pub fn apply(steps: &[Step], kernel: &mut dyn Kernel) -> Result<(), StepError> {
    for step in steps {
        kernel.apply(step).map_err(|source| StepError { step: step.to_string(), source })?;
    }
    Ok(())
}

/// The kernel of this process's namespaces.
#[derive(Debug)]
pub(crate) struct LinuxKernel {
    sources: Vec<Option<OwnedFd>>,
    root: Option<OwnedFd>,
    proc: Option<OwnedFd>,
    /// The sized tmpfs, whose use counts as memory.
    tmpfs: Vec<OwnedFd>,
}

impl LinuxKernel {
    /// Takes the detached trees, by index.
    pub(crate) fn new(sources: Vec<OwnedFd>) -> Self {
        Self {
            sources: sources.into_iter().map(Some).collect(),
            root: None,
            proc: None,
            tmpfs: Vec::new(),
        }
    }

    /// Returns what the supervisor's watch looks into: the sandbox's `/proc`, then each tmpfs.
    pub(crate) fn watched(&self) -> Vec<BorrowedFd<'_>> {
        self.proc.iter().chain(&self.tmpfs).map(AsFd::as_fd).collect()
    }

    fn root(&self) -> io::Result<BorrowedFd<'_>> {
        self.root.as_ref().map(AsFd::as_fd).ok_or_else(|| Errno::NOENT.into())
    }

    fn proc(&self) -> io::Result<BorrowedFd<'_>> {
        self.proc.as_ref().map(AsFd::as_fd).ok_or_else(|| Errno::NOENT.into())
    }

    fn take(&mut self, source: usize) -> io::Result<OwnedFd> {
        self.sources.get_mut(source).and_then(Option::take).ok_or_else(|| Errno::BADF.into())
    }

    /// The place does not matter: `pivot_root` replaces what it is attached to. `/usr` is there on every host.
    fn attach_root(&mut self, tree: OwnedFd) -> io::Result<()> {
        move_mount(tree.as_fd(), c"", CWD, c"/usr", FROM_DESCRIPTOR)?;
        self.root = Some(tree);
        Ok(())
    }

    fn attach(&self, tree: BorrowedFd<'_>, path: &ByteString) -> io::Result<()> {
        Ok(move_mount(tree, c"", self.root()?, path.as_bytes(), FROM_DESCRIPTOR)?)
    }

    fn make_dir(&self, path: &ByteString, mode: u32) -> io::Result<()> {
        let root = self.root()?;
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|at| *at.1 == b'/').map(|at| at.0);
        for end in ends {
            ignore_existing(mkdirat(root, &bytes[..end], Mode::from_raw_mode(0o755)))?;
        }
        ignore_existing(mkdirat(root, bytes, Mode::from_raw_mode(mode)))
    }

    fn make_file(&self, path: &ByteString) -> io::Result<()> {
        let bytes = path.as_bytes();
        if let Some(end) = bytes.iter().rposition(|byte| *byte == b'/') {
            self.make_dir(&bytes[..end].into(), 0o755)?;
        }
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(self.root()?, bytes, flags, Mode::from_raw_mode(0o644))?;
        Ok(())
    }

    fn mount_tmpfs(&mut self, path: &ByteString, bytes: u64, inodes: u64) -> io::Result<()> {
        let options = [("size", bytes.to_string()), ("nr_inodes", inodes.to_string())];
        let tree = file_system("tmpfs", &options, &[], writable())?;
        self.attach(tree.as_fd(), path)?;
        self.tmpfs.push(tree);
        Ok(())
    }

    fn mask(&self, mask: &ProcMask) -> io::Result<()> {
        match mask {
            ProcMask::File(name) => self.cover(c"dev/null", name),
            ProcMask::Dir(name) => self.cover(c"var/empty", name),
            ProcMask::ReadOnly(name) => self.protect(name),
        }
    }

    /// Puts a clone of something harmless over an entry of `/proc`. A clone has the attributes of the mount that it is of,
    /// and both of these are read-only: `/dev/null` is a source, `/var/empty` a part of the skeleton.
    fn cover(&self, with: &core::ffi::CStr, name: &str) -> io::Result<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(self.root()?, with, flags)?;
        Ok(move_mount(tree.as_fd(), c"", self.proc()?, name, FROM_DESCRIPTOR)?)
    }

    fn protect(&self, name: &str) -> io::Result<()> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = open_tree(self.proc()?, name, flags)?;
        read_only(tree.as_fd())?;
        Ok(move_mount(tree.as_fd(), c"", self.proc()?, name, FROM_DESCRIPTOR)?)
    }

    /// With the new root as working directory, both arguments may be `.` (pivot_root(2), NOTES).
    fn pivot(&mut self) -> io::Result<()> {
        rustix::process::fchdir(self.root()?)?;
        rustix::process::pivot_root(c".", c".")?;
        unmount(c".", UnmountFlags::DETACH)?;
        rustix::process::chdir(c"/")?;
        self.root = None;
        self.sources.clear();
        Ok(())
    }
}

const FROM_DESCRIPTOR: MoveMountFlags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;

fn writable() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}

fn read_only(tree: BorrowedFd<'_>) -> io::Result<()> {
    let set = MountAttrFlags::MOUNT_ATTR_RDONLY;
    mount_setattr(tree, &MountChange { set, recursive: true, ..MountChange::default() })
}

fn ignore_existing(made: rustix::io::Result<()>) -> io::Result<()> {
    match made {
        Err(Errno::EXIST) => Ok(()),
        other => Ok(other?),
    }
}

/// Makes a file system that is attached nowhere yet.
fn file_system(
    kind: &str,
    options: &[(&str, String)],
    flags: &[&str],
    attributes: MountAttrFlags,
) -> io::Result<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(context.as_fd(), *key, value.as_str())?;
    }
    for flag in flags {
        fsconfig_set_flag(context.as_fd(), *flag)?;
    }
    fsconfig_create(context.as_fd())?;
    Ok(fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

/// Makes a `/proc` of the calling process's PID namespace, attached nowhere.
pub(crate) fn proc_file_system() -> io::Result<OwnedFd> {
    file_system("proc", &[], &[], writable() | MountAttrFlags::MOUNT_ATTR_NOEXEC)
}

/// devpts(5) without `gid=5`: that group is not mapped.
fn devpts_file_system() -> io::Result<OwnedFd> {
    let options = [("mode", "0620".to_owned()), ("ptmxmode", "0666".to_owned())];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    file_system("devpts", &options, &["newinstance"], attributes)
}

impl Kernel for LinuxKernel {
    fn apply(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::LoopbackUp => crate::sys::net::bring_loopback_up(),
            Step::Hostname(name) => Ok(rustix::system::sethostname(name.as_bytes())?),
            Step::RootFrom(source) => {
                let tree = self.take(*source)?;
                self.attach_root(tree)
            }
            Step::RootTmpfs => {
                let options = [("size", "1m".to_owned()), ("mode", "0755".to_owned())];
                self.attach_root(file_system("tmpfs", &options, &[], writable())?)
            }
            Step::MakeDir { path, mode } => self.make_dir(path, *mode),
            Step::MakeFile(path) => self.make_file(path),
            Step::MakeLink { path, target } => {
                Ok(symlinkat(target.as_bytes(), self.root()?, path.as_bytes())?)
            }
            Step::Attach { source, path } => {
                let tree = self.take(*source)?;
                self.attach(tree.as_fd(), path)
            }
            Step::Tmpfs { path, bytes, inodes } => self.mount_tmpfs(path, *bytes, *inodes),
            Step::Devpts(path) => self.attach(devpts_file_system()?.as_fd(), path),
            Step::Proc(path) => {
                let tree = proc_file_system()?;
                self.attach(tree.as_fd(), path)?;
                self.proc = Some(tree);
                Ok(())
            }
            Step::Mask(mask) => self.mask(mask),
            Step::SealRoot => seal(self.root()?),
            Step::PivotRoot => self.pivot(),
        }
    }
}

/// Not recursive: what is mounted on the root keeps its own attributes.
fn seal(root: BorrowedFd<'_>) -> io::Result<()> {
    let set = MountAttrFlags::MOUNT_ATTR_RDONLY;
    mount_setattr(root, &MountChange { set, ..MountChange::default() })
}

/// Opens a directory or file inside, for a Landlock rule.
pub(crate) fn open_path(path: &ByteString) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path.as_bytes(), flags, Mode::empty())?)
}

/// Returns whether there is something at `path`, seen from the directory `from`.
pub(crate) fn exists(from: &core::ffi::CStr, path: &core::ffi::CStr) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(CWD, from, flags, Mode::empty())
        .is_ok_and(|from| rustix::fs::statat(from, path, AtFlags::empty()).is_ok())
}

/// Opens the list of System V shared memory, which shows the IPC namespace of whoever opened it (proc(5)).
pub(crate) fn open_shared_memory() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(CWD, c"/proc/sysvipc/shm", flags, Mode::empty())?)
}
