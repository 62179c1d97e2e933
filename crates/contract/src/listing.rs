//! The answer of `list`: rows, not a package, since a listing has no outcome to report.
//!
//! The order of the fields is the order of the keys on the wire. What a row says comes from the records; nothing here
//! looks at a disk.
use crate::package::AboutFacts;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The answer of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceListing {
    /// The workspaces, newest first.
    pub workspaces: Vec<WorkspaceRow>,
    /// How many match in all, also beyond the limit.
    pub total: u64,
    /// How many there are beside those, which were not asked for.
    pub left_out: u64,
    /// What an earlier, killed verb left and this one settled or could not settle.
    pub attention: Vec<String>,
}

/// One workspace of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkspaceRow {
    /// Its id.
    pub workspace_id: String,
    /// Its state.
    pub state: String,
    /// Its provider.
    pub provider: String,
    /// Its profile.
    pub profile: String,
    /// When it was asked for.
    pub created_at: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// How many jobs it has had.
    pub jobs: u64,
    /// Bytes on its disk: as its last job left it, and null before there was one; with `--size` as it is now.
    pub storage_bytes: Option<u64>,
    /// Declared artifacts that were neither exported nor given up.
    pub artifacts_pending: u64,
    /// What its owner says about it; absent where nothing was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<AboutFacts>,
}
