//! `stop`: ends what a workspace is running, and says what came of it.
//!
//! Without `--apply` it reads the store and changes nothing. The verdict is the one that is recorded: a job that came
//! to its own end before it could be stopped was not stopped. Whoever waits for the job records it; where nobody does,
//! this verb settles it.
use crate::engine::Engine;
use crate::job::command_of;
use crate::pack::check_bound;
use crate::reconcile::Held;
use crate::requests::{Report, StopRequest};
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{JobOutcome, JobStatus, Reason};
use bailiwick_contract::journal::IntentKind;
use bailiwick_contract::package::{ResultPackage, Status};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use bailiwick_contract::time::Timestamp;
use core::time::Duration;

/// The first pause between two looks at the record of a job that has ended.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// How long the caller of an ended job may take to record its outcome: 30 s, since an `exec` exports before it does.
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// What was ended before a workspace is removed.
#[derive(Debug, Default)]
pub(crate) struct Stopped {
    /// The jobs that were in flight.
    pub(crate) jobs: Vec<JobId>,
    /// What was settled on the way.
    pub(crate) notes: Vec<String>,
}

impl Stopped {
    /// Adds what was ended afterwards.
    pub(crate) fn extend(&mut self, later: Self) {
        self.jobs.extend(later.jobs);
        self.notes.extend(later.notes);
    }
}

