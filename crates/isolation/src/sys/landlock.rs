//! Landlock: rights to files by hierarchy, that a process takes from itself and its children.
//!
//! Rules for the network and scopes are left out: namespaces do that, and scopes would keep a
//! second command of a workspace from signalling the first (shown with sibling domains, Linux 6.18). Sources:
//! landlock(7) (Linux 5.13) and the `landlock_create_ruleset`, `landlock_add_rule` and
//! `landlock_restrict_self` manual pages.

use std::ffi::c_int;
use std::io;
use std::ops::{BitAnd, BitOr};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// A set of rights to files and directories (linux/landlock.h); those that nobody names alone are in [`Access::ALL`] only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Access(u64);

impl Access {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const EXECUTE: Self = Self(1 << 0);
    pub(crate) const WRITE_FILE: Self = Self(1 << 1);
    pub(crate) const READ_FILE: Self = Self(1 << 2);
    pub(crate) const READ_DIR: Self = Self(1 << 3);
    pub(crate) const MAKE_CHAR: Self = Self(1 << 6);
    pub(crate) const MAKE_BLOCK: Self = Self(1 << 11);
    /// Renaming and linking between directories, which ABI 1 always refuses; ABI 2, Linux 5.19.
    pub(crate) const REFER: Self = Self(1 << 13);
    /// ABI 3, Linux 6.2.
    pub(crate) const TRUNCATE: Self = Self(1 << 14);
    /// `ioctl` on devices, terminals included; ABI 5, Linux 6.10.
    pub(crate) const IOCTL_DEV: Self = Self(1 << 15);

    /// Reading and running what is there.
    pub(crate) const READ: Self = Self(Self::EXECUTE.0 | Self::READ_FILE.0 | Self::READ_DIR.0);
    /// The rights that a rule on something else than a directory may have; the kernel refuses
    /// others there.
    pub(crate) const FILE: Self = Self(
        Self::EXECUTE.0
            | Self::READ_FILE.0
            | Self::WRITE_FILE.0
            | Self::TRUNCATE.0
            | Self::IOCTL_DEV.0,
    );
    /// Every right that is known here.
    pub(crate) const ALL: Self = Self((Self::IOCTL_DEV.0 << 1) - 1);

