//! `logs --follow`: what a job prints, as it prints it, until its end.
//!
//! It looks again and again and never waits inside the provider. It settles nothing, so that following a detached job does
//! not take the place of waiting for it.
use crate::engine::Engine;
use crate::logs::Named;
use crate::requests::Notice;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::provider::ByteSink;
use bailiwick_contract::record::JobRecord;
use core::time::Duration;

/// The pause after a look that found something.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause between two looks at a silent job.
const PAUSE_MAX: Duration = Duration::from_millis(160);

impl Engine<'_> {
    /// Gives `sink` what a job has printed and what it prints, until it has ended; tells `notice` what is missing.
    ///
    /// # Errors
    /// [`Failure`] for an unknown handle, and for a workspace with several jobs in flight; `cancelled` where the caller was.
    pub fn follow(
        &self,
        handle: &str,
        sink: &mut dyn ByteSink,
        notice: Notice<'_>,
    ) -> Result<(), Failure> {
        let job = self.followed(handle)?;
        let (mut from, mut pause) = (0, PAUSE_MIN);
        loop {
            let followed = self.provider.follow_output(&job.id, from, sink, &self.cx());
            let followed = followed.map_err(|error| self.provider_failure(error))?;
            if followed.omitted > 0 {
                notice(&format!(
                    "{} bytes before byte {} of job {} are not kept",
                    followed.omitted, followed.next, job.id
                ));
            }
            if followed.ended {
                return Ok(());
            }
            if self.cancel.is_cancelled() {
                return Err(self.left(&job));
            }
            pause = if followed.next > from { PAUSE_MIN } else { PAUSE_MAX.min(pause * 2) };
            from = followed.next;
            self.clock.sleep(pause);
        }
    }

    /// Returns the job that a handle stands for: a job, else the one in flight, else the last one.
    fn followed(&self, handle: &str) -> Result<JobRecord, Failure> {
        let record = match self.named(handle)? {
            Named::Job(_, job) => return Ok(*job),
            Named::Workspace(record) => record,
        };
        let own = |job: &JobRecord| job.terms.check_of.is_none();
        let mut running: Vec<_> = self.in_flight(&record)?.into_iter().filter(own).collect();
        if running.len() > 1 {
            let ids: Vec<&str> = running.iter().map(|job| job.id.as_str()).collect();
            return Err(Failure::user(
                "which_job",
                format!("workspace {handle} runs {} jobs: {}", ids.len(), ids.join(", ")),
                "name the one to follow",
            ));
        }
        if let Some(job) = running.pop() {
            return Ok(job);
        }
        let jobs = self.open()?.jobs(&record.id).map_err(|error| self.store_failure(&error))?;
        jobs.into_iter().rfind(own).ok_or_else(|| self.no_job(handle))
    }

    fn left(&self, job: &JobRecord) -> Failure {
        let (id, program) = (&job.id, self.program);
        Failure::new(
            ExitCode::Cancelled,
            "cancelled",
            format!("following job {id} was interrupted; the job was left alone"),
            format!("{program} logs --follow {id} follows it again"),
        )
        .retryable()
    }
}
