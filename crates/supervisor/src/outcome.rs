//! What a supervisor leaves on disk for whoever asks later.
//!
//! The caller makes room for it in `outcome.new` before the job is let go; it is written there and renamed, without a sync:
//! it survives the death of every process, and after a power cut the job is unknown anyway, since its intent is all that was
//! made durable. A sync would cost 0.5 ms of every job.
use bailiwick_isolation::record::OutcomeFile;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::time::Duration;

/// How often, and how long between, a record is tried again: whoever filled the disk may be making room.
const TRIES: u32 = 5;
const BETWEEN: Duration = Duration::from_millis(200);

/// Writes `outcome` in the working directory, which is the job's; no half file is ever found there.
///
/// A record that cannot be written in spite of a second's patience is left out: a living caller is told all the same, and
/// without one the next verb finds the job lost. Returns whether it was written.
pub(crate) fn record(file: &OutcomeFile) -> bool {
    #[cfg(feature = "faults")]
    bailiwick_isolation::faults::before("supervisor:outcome");
    for _ in 0..TRIES {
        if write(file).is_ok() {
            #[cfg(feature = "faults")]
            bailiwick_isolation::faults::after("supervisor:outcome");
            return true;
        }
        std::thread::sleep(BETWEEN);
    }
    false
}

fn write(file: &OutcomeFile) -> io::Result<()> {
    let bytes = serde_json::to_vec(file)?;
    // Not truncated before it is written: that would give the room away to whoever fills the disk.
    let mut draft =
        OpenOptions::new().write(true).create(true).truncate(false).open("outcome.new")?;
    draft.write_all(&bytes)?;
    draft.set_len(bytes.len() as u64)?;
    drop(draft);
    #[cfg(feature = "faults")]
    bailiwick_isolation::faults::before("supervisor:outcome.rename");
    std::fs::rename("outcome.new", "outcome")?;
    #[cfg(feature = "faults")]
    bailiwick_isolation::faults::after("supervisor:outcome.rename");
    Ok(())
}
