//! Holds on a workspace: who may use it now, who has to wait, and what it means that nobody can hold it.
//!
//! A hold outlasts what it was for by some milliseconds: the caller of an ended job still has to exit, its supervisor
//! to unmount. Whoever finds such a hold waits for its end instead of refusing. A workspace that its provider lost is
//! held by nobody; the verb that meets it records the loss.
use crate::engine::Engine;
use crate::reconcile::Held;
use crate::requests::Notice;
use bailiwick_contract::error::Failure;
use bailiwick_contract::journal::IntentKind;
use bailiwick_contract::provider::{Hold, ProviderError, Recovered, Slots};
use bailiwick_contract::record::{OpenIntent, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use core::time::Duration;

/// The first pause between two looks at a held workspace: a tenth of the least job there is.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause between two looks at a held workspace.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long a hold may outlast what it was for: 5 s, a thousand times what a process needs to exit.
const PASSING_MAX: Duration = Duration::from_secs(5);

/// What came of an attempt to hold a workspace.
pub(crate) enum Attempt {
    /// It is ours until this is dropped.
    Ours(Box<dyn Hold>),
    /// Somebody else holds it.
    Taken,
    /// The provider has no such workspace, so that nobody can hold it.
    Absent,
}

/// How long a verb waits for a hold, and whom it tells.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    /// How long it waits for somebody who is at work there; zero refuses at once.
    pub wait: Duration,
    /// Told once who holds the workspace.
    pub notice: Notice<'a>,
}

impl Patience<'_> {
    /// Waits for nobody who is at work.
    const NONE: Self = Self { wait: Duration::ZERO, notice: &|_| {} };
}

