//! Reads `NAME=VALUE` arguments: `--declare`, `--input`, `--export`, `--check`, `--measure`, and ids.
//!
//! Pure: bytes in, values out. Names and paths are bytes, not text; both sides of a declaration are stripped of blanks,
//! paths are not.
use crate::requests::{ExportTarget, InputRequest};
use bailiwick_contract::artifact::{ArtifactDeclaration, MEDIA_TYPE_DEFAULT};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{CheckDeclaration, MeasureDeclaration};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

/// Reads `--declare NAME=PURPOSE`.
///
/// # Errors
/// A user error where a side is missing or empty.
pub fn artifact(argument: &[u8]) -> Result<ArtifactDeclaration, Failure> {
    let (name, purpose) = split("--declare", "NAME=PURPOSE", argument)?;
    let (name, purpose) = (name.trim_ascii(), purpose.trim_ascii());
    if name.is_empty() || purpose.is_empty() {
        return Err(malformed("--declare", "NAME=PURPOSE"));
    }
    Ok(ArtifactDeclaration {
        name: name.into(),
        purpose: purpose.into(),
        media_type: MEDIA_TYPE_DEFAULT.into(),
    })
}

/// Reads `--input NAME=HOST_PATH`.
///
/// # Errors
/// A user error where a side is missing or empty.
pub fn input(argument: &[u8]) -> Result<InputRequest, Failure> {
    let (destination, source) = split("--input", "NAME=HOST_PATH", argument)?;
    Ok(InputRequest { destination: destination.into(), source: path(source) })
}

/// Reads `--export NAME=PATH`.
///
/// # Errors
/// A user error where a side is missing or empty.
pub fn export(argument: &[u8]) -> Result<ExportTarget, Failure> {
    let (name, destination) = split("--export", "NAME=PATH", argument)?;
    Ok(ExportTarget { name: name.trim_ascii().into(), destination: path(destination) })
}

/// Reads `--check NAME=CMD`.
///
/// # Errors
/// A user error where a side is missing, or the name is none.
pub fn check(argument: &[u8]) -> Result<CheckDeclaration, Failure> {
    let (name, command) = split("--check", "NAME=CMD", argument)?;
    let name = plain_name("--check", name)?;
    if command.trim_ascii().is_empty() || command.contains(&0) {
        return Err(malformed("--check", "NAME=CMD"));
    }
    Ok(CheckDeclaration { name, command: command.into() })
}

/// Reads `--measure NAME=FILE`.
///
/// # Errors
/// A user error where a side is missing, the name is none, or the file's path leads out of the workspace.
pub fn measure(argument: &[u8]) -> Result<MeasureDeclaration, Failure> {
    let (name, file) = split("--measure", "NAME=FILE", argument)?;
    let name = plain_name("--measure", name)?;
    Ok(MeasureDeclaration { name, path: inside("--measure", file)? })
}

/// Reads `--cwd DIR`; none means the workspace's root.
///
/// # Errors
/// A user error where the path leads out of the workspace.
pub fn cwd(argument: &[u8]) -> Result<Option<WsPath>, Failure> {
    match WsPath::parse(argument) {
        Err(bailiwick_contract::input::WsPathError::Empty) if !argument.is_empty() => Ok(None),
        _ => inside("--cwd", argument).map(Some),
    }
}

fn inside(flag: &str, path: &[u8]) -> Result<WsPath, Failure> {
    WsPath::parse(path).map_err(|error| {
        let shown = crate::text::printable(path);
        Failure::user(
            "bad_workspace_path",
            format!("{flag} `{shown}` is no path inside the workspace: {error}"),
            "name a place relative to the workspace, such as out/result",
        )
    })
}

/// The longest name of a check or a measurement, in bytes.
const NAME_BYTES_MAX: usize = 64;

/// Reads the name of a check or a measurement: words that can stand in a line of ours as they are.
fn plain_name(flag: &str, name: &[u8]) -> Result<String, Failure> {
    let name = name.trim_ascii();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" ._-/:+".contains(byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.iter().all(plain) {
        return Err(Failure::user(
            "bad_argument",
            format!(
                "{flag} needs a name of 1 to {NAME_BYTES_MAX} characters of A-Z a-z 0-9 . _ - / : + and blanks"
            ),
            format!("write {flag} NAME=VALUE, such as {flag} tests='...'"),
        ));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

/// Reads a workspace's id.
///
/// # Errors
/// A user error where it does not match the pattern.
pub fn workspace_id(text: &str) -> Result<WorkspaceId, Failure> {
    WorkspaceId::parse(text).map_err(|error| bad_id(&error))
}

/// Reads a job's id.
///
/// # Errors
/// A user error where it does not match the pattern.
pub fn job_id(text: &str) -> Result<JobId, Failure> {
    JobId::parse(text).map_err(|error| bad_id(&error))
}

fn bad_id(error: &bailiwick_contract::id::IdError) -> Failure {
    Failure::user("bad_id", error.to_string(), "leave the flag out to have an id minted")
}

fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

fn split<'a>(flag: &str, form: &str, argument: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), Failure> {
    let at = argument.iter().position(|byte| *byte == b'=');
    let Some(at) = at.filter(|at| *at > 0 && at + 1 < argument.len()) else {
        return Err(malformed(flag, form));
    };
    Ok((&argument[..at], &argument[at + 1..]))
}

fn malformed(flag: &str, form: &str) -> Failure {
    Failure::user(
        "bad_argument",
        format!("{flag} takes {form}, and both sides have to be there"),
        format!("write {flag} {form}"),
    )
}
