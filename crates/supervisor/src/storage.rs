//! Watches a workspace's disk: `statfs` at every tick, a walk of the tree when that says so.
//!
//! `statfs` costs under a microsecond but counts everybody on the file system, so it only decides when to walk; a walk costs
//! milliseconds but is exact. Where a job hides a part of the tree from the walk, the file system's own count is taken
//! instead, which can only be too strict (docs/concepts.md, limits).
use bailiwick_contract::job::Reason;
use bailiwick_isolation::disk::{DiskUsage, usage};
use bailiwick_isolation::plan::WatchPlan;
use rustix::fs::statfs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A walk happens at least this often while a job runs.
const WALK_EVERY: Duration = Duration::from_secs(1);

/// A walk may take this part of the time.
const WALK_SHARE: u32 = 20;

/// Below this the host itself, and our own store, are in danger.
const FREE_BYTES_FLOOR: u64 = 32 << 20;

/// What was found to be over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Over {
    /// Bytes, inodes, or the host's file system.
    pub(crate) reason: Reason,
    /// By how many bytes; 0 but for bytes.
    pub(crate) overshoot_bytes: u64,
    /// What the host's file system has left, in bytes.
    pub(crate) left: u64,
}

/// What a file system has left.
#[derive(Debug, Clone, Copy, Default)]
struct Free {
    bytes: u64,
    inodes: u64,
}

/// Watches one disk.
#[derive(Debug)]
pub(crate) struct StorageWatch {
    disk: PathBuf,
    bytes_max: u64,
    inodes_max: u64,
    at_start: Free,
    at_walk: Free,
    last: DiskUsage,
    next_walk: Instant,
}

impl StorageWatch {
    /// Begins to watch; the first tick walks.
    pub(crate) fn new(disk: PathBuf, plan: &WatchPlan) -> Self {
        let free = free(&disk).unwrap_or_default();
        Self {
            disk,
            bytes_max: plan.storage_bytes,
            inodes_max: plan.inodes,
            at_start: free,
            at_walk: free,
            last: DiskUsage::default(),
            next_walk: Instant::now(),
        }
    }

    /// Looks, and says whether the disk is over.
    pub(crate) fn tick(&mut self) -> Option<Over> {
        // A disk that cannot be asked, since the home was moved, says nothing.
        let now = free(&self.disk)?;
        self.look(now)
    }

    fn look(&mut self, now: Free) -> Option<Over> {
        let written = self.at_start.bytes.saturating_sub(now.bytes);
        if now.bytes < FREE_BYTES_FLOOR && written > 0 {
            // A job over its own limit is told so, whatever that did to the host.
            let host = Over { reason: Reason::HostDiskFull, overshoot_bytes: 0, left: now.bytes };
            return self.walk(now).or(Some(host));
        }
        let bytes_left = self.bytes_max.saturating_sub(self.last.bytes);
        let inodes_left = self.inodes_max.saturating_sub(self.last.inodes);
        let fell = self.at_walk.bytes.saturating_sub(now.bytes) >= bytes_left
            || self.at_walk.inodes.saturating_sub(now.inodes) >= inodes_left;
        if !fell && Instant::now() < self.next_walk {
            return None;
        }
        self.walk(now)
    }

    fn walk(&mut self, now: Free) -> Option<Over> {
        let began = Instant::now();
        self.last = self.measure();
        let ended = Instant::now();
        self.next_walk = ended + WALK_EVERY.max((ended - began) * WALK_SHARE);
        self.at_walk = now;
        self.over()
    }

    /// Measures the disk now.
    pub(crate) fn measure(&self) -> DiskUsage {
        let measured = usage(&self.disk).unwrap_or(DiskUsage { partial: true, ..self.last });
        if !measured.partial {
            return measured;
        }
        let now = free(&self.disk).unwrap_or(self.at_start);
        let bytes = self.at_start.bytes.saturating_sub(now.bytes);
        let inodes = self.at_start.inodes.saturating_sub(now.inodes);
        DiskUsage {
            bytes: measured.bytes.max(bytes),
            inodes: measured.inodes.max(inodes),
            partial: true,
        }
    }

    fn over(&self) -> Option<Over> {
        let left = self.at_walk.bytes;
        if self.last.bytes > self.bytes_max {
            let overshoot_bytes = self.last.bytes - self.bytes_max;
            return Some(Over { reason: Reason::Storage, overshoot_bytes, left });
        }
        (self.last.inodes > self.inodes_max).then_some(Over {
            reason: Reason::Inodes,
            overshoot_bytes: 0,
            left,
        })
    }
}

fn free(disk: &PathBuf) -> Option<Free> {
    let stat = statfs(disk).ok()?;
    let bytes = stat.f_bavail * u64::try_from(stat.f_bsize).unwrap_or(0);
    Some(Free { bytes, inodes: stat.f_ffree })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(dir: &std::path::Path, bytes: u64, inodes: u64) -> StorageWatch {
        let plan = WatchPlan {
            wall_clock_ms: 1,
            output_bytes: 1,
            memory_bytes: None,
            pids: None,
            storage_bytes: bytes,
            inodes,
        };
        StorageWatch::new(dir.to_owned(), &plan)
    }

    #[test]
    fn a_disk_over_its_bytes_is_found_with_the_overshoot() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("f"), vec![1; 1 << 20]).expect("a file");
        let over = watch(dir.path(), 512 << 10, 100).tick().expect("over");
        assert_eq!((over.reason, over.overshoot_bytes), (Reason::Storage, 512 << 10));
    }

    #[test]
    fn a_host_that_is_nearly_full_is_told_from_a_disk_over_its_limit() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("f"), vec![1; 1 << 20]).expect("a file");
        let nearly_full = Free { bytes: FREE_BYTES_FLOOR - 1, inodes: 1 << 20 };
        let mut within = watch(dir.path(), 2 << 20, 100);
        within.at_start.bytes = FREE_BYTES_FLOOR + (1 << 20);
        let over = within.look(nearly_full).expect("over");
        assert_eq!((over.reason, over.left), (Reason::HostDiskFull, FREE_BYTES_FLOOR - 1));
        let mut beyond = watch(dir.path(), 512 << 10, 100);
        beyond.at_start.bytes = FREE_BYTES_FLOOR + (1 << 20);
        assert_eq!(beyond.look(nearly_full).expect("over").reason, Reason::Storage);
    }

    #[test]
    fn a_disk_over_its_inodes_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        for index in 0..11 {
            std::fs::write(dir.path().join(index.to_string()), "").expect("a file");
        }
        let over = watch(dir.path(), 1 << 20, 10).tick().expect("over");
        assert_eq!(over.reason, Reason::Inodes);
        assert_eq!(watch(dir.path(), 1 << 20, 11).tick(), None);
    }
}
