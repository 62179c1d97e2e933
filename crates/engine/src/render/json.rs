//! The JSON form: one line, as Python's `json.dumps(…, ensure_ascii=False)` writes it.
//!
//! Characters that act on a terminal or end a line for some reader (C1, DEL, U+2028, bidi controls) are written as
//! `\u` and four hex digits: the same text for a parser, and harmless for anything else. It knows nothing of the bound.
use super::Sections;
use super::escape::{is_hidden, may_hide};
use bailiwick_contract::package::{
    Artifact, Evidence, Provenance, ResourceUsage, ResultPackage, Status,
};
use serde::Serialize;
use serde_json::ser::Formatter;
use std::io;

/// Returns the package as one line, without a newline.
#[must_use]
pub fn json(package: &ResultPackage, sections: Sections) -> String {
    match sections {
        Sections::All => json_line(package),
        Sections::Nine => json_line(&Nine::of(package)),
    }
}

/// Returns any value of ours as one line, without a newline.
#[must_use]
pub fn json_line(value: &impl Serialize) -> String {
    let mut out = Vec::with_capacity(4_096);
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, OneLine);
    value.serialize(&mut serializer).expect("our types have string keys and a Vec takes any text");
    String::from_utf8(out).expect("serde_json writes UTF-8")
}

/// The package without `facts`.
#[derive(Serialize)]
struct Nine<'a> {
    outcome_summary: &'a str,
    status: Status,
    key_findings: &'a [String],
    evidence: &'a [Evidence],
    artifacts: &'a [Artifact],
    warnings: &'a [String],
    resource_usage: &'a ResourceUsage,
    provenance: &'a Provenance,
    attention: &'a [String],
}

impl<'a> Nine<'a> {
    fn of(package: &'a ResultPackage) -> Self {
        let ResultPackage {
            outcome_summary,
            status,
            key_findings,
            evidence,
            artifacts,
            warnings,
            resource_usage,
            provenance,
            attention,
            facts: _,
        } = package;
        Self {
            outcome_summary,
            status: *status,
            key_findings,
            evidence,
            artifacts,
            warnings,
            resource_usage,
            provenance,
            attention,
        }
    }
}

struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        if !may_hide(text) {
            return out.write_all(text.as_bytes());
        }
        let mut rest = text;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| is_hidden(*c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }
}
