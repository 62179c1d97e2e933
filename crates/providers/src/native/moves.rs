//! Moves a staged batch into place: all of it, or none, also where its writer is killed in the middle.
//!
//! One move is one rename(2). Where there are several, a plan lies beside the stage from before the first until after the
//! last: what is moved where, and which inode it was. Whoever finds a plan without a living writer finishes the batch with
//! it, or takes back what was moved; a stage without a plan has not begun to move, and is removed.
use super::batch::{DIRECTORY, STAGE, lock_stage};
use super::files::{BELOW, open_tree, printable, step};
use super::home::Home;
use super::trouble;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::ProviderError;
use bailiwick_isolation::disk;
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags, openat2, renameat_with, statat};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What is moved into place as one.
pub(super) struct Move {
    path: Vec<u8>,
    /// What was at the destination lies on the stage now.
    replaced: bool,
    /// The inode that was staged, as a plan has it.
    inode: u64,
}

impl Move {
    pub(super) fn of(path: &[u8]) -> Self {
        Self { path: path.to_vec(), replaced: false, inode: 0 }
    }
}

/// A stage, and the disk that it is moved to.
pub(super) struct Place<'p> {
    pub(super) id: &'p WorkspaceId,
    pub(super) tree: &'p OwnedFd,
    pub(super) stage: &'p OwnedFd,
    pub(super) overwrite: bool,
}

impl Place<'_> {
    /// Makes every move, or none.
    pub(super) fn publish(&self, moves: &mut [Move]) -> Result<(), ProviderError> {
        let mut parent = Parent::default();
        for index in 0..moves.len() {
            let Err(error) = self.publish_one(&mut moves[index], &mut parent) else { continue };
            self.undo(&moves[..index]);
            let path = &moves[index].path;
            return Err(match error {
                Errno::EXIST => {
                    ProviderError::Exists { id: self.id.clone(), path: printable(path) }
                }
                // A job beside this one put something else into its way.
                Errno::NOTDIR | Errno::LOOP => ProviderError::InTheWay {
                    id: self.id.clone(),
                    path: printable(path),
                    what: "behind something that is no directory any more",
                },
                other => step("publish", path, self.id, other),
            });
        }
        Ok(())
    }

    fn publish_one(&self, one: &mut Move, parent: &mut Parent) -> rustix::io::Result<()> {
        let (above, name) = split(&one.path);
        let parent = parent.of(self.tree, above)?;
        let (stage, from) = (self.stage, one.path.as_slice());
        match renameat_with(stage, from, parent, name, RenameFlags::NOREPLACE) {
            // A directory that appeared meanwhile is never replaced, and never replaces.
            Err(Errno::EXIST)
                if self.overwrite && !is_dir(stage, from) && !is_dir(parent, name) =>
            {
                one.replaced = true;
                renameat_with(stage, from, parent, name, RenameFlags::EXCHANGE)
            }
            other => other,
        }
    }

    /// Takes back what was published: the reverse order of the same moves. What fails here was changed by somebody else
    /// meanwhile, and is left alone.
    fn undo(&self, published: &[Move]) {
        let mut parent = Parent::default();
        for one in published.iter().rev() {
            let (above, name) = split(&one.path);
            let Ok(parent) = parent.of(self.tree, above) else { continue };
            let flags = if one.replaced { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
            renameat_with(parent, name, self.stage, one.path.as_slice(), flags).ok();
        }
    }

    /// Finishes the moves of a writer that was killed; what cannot be finished is taken back, but for what a job has put in
    /// its place since.
    fn finish(&self, planned: Vec<Move>) -> rustix::io::Result<()> {
        let (mut done, mut rest) = (Vec::new(), Vec::new());
        for mut one in planned {
            match inode(self.stage, &one.path)? {
                Some(staged) if staged == one.inode => rest.push(one),
                other => {
                    one.replaced = other.is_some();
                    done.push(one);
                }
            }
        }
        if self.publish(&mut rest).is_err() {
            done.retain(|one| inode(self.tree, &one.path) == Ok(Some(one.inode)));
            self.undo(&done);
        }
        Ok(())
    }
}

