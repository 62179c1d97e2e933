//! Samples the memory of a sandbox where no control group holds it.
//!
//! It counts anonymous memory and swap of every process, and the larger of what its tmpfs, memfds and System V segments hold and
//! what a process has mapped of shared memory; page cache of files is not counted. Sources: proc(5) `status` and
//! `sysvipc/shm`, memfd_create(2), statfs(2).
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstatfs, openat, readlinkat, statat};
use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors that one sample looks at; a job with more is watched less exactly.
const DESCRIPTORS_MAX: usize = 4_096;

/// What a sandbox holds at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sample {
    /// Bytes of memory.
    pub(crate) bytes: u64,
    /// Processes and threads, init included.
    pub(crate) tasks: u64,
}

/// Looks into one sandbox.
#[derive(Debug)]
pub(crate) struct MemoryWatch {
    segments: OwnedFd,
    proc: OwnedFd,
    tmpfs: Vec<OwnedFd>,
}

impl MemoryWatch {
    /// Takes the sandbox's list of segments, its `/proc` and its tmpfs, as init sends them; `None` where they are missing.
    pub(crate) fn new(descriptors: Vec<OwnedFd>) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        let (segments, proc) = (descriptors.next()?, descriptors.next()?);
        // A new mount's descriptor is a mere place (open(2), O_PATH): it cannot be listed.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(&proc, ".", flags, Mode::empty()).ok()?;
        Some(Self { segments, proc, tmpfs: descriptors.collect() })
    }

    /// Takes one sample; what ends meanwhile is left out.
    pub(crate) fn sample(&self) -> Sample {
        let mut sample = Sample::default();
        let mut mapped = 0;
        let mut memfds = Memfds::default();
        for pid in self.pids() {
            let Some(status) = self.status(&pid) else { continue };
            sample.bytes += field(&status, "RssAnon:") + field(&status, "VmSwap:");
            sample.tasks += count(&status, "Threads:");
            mapped = mapped.max(field(&status, "RssShmem:"));
            memfds.add(self.proc.as_fd(), &pid);
        }
        let tmpfs: u64 = self.tmpfs.iter().map(used).sum();
        let held = memfds.bytes + tmpfs + segments(&read_all(&self.segments));
        sample.bytes += held.max(mapped);
        sample
    }

    fn pids(&self) -> Vec<String> {
        let Ok(dir) = Dir::read_from(&self.proc) else { return Vec::new() };
        dir.flatten()
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
            .collect()
    }

    fn status(&self, pid: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&self.proc, format!("{pid}/status"), flags, Mode::empty()).ok()?;
        let mut text = vec![0; 4_096];
        let length = rustix::io::read(&file, &mut text).ok()?;
        text.truncate(length);
        String::from_utf8(text).ok()
    }
}

/// Memory files that only a descriptor holds; one that several processes hold is counted once.
#[derive(Default)]
struct Memfds {
    seen: HashSet<u64>,
    looked: usize,
    bytes: u64,
}

impl Memfds {
    fn add(&mut self, proc: BorrowedFd<'_>, pid: &str) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(dir) = openat(proc, format!("{pid}/fd"), flags, Mode::empty()) else { return };
        let Ok(entries) = Dir::read_from(&dir) else { return };
        for entry in entries.flatten() {
            self.looked += 1;
            if self.looked > DESCRIPTORS_MAX {
                return;
            }
            self.add_one(dir.as_fd(), entry.file_name());
        }
    }

    fn add_one(&mut self, dir: BorrowedFd<'_>, name: &CStr) {
        let Ok(target) = readlinkat(dir, name, Vec::new()) else { return };
        if !target.as_bytes().starts_with(b"/memfd:") {
            return;
        }
        let Ok(meta) = statat(dir, name, AtFlags::empty()) else { return };
        if self.seen.insert(meta.st_ino) {
            self.bytes += u64::try_from(meta.st_blocks).unwrap_or(0) * 512;
        }
    }
}

/// Reads a file of `/proc` from its beginning; what cannot be read counts nothing.
fn read_all(file: &OwnedFd) -> String {
    let mut bytes = vec![0; 64 << 10];
    let length = rustix::io::pread(file, bytes.as_mut_slice(), 0).unwrap_or(0);
    bytes.truncate(length);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Adds up the resident and swapped bytes of System V segments: columns 15 and 16 of `sysvipc/shm`.
fn segments(list: &str) -> u64 {
    let numbers = |line: &str| -> u64 {
        line.split_whitespace().skip(14).filter_map(|word| word.parse::<u64>().ok()).sum()
    };
    list.lines().skip(1).map(numbers).sum()
}

fn used(tmpfs: &OwnedFd) -> u64 {
    let Ok(stat) = fstatfs(tmpfs) else { return 0 };
    let blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
    blocks * u64::try_from(stat.f_bsize).unwrap_or(0)
}

/// Returns a field of `status` that is in KiB, as bytes; 0 where it is missing.
fn field(status: &str, name: &str) -> u64 {
    count(status, name) * 1_024
}

fn count(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::CWD;

    #[test]
    fn a_process_is_counted_with_what_only_a_descriptor_holds() {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let place = openat(CWD, "/proc", flags, Mode::empty()).expect("proc");
        let segments = std::fs::File::open("/proc/sysvipc/shm").expect("segments");
        let watch = MemoryWatch::new(vec![segments.into(), place]);
        let watch = watch.expect("a watch");
        let before = watch.sample();
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("held", flags).expect("memfd");
        rustix::io::write(&file, &vec![1; 64 << 20]).expect("written");
        let after = watch.sample();
        assert!(after.tasks > 0);
        // The whole machine is sampled here, so only a lower bound is sure.
        assert!(after.bytes + (32 << 20) > before.bytes + (64 << 20), "{before:?} {after:?}");
    }

    #[test]
    fn segments_that_nobody_maps_are_counted() {
        let list = "key shmid perms size cpid lpid nattch uid gid cuid cgid atime dtime ctime rss swap\n\
                    0 0 600 1000000 2 2 0 0 0 0 0 0 0 9 4096 8192\n";
        assert_eq!(segments(list), 12_288);
    }

    #[test]
    fn fields_are_read_in_kib() {
        let status = "Name:\tx\nRssAnon:\t     12 kB\nThreads:\t3\n";
        assert_eq!((field(status, "RssAnon:"), count(status, "Threads:")), (12_288, 3));
        assert_eq!(field(status, "VmSwap:"), 0);
    }
}
