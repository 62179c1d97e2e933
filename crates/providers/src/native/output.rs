//! Reads the captured output of a job, which outlives its workspace.
//!
//! How it lies in its file is `bailiwick_isolation::output`; a job that printed nothing has no file. While a job runs, and where
//! its supervisor was killed, there is no outcome: then the file's length says how much there is, or `output.ring` once the ring
//! goes round. What is overwritten while it is read is left out and counted, never handed out.
use super::home::Home;
use super::stop::read_outcome;
use super::{hold, trouble};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{Encoding, OutputFacts};
use bailiwick_contract::provider::{
    ByteSink, Followed, OutputBytes, OutputPart, ProviderError, Streams,
};
use bailiwick_isolation::output::{Layout, RingState, Stream, TextCheck, index_run};
use bailiwick_isolation::record::OutcomeFile;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One read while streaming.
const CHUNK_BYTES: usize = 128 << 10;

/// How often a state that is just being written is read again; a write of it takes about a microsecond.
const STATE_READS_MAX: u32 = 1_000;

/// Produced bytes, from the first to before the second.
type Span = (u64, u64);

/// Takes bytes and where they lie in what was produced.
type Take<'a> = dyn FnMut(u64, &[u8]) -> Result<(), ProviderError> + 'a;

/// Captured output as it was when it was opened.
struct Captured {
    dir: PathBuf,
    /// None where nothing was printed, or nothing is left.
    file: Option<File>,
    layout: Layout,
    produced: u64,
    /// One range, or what is kept of both ends.
    kept: Vec<Span>,
    writing: Writing,
}

/// Who may be writing while this is read.
enum Writing {
    /// Nobody: there is an outcome.
    Nobody,
    /// The ring has not gone round yet.
    Straight,
    /// The ring goes round, and this says how far.
    Round(File),
}

impl Captured {
    fn open(dir: &Path) -> io::Result<Self> {
        if let Some(captured) = Self::of_ended(dir)? {
            return Ok(captured);
        }
        if let Some(state) = open_if_there(&dir.join("output.ring"))? {
            return Self::of_ring(dir, state);
        }
        let file = open_if_there(&dir.join("output"))?;
        let size = file.as_ref().map_or(Ok(0), |file| file.metadata().map(|meta| meta.len()))?;
        // It may have ended between the looks; its outcome is recorded before the state of its ring goes.
        Ok(Self::of_ended(dir)?.unwrap_or_else(|| Self {
            dir: dir.to_owned(),
            file,
            layout: Layout::of_budget(u64::MAX),
            produced: size,
            kept: vec![(0, size)],
            writing: Writing::Straight,
        }))
    }

    fn of_ended(dir: &Path) -> io::Result<Option<Self>> {
        let Some(OutcomeFile::Ended { outcome, output_budget }) = read_outcome(dir)? else {
            return Ok(None);
        };
        let layout = Layout::of_budget(output_budget);
        let (produced, kept) = (outcome.output.bytes, outcome.output.kept);
        Ok(Some(Self {
            dir: dir.to_owned(),
            file: open_if_there(&dir.join("output"))?,
            layout,
            produced,
            kept: layout.kept(produced, kept),
            writing: Writing::Nobody,
        }))
    }

    fn of_ring(dir: &Path, state: File) -> io::Result<Self> {
        let ring = read_state(&state)?;
        Ok(Self {
            dir: dir.to_owned(),
            file: open_if_there(&dir.join("output"))?,
            layout: Layout::of_budget(ring.budget),
            produced: ring.done,
            kept: ring.kept(),
            writing: Writing::Round(state),
        })
    }

    /// Returns the range whose bytes may have been overwritten by now.
    fn gone(&self) -> io::Result<Span> {
        match &self.writing {
            Writing::Nobody => Ok((0, 0)),
            Writing::Round(state) => Ok(read_state(state)?.gone()),
            Writing::Straight => {
                if let Some(state) = open_if_there(&self.dir.join("output.ring"))? {
                    return Ok(read_state(&state)?.gone());
                }
                // It may have gone round and ended meanwhile, in whole or with a full disk.
                let between = |ended: Self| {
                    let tail = ended.kept.get(1).map_or(ended.produced, |tail| tail.0);
                    (ended.kept[0].1, tail)
                };
                Ok(Self::of_ended(&self.dir)?.map_or((0, 0), between))
            }
        }
    }

