//! What tests need and nothing ships: an environment of their own, users, fakes of time and randomness.
//!
//! A test gets a home, a working folder and an environment that nobody else sees, and runs the built command as root or
//! as an ordinary user. Nothing here knows a verb; suites do.
#![forbid(unsafe_code)]

mod clock;
pub mod conformance;
mod entropy;
mod env;
mod host;
mod output;
mod programs;
mod user;

pub use clock::FakeClock;
pub use entropy::SeqEntropy;
pub use env::{Running, TestEnv};
pub use host::{cgroups_holding, files_holding, mounts_holding, processes_holding, until};
pub use output::Output;
pub use user::User;