/// Returns the inode of what lies at `path`, where something does.
fn inode(below: &OwnedFd, path: &[u8]) -> rustix::io::Result<Option<u64>> {
    match statat(below, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(meta) => Ok(Some(meta.st_ino)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_dir<Fd: AsFd>(at: Fd, path: &[u8]) -> bool {
    statat(at, path, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|meta| FileType::from_raw_mode(meta.st_mode) == FileType::Directory)
}

/// The directory of the last move; the next one is mostly in it, too.
#[derive(Default)]
struct Parent {
    path: Vec<u8>,
    open: Option<OwnedFd>,
}

impl Parent {
    fn of(&mut self, tree: &OwnedFd, path: &[u8]) -> rustix::io::Result<&OwnedFd> {
        if self.open.is_none() || self.path != path {
            let path = if path.is_empty() { b"." } else { path };
            self.open = Some(openat2(tree, path, DIRECTORY, Mode::empty(), BELOW)?);
        }
        self.path = path.to_vec();
        Ok(self.open.as_ref().expect("it was opened just now, or before"))
    }
}

pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The plan of a batch: beside its stage while it is moved into place.
pub(super) struct Plan(PathBuf);

/// What the name of a plan begins with; the rest is that of its stage.
const PLAN: &str = "moves.";

/// The last record of a plan; one without it was never complete, so that nothing was moved by it.
const END: &[u8] = b"end";

impl Plan {
    /// Returns where the plan of a stage is.
    fn beside(stage: &Path) -> Self {
        let name = stage.file_name().unwrap_or_default().as_bytes();
        let rest = trouble::os(name.strip_prefix(STAGE.as_bytes()).unwrap_or(name)).as_os_str();
        let mut plan = std::ffi::OsString::from(PLAN);
        plan.push(rest);
        Self(stage.with_file_name(plan))
    }

    /// Writes the plan of moves that are about to begin.
    pub(super) fn write(path: &Path, place: &Place<'_>, moves: &[Move]) -> io::Result<Self> {
        let plan = Self::beside(path);
        let mut records = if place.overwrite { b"over\0".to_vec() } else { b"new\0".to_vec() };
        for one in moves {
            let inode = inode(place.stage, &one.path)?.unwrap_or_default();
            write!(records, "{inode} ")?;
            records.extend_from_slice(&one.path);
            records.push(0);
        }
        records.extend_from_slice(END);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&plan.0)?;
        let written = file.write_all(&records);
        if written.is_err() {
            plan.remove();
        }
        written.map(|()| plan)
    }

    /// Reads whether the batch may overwrite, and its moves; `None` where it had not begun to move.
    fn read(&self) -> io::Result<Option<(bool, Vec<Move>)>> {
        let bytes = match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let mut records: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
        if records.pop() != Some(END) || records.is_empty() {
            return Ok(None);
        }
        let overwrite = records.remove(0) == b"over";
        let moves: Option<Vec<_>> = records.into_iter().map(planned).collect();
        Ok(moves.map(|moves| (overwrite, moves)))
    }

    /// Removes it, once everything is where it belongs; a plan that stays finds nothing left to move.
    pub(super) fn remove(&self) {
        fs::remove_file(&self.0).ok();
    }
}

/// Reads one record of a plan.
fn planned(record: &[u8]) -> Option<Move> {
    let at = record.iter().position(|byte| *byte == b' ')?;
    let inode = core::str::from_utf8(&record[..at]).ok()?.parse().ok()?;
    Some(Move { inode, ..Move::of(&record[at + 1..]) })
}

/// What becomes of a stage whose writer is dead and that had begun to be moved into place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begun {
    /// It stays, for whoever settles its batch.
    Stays,
    /// It is finished, or taken back.
    Ends,
}

/// Removes what batches staged that were killed before they began to move.
pub(crate) fn clear_stages(home: &Home, id: &WorkspaceId) -> Result<(), ProviderError> {
    clear(home, id, Begun::Stays)
}

/// Finishes what batches had begun to move that were killed, and removes what the others had staged.
pub(crate) fn finish_stages(home: &Home, id: &WorkspaceId) -> Result<(), ProviderError> {
    clear(home, id, Begun::Ends)
}

fn clear(home: &Home, id: &WorkspaceId, begun: Begun) -> Result<(), ProviderError> {
    let workspace = home.workspace(id);
    let failed = || trouble::on("clear what was staged in", &workspace);
    let entries = match fs::read_dir(&workspace) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed())?,
    };
    for entry in entries {
        let name = entry.map_err(failed())?.file_name();
        if !name.as_bytes().starts_with(STAGE.as_bytes()) {
            continue;
        }
        let path = workspace.join(&name);
        // The lock is held until it is gone.
        let Some(stage) = lock_stage(&path).map_err(failed())? else { continue };
        let plan = Plan::beside(&path);
        let planned = plan.read().map_err(failed())?;
        match (planned, begun) {
            (Some(_), Begun::Stays) => continue,
            (Some(planned), Begun::Ends) => finish(home, id, &stage, planned)?,
            (None, _) => {}
        }
        plan.remove();
        disk::remove(&path).map_err(failed())?;
    }
    Ok(())
}

