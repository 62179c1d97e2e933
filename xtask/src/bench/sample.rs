//! Takes the samples: starts each side by turns and measures it until it is reaped.
//!
//! `Command` without a hook, a working directory or ids is a `posix_spawn` of this small process, which is the
//! cheapest start that a library caller can have, so the parent adds as little as possible to either side.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::rows::Row;
use super::scene;
use super::stats::Samples;
use crate::failure::Failure;
use crate::host;

/// Runs of each side before the first that counts.
const WARM_UP_RUNS: usize = 20;

/// Runs in which memory is sampled; they are not timed, since sampling costs time.
const MEMORY_RUNS: usize = 3;

/// Time between two looks at the memory; VmHWM never falls, so only growth in the last one is missed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The name of the supervisor's process, cut to what the kernel keeps (proc_pid_comm(5): 15 bytes).
const SUPERVISOR: &str = "bailiwick-super";

/// Measures `row` with the `bailiwick` that lies in `programs`.
///
/// # Errors
/// When a command does not start or does not exit with 0.
pub(crate) fn take(row: &Row, runs: usize, programs: &Path) -> Result<Samples, Failure> {
    let bailiwick = programs.join("bailiwick");
    if let Some(around) = &row.scene {
        return scene::take(row, around, runs, &bailiwick);
    }
    let mut ours = host::command(&bailiwick);
    ours.args(row.ours);
    let mut theirs = host::command(row.theirs[0]);
    theirs.args(&row.theirs[1..]);

    // The first run of each keeps its words, so that a bench that cannot work says why.
    host::output(&mut ours)?;
    host::output(&mut theirs)?;
    let sides = [silent(&mut ours), silent(&mut theirs)];
    let mut times = [Vec::new(), Vec::new()];
    let warm_up = WARM_UP_RUNS.div_ceil(row.weight);
    for run in 0..warm_up + runs.div_ceil(row.weight) {
        for turn in 0..sides.len() {
            let side = (run + turn) % sides.len();
            let time = timed(sides[side])?;
            if run >= warm_up {
                times[side].push(time);
            }
        }
    }
    let [ours, theirs] = times;
    Ok(Samples { ours, theirs, supervisor_kib: memory(row, &bailiwick)? })
}

/// Gives a command nothing to read and nothing to print to.
pub(super) fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// Runs a command and measures it until it is reaped.
pub(super) fn timed(command: &mut Command) -> Result<Duration, Failure> {
    let start = Instant::now();
    let status = command.status();
    let time = start.elapsed();
    let status = status.map_err(Failure::at(format!("{command:?}")))?;
    if status.success() { Ok(time) } else { Err(Failure::new(format!("{command:?}: {status}"))) }
}

/// Returns the largest VmHWM of a supervisor, in KiB, or nothing for a row that does not sample it.
fn memory(row: &Row, bailiwick: &Path) -> Result<Option<u64>, Failure> {
    if row.memory.is_empty() {
        return Ok(None);
    }
    let mut peak_kib = None;
    for _ in 0..MEMORY_RUNS {
        let mut command = host::command(bailiwick);
        peak_kib = peak_kib.max(watched(silent(command.args(row.memory)))?);
    }
    Ok(peak_kib)
}

/// Runs `command` and looks at the supervisors that were not there before.
fn watched(command: &mut Command) -> Result<Option<u64>, Failure> {
    let others: BTreeSet<String> = supervisors().collect();
    let mut child = command.spawn().map_err(Failure::at(format!("{command:?}")))?;
    let mut peak_kib = None;
    loop {
        for pid in supervisors().filter(|pid| !others.contains(pid)) {
            peak_kib = peak_kib.max(high_water_kib(&pid));
        }
        match child.try_wait().map_err(Failure::at("waitpid"))? {
            Some(status) if status.success() => return Ok(peak_kib),
            Some(status) => return Err(Failure::new(format!("{command:?}: {status}"))),
            None => std::thread::sleep(LOOK_EVERY),
        }
    }
}

/// Returns the pids of all processes that carry the supervisor's name: it, and its init.
fn supervisors() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|pid| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.trim_end() == SUPERVISOR)
    })
}

fn high_water_kib(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
