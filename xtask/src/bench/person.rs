//! Who measures: root and an ordinary user, or whoever calls when that is not root.
//!
//! The samples of the ordinary user are taken by a process that already runs as that user: a parent that changed the
//! id for each child would pay for a `fork` instead of a `posix_spawn`, on both sides.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Failure;
use crate::host;

/// The ordinary user that root makes for the time of a bench.
const NAME: &str = "bailiwick-bench";

/// One user that measures.
#[derive(Debug)]
pub(crate) struct Person {
    /// What the report calls it.
    pub(crate) name: String,
    /// The user and group id to change to, or nothing to stay.
    ids: Option<(String, String)>,
    /// Whether this bench made the user and so removes it.
    made: bool,
}

/// Returns everybody who measures here, root first.
///
/// # Errors
/// When the ordinary user cannot be made.
pub(crate) fn everybody() -> Result<Vec<Person>, Failure> {
    let name = host::output(host::command("id").arg("-un"))?;
    let caller = Person { name, ids: None, made: false };
    if host::is_root() { Ok(vec![caller, ordinary()?]) } else { Ok(vec![caller]) }
}

fn ordinary() -> Result<Person, Failure> {
    let made = host::output(host::command("id").args(["-u", NAME])).is_err();
    if made {
        host::run(host::command("useradd").args(["--system", "--create-home", NAME]))?;
    }
    let uid = host::output(host::command("id").args(["-u", NAME]))?;
    let gid = host::output(host::command("id").args(["-g", NAME]))?;
    Ok(Person { name: NAME.into(), ids: Some((uid, gid)), made })
}

impl Person {
    /// Makes a folder under `parent` that only this person can enter.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn folder(&self, parent: &Path) -> Result<PathBuf, Failure> {
        let folder = parent.join(&self.name);
        let mut install = host::command("install");
        install.args(["-d", "-m", "0700"]);
        if let Some((uid, gid)) = &self.ids {
            install.args(["-o", uid, "-g", gid]);
        }
        host::run(install.arg(&folder))?;
        Ok(folder)
    }

    /// Returns a command that runs `program` as this person, with an environment of its own.
    pub(crate) fn command(&self, program: &Path, home: &Path) -> Command {
        let mut command = match &self.ids {
            None => host::command(program),
            Some((uid, gid)) => {
                let mut setpriv = host::command("setpriv");
                setpriv.args(["--reuid", uid, "--regid", gid, "--clear-groups", "--"]).arg(program);
                setpriv
            }
        };
        command
            .current_dir(home)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("LANG", "C.UTF-8")
            .env("HOME", home);
        command
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        if self.made {
            // A user that stays behind is found and used again by the next bench.
            drop(host::output(host::command("userdel").args(["--remove", NAME])));
        }
    }
}
