//! Looks at the directory in which a job is to start, before anything of the job is made.
//!
//! It is resolved below the disk without links (openat2(2)). The job itself enters it inside its sandbox: what another job puts
//! there in between can make that fail, but lead nowhere else.
use super::home::Home;
use super::trouble;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::ProviderError;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Below the disk, and through no link.
const BELOW: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Refuses what is no directory of the workspace.
pub(crate) fn check(home: &Home, id: &WorkspaceId, path: &WsPath) -> Result<(), ProviderError> {
    let tree = home.tree(id);
    let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let disk = match openat(CWD, &tree, place | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::NOENT) => return Err(ProviderError::NoWorkspace { id: id.clone() }),
        other => other.map_err(|error| trouble::on("open the disk", &tree)(error.into()))?,
    };
    let why = match openat2(&disk, path.as_bytes(), place, Mode::empty(), BELOW) {
        Ok(_) => return Ok(()),
        Err(Errno::NOENT) => "it is not there",
        Err(Errno::LOOP) => "it is a link, or lies behind one",
        Err(Errno::NOTDIR) => "it is no directory, or lies below a file",
        Err(Errno::XDEV) => "it is outside the workspace's disk",
        Err(error) => {
            let place = tree.join(trouble::os(path.as_bytes()));
            return Err(trouble::on("look at the directory", &place)(error.into()));
        }
    };
    let path = trouble::printable(trouble::os(path.as_bytes()));
    Err(ProviderError::WorkingDirectory { id: id.clone(), path, why })
}
