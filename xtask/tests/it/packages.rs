//! How many outside packages the shipped binaries compile.
//!
//! Cargo.lock is the wrong thing to count: a fifth of it are packages of other systems that are never built here.

use std::collections::BTreeSet;
use std::process::Command;

/// The most that a build for Linux may compile; a number in a test, so that it rises in a diff that is seen.
const PACKAGES_MAX: usize = 420;

/// Returns the distinct packages in the output of `cargo tree --prefix none`, without those of the workspace.
fn external(tree: &str) -> BTreeSet<(&str, &str)> {
    let lines = tree.lines().filter(|line| !line.contains("(/"));
    lines
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?))
        })
        .collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "asks cargo, which no product code does")]
fn the_shipped_binaries_compile_few_packages() {
    let output = Command::new("cargo")
        .current_dir(super::root())
        .args(["tree", "--offline", "--no-dedupe", "--prefix", "none", "-e", "normal,build"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .args(["-p", "bailiwick-cli", "-p", "bailiwick-supervisor"])
        .output()
        .expect("cargo starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {words}");
    let tree = String::from_utf8_lossy(&output.stdout);
    let packages = external(&tree);
    assert!(packages.len() > 10, "cargo tree names no packages:\n{tree}");
    let count = packages.len();
    assert!(count <= PACKAGES_MAX, "{count} packages are compiled, {PACKAGES_MAX} are the limit");
}

#[test]
fn a_package_counts_once_and_two_versions_of_it_twice() {
    let tree = "bailiwick-cli v0.1.0 (/src/crates/cli)\n\
                serde v1.0.0\n\
                serde_derive v1.0.0 (proc-macro)\n\
                serde v1.0.0\n\
                syn v2.0.0\n\
                syn v3.0.0\n";
    assert_eq!(external(tree).len(), 4);
}
