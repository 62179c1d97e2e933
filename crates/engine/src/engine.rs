//! The engine: what every verb is given, and the few steps that several verbs share.
//!
//! It owns no state: the store, the provider, the clock and randomness are borrowed, so that a caller decides how long
//! they live and tests own them. One file a verb; this one holds the steps before and after an effect.
use crate::failure;
use crate::journal::Batch;
use bailiwick_contract::context::{CancelToken, Clock, Entropy, OpCx};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{IntentId, JobId, WorkspaceId};
use bailiwick_contract::provider::{Provider, ProviderError};
use bailiwick_contract::record::{OpenIntent, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::{Store, StoreError, StorePort};
use bailiwick_contract::time::Timestamp;
use core::fmt;

/// The lifecycle verbs over one provider and one store.
#[derive(Clone, Copy)]
pub struct Engine<'a> {
    /// What holds the workspaces.
    pub provider: &'a dyn Provider,
    /// The durable state; opened when it is first needed.
    pub store: &'a dyn StorePort,
    /// The time.
    pub clock: &'a dyn Clock,
    /// Where ids come from.
    pub entropy: &'a dyn Entropy,
    /// The caller's way to stop a verb.
    pub cancel: &'a CancelToken,
    /// The command's name, for hints: `bailiwick`.
    pub program: &'a str,
}

impl fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("provider", &self.provider.name()).finish_non_exhaustive()
    }
}

/// What follows an effect is not cancelled with it: a settlement is never given up half-way.
static NEVER_CANCELLED: CancelToken = CancelToken::new();

impl<'a> Engine<'a> {
    /// Returns the context of an operation that the caller may cancel.
    pub(crate) fn cx(&self) -> OpCx<'a> {
        self.cx_within(u64::MAX)
    }

    /// Returns the same for a copy of at most `budget_bytes`.
    pub(crate) fn cx_within(&self, budget_bytes: u64) -> OpCx<'a> {
        OpCx { cancel: self.cancel, deadline: None, budget_bytes, clock: self.clock }
    }

    /// Returns the context of an operation that settles what was done, also when the caller has cancelled.
    pub(crate) fn settling(&self) -> OpCx<'a> {
        OpCx { cancel: &NEVER_CANCELLED, ..self.cx() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn mint_intent(&self) -> IntentId {
        IntentId::mint(self.entropy)
    }

    pub(crate) fn store_failure(&self, error: &StoreError) -> Failure {
        failure::of_store(error, self.program)
    }

    pub(crate) fn provider_failure(&self, error: ProviderError) -> Failure {
        failure::of_provider(error, self.program)
    }

    /// Returns the store, and opens it if this is the first use.
    pub(crate) fn open(&self) -> Result<&'a dyn Store, Failure> {
        self.store.open().map_err(|error| self.store_failure(&error))
    }

    pub(crate) fn append(&self, batch: &Batch) -> Result<(), Failure> {
        let receipts = self.open()?.append(batch.entries());
        receipts.map(drop).map_err(|error| self.store_failure(&error))
    }

    /// Finds a workspace of this provider that is not gone.
    pub(crate) fn living(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Failure> {
        let record = self.known(id)?;
        if record.state == WorkspaceState::Destroyed {
            return Err(Failure::user(
                "workspace_destroyed",
                format!("workspace {id} was destroyed at {}", record.updated_at),
                format!(
                    "{} inspect {id} shows its record; {0} create makes a new one",
                    self.program
                ),
            ));
        }
        Ok(record)
    }

    /// Finds a workspace of this provider, also a destroyed one.
    pub(crate) fn known(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Failure> {
        let found = self.open()?.workspace(id).map_err(|error| self.store_failure(&error))?;
        let record = found.ok_or_else(|| self.unknown(id.as_str()))?;
        if record.provider != self.provider.name() {
            let held_by = record.provider.name();
            return Err(Failure::user(
                "other_provider",
                format!(
                    "workspace {id} is held by {held_by}, not by {}",
                    self.provider.name().name()
                ),
                format!("pass --provider {held_by}"),
            ));
        }
        Ok(record)
    }

    pub(crate) fn unknown(&self, handle: &str) -> Failure {
        let job = JobId::parse(handle).ok().zip(self.open().ok());
        if let Some(workspace) = job.and_then(|(job, store)| store.pruned_job(&job).ok()?) {
            return Failure::user(
                "job_pruned",
                format!("job {handle} was pruned with the record of workspace {workspace}"),
                format!("{} inspect {workspace} says when", self.program),
            );
        }
        Failure::user(
            "unknown_workspace",
            format!("there is no workspace or job {}", crate::text::printable(handle.as_bytes())),
            format!("{} list shows the workspaces there are", self.program),
        )
    }

    /// Turns the refusal of an unknown workspace into one that names a job's workspace, where `id` is a job's; `rest` is
    /// what follows the workspace in the command of `verb`.
    pub(crate) fn or_job(
        &self,
        failure: Failure,
        id: &WorkspaceId,
        verb: &str,
        rest: &str,
    ) -> Failure {
        if failure.reason != "unknown_workspace" {
            return failure;
        }
        let job = JobId::parse(id.as_str()).ok().zip(self.open().ok());
        let Some(job) = job.and_then(|(job, store)| store.job(&job).ok()?) else { return failure };
        let (workspace, program) = (&job.workspace, self.program);
        Failure::user(
            "job_not_workspace",
            format!("{id} is a job of workspace {workspace}"),
            format!("name the workspace: {program} {verb} {workspace}{rest}"),
        )
    }

    pub(crate) fn intents(&self, id: &WorkspaceId) -> Result<Vec<OpenIntent>, Failure> {
        self.open()?.open_intents(Some(id)).map_err(|error| self.store_failure(&error))
    }
}
