//! Identifiers: newtypes, so that two of them cannot be swapped.
//!
//! A minted id is `<prefix>-<12 hex>` of injected randomness; a given one matches one pattern.
//! Nothing here looks an id up: the store says whether one is taken, and ids are never reused.
use crate::context::Entropy;
use alloc::format;
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Deserializer, Serialize};

/// The longest id that is accepted, in bytes: `[A-Za-z0-9][A-Za-z0-9._-]{0,63}`.
pub const ID_BYTES_MAX: usize = 64;

/// Why a text is not an id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a {what} id is 1 to 64 characters of A-Z a-z 0-9 . _ - and begins with a letter or a digit"
)]
pub struct IdError {
    /// Which kind of id was asked for.
    pub what: &'static str,
}

fn is_id(text: &str) -> bool {
    let head = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let tail = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    head && tail && text.len() <= ID_BYTES_MAX
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal, $what:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Makes a fresh id from `entropy`.
            pub fn mint(entropy: &dyn Entropy) -> Self {
                let mut raw = [0_u8; 6];
                entropy.fill(&mut raw);
                let [a, b, c, d, e, f] = raw;
                Self(format!("{}-{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}", $prefix))
            }

            /// Accepts a given id.
            ///
            /// # Errors
            /// [`IdError`] where `text` does not match the pattern.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                if is_id(text) { Ok(Self(text.into())) } else { Err(IdError { what: $what }) }
            }

            /// Returns the text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

ids! {
    /// Names a workspace.
    WorkspaceId = "ws", "workspace";
    /// Names a job.
    JobId = "job", "job";
    /// Names an intent in the journal.
    IntentId = "int", "intent";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pattern_decides() {
        for good in ["demo", "0", "a.b_c-d", "ws-9a8b7c6d5e4f"] {
            assert!(WorkspaceId::parse(good).is_ok(), "{good}");
        }
        let long = "x".repeat(65);
        for bad in ["", "-a", ".a", "a/b", "a b", "ä", "a\n", "..", &long] {
            assert!(WorkspaceId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
