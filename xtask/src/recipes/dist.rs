//! `dist`: builds the binaries that are shipped.
//!
//! The flags are given to the final crate only, by `cargo rustc`: as `RUSTFLAGS` or in `.cargo/config.toml` they
//! would reach proc-macros, which cannot be static. The command is static without PIE, because a big image pays for
//! its relocations at each start; the supervisor guards the boundary and keeps PIE.

use std::path::PathBuf;

use crate::failure::Failure;
use crate::host;
use crate::options::Options;

/// Links libc in.
const STATIC: &[&str] = &["-C", "target-feature=+crt-static"];
/// Links libc in, at fixed addresses.
const STATIC_FIXED: &[&str] =
    &["-C", "target-feature=+crt-static", "-C", "relocation-model=static"];

/// One binary of the distribution.
struct Binary {
    package: &'static str,
    /// The flag of cargo that selects the kind of target: `--bin` or `--example`.
    kind: &'static str,
    name: &'static str,
    flags: &'static [&'static str],
}

/// What is shipped.
const SHIPPED: &[Binary] = &[
    Binary { package: "bailiwick-cli", kind: "--bin", name: "bailiwick", flags: STATIC_FIXED },
    Binary {
        package: "bailiwick-supervisor",
        kind: "--bin",
        name: "bailiwick-supervisor",
        flags: STATIC,
    },
];

/// The program that the claims tests run inside and outside a sandbox; never shipped.
const PROBE: Binary =
    Binary { package: "bailiwick-isolation", kind: "--example", name: "probe", flags: STATIC };

/// Builds and prints one path a line.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(words);
    let probe = options.switch("--probe");
    options.finish()?;
    for path in build()? {
        println!("{}", path.display());
    }
    if probe {
        println!("{}", build_one(&PROBE)?.display());
    }
    Ok(())
}

/// Builds what is shipped and returns the paths: the command first, then the supervisor.
///
/// # Errors
/// What cargo met; it has printed why.
pub(super) fn build() -> Result<Vec<PathBuf>, Failure> {
    SHIPPED.iter().map(build_one).collect()
}

fn build_one(binary: &Binary) -> Result<PathBuf, Failure> {
    let mut cargo = host::command("cargo");
    if let Some(commit) = commit() {
        cargo.env("BAILIWICK_COMMIT", commit);
    }
    cargo
        .current_dir(host::root())
        .args(["rustc", "--profile", "dist", "--package", binary.package])
        .args([binary.kind, binary.name, "--"])
        .args(binary.flags);
    host::run(&mut cargo)?;
    let folder = host::target_directory()?.join("dist");
    let folder = if binary.kind == "--example" { folder.join("examples") } else { folder };
    Ok(folder.join(binary.name))
}

/// Returns the commit that is built; a tree without git has none.
fn commit() -> Option<String> {
    let mut git = host::command("git");
    git.current_dir(host::root()).args(["rev-parse", "--short=12", "HEAD"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
