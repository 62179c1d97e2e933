//! `files`: what lies in a workspace, and the bytes of one file of it, without a job.
//!
//! Nothing is held and nothing is followed, so that it works beside a running job and after the last one, for as long as
//! the disk is there. A listing is bounded and says when it was cut.
use crate::engine::Engine;
use crate::reconcile::Held;
use crate::requests::Notice;
use crate::text::printable;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::files::{FileEntry, FileListing};
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::{WsPath, WsPathError};
use bailiwick_contract::provider::{ByteSink, ListSpec, ProviderError};
use bailiwick_contract::record::WorkspaceRecord;
use core::error::Error;
use globset::{GlobBuilder, GlobMatcher};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How many entries a listing has where the caller names no limit.
pub const LIMIT_DEFAULT: u64 = 1_000;

/// How many entries a pattern is tried on: as many as the largest default disk has room for, several times over.
const SEARCHED_MAX: u64 = 1_000_000;

/// `files`, without `--read`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesRequest {
    /// The workspace.
    pub workspace: WorkspaceId,
    /// The directory or entry; the workspace's root where it is absent.
    pub path: Option<ByteString>,
    /// `--recursive`.
    pub recursive: bool,
    /// `--glob`: only what matches it, at any depth.
    pub glob: Option<String>,
    /// `--limit`.
    pub limit: u64,
}

/// A part of a file: `start..end`, as far as the file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

impl ByteRange {
    /// All of a file.
    pub const WHOLE: Self = Self { start: 0, end: u64::MAX };

    /// Parses `A:B`, `A:` or `:B`.
    ///
    /// # Errors
    /// A sentence that says what a range is.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "a range is A:B, A: or :B, in bytes, with A not above B";
        let (start, end) = text.split_once(':').ok_or(FORM)?;
        let number = |text: &str, absent| match text {
            "" => Ok(absent),
            text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                text.parse().map_err(|_| FORM)
            }
            _ => Err(FORM),
        };
        let range = Self { start: number(start, 0)?, end: number(end, u64::MAX)? };
        if range.start > range.end || text == ":" { Err(FORM) } else { Ok(range) }
    }
}

impl Engine<'_> {
    /// Lists what lies in a workspace.
    ///
    /// # Errors
    /// [`Failure`] where there is no such workspace or place.
    pub fn files(&self, request: &FilesRequest) -> Result<FileListing, Failure> {
        let pattern = request.glob.as_deref().map(Pattern::parse).transpose()?;
        let below = request.path.as_ref().map(place).transpose()?.flatten();
        let (record, attention) = self.looked_into(&request.workspace)?;
        let spec = ListSpec {
            below: below.clone(),
            recursive: request.recursive || pattern.is_some(),
            limit: if pattern.is_some() { SEARCHED_MAX } else { request.limit },
        };
        let found = self.provider.list(&record.id, &spec, &self.cx());
        let found = found.map_err(|error| self.no_place(&record.id, error))?;
        let root = below.as_ref().map_or(&b""[..], WsPath::as_bytes);
        let shown = below.clone().map_or_else(ByteString::default, ByteString::from);
        let mut listing = FileListing::new(&record.id, shown, attention);
        let matches = |path: &WsPath| match &pattern {
            Some(pattern) => pattern.matches(path.as_bytes(), root),
            None => true,
        };
        let mut entries = found.entries.into_iter().filter(|entry| matches(&entry.path));
        let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
        listing.entries.extend(entries.by_ref().take(limit).map(FileEntry::from));
        listing.more = found.more || entries.next().is_some();
        Ok(listing)
    }

    /// Streams a file, or a part of it, byte for byte; `notice` is told what was settled.
    ///
    /// # Errors
    /// [`Failure`]; `sink` may have got a prefix.
    pub fn read_file(
        &self,
        workspace: &WorkspaceId,
        path: &ByteString,
        range: ByteRange,
        sink: &mut dyn ByteSink,
        notice: Notice<'_>,
    ) -> Result<(), Failure> {
        let path = place(path)?.ok_or_else(|| bad_place(path, WsPathError::Empty))?;
        let (record, notes) = self.looked_into(workspace)?;
        notes.iter().for_each(|note| notice(note));
        let mut part = Part { sink, range, at: 0, is_done: range.start == range.end };
        match self.provider.read(&record.id, &path, &mut part, &self.cx()) {
            // The provider was told that nothing more is wanted.
            Err(ProviderError::Peer(_)) if part.is_done => Ok(()),
            read => read.map_err(|error| self.no_place(&record.id, error)),
        }
    }

    /// Finds a workspace whose disk may be looked into, and settles what a killed verb left there.
    fn looked_into(&self, id: &WorkspaceId) -> Result<(WorkspaceRecord, Vec<String>), Failure> {
        let record = self.living(id).map_err(|failure| self.or_job(failure, id, "files", ""))?;
        let notes = self.reconcile(&record, Held::Looking)?;
        Ok((self.living(id)?, notes))
    }

    /// Maps why there is nothing to list or read.
    fn no_place(&self, id: &WorkspaceId, error: ProviderError) -> Failure {
        let is_place =
            matches!(error, ProviderError::NoFile { .. } | ProviderError::NotAFile { .. });
        let failure = self.provider_failure(error);
        if !is_place {
            return failure;
        }
        let advice = format!("{} files --recursive {id} lists what there is", self.program);
        Failure::new(failure.code, failure.reason, failure.message, advice)
    }
}

