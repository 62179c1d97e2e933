//! What is left on the host, and what the journal says.
//!
//! The journal is read from a copy of the state, when nobody uses it: the driver may be root, and a home is its owner's alone.
use crate::stage::Files;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::journal::{Change, IntentKind, Phase};
use bailiwick_contract::store::Store as _;
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::remains::group_name;
use bailiwick_store::OpenOptions;
use bailiwick_testkit::{cgroups_holding, mounts_holding, processes_holding};
use rustix::fs::{CWD, Timespec, Timestamps, UTIME_OMIT, utimensat};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long what was killed may take to be gone, mounts and groups included.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// Rows of a journal at most; a scenario writes some tens.
const ROWS_MAX: u64 = 10_000;

/// Waits until nothing of a scenario moves any more; returns what still did in the end.
pub(crate) fn quiet(marker: &str, home: &Path) -> Vec<String> {
    let deadline = Instant::now() + GONE_WITHIN;
    loop {
        let found = moving(marker, home);
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn moving(marker: &str, home: &Path) -> Vec<String> {
    let processes = working_below(home).into_iter().chain(processes_holding(marker));
    let processes = processes.map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim_end())
    });
    let mounts = mounts_holding(marker).into_iter().map(|line| format!("mount {line}"));
    processes.chain(mounts).collect()
}

/// Returns the processes whose working folder is below `home`: supervisors.
fn working_below(home: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let works = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("cwd")).is_ok_and(|place| place.starts_with(home))
    };
    let pids = entries.flatten().filter(works);
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Names what a verb should have removed: stages, drafts, sockets and control groups.
pub(crate) fn debris(home: &Path, work: &Path) -> Vec<String> {
    let job = JobId::parse("job-t").expect("an id");
    let groups = cgroups_holding(&group_name(home, &job)).into_iter();
    let mut found: Vec<String> = groups.map(|path| format!("{}", path.display())).collect();
    let mut paths = Vec::new();
    walk(home, &mut paths);
    walk(work, &mut paths);
    let is_debris = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or_default();
        ["stage.", ".bailiwick-"].iter().any(|start| name.starts_with(start))
            || [".partial", ".new", "control.sock"].iter().any(|end| name.ends_with(end))
    };
    found.extend(paths.iter().filter(is_debris).cloned());
    found
}

fn walk(folder: &Path, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        found.push(entry.path().display().to_string());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
        }
    }
}

/// Reads all regular files below a folder; `None` where there is none.
pub(crate) fn files_below(folder: &Path) -> Option<Files> {
    if !folder.is_dir() {
        return None;
    }
    let mut paths = Vec::new();
    walk(folder, &mut paths);
    let start = format!("{}/", folder.display());
    let files = paths.into_iter().filter(|path| Path::new(path).is_file());
    Some(
        files
            .map(|path| {
                let bytes = fs::read(&path).unwrap_or_default();
                (path.trim_start_matches(&start).to_owned(), bytes)
            })
            .collect(),
    )
}

/// Makes the disks and the jobs of a home older than what counts as a leftover.
pub(crate) fn make_old(home: &Path) {
    let old = Timespec { tv_sec: 1_000_000_000, tv_nsec: 0 };
    let untouched = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let times = Timestamps { last_access: untouched, last_modification: old };
    for folder in ["disks", "jobs"] {
        for entry in fs::read_dir(home.join(folder)).into_iter().flatten().flatten() {
            utimensat(CWD, entry.path(), &times, rustix::fs::AtFlags::empty())
                .expect("the driver may touch a home of its own");
        }
    }
}

/// What the journal of the workspace says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    /// What is wrong with it.
    pub(crate) broken: Option<String>,
    /// The intents that nobody has settled.
    pub(crate) open: Vec<IntentKind>,
    /// Its changes, oldest first.
    pub(crate) changes: Vec<Change>,
}

impl Journal {
    /// Reads the journal of `ws` from a copy of the state below `home`.
    pub(crate) fn read(home: &Path) -> Self {
        if !home.join("state.db").exists() {
            return Self::default();
        }
        let copy = tempfile::tempdir().expect("a folder for a copy of the state");
        fs::set_permissions(copy.path(), fs::Permissions::from_mode(0o700)).expect("it is ours");
        for name in ["state.db", "state.db-wal"] {
            if home.join(name).exists() {
                fs::copy(home.join(name), copy.path().join(name)).expect("a copy of the state");
            }
        }
        Self::of(copy.path()).unwrap_or_else(|why| Self { broken: Some(why), ..Self::default() })
    }

    fn of(home: &Path) -> Result<Self, String> {
        let text = |error: bailiwick_contract::store::StoreError| error.to_string();
        let options = OpenOptions { home: home.to_owned(), now: Timestamp::default() };
        let store = bailiwick_store::open(&options).map_err(text)?;
        store.verify("ws").map_err(text)?;
        let id = WorkspaceId::parse("ws").expect("an id");
        let rows = store.journal(&id, 0, ROWS_MAX).map_err(text)?;
        let changes: Result<Vec<Change>, _> =
            rows.iter().map(|row| serde_json::from_str(&row.body)).collect();
        let open = store.open_intents(None).map_err(text)?.into_iter().map(|intent| intent.kind);
        let changes = changes.map_err(|error| error.to_string())?;
        Ok(Self { broken: None, open: open.collect(), changes })
    }

    /// Returns how often each job was given an outcome.
    pub(crate) fn verdicts(&self) -> BTreeMap<String, usize> {
        let mut count = BTreeMap::new();
        for change in &self.changes {
            if let Change::JobEnded { job, .. } = change {
                *count.entry(job.to_string()).or_default() += 1;
            }
        }
        count
    }

    /// Returns what later verbs wrote about intents that they closed.
    pub(crate) fn reconciled(&self) -> Vec<&str> {
        let closed = self.changes.iter().filter_map(|change| match change {
            Change::IntentClosed { phase: Phase::Reconciled, detail, .. } => detail.as_deref(),
            _ => None,
        });
        closed.collect()
    }

    /// Returns whether a change was written.
    pub(crate) fn holds(&self, is: impl Fn(&Change) -> bool) -> bool {
        self.changes.iter().any(is)
    }
}
