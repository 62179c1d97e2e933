//! Random batches against a model in memory: what it accepts the store accepts, and both then hold the same.
use crate::fixture::*;
use bailiwick_contract::artifact::{ArtifactRecord, Retention};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind, Phase};
use bailiwick_contract::record::{JobRecord, OpenIntent, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState::{
    self, Cancelled, Completed, Destroyed, Failed, Provisioning, Ready, Requested, Running,
};
use bailiwick_contract::store::{Store, StoreError, WorkspaceFilter};
use bailiwick_store::SqliteStore;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What the records should be; each field in order of insertion.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    workspaces: Vec<WorkspaceRecord>,
    jobs: Vec<JobRecord>,
    artifacts: Vec<(WorkspaceId, ArtifactRecord)>,
    inputs: Vec<(WorkspaceId, InputRecord)>,
    intents: Vec<OpenIntent>,
    rows: BTreeMap<WorkspaceId, u64>,
    pruned: BTreeMap<JobId, WorkspaceId>,
}

/// `None` where the change does not fit.
type Fits = Option<()>;

impl Model {
    fn append(&mut self, batch: &[Entry]) -> Option<Vec<u64>> {
        let mut next = self.clone();
        let seqs = batch.iter().map(|entry| next.apply(entry)).collect::<Option<Vec<u64>>>()?;
        next.refers_to_what_is_there().then(|| *self = next)?;
        Some(seqs)
    }

    fn apply(&mut self, entry: &Entry) -> Option<u64> {
        let ws = &entry.workspace;
        match &entry.change {
            Change::IntentOpened { .. } | Change::IntentClosed { .. } => self.intent(entry)?,
            Change::WorkspaceAdded { record } => {
                let free = self.workspaces.iter().all(|known| known.id != record.id);
                (free && record.id == *ws).then(|| self.workspaces.push(record.clone()))?;
            }
            Change::WorkspaceMoved { from, to } => {
                let record = self.workspaces.iter_mut().find(|record| record.id == *ws)?;
                (record.state == *from && from.next().contains(to)).then_some(())?;
                (record.state, record.updated_at) = (*to, entry.at);
            }
            Change::WorkspacePruned => self.prune(entry)?,
            Change::InputsAdded { inputs } => {
                self.inputs.extend(inputs.iter().map(|input| (ws.clone(), input.clone())));
            }
            Change::JobAdded { record } => {
                let free = self.jobs.iter().all(|known| known.id != record.id)
                    && !self.pruned.contains_key(&record.id);
                (free && record.workspace == *ws).then(|| self.jobs.push(record.clone()))?;
            }
            Change::JobEnded { job, outcome, package } => {
                let mine = |record: &&mut JobRecord| record.id == *job && record.workspace == *ws;
                let record = self.jobs.iter_mut().find(mine)?;
                record.outcome.is_none().then_some(())?;
                (record.outcome, record.package) = (Some(outcome.clone()), package.clone());
            }
            _ => self.artifact(entry)?,
        }
        let row = self.rows.entry(ws.clone()).or_default();
        *row += 1;
        Some(*row)
    }

    fn prune(&mut self, entry: &Entry) -> Fits {
        let ws = &entry.workspace;
        let quiet = self.intents.iter().all(|open| open.workspace != *ws);
        let record = self.workspaces.iter_mut().find(|record| record.id == *ws)?;
        (quiet && record.state == Destroyed && record.pruned_at.is_none()).then_some(())?;
        record.pruned_at = Some(entry.at);
        let gone = self.jobs.iter().filter(|job| job.workspace == *ws);
        self.pruned.extend(gone.map(|job| (job.id.clone(), ws.clone())));
        self.jobs.retain(|job| job.workspace != *ws);
        self.artifacts.retain(|(of, _)| of != ws);
        self.inputs.retain(|(of, _)| of != ws);
        Some(())
    }

    fn intent(&mut self, entry: &Entry) -> Fits {
        let workspace = entry.workspace.clone();
        match &entry.change {
            Change::IntentOpened { intent, verb, job, detail } => {
                self.intents.iter().all(|open| open.id != *intent).then_some(())?;
                let (id, kind, job) = (intent.clone(), *verb, job.clone());
                let (detail, opened_at) = (detail.clone(), entry.at);
                self.intents.push(OpenIntent { id, kind, workspace, job, detail, opened_at });
            }
            Change::IntentClosed { intent, .. } => {
                let mine = |open: &OpenIntent| open.id == *intent && open.workspace == workspace;
                let place = self.intents.iter().position(mine)?;
                self.intents.remove(place);
            }
            other => panic!("{other:?}"),
        }
        Some(())
    }