impl Engine<'_> {
    /// Tries to hold a workspace, without waiting.
    pub(crate) fn attempt(
        &self,
        record: &WorkspaceRecord,
        slots: Slots,
    ) -> Result<Attempt, Failure> {
        match self.provider.hold(&record.id, slots) {
            Ok(Some(hold)) => Ok(Attempt::Ours(hold)),
            Ok(None) => Ok(Attempt::Taken),
            Err(ProviderError::NoWorkspace { .. }) => Ok(Attempt::Absent),
            Err(error) => Err(self.provider_failure(error)),
        }
    }

    /// Takes the whole workspace for a verb that changes it, or refuses at once and names who is at work there.
    pub(crate) fn take_all(&self, record: &WorkspaceRecord) -> Result<Box<dyn Hold>, Failure> {
        self.take_all_there_is(record)?.map_or_else(|| Err(self.lost(record)), Ok)
    }

    /// The same for a verb that also works on a lost workspace; `None` says that nobody can hold it.
    pub(crate) fn take_all_there_is(
        &self,
        record: &WorkspaceRecord,
    ) -> Result<Option<Box<dyn Hold>>, Failure> {
        self.take(record, Slots::All(record.policy.policy.budget.concurrency), Patience::NONE)
    }

    /// Takes one slot, and waits for it if it has to.
    pub(crate) fn take_slot(
        &self,
        record: &WorkspaceRecord,
        patience: Patience<'_>,
    ) -> Result<Box<dyn Hold>, Failure> {
        let slots = Slots::One(record.policy.policy.budget.concurrency);
        self.take(record, slots, patience)?.map_or_else(|| Err(self.lost(record)), Ok)
    }

    fn take(
        &self,
        record: &WorkspaceRecord,
        slots: Slots,
        Patience { wait, notice }: Patience<'_>,
    ) -> Result<Option<Box<dyn Hold>>, Failure> {
        let begun = self.clock.monotonic();
        let (mut pause, mut told) = (PAUSE_MIN, false);
        loop {
            match self.attempt(record, slots)? {
                Attempt::Ours(hold) => return Ok(Some(hold)),
                Attempt::Absent => return Ok(None),
                Attempt::Taken => {}
            }
            if self.cancel.is_cancelled() {
                return Err(crate::failure::cancelled());
            }
            let occupied = self.is_occupied(record)?;
            let most = if occupied { wait } else { wait.max(PASSING_MAX) };
            let left = begun.saturating_add(most).saturating_sub(self.clock.monotonic());
            if left.is_zero() {
                return Err(self.busy(record)?);
            }
            // A hold that merely passes is not worth a word, unless it takes its time and the caller chose to wait.
            if !told && !wait.is_zero() && (occupied || pause == PAUSE_MAX) {
                self.tell_holder(record, left, notice)?;
                told = true;
            }
            self.clock.sleep(pause.min(left));
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    fn tell_holder(
        &self,
        record: &WorkspaceRecord,
        left: Duration,
        notice: Notice<'_>,
    ) -> Result<(), Failure> {
        let (holder, seconds) = (self.holder(record)?, left.as_secs_f64());
        notice(&format!(
            "workspace {} is held by {holder}; waiting up to {seconds:.0} s (--wait)",
            record.id
        ));
        Ok(())
    }

    /// Returns whether a verb is at work in a workspace that is held; else the hold is about to end.
    fn is_occupied(&self, record: &WorkspaceRecord) -> Result<bool, Failure> {
        let intents = self.intents(&record.id)?;
        let mut runs = intents.iter().filter_map(run_of).peekable();
        // What an `exec` intends beside its job is over soon after it.
        if runs.peek().is_none() {
            return Ok(!intents.is_empty());
        }
        for job in runs {
            let found = self.provider.recover(&record.id, job, &self.settling());
            if found.map_err(|error| self.provider_failure(error))? == Recovered::Alive {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Waits until whoever had a workspace that is gone has recorded why: an `exec` or a `destroy` that has just
    /// removed it, or a `create` that is about to make it. Nobody is waited for where a job is in flight.
    pub(crate) fn await_record(&self, record: &WorkspaceRecord) -> Result<(), Failure> {
        let deadline = self.clock.monotonic().saturating_add(PASSING_MAX);
        let mut pause = PAUSE_MIN;
        while self.clock.monotonic() < deadline {
            let intents = self.intents(&record.id)?;
            if intents.is_empty() || (intents.iter().any(is_run) && self.is_occupied(record)?) {
                return Ok(());
            }
            if self.cancel.is_cancelled() {
                return Err(crate::failure::cancelled());
            }
            self.clock.sleep(pause);
            pause = PAUSE_MAX.min(pause * 2);
        }
        Ok(())
    }

    /// Returns the refusal of a verb that found nothing to hold. What the record says once it was looked at again
    /// decides: another verb may be making the workspace or may just have removed it. Else its provider has lost it,
    /// which is on record then.
    fn lost(&self, record: &WorkspaceRecord) -> Failure {
        self.lost_as(record).unwrap_or_else(|failure| failure)
    }

    fn lost_as(&self, record: &WorkspaceRecord) -> Result<Failure, Failure> {
        self.reconcile(record, Held::Nothing)?;
        let before = self.living(&record.id)?;
        let state = self.record_loss(&before)?;
        let now = self.living(&record.id)?;
        let lost = ProviderError::NoWorkspace { id: record.id.clone() };
        match state {
            WorkspaceState::Failed if before.state != WorkspaceState::Failed => {
                Ok(self.provider_failure(lost))
            }
            WorkspaceState::Ready | WorkspaceState::Running if self.is_present(&now)? => {
                self.busy(&now)
            }
            // A verb is at work there, such as a removal that will say what became of it.
            WorkspaceState::Ready if !self.intents(&record.id)?.is_empty() => self.busy(&now),
            // A job goes on without its files.
            WorkspaceState::Ready | WorkspaceState::Running => Ok(self.provider_failure(lost)),
            WorkspaceState::Requested | WorkspaceState::Provisioning => self.busy(&now),
            WorkspaceState::Failed => Ok(self.not_ready(&now)),
            _ => Ok(self.provider_failure(lost)),
        }
    }

    /// Returns the refusal of a verb that found the workspace held.
    pub(crate) fn busy(&self, record: &WorkspaceRecord) -> Result<Failure, Failure> {
        let (id, holder) = (&record.id, self.holder(record)?);
        Ok(Failure::user(
            "workspace_busy",
            format!("workspace {id} is held by {holder}"),
            format!("wait for it, or end its job with {} stop --apply {id}", self.program),
        )
        .retryable())
    }

    /// Says who holds a workspace, as well as the journal tells.
    fn holder(&self, record: &WorkspaceRecord) -> Result<String, Failure> {
        let intents = self.intents(&record.id)?;
        let running = intents.iter().find(|intent| is_run(intent));
        Ok(match running.or_else(|| intents.first()) {
            Some(OpenIntent { job: Some(job), .. }) => format!("job {job}"),
            Some(intent) => format!("a {} of another process", intent.kind.name()),
            None => "another process".into(),
        })
    }
}

fn is_run(intent: &OpenIntent) -> bool {
    intent.kind == IntentKind::Run
}

fn run_of(intent: &OpenIntent) -> Option<&bailiwick_contract::id::JobId> {
    intent.job.as_ref().filter(|_| is_run(intent))
}
