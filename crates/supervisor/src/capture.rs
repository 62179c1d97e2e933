//! Captures a job's output: all of it is drained, counted and hashed, head and tail are kept.
//!
//! `output` holds the bytes of both streams in order of arrival; beyond the budget its second half is a ring, as
//! [`ring`](bailiwick_isolation::output) defines it. `output.idx` says which stream each run of bytes came from. No file exists
//! before there is a byte to keep.
use bailiwick_contract::job::{Encoding, OutputFacts};
use bailiwick_isolation::output::{Layout, Stream, index_entry};
use bailiwick_isolation::text::TextCheck;
use rustix::fs::{Mode, OFlags, openat};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::io;
use std::os::fd::OwnedFd;

/// Runs that are recorded at most; what comes after is of either stream. 1 MiB of index.
const RUNS_MAX: usize = 262_144;

/// What is being captured.
#[derive(Debug)]
pub(crate) struct Capture {
    dir: OwnedFd,
    layout: Layout,
    file: Option<OwnedFd>,
    written: u64,
    trouble: Option<io::Error>,
    runs: Vec<(Stream, u64)>,
    bytes: [u64; 2],
    lines: u64,
    text: [TextCheck; 2],
    hash: Sha256,
}

impl Capture {
    /// Captures into `dir`, keeping at most `budget` bytes.
    pub(crate) fn new(dir: OwnedFd, budget: u64) -> Self {
        Self {
            dir,
            layout: Layout::of_budget(budget),
            file: None,
            written: 0,
            trouble: None,
            runs: Vec::new(),
            bytes: [0; 2],
            lines: 0,
            text: [TextCheck::default(), TextCheck::default()],
            hash: Sha256::new(),
        }
    }

    /// Takes the next bytes of `stream`.
    pub(crate) fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let produced = self.produced();
        self.hash.update(bytes);
        self.lines += line_feeds(bytes);
        self.text[stream as usize].take(bytes);
        self.bytes[stream as usize] += length(bytes);
        self.note(stream, length(bytes));
        if self.trouble.is_none() {
            // A full disk stops the keeping, never the job: its output is still drained and counted.
            match self.keep(produced, bytes) {
                Ok(()) => self.written += length(bytes),
                Err(error) => self.trouble = Some(error),
            }
        }
    }

    /// Returns how many bytes were produced so far.
    pub(crate) const fn produced(&self) -> u64 {
        self.bytes[0] + self.bytes[1]
    }

    fn note(&mut self, stream: Stream, length: u64) {
        let full = self.runs.len() >= RUNS_MAX;
        match self.runs.last_mut() {
            Some((last, run)) if *last == stream || full => *run += length,
            _ => self.runs.push((stream, length)),
        }
    }

    fn keep(&mut self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let place = self.layout.place(offset);
            let room = usize::try_from(place.room).unwrap_or(usize::MAX).min(bytes.len());
            let written = rustix::io::pwrite(self.file()?, &bytes[..room], place.offset)?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = &bytes[written..];
            offset += u64::try_from(written).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn file(&mut self) -> io::Result<&OwnedFd> {
        if self.file.is_none() {
            self.file = Some(create(&self.dir, "output")?);
        }
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Writes the index and returns what is known of the output, and why not all was kept that should have been.
    pub(crate) fn finish(&mut self) -> (OutputFacts, Option<String>) {
        let produced = self.produced();
        if produced > 0 && self.trouble.is_none() {
            self.trouble = self.write_index().err();
        }
        let text = self.text.iter().all(TextCheck::is_whole);
        let facts = OutputFacts {
            bytes: produced,
            kept: self.kept(),
            stdout_bytes: self.bytes[0],
            stderr_bytes: self.bytes[1],
            lines: self.lines,
            encoding: if text { Encoding::Utf8 } else { Encoding::Binary },
            sha256: hex(&self.hash.finalize_reset()),
        };
        (facts, self.trouble.take().map(|error| format!("output could not be stored: {error}")))
    }

    /// Once the ring was broken by a full disk, only the first half is sure.
    fn kept(&self) -> u64 {
        let broken = self.trouble.is_some() && self.written > self.layout.budget;
        if broken { self.layout.budget / 2 } else { self.written.min(self.layout.budget) }
    }

    fn write_index(&self) -> io::Result<()> {
        let file = create(&self.dir, "output.idx")?;
        let bytes: Vec<u8> =
            self.runs.iter().flat_map(|(stream, length)| index_entry(*stream, *length)).collect();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let written = rustix::io::write(&file, rest)?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

fn create(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?)
}

/// Counts in bytes first, which the compiler turns into vector instructions; 255 fit.
fn line_feeds(bytes: &[u8]) -> u64 {
    let count = |chunk: &[u8]| chunk.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    bytes.chunks(255).map(|chunk| u64::from(count(chunk))).sum()
}

fn length(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes any text");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(budget: u64, pieces: &[(Stream, &[u8])]) -> (OutputFacts, Vec<u8>) {
        let dir = tempfile::tempdir().expect("a directory");
        let handle = std::fs::File::open(dir.path()).expect("open");
        let mut capture = Capture::new(handle.into(), budget);
        for (stream, bytes) in pieces {
            capture.take(*stream, bytes);
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
    fn a_character_split_between_two_reads_is_still_text() {
        let euro = "\u{20ac}".as_bytes();
        let split = [(Stream::Out, &euro[..1]), (Stream::Err, b"x"), (Stream::Out, &euro[1..])];
        assert_eq!(capture(100, &split).0.encoding, Encoding::Utf8);
        assert_eq!(capture(100, &split[..1]).0.encoding, Encoding::Binary);
        assert_eq!(capture(100, &[(Stream::Out, b"\xff")]).0.encoding, Encoding::Binary);
    }

    #[test]
    fn a_job_that_prints_nothing_leaves_no_file() {
        let (facts, kept) = capture(100, &[]);
        assert_eq!(facts, OutputFacts::default());
        assert!(kept.is_empty());
    }
}
