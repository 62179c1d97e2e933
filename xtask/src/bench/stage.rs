//! The folder in which a bench takes place: binaries that everybody may run, and a state folder for each person.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The stage's parent: a disk on every distribution, where `/tmp` may be memory and would make commits free.
const PARENT: &str = "/var/tmp";

/// A folder that goes away when it is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    folder: PathBuf,
}

impl Stage {
    /// Makes the folder and copies `programs` into it, runnable by everybody.
    ///
    /// # Errors
    /// When a file cannot be copied; the folder is removed then.
    pub(crate) fn set(programs: &[PathBuf]) -> Result<Self, Failure> {
        let folder = Path::new(PARENT).join(format!("bailiwick-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).map_err(Failure::at(folder.display()))?;
        let stage = Self { folder };
        open(stage.folder())?;
        for program in programs {
            let copy = stage.folder.join(program.file_name().expect("a program has a name"));
            std::fs::copy(program, &copy).map_err(Failure::at(program.display()))?;
            open(&copy)?;
        }
        Ok(stage)
    }

    /// Returns the folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

/// Lets everybody read and run `path`, whatever the umask.
fn open(path: &Path) -> Result<(), Failure> {
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, mode).map_err(Failure::at(path.display()))
}
