//! The engine over a store in memory and a provider that does what a test scripts.
//!
//! The fakes keep the contract's promises (all-or-nothing, conflicts, holds that end with their owner), so that what
//! holds here holds over the real ones; the tests of `bailiwick-providers` prove that of the native one.
mod about;
mod checks;
mod cost;
mod detach;
mod ending;
mod exec;
mod files;
mod lifecycle;
mod provider;
mod prune;
mod reconcile;
mod refusals;
mod store;
mod world;
