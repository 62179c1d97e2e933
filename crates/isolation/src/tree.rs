//! Clones parts of the host as detached mounts, which init then attaches.
//!
//! Root makes them before the namespaces exist, since a path below a private home, or a descriptor of another mount
//! namespace, would be refused inside; an ordinary user's init makes them itself. Sources: open_tree(2) (Linux 5.2),
//! mount_setattr(2) (5.12), id-mapped mounts (5.12).
use crate::plan::{Identity, Source};
use crate::sys::clone::{Cloned, Namespaces, clone_sandbox};
use crate::sys::mount::{MountChange, mount_setattr};
use crate::sys::process::{exit_now, wait};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::mount::{MountAttrFlags, MountPropagationFlags, OpenTreeFlags, open_tree};
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Clones each source as a detached tree.
///
/// # Errors
/// Which source, and why; the trees made so far are gone.
pub(crate) fn clone_all(
    sources: &[Source],
    identity: Identity,
) -> Result<Vec<OwnedFd>, (String, io::Error)> {
    sources
        .iter()
        .map(|source| {
            clone_one(source, identity)
                .map_err(|error| (format!("clone the mount {source}"), error))
        })
        .collect()
}

fn clone_one(source: &Source, identity: Identity) -> io::Result<OwnedFd> {
    let tree = open_clone(source)?;
    let users = source.owner.map(|owner| UserNamespace::mapping(owner, identity)).transpose()?;
    let change = MountChange {
        set: attributes(source),
        // A tree made by an ordinary user on a host whose `/` is shared would be a slave of it.
        propagation: Some(MountPropagationFlags::PRIVATE),
        id_map: users.as_ref().map(AsFd::as_fd),
        recursive: true,
        ..MountChange::default()
    };
    mount_setattr(tree.as_fd(), &change)?;
    Ok(tree)
}

fn open_clone(source: &Source) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    if !source.resolved {
        return Ok(open_tree(CWD, source.path.as_bytes(), flags)?);
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = OFlags::PATH | OFlags::CLOEXEC;
    let place = openat2(CWD, source.path.as_bytes(), place, Mode::empty(), resolve)?;
    Ok(open_tree(&place, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)?)
}

fn attributes(source: &Source) -> MountAttrFlags {
    let mut set = MountAttrFlags::MOUNT_ATTR_NOSUID;
    set.set(MountAttrFlags::MOUNT_ATTR_RDONLY, source.read_only);
    set.set(MountAttrFlags::MOUNT_ATTR_NODEV, !source.device);
    set
}

/// A user namespace that exists only as a map, and is kept by its descriptor.
struct UserNamespace(OwnedFd);

impl UserNamespace {
    /// Maps the `owner` on disk to the job's identity.
    fn mapping(owner: (u32, u32), identity: Identity) -> io::Result<Self> {
        match clone_sandbox(Namespaces::USER, None)? {
            Cloned::Child => wait_to_be_killed(),
            Cloned::Parent { pid, .. } => {
                let opened = write_and_open(pid, owner, identity);
                kill_process(pid, Signal::KILL)?;
                wait(pid)?;
                opened.map(Self)
            }
        }
    }
}

/// Exists until its parent has opened its namespace; if the parent dies first, so does this.
fn wait_to_be_killed() -> ! {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).ok();
    let long = rustix::thread::Timespec { tv_sec: 60, tv_nsec: 0 };
    // An early return changes nothing: the parent needs a few microseconds.
    drop(rustix::thread::nanosleep(&long));
    exit_now(0)
}

fn write_and_open(pid: Pid, owner: (u32, u32), identity: Identity) -> io::Result<OwnedFd> {
    let pid = pid.as_raw_nonzero();
    let map = |name: &str, outside: u32, inside: u32| {
        std::fs::write(format!("/proc/{pid}/{name}"), format!("{outside} {inside} 1"))
    };
    map("uid_map", owner.0, identity.uid)?;
    map("gid_map", owner.1, identity.gid)?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(format!("/proc/{pid}/ns/user"), flags, Mode::empty())?)
}

impl AsFd for UserNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tree_is_nosuid_and_only_a_device_may_be_one() {
        for (read_only, device) in [(true, true), (true, false), (false, true), (false, false)] {
            let source =
                Source { path: "/x".into(), read_only, device, resolved: false, owner: None };
            let set = attributes(&source);
            assert!(set.contains(MountAttrFlags::MOUNT_ATTR_NOSUID));
            assert_eq!(set.contains(MountAttrFlags::MOUNT_ATTR_RDONLY), read_only);
            assert_eq!(set.contains(MountAttrFlags::MOUNT_ATTR_NODEV), !device);
        }
    }
}
