//! Reads files out of a workspace's disk, and holds the rule by which every path on it is resolved.
//!
//! A path is resolved below the disk with openat2(2) (Linux 5.6), without links, so that nothing a job has planted leads
//! out. Batches that go in are in `batch`, listings in `listing`.
use super::home::Home;
use super::trouble;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::{ByteSink, ProviderError};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;

/// One read or write.
const CHUNK_BYTES: usize = 128 << 10;

/// How every path on a disk is resolved.
pub(super) const BELOW: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Opens the disk's root.
pub(crate) fn open_tree(home: &Home, id: &WorkspaceId) -> Result<OwnedFd, ProviderError> {
    let tree = home.tree(id);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(CWD, &tree, flags, Mode::empty()) {
        Ok(dir) => Ok(dir),
        Err(Errno::NOENT) => Err(ProviderError::NoWorkspace { id: id.clone() }),
        Err(error) => Err(trouble::on("open the disk", &tree)(error.into())),
    }
}

/// Shows a path of a workspace on one line.
pub(super) fn printable(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// Reads one regular file.
pub(crate) fn read(
    home: &Home,
    id: &WorkspaceId,
    path: &WsPath,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let tree = open_tree(home, id)?;
    let file = open_regular(&tree, id, path)?;
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut moved = 0_u64;
    loop {
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        let length = rustix::io::read(&file, buffer.as_mut_slice())
            .map_err(|error| step("read", path.as_bytes(), id, error))?;
        if length == 0 {
            return Ok(());
        }
        moved += length as u64;
        if moved > cx.budget_bytes {
            return Err(not_a_file(id, path, "larger than this operation may read"));
        }
        sink.push(&buffer[..length]).map_err(ProviderError::Peer)?;
    }
}

/// Without blocking, since a job can put a FIFO there.
fn open_regular(tree: &OwnedFd, id: &WorkspaceId, path: &WsPath) -> Result<OwnedFd, ProviderError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open_below(tree, id, path, flags)?;
    let meta = fstat(&file).map_err(|error| step("look at", path.as_bytes(), id, error))?;
    match FileType::from_raw_mode(meta.st_mode) {
        FileType::RegularFile => Ok(file),
        FileType::Directory => Err(not_a_file(id, path, "a directory")),
        _ => Err(not_a_file(id, path, "a socket, a FIFO or a device")),
    }
}

/// Opens what lies at `path`, without following a link.
pub(super) fn open_below(
    tree: &OwnedFd,
    id: &WorkspaceId,
    path: &WsPath,
    flags: OFlags,
) -> Result<OwnedFd, ProviderError> {
    let opened = openat2(tree, path.as_bytes(), flags, Mode::empty(), BELOW);
    opened.map_err(|error| match error {
        Errno::NOENT | Errno::NOTDIR => {
            ProviderError::NoFile { id: id.clone(), path: printable(path.as_bytes()) }
        }
        Errno::LOOP => not_a_file(id, path, "a link, or lies behind one"),
        Errno::XDEV => not_a_file(id, path, "outside the workspace's disk"),
        Errno::NXIO | Errno::NODEV => not_a_file(id, path, "a socket, a FIFO or a device"),
        other => step("open", path.as_bytes(), id, other),
    })
}

/// Makes the error of something that is no regular file.
pub(super) fn not_a_file(id: &WorkspaceId, path: &WsPath, what: &'static str) -> ProviderError {
    ProviderError::NotAFile { id: id.clone(), path: printable(path.as_bytes()), what }
}

/// Makes the error of a step on a path of a workspace.
pub(super) fn step(verb: &str, path: &[u8], id: &WorkspaceId, error: Errno) -> ProviderError {
    trouble::named(
        format!("could not {verb} `{}` in workspace {id}", printable(path)),
        io::Error::from(error),
    )
}
