//! Each change and what is read back after it.
use crate::fixture::*;
use bailiwick_contract::artifact::{ArtifactRecord, Retention};
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind, Phase};
use bailiwick_contract::record::{About, JobRecord, OpenIntent, WorkspaceRecord};
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
        let filter =
            WorkspaceFilter { states: states.to_vec(), limit, ..WorkspaceFilter::default() };
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
fn listings_are_narrowed_by_what_an_owner_says() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    let add = |name: &str, owner: Option<&str>, labels: &[(&str, &str)], expires: u64| {
        let id = workspace_id(name);
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        let (owner, expires_at) = (owner.map(str::to_owned), (expires > 0).then(|| at(expires)));
        let about = About { owner, labels: labels.collect(), expires_at, ..About::default() };
        let record = WorkspaceRecord { about, ..workspace(&id, Ready, expires) };
        drop(store.append(&[entry(&id, 1, Change::WorkspaceAdded { record })]).expect("fits"));
    };
    add("a", None, &[], 0);
    add("b", Some("amy"), &[("tier", "one"), ("x/y.z", "'\" $")], 5);
    add("c", Some("amy"), &[("tier", "two")], 9);
    let list = |filter: WorkspaceFilter| {
        let (records, count) =
            store.workspaces(&WorkspaceFilter { limit: 9, ..filter }).expect("reads");
        assert_eq!(records.len() as u64, count);
        records.iter().map(|record| record.id.to_string()).collect::<String>()
    };
    let every = WorkspaceFilter::default;
    let labelled = |key: &str, value: Option<&str>| {
        let labels = vec![(key.to_owned(), value.map(str::to_owned))];
        list(WorkspaceFilter { labels, ..every() })
    };
    assert_eq!(list(every()), "cba");
    assert_eq!(list(WorkspaceFilter { owner: Some("amy".into()), ..every() }), "cb");
    assert_eq!(list(WorkspaceFilter { owner: Some("am".into()), ..every() }), "");
    assert_eq!(labelled("tier", None), "cb");
    assert_eq!(labelled("tier", Some("two")), "c");
    assert_eq!(labelled("tier", Some("three")), "");
    assert_eq!(labelled("x/y.z", Some("'\" $")), "b");
    assert_eq!(labelled("x", None), "");
    assert_eq!(list(WorkspaceFilter { overdue_at: Some(at(5)), ..every() }), "b");
    assert_eq!(list(WorkspaceFilter { overdue_at: Some(at(4)), ..every() }), "");
    assert_eq!(list(WorkspaceFilter { unchanged_since: Some(at(5)), ..every() }), "ba");
}

#[test]
fn a_pruned_tombstone_keeps_its_ids_and_its_journal_and_nothing_else() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    let ws = workspace_id("ws-x");
    for batch in exec("x") {
        drop(store.append(&batch).expect("fits"));
    }
    let more = vec![
        Change::InputsAdded { inputs: vec![input(b"a", 0)] },
        Change::ArtifactDeclared { job: job_id("job-x"), declaration: declaration("a") },
        opened("int-9", IntentKind::Export, None),
    ];
    let more: Vec<Entry> = more.into_iter().map(|change| entry(&ws, 3, change)).collect();
    drop(store.append(&more).expect("fits"));
    let prune = [entry(&ws, 9, Change::WorkspacePruned)];
    let error = store.append(&prune).expect_err("something is open");
    assert!(error.to_string().contains("has an open intent"), "{error}");
    drop(store.append(&[entry(&ws, 4, closed("int-9"))]).expect("fits"));
    assert_eq!(store.jobs(&ws).expect("reads").len(), 1, "nothing was kept of the refused batch");
    drop(store.append(&prune).expect("a tombstone"));

    let store = open(home.path());
    let record = store.workspace(&ws).expect("reads").expect("its id stays");
    assert_eq!(record.pruned_at, Some(at(9)));
    assert!(store.jobs(&ws).expect("reads").is_empty());
    assert!(store.artifacts(&ws).expect("reads").is_empty());
    assert!(store.inputs(&ws).expect("reads").is_empty());
    assert_eq!(store.job(&job_id("job-x")).expect("reads"), None);
    assert_eq!(store.pruned_job(&job_id("job-x")).expect("reads"), Some(ws.clone()));
    let all = WorkspaceFilter { limit: 9, ..WorkspaceFilter::default() };
    assert_eq!(store.workspaces(&all).expect("reads"), (Vec::new(), 0));
    assert_eq!(store.verify(ws.as_str()).expect("chained"), 19, "the log is as it was");
    let error = store.append(&prune).expect_err("once");
    assert!(error.to_string().contains("was pruned before"), "{error}");
    let [again, _] = exec("x");
    assert!(store.append(&again).expect_err("taken").to_string().contains("`ws-x` is taken"));
    let other = workspace_id("other");
    let record = job(&job_id("job-x"), &other, 1);
    let added = Change::WorkspaceAdded { record: workspace(&other, Ready, 1) };
    let batch = [entry(&other, 1, added), entry(&other, 1, Change::JobAdded { record })];
    let error = store.append(&batch).expect_err("taken");
    assert!(error.to_string().contains("job id `job-x` is taken"), "{error}");
}

#[test]
fn only_a_tombstone_is_pruned() {
    let home = tempfile::tempdir().expect("a directory");
    let store = with_job(home.path());
    let what = conflict(append(&store, vec![Change::WorkspacePruned]));
    assert!(what.contains("is requested, and only a destroyed one"), "{what}");
    assert_eq!(store.jobs(&workspace_id("ws")).expect("reads").len(), 1);
}

#[test]
fn a_page_that_was_scribbled_on_is_found() {
    let home = tempfile::tempdir().expect("a directory");
    let store = open(home.path());
    for number in 0..200 {
        for batch in exec(&number.to_string()) {
            drop(store.append(&batch).expect("fits"));
        }
    }
    store.check().expect("sound");
    drop(store);
    // Without its write-ahead log the file is what a checkpoint left, which is whole.
    let database = home.path().join("state.db");
    let mut bytes = std::fs::read(&database).expect("reads");
    assert!(bytes.len() > 8 * 4_096, "{}", bytes.len());
    let page = 4 * 4_096;
    bytes[page..page + 4_096].fill(0xa5);
    std::fs::write(&database, &bytes).expect("writes");
    let error = open(home.path()).check().expect_err("damaged");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
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
