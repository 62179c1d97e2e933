//! Lists the captured output that is kept, and removes it once nobody wants it any more.
//!
//! Which is wanted is the engine's to decide. A job in flight is told by the lock of its directory, which its supervisor has until
//! its outcome is recorded, and its caller until that is on record.
use super::home::Home;
use super::{hold, trouble};
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::JobId;
use bailiwick_contract::provider::{KeptOutput, ProviderError};
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::disk;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// How often, and how long between, the lock is tried that others have only to look: for them it is a matter of microseconds.
const LOCKS_MAX: u32 = 1_000;
const BETWEEN_LOCKS: Duration = Duration::from_millis(1);

/// Lists the jobs whose output is kept, those in flight too, by their ids.
pub(super) fn kept(home: &Home, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
    each_job(home, cx, &|job| {
        let dir = home.job(&job);
        Ok(look(job, &dir))
    })
}

/// Looks at every job that has a directory; a look that finds nothing leaves it out.
pub(crate) fn each_job(
    home: &Home,
    cx: &OpCx<'_>,
    look: &dyn Fn(JobId) -> Result<Option<KeptOutput>, ProviderError>,
) -> Result<Vec<KeptOutput>, ProviderError> {
    let folder = home.jobs();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(trouble::on("list", &folder))?,
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        if let Some(job) = entry.file_name().to_str().and_then(|name| JobId::parse(name).ok()) {
            found.extend(look(job)?);
        }
    }
    found.sort_by(|one, other| one.job.cmp(&other.job));
    Ok(found)
}

/// `None` where nothing was printed, or it is gone meanwhile.
fn look(job: JobId, dir: &Path) -> Option<KeptOutput> {
    let output = fs::symlink_metadata(dir.join("output")).ok().filter(fs::Metadata::is_file)?;
    let index = fs::symlink_metadata(dir.join("output.idx")).map_or(0, |meta| meta.blocks());
    let seconds = u64::try_from(output.mtime()).unwrap_or(0);
    let nanos = u64::try_from(output.mtime_nsec()).unwrap_or(0);
    Some(KeptOutput {
        job,
        // stat(2): blocks of 512 bytes, whatever the file system's own are.
        bytes: (output.blocks() + index) * 512,
        changed_at: Timestamp::from_micros(seconds * 1_000_000 + nanos / 1_000),
    })
}

/// Removes the directory of a job that has ended, its outcome too: who asks has that on record.
pub(super) fn discard(dir: &Path, cx: &OpCx<'_>) -> Result<(), ProviderError> {
    let locked = lock_ended(dir, cx).map_err(trouble::on("lock the job's directory", dir))?;
    let Some(_lock) = locked else { return Ok(()) };
    // First: without the outcome beside it, nobody could tell any more how it is laid out.
    let removed = match fs::remove_file(dir.join("output")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => disk::remove(dir),
    };
    removed.map_err(trouble::on("remove the captured output in", dir))
}

/// Locks the directory of a job that has ended; `None` where it is in flight, or gone.
fn lock_ended(dir: &Path, cx: &OpCx<'_>) -> io::Result<Option<OwnedFd>> {
    for _ in 0..LOCKS_MAX {
        match hold::lock_job(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(None) if hold::is_kept(dir)? => return Ok(None),
            Ok(None) => cx.clock.sleep(BETWEEN_LOCKS),
            other => return other,
        }
    }
    Err(io::ErrorKind::WouldBlock.into())
}
