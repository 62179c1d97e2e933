//! `logs` and `inspect --logs`: captured output, unbounded.
//!
//! Output lives outside the workspace, so both work after its destruction. Neither returns a package, and `raw_logs` is
//! the bytes themselves.
use crate::engine::Engine;
use crate::reconcile::Held;
use crate::requests::Notice;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{ByteSink, OutputPart, Streams};
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
        let (record, jobs, mut attention) = self.jobs_of(handle)?;
        let logs: Result<Vec<JobLog>, Failure> = jobs.iter().map(|job| self.log_of(job)).collect();
        let logs = logs?;
        let missing = |(job, log): (&JobRecord, &JobLog)| missing(job, log.bytes.len() as u64);
        attention.extend(jobs.iter().zip(&logs).filter_map(missing));
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
        let (_, jobs, notes) = self.jobs_of(handle)?;
        notes.iter().for_each(|note| notice(note));
        jobs.iter().try_for_each(|job| {
            let mut sink = Counting { sink: &mut *sink, bytes: 0 };
            let streamed =
                self.provider.stream_output(&job.id, Streams::Both, &mut sink, &self.cx());
            streamed.map_err(|error| self.provider_failure(error))?;
            missing(job, sink.bytes).iter().for_each(|line| notice(line));
            Ok(())
        })
    }

    fn jobs_of(
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
                let mut notes = self.reconcile(&record, Held::Nothing)?;
                let record = self.known(&record.id)?;
                notes.extend(record.pruned_at.map(|at| {
                    format!("the jobs and the output of workspace {handle} were pruned at {at}")
                }));
                Ok(Found { named: Named::Workspace(Box::new(record)), notes })
            }
            Named::Job(record, job) if job.outcome.is_none() => {
                let notes = self.reconcile(&record, Held::Nothing)?;
                // Read again: the outcome may be there now, and the workspace has moved with it.
                Ok(Found { named: self.named(handle)?, notes })
            }
            named @ Named::Job(..) => Ok(Found { named, notes: Vec::new() }),
        }
    }

    /// Looks a handle up; a workspace wins over a job of the same id.
    fn named(&self, handle: &str) -> Result<Named, Failure> {
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

    fn log_of(&self, job: &JobRecord) -> Result<JobLog, Failure> {
        let kept = self.provider.output(&job.id, OutputPart::Kept, &self.cx());
        let kept = kept.map_err(|error| self.provider_failure(error))?;
        let (mut bytes, omitted_bytes) = (kept.head.into_bytes(), kept.omitted);
        let head_bytes = bytes.len() as u64;
        bytes.extend_from_slice(ByteString::as_bytes(&kept.tail));
        let (output, encoding) = match core::str::from_utf8(&bytes) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (STANDARD.encode(&bytes), Some("base64")),
        };
        let outcome = job.outcome.as_ref();
        Ok(JobLog {
            job_id: job.id.as_str().into(),
            status: outcome.map_or("running", |outcome| outcome.status.name()).into(),
            exit_status: outcome.and_then(|outcome| outcome.exit_status),
            truncated: outcome.is_some_and(|outcome| outcome.output.kept < outcome.output.bytes),
            output_bytes: outcome.map_or(bytes.len() as u64, |outcome| outcome.output.bytes),
            head_bytes,
            omitted_bytes,
            output,
            encoding,
            bytes,
        })
    }
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
