//! The rules of the workspace that neither the compiler nor clippy can hold.
//!
//! Each failure says what to do. The rules' reasons are in CONTRIBUTING.md.

mod features;
mod layers;
mod packages;
mod tidy;

use std::path::Path;

/// Returns the folder that holds the workspace's Cargo.toml.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace")
}
