//! Captures a job's output: all of it is drained and counted, what the budget allows is kept.
//!
//! `output` holds the bytes of both streams in order of arrival, as [`crate::keep`] puts them there. `output.idx` says which
//! stream each run of bytes came from. No file exists before there is a byte to keep.
use crate::keep::{Keeper, create};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::job::{Encoding, OutputFacts};
use bailiwick_isolation::output::{Stream, TextCheck, index_words};
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Words of the index at most: 1 MiB of it.
const WORDS_MAX: usize = 262_144;

/// What is being captured.
#[derive(Debug)]
pub(crate) struct Capture {
    keeper: Keeper,
    index: Index,
    bytes: [u64; 2],
    lines: u64,
    text: [TextCheck; 2],
}

impl Capture {
    /// Captures into `dir`, keeping at most `budget` bytes.
    pub(crate) fn new(dir: OwnedFd, budget: u64) -> Self {
        Self {
            keeper: Keeper::new(dir, budget),
            index: Index::default(),
            bytes: [0; 2],
            lines: 0,
            text: [TextCheck::default(), TextCheck::default()],
        }
    }

    /// Reads from `pipe` what comes next on `stream`, and returns how many bytes it is.
    pub(crate) fn read(&mut self, stream: Stream, pipe: BorrowedFd<'_>) -> Result<usize, Errno> {
        let got = self.keeper.read(pipe)?;
        let bytes = self.keeper.last(got);
        self.lines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.text[stream as usize].take(bytes);
        self.bytes[stream as usize] += got as u64;
        self.index.note(stream, got as u64);
        Ok(got)
    }

    /// Returns how many bytes were produced so far.
    pub(crate) const fn produced(&self) -> u64 {
        self.keeper.produced()
    }

    /// Writes the index and returns what is known of the output, and why not all was kept that should have been.
    pub(crate) fn finish(&mut self) -> (OutputFacts, Option<String>) {
        let (kept, digest, mut trouble) = self.keeper.finish();
        if self.produced() > 0 && trouble.is_none() {
            trouble = self.write_index().err();
        }
        let text = self.text.iter().all(TextCheck::is_whole);
        let facts = OutputFacts {
            bytes: self.produced(),
            kept,
            stdout_bytes: self.bytes[0],
            stderr_bytes: self.bytes[1],
            lines: self.lines,
            encoding: if text { Encoding::Utf8 } else { Encoding::Binary },
            sha256: Digest::new(digest).to_string(),
        };
        (facts, trouble.map(|error| format!("output could not be stored: {error}")))
    }

    fn write_index(&mut self) -> io::Result<()> {
        let file = create(self.keeper.dir(), "output.idx")?;
        let bytes: Vec<u8> = self.index.end().flat_map(u32::to_le_bytes).collect();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// Which stream each run of bytes came from. A job that switches too often is not followed to the end: from then on everything
/// counts as standard output.
#[derive(Debug)]
struct Index {
    words: Vec<u32>,
    /// The run that goes on.
    last: (Stream, u64),
}

impl Default for Index {
    fn default() -> Self {
        Self { words: Vec::new(), last: (Stream::Out, 0) }
    }
}

impl Index {
    fn note(&mut self, stream: Stream, length: u64) {
        if self.last.0 != stream && self.words.len() < WORDS_MAX {
            self.words.extend(index_words(self.last.0, self.last.1));
            let is_full = self.words.len() >= WORDS_MAX;
            self.last = (if is_full { Stream::Out } else { stream }, 0);
        }
        self.last.1 += length;
    }

    /// Ends the last run and returns all words.
    fn end(&mut self) -> impl Iterator<Item = u32> {
        let (stream, length) = std::mem::replace(&mut self.last, (Stream::Out, 0));
        std::mem::take(&mut self.words).into_iter().chain(index_words(stream, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_isolation::output::{Layout, index_run};
    use sha2::{Digest as _, Sha256};
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;

    fn feed(capture: &mut Capture, stream: Stream, bytes: &[u8]) {
        let mut source = tempfile::tempfile().expect("a file");
        source.write_all(bytes).expect("written");
        source.rewind().expect("from the start");
        while capture.read(stream, source.as_fd()).expect("read") > 0 {}
    }

    fn capture(budget: u64, pieces: &[(Stream, &[u8])]) -> (OutputFacts, Vec<u8>) {
        let dir = tempfile::tempdir().expect("a directory");
        let handle = std::fs::File::open(dir.path()).expect("open");
        let mut capture = Capture::new(handle.into(), budget);
        for (stream, bytes) in pieces {
            feed(&mut capture, *stream, bytes);
        }
        let (facts, trouble) = capture.finish();
        assert_eq!(trouble, None);
        (facts, std::fs::read(dir.path().join("output")).unwrap_or_default())
    }

    #[test]
    fn output_within_the_budget_is_kept_as_it_came() {
        let (facts, kept) = capture(100, &[(Stream::Out, b"one\n"), (Stream::Err, b"two\n")]);
        assert_eq!(kept, b"one\ntwo\n");
        assert_eq!((facts.bytes, facts.kept, facts.lines), (8, 8, 2));
        assert_eq!((facts.stdout_bytes, facts.stderr_bytes), (4, 4));
    }

    #[test]
    fn output_beyond_the_budget_keeps_both_ends() {
        let (facts, kept) = capture(8, &[(Stream::Out, b"abcdefghijklmnopqr")]);
        assert_eq!((facts.bytes, facts.kept), (18, 8));
        let layout = Layout::of_budget(8);
        let read = |offset| kept[usize::try_from(layout.place(offset).offset).expect("small")];
        let ends: Vec<u8> = (0..4).chain(14..18).map(read).collect();
        assert_eq!(ends, b"abcdopqr");
    }

    #[test]
    fn a_job_that_prints_nothing_leaves_no_file() {
        let (facts, kept) = capture(100, &[]);
        assert_eq!(facts, OutputFacts::default());
        assert!(kept.is_empty());
    }

    #[test]
    fn the_digest_is_that_of_what_is_kept() {
        let (facts, kept) = capture(8, &[(Stream::Out, b"abcdefghijklmnopqr")]);
        assert_eq!(kept.len(), 8);
        assert_eq!(facts.sha256, Digest::new(Sha256::digest(b"abcdopqr").into()).to_string());
        let (facts, kept) = capture(18, &[(Stream::Out, b"abcdefghijklmnopqr")]);
        assert_eq!(facts.sha256, Digest::new(Sha256::digest(kept).into()).to_string());
    }

    #[test]
    fn a_job_that_switches_too_often_prints_the_rest_to_standard_output() {
        let mut index = Index::default();
        for count in 0..WORDS_MAX as u64 + 10 {
            index.note(if count % 2 == 0 { Stream::Out } else { Stream::Err }, 1);
        }
        let runs: Vec<_> = index.end().map(index_run).collect();
        assert_eq!(runs.len(), WORDS_MAX + 1);
        assert_eq!(runs[WORDS_MAX], (Stream::Out, 10));
        assert_eq!(runs.iter().map(|run| run.1).sum::<u64>(), WORDS_MAX as u64 + 10);
    }
}
