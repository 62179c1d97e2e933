//! `wait`: the end of a job that somebody else started, reported as its own caller would have.
//!
//! It only looks while the job is in flight. One that has ended with nobody to settle it is taken over: its checks are run
//! under a hold of its workspace, and it is settled and told in the words of `run`. What is on record already is told again.
use crate::engine::Engine;
use crate::flight::Flight;
use crate::hold::Attempt;
use crate::job::Story;
use crate::logs::Named;
use crate::pack::check_bound;
use crate::reconcile::Held;
use crate::requests::{Bound, Report, WaitRequest};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::JobId;
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::job::{JobOutcome, JobStatus};
use bailiwick_contract::journal::IntentKind;
use bailiwick_contract::provider::{Hold, Recovered, Slots};
use bailiwick_contract::record::{JobRecord, OpenIntent, WorkspaceRecord};
use core::time::Duration;

/// The first pause between two looks at a job in flight.
const PAUSE_MIN: Duration = Duration::from_millis(2);

/// The longest pause between two looks: what a caller may notice, and a look costs a few system calls.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// What came of an attempt to take a job over.
enum Adoption {
    /// This verb settles it.
    Ours(Box<Adopted>),
    /// Somebody is at work on it; look again.
    Later,
    /// There is nothing to run any more: any verb may settle it.
    Never,
}

/// A job that this verb settles.
struct Adopted {
    hold: Box<dyn Hold>,
    intent: OpenIntent,
    outcome: JobOutcome,
}

