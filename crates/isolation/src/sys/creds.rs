//! Giving up ids, groups and capabilities, in the order in which the kernel allows it.
//!
//! Nothing here gains anything, and single steps are in `rustix` (`thread::set_no_new_privs`,
//! `process::set_parent_process_death_signal`, `process::set_dumpable_behavior`); all are callable
//! after `vfork`. Sources: credentials(7), user_namespaces(7), capabilities(7).

use std::io;

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Leaves every supplementary group.
///
/// # Errors
/// EPERM without `CAP_SETGID`, or in a user namespace whose `setgroups` is denied. Then nothing has
/// changed.
pub(crate) fn leave_groups() -> io::Result<()> {
    Ok(rustix::thread::set_thread_groups(&[])?)
}

/// Sets the real, effective and saved ids of the calling thread, the group first: without the
/// user's privilege it could no longer be changed.
///
/// The kernel then forgets the parent death signal and makes the process undumpable (prctl(2)).
///
/// # Errors
/// EPERM without privilege, EINVAL for an id that the user namespace does not map. The group may
/// have changed.
pub(crate) fn become_ids(uid: Uid, gid: Gid) -> io::Result<()> {
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    Ok(rustix::thread::set_thread_res_uid(uid, uid, uid)?)
}

/// Drops every capability, and that an `execve` could bring one back: bounding, ambient, and the
/// three sets of the calling thread.
///
/// # Errors
/// EPERM without `CAP_SETPCAP`. The thread may have lost some capabilities, and has gained none.
pub(crate) fn drop_capabilities() -> io::Result<()> {
    drop_bounding_set()?;
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Drops capability after capability until the kernel does not know the next one (`cap_last_cap`).
fn drop_bounding_set() -> io::Result<()> {
    for capability in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << capability);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::clone::tests::in_child;
    use crate::sys::process::Ended;

    /// Skips without root: the bounding set needs `CAP_SETPCAP`.
    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn no_capability_is_left_in_any_set() {
        if !is_root() {
            return;
        }
        let ended = in_child(|| {
            let dropped = drop_capabilities();
            let bounding = rustix::thread::capability_is_in_bounding_set(CapabilitySet::SYS_ADMIN);
            let sets = rustix::thread::capabilities(None);
            let left = sets.map(|sets| sets.effective | sets.permitted | sets.inheritable);
            let none = left == Ok(CapabilitySet::empty()) && bounding == Ok(false);
            u8::from(dropped.is_err() || !none)
        });
        assert_eq!(ended, Ended::Exited(0));
    }

    #[test]
    fn ids_cannot_be_taken_back() {
        if !is_root() {
            return;
        }
        let ended = in_child(|| {
            let left = leave_groups();
            let became = become_ids(Uid::from_raw(65534), Gid::from_raw(65534));
            let back = become_ids(Uid::ROOT, Gid::ROOT);
            u8::from(left.is_err() || became.is_err() || back.is_ok())
        });
        assert_eq!(ended, Ended::Exited(0));
    }
}
