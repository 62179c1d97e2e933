//! Where the native provider keeps things in the home.
//!
//! Directories are 0700 and only their owner's; a home of somebody else is refused. What lies where is in docs/concepts.md.
use super::trouble;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::ProviderError;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The home's directory.
#[derive(Debug, Clone)]
pub(crate) struct Home(PathBuf);

impl Home {
    pub(crate) const fn at(path: PathBuf) -> Self {
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of a workspace: its tree, and the locks of its slots.
    pub(crate) fn workspace(&self, id: &WorkspaceId) -> PathBuf {
        self.0.join("disks").join(id.as_str())
    }

    /// What a job sees as `/workspace`.
    pub(crate) fn tree(&self, id: &WorkspaceId) -> PathBuf {
        self.workspace(id).join("tree")
    }

    /// The directories of all jobs.
    pub(crate) fn jobs(&self) -> PathBuf {
        self.0.join("jobs")
    }

    /// Where a job's supervisor works.
    pub(crate) fn job(&self, id: &JobId) -> PathBuf {
        self.jobs().join(id.as_str())
    }

    pub(crate) fn skeleton(&self) -> PathBuf {
        self.0.join("skeleton")
    }

    pub(crate) fn host_facts(&self) -> PathBuf {
        self.0.join("host.json")
    }

    /// Makes sure that the home is there, and ours.
    pub(crate) fn ensure(&self) -> Result<(), ProviderError> {
        let meta = match fs::symlink_metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_private_all(&self.0).map_err(|error| self.refused(&error.to_string()))?;
                return Ok(());
            }
            other => other.map_err(|error| self.refused(&error.to_string()))?,
        };
        if !meta.is_dir() {
            return Err(self.refused("it is not a directory"));
        }
        if meta.uid() != rustix::process::geteuid().as_raw() {
            return Err(self.refused(&format!("it belongs to user {}", meta.uid())));
        }
        Ok(())
    }

    fn refused(&self, why: &str) -> ProviderError {
        let path = trouble::printable(&self.0);
        ProviderError::Home { path, why: format!("cannot be used: {why}") }
    }
}

/// Makes one directory, for its owner only; its parents as needed.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                make_private_all(parent)?;
            }
            builder.create(path)
        }
        other => other,
    }
}

fn make_private_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(path)
}
