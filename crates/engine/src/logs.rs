//! `logs` and `inspect --logs`: captured output, unbounded.
//!
//! Output lives outside the workspace, so both work after its destruction. Neither returns a package: the shape is the
//! seed's own, and `raw_logs` is the bytes themselves.
use crate::engine::Engine;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{ByteSink, OutputPart};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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

impl Engine<'_> {
    /// Returns the captured output of a job, or of all jobs of a workspace.
    ///
    /// # Errors
    /// [`Failure`] for an unknown handle, or where the output cannot be read.
    pub fn logs(&self, handle: &str) -> Result<CapturedLogs, Failure> {
        let (record, jobs) = self.jobs_of(handle)?;
        let jobs: Result<Vec<JobLog>, Failure> = jobs.iter().map(|job| self.log_of(job)).collect();
        Ok(CapturedLogs {
            handle: handle.into(),
            workspace_id: record.id.as_str().into(),
            jobs: jobs?,
        })
    }

    /// Streams what was kept of a job, or of all jobs of a workspace in order, byte for byte.
    ///
    /// # Errors
    /// As [`Engine::logs`]; `sink` may have got a prefix.
    pub fn raw_logs(&self, handle: &str, sink: &mut dyn ByteSink) -> Result<(), Failure> {
        let (_, jobs) = self.jobs_of(handle)?;
        jobs.iter().try_for_each(|job| {
            let streamed = self.provider.stream_output(&job.id, sink, &self.cx());
            streamed.map_err(|error| self.provider_failure(error))
        })
    }

    fn jobs_of(&self, handle: &str) -> Result<(WorkspaceRecord, Vec<JobRecord>), Failure> {
        match self.named(handle)? {
            Named::Job(record, job) => Ok((*record, vec![*job])),
            Named::Workspace(record) => {
                // What a killed caller left unsettled would read `running` for ever.
                self.reconcile(&record, crate::reconcile::Held::Nothing)?;
                let jobs = self.open()?.jobs(&record.id);
                Ok((*record, jobs.map_err(|error| self.store_failure(&error))?))
            }
        }
    }

    /// Finds what a handle names; a workspace wins over a job of the same id.
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
        if found.outcome.is_some() {
            return Ok(Named::Job(Box::new(record), Box::new(found)));
        }
        self.reconcile(&record, crate::reconcile::Held::Nothing)?;
        let found = store.job(&job).map_err(|error| self.store_failure(&error))?.unwrap_or(found);
        Ok(Named::Job(Box::new(self.known(&found.workspace)?), Box::new(found)))
    }

    fn log_of(&self, job: &JobRecord) -> Result<JobLog, Failure> {
        let kept = self.provider.output(&job.id, OutputPart::Kept, &self.cx());
        let kept = kept.map_err(|error| self.provider_failure(error))?;
        let mut bytes = kept.head.into_bytes();
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
            output,
            encoding,
            bytes,
        })
    }
}