    /// Reads what is there of `span`, which was kept, and gives it to `take` with its place.
    fn read(&self, span: Span, take: &mut Take<'_>) -> Result<(), ProviderError> {
        let Some(file) = &self.file else { return Ok(()) };
        let broken = |error| trouble::named("could not read captured output".into(), error);
        let mut buffer = vec![0; CHUNK_BYTES];
        let (mut at, end) = span;
        while at < end {
            let place = self.layout.place(at);
            let want = place.room.min(end - at).min(CHUNK_BYTES as u64);
            let want = usize::try_from(want).unwrap_or(CHUNK_BYTES);
            let got = file.read_at(&mut buffer[..want], place.offset).map_err(broken)?;
            if got == 0 {
                return Ok(());
            }
            // Only now: what is overwritten from here on is in the buffer already.
            let gone = self.gone().map_err(broken)?;
            let next = at + got as u64;
            for (from, to) in intact((at, next), gone) {
                take(from, &buffer[offset(from - at)..offset(to - at)])?;
            }
            at = if (gone.0..gone.1).contains(&(next - 1)) { gone.1 } else { next };
        }
        Ok(())
    }

    /// Collects what is there of `span`, in one piece each.
    fn collect(&self, span: Span) -> Result<Vec<(u64, Vec<u8>)>, ProviderError> {
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        self.read(span, &mut |at, bytes| {
            match pieces.last_mut() {
                Some((start, piece)) if *start + piece.len() as u64 == at => {
                    piece.extend_from_slice(bytes);
                }
                _ => pieces.push((at, bytes.to_vec())),
            }
            Ok(())
        })?;
        Ok(pieces)
    }

    /// Reads both ends of a wanted part of `wanted` bytes; what lies between them, kept or not, is counted.
    fn both(&self, head: Span, tail: Span, wanted: u64) -> Result<OutputBytes, ProviderError> {
        let mut pieces = self.collect(head)?;
        let has_start = pieces.first().is_some_and(|piece| piece.0 == head.0);
        let start = if has_start { pieces.remove(0).1 } else { Vec::new() };
        // What was overwritten in between leaves a second piece of the first span.
        pieces.extend(self.collect(tail)?);
        let end = if tail.0 < tail.1 { tail.1 } else { head.1 };
        let reaches_end = |piece: &(u64, Vec<u8>)| piece.0 + piece.1.len() as u64 == end;
        let last = pieces.pop().filter(reaches_end).map_or_else(Vec::new, |piece| piece.1);
        let omitted = wanted.saturating_sub((start.len() + last.len()) as u64);
        Ok(OutputBytes { head: start.into(), omitted, tail: last.into() })
    }

    fn part(&self, part: OutputPart) -> Result<OutputBytes, ProviderError> {
        let (first, last) = (self.kept[0], self.kept[self.kept.len() - 1]);
        let is_whole = self.kept.len() == 1;
        let (head_max, tail_max) = match part {
            OutputPart::Kept => (u64::MAX, u64::MAX),
            OutputPart::HeadTail { head, tail } => (head, tail),
            OutputPart::Range { start, end } => {
                let end = end.min(self.produced).max(start);
                let within = |span: Span| (span.0.max(start), span.1.min(end));
                let tail = if is_whole { (0, 0) } else { within(last) };
                return self.both(within(first), tail, end - start);
            }
        };
        if is_whole && first.1 - first.0 <= head_max.saturating_add(tail_max) {
            return self.both(first, (0, 0), self.produced);
        }
        let head = (first.0, first.1.min(first.0.saturating_add(head_max)));
        let tail = (last.1.saturating_sub(tail_max).max(last.0).max(head.1), last.1);
        self.both(head, tail, self.produced)
    }
}

/// Returns what of `span` is not in `gone`.
fn intact(span: Span, gone: Span) -> impl Iterator<Item = Span> {
    let parts = if gone.0 < gone.1 {
        [(span.0, span.1.min(gone.0)), (span.0.max(gone.1), span.1)]
    } else {
        [span, (0, 0)]
    };
    parts.into_iter().filter(|part| part.0 < part.1)
}

/// Within a chunk.
fn offset(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(CHUNK_BYTES)
}

