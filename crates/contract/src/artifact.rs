//! Artifacts: the declared outputs of a job, exported with a verified digest.
//!
//! A declaration says what will be there; only an export says what was. Reading and publishing the bytes is the
//! engine's business.
use crate::bytes::ByteString;
use crate::id::JobId;
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

/// The media type of an artifact whose declaration names none.
pub const MEDIA_TYPE_DEFAULT: &str = "application/octet-stream";

/// A declared output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactDeclaration {
    /// Its name, which is also its path in the workspace unless an export gives another.
    pub name: ByteString,
    /// What it is for.
    pub purpose: ByteString,
    /// Its media type.
    pub media_type: String,
}

/// What has become of a declared output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// Declared, not exported yet.
    Declared,
    /// Durable on the host.
    Exported,
    /// Given up by `destroy --force`.
    Discarded,
}

/// A declared output with its state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactRecord {
    /// The declaration.
    pub declaration: ArtifactDeclaration,
    /// The job that declared it.
    pub job: JobId,
    /// What has become of it.
    pub retention: Retention,
    /// The last export.
    pub export: Option<ArtifactExport>,
}

/// One export of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactExport {
    /// SHA-256 of the published bytes.
    pub digest: Digest,
    /// How many bytes were published.
    pub size_bytes: u64,
    /// The host path, as it was given.
    pub reference: ByteString,
}

/// A SHA-256 digest, written as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Takes the 32 bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hex digits of either case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0_u8; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("a digest is 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_digest_reads_back_what_it_wrote() {
        let digest = Digest::new([0xa5; 32]);
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        for bad in ["", "a5", &"g".repeat(64), &"ä".repeat(32)] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }
}
