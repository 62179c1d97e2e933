//! What a supervisor leaves in a job's directory, and a provider reads there.
//!
//! The shape is private to one version of the program; both are in this workspace.
use bailiwick_contract::job::JobOutcome;
use serde::{Deserialize, Serialize};

/// The content of `jobs/<id>/outcome`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeFile {
    /// The gate was never opened: nothing of the job ran.
    NeverStarted {
        /// Why.
        detail: String,
    },
    /// The job ended.
    Ended {
        /// What came of it.
        outcome: Box<JobOutcome>,
        /// The budget of its output, which says how `output` is laid out.
        output_budget: u64,
    },
}
