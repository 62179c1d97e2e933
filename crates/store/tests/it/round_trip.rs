//! Each change and what is read back after it.
use crate::fixture::*;
use bailiwick_contract::artifact::{ArtifactRecord, Retention};
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind, Phase};
use bailiwick_contract::record::{JobRecord, OpenIntent, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState::{self, Provisioning, Ready, Requested};
use bailiwick_contract::store::{Store, StoreError, WorkspaceFilter};
use bailiwick_store::SqliteStore;
use std::path::Path;

fn append(store: &SqliteStore, changes: Vec<Change>) -> Result<Vec<u64>, StoreError> {
    let ws = workspace_id("ws");
    let batch: Vec<Entry> = changes.into_iter().map(|change| entry(&ws, 30, change)).collect();
    store.append(&batch).map(|receipts| receipts.seqs)
}

fn with_job(home: &Path) -> SqliteStore {
    let (store, ws) = (open(home), workspace_id("ws"));
    let record = job(&job_id("j"), &ws, 2);
    let added = Change::WorkspaceAdded { record: workspace(&ws, Requested, 1) };
    append(&store, vec![added, Change::JobAdded { record }]).expect("fits");
    store
}

fn conflict(result: Result<Vec<u64>, StoreError>) -> String {
    match result {
        Err(StoreError::Conflict { what }) => what,
        other => panic!("{other:?}"),
    }
}

/// One of each change that can follow [`with_job`].
fn changes() -> Vec<Change> {
    let j = job_id("j");
    let declare = |name: &[u8]| {
        let declaration = declaration(name);
        Change::ArtifactDeclared { job: job_id("j"), declaration }
    };
    let exported = |size| Change::ArtifactExported { name: ODD_BYTES.into(), export: export(size) };
    let put = Change::IntentOpened {
        intent: intent_id("int-2"),
        verb: IntentKind::Put,
        job: Some(j.clone()),
        detail: IntentDetail::Inputs(vec![input(b"in\xff", 3)]),
    };
    vec![
        opened("int-1", IntentKind::Create, None),
        put,
        closed("int-1"),
        Change::WorkspaceMoved { from: Requested, to: Provisioning },
        declare(ODD_BYTES),
        declare(ODD_TEXT.as_bytes()),
        exported(1),
        exported(u64::MAX),
        Change::ArtifactDiscarded { name: ODD_TEXT.into() },
        Change::InputsAdded { inputs: vec![input(b"a", 0), input("b\u{2028}".as_bytes(), 1)] },
        Change::InputsAdded { inputs: vec![input(b"a", 2)] },
        Change::JobEnded {
            job: j,
            outcome: outcome(JobStatus::Failure),
            package: Some(ODD_TEXT.into()),
        },
    ]
}

/// A store that has seen [`changes`], through another connection than the one that wrote them.
fn after_changes(home: &Path) -> SqliteStore {
    let store = with_job(home);
    assert_eq!(append(&store, changes()).expect("fits"), (3..15).collect::<Vec<u64>>());
    open(home)
}

#[test]
fn workspaces_and_jobs_are_read_back() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, ws, j) = (after_changes(home.path()), workspace_id("ws"), job_id("j"));
    let wanted = WorkspaceRecord { updated_at: at(30), ..workspace(&ws, Provisioning, 1) };
    assert_eq!(store.workspace(&ws).expect("reads"), Some(wanted));
    assert_eq!(store.workspace(&workspace_id("other")).expect("reads"), None);
    let outcome = Some(outcome(JobStatus::Failure));
    let wanted = JobRecord { outcome, package: Some(ODD_TEXT.into()), ..job(&j, &ws, 2) };
    assert_eq!(store.job(&j).expect("reads"), Some(wanted.clone()));
    assert_eq!(store.jobs(&ws).expect("reads"), [wanted]);
}

#[test]
fn artifacts_inputs_and_intents_are_read_back() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, ws, j) = (after_changes(home.path()), workspace_id("ws"), job_id("j"));
    let record = |name: &[u8], retention, export| ArtifactRecord {
        declaration: declaration(name),
        job: job_id("j"),
        retention,
        export,
    };
    let exported = record(ODD_BYTES, Retention::Exported, Some(export(u64::MAX)));
    let discarded = record(ODD_TEXT.as_bytes(), Retention::Discarded, None);
    assert_eq!(store.artifacts(&ws).expect("reads"), [exported, discarded]);
    let inputs = [input(b"a", 0), input("b\u{2028}".as_bytes(), 1), input(b"a", 2)];
    assert_eq!(store.inputs(&ws).expect("reads"), inputs);
    let wanted = OpenIntent {
        id: intent_id("int-2"),
        kind: IntentKind::Put,
        workspace: ws.clone(),
        job: Some(j),
        detail: IntentDetail::Inputs(vec![input(b"in\xff", 3)]),
        opened_at: at(30),
    };
    assert_eq!(store.open_intents(Some(&ws)).expect("reads"), [wanted]);
    assert!(store.open_intents(Some(&workspace_id("other"))).expect("reads").is_empty());
}

