//! Bytes that are usually text: argv, paths and names as the host gives them.
//!
//! They are carried losslessly and never interpreted here; only a renderer replaces what it cannot show.
//! In JSON a UTF-8 value is a string and any other value is `{"base64": "…"}`; in frames it is raw bytes.
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::fmt;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A string of bytes that need not be UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteString(Vec<u8>);

impl ByteString {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes by value.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the text, with U+FFFD for what is not UTF-8.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl From<Vec<u8>> for ByteString {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for ByteString {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<&str> for ByteString {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for ByteString {
    fn from(text: String) -> Self {
        Self(text.into_bytes())
    }
}

impl fmt::Debug for ByteString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl Serialize for ByteString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_bytes(&self.0);
        }
        if let Ok(text) = core::str::from_utf8(&self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(&self.0))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for ByteString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_any(ByteVisitor)
        } else {
            deserializer.deserialize_byte_buf(ByteVisitor)
        }
    }
}

struct ByteVisitor;

impl<'de> Visitor<'de> for ByteVisitor {
    type Value = ByteString;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or an object with the one key `base64`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteString, E> {
        Ok(text.into())
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<ByteString, E> {
        Ok(bytes.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ByteString, A::Error> {
        let Some(("base64", text)) = map.next_entry::<&str, String>()? else {
            return Err(de::Error::missing_field("base64"));
        };
        STANDARD.decode(text).map(ByteString).map_err(de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ByteString {
    fn schema_name() -> Cow<'static, str> {
        "ByteString".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Text, or base64 of bytes that are not UTF-8",
            "anyOf": [
                {"type": "string"},
                {"type": "object", "required": ["base64"], "additionalProperties": false,
                 "properties": {"base64": {"type": "string"}}}
            ]
        })
    }
}

/// Bytes that must never be shown: the value of a forwarded variable.
///
/// `Debug` hides it and it cannot be written as JSON, so it reaches only the frame that starts a job.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Takes the bytes in.
    #[must_use]
    pub const fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for the one place that hands them to the job.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return Err(serde::ser::Error::custom("a secret is never written as text"));
        }
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ByteString::deserialize(deserializer).map(|bytes| Self(bytes.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_json_whatever_they_are() {
        for bytes in [&b"plain"[..], b"", b"a\xff\xfe\0b", "h\u{2028}i".as_bytes()] {
            let json = serde_json::to_string(&ByteString::from(bytes)).expect("serializes");
            let back: ByteString = serde_json::from_str(&json).expect("parses");
            assert_eq!(back.as_bytes(), bytes, "{json}");
        }
    }

    #[test]
    fn a_secret_is_refused_by_json_and_hidden_by_debug() {
        let secret = Secret::new(b"hunter2".to_vec());
        assert!(serde_json::to_string(&secret).is_err());
        assert_eq!(alloc::format!("{secret:?}"), "Secret(..)");
    }
}
