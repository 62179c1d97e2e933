//! Changing the attributes of mounts.
//!
//! Opening, attaching and detaching trees is in `rustix::mount`. Source: mount_setattr(2), Linux
//! 5.12.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::mount::{MountAttrFlags, MountPropagationFlags};

/// What to change of a mount. The default changes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MountChange<'fd> {
    /// Attributes to set.
    pub(crate) set: MountAttrFlags,
    /// Attributes to clear, before `set` is applied.
    pub(crate) clear: MountAttrFlags,
    /// Exactly one of `PRIVATE`, `DOWNSTREAM` (slave), `SHARED` and `UNBINDABLE`.
    pub(crate) propagation: Option<MountPropagationFlags>,
    /// The user namespace whose map translates the owners on disk. The mount must be detached.
    pub(crate) id_map: Option<BorrowedFd<'fd>>,
    /// Whether the mounts below change too.
    pub(crate) recursive: bool,
}

impl Default for MountChange<'_> {
    fn default() -> Self {
        Self {
            set: MountAttrFlags::empty(),
            clear: MountAttrFlags::empty(),
            propagation: None,
            id_map: None,
            recursive: false,
        }
    }
}

/// `struct mount_attr` of linux/mount.h, in its first and so far only size.
#[repr(C)]
struct MountAttr {
    attr_set: u64,
    attr_clr: u64,
    propagation: u64,
    userns_fd: u64,
}

impl From<&MountChange<'_>> for MountAttr {
    fn from(change: &MountChange<'_>) -> Self {
        let id_map =
            change.id_map.map_or(MountAttrFlags::empty(), |_| MountAttrFlags::MOUNT_ATTR_IDMAP);
        Self {
            attr_set: (change.set | id_map).bits().into(),
            attr_clr: change.clear.bits().into(),
            propagation: change.propagation.map_or(0, |flags| flags.bits().into()),
            userns_fd: change.id_map.map_or(0, |fd| fd.as_raw_fd().cast_unsigned().into()),
        }
    }
}

/// Applies `change` to the mount that `tree` is the root of.
///
/// # Errors
/// EPERM without `CAP_SYS_ADMIN` over the mount, or for an attribute that another user namespace
/// locked; EINVAL when `tree` is not the root of a mount, or its file system cannot map ids. Then
/// no mount has changed.
pub(crate) fn mount_setattr(tree: BorrowedFd<'_>, change: &MountChange<'_>) -> io::Result<()> {
    let attr = MountAttr::from(change);
    let recursive = if change.recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: mount_setattr reads an empty string, which makes it use `tree`, and
    // `size_of::<MountAttr>()` bytes of `attr`, which lives until the call returns; the descriptors
    // in both are borrowed.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | recursive,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    super::checked(returned).map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::fs::{AtFlags, CWD, StatVfsMountFlags};
    use rustix::mount::OpenTreeFlags;

    use super::*;

    /// Needs `CAP_SYS_ADMIN`; skips without.
    #[test]
    fn a_detached_tree_becomes_read_only_and_private() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let tree = rustix::mount::open_tree(CWD, "/usr", flags).expect("a detached tree");
        let change = MountChange {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID,
            propagation: Some(MountPropagationFlags::PRIVATE),
            recursive: true,
            ..MountChange::default()
        };
        mount_setattr(tree.as_fd(), &change).expect("mount_setattr");
        let now = rustix::fs::fstatvfs(&tree).expect("fstatvfs").f_flag;
        assert!(now.contains(StatVfsMountFlags::RDONLY | StatVfsMountFlags::NOSUID));
        rustix::fs::accessat(&tree, "bin", rustix::fs::Access::WRITE_OK, AtFlags::empty())
            .expect_err("a read-only mount");
    }
}
