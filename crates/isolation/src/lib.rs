//! The Linux mechanism: a pure [`plan`](plan::plan) of a sandbox and a tiny [`apply`](apply::apply).
//!
//! It decides nothing about workspaces, records or results, and starts no thread. Everything `unsafe` of the project is in
//! its `sys`, `payload` and `mapped` modules; the ideas come from bubblewrap, runc and the manual pages that each file names.
#![expect(unsafe_code, reason = "system calls; every other crate of the workspace forbids it")]

pub mod apply;
pub mod cgroup;
pub mod disk;
pub mod explain;
pub mod facts;
#[cfg(feature = "faults")]
pub mod faults;
pub mod interrupt;
pub mod mapped;
pub mod output;
pub mod plan;
pub mod probe;
pub mod record;
pub mod remains;
pub mod sandbox;
pub mod skeleton;
pub mod spawn;
pub mod spec;
pub mod wire;

mod init;
mod payload;
mod seccomp;
mod sys;
mod tree;
