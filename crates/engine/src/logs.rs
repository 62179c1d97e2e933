//! `logs` and `inspect --logs`: captured output, unbounded, or a part of it.
//!
//! Output lives outside the workspace, so both work after its destruction. Neither returns a package, and `raw_logs` is
//! the bytes themselves. A part is one stream, or a range of what was produced; what is missing in it is said.
use crate::engine::Engine;
use crate::reconcile::Held;
use crate::requests::{LogPart, Notice};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::job::JobOutcome;
use bailiwick_contract::provider::{ByteSink, OutputBytes, OutputPart, Streams};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::error::Error;
use serde::Serialize;

/// Captured output of a job, or of all jobs of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CapturedLogs {
    /// The handle as it was given.
    pub handle: String,
    /// The workspace.
    pub workspace_id: String,
    /// The jobs, oldest first.
    pub jobs: Vec<JobLog>,
    /// What an earlier, killed verb left and this one settled, and which output is not kept any more.
    pub attention: Vec<String>,
}

/// Captured output of one job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobLog {
    /// The job.
    pub job_id: String,
    /// The job that this one checks, and the check's name; absent where it checks none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_of: Option<(JobId, String)>,
    /// How it ended, or `running`.
    pub status: String,
    /// The exit status by shell convention; null where there is none.
    pub exit_status: Option<i32>,
    /// Whether the output budget cut the middle out.
    pub truncated: bool,
    /// Bytes produced; of a running job, bytes kept so far.
    pub output_bytes: u64,
    /// Bytes of the output that come before those that are missing; all of it where none are.
    pub head_bytes: u64,
    /// Bytes that were produced and are missing between the first `head_bytes` and the rest.
    pub omitted_bytes: u64,
    /// The produced bytes that a range holds, `[first, before]`; absent where none was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    /// The one stream that was asked for; absent where both were. All figures are those of the stream then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<&'static str>,
    /// What was kept: text, or base64 where `encoding` says so.
    pub output: String,
    /// `base64` where the kept bytes are not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// What was kept, as it is; for the text rendering.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// What a handle names.
pub(crate) enum Named {
    /// A workspace.
    Workspace(Box<WorkspaceRecord>),
    /// A job, and its workspace.
    Job(Box<WorkspaceRecord>, Box<JobRecord>),
}

/// What a handle names, after what dead callers left in its workspace was settled.
pub(crate) struct Found {
    pub(crate) named: Named,
    /// What was settled.
    pub(crate) notes: Vec<String>,
}

/// Passes bytes on and counts them.
struct Counting<'s> {
    sink: &'s mut dyn ByteSink,
    bytes: u64,
}

impl ByteSink for Counting<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.bytes += bytes.len() as u64;
        self.sink.push(bytes)
    }
}

