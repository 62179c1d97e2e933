//! The facts of the machine that belong beside a number, and whether it is quiet.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::host;

/// Below this share of idle time other work raises p50 by 5-25 % and p95 by several times.
pub(crate) const IDLE_PERCENT_MIN: f64 = 96.0;

/// How often the machine is looked at: the build before a bench leaves it busy for some seconds.
const LOOKS_MAX: usize = 10;

/// Waits until the machine is idle, or no longer; returns the share of the last second that was idle.
///
/// # Errors
/// When `/proc/stat` cannot be read.
pub(crate) fn settled_idle_percent() -> Result<f64, Failure> {
    let mut last = idle_percent()?;
    for _ in 1..LOOKS_MAX {
        if last >= IDLE_PERCENT_MIN {
            break;
        }
        last = idle_percent()?;
    }
    Ok(last)
}

/// Returns the share of the next second, over all cores, in which nothing runs.
fn idle_percent() -> Result<f64, Failure> {
    let before = stat()?;
    std::thread::sleep(Duration::from_secs(1));
    let after = stat()?;
    Ok(share(before, after))
}

/// The idle and all ticks since boot (proc_stat(5)).
fn stat() -> Result<(f64, f64), Failure> {
    let text = std::fs::read_to_string("/proc/stat").map_err(Failure::at("/proc/stat"))?;
    ticks(&text).ok_or_else(|| Failure::new("/proc/stat has no line `cpu`"))
}

fn ticks(text: &str) -> Option<(f64, f64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let columns: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    // Guest time is the ninth column and is already part of user time.
    Some((*columns.get(3)?, columns.iter().take(8).sum()))
}

fn share(before: (f64, f64), after: (f64, f64)) -> f64 {
    let all = after.1 - before.1;
    if all > 0.0 { 100.0 * (after.0 - before.0) / all } else { 0.0 }
}

/// Returns what describes this machine and this build; `folder` is where the benched state lies.
pub(crate) fn facts(folder: &Path, idle_percent: f64) -> Value {
    json!({
        "kernel": first_line("/proc/sys/kernel/osrelease"),
        "cpu": field("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": field("/proc/meminfo", "MemTotal"),
        "filesystem": said(host::command("stat").args(["-f", "-c", "%T"]).arg(folder)),
        "rustc": said(host::command("rustc").arg("--version")),
        "bubblewrap": said(host::command("bwrap").arg("--version")),
        "date": said(host::command("date").args(["-u", "+%Y-%m-%d"])),
        "commit": commit(),
        "idle_percent": (idle_percent * 10.0).round() / 10.0,
    })
}

/// The short commit, marked when the tree holds more than it.
fn commit() -> String {
    let git = || {
        let mut git = host::command("git");
        git.current_dir(host::root());
        git
    };
    let Ok(commit) = host::output(git().args(["rev-parse", "--short", "HEAD"])) else {
        return "uncommitted".into();
    };
    // Results themselves are written before they are committed, so they do not count.
    let changed = ["status", "--porcelain", "--", ".", ":!benches/results"];
    let clean = host::output(git().args(changed)).is_ok_and(|changes| changes.is_empty());
    if clean { commit } else { format!("{commit}-dirty") }
}

fn said(command: &mut std::process::Command) -> String {
    host::output(command).unwrap_or_else(|_| "unknown".into())
}

fn first_line(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn field(path: &str, key: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let value =
        text.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(':'));
    value.map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{share, ticks};

    #[test]
    fn idle_is_the_fourth_column_of_all_but_guest_time() {
        let before = ticks("cpu  10 0 10 80 0 0 0 0 5 0\ncpu0 1 1 1 1\n").unwrap();
        let after = ticks("cpu  20 0 20 160 0 0 0 0 50 0\n").unwrap();
        assert_eq!(before, (80.0, 100.0));
        assert!((share(before, after) - 80.0).abs() < 1e-9);
    }

    #[test]
    fn no_time_passed_counts_as_busy() {
        assert!(share((1.0, 2.0), (1.0, 2.0)) < 1e-9);
    }
}