impl Engine<'_> {
    /// Waits for the end of a job, or of all jobs in flight in a workspace, and reports the last one.
    ///
    /// # Errors
    /// [`Failure`] for an unknown handle or one without a job; `wait_timeout` where the time is over and `cancelled` where
    /// the caller was, with nothing changed.
    pub fn wait(&self, request: &WaitRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let deadline = request.timeout.map(|time| self.clock.monotonic().saturating_add(time));
        let jobs = self.awaited(&request.handle)?;
        let (last, earlier) = jobs.split_last().ok_or_else(|| self.no_job(&request.handle))?;
        let mut lines = Vec::new();
        for job in earlier {
            let report = self.wait_for(job, deadline, None)?;
            lines.push(format!("job {} ended too: {}", job.id, report.package.status));
        }
        let report = self.wait_for(last, deadline, request.bound)?;
        if lines.is_empty() {
            return Ok(report);
        }
        // Made again with the others in it, before it is bounded.
        let mut report = self.wait_for(last, deadline, None)?;
        report.package.key_findings.extend(lines);
        Ok(Report {
            exit: report.exit,
            ..self.report(report.package, request.bound, Some(&last.id))
        })
    }

    /// Returns the jobs that a handle stands for: a job, else those in flight, else the last one.
    fn awaited(&self, handle: &str) -> Result<Vec<JobRecord>, Failure> {
        let record = match self.named(handle)? {
            Named::Job(_, job) => return Ok(vec![*job]),
            Named::Workspace(record) => record,
        };
        let own = |job: &JobRecord| job.terms.check_of.is_none();
        let running: Vec<_> = self.in_flight(&record)?.into_iter().filter(own).collect();
        if !running.is_empty() {
            return Ok(running);
        }
        let jobs = self.open()?.jobs(&record.id).map_err(|error| self.store_failure(&error))?;
        Ok(jobs.into_iter().rfind(own).into_iter().collect())
    }

    pub(crate) fn no_job(&self, handle: &str) -> Failure {
        Failure::user(
            "no_job",
            format!("workspace {handle} has run no job yet"),
            format!("{} run --detach {handle} COMMAND... starts one", self.program),
        )
    }

    fn wait_for(
        &self,
        job: &JobRecord,
        deadline: Option<Duration>,
        bound: Option<Bound>,
    ) -> Result<Report, Failure> {
        let mut pause = PAUSE_MIN;
        loop {
            if self.outcome_of(&job.id)?.is_some() {
                return self.report_on_record(&job.id, bound);
            }
            if let Some(report) = self.settle_ended(job, bound)? {
                return Ok(report);
            }
            if self.cancel.is_cancelled() {
                return Err(self.given_up(
                    job,
                    ExitCode::Cancelled,
                    "cancelled",
                    "was interrupted",
                ));
            }
            let left = deadline.map(|deadline| deadline.saturating_sub(self.clock.monotonic()));
            if left.is_some_and(|left| left.is_zero()) {
                let why = "took longer than --timeout";
                return Err(self.given_up(job, ExitCode::Timeout, "wait_timeout", why));
            }
            self.clock.sleep(left.map_or(pause, |left| left.min(pause)));
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    fn given_up(
        &self,
        job: &JobRecord,
        code: ExitCode,
        reason: &'static str,
        why: &str,
    ) -> Failure {
        let (id, program) = (&job.id, self.program);
        Failure::new(
            code,
            reason,
            format!("the wait for job {id} {why}; the job was left alone"),
            format!(
                "{program} wait {id} waits again; {program} stop --apply {} ends it",
                job.workspace
            ),
        )
        .retryable()
    }

    /// Settles a job that has ended and that nobody else settles; `None` while there is nothing to settle.
    fn settle_ended(
        &self,
        job: &JobRecord,
        bound: Option<Bound>,
    ) -> Result<Option<Report>, Failure> {
        let seen = self.provider.recover(&job.workspace, &job.id, &self.settling());
        let seen = seen.map_err(|error| self.provider_failure(error))?;
        if seen == Recovered::Alive {
            return Ok(None);
        }
        let record = self.known(&job.workspace)?;
        match self.adopt(&record, job)? {
            Adoption::Ours(adopted) => self.settle_adopted(job, *adopted, bound),
            Adoption::Later => Ok(None),
            Adoption::Never => self.reconcile(&record, Held::Nothing).map(|_| None),
        }
    }

    /// Takes a job over that came to an end, if it has nobody and nothing else of a dead verb hangs on it.
    fn adopt(&self, record: &WorkspaceRecord, job: &JobRecord) -> Result<Adoption, Failure> {
        let slots = Slots::One(record.policy.policy.budget.concurrency);
        let hold = match self.attempt(record, slots)? {
            Attempt::Ours(hold) => hold,
            // Its supervisor is still leaving, or another verb is about to settle it.
            Attempt::Taken => return Ok(Adoption::Later),
            Attempt::Absent => return Ok(Adoption::Never),
        };
        // Read under the hold: whoever had it may have settled its own.
        let intents = self.intents(&record.id)?;
        // The removal that belongs to an `exec` follows its job in one batch; files on their way in another slot do not.
        if intents.iter().any(|intent| intent.kind == IntentKind::Remove) {
            return Ok(Adoption::Never);
        }
        let Some(intent) = intents.into_iter().find(|open| open.job.as_ref() == Some(&job.id))
        else {
            return Ok(Adoption::Later);
        };
        if !job.terms.checks.is_empty() && !self.checks_of(record, job)?.is_empty() {
            // A caller died among the checks: what is on record of them counts.
            return Ok(Adoption::Never);
        }
        let seen = self.provider.recover(&record.id, &job.id, &self.settling());
        Ok(match seen.map_err(|error| self.provider_failure(error))? {
            Recovered::Ended(outcome) => {
                Adoption::Ours(Box::new(Adopted { hold, intent, outcome: *outcome }))
            }
            Recovered::Alive => Adoption::Later,
            Recovered::NeverStarted | Recovered::Lost => Adoption::Never,
        })
    }

    fn settle_adopted(
        &self,
        job: &JobRecord,
        adopted: Adopted,
        bound: Option<Bound>,
    ) -> Result<Option<Report>, Failure> {
        let Adopted { hold, intent, outcome } = adopted;
        // As it is now that nobody else has it.
        let record = self.known(&job.workspace)?;
        let declares = self.declared_by(&record, &job.id)?;
        let mut flight = Flight {
            job: job.clone(),
            declares: &declares,
            inputs: self.inputs_of(&record, &job.id)?,
            intent: intent.id,
            adopted: true,
            checks: Vec::new(),
            absent: Vec::new(),
        };
        let assessed = self.assess(&record, &mut flight, &*hold, outcome);
        let Some((outcome, notes)) = assessed else { return Ok(None) };
        Ok(Some(self.settle_run(record, &flight, &outcome, &notes, bound)))
    }

    pub(crate) fn inputs_of(
        &self,
        record: &WorkspaceRecord,
        job: &JobId,
    ) -> Result<Vec<InputRecord>, Failure> {
        let inputs = self.open()?.inputs(&record.id).map_err(|error| self.store_failure(&error))?;
        Ok(inputs.into_iter().filter(|input| input.job.as_ref() == Some(job)).collect())
    }

    /// Reports a job that is settled, in the words of its own caller.
    ///
    /// # Errors
    /// [`Failure`] where the record cannot be read.
    pub(crate) fn report_on_record(
        &self,
        id: &JobId,
        bound: Option<Bound>,
    ) -> Result<Report, Failure> {
        let found = self.open()?.job(id).map_err(|error| self.store_failure(&error))?;
        let job = found.ok_or_else(|| self.unknown(id.as_str()))?;
        let record = self.known(&job.workspace)?;
        let (Some(outcome), None) = (&job.outcome, &job.package) else {
            return Ok(self.report(self.inspect_job(&record, &job)?, bound, Some(id)));
        };
        let absent = self.absent_of(&record, &job, outcome)?;
        let (names, lines): (Vec<ByteString>, Vec<String>) = absent.into_iter().unzip();
        let inputs = self.inputs_of(&record, id)?;
        let story = Story { record: &record, job: &job, outcome, inputs: &inputs };
        Ok(self.report(self.told_package(&story, &names, &lines), bound, Some(id)))
    }

    /// Returns what a settled job did not write. All was there where it succeeded, and what was exported was; of the rest
    /// the files speak, as far as they are there.
    fn absent_of(
        &self,
        record: &WorkspaceRecord,
        job: &JobRecord,
        outcome: &JobOutcome,
    ) -> Result<Vec<(ByteString, String)>, Failure> {
        if outcome.status == JobStatus::Success {
            return Ok(Vec::new());
        }
        let artifacts = self.artifacts(record)?.into_iter();
        let own = artifacts.filter(|one| one.job == job.id && one.export.is_none());
        let declares: Vec<_> = own.map(|one| one.declaration).collect();
        Ok(self.checked(record, &declares, outcome.clone()).1)
    }
}
