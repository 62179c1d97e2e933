//! The answer of `files`: what lies in a workspace.
//!
//! A shape of its own, not a package: a listing has no outcome to report. Names are bytes; one that is not UTF-8 is
//! written as base64, so that nothing of it is lost.
use crate::bytes::ByteString;
use crate::id::WorkspaceId;
use crate::provider::{Listed, ListedKind};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::Serialize;

/// What lies in a workspace, or in a directory of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileListing {
    /// The workspace.
    pub workspace_id: String,
    /// The directory or entry that was asked for; empty for the workspace's root.
    pub path: ByteString,
    /// What was found, in the order of the paths' bytes.
    pub entries: Vec<FileEntry>,
    /// Whether there is more than `--limit` allowed.
    pub more: bool,
    /// What an earlier, killed verb left and this one settled.
    pub attention: Vec<String>,
}

/// One entry of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FileEntry {
    /// Its path, from the workspace's root.
    pub path: ByteString,
    /// What it is.
    pub kind: FileKind,
    /// The length of a regular file; null for anything else.
    pub size_bytes: Option<u64>,
    /// Its permission bits, in octal: `0644`.
    pub mode: String,
    /// When it was last changed, in seconds since 1970.
    pub mtime: i64,
    /// What a link says; null for anything else.
    pub target: Option<ByteString>,
}

/// The kinds of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, which is never followed.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

impl FileListing {
    /// Makes an empty listing.
    #[must_use]
    pub fn new(workspace: &WorkspaceId, path: ByteString, attention: Vec<String>) -> Self {
        let workspace_id = workspace.as_str().into();
        Self { workspace_id, path, entries: Vec::new(), more: false, attention }
    }
}

impl From<Listed> for FileEntry {
    fn from(listed: Listed) -> Self {
        let (kind, size_bytes, target) = match listed.what {
            ListedKind::File { size_bytes } => (FileKind::File, Some(size_bytes), None),
            ListedKind::Directory => (FileKind::Directory, None, None),
            ListedKind::Link { target } => (FileKind::Link, None, Some(target)),
            ListedKind::Special => (FileKind::Special, None, None),
        };
        Self {
            path: listed.path.into(),
            kind,
            size_bytes,
            mode: format!("{:04o}", listed.mode),
            mtime: listed.mtime,
            target,
        }
    }
}
