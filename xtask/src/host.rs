//! The programs and files of the host that recipes use.
//!
//! The one place of `xtask` that makes a `Command`. It knows nothing of what the programs are for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::MetadataCommand;

use crate::failure::Failure;

/// Returns a command for `program`, found by PATH.
#[expect(
    clippy::disallowed_methods,
    reason = "recipes run cargo, git and the benched programs; the ban is for product code"
)]
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Runs `command` to its end with the caller's stdio.
///
/// # Errors
/// When it does not start or does not exit with 0.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let shown = format!("{command:?}");
    let status = command.status().map_err(Failure::at(&shown))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{shown}: {status}"))) }
}

/// Runs `command` to its end and returns what it printed, without the white space around it.
///
/// # Errors
/// When it does not start or does not exit with 0; then its own words are in the failure.
pub(crate) fn output(command: &mut Command) -> Result<String, Failure> {
    let shown = format!("{command:?}");
    let output = command.stdin(Stdio::null()).output().map_err(Failure::at(&shown))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(Failure::new(format!("{shown}: {}: {}", output.status, words.trim())));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs `command` to its end, its standard error shown, and returns whether it exited with 0 and what it printed.
///
/// # Errors
/// When it does not start.
pub(crate) fn printed(command: &mut Command) -> Result<(bool, String), Failure> {
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(Failure::at(&shown))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Returns whether `program` is in one of the standard directories.
pub(crate) fn has_program(program: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).is_file())
}

/// Returns whether this process is root.
pub(crate) fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.starts_with("Uid:\t0\t"))
}

/// Returns the folder that holds the workspace's Cargo.toml.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}

/// Returns the folder into which cargo builds.
///
/// # Errors
/// When cargo cannot read the workspace.
pub(crate) fn target_directory() -> Result<PathBuf, Failure> {
    let metadata = MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .map_err(Failure::at("cargo metadata"))?;
    Ok(metadata.target_directory.into_std_path_buf())
}