fn open_if_there(path: &Path) -> io::Result<Option<File>> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Reads the state of a ring; one that stays half written was left by a power cut.
fn read_state(file: &File) -> io::Result<RingState> {
    for _ in 0..STATE_READS_MAX {
        let mut bytes = [0; RingState::FILE_BYTES];
        // Shorter is the moment in which it was made.
        let got = file.read_at(&mut bytes, 0)?;
        if let Some(state) = RingState::latest(&bytes[..got]) {
            return Ok(state);
        }
        std::thread::yield_now();
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the state of its ring is damaged"))
}

fn open(home: &Home, job: &JobId) -> Result<Captured, ProviderError> {
    open_in(&home.job(job))
}

fn open_in(dir: &Path) -> Result<Captured, ProviderError> {
    Captured::open(dir).map_err(trouble::on("open the captured output in", dir))
}

/// Reads a part into memory.
pub(super) fn read(
    home: &Home,
    job: &JobId,
    part: OutputPart,
) -> Result<OutputBytes, ProviderError> {
    open(home, job)?.part(part)
}

/// Streams all that was kept, or what of it came from one stream.
pub(super) fn stream(
    home: &Home,
    job: &JobId,
    streams: Streams,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let captured = open(home, job)?;
    let mut push = |_: u64, piece: &[u8]| {
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        sink.push(piece).map_err(ProviderError::Peer)
    };
    let wanted = match streams {
        Streams::Both => None,
        Streams::Stdout => Some(Stream::Out),
        Streams::Stderr => Some(Stream::Err),
    };
    let Some(wanted) = wanted.filter(|_| captured.file.is_some()) else {
        return captured.kept.iter().try_for_each(|span| captured.read(*span, &mut push));
    };
    let mut at = 0;
    for (stream, length) in runs(&captured, job)? {
        let run = (at, at + length);
        at = run.1;
        for kept in captured.kept.iter().filter(|_| stream == wanted) {
            captured.read((run.0.max(kept.0), run.1.min(kept.1)), &mut push)?;
        }
    }
    Ok(())
}

/// Reads the index, which is written at the end: a job in flight, and one whose supervisor was killed, has none.
fn runs(captured: &Captured, job: &JobId) -> Result<Vec<(Stream, u64)>, ProviderError> {
    let step = || format!("could not tell the streams of job {job} apart");
    match std::fs::read(captured.dir.join("output.idx")) {
        Ok(bytes) => {
            let (words, _) = bytes.as_chunks::<4>();
            Ok(words.iter().map(|word| index_run(u32::from_le_bytes(*word))).collect())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let why = "which output is whose is recorded at a job's end; until then, and of a job whose supervisor was lost, \
                       only both together can be read";
            Err(trouble::named(step(), io::Error::new(io::ErrorKind::NotFound, why)))
        }
        Err(error) => Err(trouble::named(step(), error)),
    }
}

/// Gives what was produced from byte `from` on, as far as it is there.
pub(super) fn follow(
    dir: &Path,
    from: u64,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<Followed, ProviderError> {
    // Before the output: what is there when a job has ended is all there will be.
    let ended = has_ended(dir).map_err(trouble::on("look for the supervisor in", dir))?;
    let captured = open_in(dir)?;
    let mut given = 0;
    for (start, end) in &captured.kept {
        captured.read((from.max(*start), *end), &mut |_, piece| {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            given += piece.len() as u64;
            sink.push(piece).map_err(ProviderError::Peer)
        })?;
    }
    let next = captured.produced.max(from);
    Ok(Followed { next, omitted: next - from - given, ended })
}

/// Returns whether nothing will be written any more: there is an outcome, or nobody who could write one.
fn has_ended(dir: &Path) -> io::Result<bool> {
    Ok(read_outcome(dir)?.is_some() || !hold::is_kept(dir)?)
}

/// Describes the output of a job whose supervisor was killed, from the files alone.
pub(super) fn facts_of_lost(dir: &Path) -> OutputFacts {
    // Nothing better is known of a job that was lost, so that a file that cannot be read counts as none.
    open_in(dir).and_then(|captured| describe(&captured)).unwrap_or_default()
}

/// Lines and encoding are those of what was kept, and which stream it came from is not known.
fn describe(captured: &Captured) -> Result<OutputFacts, ProviderError> {
    let (mut hash, mut lines, mut kept) = (Sha256::new(), 0, 0);
    let mut text = true;
    for span in &captured.kept {
        let mut check = TextCheck::default();
        captured.read(*span, &mut |at, piece| {
            hash.update(piece);
            lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            kept += piece.len() as u64;
            check.take(if at == span.0 && at > 0 {
                without_rest_of_character(piece)
            } else {
                piece
            });
            Ok(())
        })?;
        // The first half may end within a character, since what follows is not kept.
        text &= check.is_whole() || (span.1 < captured.produced && !check.is_broken());
    }
    Ok(OutputFacts {
        bytes: captured.produced,
        kept,
        stdout_bytes: captured.produced,
        stderr_bytes: 0,
        lines,
        encoding: if text { Encoding::Utf8 } else { Encoding::Binary },
        sha256: Digest::new(hash.finalize().into()).to_string(),
    })
}

/// Drops the bytes of a character whose beginning was cut off; at most three.
fn without_rest_of_character(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| **byte & 0xc0 == 0x80).count();
    &bytes[rest..]
}