impl Engine<'_> {
    /// Returns the captured output of a job, or of all jobs of a workspace.
    ///
    /// # Errors
    /// [`Failure`] for an unknown handle, or where the output cannot be read.
    pub fn logs(&self, handle: &str) -> Result<CapturedLogs, Failure> {
        self.logs_part(handle, LogPart::default())
    }

    /// Returns a part of it; a range is of one job.
    ///
    /// # Errors
    /// As [`Engine::logs`], and `which_job` where a range is asked of a workspace with several jobs.
    pub fn logs_part(&self, handle: &str, part: LogPart) -> Result<CapturedLogs, Failure> {
        let (record, mut jobs, mut attention) = self.jobs_of(handle)?;
        check_one(&mut jobs, handle, part)?;
        let logs: Result<Vec<JobLog>, Failure> =
            jobs.iter().map(|job| self.log_of(job, part)).collect();
        let logs = logs?;
        let lines = jobs
            .iter()
            .zip(&logs)
            .filter_map(|(job, log)| lacking(job, part, log.bytes.len() as u64));
        attention.extend(lines);
        Ok(CapturedLogs {
            handle: handle.into(),
            workspace_id: record.id.as_str().into(),
            jobs: logs,
            attention,
        })
    }

    /// Streams what was kept of a job, or of all jobs of a workspace in order, byte for byte; tells `notice` what the
    /// attention of [`Engine::logs`] says.
    ///
    /// # Errors
    /// As [`Engine::logs`]; `sink` may have got a prefix.
    pub fn raw_logs(
        &self,
        handle: &str,
        sink: &mut dyn ByteSink,
        notice: Notice<'_>,
    ) -> Result<(), Failure> {
        self.raw_logs_part(handle, LogPart::default(), sink, notice)
    }

    /// The same for a part; tells `notice` also how much of a range is missing.
    ///
    /// # Errors
    /// As [`Engine::logs_part`]; `sink` may have got a prefix.
    pub fn raw_logs_part(
        &self,
        handle: &str,
        part: LogPart,
        sink: &mut dyn ByteSink,
        notice: Notice<'_>,
    ) -> Result<(), Failure> {
        let (_, mut jobs, notes) = self.jobs_of(handle)?;
        check_one(&mut jobs, handle, part)?;
        notes.iter().for_each(|note| notice(note));
        jobs.iter().try_for_each(|job| {
            let mut sink = Counting { sink: &mut *sink, bytes: 0 };
            if let Some((start, end)) = part.range {
                return self.stream_range(job, start, end, &mut sink, notice);
            }
            let streamed =
                self.provider.stream_output(&job.id, part.streams, &mut sink, &self.cx());
            streamed.map_err(|error| self.provider_failure(error))?;
            lacking(job, part, sink.bytes).iter().for_each(|line| notice(line));
            Ok(())
        })
    }

    /// Streams produced bytes `start..end` in pieces, so that a range of any size takes little room.
    fn stream_range(
        &self,
        job: &JobRecord,
        start: u64,
        end: u64,
        sink: &mut Counting<'_>,
        notice: Notice<'_>,
    ) -> Result<(), Failure> {
        let (mut at, mut missing) = (start, 0);
        while at < end {
            if self.cancel.is_cancelled() {
                return Err(crate::failure::cancelled());
            }
            let to = end.min(at.saturating_add(PIECE_BYTES));
            let piece = OutputPart::Range { start: at, end: to };
            let bytes = self.provider.output(&job.id, piece, &self.cx());
            let bytes = bytes.map_err(|error| self.provider_failure(error))?;
            for part in [bytes.head.as_bytes(), bytes.tail.as_bytes()] {
                let pushed = if part.is_empty() { Ok(()) } else { sink.push(part) };
                let peer = bailiwick_contract::provider::ProviderError::Peer;
                pushed.map_err(|error| self.provider_failure(peer(error)))?;
            }
            missing += bytes.omitted;
            let got = (bytes.head.as_bytes().len() + bytes.tail.as_bytes().len()) as u64;
            if got + bytes.omitted < to - at {
                break;
            }
            at = to;
        }
        if missing > 0 {
            notice(&format!("{missing} bytes of that range of job {} were not kept", job.id));
        }
        Ok(())
    }

    pub(crate) fn jobs_of(
        &self,
        handle: &str,
    ) -> Result<(WorkspaceRecord, Vec<JobRecord>, Vec<String>), Failure> {
        let Found { named, notes } = self.find(handle)?;
        match named {
            Named::Job(record, job) => Ok((*record, vec![*job], notes)),
            Named::Workspace(record) => {
                let jobs = self.open()?.jobs(&record.id);
                Ok((*record, jobs.map_err(|error| self.store_failure(&error))?, notes))
            }
        }
    }

    /// Finds what a handle names, and settles what a killed caller left there: it would read `running` for ever.
    pub(crate) fn find(&self, handle: &str) -> Result<Found, Failure> {
        match self.named(handle)? {
            Named::Workspace(record) => {
                let mut notes = self.reconcile(&record, Held::Looking)?;
                let record = self.known(&record.id)?;
                notes.extend(record.pruned_at.map(|at| {
                    format!("the jobs and the output of workspace {handle} were pruned at {at}")
                }));
                Ok(Found { named: Named::Workspace(Box::new(record)), notes })
            }
            Named::Job(record, job) if job.outcome.is_none() => {
                let notes = self.reconcile(&record, Held::Looking)?;
                // Read again: the outcome may be there now, and the workspace has moved with it.
                Ok(Found { named: self.named(handle)?, notes })
            }
            named @ Named::Job(..) => Ok(Found { named, notes: Vec::new() }),
        }
    }

    /// Looks a handle up; a workspace wins over a job of the same id.
    pub(crate) fn named(&self, handle: &str) -> Result<Named, Failure> {
        let store = self.open()?;
        let workspace = WorkspaceId::parse(handle).map_err(|_| self.unknown(handle))?;
        if let Some(record) = store.workspace(&workspace).map_err(|e| self.store_failure(&e))? {
            return Ok(Named::Workspace(Box::new(record)));
        }
        let job = JobId::parse(handle).map_err(|_| self.unknown(handle))?;
        let found = store.job(&job).map_err(|error| self.store_failure(&error))?;
        let Some(found) = found else { return Err(self.unknown(handle)) };
        let record = self.known(&found.workspace)?;
        Ok(Named::Job(Box::new(record), Box::new(found)))
    }

    fn log_of(&self, job: &JobRecord, part: LogPart) -> Result<JobLog, Failure> {
        let kept = self.kept_of(job, part)?;
        let (mut bytes, omitted_bytes) = (kept.head.into_bytes(), kept.omitted);
        let head_bytes = bytes.len() as u64;
        bytes.extend_from_slice(ByteString::as_bytes(&kept.tail));
        let (output, encoding) = match core::str::from_utf8(&bytes) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (STANDARD.encode(&bytes), Some("base64")),
        };
        let reached = bytes.len() as u64 + omitted_bytes;
        let range = part.range.map(|(start, end)| (start, end.min(start.saturating_add(reached))));
        let outcome = job.outcome.as_ref();
        let produced = outcome.map(|outcome| produced_of(outcome, part.streams));
        Ok(JobLog {
            job_id: job.id.as_str().into(),
            check_of: job.terms.check_of.clone(),
            status: outcome.map_or("running", |outcome| outcome.status.name()).into(),
            exit_status: outcome.and_then(|outcome| outcome.exit_status),
            truncated: outcome.is_some_and(|outcome| outcome.output.kept < outcome.output.bytes),
            output_bytes: produced.unwrap_or(bytes.len() as u64),
            head_bytes,
            omitted_bytes,
            range,
            stream: stream_name(part.streams),
            output,
            encoding,
            bytes,
        })
    }

    fn kept_of(&self, job: &JobRecord, part: LogPart) -> Result<OutputBytes, Failure> {
        let kept = match part {
            LogPart { streams: Streams::Both, range: None } => {
                self.provider.output(&job.id, OutputPart::Kept, &self.cx())
            }
            LogPart { range: Some((start, end)), .. } => {
                self.provider.output(&job.id, OutputPart::Range { start, end }, &self.cx())
            }
            LogPart { streams, range: None } => {
                let mut all = Collected::default();
                let read = self.provider.stream_output(&job.id, streams, &mut all, &self.cx());
                read.map(|()| OutputBytes { head: all.0.into(), ..OutputBytes::default() })
            }
        };
        kept.map_err(|error| self.provider_failure(error))
    }
}

