//! Rows that need something around each run: a tree that both sides copy, and a fresh place for each copy.
//!
//! What is around a run is not timed; both sides are measured from their start to their end, by turns.

use std::path::Path;
use std::time::Duration;

use super::rows::Row;
use super::sample::{silent, timed};
use super::stats::Samples;
use crate::failure::Failure;
use crate::host;

/// Runs of each side before the first that counts: the first ones read the tree from the disk.
const WARM_UP_RUNS: usize = 3;

/// The folder that both sides copy.
const TREE: &str = "tree";

/// Stands for the number of the run in the words of our side, since no id is used twice.
const RUN: &str = "{run}";

/// What a row needs around each run.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Files of the folder `tree`, fifty to a directory.
    pub(crate) files: usize,
    /// Bytes of each, which no file system can compress.
    pub(crate) file_bytes: usize,
    /// The words behind `bailiwick` before each run of our side.
    pub(crate) before: &'static [&'static str],
    /// The same behind it.
    pub(crate) after: &'static [&'static str],
    /// The folder that the peer fills; made before each of its runs, and removed.
    pub(crate) other: &'static str,
}

/// Measures `row` in the current folder.
///
/// # Errors
/// When a command does not start or does not exit with 0, or the tree cannot be made.
pub(crate) fn take(
    row: &Row,
    scene: &Scene,
    runs: usize,
    bailiwick: &Path,
) -> Result<Samples, Failure> {
    make_tree(scene)?;
    let mut samples = Samples::default();
    for run in 0..WARM_UP_RUNS + runs.div_ceil(row.weight) {
        let mut times = [Duration::ZERO; 2];
        for turn in 0..2 {
            let side = (run + turn) % 2;
            times[side] =
                if side == 0 { ours(row, scene, run, bailiwick)? } else { theirs(row, scene)? };
        }
        if run >= WARM_UP_RUNS {
            samples.ours.push(times[0]);
            samples.theirs.push(times[1]);
        }
    }
    Ok(samples)
}

fn ours(row: &Row, scene: &Scene, run: usize, bailiwick: &Path) -> Result<Duration, Failure> {
    let command = |words: &[&str]| {
        let mut command = host::command(bailiwick);
        command.args(words.iter().map(|word| word.replace(RUN, &run.to_string())));
        command
    };
    host::output(&mut command(scene.before))?;
    let time = timed(silent(&mut command(row.ours)))?;
    host::output(&mut command(scene.after))?;
    Ok(time)
}

fn theirs(row: &Row, scene: &Scene) -> Result<Duration, Failure> {
    std::fs::create_dir(scene.other).map_err(Failure::at(scene.other))?;
    let time = timed(silent(host::command(row.theirs[0]).args(&row.theirs[1..])))?;
    std::fs::remove_dir_all(scene.other).map_err(Failure::at(scene.other))?;
    Ok(time)
}

fn make_tree(scene: &Scene) -> Result<(), Failure> {
    // A linear congruential generator: no contents that repeat, and the same ones each time.
    let mut state = 1_u64;
    for index in 0..scene.files {
        let folder = format!("{TREE}/{:03}", index / 50);
        std::fs::create_dir_all(&folder).map_err(Failure::at(&folder))?;
        let mut bytes = Vec::with_capacity(scene.file_bytes + 8);
        while bytes.len() < scene.file_bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.extend_from_slice(&state.to_be_bytes());
        }
        let path = format!("{folder}/{index:04}");
        std::fs::write(&path, &bytes[..scene.file_bytes]).map_err(Failure::at(&path))?;
    }
    Ok(())
}