impl Engine<'_> {
    /// Ends the jobs of a workspace, or says which would be ended.
    ///
    /// # Errors
    /// [`Failure`]; a job may still run where the provider could not end it.
    pub fn stop(&self, request: &StopRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let id = &request.workspace;
        let record = self.known(id).map_err(|f| self.or_job(f, id, "stop", ""))?;
        let jobs = self.in_flight(&record)?;
        if jobs.is_empty() {
            return Ok(self.report(self.nothing(&record, begun), request.bound, None));
        }
        if !request.apply {
            let package = self.preview(&record, &jobs, begun);
            return Ok(self.report(package, request.bound, None));
        }
        let (mut ended, mut notes) = (Vec::new(), Vec::new());
        for job in &jobs {
            let outcome = self.stop_one(&record, &job.id, request.grace, &mut notes)?;
            ended.push((job, outcome));
        }
        let record = self.known(&request.workspace)?;
        let mut package = self.stopped(&record, &ended, begun);
        package.attention.splice(0..0, notes);
        Ok(self.report(package, request.bound, None))
    }

    /// Ends every job in flight, and returns which there were.
    pub(crate) fn stop_all(
        &self,
        record: &WorkspaceRecord,
        grace: Duration,
    ) -> Result<Stopped, Failure> {
        let (jobs, mut notes) = (self.in_flight(record)?, Vec::new());
        for job in &jobs {
            self.stop_one(record, &job.id, grace, &mut notes)?;
        }
        Ok(Stopped { jobs: jobs.into_iter().map(|job| job.id).collect(), notes })
    }

    /// Returns the jobs whose runs are open.
    pub(crate) fn in_flight(&self, record: &WorkspaceRecord) -> Result<Vec<JobRecord>, Failure> {
        let store = self.open()?;
        let mut jobs = Vec::new();
        for intent in self.intents(&record.id)? {
            let Some(id) = intent.job.filter(|_| intent.kind == IntentKind::Run) else { continue };
            let found = store.job(&id).map_err(|error| self.store_failure(&error))?;
            jobs.extend(found.filter(|job| job.outcome.is_none()));
        }
        Ok(jobs)
    }

    fn stop_one(
        &self,
        record: &WorkspaceRecord,
        job: &JobId,
        grace: Duration,
        notes: &mut Vec<String>,
    ) -> Result<JobOutcome, Failure> {
        let patience = SETTLE_MAX.saturating_add(grace);
        let deadline = self.clock.monotonic().saturating_add(patience);
        let mut pause = PAUSE_MIN;
        loop {
            // Each time: a supervisor that is still setting the sandbox up cannot be reached yet.
            let stopped = self.provider.stop(job, grace, &self.cx());
            stopped.map_err(|error| self.provider_failure(error))?;
            self.stop_checks(record, job, grace)?;
            if let Some(outcome) = self.outcome_of(job)? {
                return Ok(outcome);
            }
            // A living caller keeps its hold until it has settled; without one, this does it.
            notes.extend(self.reconcile(record, Held::Nothing)?);
            if let Some(outcome) = self.outcome_of(job)? {
                return Ok(outcome);
            }
            if self.cancel.is_cancelled() {
                return Err(crate::failure::cancelled());
            }
            if self.clock.monotonic() >= deadline {
                return Err(self.not_settled(record, job));
            }
            self.clock.sleep(pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Ends the check of a job that is in flight; its caller then runs no other.
    fn stop_checks(
        &self,
        record: &WorkspaceRecord,
        job: &JobId,
        grace: Duration,
    ) -> Result<(), Failure> {
        for check in self.in_flight(record)? {
            if check.terms.check_of.as_ref().is_some_and(|(parent, _)| parent == job) {
                let stopped = self.provider.stop(&check.id, grace, &self.cx());
                stopped.map_err(|error| self.provider_failure(error))?;
            }
        }
        Ok(())
    }

    /// Returns the outcome that is recorded of a job, if one is.
    pub(crate) fn outcome_of(&self, job: &JobId) -> Result<Option<JobOutcome>, Failure> {
        let found = self.open()?.job(job).map_err(|error| self.store_failure(&error))?;
        Ok(found.and_then(|job| job.outcome))
    }

    fn not_settled(&self, record: &WorkspaceRecord, job: &JobId) -> Failure {
        Failure::new(
            ExitCode::InfrastructureFailure,
            "stop_not_settled",
            format!("job {job} was told to end, and its caller has not recorded an outcome"),
            format!("{} inspect {} says what has become of it", self.program, record.id),
        )
        .retryable()
    }

    fn nothing(&self, record: &WorkspaceRecord, begun: Timestamp) -> ResultPackage {
        let mut package = self.draft(record, begun);
        package.outcome_summary = format!(
            "workspace {} is {} and runs nothing, so there was nothing to end",
            record.id, record.state
        );
        package.key_findings = vec![format!("lifecycle state: {}", record.state)];
        package
    }

    fn preview(
        &self,
        record: &WorkspaceRecord,
        jobs: &[JobRecord],
        begun: Timestamp,
    ) -> ResultPackage {
        let mut package = self.draft(record, begun);
        package.outcome_summary = format!(
            "workspace {} is running {}; this was a preview, and nothing was ended",
            record.id,
            names(jobs.iter())
        );
        package.key_findings = vec![format!("lifecycle state: {}", record.state)];
        for job in jobs {
            package.key_findings.extend(self.running_findings(job));
        }
        package.resource_usage.wall_time_seconds = self.longest(jobs.iter());
        package.attention = vec![format!(
            "{} stop --apply {} ends it; the job then reads cancelled, and that call exits 5",
            self.program, record.id
        )];
        one_job(&mut package, jobs.iter());
        package
    }

    /// Returns what is known of a job in flight.
    pub(crate) fn running_findings(&self, job: &JobRecord) -> Vec<String> {
        let check = job.terms.check_of.as_ref();
        let what = check.map(|(parent, name)| format!(", check '{name}' of job {parent},"));
        let (id, what) = (&job.id, what.unwrap_or_default());
        vec![
            format!("job {id}{what} has been running for {:.1} s", self.seconds_of(job)),
            format!("command: {}", command_of(job)),
            format!("started at {}, by the journal", job.started_at),
        ]
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a job stay far below 2^53")]
    pub(crate) fn seconds_of(&self, job: &JobRecord) -> f64 {
        self.now().millis_since(job.started_at) as f64 / 1e3
    }

    fn longest<'j>(&self, jobs: impl Iterator<Item = &'j JobRecord>) -> f64 {
        jobs.map(|job| self.seconds_of(job)).fold(0.0, f64::max)
    }

    fn stopped(
        &self,
        record: &WorkspaceRecord,
        ended: &[(&JobRecord, JobOutcome)],
        begun: Timestamp,
    ) -> ResultPackage {
        let mut package = self.draft(record, begun);
        let cancelled = |outcome: &JobOutcome| outcome.status == JobStatus::Cancelled;
        let stopped: Vec<&JobRecord> =
            ended.iter().filter(|(_, outcome)| cancelled(outcome)).map(|(job, _)| *job).collect();
        package.outcome_summary = if stopped.is_empty() {
            let names = names(ended.iter().map(|(job, _)| *job));
            let lost = |outcome: &JobOutcome| outcome.reason == Some(Reason::SupervisorLost);
            if ended.iter().any(|(_, outcome)| lost(outcome)) {
                // It may have been killed by this very call, since it did not answer.
                format!("{names} of workspace {} is over; how it ended is not known", record.id)
            } else {
                format!("{names} of workspace {} had ended before it could be stopped", record.id)
            }
        } else {
            package.status = Status::Cancelled;
            format!("{} of workspace {} was stopped", names(stopped.iter().copied()), record.id)
        };
        package.key_findings = vec![format!("lifecycle state: {}", record.state)];
        for (job, outcome) in ended {
            let after = outcome.usage.wall_time_us / 1_000;
            let (id, status) = (&job.id, outcome.status);
            package
                .key_findings
                .push(format!("job {id} ended after {after} ms and reads {status}"));
            package.key_findings.push(format!("command: {}", command_of(job)));
        }
        if let [(_, outcome)] = ended {
            let usage = crate::job::usage(&outcome.usage, outcome.output.bytes);
            package.resource_usage = usage;
            crate::job::fill_facts(&mut package, outcome);
        }
        one_job(&mut package, ended.iter().map(|(job, _)| *job));
        package
    }
}

/// Names the job in the provenance where there is just one.
fn one_job<'j>(package: &mut ResultPackage, mut jobs: impl Iterator<Item = &'j JobRecord>) {
    if let (Some(job), None) = (jobs.next(), jobs.next()) {
        package.provenance.job_id = job.id.as_str().into();
    }
}

fn names<'j>(jobs: impl Iterator<Item = &'j JobRecord>) -> String {
    let ids: Vec<&str> = jobs.map(|job| job.id.as_str()).collect();
    format!("job {}", ids.join(", job "))
}
