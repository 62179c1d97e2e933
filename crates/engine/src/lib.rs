//! The lifecycle verbs over any provider and any store.
//!
//! A verb journals its intent, acts and settles, each in one batch, and answers with a bounded result package. The
//! crate names no provider, opens no database, prints nothing and reads neither the clock nor the environment.
#![forbid(unsafe_code)]

pub mod about;
mod archive;
mod checks;
pub mod create;
pub mod declare;
pub mod destroy;
pub mod engine;
pub mod env;
pub mod exec;
mod expire;
pub mod export;
mod failure;
pub mod files;
mod flight;
pub mod follow;
pub mod grep;
mod hold;
mod ignore;
mod inputs;
pub mod inspect;
mod job;
mod journal;
mod ledger;
pub mod list;
pub mod logs;
mod pack;
pub mod prune;
mod publish;
pub mod put;
mod reconcile;
pub mod render;
pub mod requests;
pub mod run;
pub mod seal;
pub mod stop;
pub mod text;
mod tree;
pub mod wait;

pub use engine::Engine;
