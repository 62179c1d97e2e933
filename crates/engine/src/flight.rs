//! A job on its way: how its intent becomes durable, and how what came of it is settled and reported.
//!
//! `run` lets a job go and settles it; `wait` takes over one that nobody waits for, and settles it in the same words. The
//! checks of a job are settled with it, in one batch.
use crate::checks::{CheckRun, Checked, with_checks};
use crate::engine::Engine;
use crate::job::Story;
use crate::journal::Batch;
use crate::pack::exported;
use crate::requests::{Bound, Report};
use bailiwick_contract::artifact::ArtifactDeclaration;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{IntentId, JobId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::job::JobOutcome;
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::{Gate, Hold};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::StoreError;
use core::error::Error;

/// How often an append is tried again because a job in another slot moved the workspace meanwhile.
const TRIES_MAX: u32 = 16;

/// A job on its way: what is recorded of it, and the intent that it runs under.
pub(crate) struct Flight<'a> {
    pub(crate) job: JobRecord,
    pub(crate) declares: &'a [ArtifactDeclaration],
    pub(crate) inputs: Vec<InputRecord>,
    pub(crate) intent: IntentId,
    /// Whether its own caller is gone, and nothing of its checks is on record yet.
    pub(crate) adopted: bool,
    /// The checks that were run.
    pub(crate) checks: Vec<CheckRun>,
    /// The declared names that were found to be nothing that can be exported once the job had ended.
    pub(crate) absent: Vec<ByteString>,
}

impl Engine<'_> {
    /// Makes the intent durable; tries again where a job in another slot was quicker.
    fn open_gate(&self, record: &WorkspaceRecord, flight: &mut Flight<'_>) -> Result<(), Failure> {
        let shared = record.policy.policy.budget.concurrency > 1;
        let mut state = record.state;
        flight.job.started_at = self.now();
        for _ in 1..TRIES_MAX {
            let mut batch = Batch::new(&record.id, state, self.now());
            flight.enter(&mut batch);
            batch.step(WorkspaceState::Running);
            match self.open()?.append(batch.entries()) {
                Ok(_) => return Ok(()),
                Err(error @ StoreError::Conflict { .. }) if shared => {
                    let now = self.usable(record)?.state;
                    if now == state {
                        return Err(self.store_failure(&error));
                    }
                    state = now;
                }
                Err(error) => return Err(self.store_failure(&error)),
            }
        }
        Err(self.busy(record)?)
    }

    /// Looks at what a job left that has ended by itself or was ended: artifacts, numbers, and whether its checks hold.
    /// Returns its outcome and the lines to say; `None` where another verb runs its checks.
    pub(crate) fn assess(
        &self,
        record: &WorkspaceRecord,
        flight: &mut Flight<'_>,
        hold: &dyn Hold,
        outcome: JobOutcome,
    ) -> Option<(JobOutcome, Vec<String>)> {
        let (outcome, absent) = self.checked(record, flight.declares, outcome);
        let (names, lines): (Vec<ByteString>, Vec<String>) = absent.into_iter().unzip();
        flight.absent = names;
        let (outcome, notes) = self.assess_declared(record, flight, hold, outcome)?;
        Some((outcome, [lines, notes].concat()))
    }

    /// The same without the artifacts, of which an `exec` finds out when it exports them.
    pub(crate) fn assess_declared(
        &self,
        record: &WorkspaceRecord,
        flight: &mut Flight<'_>,
        hold: &dyn Hold,
        outcome: JobOutcome,
    ) -> Option<(JobOutcome, Vec<String>)> {
        let Checked { results, notes } = self.run_checks(record, flight, hold, &outcome)?;
        let outcome = self.measured(record, &flight.job, outcome);
        Some((with_checks(outcome, results), notes))
    }

    /// Settles a job and reports it; trouble with the record never hides what came of the job.
    pub(crate) fn settle_run(
        &self,
        mut record: WorkspaceRecord,
        flight: &Flight<'_>,
        outcome: &JobOutcome,
        notes: &[String],
        bound: Option<Bound>,
    ) -> Report {
        let shared = record.policy.policy.budget.concurrency > 1;
        let mut left = if shared { TRIES_MAX } else { 1 };
        loop {
            left -= 1;
            // Without a shared workspace nobody else can have moved it: the hold is ours.
            let alone = !shared || self.is_alone(&mut record, flight);
            let from = if shared { record.state } else { WorkspaceState::Running };
            let mut batch = Batch::new(&record.id, from, self.now());
            if alone {
                batch.step(WorkspaceState::Ready);
            }
            record.state = batch.state();
            let (mut report, whole) = self.run_report(&record, flight, outcome, notes, bound);
            flight.leave(&mut batch, outcome, whole);
            match self.store.open().and_then(|store| store.append(batch.entries())) {
                Ok(_) => {
                    self.after_settlement(&record, flight, outcome);
                    return report;
                }
                // A verb in another slot found the job ended and settled it; what is on record is what is said.
                Err(StoreError::Conflict { .. }) if self.is_settled(&flight.job.id) => {
                    return self.report_on_record(&flight.job.id, bound).unwrap_or(report);
                }
                Err(StoreError::Conflict { .. }) if left > 0 => {}
                Err(error) => {
                    report.package.attention.push(self.unsettled(&error));
                    return self.report(report.package, bound, Some(&flight.job.id));
                }
            }
        }
    }

    /// Does what may be done only once the outcome is on record.
    fn after_settlement(
        &self,
        record: &WorkspaceRecord,
        flight: &Flight<'_>,
        outcome: &JobOutcome,
    ) {
        flight.tell_settled(self, outcome);
        if record.policy.policy.budget.concurrency > 1 {
            self.repair(record);
        }
    }

    /// Returns whether no other job of the workspace is in flight, and brings the record's state up to date.
    fn is_alone(&self, record: &mut WorkspaceRecord, flight: &Flight<'_>) -> bool {
        if let Ok(now) = self.known(&record.id) {
            record.state = now.state;
        }
        let others = self.intents(&record.id).unwrap_or_default();
        !others.iter().any(|intent| {
            let own = intent.job.as_ref().is_some_and(|job| flight.has(job));
            intent.kind == IntentKind::Run && !own
        })
    }

    fn is_settled(&self, job: &JobId) -> bool {
        self.outcome_of(job).is_ok_and(|outcome| outcome.is_some())
    }

    /// Returns the line for a job whose outcome could not be recorded.
    pub(crate) fn unsettled(&self, error: &StoreError) -> String {
        let why = crate::failure::told(error);
        format!(
            "the outcome is not recorded yet ({why}); the next verb on this workspace settles it"
        )
    }

    fn run_report(
        &self,
        record: &WorkspaceRecord,
        flight: &Flight<'_>,
        outcome: &JobOutcome,
        notes: &[String],
        bound: Option<Bound>,
    ) -> (Report, Option<String>) {
        let story = Story { record, job: &flight.job, outcome, inputs: &flight.inputs };
        let package = self.told_package(&story, &flight.absent, notes);
        self.report_and_whole(package, bound, &flight.job.id)
    }

    /// Returns the package of a job that is over, with the artifacts that it can have left: those of others are not its
    /// own, and `absent` ones it did not write.
    pub(crate) fn told_package(
        &self,
        story: &Story<'_>,
        absent: &[ByteString],
        notes: &[String],
    ) -> ResultPackage {
        let mut package = self.job_package(story);
        package.attention.splice(0..0, notes.iter().cloned());
        let Ok(mut artifacts) = self.artifacts(story.record) else { return package };
        artifacts.retain(|one| one.job == story.job.id && !absent.contains(&one.declaration.name));
        package.artifacts = exported(&artifacts);
        package.attention.extend(self.pending_lines(story.record, &artifacts));
        package
    }

    /// Returns the report, and the whole package as JSON where the bound cut it.
    pub(crate) fn report_and_whole(
        &self,
        package: ResultPackage,
        bound: Option<Bound>,
        job: &JobId,
    ) -> (Report, Option<String>) {
        let whole = package.clone();
        let report = self.report(package, bound, Some(job));
        let text = report.cut.then(|| serde_json::to_string(&whole).ok()).flatten();
        (report, text)
    }
}

