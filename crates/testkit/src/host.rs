//! What a test looks for on the host: processes, mounts, files, and the passing of time.
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Calls `look` every few milliseconds until it finds something, and fails after `within`.
#[track_caller]
pub fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "after {within:?} still not: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes whose command line or environment holds `marker`, this one left out.
#[must_use]
pub fn processes_holding(marker: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32, file: &str| {
        fs::read(format!("/proc/{pid}/{file}"))
            .is_ok_and(|bytes| contains(&bytes, marker.as_bytes()))
    };
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| holds(pid, "cmdline") || holds(pid, "environ"))
        .collect()
}

/// Returns the mounts, in the mount namespace of any process, whose line holds `marker`.
#[must_use]
pub fn mounts_holding(marker: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let tables =
        entries.flatten().filter_map(|entry| fs::read(entry.path().join("mountinfo")).ok());
    let mut found: Vec<String> = tables
        .flat_map(|table| {
            let text = String::from_utf8_lossy(&table).into_owned();
            text.lines().filter(|line| line.contains(marker)).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// Returns the control groups of the host whose name holds `marker`.
#[must_use]
pub fn cgroups_holding(marker: &str) -> Vec<PathBuf> {
    folders_named(Path::new("/sys/fs/cgroup"), marker)
}

fn folders_named(folder: &Path, marker: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().contains(marker) {
            found.push(entry.path());
        }
        found.extend(folders_named(&entry.path(), marker));
    }
    found
}

/// Returns the files under `folder` whose bytes or name hold `needle`.
#[must_use]
pub fn files_holding(folder: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if contains(entry.file_name().as_encoded_bytes(), needle) {
            found.push(path.clone());
        }
        if kind.is_dir() {
            found.extend(files_holding(&path, needle));
        } else if kind.is_file() && fs::read(&path).is_ok_and(|bytes| contains(&bytes, needle)) {
            found.push(path);
        }
    }
    found
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|part| part == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_planted_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("a")).expect("a folder");
        fs::write(folder.path().join("a/b"), b"..planted..").expect("a file");
        assert_eq!(files_holding(folder.path(), b"planted"), [folder.path().join("a/b")]);
        assert!(files_holding(folder.path(), b"hunter2").is_empty());
    }
}
