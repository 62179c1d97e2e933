//! Reads the captured output of a job, which outlives its workspace.
//!
//! How it lies in its file is `bailiwick_isolation::output`; a job that printed nothing has no file. Where the supervisor was
//! killed there is no outcome, and the file is all that is known.
use super::home::Home;
use super::stop::read_outcome;
use super::trouble;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{Encoding, OutputFacts};
use bailiwick_contract::provider::{ByteSink, OutputBytes, OutputPart, ProviderError};
use bailiwick_isolation::output::Layout;
use bailiwick_isolation::record::OutcomeFile;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One read while streaming.
const CHUNK_BYTES: usize = 128 << 10;

/// Captured output, open for reading.
struct Captured {
    file: File,
    layout: Layout,
    produced: u64,
    kept: u64,
}

impl Captured {
    /// Opens it; `None` where the job printed nothing.
    fn open(dir: &Path) -> io::Result<Option<Self>> {
        let file = match File::open(dir.join("output")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let size = file.metadata()?.len();
        Ok(Some(match read_outcome(dir)? {
            Some(OutcomeFile::Ended { outcome, output_budget }) => Self {
                file,
                layout: Layout::of_budget(output_budget),
                produced: outcome.output.bytes,
                kept: outcome.output.kept,
            },
            // In flight, or lost: what is there so far, as it lies.
            _ => Self { file, layout: Layout::of_budget(u64::MAX), produced: size, kept: size },
        }))
    }

    /// Returns the kept ranges, as (start, end) of produced bytes.
    fn ranges(&self) -> Vec<(u64, u64)> {
        self.layout.kept(self.produced, self.kept)
    }

    /// Reads produced bytes `start..end`, which were kept, into `take`.
    fn read(
        &self,
        start: u64,
        end: u64,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ProviderError>,
    ) -> Result<(), ProviderError> {
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut at = start;
        while at < end {
            let place = self.layout.place(at);
            let want = place.room.min(end - at).min(CHUNK_BYTES as u64);
            let want = usize::try_from(want).unwrap_or(CHUNK_BYTES);
            let got = self
                .file
                .read_at(&mut buffer[..want], place.offset)
                .map_err(|error| trouble::named("could not read captured output".into(), error))?;
            if got == 0 {
                return Ok(());
            }
            take(&buffer[..got])?;
            at += got as u64;
        }
        Ok(())
    }

    fn collect(&self, start: u64, end: u64) -> Result<Vec<u8>, ProviderError> {
        let mut bytes = Vec::new();
        self.read(start, end, &mut |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(bytes)
    }
}

fn open(home: &Home, job: &JobId) -> Result<Option<Captured>, ProviderError> {
    let dir = home.job(job);
    Captured::open(&dir).map_err(trouble::on("open the captured output in", &dir))
}

/// Reads a part into memory.
pub(super) fn read(
    home: &Home,
    job: &JobId,
    part: OutputPart,
) -> Result<OutputBytes, ProviderError> {
    let Some(captured) = open(home, job)? else { return Ok(OutputBytes::default()) };
    let ranges = captured.ranges();
    let (first, last) = (ranges[0], ranges[ranges.len() - 1]);
    let (head_max, tail_max) = match part {
        OutputPart::Kept => (u64::MAX, u64::MAX),
        OutputPart::HeadTail { head, tail } => (head, tail),
        OutputPart::Range { start, end } => (end.saturating_sub(start), 0),
    };
    let whole = ranges.len() == 1 && first.1 - first.0 <= head_max.saturating_add(tail_max);
    let head_end = if whole { first.1 } else { first.1.min(first.0.saturating_add(head_max)) };
    let tail_start = last.1.saturating_sub(tail_max).max(last.0).max(head_end);
    let tail_end = if whole { tail_start } else { last.1.max(tail_start) };
    Ok(OutputBytes {
        head: captured.collect(first.0, head_end)?.into(),
        omitted: captured.produced.saturating_sub(head_end + (tail_end - tail_start)),
        tail: ByteString::from(captured.collect(tail_start, tail_end)?),
    })
}

/// Streams all that was kept.
pub(super) fn stream(
    home: &Home,
    job: &JobId,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let Some(captured) = open(home, job)? else { return Ok(()) };
    for (start, end) in captured.ranges() {
        captured.read(start, end, &mut |piece| {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            sink.push(piece).map_err(ProviderError::Peer)
        })?;
    }
    Ok(())
}

/// Describes the output of a job whose supervisor was killed, from the file alone.
pub(super) fn facts_of_lost(dir: &Path) -> OutputFacts {
    // Nothing better is known of a job that was lost, so that a file that cannot be read counts as none.
    describe(dir).unwrap_or_default()
}

fn describe(dir: &Path) -> io::Result<OutputFacts> {
    let mut bytes = Vec::new();
    File::open(dir.join("output"))?.read_to_end(&mut bytes)?;
    let length = bytes.len() as u64;
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    let text = std::str::from_utf8(&bytes).is_ok();
    let hash = Sha256::digest(&bytes);
    Ok(OutputFacts {
        bytes: length,
        kept: length,
        stdout_bytes: length,
        stderr_bytes: 0,
        lines,
        encoding: if text { Encoding::Utf8 } else { Encoding::Binary },
        sha256: bailiwick_contract::artifact::Digest::new(hash.into()).to_string(),
    })
}
