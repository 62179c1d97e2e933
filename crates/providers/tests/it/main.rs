//! The providers for real: the native one starts sandboxes on this host, as root and as an ordinary user; the fake one needs none.

mod callers;
mod cwd;
mod detached;
mod explained;
mod fake;
mod files;
mod following;
mod holds;
mod host_paths;
mod leftovers;
mod ordinary;
mod orphans;
mod output;
mod payload;
mod stdin;
mod stopping;
mod watched;
mod world;
