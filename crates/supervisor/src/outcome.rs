//! What a supervisor leaves on disk for whoever asks later.
//!
//! The file is written beside its place and renamed, without a sync: it survives the death of every process, and after a power
//! cut the job is unknown anyway, since its intent is all that was made durable (DESIGN §5, Supervisor and init).
use bailiwick_isolation::record::OutcomeFile;
use std::io;

/// Writes `outcome` in the working directory, which is the job's.
///
/// # Errors
/// The disk is full; no half file is ever found at `outcome`.
pub(crate) fn record(file: &OutcomeFile) -> io::Result<()> {
    std::fs::write("outcome.new", serde_json::to_vec(file)?)?;
    std::fs::rename("outcome.new", "outcome")
}
