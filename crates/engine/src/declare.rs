//! Reads `NAME=VALUE` arguments: `--declare`, `--input`, `--export`, and ids.
//!
//! Pure: bytes in, values out. Names and paths are bytes, not text; both sides of a declaration are stripped of blanks,
//! paths are not.
use crate::requests::{ExportTarget, InputRequest};
use bailiwick_contract::artifact::{ArtifactDeclaration, MEDIA_TYPE_DEFAULT};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
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
