//! `list`: which workspaces there are.
//!
//! Rows, not a package: a listing has no outcome to report. It reads the store, settles what dead callers left, and
//! removes what was left without a record.
use crate::engine::Engine;
use crate::pack::pending;
use crate::reconcile::Held;
use crate::requests::ListRequest;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{Kept, Orphan};
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::WorkspaceFilter;
use core::time::Duration;
use serde::Serialize;
use std::collections::BTreeSet;

/// How long something has to be there, unchanged and on no record, to be taken for a leftover: far longer than an
/// `exec` takes from its first directory to its record.
const ORPHAN_AGE: Duration = Duration::from_secs(60);

/// The answer of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The workspaces, newest first.
    pub workspaces: Vec<Row>,
    /// How many match in all, also beyond the limit.
    pub total: u64,
    /// How many there are beside those, in states that were not asked for.
    pub left_out: u64,
    /// What an earlier, killed verb left and this one settled or could not settle.
    pub attention: Vec<String>,
}

/// One workspace of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its id.
    pub workspace_id: String,
    /// Its state.
    pub state: String,
    /// Its provider.
    pub provider: String,
    /// Its profile.
    pub profile: String,
    /// When it was asked for.
    pub created_at: String,
    /// Seconds since then.
    pub age_seconds: u64,
    /// How many jobs it has had.
    pub jobs: u64,
    /// Bytes on its disk as its last job left it; null before there was one. `inspect` measures it anew.
    pub storage_bytes: Option<u64>,
    /// Declared artifacts that were neither exported nor given up.
    pub artifacts_pending: u64,
}

impl Engine<'_> {
    /// Lists workspaces, newest first.
    ///
    /// # Errors
    /// [`Failure`] where the store cannot be read.
    pub fn list(&self, request: &ListRequest) -> Result<Listing, Failure> {
        let mut attention = self.reconcile_all()?;
        attention.extend(self.remove_leftovers());
        let store = self.open()?;
        let filter = WorkspaceFilter { states: request.states.clone(), limit: request.limit };
        let (records, total) =
            store.workspaces(&filter).map_err(|error| self.store_failure(&error))?;
        let left_out = if request.states.is_empty() {
            0
        } else {
            let every = WorkspaceFilter { states: Vec::new(), limit: 0 };
            let counted = store.workspaces(&every).map_err(|error| self.store_failure(&error))?;
            counted.1.saturating_sub(total)
        };
        let mut workspaces = Vec::with_capacity(records.len());
        for record in records {
            let (record, lost) = self.looked_at(record)?;
            attention.extend(lost);
            workspaces.push(self.row(&record)?);
        }
        Ok(Listing { workspaces, total, left_out, attention })
    }

    /// Settles what dead callers left, in every workspace that has an open intent.
    fn reconcile_all(&self) -> Result<Vec<String>, Failure> {
        let intents = self.open()?.open_intents(None).map_err(|e| self.store_failure(&e))?;
        let workspaces: BTreeSet<WorkspaceId> =
            intents.into_iter().map(|intent| intent.workspace).collect();
        let mut notes = Vec::new();
        for id in workspaces {
            // One workspace that cannot be settled, or is another provider's, does not hide the others.
            match self.known(&id).and_then(|record| self.reconcile(&record, Held::Nothing)) {
                Ok(settled) => notes.extend(settled),
                Err(failure) => notes.push(format!("workspace {id} is not settled: {failure}")),
            }
        }
        Ok(notes)
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
            let what = match kept {
                Kept::Workspace(id) => format!("workspace {id}"),
                Kept::Job(id) => format!("job {id}"),
            };
            if removed {
                format!("removed what a killed verb left of {what}: nothing had run in it")
            } else {
                format!("{what} is on no record, and is kept because it holds something")
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

    fn row(&self, record: &WorkspaceRecord) -> Result<Row, Failure> {
        let store = self.open()?;
        let jobs = store.jobs(&record.id).map_err(|error| self.store_failure(&error))?;
        let artifacts = self.artifacts(record)?;
        let last = jobs.iter().rev().find_map(|job| job.outcome.as_ref());
        Ok(Row {
            workspace_id: record.id.as_str().into(),
            state: record.state.name().into(),
            provider: record.provider.name().into(),
            profile: record.profile.clone(),
            created_at: record.created_at.to_iso(),
            age_seconds: self.now().millis_since(record.created_at) / 1_000,
            jobs: jobs.len() as u64,
            storage_bytes: last.map(|outcome| outcome.usage.storage_bytes),
            artifacts_pending: pending(&artifacts).len() as u64,
        })
    }
}
