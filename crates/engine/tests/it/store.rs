//! A store in memory: one batch is applied to a copy, and the copy takes over only when all of it fits.
use bailiwick_contract::artifact::{ArtifactRecord, Retention};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::journal::{Change, Entry};
use bailiwick_contract::record::{JobRecord, OpenIntent, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::{Receipts, Store, StoreError, StorePort, WorkspaceFilter};
use std::sync::Mutex;

#[derive(Debug, Default, Clone)]
pub(crate) struct Tables {
    pub(crate) workspaces: Vec<WorkspaceRecord>,
    pub(crate) jobs: Vec<JobRecord>,
    pub(crate) artifacts: Vec<(WorkspaceId, ArtifactRecord)>,
    pub(crate) inputs: Vec<(WorkspaceId, InputRecord)>,
    pub(crate) intents: Vec<OpenIntent>,
    /// The kinds of the changes of each batch.
    pub(crate) batches: Vec<Vec<&'static str>>,
    pub(crate) opened: u32,
    pub(crate) pruned: Vec<(JobId, WorkspaceId)>,
    /// How often something was read.
    pub(crate) reads: u64,
    /// How many batches succeed before the disk is full; none means always.
    pub(crate) room: Option<u32>,
    /// How many batches are appended before one does not fit what is on record; none means never.
    pub(crate) misfit_after: Option<u32>,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryStore(pub(crate) Mutex<Tables>);

fn conflict(what: String) -> StoreError {
    StoreError::Conflict { what }
}

impl Tables {
    fn apply(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let id = &entry.workspace;
        match entry.change.clone() {
            Change::IntentOpened { intent, verb, job, detail } => self.intents.push(OpenIntent {
                id: intent,
                kind: verb,
                workspace: id.clone(),
                job,
                detail,
                opened_at: entry.at,
            }),
            Change::IntentClosed { intent, .. } => {
                let at = self.intents.iter().position(|open| open.id == intent);
                self.intents.remove(at.ok_or_else(|| conflict("no such intent".into()))?);
            }
            Change::WorkspaceAdded { record } => {
                if self.workspaces.iter().any(|known| known.id == record.id) {
                    return Err(conflict(format!("workspace {id} exists")));
                }
                self.workspaces.push(record);
            }
            Change::WorkspaceMoved { from, to } => {
                let found = self.workspaces.iter_mut().find(|known| known.id == *id);
                let record = found.ok_or_else(|| conflict("no such workspace".into()))?;
                if record.state != from || !from.next().contains(&to) {
                    return Err(conflict(format!("{id} is {}, not {from}", record.state)));
                }
                (record.state, record.updated_at) = (to, entry.at);
            }
            Change::WorkspacePruned => self.prune(entry)?,
            Change::ArtifactDeclared { job, declaration } => {
                if self.artifact(id, &declaration.name).is_some() {
                    return Err(conflict("the name is taken".into()));
                }
                let retention = Retention::Declared;
                let record = ArtifactRecord { declaration, job, retention, export: None };
                self.artifacts.push((id.clone(), record));
            }
            Change::ArtifactExported { name, export } => {
                let record = self.artifact(id, &name).expect("it was declared");
                (record.retention, record.export) = (Retention::Exported, Some(export));
            }
            Change::ArtifactDiscarded { name } => {
                self.artifact(id, &name).expect("it was declared").retention = Retention::Discarded;
            }
            Change::InputsAdded { inputs } => {
                self.inputs.extend(inputs.into_iter().map(|input| (id.clone(), input)));
            }
            Change::JobAdded { record } => {
                if self.jobs.iter().any(|known| known.id == record.id) {
                    return Err(conflict("the job exists".into()));
                }
                self.jobs.push(record);
            }
            Change::JobEnded { job, outcome, package } => {
                let record = self.jobs.iter_mut().find(|known| known.id == job).expect("added");
                if record.outcome.is_some() {
                    return Err(conflict("the job has ended".into()));
                }
                (record.outcome, record.package) = (Some(outcome), package);
            }
        }
        Ok(())
    }

    fn prune(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let id = &entry.workspace;
        let open = self.intents.iter().any(|open| open.workspace == *id);
        let found = self.workspaces.iter_mut().find(|known| known.id == *id);
        let record = found.ok_or_else(|| conflict("no such workspace".into()))?;
        if open || record.state != WorkspaceState::Destroyed || record.pruned_at.is_some() {
            return Err(conflict(format!("{id} cannot be pruned")));
        }
        record.pruned_at = Some(entry.at);
        let (gone, kept): (Vec<JobRecord>, Vec<JobRecord>) =
            std::mem::take(&mut self.jobs).into_iter().partition(|job| job.workspace == *id);
        self.jobs = kept;
        self.pruned.extend(gone.into_iter().map(|job| (job.id, id.clone())));
        self.artifacts.retain(|(owner, _)| owner != id);
        self.inputs.retain(|(owner, _)| owner != id);
        Ok(())
    }

    fn artifact(
        &mut self,
        id: &WorkspaceId,
        name: &bailiwick_contract::bytes::ByteString,
    ) -> Option<&mut ArtifactRecord> {
        let mut all = self.artifacts.iter_mut();
        all.find(|(owner, one)| owner == id && one.declaration.name == *name).map(|(_, one)| one)
    }
}

impl MemoryStore {
    pub(crate) fn tables(&self) -> std::sync::MutexGuard<'_, Tables> {
        self.0.lock().expect("no test panics while it holds the tables")
    }

    fn reading(&self) -> std::sync::MutexGuard<'_, Tables> {
        let mut tables = self.tables();
        tables.reads += 1;
        tables
    }
}

