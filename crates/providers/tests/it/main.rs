//! The native provider for real: every test starts sandboxes on this host, as root and as an ordinary user.

mod callers;
mod cwd;
mod detached;
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
