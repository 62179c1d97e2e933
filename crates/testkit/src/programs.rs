//! The programs under test, at a place where every user can run them.
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory that holds the programs to test, instead of those that cargo built.
const OVERRIDE: &str = "BAILIWICK_TEST_BIN";

/// What is tested.
const PROGRAMS: [&str; 2] = ["bailiwick", "bailiwick-supervisor"];

/// Returns a command of the host.
#[expect(clippy::disallowed_methods, reason = "tests start the programs that they test")]
pub(crate) fn command(program: &Path) -> Command {
    Command::new(program)
}

/// Returns the command under test; `built` is the one that cargo built for the test.
#[expect(clippy::disallowed_methods, reason = "tests have their own variables")]
pub(crate) fn bailiwick(built: &Path) -> PathBuf {
    match std::env::var_os(OVERRIDE) {
        Some(folder) => Path::new(&folder).join(PROGRAMS[0]),
        None => built.to_owned(),
    }
}

/// Fails where the supervisor is not beside the command, and says what builds it.
pub(crate) fn require_supervisor(bailiwick: &Path) {
    let supervisor = bailiwick.with_file_name(PROGRAMS[1]);
    assert!(
        supervisor.is_file(),
        "there is no supervisor beside {}: run `cargo xtask dist` and set {OVERRIDE} to target/dist",
        bailiwick.display()
    );
}

/// Copies the programs to where every user can run them, once for each build, and returns the command's copy.
pub(crate) fn for_everybody(bailiwick: &Path) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("bailiwick-test-bin-{}", build_of(bailiwick)));
    if !folder.is_dir() {
        // Two tests of one process are two threads.
        let own = format!("{}-{:?}", std::process::id(), std::thread::current().id());
        let partial = folder.with_extension(own);
        fs::DirBuilder::new().mode(0o755).create(&partial).expect("a folder for the programs");
        fs::set_permissions(&partial, Permissions::from_mode(0o755)).expect("the folder is ours");
        for name in PROGRAMS {
            let from = bailiwick.with_file_name(name);
            if from.is_file() {
                fs::copy(&from, partial.join(name)).expect("a copy of a program");
                fs::set_permissions(partial.join(name), Permissions::from_mode(0o755))
                    .expect("ours");
            }
        }
        if fs::rename(&partial, &folder).is_err() {
            // Another test was quicker with the same build.
            fs::remove_dir_all(&partial).expect("our own folder");
        }
    }
    let owner =
        File::open(&folder).and_then(|open| open.metadata()).expect("the folder is there").uid();
    assert_eq!(
        owner,
        rustix::process::geteuid().as_raw(),
        "somebody else made {}",
        folder.display()
    );
    folder.join(PROGRAMS[0])
}

/// Tells builds apart: sizes and times of the programs.
fn build_of(bailiwick: &Path) -> String {
    let parts = PROGRAMS.iter().map(|name| match fs::metadata(bailiwick.with_file_name(name)) {
        Ok(found) => format!("{}-{}-{}", found.len(), found.mtime(), found.mtime_nsec()),
        Err(_) => "none".to_owned(),
    });
    parts.collect::<Vec<_>>().join("-")
}