/// What one look at a range may read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Keeps what it is given.
#[derive(Default)]
struct Collected(Vec<u8>);

impl ByteSink for Collected {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Refuses a range of several outputs; a check is not among those that a workspace's handle means.
fn check_one(jobs: &mut Vec<JobRecord>, handle: &str, part: LogPart) -> Result<(), Failure> {
    if part.range.is_none() || jobs.len() == 1 {
        return Ok(());
    }
    jobs.retain(|job| job.terms.check_of.is_none());
    let message = match &jobs[..] {
        [_] => return Ok(()),
        [] => format!("workspace {handle} has run no job yet"),
        jobs => format!("workspace {handle} has {} jobs, and a range is of one", jobs.len()),
    };
    Err(Failure::user("which_job", message, "name the job; logs without --range lists them"))
}

fn produced_of(outcome: &JobOutcome, streams: Streams) -> u64 {
    match streams {
        Streams::Both => outcome.output.bytes,
        Streams::Stdout => outcome.output.stdout_bytes,
        Streams::Stderr => outcome.output.stderr_bytes,
    }
}

const fn stream_name(streams: Streams) -> Option<&'static str> {
    match streams {
        Streams::Both => None,
        Streams::Stdout => Some("stdout"),
        Streams::Stderr => Some("stderr"),
    }
}

/// Returns the line about what is not there of a part of a job's output, of which `there` bytes are.
fn lacking(job: &JobRecord, part: LogPart, there: u64) -> Option<String> {
    let Some(stream) = stream_name(part.streams) else {
        return missing(job, there).filter(|_| part.range.is_none());
    };
    let produced = produced_of(job.outcome.as_ref()?, part.streams);
    let id = &job.id;
    let line = || format!("{there} of {produced} bytes of the {stream} of job {id} are kept");
    (there < produced).then(line)
}

/// Returns the line about output that was kept and is not there any more, such as after a prune; `there` bytes are.
pub(crate) fn missing(job: &JobRecord, there: u64) -> Option<String> {
    let kept = job.outcome.as_ref()?.output.kept;
    let id = &job.id;
    (there < kept).then(|| match there {
        0 => format!("nothing of the output of job {id} is kept any more: {kept} bytes were"),
        _ => format!("only {there} of {kept} bytes of the output of job {id} are still there"),
    })
}