    fn find(&mut self, ws: &WorkspaceId, name: &ByteString) -> Option<&mut ArtifactRecord> {
        let wanted = |(of, record): &&mut (WorkspaceId, ArtifactRecord)| {
            of == ws && record.declaration.name == *name
        };
        self.artifacts.iter_mut().find(wanted).map(|(_, record)| record)
    }

    fn artifact(&mut self, entry: &Entry) -> Fits {
        let ws = &entry.workspace;
        match &entry.change {
            Change::ArtifactDeclared { job, declaration } => {
                self.find(ws, &declaration.name).is_none().then_some(())?;
                let (declaration, job) = (declaration.clone(), job.clone());
                let retention = Retention::Declared;
                let record = ArtifactRecord { declaration, job, retention, export: None };
                self.artifacts.push((ws.clone(), record));
            }
            Change::ArtifactExported { name, export } => {
                let record = self.find(ws, name)?;
                (record.retention != Retention::Discarded).then_some(())?;
                (record.retention, record.export) = (Retention::Exported, Some(export.clone()));
            }
            Change::ArtifactDiscarded { name } => {
                let record = self.find(ws, name)?;
                (record.retention == Retention::Declared).then_some(())?;
                record.retention = Retention::Discarded;
            }
            other => panic!("{other:?}"),
        }
        Some(())
    }

    fn refers_to_what_is_there(&self) -> bool {
        let there = |id: &WorkspaceId| self.workspaces.iter().any(|record| record.id == *id);
        self.jobs.iter().all(|record| there(&record.workspace))
            && self.inputs.iter().all(|(of, _)| there(of))
            && self
                .artifacts
                .iter()
                .all(|(of, record)| there(of) && self.jobs.iter().any(|job| job.id == record.job))
    }

    /// Reads the store into a model.
    fn read(store: &SqliteStore) -> Result<Self, StoreError> {
        let filter = WorkspaceFilter { limit: u64::MAX, ..WorkspaceFilter::default() };
        let (mut workspaces, _) = store.workspaces(&filter)?;
        workspaces.reverse();
        // What was pruned is in no listing.
        let all = WORKSPACES.map(|id| store.workspace(&workspace_id(id)));
        let all: Vec<_> =
            all.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
        workspaces.extend(all.into_iter().filter(|record| record.pruned_at.is_some()));
        let mut model = Self { workspaces, intents: store.open_intents(None)?, ..Self::default() };
        for ws in WORKSPACES.map(workspace_id) {
            let pair = |record| (ws.clone(), record);
            model.jobs.extend(store.jobs(&ws)?);
            model.artifacts.extend(store.artifacts(&ws)?.into_iter().map(pair));
            model.inputs.extend(store.inputs(&ws)?.into_iter().map(|input| (ws.clone(), input)));
            for job in JOBS.map(job_id) {
                if store.pruned_job(&job)?.as_ref() == Some(&ws) {
                    model.pruned.insert(job, ws.clone());
                }
            }
            match store.verify(ws.as_str())? {
                0 => {}
                rows => drop(model.rows.insert(ws, rows)),
            }
        }
        Ok(model)
    }

    /// The order that [`Model::read`] finds: by workspace, then by insertion.
    fn sorted(&self) -> Self {
        let mut model = self.clone();
        model.workspaces.sort_by_key(|record| record.pruned_at.is_some());
        let place =
            |record: &WorkspaceRecord| WORKSPACES.iter().position(|id| *id == record.id.as_str());
        let kept = model.workspaces.partition_point(|record| record.pruned_at.is_none());
        model.workspaces[kept..].sort_by_key(place);
        model.jobs.sort_by(|a, b| a.workspace.cmp(&b.workspace));
        model.artifacts.sort_by(|a, b| a.0.cmp(&b.0));
        model.inputs.sort_by(|a, b| a.0.cmp(&b.0));
        model
    }
}

