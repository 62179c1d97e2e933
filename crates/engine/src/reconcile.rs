//! Settles what a killed verb left: for each open intent, what the provider can prove, and nothing guessed.
//!
//! It costs as much as there are open intents, and touches only what no living process holds. Everything that it finds
//! out of one workspace goes into one batch; where another verb was quicker, its word stands.
use crate::checks::with_checks;
use crate::engine::Engine;
use crate::hold::Attempt;
use crate::journal::Batch;
use crate::pack::pending;
use crate::publish::remove_partial;
use crate::text::printable;
use bailiwick_contract::artifact::{ArtifactDeclaration, ArtifactRecord, Digest};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::JobId;
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::job::{JobOutcome, JobStatus, OutputFacts, Reason, Usage};
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind, Phase};
use bailiwick_contract::provider::{ByteSink, Hold, ProviderError, Recovered, Slots, Streams};
use bailiwick_contract::record::{OpenIntent, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::StoreError;
use core::error::Error;
use sha2::{Digest as _, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What the verb that reconciles holds of the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// Nothing; the reconciliation takes what it can get, for as long as it lasts.
    Nothing,
    /// Nothing, and the verb only reads: it leaves a detached job that waits for its checks to `wait`.
    Looking,
    /// One slot.
    Slot,
    /// All slots.
    All,
}

/// How far a reconciliation may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Jobs only: a living verb in another slot may own the rest.
    Jobs,
    /// Every intent.
    Everything,
}

/// A reach, with the hold that it rests on where the reconciliation took one itself.
struct Grip {
    reach: Reach,
    _hold: Option<Box<dyn Hold>>,
}

/// One workspace's reconciliation, as it comes together.
struct Settling<'w> {
    record: &'w WorkspaceRecord,
    batch: Batch,
    notes: Vec<String>,
    /// A job is still in flight.
    alive: bool,
    /// A job was never let go, so it cannot have written anything.
    never_started: bool,
    /// The verb only reads.
    looking: bool,
}

impl<'w> Settling<'w> {
    const fn new(record: &'w WorkspaceRecord, batch: Batch, looking: bool) -> Self {
        Self { record, batch, notes: Vec::new(), alive: false, never_started: false, looking }
    }

    fn close(&mut self, intent: &OpenIntent, phase: Phase, note: String) {
        self.notes.push(format!("reconciled workspace {}: {note}", self.record.id));
        self.batch.close(&intent.id, phase, Some(note));
    }

    /// Returns how many intents the batch closes.
    fn closed(&self) -> usize {
        let closes = |entry: &&Entry| matches!(entry.change, Change::IntentClosed { .. });
        self.batch.entries().iter().filter(closes).count()
    }

    /// Returns whether the workspace's time is over and nothing is under way there.
    fn is_due(&self) -> bool {
        let state = self.batch.state();
        WorkspaceRecord { state, ..self.record.clone() }.has_to_expire(self.batch.at())
    }

    fn expire(&mut self) {
        let (id, at) = (&self.record.id, self.record.about.expires_at.unwrap_or_default());
        self.notes.push(format!("workspace {id} has expired: its time was over at {at}"));
        self.batch.step(WorkspaceState::Expired);
    }
}