impl StorePort for MemoryStore {
    fn open(&self) -> Result<&dyn Store, StoreError> {
        self.tables().opened += 1;
        Ok(self)
    }
}

impl Store for MemoryStore {
    fn append(&self, batch: &[Entry]) -> Result<Receipts, StoreError> {
        let mut tables = self.tables();
        if let Some(room) = &mut tables.room {
            let Some(left) = room.checked_sub(1) else {
                let why = "the disk is full".into();
                return Err(StoreError::Unwritable { path: "memory".into(), why });
            };
            *room = left;
        }
        tables.misfit_after = match tables.misfit_after {
            Some(0) => {
                tables.misfit_after = None;
                return Err(conflict("it moved on".into()));
            }
            left => left.map(|left| left - 1),
        };
        let mut next = tables.clone();
        batch.iter().try_for_each(|entry| next.apply(entry))?;
        next.batches.push(batch.iter().map(|entry| entry.change.kind()).collect());
        // What is written has to be writable as JSON, which no secret is.
        for entry in batch {
            serde_json::to_string(entry).expect("an entry is JSON");
        }
        *tables = next;
        Ok(Receipts { seqs: vec![0; batch.len()] })
    }

    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRecord>, StoreError> {
        Ok(self.reading().workspaces.iter().find(|record| record.id == *id).cloned())
    }

    fn workspaces(
        &self,
        filter: &WorkspaceFilter,
    ) -> Result<(Vec<WorkspaceRecord>, u64), StoreError> {
        let labelled = |record: &WorkspaceRecord| {
            filter.labels.iter().all(|(key, value)| {
                let has = record.about.labels.get(key);
                has.is_some_and(|has| value.as_ref().is_none_or(|value| value == has))
            })
        };
        let wanted = |record: &&WorkspaceRecord| {
            record.pruned_at.is_none()
                && (filter.states.is_empty() || filter.states.contains(&record.state))
                && (filter.owner.is_none() || record.about.owner == filter.owner)
                && labelled(record)
                && filter.overdue_at.is_none_or(|at| record.is_overdue(at))
                && filter.unchanged_since.is_none_or(|at| record.updated_at <= at)
        };
        let all: Vec<_> = self.reading().workspaces.iter().rev().filter(wanted).cloned().collect();
        let total = all.len() as u64;
        let limit = usize::try_from(filter.limit).expect("a small limit");
        Ok((all.into_iter().take(limit).collect(), total))
    }

    fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError> {
        Ok(self.reading().jobs.iter().find(|record| record.id == *id).cloned())
    }

    fn pruned_job(&self, id: &JobId) -> Result<Option<WorkspaceId>, StoreError> {
        let tables = self.reading();
        Ok(tables.pruned.iter().find(|(job, _)| job == id).map(|(_, of)| of.clone()))
    }

    fn jobs(&self, workspace: &WorkspaceId) -> Result<Vec<JobRecord>, StoreError> {
        let tables = self.reading();
        Ok(tables.jobs.iter().filter(|job| job.workspace == *workspace).cloned().collect())
    }

    fn artifacts(&self, workspace: &WorkspaceId) -> Result<Vec<ArtifactRecord>, StoreError> {
        let tables = self.reading();
        let own = tables.artifacts.iter().filter(|(owner, _)| owner == workspace);
        Ok(own.map(|(_, artifact)| artifact.clone()).collect())
    }

    fn inputs(&self, workspace: &WorkspaceId) -> Result<Vec<InputRecord>, StoreError> {
        let tables = self.reading();
        let own = tables.inputs.iter().filter(|(owner, _)| owner == workspace);
        Ok(own.map(|(_, input)| input.clone()).collect())
    }

    fn open_intents(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<OpenIntent>, StoreError> {
        let tables = self.reading();
        let wanted = |open: &&OpenIntent| workspace.is_none_or(|id| open.workspace == *id);
        Ok(tables.intents.iter().filter(wanted).cloned().collect())
    }

    fn check(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
