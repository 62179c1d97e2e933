//! A writer in a process of its own: this test binary, run again for one ignored test.
//!
//! What it has to do is in a file of its working directory, since a test takes no arguments.
use crate::fixture::*;
use bailiwick_contract::journal::{Entry, IntentKind};
use bailiwick_contract::store::Store;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const ORDERS: &str = "orders";

/// A writer process and its working directory.
pub(crate) struct Writer {
    pub(crate) child: Child,
    _directory: tempfile::TempDir,
}

impl Writer {
    /// Starts a process that opens `count` pairs of intents in `stream`, and says each when it is durable.
    pub(crate) fn start(home: &Path, stream: &str, count: u64) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let orders = format!("{}\n{stream}\n{count}\n", home.display());
        std::fs::write(directory.path().join(ORDERS), orders).expect("writes");
        #[expect(clippy::disallowed_methods, reason = "the test needs a process to kill")]
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args(["--exact", "writer::writer_process", "--ignored", "--nocapture"])
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        Self { child, _directory: directory }
    }

    /// Waits for the end and returns the sequence numbers that were acknowledged.
    pub(crate) fn acknowledged(mut self) -> Vec<u64> {
        let output = BufReader::new(self.child.stdout.take().expect("piped"));
        let seqs = output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("durable ")?.parse().ok())
            .collect();
        self.child.wait().expect("ends");
        seqs
    }
}

#[test]
#[ignore = "a part of other tests, which start it as a process"]
fn writer_process() {
    let Ok(orders) = std::fs::read_to_string(ORDERS) else {
        return; // run by hand with --ignored
    };
    let lines: Vec<&str> = orders.lines().collect();
    let (home, stream) = (PathBuf::from(lines[0]), workspace_id(lines[1]));
    let count: u64 = lines[2].parse().expect("a number");
    let store = open(&home);
    for number in 0..count {
        let batch: [Entry; 2] = ["a", "b"].map(|half| {
            let intent = format!("int-{}-{number}-{half}", std::process::id());
            entry(&stream, number, opened(&intent, IntentKind::Run, None))
        });
        append_and_say(&store, &batch);
    }
}

fn append_and_say(store: &dyn Store, batch: &[Entry]) {
    let seqs = store.append(batch).expect("appends").seqs;
    let mut said = String::new();
    for seq in seqs {
        said.push_str(&format!("\ndurable {seq}\n"));
    }
    std::io::stdout().write_all(said.as_bytes()).expect("the parent listens");
}
