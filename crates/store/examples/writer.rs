//! A writer in a process of its own, for tests that kill one: `writer HOME STREAM COUNT`.
//!
//! It appends pairs of intents and says each on standard output once it is durable; it opens nothing else and never ends early.
#![expect(clippy::print_stdout, reason = "what it prints is what its caller waits for")]
use bailiwick_contract::id::{IntentId, WorkspaceId};
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind};
use bailiwick_contract::store::Store;
use bailiwick_contract::time::Timestamp;
use bailiwick_store::{OpenOptions, open};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [home, stream, count] = arguments.as_slice() else { panic!("writer HOME STREAM COUNT") };
    let now = Timestamp::from_micros(1);
    let store = open(&OpenOptions { home: home.into(), now }).expect("the home is good");
    let workspace = WorkspaceId::parse(stream).expect("an id");
    for number in 0..count.parse().expect("a number") {
        let batch = ["a", "b"].map(|half| entry(&workspace, number, half));
        for seq in store.append(&batch).expect("appended").seqs {
            println!("durable {seq}");
        }
    }
}

fn entry(workspace: &WorkspaceId, number: u64, half: &str) -> Entry {
    let intent = format!("int-{}-{number}-{half}", std::process::id());
    let change = Change::IntentOpened {
        intent: IntentId::parse(&intent).expect("an id"),
        verb: IntentKind::Run,
        job: None,
        detail: IntentDetail::None,
    };
    Entry { workspace: workspace.clone(), at: Timestamp::from_micros(number), change }
}