const WORKSPACES: [&str; 2] = ["wa", "wb"];
const JOBS: [&str; 2] = ["ja", "jb"];

fn change(ws: &WorkspaceId) -> impl Strategy<Value = Change> + use<> {
    let states = [Requested, Provisioning, Ready, Running, Completed, Failed, Cancelled, Destroyed];
    let state = || proptest::sample::select(states.to_vec());
    let name = || proptest::sample::select(vec!["x", ODD_TEXT]);
    let job_name = || proptest::sample::select(JOBS.to_vec()).prop_map(job_id);
    let intent = || proptest::sample::select(vec!["ia", "ib"]).prop_map(intent_id);
    let (added, with_job) = (ws.clone(), ws.clone());
    let step = state().prop_flat_map(|from| {
        let next = if from == Destroyed { vec![Ready] } else { from.next().to_vec() };
        (Just(from), proptest::sample::select(next))
    });
    let moved = prop_oneof![3 => step, 1 => (state(), state())];
    prop_oneof![
        2 => state().prop_map(move |s: WorkspaceState| Change::WorkspaceAdded { record: workspace(&added, s, 3) }),
        3 => Just(Change::WorkspacePruned),
        6 => moved.prop_map(|(from, to)| Change::WorkspaceMoved { from, to }),
        3 => job_name().prop_map(move |id| Change::JobAdded { record: job(&id, &with_job, 4) }),
        2 => job_name().prop_map(|job| Change::JobEnded {
            job, outcome: outcome(JobStatus::Timeout), package: Some("p".into())
        }),
        3 => intent().prop_map(|intent| Change::IntentOpened {
            intent, verb: IntentKind::Run, job: Some(job_id("ja")), detail: IntentDetail::None
        }),
        2 => intent().prop_map(|intent| Change::IntentClosed {
            intent, phase: Phase::Abandoned, detail: None
        }),
        3 => (job_name(), name()).prop_map(|(job, name)| Change::ArtifactDeclared {
            job, declaration: declaration(name)
        }),
        2 => name().prop_map(|name| Change::ArtifactExported { name: name.into(), export: export(6) }),
        2 => name().prop_map(|name| Change::ArtifactDiscarded { name: name.into() }),
        1 => any::<u64>().prop_map(|size| Change::InputsAdded { inputs: vec![input(b"in", size)] }),
    ]
}

fn any_entry() -> impl Strategy<Value = Entry> {
    proptest::sample::select(WORKSPACES.to_vec()).prop_flat_map(|name| {
        let ws = workspace_id(name);
        (change(&ws), any::<u32>())
            .prop_map(move |(change, micros)| entry(&ws, micros.into(), change))
    })
}

/// Both workspaces and a job, without which most changes fit nowhere.
fn beginning() -> Vec<Entry> {
    let [wa, wb] = WORKSPACES.map(workspace_id);
    let added = |ws| Change::WorkspaceAdded { record: workspace(ws, Requested, 3) };
    let record = job(&job_id("ja"), &wa, 4);
    vec![
        entry(&wa, 1, added(&wa)),
        entry(&wb, 1, added(&wb)),
        entry(&wa, 1, Change::JobAdded { record }),
    ]
}

fn batches() -> impl Strategy<Value = Vec<Vec<Entry>>> {
    let batch = prop_oneof![
        4 => proptest::collection::vec(any_entry(), 1..2),
        1 => proptest::collection::vec(any_entry(), 2..4),
    ];
    (any::<bool>(), proptest::collection::vec(batch, 20..120)).prop_map(|(begun, mut batches)| {
        if begun {
            batches.insert(0, beginning());
        }
        batches
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_does(batches in batches()) {
        let home = tempfile::tempdir().expect("a directory");
        let (store, mut model) = (open(home.path()), Model::default());
        for batch in &batches {
            let wanted = model.append(batch);
            match store.append(batch) {
                Ok(receipts) => prop_assert_eq!(Some(receipts.seqs), wanted, "{:?}", batch),
                Err(StoreError::Conflict { .. }) => prop_assert_eq!(None, wanted, "{:?}", batch),
                Err(error) => panic!("{error}"),
            }
        }
        prop_assert_eq!(Model::read(&open(home.path())).expect("reads"), model.sorted());
    }
}