impl Engine<'_> {
    /// Settles the open intents of one workspace, expires it where its time is over, and returns a line for each thing
    /// that it did.
    ///
    /// # Errors
    /// [`Failure`] where the store cannot be read or written, or the provider cannot say; what is open stays open.
    pub(crate) fn reconcile(
        &self,
        record: &WorkspaceRecord,
        held: Held,
    ) -> Result<Vec<String>, Failure> {
        let stuck = record.state == WorkspaceState::Running;
        let due = record.has_to_expire(self.now());
        if !stuck && !due && self.intents(&record.id)?.is_empty() {
            return Ok(Vec::new());
        }
        let Some(grip) = self.grip(record, held)? else { return Ok(Vec::new()) };
        // Read under the hold: a verb that was alive a moment ago may have settled its own.
        let record = self.known(&record.id)?;
        let mut intents = self.intents(&record.id)?;
        // Jobs first: what follows a job depends on how it ended.
        intents.sort_by_key(|intent| intent.kind != IntentKind::Run);
        let batch = Batch::new(&record.id, record.state, self.now());
        let mut settling = Settling::new(&record, batch, held == Held::Looking);
        for intent in &intents {
            self.settle_one(&mut settling, intent, grip.reach)?;
        }
        if !settling.alive && settling.batch.state() == WorkspaceState::Running {
            settling.batch.step(WorkspaceState::Ready);
        }
        let quiet = settling.closed() == intents.len();
        // A lost one reads `failed`, and the verb that looks for it says so.
        if quiet && settling.is_due() && self.is_present(&record)? {
            settling.expire();
        }
        self.commit(settling)
    }

    fn grip(&self, record: &WorkspaceRecord, held: Held) -> Result<Option<Grip>, Failure> {
        let slots = record.policy.policy.budget.concurrency;
        let given = |reach| Ok(Some(Grip { reach, _hold: None }));
        match held {
            Held::All => return given(Reach::Everything),
            Held::Slot if slots == 1 => return given(Reach::Everything),
            Held::Slot => return given(Reach::Jobs),
            Held::Nothing | Held::Looking => {}
        }
        match self.attempt(record, Slots::All(slots))? {
            Attempt::Ours(hold) => {
                return Ok(Some(Grip { reach: Reach::Everything, _hold: Some(hold) }));
            }
            Attempt::Absent => {
                self.await_record(record)?;
                return given(Reach::Everything);
            }
            Attempt::Taken if slots == 1 => return Ok(None),
            Attempt::Taken => {}
        }
        let one = self.attempt(record, Slots::One(slots))?;
        let Attempt::Ours(hold) = one else { return Ok(None) };
        Ok(Some(Grip { reach: Reach::Jobs, _hold: Some(hold) }))
    }

    fn settle_one(
        &self,
        settling: &mut Settling<'_>,
        intent: &OpenIntent,
        reach: Reach,
    ) -> Result<(), Failure> {
        match (&intent.kind, &intent.job) {
            (IntentKind::Run, Some(job)) => self.settle_job(settling, intent, job),
            (IntentKind::Run, None) => {
                settling.close(intent, Phase::Reconciled, "a run without a job was closed".into());
                Ok(())
            }
            // What belongs to a living job, such as the removal of an `exec`, waits for it.
            _ if reach == Reach::Jobs || settling.alive => Ok(()),
            (IntentKind::Create, _) => self.settle_create(settling, intent),
            (IntentKind::Put, _) => self.settle_put(settling, intent),
            (IntentKind::Export, _) => {
                settle_export(settling, intent);
                Ok(())
            }
            (IntentKind::Remove, _) => self.settle_remove(settling, intent),
        }
    }

    fn settle_job(
        &self,
        settling: &mut Settling<'_>,
        intent: &OpenIntent,
        job: &JobId,
    ) -> Result<(), Failure> {
        let record = settling.record;
        let recovered = self.provider.recover(&record.id, job, &self.settling());
        let outcome = match recovered.map_err(|error| self.provider_failure(error))? {
            Recovered::Alive => {
                settling.alive = true;
                return Ok(());
            }
            Recovered::Ended(_) if settling.looking && self.waits_for_checks(record, job)? => {
                let line = format!("job {job} has ended and waits for its checks");
                settling.notes.push(format!("{line}: {} wait {job} runs them", self.program));
                settling.alive = true;
                return Ok(());
            }
            Recovered::Ended(outcome) => match self.assess_on_record(record, job, *outcome)? {
                Some(outcome) => outcome,
                None => {
                    settling.alive = true;
                    return Ok(());
                }
            },
            Recovered::NeverStarted => {
                settling.never_started = true;
                self.without_end(intent, job, Reason::NeverStarted)
            }
            Recovered::Lost => self.without_end(intent, job, Reason::SupervisorLost),
        };
        let note = match outcome.reason {
            Some(Reason::NeverStarted) => {
                format!("job {job} never started: its caller was killed before")
            }
            Some(Reason::SupervisorLost) => {
                format!("job {job} lost its supervisor, and its end is not known")
            }
            _ => format!("job {job} had ended with {} while nobody waited for it", outcome.status),
        };
        let skipped = outcome.checks.iter().filter(|check| check.job.is_none()).count();
        let note =
            if skipped == 0 { note } else { format!("{note}; {skipped} check(s) were not run") };
        settling.batch.push(Change::JobEnded { job: job.clone(), outcome, package: None });
        settling.close(intent, Phase::Reconciled, note);
        // What a killed supervisor left behind costs nothing but room; the next call goes on.
        self.provider.sweep(job, &self.settling()).ok();
        Ok(())
    }

    /// Returns whether a job was let go with checks that nobody has begun to run.
    fn waits_for_checks(&self, record: &WorkspaceRecord, job: &JobId) -> Result<bool, Failure> {
        let found = self.open()?.job(job).map_err(|error| self.store_failure(&error))?;
        let Some(found) = found else { return Ok(false) };
        let is_wanted = found.terms.detached && !found.terms.checks.is_empty();
        Ok(is_wanted && self.checks_of(record, &found)?.is_empty())
    }

    /// Looks at what a job left whose caller is gone; `None` while a check of it is in flight.
    fn assess_on_record(
        &self,
        record: &WorkspaceRecord,
        job: &JobId,
        outcome: JobOutcome,
    ) -> Result<Option<JobOutcome>, Failure> {
        let declared = self.declared_by(record, job)?;
        let outcome = self.checked(record, &declared, outcome).0;
        let found = self.open()?.job(job).map_err(|error| self.store_failure(&error))?;
        let Some(found) = found else { return Ok(Some(outcome)) };
        let Some(results) = self.recorded_checks(record, &found)? else { return Ok(None) };
        let mut outcome = self.measured(record, &found, outcome);
        // A package that is made again from the record says so too.
        if outcome.detail.is_none() && !found.terms.detached {
            outcome.detail = Some("nobody waited for its end: a later verb recorded it".into());
        }
        Ok(Some(with_checks(outcome, results)))
    }

    pub(crate) fn declared_by(
        &self,
        record: &WorkspaceRecord,
        job: &JobId,
    ) -> Result<Vec<ArtifactDeclaration>, Failure> {
        let artifacts = self.artifacts(record)?.into_iter();
        Ok(artifacts.filter(|one| one.job == *job).map(|one| one.declaration).collect())
    }

    pub(crate) fn artifacts(
        &self,
        record: &WorkspaceRecord,
    ) -> Result<Vec<ArtifactRecord>, Failure> {
        self.open()?.artifacts(&record.id).map_err(|error| self.store_failure(&error))
    }

    /// Returns the outcome of a job of whose end nothing is known.
    fn without_end(&self, intent: &OpenIntent, job: &JobId, reason: Reason) -> JobOutcome {
        JobOutcome {
            status: JobStatus::InfrastructureFailure,
            exit_status: None,
            signal: None,
            reason: Some(reason),
            detail: None,
            started_at: intent.opened_at,
            finished_at: self.now(),
            usage: Usage::default(),
            output: self.output_left(job),
            quota_events: Vec::new(),
            checks: Vec::new(),
            measurements: Vec::new(),
        }
    }

    /// Returns what is there of the output of a job whose supervisor was lost; which stream it came from is not known.
    fn output_left(&self, job: &JobId) -> OutputFacts {
        let mut left = Hashing::default();
        if self.provider.stream_output(job, Streams::Both, &mut left, &self.settling()).is_err() {
            return OutputFacts::default();
        }
        OutputFacts {
            bytes: left.bytes,
            kept: left.bytes,
            sha256: left.digest().to_string(),
            ..OutputFacts::default()
        }
    }

    pub(crate) fn is_present(&self, record: &WorkspaceRecord) -> Result<bool, Failure> {
        self.provider.is_present(&record.id).map_err(|error| self.provider_failure(error))
    }

    fn settle_create(
        &self,
        settling: &mut Settling<'_>,
        intent: &OpenIntent,
    ) -> Result<(), Failure> {
        let making = matches!(
            settling.batch.state(),
            WorkspaceState::Requested | WorkspaceState::Provisioning
        );
        if !making {
            // The intent of an `exec`, whose workspace was made before it: there is nothing to say.
            settling.batch.close(&intent.id, Phase::Reconciled, None);
            return Ok(());
        }
        let note = if self.is_present(settling.record)? {
            settling.batch.step(WorkspaceState::Provisioning).step(WorkspaceState::Ready);
            "its creation was done, and it is ready".into()
        } else {
            settling.batch.step(WorkspaceState::Failed);
            "its creation was cut short, and it is failed".into()
        };
        settling.close(intent, Phase::Reconciled, note);
        Ok(())
    }

    /// A batch whose writer was killed while it moved it into place is brought to its end first; the digests of what is
    /// there then say whether it landed.
    fn settle_put(&self, settling: &mut Settling<'_>, intent: &OpenIntent) -> Result<(), Failure> {
        let IntentDetail::Inputs(inputs) = &intent.detail else {
            settling.close(intent, Phase::Reconciled, "a put without files was closed".into());
            return Ok(());
        };
        let id = &settling.record.id;
        self.provider.finish_stage(id).map_err(|error| self.provider_failure(error))?;
        let mut landed = 0;
        for input in inputs {
            landed += usize::from(self.is_landed(settling.record, input)?);
        }
        if landed == inputs.len() {
            settling.batch.push(Change::InputsAdded { inputs: inputs.clone() });
            let note = format!("{} file(s) of a put had landed", inputs.len());
            settling.close(intent, Phase::Reconciled, note);
        } else {
            let of = inputs.len();
            let note = if landed == 0 {
                format!("a put of {of} file(s) was cut short, and none landed; put them again")
            } else {
                format!(
                    "a put of {of} file(s) was cut short, and {landed} are there; put them again with --overwrite"
                )
            };
            settling.close(intent, Phase::Abandoned, note);
        }
        Ok(())
    }

    fn is_landed(&self, record: &WorkspaceRecord, input: &InputRecord) -> Result<bool, Failure> {
        let mut hashing = Hashing::default();
        // Nothing is settled yet, so that a caller may cancel the reading of a large file.
        match self.provider.read(&record.id, &input.destination, &mut hashing, &self.cx()) {
            Ok(()) => Ok(hashing.digest() == input.sha256),
            Err(
                ProviderError::NoFile { .. }
                | ProviderError::NotAFile { .. }
                | ProviderError::NoWorkspace { .. },
            ) => Ok(false),
            Err(error) => Err(self.provider_failure(error)),
        }
    }

    fn settle_remove(
        &self,
        settling: &mut Settling<'_>,
        intent: &OpenIntent,
    ) -> Result<(), Failure> {
        let record = settling.record;
        let (force, after_job) = match intent.detail {
            IntentDetail::Remove { force, after_job } => (force, after_job),
            _ => (false, false),
        };
        let artifacts = self.artifacts(record)?;
        let kept = pending(&artifacts);
        let may_hold_some = after_job && !kept.is_empty() && !settling.never_started;
        if may_hold_some && self.is_present(record)? {
            let count = kept.len();
            let note = format!(
                "it is kept for {count} artifact(s) not exported; export them, then {} destroy {}",
                self.program, record.id
            );
            settling.close(intent, Phase::Abandoned, note);
            return Ok(());
        }
        self.provider.remove(&record.id, &self.settling()).map_err(|e| self.provider_failure(e))?;
        if force || after_job {
            for artifact in kept {
                let name = artifact.declaration.name.clone();
                settling.batch.push(Change::ArtifactDiscarded { name });
            }
        }
        settling.batch.step(WorkspaceState::Ready).step_to_destroyed();
        settling.close(intent, Phase::Reconciled, "its removal was finished".into());
        Ok(())
    }

    fn commit(&self, settling: Settling<'_>) -> Result<Vec<String>, Failure> {
        if settling.batch.is_empty() {
            return Ok(settling.notes);
        }
        match self.open()?.append(settling.batch.entries()) {
            Ok(_) => {
                for entry in settling.batch.entries() {
                    if let Change::JobEnded { job, outcome, .. } = &entry.change {
                        self.provider.settled(job, outcome);
                    }
                }
                Ok(settling.notes)
            }
            Err(StoreError::Conflict { .. }) => Ok(Vec::new()),
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    /// Brings a shared workspace back to `ready` where two jobs ended at once and each left that to the other.
    pub(crate) fn repair(&self, record: &WorkspaceRecord) {
        let quiet = self
            .intents(&record.id)
            .is_ok_and(|intents| !intents.iter().any(|intent| intent.kind == IntentKind::Run));
        let running = self.known(&record.id).is_ok_and(|now| now.state == WorkspaceState::Running);
        if quiet && running {
            let mut batch = Batch::new(&record.id, WorkspaceState::Running, self.now());
            // A conflict means that a job began meanwhile, which then moves the workspace at its own end.
            self.append(batch.step(WorkspaceState::Ready)).ok();
        }
    }
}

/// Whether a file was published is not known: the destination may hold it, or what was there before.
fn settle_export(settling: &mut Settling<'_>, intent: &OpenIntent) {
    let note = match &intent.detail {
        IntentDetail::Export { name, destination } => {
            let destination = Path::new(OsStr::from_bytes(destination.as_bytes()));
            let removed = remove_partial(destination, &intent.id);
            format!(
                "whether artifact '{}' was published is not known; export it again{}",
                printable(name.as_bytes()),
                if removed { " (half a copy beside it was removed)" } else { "" }
            )
        }
        _ => "whether an artifact was published is not known; export it again".into(),
    };
    settling.close(intent, Phase::Abandoned, note);
}

/// A sink that keeps nothing but a digest and a count.
#[derive(Default)]
struct Hashing {
    hasher: Sha256,
    bytes: u64,
}

impl Hashing {
    fn digest(self) -> Digest {
        Digest::new(self.hasher.finalize().into())
    }
}

impl ByteSink for Hashing {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }
}
