//! What the store costs a short process: `cargo run --release -p bailiwick-store --example cost -- HOME`.
//!
//! Each round is what one verb does: open, list open intents, append 8 entries, append 6, close. It decides nothing and
//! cleans nothing up. In a home on a tmpfs a sync costs nothing, so that what is left is our own.
//!
//! Medians of 500 rounds on 2 cores of a virtual machine, 2026-11-30, tmpfs / ext4, in microseconds: open 145 / 190,
//! first read 70 / 75, append 8 240 / 510, append 6 75 / 250, close 40 / 50. By strace: one sync a commit, one more of the
//! directory for the first of a connection, three more for the checkpoint that two rounds in five make; closing
//! neither syncs nor removes a file.
#![expect(clippy::print_stdout, reason = "a program that prints figures")]
#[expect(dead_code, reason = "the tests use more of it")]
#[path = "../tests/it/fixture.rs"]
mod fixture;

use bailiwick_contract::store::Store;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUNDS: usize = 500;
const STEPS: [&str; 6] = ["open", "first read", "append 8", "append 6", "close", "all"];

fn main() {
    let home: PathBuf = std::env::args_os().nth(1).expect("the home is the one argument").into();
    drop(fixture::open(&home));
    let stamp = Instant::now();
    let mut figures: Vec<[u128; 6]> = (0..ROUNDS).map(|round| verb(&home, round, stamp)).collect();
    for (step, name) in STEPS.iter().enumerate() {
        figures.sort_by_key(|round| round[step]);
        let at = |share: usize| figures[ROUNDS * share / 100][step];
        println!("{name:>10}: median {:>5} us, p95 {:>5} us", at(50), at(95));
    }
}

/// Returns what each step of one verb took, in microseconds.
fn verb(home: &Path, round: usize, start: Instant) -> [u128; 6] {
    let id = format!("{}-{}-{round}", std::process::id(), start.elapsed().as_nanos());
    let [begin, end] = fixture::exec(&id);
    let mut times = [Instant::now(); 6];
    let store = fixture::open(home);
    times[1] = Instant::now();
    assert!(store.open_intents(None).expect("reads").is_empty());
    times[2] = Instant::now();
    assert_eq!(store.append(&begin).expect("appends").seqs.len(), begin.len());
    times[3] = Instant::now();
    assert_eq!(store.append(&end).expect("appends").seqs.len(), end.len());
    times[4] = Instant::now();
    drop(store);
    times[5] = Instant::now();
    let step = |from: usize, to: usize| (times[to] - times[from]).as_micros();
    [step(0, 1), step(1, 2), step(2, 3), step(3, 4), step(4, 5), step(0, 5)]
}