/// Finishes one batch, where there still is a disk that it was for.
fn finish(
    home: &Home,
    id: &WorkspaceId,
    stage: &OwnedFd,
    (overwrite, moves): (bool, Vec<Move>),
) -> Result<(), ProviderError> {
    let tree = match open_tree(home, id) {
        Err(ProviderError::NoWorkspace { .. }) => return Ok(()),
        other => other?,
    };
    let place = Place { id, tree: &tree, stage, overwrite };
    let workspace = home.workspace(id);
    let failed = trouble::on("finish what was staged in", &workspace);
    place.finish(moves).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// What a batch of four moves would leave: a directory, a file and a link in the place of older ones, and a new file.
    const MOVES: [&str; 4] = ["new", "old", "link", "there/y"];

    struct World {
        _directory: tempfile::TempDir,
        home: Home,
        id: WorkspaceId,
    }

    impl World {
        /// A workspace in which a writer was killed after so many of its moves.
        fn killed_after(count: usize) -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let home = Home::at(directory.path().to_owned());
            let world = Self {
                _directory: directory,
                home,
                id: WorkspaceId::parse("demo").expect("an id"),
            };
            let (tree, path) = (world.tree(), world.tree().with_file_name("stage.1.0"));
            for directory in [tree.join("there"), path.join("new"), path.join("there")] {
                fs::create_dir_all(directory).expect("made");
            }
            fs::write(tree.join("old"), "old").expect("written");
            symlink("before", tree.join("link")).expect("linked");
            fs::write(path.join("new/n"), "n").expect("written");
            fs::write(path.join("old"), "newer").expect("written");
            symlink("after", path.join("link")).expect("linked");
            fs::write(path.join("there/y"), "y").expect("written");
            let stage = lock_stage(&path).expect("looked at").expect("ours");
            let open = open_tree(&world.home, &world.id).expect("open");
            let place = Place { id: &world.id, tree: &open, stage: &stage, overwrite: true };
            let mut moves = MOVES.map(|path| Move::of(path.as_bytes()));
            Plan::write(&path, &place, &moves).expect("planned");
            place.publish(&mut moves[..count]).expect("moved");
            world
        }

        fn tree(&self) -> PathBuf {
            self.home.tree(&self.id)
        }

        /// What lies in the workspace, in one line.
        fn seen(&self) -> String {
            let read = |name: &str| fs::read_to_string(self.tree().join(name)).unwrap_or_default();
            let link = fs::read_link(self.tree().join("link")).expect("a link");
            format!("{} {} {} {}", read("new/n"), read("old"), link.display(), read("there/y"))
        }

        fn beside(&self) -> usize {
            let entries = fs::read_dir(self.home.workspace(&self.id)).expect("listed");
            entries.count() - 1
        }
    }

    #[test]
    fn a_batch_that_was_killed_between_two_moves_lands_whole() {
        for count in 0..=MOVES.len() {
            let world = World::killed_after(count);
            clear_stages(&world.home, &world.id).expect("cleared");
            assert_eq!(world.beside(), 2, "it is left to whoever settles the batch");
            finish_stages(&world.home, &world.id).expect("finished");
            assert_eq!((world.seen().as_str(), world.beside()), ("n newer after y", 0), "{count}");
        }
    }

    #[test]
    fn a_batch_that_cannot_be_finished_is_taken_back() {
        for count in 0..MOVES.len() {
            let world = World::killed_after(count);
            fs::create_dir(world.tree().join("there/y")).expect("made");
            finish_stages(&world.home, &world.id).expect("taken back");
            assert_eq!((world.seen().as_str(), world.beside()), (" old before ", 0), "{count}");
        }
    }

    #[test]
    fn a_batch_whose_plan_is_not_whole_has_not_begun() {
        let world = World::killed_after(0);
        let plan = world.tree().with_file_name("moves.1.0");
        let bytes = fs::read(&plan).expect("read");
        for length in 0..bytes.len() {
            fs::write(&plan, &bytes[..length]).expect("written");
            assert!(Plan(plan.clone()).read().expect("read").is_none(), "{length}");
        }
        finish_stages(&world.home, &world.id).expect("cleared");
        assert_eq!((world.seen().as_str(), world.beside()), (" old before ", 0));
    }
}
