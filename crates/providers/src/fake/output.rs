//! What a job has printed, for those who read it: whole, in part, of one stream, or as it comes.
//!
//! It is computed from what the job does and from its end, or from now while it goes on; it outlives the workspace as long as the
//! job's directory is there.
use super::course::Work;
use super::printed::Printed;
use super::record::JobDir;
use super::settle::{Known, look};
use crate::native::hold::is_kept;
use crate::native::home::Home;
use crate::native::retention::each_job;
use crate::native::trouble;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::JobId;
use bailiwick_contract::provider::{
    ByteSink, Followed, KeptOutput, OutputBytes, OutputPart, ProviderError, Streams,
};
use bailiwick_contract::time::Timestamp;
use std::io;

impl Known {
    /// What was printed by `now`.
    fn printed(&self, now: Timestamp) -> Option<Printed<'_>> {
        let (work, from, to): (&Work, Timestamp, Timestamp) = match self {
            Self::Alive { work, started } => (work, *started, now),
            Self::Ended { work: Some(work), outcome } => {
                (work, outcome.started_at, outcome.finished_at)
            }
            Self::Nothing | Self::Waiting | Self::Ended { work: None, .. } => return None,
        };
        Some(work.printed(to.as_micros().saturating_sub(from.as_micros())))
    }
}

fn known(home: &Home, job: &JobId, now: Timestamp) -> Result<Known, ProviderError> {
    look(home, job, now).map_err(trouble::on("look for the job in", &home.job(job)))
}

/// Reads a part into memory.
pub(super) fn read(
    home: &Home,
    job: &JobId,
    part: OutputPart,
    cx: &OpCx<'_>,
) -> Result<OutputBytes, ProviderError> {
    let now = cx.clock.now();
    let known = known(home, job, now)?;
    let Some(printed) = known.printed(now) else { return Ok(OutputBytes::default()) };
    Ok(match part {
        OutputPart::Kept => ends(&printed, u64::MAX, u64::MAX),
        OutputPart::HeadTail { head, tail } => ends(&printed, head, tail),
        OutputPart::Range { start, end } => range(&printed, start, end),
    })
}

/// At most so many bytes from the start and from the end of what was kept.
fn ends(printed: &Printed<'_>, head: u64, tail: u64) -> OutputBytes {
    let ranges = printed.ranges();
    let (first, last) = (ranges[0], ranges[ranges.len() - 1]);
    let whole = ranges.len() == 1 && first.1 <= head.saturating_add(tail);
    let head_end = if whole { first.1 } else { first.1.min(head) };
    let tail_start = last.1.saturating_sub(tail).max(last.0).max(head_end);
    let tail_start = if whole { last.1 } else { tail_start };
    OutputBytes {
        head: printed.collect(0, head_end).into(),
        omitted: printed.produced() - head_end - (last.1 - tail_start),
        tail: printed.collect(tail_start, last.1).into(),
    }
}

/// Produced bytes `start..end`, as far as they were kept.
fn range(printed: &Printed<'_>, start: u64, end: u64) -> OutputBytes {
    let end = end.min(printed.produced());
    let start = start.min(end);
    let ranges = printed.ranges();
    let within = |(from, to): &(u64, u64)| printed.collect((*from).max(start), (*to).min(end));
    let head = ranges.first().map(within).unwrap_or_default();
    let tail = ranges.get(1).map(within).unwrap_or_default();
    let omitted = (end - start) - (head.len() + tail.len()) as u64;
    OutputBytes { head: head.into(), omitted, tail: tail.into() }
}

/// Streams all that was kept of `streams`.
pub(super) fn stream(
    home: &Home,
    job: &JobId,
    streams: Streams,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let now = cx.clock.now();
    let known = known(home, job, now)?;
    let Some(printed) = known.printed(now) else { return Ok(()) };
    if streams != Streams::Both && matches!(known, Known::Alive { .. }) {
        // A script could tell, but nothing that runs can.
        let step = format!("could not tell the streams of job {job} apart");
        let why = "which output is whose is known once the job has ended; until then only both together can be read";
        return Err(trouble::named(step, io::Error::new(io::ErrorKind::NotFound, why)));
    }
    for range in printed.ranges() {
        printed.give(range, streams, &mut |_, piece| {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            sink.push(piece).map_err(ProviderError::Peer)
        })?;
    }
    Ok(())
}

/// Gives what was produced from byte `from` on.
pub(super) fn follow_job(
    home: &Home,
    job: &JobId,
    from: u64,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
) -> Result<Followed, ProviderError> {
    let now = cx.clock.now();
    follow(&known(home, job, now)?, from, sink, cx, now)
}

/// The same of a job that was looked at.
pub(super) fn follow(
    known: &Known,
    from: u64,
    sink: &mut dyn ByteSink,
    cx: &OpCx<'_>,
    now: Timestamp,
) -> Result<Followed, ProviderError> {
    let ended = !matches!(known, Known::Alive { .. } | Known::Waiting);
    let Some(printed) = known.printed(now) else {
        return Ok(Followed { next: from, omitted: 0, ended });
    };
    let next = printed.produced().max(from);
    let mut given = 0;
    for (start, end) in printed.ranges() {
        let start = start.max(from);
        printed.give((start, end), Streams::Both, &mut |_, piece| {
            if let Some(interrupted) = cx.interrupted() {
                return Err(interrupted.into());
            }
            given += piece.len() as u64;
            sink.push(piece).map_err(ProviderError::Peer)
        })?;
    }
    Ok(Followed { next, omitted: (next - from) - given, ended })
}

/// Lists the jobs that have printed something.
pub(super) fn kept(home: &Home, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
    each_job(home, cx, &|job| kept_of(home, job, cx.clock.now()))
}

fn kept_of(home: &Home, job: JobId, now: Timestamp) -> Result<Option<KeptOutput>, ProviderError> {
    let known = known(home, &job, now)?;
    let bytes = known.printed(now).map_or(0, |printed| printed.kept());
    let changed_at = match &known {
        Known::Ended { outcome, .. } => outcome.finished_at,
        _ => now,
    };
    Ok((bytes > 0).then_some(KeptOutput { job, bytes, changed_at }))
}

/// Removes what is kept of a job that has ended.
pub(super) fn discard(home: &Home, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError> {
    let dir = home.job(job);
    let remove = || -> io::Result<()> {
        if is_kept(&dir)? || matches!(look(home, job, cx.clock.now())?, Known::Alive { .. }) {
            return Ok(());
        }
        JobDir::at(dir.clone()).remove()
    };
    remove().map_err(trouble::on("remove", &dir))
}
