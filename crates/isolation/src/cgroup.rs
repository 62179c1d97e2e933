//! Control groups of one job: made, filled in, read and removed.
//!
//! Version 1 is root's only, version 2 anybody's who was given a subtree; where there is neither, other mechanisms hold the
//! limits. Files are named as in cgroups(7), Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst; the root of the
//! hierarchies is a parameter, so that a recorded tree can stand in for them.
use crate::facts::CgroupFacts;
use crate::plan::GroupPlan;
use bailiwick_contract::bytes::ByteString;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The quota period, in microseconds: the kernel's default (sched-bwc.rst).
const PERIOD_US: u64 = 100_000;

/// One directory of a job's groups, with what is written into it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Directory {
    path: String,
    controller: Controller,
    /// (file, value, whether a kernel may lack the file)
    settings: Vec<(&'static str, String, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Controller {
    Memory,
    Pids,
    Cpu,
    Unified,
}

/// The groups of one job.
#[derive(Debug)]
pub struct Groups {
    directories: Vec<Directory>,
    entries: &'static str,
}

/// What the kernel counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Peak memory, in bytes.
    pub memory_bytes_max: Option<u64>,
    /// How many processes were killed for want of memory.
    pub oom_kills: u64,
    /// How often a process could not be made.
    pub pids_refused: u64,
    /// Processor time, in microseconds; version 2 only.
    pub cpu_us: Option<u64>,
}

impl Groups {
    /// Decides which directories a job gets and what is written into them; makes nothing.
    #[must_use]
    pub fn plan(plan: &GroupPlan, name: &str) -> Self {
        match &plan.facts {
            CgroupFacts::Absent => Self { directories: Vec::new(), entries: "tasks" },
            CgroupFacts::V1 { memory, pids, cpu } => {
                let directories = [
                    (memory, Controller::Memory, plan.memory_bytes.map(memory_v1)),
                    (pids, Controller::Pids, plan.pids.map(pids_max)),
                    (cpu, Controller::Cpu, plan.cpu_milli.map(cpu_v1)),
                ];
                let directories = directories
                    .into_iter()
                    .filter_map(|(parent, controller, settings)| {
                        let path = child(parent.as_ref()?, name);
                        Some(Directory { path, controller, settings: settings? })
                    })
                    .collect();
                // `cgroup.procs` takes a global lock: 6.6 ms against 36 us (measured, Linux 6.18).
                Self { directories, entries: "tasks" }
            }
            CgroupFacts::V2 { parent, .. } => {
                let path = child(parent, name);
                let mut settings = plan.memory_bytes.map(memory_v2).unwrap_or_default();
                settings.extend(plan.pids.map(pids_max).unwrap_or_default());
                settings.extend(plan.cpu_milli.map(cpu_v2).unwrap_or_default());
                let unified = Directory { path, controller: Controller::Unified, settings };
                Self { directories: vec![unified], entries: "cgroup.procs" }
            }
        }
    }

    /// Makes the groups and returns the files through which init enters them.
    ///
    /// # Errors
    /// Which file of which group; the groups made so far are gone.
    pub fn create(&self) -> io::Result<Vec<OwnedFd>> {
        let opened: io::Result<Vec<OwnedFd>> =
            self.directories.iter().map(|dir| dir.create(self.entries)).collect();
        if opened.is_err() {
            self.remove();
        }
        opened
    }

    /// Reads what the kernel counted; a file that is not there counts nothing.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let mut counted = Counted::default();
        for directory in &self.directories {
            directory.count(&mut counted);
        }
        counted
    }

    /// Returns the peak of memory so far, or what is used now where the kernel keeps no peak.
    #[must_use]
    pub fn memory_bytes_max(&self) -> Option<u64> {
        self.counted().memory_bytes_max
    }

    /// Removes the groups; one that still holds a process stays, and is found again by its name.
    pub fn remove(&self) {
        for directory in &self.directories {
            remove(Path::new(&directory.path));
        }
    }
}

/// Directories of a hierarchy that are looked at in search of one name; a host has some hundreds.
const SEARCHED_MAX: usize = 20_000;

/// Finds the groups whose names are wanted, wherever they are in the hierarchies that `facts` name.
///
/// A caller makes its groups below its own, and the next one may be in another: only the name is the same.
pub(crate) fn find(facts: &CgroupFacts, is_wanted: &dyn Fn(&OsStr) -> bool) -> Vec<PathBuf> {
    let parents: Vec<&ByteString> = match facts {
        CgroupFacts::Absent => Vec::new(),
        CgroupFacts::V1 { memory, pids, cpu } => {
            [memory, pids, cpu].into_iter().flatten().collect()
        }
        CgroupFacts::V2 { parent, .. } => vec![parent],
    };
    parents.into_iter().flat_map(|parent| search(&top(parent), is_wanted)).collect()
}

