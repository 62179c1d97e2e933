//! Lists what lies on a workspace's disk, in the order of the paths' bytes.
//!
//! No link is followed and no directory stays open while its children are visited, so that no tree is too deep. What a job
//! removes or replaces meanwhile is left out; a directory that it closed to its owner is listed without its entries.
use super::files::{BELOW, open_below, open_tree, step};
use super::home::Home;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::provider::{ListSpec, Listed, ListedKind, Listing, ProviderError};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat2, readlinkat, statat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Something that is still to be visited.
enum Step {
    /// An entry.
    Entry(Listed),
    /// What lies in a directory.
    Below(WsPath),
}

/// Lists a directory of the disk, or the one entry at `spec.below`.
pub(crate) fn list(
    home: &Home,
    id: &WorkspaceId,
    spec: &ListSpec,
    cx: &OpCx<'_>,
) -> Result<Listing, ProviderError> {
    let tree = open_tree(home, id)?;
    let mut walk = Walk { id, spec, cx, tree: &tree, found: Listing::default() };
    let first = match &spec.below {
        None => walk.steps(None, &tree)?,
        Some(path) => match walk.top(path)? {
            Step::Entry(entry) => vec![Step::Entry(entry)],
            Step::Below(path) => {
                // Named by the caller, so that a directory which cannot be opened is an error.
                let dir = open_below(&tree, id, &path, DIRECTORY)?;
                walk.steps(Some(&path), &dir)?
            }
        },
    };
    walk.visit(first)?;
    Ok(walk.found)
}

struct Walk<'w> {
    id: &'w WorkspaceId,
    spec: &'w ListSpec,
    cx: &'w OpCx<'w>,
    tree: &'w OwnedFd,
    found: Listing,
}

impl Walk<'_> {
    /// Looks at what the caller named.
    fn top(&self, path: &WsPath) -> Result<Step, ProviderError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = open_below(self.tree, self.id, path, flags)?;
        let trouble = |error| step("look at", path.as_bytes(), self.id, error);
        let meta = fstat(&open).map_err(trouble)?;
        match FileType::from_raw_mode(meta.st_mode) {
            FileType::Directory => Ok(Step::Below(path.clone())),
            FileType::Symlink => {
                // Of a descriptor that is a link, the empty path reads it (readlinkat(2)).
                let target = readlinkat(&open, "", Vec::new()).map_err(trouble)?;
                let what = ListedKind::Link { target: target.into_bytes().into() };
                Ok(Step::Entry(listed(path.clone(), what, &meta)))
            }
            _ => Ok(Step::Entry(listed(path.clone(), kind_of(&meta), &meta))),
        }
    }

    /// Visits steps, and those that they lead to, until there is nothing left or the limit is met.
    fn visit(&mut self, first: Vec<Step>) -> Result<(), ProviderError> {
        let mut left = first;
        while let Some(next) = left.pop() {
            if let Some(interrupted) = self.cx.interrupted() {
                return Err(interrupted.into());
            }
            match next {
                Step::Entry(_) if self.found.entries.len() as u64 >= self.spec.limit => {
                    self.found.more = true;
                    return Ok(());
                }
                Step::Entry(entry) => self.found.entries.push(entry),
                Step::Below(path) => {
                    let dir = openat2(self.tree, path.as_bytes(), DIRECTORY, Mode::empty(), BELOW);
                    match dir {
                        Ok(dir) => left.extend(self.steps(Some(&path), &dir)?),
                        // Gone, replaced or closed since it was found.
                        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
                        Err(error) => {
                            return Err(step("list", path.as_bytes(), self.id, error));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns what is in a directory, the last one first.
    ///
    /// A directory's own children come where its name with a `/` does: `a`, `a.txt`, `a/b`.
    fn steps(&mut self, at: Option<&WsPath>, dir: &OwnedFd) -> Result<Vec<Step>, ProviderError> {
        let shown = at.map_or(&b"."[..], WsPath::as_bytes);
        let trouble = |error: Errno| step("list", shown, self.id, error);
        let mut found: Vec<(Vec<u8>, Step)> = Vec::new();
        let entries = match Dir::read_from(dir) {
            // Removed since it was opened.
            Err(Errno::NOENT) => return Ok(Vec::new()),
            other => other.map_err(trouble)?,
        };
        for entry in entries {
            let entry = match entry {
                Err(Errno::NOENT) => break,
                other => other.map_err(trouble)?,
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let path = at.map_or_else(|| WsPath::parse(name), |at| at.join(name));
            // Longer than any path that could be asked for again.
            let Ok(path) = path else {
                self.found.more = true;
                continue;
            };
            let Some(entry) = look(dir, name, path) else { continue };
            if self.spec.recursive && entry.what == ListedKind::Directory {
                found.push(([name, b"/"].concat(), Step::Below(entry.path.clone())));
            }
            found.push((name.to_vec(), Step::Entry(entry)));
        }
        found.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        Ok(found.into_iter().map(|(_, step)| step).collect())
    }
}

/// Looks at an entry; `None` where it is gone.
fn look(dir: &OwnedFd, name: &[u8], path: WsPath) -> Option<Listed> {
    let meta = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let what = if FileType::from_raw_mode(meta.st_mode) == FileType::Symlink {
        let target = readlinkat(dir, name, Vec::new()).ok()?;
        ListedKind::Link { target: target.into_bytes().into() }
    } else {
        kind_of(&meta)
    };
    Some(listed(path, what, &meta))
}

fn kind_of(meta: &Stat) -> ListedKind {
    match FileType::from_raw_mode(meta.st_mode) {
        FileType::RegularFile => {
            ListedKind::File { size_bytes: u64::try_from(meta.st_size).unwrap_or_default() }
        }
        FileType::Directory => ListedKind::Directory,
        _ => ListedKind::Special,
    }
}

fn listed(path: WsPath, what: ListedKind, meta: &Stat) -> Listed {
    Listed { path, what, mode: meta.st_mode & 0o777, mtime: meta.st_mtime }
}
