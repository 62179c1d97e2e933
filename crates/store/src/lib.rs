//! The one durable state: SQLite in WAL mode, one append-only log, and the records that it amounts to.
//!
//! Only this crate holds SQL and only SQLite opens `state.db`; it decides no verb, runs nothing and reads no clock.
//! The write path (persistent WAL, flock around each transaction) was measured; its figures are in `examples/cost.rs`.
//!
//! A [`SqliteStore`] is shared between threads and never crosses a fork: a child opens its own. Its descriptors are
//! closed on exec.
#![forbid(unsafe_code)]

mod artifact;
mod column;
mod fault;
mod home;
mod input;
mod intent;
mod job;
mod lock;
mod log;
mod prune;
mod reserve;
mod schema;
mod store;
mod workspace;

pub use home::Home;
pub use log::LogRow;
pub use schema::SCHEMA;
pub use store::{OpenOptions, SqliteStore, open};