impl Flight<'_> {
    /// Writes what has to be durable before the job is let go.
    pub(crate) fn enter(&self, batch: &mut Batch) {
        batch
            .open(&self.intent, IntentKind::Run, Some(&self.job.id), IntentDetail::None)
            .push(Change::JobAdded { record: self.job.clone() });
        for declaration in self.declares {
            let (job, declaration) = (self.job.id.clone(), declaration.clone());
            batch.push(Change::ArtifactDeclared { job, declaration });
        }
    }

    /// Writes what came of the job, and of its checks.
    pub(crate) fn leave(&self, batch: &mut Batch, outcome: &JobOutcome, package: Option<String>) {
        for CheckRun { job, intent, outcome } in &self.checks {
            let (job, outcome) = (job.id.clone(), outcome.clone());
            batch.push(Change::JobEnded { job, outcome, package: None });
            batch.close(intent, Phase::Settled, None);
        }
        let (job, outcome) = (self.job.id.clone(), outcome.clone());
        batch.push(Change::JobEnded { job, outcome, package }).close(
            &self.intent,
            Phase::Settled,
            None,
        );
    }

    /// Tells the provider that the outcomes are on record.
    pub(crate) fn tell_settled(&self, engine: &Engine<'_>, outcome: &JobOutcome) {
        engine.provider.settled(&self.job.id, outcome);
        for CheckRun { job, outcome, .. } in &self.checks {
            engine.provider.settled(&job.id, outcome);
        }
    }

    /// Returns whether a job is this one or one of its checks.
    fn has(&self, job: &JobId) -> bool {
        self.job.id == *job || self.checks.iter().any(|check| check.job.id == *job)
    }
}

/// The gate of `run`: the intent goes into a store that is open already.
pub(crate) struct RunGate<'g, 'e, 'r> {
    pub(crate) engine: &'g Engine<'e>,
    pub(crate) record: &'g WorkspaceRecord,
    pub(crate) flight: &'g mut Flight<'r>,
}

impl Gate for RunGate<'_, '_, '_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.engine.open_gate(self.record, self.flight)?)
    }
}
