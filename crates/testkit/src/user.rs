//! Who runs a test's commands: root, and an ordinary user that root makes for it.
use crate::programs;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// The ordinary user that root makes; it stays for the next run.
const NAME: &str = "bailiwick-test";

/// Who runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum User {
    /// Root.
    Root,
    /// An ordinary user: one that root made, or whoever runs the tests.
    Ordinary,
}

impl User {
    /// Returns everybody that can be had: both for root, else only the caller itself.
    #[must_use]
    pub fn all() -> &'static [Self] {
        if is_root() { &[Self::Root, Self::Ordinary] } else { &[Self::Ordinary] }
    }

    /// Returns the ids to change to, where this is somebody else than the caller.
    pub(crate) fn ids(self) -> Option<(u32, u32)> {
        if self == Self::Root {
            assert!(is_root(), "only root can run a test as root");
            return None;
        }
        is_root().then(ordinary)
    }

    /// Returns a command that runs `program` as this user.
    #[must_use]
    pub fn command(self, program: &Path) -> Command {
        let Some((uid, gid)) = self.ids() else { return programs::command(program) };
        let mut command = programs::command(Path::new("setpriv"));
        command.args(["--reuid", &uid.to_string(), "--regid", &gid.to_string()]);
        command.args(["--clear-groups", "--"]).arg(program);
        command
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Finds the ordinary user, and makes it where there is none; one process at a time.
fn ordinary() -> (u32, u32) {
    let lock =
        File::create(std::env::temp_dir().join("bailiwick-test-user.lock")).expect("a lock file");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("a lock");
    if id("-u").is_none() {
        let mut useradd = programs::command(Path::new("useradd"));
        let made =
            useradd.args(["--system", "--create-home", NAME]).status().expect("useradd is there");
        assert!(made.success(), "root can make the user {NAME}");
    }
    let ids = (id("-u"), id("-g"));
    (ids.0.expect("the user exists"), ids.1.expect("the user has a group"))
}

fn id(which: &str) -> Option<u32> {
    let asked =
        programs::command(Path::new("id")).args([which, NAME]).output().expect("id is there");
    let text = String::from_utf8(asked.stdout).expect("an id is text");
    text.trim().parse().ok().filter(|_| asked.status.success())
}
