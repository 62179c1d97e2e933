//! `list`: which workspaces there are.
//!
//! It reads the store, settles what dead callers left, expires whose time is over, and removes what was left without a
//! record. `doctor` uses the same steps.
use crate::engine::Engine;
use crate::hold::Attempt;
use crate::pack::pending;
use crate::reconcile::Held;
use crate::requests::ListRequest;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::listing::{WorkspaceListing, WorkspaceRow};
use bailiwick_contract::package::AboutFacts;
use bailiwick_contract::provider::{Kept, Orphan, Recovered, Slots};
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::WorkspaceFilter;
use core::time::Duration;
use std::collections::BTreeSet;

/// How long something has to be there, unchanged and on no record, to be taken for a leftover: far longer than an
/// `exec` takes from its first directory to its record.
const ORPHAN_AGE: Duration = Duration::from_secs(60);

/// An intent that is open, and whether somebody is at work on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenWork {
    /// What it is: `a run of job job-1 in workspace ws-1`.
    pub what: String,
    /// Whether a living process will settle it.
    pub alive: bool,
}

/// What a reconciliation of everything came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// A line for each thing that was settled, and for each workspace that could not be.
    pub done: Vec<String>,
    /// What is open after it.
    pub open: Vec<OpenWork>,
}

impl Engine<'_> {
    /// Lists workspaces, newest first.
    ///
    /// # Errors
    /// [`Failure`] where the store cannot be read.
    pub fn list(&self, request: &ListRequest) -> Result<WorkspaceListing, Failure> {
        for (key, _) in &request.labels {
            crate::about::check_key(key)?;
        }
        let mut attention = self.reconcile_all(Held::Looking)?;
        attention.extend(self.remove_leftovers());
        // Before the states are looked at, since it changes them.
        attention.extend(self.expire_due(request.limit)?);
        let (records, total, left_out) = self.matching(request)?;
        let mut workspaces = Vec::with_capacity(records.len());
        for record in records {
            let (record, lost) = self.looked_at(record)?;
            attention.extend(lost);
            workspaces.push(self.row(&record, request.size)?);
        }
        Ok(WorkspaceListing { workspaces, total, left_out, attention })
    }

    /// Returns what a listing shows, how many match in all, and how many are in states that were not asked for.
    fn matching(&self, request: &ListRequest) -> Result<(Vec<WorkspaceRecord>, u64, u64), Failure> {
        let store = self.open()?;
        let wanted = WorkspaceFilter {
            states: request.states.clone(),
            owner: request.owner.clone(),
            labels: request.labels.clone(),
            limit: request.limit,
            ..WorkspaceFilter::default()
        };
        let failed = |error| self.store_failure(&error);
        let (records, total) = store.workspaces(&wanted).map_err(failed)?;
        if request.states.is_empty() {
            return Ok((records, total, 0));
        }
        let every = WorkspaceFilter { states: Vec::new(), limit: 0, ..wanted };
        let (_, all) = store.workspaces(&every).map_err(failed)?;
        Ok((records, total, all.saturating_sub(total)))
    }

    /// Settles what dead callers left, in every workspace of this provider that has an open intent.
    pub(crate) fn reconcile_all(&self, held: Held) -> Result<Vec<String>, Failure> {
        let mut notes = Vec::new();
        for id in self.unsettled_workspaces()? {
            // One workspace that cannot be settled does not hide the others.
            match self.known(&id).and_then(|record| self.reconcile(&record, held)) {
                Ok(settled) => notes.extend(settled),
                Err(failure) if failure.reason == "other_provider" => {}
                Err(failure) => notes.push(format!("workspace {id} is not settled: {failure}")),
            }
        }
        Ok(notes)
    }

    fn unsettled_workspaces(&self) -> Result<BTreeSet<WorkspaceId>, Failure> {
        let intents = self.open()?.open_intents(None).map_err(|e| self.store_failure(&e))?;
        Ok(intents.into_iter().map(|intent| intent.workspace).collect())
    }

    /// Settles what dead callers left, in every workspace of this provider, and says what was done in each.
    ///
    /// # Errors
    /// [`Failure`] where the store cannot be read.
    pub fn reconcile_everything(&self) -> Result<Reconciled, Failure> {
        let done = self.reconcile_all(Held::Nothing)?;
        Ok(Reconciled { done, open: self.open_work()? })
    }

    /// Returns every intent that is open in a workspace of this provider. It settles nothing.
    ///
    /// # Errors
    /// [`Failure`] where the store or the provider cannot be read.
    pub fn open_work(&self) -> Result<Vec<OpenWork>, Failure> {
        let intents = self.open()?.open_intents(None).map_err(|e| self.store_failure(&e))?;
        let mut work = Vec::new();
        for intent in intents {
            let Ok(record) = self.known(&intent.workspace) else { continue };
            let alive = match &intent.job {
                Some(job) => {
                    let found = self.provider.recover(&record.id, job, &self.settling());
                    found.map_err(|error| self.provider_failure(error))? == Recovered::Alive
                }
                None => {
                    let slots = Slots::All(record.policy.policy.budget.concurrency);
                    matches!(self.attempt(&record, slots)?, Attempt::Taken)
                }
            };
            let (verb, id) = (intent.kind.name(), &intent.workspace);
            let of = intent.job.map(|job| format!(" of job {job}")).unwrap_or_default();
            work.push(OpenWork { what: format!("a {verb}{of} in workspace {id}"), alive });
        }
        Ok(work)
    }

    /// Looks whether a workspace that reads `ready` is still there; one that is not reads `failed` from now on.
    fn looked_at(
        &self,
        record: WorkspaceRecord,
    ) -> Result<(WorkspaceRecord, Option<String>), Failure> {
        let ours = record.provider == self.provider.name();
        if !ours || record.state != WorkspaceState::Ready || self.is_present(&record)? {
            return Ok((record, None));
        }
        let lost = self.note_loss(&record)?;
        Ok((self.known(&record.id)?, lost))
    }

    /// Removes what verbs left that were killed before they recorded anything, and returns a line for each; also for what
    /// is on no record and was kept.
    #[must_use]
    pub fn remove_leftovers(&self) -> Vec<String> {
        let is_known = |kept: &Kept| self.is_known(kept);
        let found = self.provider.remove_orphans(&is_known, ORPHAN_AGE, &self.settling());
        let line = |Orphan { kept, removed }: Orphan| {
            let (what, workspace) = match kept {
                Kept::Workspace(id) => (format!("workspace {id}"), Some(id)),
                Kept::Job(id) => (format!("job {id}"), None),
            };
            if removed {
                format!("removed what a killed verb left of {what}: nothing had run in it")
            } else {
                let program = self.program;
                let way =
                    workspace.map(|id| format!("; {program} destroy --force {id} removes it"));
                let way = way.unwrap_or_default();
                format!("{what} is on no record, and is kept because it holds something{way}")
            }
        };
        match found {
            Ok(orphans) => orphans.into_iter().map(line).collect(),
            Err(error) => {
                let why = crate::failure::told(&error);
                vec![format!("what killed verbs may have left was not looked for: {why}")]
            }
        }
    }

    /// Returns whether something is on record; what cannot be looked up counts as known.
    fn is_known(&self, kept: &Kept) -> bool {
        let Ok(store) = self.open() else { return true };
        match kept {
            Kept::Workspace(id) => store.workspace(id).map_or(true, |found| found.is_some()),
            Kept::Job(id) => store.job(id).map_or(true, |found| found.is_some()),
        }
    }

    fn row(&self, record: &WorkspaceRecord, measure: bool) -> Result<WorkspaceRow, Failure> {
        let store = self.open()?;
        let jobs = store.jobs(&record.id).map_err(|error| self.store_failure(&error))?;
        let artifacts = self.artifacts(record)?;
        let last = jobs.iter().rev().find_map(|job| job.outcome.as_ref());
        let ours = record.provider == self.provider.name();
        let storage_bytes = if measure && ours && record.state != WorkspaceState::Destroyed {
            let seen = self.provider.inspect(&record.id, &self.cx());
            Some(seen.map_err(|error| self.provider_failure(error))?.storage_bytes)
        } else {
            last.map(|outcome| outcome.usage.storage_bytes)
        };
        Ok(WorkspaceRow {
            workspace_id: record.id.as_str().into(),
            state: record.state.name().into(),
            provider: record.provider.name().into(),
            profile: record.profile.clone(),
            created_at: record.created_at.to_iso(),
            age_seconds: self.now().millis_since(record.created_at) / 1_000,
            jobs: jobs.len() as u64,
            storage_bytes,
            artifacts_pending: pending(&artifacts).len() as u64,
            about: AboutFacts::of(&record.about),
        })
    }
}