#[test]
fn the_journal_holds_every_change_as_it_was() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, ws) = (after_changes(home.path()), workspace_id("ws"));
    let rows = store.journal(&ws, 2, 100).expect("reads");
    let read: Vec<Change> =
        rows.iter().map(|row| serde_json::from_str(&row.body).expect("a change")).collect();
    assert_eq!(read, changes());
    assert!(rows.iter().zip(&read).all(|(row, change)| row.kind == change.kind()));
    assert_eq!(store.journal(&ws, 3, 2).expect("reads"), rows[1..3]);
    assert_eq!(store.verify("ws").expect("chained"), 14);
}

#[test]
fn what_does_not_fit_says_what_is_there_and_keeps_nothing_of_the_batch() {
    let home = tempfile::tempdir().expect("a directory");
    let store = with_job(home.path());
    let (ws, j) = (workspace_id("ws"), job_id("j"));
    let declared = Change::ArtifactDeclared { job: j.clone(), declaration: declaration("a") };
    let ended =
        |status| Change::JobEnded { job: job_id("j"), outcome: outcome(status), package: None };
    append(&store, vec![declared.clone(), ended(JobStatus::Success)]).expect("fits");
    let other = job(&job_id("k"), &workspace_id("other"), 1);
    let lost =
        Change::JobEnded { job: job_id("k"), outcome: outcome(JobStatus::Success), package: None };
    let orphan = Change::ArtifactDeclared { job: job_id("k"), declaration: declaration("b") };
    let cases = [
        (Change::WorkspaceAdded { record: workspace(&ws, Requested, 1) }, "it is requested"),
        (
            Change::WorkspaceMoved { from: Ready, to: WorkspaceState::Running },
            "`ws` is requested, not ready",
        ),
        (Change::WorkspaceMoved { from: Requested, to: Ready }, "no step leads to ready"),
        (declared, "already has an artifact `a`, which is declared"),
        (orphan, "not on record"),
        (Change::ArtifactExported { name: "b".into(), export: export(1) }, "no artifact `b`"),
        (Change::JobAdded { record: job(&j, &ws, 1) }, "workspace `ws` has a job of that name"),
        (Change::JobAdded { record: other }, "cannot hold a record of workspace `other`"),
        (ended(JobStatus::Failure), "`j` has already ended: success"),
        (lost, "has no job `k`"),
        (closed("int-9"), "no open intent `int-9`"),
    ];
    for (change, text) in cases {
        let good = opened("int-1", IntentKind::Run, None);
        let what = conflict(append(&store, vec![good, change]));
        assert!(what.contains(text), "{what}");
        assert!(store.open_intents(None).expect("reads").is_empty(), "{text}");
    }
    assert_eq!(store.verify("ws").expect("chained"), 4);
}

#[test]
fn the_id_of_a_destroyed_workspace_stays_taken() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    for batch in exec("x") {
        drop(store.append(&batch).expect("fits"));
    }
    let [again, _] = exec("x");
    let error = store.append(&again).expect_err("taken");
    assert!(error.to_string().contains("`ws-x` is taken"), "{error}");
    assert!(error.to_string().contains("it is destroyed"), "{error}");
}

#[test]
fn listings_are_newest_first_filtered_bounded_and_counted() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    for (name, state) in [("a", Ready), ("b", Requested), ("c", Ready), ("d", Ready)] {
        let id = workspace_id(name);
        let record = workspace(&id, state, 1);
        drop(store.append(&[entry(&id, 1, Change::WorkspaceAdded { record })]).expect("fits"));
    }
    let list = |states: &[WorkspaceState], limit| {
        let filter = WorkspaceFilter { states: states.to_vec(), limit };
        let (records, count) = store.workspaces(&filter).expect("reads");
        let ids: Vec<String> = records.iter().map(|record| record.id.to_string()).collect();
        (ids.join(""), count)
    };
    assert_eq!(list(&[], u64::MAX), ("dcba".into(), 4));
    assert_eq!(list(&[Ready], 2), ("dc".into(), 3));
    assert_eq!(list(&[Ready, Requested], 3), ("dcb".into(), 4));
    assert_eq!(list(&[WorkspaceState::Failed], 3), (String::new(), 0));
    assert_eq!(list(&[], 0), (String::new(), 4));
}

#[test]
fn an_empty_batch_is_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    assert!(open(home.path()).append(&[]).expect("nothing to do").seqs.is_empty());
}

#[test]
fn closing_says_how_in_the_journal_only() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    let close = Change::IntentClosed {
        intent: intent_id("i"),
        phase: Phase::Reconciled,
        detail: Some(ODD_TEXT.into()),
    };
    append(&store, vec![opened("i", IntentKind::Export, None), close.clone()]).expect("fits");
    let rows = store.journal(&workspace_id("ws"), 1, 1).expect("reads");
    assert_eq!(serde_json::from_str::<Change>(&rows[0].body).expect("a change"), close);
}
