//! A job's output as a value of time: what it has printed by an instant, computed and never stored.
//!
//! A flood is a text and a number. Which of the produced bytes count as kept is decided by the layout of the budget, as it is
//! for a real capture.
use super::script::{Piece, Stream};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::job::{Encoding, OutputFacts};
use bailiwick_contract::provider::Streams;
use bailiwick_isolation::output::{Layout, TextCheck};
use sha2::{Digest as _, Sha256};

/// The most that is given at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Takes the next bytes and the stream that they belong to.
type Take<'t, E> = dyn FnMut(Stream, &[u8]) -> Result<(), E> + 't;

/// What a job has printed by some instant.
#[derive(Debug)]
pub(super) struct Printed<'a> {
    runs: Vec<Run<'a>>,
    layout: Layout,
}

/// A text that is printed some times in a row.
#[derive(Debug)]
struct Run<'a> {
    stream: Stream,
    text: &'a [u8],
    start: u64,
    end: u64,
}

impl<'a> Printed<'a> {
    /// What `pieces` have come to, so many microseconds after the job's start.
    pub(super) fn by(pieces: &'a [Piece], micros: u64, budget: u64) -> Self {
        let mut runs = Vec::new();
        let mut start = 0;
        for piece in pieces.iter().filter(|piece| piece.at_ms.saturating_mul(1_000) <= micros) {
            let text = piece.text.as_bytes();
            let end = start + text.len() as u64 * piece.repeat;
            runs.push(Run { stream: piece.stream, text, start, end });
            start = end;
        }
        Self { runs, layout: Layout::of_budget(budget) }
    }

    /// How many bytes were produced.
    pub(super) fn produced(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// How many of them count as kept.
    pub(super) fn kept(&self) -> u64 {
        self.produced().min(self.layout.budget)
    }

    /// Which of them, as (start, end) pairs in order.
    pub(super) fn ranges(&self) -> Vec<(u64, u64)> {
        self.layout.kept(self.produced(), self.kept())
    }

    /// Gives produced bytes `start..end` of `streams`, piece by piece.
    pub(super) fn give<E>(
        &self,
        (start, end): (u64, u64),
        streams: Streams,
        take: &mut Take<'_, E>,
    ) -> Result<(), E> {
        for run in self.runs.iter().filter(|run| wanted(run.stream, streams)) {
            run.give(start.max(run.start), end.min(run.end), take)?;
        }
        Ok(())
    }

    /// Collects produced bytes `start..end` of both streams.
    pub(super) fn collect(&self, start: u64, end: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut take = |_, piece: &[u8]| {
            bytes.extend_from_slice(piece);
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = self.give((start, end), Streams::Both, &mut take);
        bytes
    }

    /// The digest of what counts as kept.
    fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for range in self.ranges() {
            let mut take = |_, piece: &[u8]| {
                hash.update(piece);
                Ok::<(), std::convert::Infallible>(())
            };
            let Ok(()) = self.give(range, Streams::Both, &mut take);
        }
        Digest::new(hash.finalize().into())
    }

    /// Counts all of it, and hashes what counts as kept.
    pub(super) fn facts(&self) -> OutputFacts {
        let (mut lines, mut bytes) = (0, [0_u64; 2]);
        let mut text = [TextCheck::default(), TextCheck::default()];
        let mut take = |stream: Stream, piece: &[u8]| {
            lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            bytes[stream as usize] += piece.len() as u64;
            text[stream as usize].take(piece);
            Ok::<(), std::convert::Infallible>(())
        };
        let Ok(()) = self.give((0, self.produced()), Streams::Both, &mut take);
        let is_text = text.iter().all(TextCheck::is_whole);
        OutputFacts {
            bytes: self.produced(),
            kept: self.kept(),
            stdout_bytes: bytes[Stream::Stdout as usize],
            stderr_bytes: bytes[Stream::Stderr as usize],
            lines,
            encoding: if is_text { Encoding::Utf8 } else { Encoding::Binary },
            sha256: self.digest().to_string(),
        }
    }
}

const fn wanted(stream: Stream, streams: Streams) -> bool {
    match streams {
        Streams::Both => true,
        Streams::Stdout => matches!(stream, Stream::Stdout),
        Streams::Stderr => matches!(stream, Stream::Stderr),
    }
}

impl Run<'_> {
    fn give<E>(&self, start: u64, end: u64, take: &mut Take<'_, E>) -> Result<(), E> {
        if start >= end {
            return Ok(());
        }
        let length = self.text.len() as u64;
        let times =
            if self.end - self.start > length { CHUNK_BYTES / self.text.len() + 2 } else { 1 };
        // Long enough that a chunk can begin anywhere in the text.
        let block = self.text.repeat(times);
        let mut at = start;
        while at < end {
            let from = usize::try_from((at - self.start) % length).unwrap_or(0);
            let room = (end - at).min((block.len() - from) as u64).min(CHUNK_BYTES as u64);
            let until = from + usize::try_from(room).unwrap_or(CHUNK_BYTES);
            take(self.stream, &block[from..until])?;
            at += room;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::bytes::ByteString;

    fn piece(stream: Stream, text: &str, repeat: u64, at_ms: u64) -> Piece {
        Piece { stream, text: ByteString::from(text), echo: None, repeat, at_ms }
    }

    #[test]
    fn a_flood_is_the_same_text_wherever_it_is_cut() {
        let pieces =
            [piece(Stream::Stdout, "abc\n", 40_000, 0), piece(Stream::Stderr, "end", 1, 0)];
        let printed = Printed::by(&pieces, 0, 100);
        let whole = ["abc\n".repeat(40_000), "end".into()].concat().into_bytes();
        assert_eq!(printed.collect(0, printed.produced()), whole);
        assert_eq!(printed.collect(65_537, 131_111), &whole[65_537..131_111]);
        assert_eq!(printed.ranges(), [(0, 50), (159_953, 160_003)]);
        let facts = printed.facts();
        assert_eq!((facts.bytes, facts.kept, facts.lines), (160_003, 100, 40_000));
        assert_eq!((facts.stdout_bytes, facts.stderr_bytes), (160_000, 3));
        let ends = [&whole[..50], &whole[159_953..]].concat();
        assert_eq!(facts.sha256, Digest::new(Sha256::digest(&ends).into()).to_string());
    }

    #[test]
    fn output_grows_with_time() {
        let pieces = [piece(Stream::Stdout, "now", 1, 0), piece(Stream::Stdout, "later", 1, 20)];
        assert_eq!(Printed::by(&pieces, 19_999, 100).collect(0, 100), b"now");
        assert_eq!(Printed::by(&pieces, 20_000, 100).collect(0, 100), b"nowlater");
        assert_eq!(Printed::by(&[], 0, 100).facts(), OutputFacts::default());
    }
}