/// Reads the path of a listing; `None` is the workspace's root.
fn place(path: &ByteString) -> Result<Option<WsPath>, Failure> {
    match WsPath::parse(path.as_bytes()) {
        Ok(path) => Ok(Some(path)),
        Err(WsPathError::Empty) if !path.as_bytes().is_empty() => Ok(None),
        Err(error) => Err(bad_place(path, error)),
    }
}

fn bad_place(path: &ByteString, error: WsPathError) -> Failure {
    Failure::user(
        "bad_path",
        format!("`{}` is no place in a workspace: {error}", printable(path.as_bytes())),
        "name a place relative to the workspace, such as src/main.rs",
    )
}

/// A pattern of `--glob`.
struct Pattern {
    glob: GlobMatcher,
    /// It has no slash, so that it is about names.
    is_name: bool,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, Failure> {
        let glob = GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build();
        let glob = glob.map_err(|error| {
            Failure::user(
                "bad_glob",
                format!("--glob cannot be read: {}", printable(error.to_string().as_bytes())),
                "write a pattern such as '*.rs' for names, or 'src/**/*.rs' for paths below PATH",
            )
        })?;
        Ok(Self { glob: glob.compile_matcher(), is_name: !text.contains('/') })
    }

    /// Returns whether a path matches; one with slashes is compared below `root`.
    fn matches(&self, path: &[u8], root: &[u8]) -> bool {
        let below = path.strip_prefix(root).unwrap_or(path);
        let below = below.strip_prefix(b"/").unwrap_or(below);
        // What was listed as itself has a name, but nothing below itself.
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        let subject = if self.is_name || below.is_empty() { name } else { below };
        self.glob.is_match(Path::new(OsStr::from_bytes(subject)))
    }
}

/// Passes a part of what is read on.
struct Part<'s> {
    sink: &'s mut dyn ByteSink,
    range: ByteRange,
    /// How many bytes have come by.
    at: u64,
    /// Nothing more is wanted.
    is_done: bool,
}

impl ByteSink for Part<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let length = bytes.len() as u64;
        let place = |wanted: u64| {
            usize::try_from(wanted.saturating_sub(self.at).min(length)).unwrap_or(bytes.len())
        };
        let part = &bytes[place(self.range.start)..place(self.range.end)];
        self.at += length;
        if !part.is_empty() {
            self.sink.push(part)?;
        }
        self.is_done = self.at >= self.range.end;
        if self.is_done { Err("the part that was wanted has been read".into()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_or_explained() {
        let range = |start, end| Ok(ByteRange { start, end });
        assert_eq!(ByteRange::parse("3:5"), range(3, 5));
        assert_eq!(ByteRange::parse(":5"), range(0, 5));
        assert_eq!(ByteRange::parse("3:"), range(3, u64::MAX));
        for bad in
            ["", ":", "5", "5:3", "-1:3", "+1:3", "a:b", "1:2:3", "1 :2", "99999999999999999999:"]
        {
            assert!(ByteRange::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_names() {
        let matches = |text: &str, path: &str, root: &str| {
            Pattern::parse(text).expect("good").matches(path.as_bytes(), root.as_bytes())
        };
        assert!(matches("*.rs", "a/b/c.rs", ""));
        assert!(matches("*.{rs,md}", "a.md", ""));
        assert!(matches("b/*.rs", "a/b/c.rs", "a") && !matches("b/*.rs", "a/b/c.rs", ""));
        assert!(matches("**/c.rs", "a/b/c.rs", "") && !matches("a/*", "a/b/c.rs", ""));
        assert!(matches("c.*", "a/c.rs", "a/c.rs"), "a file is listed as itself");
        assert_eq!(Pattern::parse("[").err().expect("bad").reason, "bad_glob");
    }

    #[derive(Default)]
    struct Kept(Vec<u8>);

    impl ByteSink for Kept {
        fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    #[test]
    fn a_part_is_cut_out_of_whatever_chunks_come() {
        let bytes = b"0123456789";
        for start in 0..12 {
            for end in start..12 {
                for chunk in 1..11 {
                    let mut kept = Kept::default();
                    let range = ByteRange { start, end };
                    let mut part = Part { sink: &mut kept, range, at: 0, is_done: false };
                    // The first refusal ends the reading.
                    bytes.chunks(chunk).try_for_each(|bytes| part.push(bytes)).ok();
                    let cut = |at: u64| usize::try_from(at).expect("small").min(bytes.len());
                    assert_eq!(kept.0, bytes[cut(start)..cut(end)], "{start}:{end} by {chunk}");
                }
            }
        }
    }
}
