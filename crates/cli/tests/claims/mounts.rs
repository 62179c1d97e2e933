//! A job cannot change the tree of mounts that it lives in.
use crate::claim::{Claim, Control, attempt};
use crate::table::check;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::tried(
        "mount-tmpfs",
        "A job cannot mount a file system.",
        attempt("./probe mount-tmpfs", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "mount-bind",
        "A job cannot make a bind mount.",
        attempt("./probe mount-bind", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "mount-new-api",
        "A job cannot make a file system by the new mount interface.",
        attempt("./probe new-mount-api", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "mount-open-tree",
        "A job cannot copy a mount.",
        attempt("./probe open-tree", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "mount-remount",
        "A job cannot change the attributes of a mount.",
        attempt("./probe remount", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "mount-umount",
        "A job cannot unmount.",
        attempt("./probe umount", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "root-pivot",
        "A job cannot change its root by pivot_root.",
        attempt("./probe pivot-root", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "root-chroot",
        "A job cannot change its root by chroot.",
        attempt("./probe chroot", &["EPERM"], Control::Namespaces),
    ),
    Claim::tried(
        "mknod-device",
        "A job cannot make a device.",
        attempt("./probe mknod-device", &["EPERM", "EACCES"], Control::Root),
    ),
    Claim::tried(
        "mknod-whiteout",
        "A job cannot make an overlay's whiteout, the one device that needs no privilege.",
        attempt("./probe mknod-whiteout", &["EACCES"], Control::Plain),
    ),
];

#[test]
fn a_job_changes_no_mount_and_makes_no_device() {
    check("mounts and devices", CLAIMS);
}
