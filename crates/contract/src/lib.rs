//! The words of the system: the types, errors and traits that its parts exchange.
//!
//! Nothing here does I/O, reads a clock, starts a thread or touches the environment; `no_std` lets the
//! compiler say so. The vocabulary is that of ARCHITECTURE.md; the wire shapes are those of the result package.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

pub mod artifact;
pub mod bytes;
pub mod context;
pub mod enforcement;
pub mod error;
pub mod files;
pub mod id;
pub mod input;
pub mod job;
pub mod journal;
pub mod listing;
pub mod package;
pub mod policy;
pub mod provider;
pub mod quantity;
pub mod record;
pub mod state;
pub mod store;
pub mod time;
