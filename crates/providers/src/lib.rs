//! The back ends that hold workspaces, one module each.
//!
//! A provider keeps disks and runs jobs; records, intents and the order of verbs are the engine's. Only the composition roots
//! name a provider: everybody else takes `&dyn Provider`.
#![forbid(unsafe_code)]

pub mod fake;
pub mod native;
