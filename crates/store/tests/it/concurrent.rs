//! Many writers at once, and writers that are killed.
use crate::fixture::*;
use crate::writer::Writer;
use bailiwick_contract::journal::IntentKind;
use bailiwick_contract::store::Store;
use std::thread;
use std::time::Duration;

#[test]
fn eight_processes_keep_all_that_they_append() {
    let home = tempfile::tempdir().expect("a directory");
    let writers: Vec<Writer> = (0..8)
        .map(|number| Writer::start(home.path(), &format!("ws-{}", number % 2), 50))
        .collect();
    let mut acknowledged: Vec<u64> = writers.into_iter().flat_map(Writer::acknowledged).collect();
    acknowledged.sort_unstable();
    // Two streams of four writers each: every number is given out once in each stream.
    let wanted: Vec<u64> = (1..=400).flat_map(|seq| [seq, seq]).collect();
    assert_eq!(acknowledged, wanted);
    let store = open(home.path());
    for stream in ["ws-0", "ws-1"] {
        assert_eq!(store.verify(stream).expect("chained"), 400);
    }
    assert_eq!(store.open_intents(None).expect("reads").len(), 800);
}

#[test]
fn eight_threads_share_one_store() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, ws) = (open(home.path()), workspace_id("ws"));
    thread::scope(|scope| {
        for thread in 0..8 {
            let (store, ws) = (&store, &ws);
            scope.spawn(move || {
                for number in 0..50 {
                    let intent = format!("int-{thread}-{number}");
                    let change = opened(&intent, IntentKind::Run, None);
                    drop(store.append(&[entry(ws, number, change)]).expect("appends"));
                    assert!(!store.open_intents(None).expect("reads").is_empty());
                }
            });
        }
    });
    assert_eq!(store.verify("ws").expect("chained"), 400);
    assert_eq!(store.open_intents(None).expect("reads").len(), 400);
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let home = tempfile::tempdir().expect("a directory");
    for round in 0..20_u64 {
        let stream = format!("ws-{round}");
        let mut writer = Writer::start(home.path(), &stream, 1_000_000);
        // Anywhere from before the first append to well within a checkpoint.
        thread::sleep(Duration::from_millis(3 + round * 7 % 60));
        writer.child.kill().expect("ours");
        let acknowledged = writer.acknowledged();
        let store = open(home.path());
        let rows = store.verify(&stream).expect("chained");
        assert!(acknowledged.iter().all(|seq| *seq <= rows), "{rows} of {acknowledged:?}");
        let intents = store.open_intents(Some(&workspace_id(&stream))).expect("reads").len();
        assert_eq!(u64::try_from(intents).expect("few"), rows, "the records are those of the log");
        assert_eq!(rows % 2, 0, "a batch is whole");
    }
}
