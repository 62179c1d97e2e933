//! The parts of `cargo xtask bench`: rows, persons, samples, statistics, verdicts, report.
//!
//! The numbers are ratios: both sides are measured in one run on one machine, interleaved and in rotating order, as
//! root and as an ordinary user. None of this is a test; a timed test fails on a busy machine and teaches nothing.

pub(crate) mod machine;
pub(crate) mod person;
pub(crate) mod report;
pub(crate) mod rows;
pub(crate) mod sample;
mod scene;
pub(crate) mod stage;
pub(crate) mod stats;
