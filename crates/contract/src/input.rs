//! Inputs: host files copied into a workspace, recorded by destination, size and digest.
//!
//! The bytes themselves are never recorded. Paths in a workspace are relative, hold no `..` and no NUL.
use crate::artifact::Digest;
use crate::bytes::ByteString;
use crate::id::JobId;
use crate::time::Timestamp;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The longest path, in bytes: `PATH_MAX` with its NUL (limits.h).
pub const PATH_BYTES_MAX: usize = 4_095;

/// One file that was copied in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRecord {
    /// The host path, as it was given and walked; `-:NAME` for a file of an archive on standard input.
    pub source: ByteString,
    /// Where it landed.
    pub destination: WsPath,
    /// How many bytes were copied.
    pub size_bytes: u64,
    /// SHA-256 of the bytes that landed.
    pub sha256: Digest,
    /// When.
    pub recorded_at: Timestamp,
    /// The job that it was copied in for; none where a `put` did it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job: Option<JobId>,
}

/// A path inside a workspace: relative, normalised, without `..`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "ByteString", into = "ByteString")]
pub struct WsPath(ByteString);

/// Why bytes are no path inside a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WsPathError {
    /// Nothing is left after `.` and empty parts are dropped.
    #[error("a path inside the workspace cannot be empty")]
    Empty,
    /// It begins with `/`.
    #[error("a path inside the workspace is relative to it, not absolute")]
    Absolute,
    /// It has a `..`.
    #[error("a path inside the workspace cannot contain `..`")]
    Escapes,
    /// It has a NUL.
    #[error("a path cannot contain a NUL byte")]
    Nul,
    /// It is longer than [`PATH_BYTES_MAX`], or a part is longer than 255 bytes.
    #[error("a path is at most 4095 bytes, and each part at most 255")]
    TooLong,
}

impl WsPath {
    /// Accepts a path; `.` and empty parts are dropped.
    ///
    /// # Errors
    /// [`WsPathError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, WsPathError> {
        if bytes.first() == Some(&b'/') {
            return Err(WsPathError::Absolute);
        }
        if bytes.contains(&0) {
            return Err(WsPathError::Nul);
        }
        let parts: Vec<&[u8]> = bytes
            .split(|byte| *byte == b'/')
            .filter(|part| !part.is_empty() && *part != b".")
            .collect();
        if parts.contains(&&b".."[..]) {
            return Err(WsPathError::Escapes);
        }
        if parts.is_empty() {
            return Err(WsPathError::Empty);
        }
        let joined = parts.join(&b'/');
        if joined.len() > PATH_BYTES_MAX || parts.iter().any(|part| part.len() > 255) {
            return Err(WsPathError::TooLong);
        }
        Ok(Self(joined.into()))
    }

    /// Returns this path with `below` under it.
    ///
    /// # Errors
    /// [`WsPathError`], for `below` as for [`WsPath::parse`].
    pub fn join(&self, below: &[u8]) -> Result<Self, WsPathError> {
        let mut bytes = self.0.as_bytes().to_vec();
        bytes.push(b'/');
        bytes.extend_from_slice(below);
        Self::parse(&bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Returns the path as bytes that are usually text.
    #[must_use]
    pub const fn as_byte_string(&self) -> &ByteString {
        &self.0
    }
}

impl TryFrom<ByteString> for WsPath {
    type Error = WsPathError;

    fn try_from(bytes: ByteString) -> Result<Self, WsPathError> {
        Self::parse(bytes.as_bytes())
    }
}

impl From<WsPath> for ByteString {
    fn from(path: WsPath) -> Self {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_and_never_leave() {
        assert_eq!(WsPath::parse(b"a/./b//c").expect("a path").as_bytes(), b"a/b/c");
        let cases: [(&[u8], WsPathError); 6] = [
            (b"", WsPathError::Empty),
            (b"./.", WsPathError::Empty),
            (b"/etc", WsPathError::Absolute),
            (b"a/../b", WsPathError::Escapes),
            (b"a\0b", WsPathError::Nul),
            (&[b'x'; 256], WsPathError::TooLong),
        ];
        for (bytes, error) in cases {
            assert_eq!(WsPath::parse(bytes), Err(error), "{}", bytes.escape_ascii());
        }
    }
}