    /// Returns these rights but `others`.
    pub(crate) const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns the rights that a kernel with this ABI version knows.
    pub(crate) const fn known_to(abi: u32) -> Self {
        match abi {
            0 => Self::NONE,
            1 => Self(Self::REFER.0 - 1),
            2 => Self(Self::TRUNCATE.0 - 1),
            3 | 4 => Self(Self::IOCTL_DEV.0 - 1),
            _ => Self::ALL,
        }
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Access {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// `LANDLOCK_CREATE_RULESET_VERSION` (linux/landlock.h).
const CREATE_RULESET_VERSION: u32 = 1;
/// `LANDLOCK_RULE_PATH_BENEATH` (linux/landlock.h).
const RULE_PATH_BENEATH: c_int = 1;

/// Returns the version of the kernel's Landlock ABI, at least 1.
///
/// # Errors
/// ENOSYS when the kernel is built without Landlock, EOPNOTSUPP when it is switched off.
pub(crate) fn abi() -> io::Result<u32> {
    let nothing = ptr::null::<RulesetAttr>();
    // SAFETY: with this flag the kernel wants no attributes: a null pointer and size 0.
    let returned = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, CREATE_RULESET_VERSION)
    };
    let version = super::checked(returned)?;
    Ok(u32::try_from(version).expect("versions are small"))
}

/// `struct landlock_ruleset_attr` as of ABI 1; the kernel takes what a longer one would add as
/// zero.
#[repr(C)]
struct RulesetAttr {
    handled_access_fs: u64,
}

/// `struct landlock_path_beneath_attr`, which linux/landlock.h declares packed.
#[repr(C, packed)]
struct PathBeneathAttr {
    allowed_access: u64,
    parent_fd: c_int,
}

/// Rules that are being collected.
#[derive(Debug)]
pub(crate) struct Ruleset {
    fd: OwnedFd,
    handled: Access,
}

impl Ruleset {
    /// Makes a ruleset that denies `handled` everywhere until a rule allows it.
    ///
    /// # Errors
    /// EINVAL when `handled` has a right that the kernel does not know ([`Access::known_to`]),
    /// ENOMSG when it is empty.
    pub(crate) fn create(handled: Access) -> io::Result<Self> {
        let attr = RulesetAttr { handled_access_fs: handled.0 };
        let size = size_of::<RulesetAttr>();
        // SAFETY: landlock_create_ruleset reads `size` bytes from `attr`, which lives until the
        // call returns.
        let returned = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size, 0_u32)
        };
        let fd = c_int::try_from(super::checked(returned)?).expect("descriptors are ints");
        // SAFETY: landlock_create_ruleset returned a new descriptor (closed on exec) that nobody
        // else knows.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, handled })
    }

    /// Allows `access` to what `path` is open on and everything below. Rights that are not handled
    /// need no rule and are left out.
    ///
    /// # Errors
    /// EINVAL when `path` is no directory and `access` has more than [`Access::FILE`]; EBADFD when
    /// `path` is open on something without a place in the file system, such as a pipe.
    pub(crate) fn add_path(&self, path: BorrowedFd<'_>, access: Access) -> io::Result<()> {
        let allowed_access = (access & self.handled).0;
        let attr = PathBeneathAttr { allowed_access, parent_fd: path.as_raw_fd() };
        // SAFETY: for a rule of this type the kernel reads one `PathBeneathAttr`, which lives until
        // the call returns; the descriptors are borrowed.
        let returned = unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                self.fd.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const attr,
                0_u32,
            )
        };
        super::checked(returned).map(drop)
    }

    /// Puts the calling thread and its future children under the rules, for ever; callable after
    /// `vfork`.
    ///
    /// # Errors
    /// EPERM when neither `no_new_privs` is set nor `CAP_SYS_ADMIN` held, E2BIG below 16 others.
    /// Then nothing has changed.
    pub(crate) fn restrict_self(&self) -> io::Result<()> {
        // SAFETY: landlock_restrict_self takes no pointer, and the descriptor is ours.
        let returned =
            unsafe { libc::syscall(libc::SYS_landlock_restrict_self, self.fd.as_raw_fd(), 0_u32) };
        super::checked(returned).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;
    use crate::sys::clone::tests::in_child;
    use crate::sys::process::Ended;

    #[test]
    fn each_abi_knows_more() {
        assert_eq!(Access::known_to(1) & Access::REFER, Access::NONE);
        assert_eq!(Access::known_to(2), Access::known_to(1) | Access::REFER);
        assert_eq!(Access::known_to(4), Access::known_to(2) | Access::TRUNCATE);
        assert_eq!(Access::known_to(9), Access::ALL);
        assert_eq!(Access::ALL, Access::known_to(3) | Access::IOCTL_DEV);
    }

    #[test]
    fn what_no_rule_allows_is_denied() {
        let ruleset = Ruleset::create(Access::known_to(abi().expect("Landlock"))).expect("create");
        let usr = File::open("/usr").expect("/usr");
        ruleset.add_path(usr.as_fd(), Access::READ).expect("a rule");
        let open = |path| openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let ended = in_child(|| {
            let before = open(c"/etc/passwd").is_ok();
            let restricted =
                rustix::thread::set_no_new_privs(true).is_ok() && ruleset.restrict_self().is_ok();
            let denied = matches!(open(c"/etc/passwd"), Err(rustix::io::Errno::ACCESS));
            u8::from(!(before && restricted && denied && open(c"/usr/bin/env").is_ok()))
        });
        assert_eq!(ended, Ended::Exited(0));
    }

    #[test]
    fn a_file_takes_only_the_rights_of_a_file() {
        let ruleset = Ruleset::create(Access::known_to(abi().expect("Landlock"))).expect("create");
        let file = File::open("/etc/passwd").expect("a file");
        ruleset.add_path(file.as_fd(), Access::ALL).expect_err("rights of a directory");
        ruleset.add_path(file.as_fd(), Access::ALL & Access::FILE).expect("rights of a file");
    }
}