/// Returns where the hierarchy that `path` lies in is mounted: the highest directory of the same device.
fn top(path: &ByteString) -> PathBuf {
    let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
    let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
    // A group that is gone has no device; its parent has.
    let known = path.ancestors().find_map(device);
    let inside = path.ancestors().skip_while(|one| device(one).is_none());
    inside
        .take_while(|one| device(one) == known)
        .last()
        .map_or_else(|| path.clone(), Path::to_owned)
}

fn search(top: &Path, is_wanted: &dyn Fn(&OsStr) -> bool) -> Vec<PathBuf> {
    let (mut found, mut left, mut searched) = (Vec::new(), vec![top.to_owned()], 0);
    while let Some(dir) = left.pop() {
        searched += 1;
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        let dirs =
            entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        for entry in dirs {
            if is_wanted(&entry.file_name()) {
                found.push(entry.path());
            } else if searched < SEARCHED_MAX {
                left.push(entry.path());
            }
        }
    }
    found
}

/// Removes a group; returns whether it is gone.
pub(crate) fn remove(group: &Path) -> bool {
    matches!(unlinkat(CWD, group, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT))
}

fn child(parent: &ByteString, name: &str) -> String {
    format!("{}/{name}", parent.to_text())
}

type Settings = Vec<(&'static str, String, bool)>;

fn memory_v1(bytes: u64) -> Settings {
    vec![
        ("memory.limit_in_bytes", bytes.to_string(), false),
        // Only with swap accounting; a job that may swap has no memory limit.
        ("memory.memsw.limit_in_bytes", bytes.to_string(), true),
        ("memory.swappiness", "0".into(), true),
    ]
}

fn memory_v2(bytes: u64) -> Settings {
    vec![
        ("memory.max", bytes.to_string(), false),
        ("memory.swap.max", "0".into(), true),
        ("memory.oom.group", "1".into(), true),
    ]
}

fn pids_max(count: u64) -> Settings {
    vec![("pids.max", count.to_string(), false)]
}

fn cpu_v1(milli: u64) -> Settings {
    vec![
        ("cpu.cfs_period_us", PERIOD_US.to_string(), false),
        ("cpu.cfs_quota_us", quota_us(milli).to_string(), false),
    ]
}

fn cpu_v2(milli: u64) -> Settings {
    vec![("cpu.max", format!("{} {PERIOD_US}", quota_us(milli)), false)]
}

const fn quota_us(milli: u64) -> u64 {
    milli.saturating_mul(PERIOD_US / 1_000)
}

impl Directory {
    fn create(&self, entries: &str) -> io::Result<OwnedFd> {
        mkdirat(CWD, self.path.as_str(), Mode::from_raw_mode(0o755))
            .map_err(|error| named(error, "make", &self.path))?;
        for (file, value, optional) in &self.settings {
            match self.write(file, value) {
                Err(Errno::NOENT) if *optional => {}
                Err(error) => return Err(named(error, "write", &format!("{}/{file}", self.path))),
                Ok(()) => {}
            }
        }
        let path = format!("{}/{entries}", self.path);
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        openat(CWD, path.as_str(), flags, Mode::empty())
            .map_err(|error| named(error, "open", &path))
    }

    fn write(&self, file: &str, value: &str) -> rustix::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(CWD, format!("{}/{file}", self.path), flags, Mode::empty())?;
        rustix::io::write(&file, value.as_bytes()).map(drop)
    }

    fn read(&self, file: &str) -> String {
        // A file that cannot be read counts nothing: the package then says `wait4` or `watch`.
        std::fs::read_to_string(format!("{}/{file}", self.path)).unwrap_or_default()
    }

    fn count(&self, counted: &mut Counted) {
        match self.controller {
            Controller::Memory => {
                counted.memory_bytes_max = number(&self.read("memory.max_usage_in_bytes"));
                counted.oom_kills = keyed(&self.read("memory.oom_control"), "oom_kill");
            }
            Controller::Pids => counted.pids_refused = keyed(&self.read("pids.events"), "max"),
            Controller::Cpu => {}
            Controller::Unified => {
                counted.memory_bytes_max = number(&self.read("memory.peak"));
                counted.oom_kills = keyed(&self.read("memory.events"), "oom_kill");
                counted.pids_refused = keyed(&self.read("pids.events"), "max");
                let used = keyed(&self.read("cpu.stat"), "usage_usec");
                counted.cpu_us = (used > 0).then_some(used);
            }
        }
    }
}

