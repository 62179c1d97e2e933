//! The `host` profile: the host's own toolchain, read-only.
//!
//! Its digest covers what a job can tell apart: the release of the operating system and the kernel, and path, size and time of
//! the declared tools (docs/concepts.md). No file is read whole but `os-release`.
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::provider::{Profile, ProviderError};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const HOST: &str = "host";
const TOOLS: [&str; 5] = ["sh", "python3", "node", "git", "cc"];
const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// Finds a profile.
pub(super) fn find(name: Option<&str>, kernel: &str) -> Result<Profile, ProviderError> {
    match name {
        None | Some(HOST) => Ok(Profile { name: HOST.into(), digest: digest(kernel) }),
        Some(other) => Err(ProviderError::UnknownProfile {
            name: other.escape_debug().take(64).collect(),
            known: HOST.into(),
        }),
    }
}

fn digest(kernel: &str) -> Digest {
    let mut hash = Sha256::new();
    // A host without the file is a host of its own kind.
    hash.update(fs::read("/etc/os-release").unwrap_or_default());
    hash.update(kernel);
    for tool in TOOLS {
        if let Some(line) = PATH.iter().find_map(|dir| describe(&Path::new(dir).join(tool))) {
            hash.update(line);
        }
    }
    Digest::new(hash.finalize().into())
}

fn describe(path: &Path) -> Option<String> {
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(format!("\0{}\0{}\0{}.{}", path.display(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}
