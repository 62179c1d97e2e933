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
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Lists the jobs whose output is kept, those in flight too, by their ids.
pub(super) fn kept(home: &Home, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
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
        let job = entry.file_name().to_str().and_then(|name| JobId::parse(name).ok());
        found.extend(job.and_then(|job| look(job, &entry.path())));
    }
    found.sort_by(|one, other| one.job.as_str().cmp(other.job.as_str()));
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
pub(super) fn discard(dir: &Path) -> Result<(), ProviderError> {
    let lock = match hold::lock_job(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(trouble::on("lock the job's directory", dir))?,
    };
    if lock.is_none() {
        return Ok(());
    }
    bailiwick_isolation::disk::remove(dir)
        .map_err(trouble::on("remove the captured output in", dir))
}