fn named(error: Errno, verb: &str, path: &str) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("could not {verb} {path}: {error}"))
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Finds the number after `key` in a file of `key value` lines; 0 where there is none.
fn keyed(text: &str, key: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(name, _)| *name == key)
        .and_then(|(_, value)| number(value))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn limits(facts: CgroupFacts) -> GroupPlan {
        GroupPlan { facts, memory_bytes: Some(64 << 20), pids: Some(17), cpu_milli: Some(1_500) }
    }

    /// A directory that stands in for cgroupfs: what the kernel would make is made by the test.
    fn recorded(files: &[&str]) -> (tempfile::TempDir, ByteString) {
        let root = tempfile::tempdir().expect("a directory");
        let group = root.path().join("bailiwick-job-1");
        fs::create_dir(&group).expect("the group");
        for file in files {
            fs::write(group.join(file), "").expect("a file");
        }
        let path = root.path().to_str().expect("UTF-8").into();
        (root, path)
    }

    #[test]
    fn version_2_writes_every_limit_into_one_group() {
        let files = ["memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max"];
        let (root, parent) = recorded(&files);
        let facts = CgroupFacts::V2 { parent, controllers: Vec::new() };
        let groups = Groups::plan(&limits(facts), "bailiwick-job-1");
        let directory = &groups.directories[0];
        for (file, value, _) in &directory.settings {
            directory.write(file, value).expect("written");
        }
        let read = |file: &str| {
            fs::read_to_string(root.path().join("bailiwick-job-1").join(file)).expect("a file")
        };
        let written: Vec<String> = files.iter().map(|file| read(file)).collect();
        assert_eq!(written, ["67108864", "0", "1", "17", "150000 100000"]);
    }

    #[test]
    fn version_2_reads_what_the_kernel_counted() {
        let (root, parent) = recorded(&[]);
        let group = root.path().join("bailiwick-job-1");
        let files = [
            ("memory.peak", "123456\n"),
            ("memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\noom_group_kill 1\n"),
            ("pids.events", "max 3\n"),
            ("cpu.stat", "usage_usec 9876\nuser_usec 1\n"),
        ];
        for (file, text) in files {
            fs::write(group.join(file), text).expect("a file");
        }
        let facts = CgroupFacts::V2 { parent, controllers: Vec::new() };
        assert_eq!(
            Groups::plan(&limits(facts), "bailiwick-job-1").counted(),
            Counted {
                memory_bytes_max: Some(123_456),
                oom_kills: 1,
                pids_refused: 3,
                cpu_us: Some(9_876),
            }
        );
    }

    #[test]
    fn version_1_makes_one_group_for_each_hierarchy() {
        let dir = |name: &str| Some(ByteString::from(format!("/sys/fs/cgroup/{name}")));
        let facts = CgroupFacts::V1 { memory: dir("memory"), pids: dir("pids"), cpu: dir("cpu") };
        let groups = Groups::plan(&limits(facts), "bailiwick-job-1");
        let paths: Vec<&str> = groups.directories.iter().map(|dir| dir.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "/sys/fs/cgroup/memory/bailiwick-job-1",
                "/sys/fs/cgroup/pids/bailiwick-job-1",
                "/sys/fs/cgroup/cpu/bailiwick-job-1"
            ]
        );
        assert_eq!(groups.entries, "tasks");
    }

    #[test]
    fn groups_are_found_by_name_below_whichever_parent() {
        let root = tempfile::tempdir().expect("a directory");
        let (here, there) = (root.path().join("a/b"), root.path().join("c/bailiwick-job-1"));
        fs::create_dir_all(&here).expect("a parent");
        fs::create_dir_all(&there).expect("a group");
        let found = search(root.path(), &|name| name == "bailiwick-job-1");
        assert_eq!(found, std::slice::from_ref(&there));
        assert!(remove(&there) && remove(&there) && !there.exists());
    }

    #[test]
    fn a_group_that_cannot_be_filled_in_names_its_file() {
        let (root, parent) = recorded(&[]);
        fs::remove_dir(root.path().join("bailiwick-job-1")).expect("removed");
        let facts = CgroupFacts::V2 { parent, controllers: Vec::new() };
        let groups = Groups::plan(&limits(facts), "bailiwick-job-1");
        let error = groups.create().expect_err("no such file");
        assert!(error.to_string().contains("memory.max"), "{error}");
    }
}
