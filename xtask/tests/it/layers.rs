//! Who may depend on whom: one table, which is the architecture.
//!
//! A new edge is a change of this table, in a diff that a reviewer sees. Dev-dependencies are free.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What one crate may use.
struct Layer {
    name: &'static str,
    /// Crates of the workspace.
    inside: &'static [&'static str],
    /// Outside crates out of [`GUARDED`].
    outside: &'static [&'static str],
}

/// Each crate, lowest level first.
const LAYERS: &[Layer] = &[
    Layer { name: "bailiwick-contract", inside: &[], outside: &["schemars"] },
    Layer {
        name: "bailiwick-isolation",
        inside: &["bailiwick-contract"],
        outside: &["libc", "rustix", "postcard"],
    },
    Layer {
        name: "bailiwick-store",
        inside: &["bailiwick-contract"],
        outside: &["rustix", "rusqlite"],
    },
    Layer {
        name: "bailiwick-supervisor",
        inside: &["bailiwick-contract", "bailiwick-isolation"],
        outside: &["rustix"],
    },
    Layer {
        name: "bailiwick-providers",
        inside: &["bailiwick-contract", "bailiwick-isolation"],
        outside: &["rustix"],
    },
    Layer { name: "bailiwick-engine", inside: &["bailiwick-contract"], outside: &["rustix"] },
    Layer {
        name: "bailiwick-cli",
        inside: &[
            "bailiwick-contract",
            "bailiwick-isolation",
            "bailiwick-store",
            "bailiwick-providers",
            "bailiwick-engine",
        ],
        outside: &["rustix", "clap", "indicatif", "getrandom"],
    },
    Layer {
        name: "bailiwick-testkit",
        inside: &[
            "bailiwick-contract",
            "bailiwick-isolation",
            "bailiwick-store",
            "bailiwick-providers",
            "bailiwick-engine",
        ],
        outside: &["rustix", "tempfile"],
    },
    Layer {
        name: "xtask",
        inside: &["bailiwick-contract"],
        outside: &["anyhow", "cargo_metadata", "schemars"],
    },
];

/// Outside crates that a row has to name before its crate may use them.
const GUARDED: &[&str] = &[
    // System calls: below `isolation` and, where they are safe, beside it.
    "libc",
    "nix",
    "rustix",
    "landlock",
    "seccompiler",
    // Concurrency and the network: not in what decides.
    "tokio",
    "reqwest",
    "axum",
    // One owner each.
    "rusqlite",
    "postcard",
    "clap",
    "indicatif",
    "getrandom",
    "schemars",
    "cargo_metadata",
    // For tests and recipes.
    "anyhow",
    "tempfile",
];

/// A crate of the workspace and what it depends on, dev-dependencies left out.
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// Whether it is a crate of the workspace.
    inside: bool,
}

/// Returns what `LAYERS` does not allow, and the rows that no package has.
fn wrong(packages: &[Package]) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in packages {
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
            wrong.push(format!("{} has no row in LAYERS", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let allowed = if dependency.inside {
                layer.inside.contains(&name)
            } else {
                !GUARDED.contains(&name) || layer.outside.contains(&name)
            };
            if !allowed {
                wrong.push(format!("{} -> {name}", package.name));
            }
        }
    }
    let names: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let orphans = LAYERS.iter().filter(|layer| !names.contains(layer.name));
    wrong.extend(orphans.map(|layer| format!("{} has a row and no crate", layer.name)));
    wrong
}

/// Returns the packages of this workspace.
fn packages() -> Vec<Package> {
    let metadata = MetadataCommand::new()
        .manifest_path(super::root().join("Cargo.toml"))
        .no_deps()
        .exec()
        .expect("cargo reads the workspace");
    metadata.packages.into_iter().map(package).collect()
}

fn package(package: cargo_metadata::Package) -> Package {
    let shipped =
        package.dependencies.into_iter().filter(|d| d.kind != DependencyKind::Development);
    let dependencies = shipped.map(|d| Dependency { inside: d.path.is_some(), name: d.name });
    Package { name: package.name.to_string(), dependencies: dependencies.collect() }
}

#[test]
fn dependencies_point_down() {
    let wrong = wrong(&packages());
    assert!(wrong.is_empty(), "edges that LAYERS does not allow:\n{}", wrong.join("\n"));
}

/// Checks that adding `edge` to `name` in the true workspace is reported as `expected`.
fn check(name: &str, edge: Dependency, expected: &str) {
    let mut packages = packages();
    match packages.iter_mut().find(|package| package.name == name) {
        Some(package) => package.dependencies.push(edge),
        None => packages.push(Package { name: name.into(), dependencies: vec![edge] }),
    }
    assert_eq!(wrong(&packages), [expected]);
}

fn inside(name: &str) -> Dependency {
    Dependency { name: name.into(), inside: true }
}

fn outside(name: &str) -> Dependency {
    Dependency { name: name.into(), inside: false }
}

#[test]
fn an_edge_that_points_up_is_caught() {
    let expected = "bailiwick-contract -> bailiwick-store";
    check("bailiwick-contract", inside("bailiwick-store"), expected);
    let expected = "bailiwick-engine -> bailiwick-providers";
    check("bailiwick-engine", inside("bailiwick-providers"), expected);
}

#[test]
fn a_test_kit_that_is_shipped_is_caught() {
    let expected = "bailiwick-cli -> bailiwick-testkit";
    check("bailiwick-cli", inside("bailiwick-testkit"), expected);
}

#[test]
fn a_guarded_crate_outside_its_row_is_caught() {
    check("bailiwick-engine", outside("libc"), "bailiwick-engine -> libc");
    check("bailiwick-contract", outside("rustix"), "bailiwick-contract -> rustix");
}

#[test]
fn a_crate_without_a_row_is_caught() {
    check("bailiwick-new", outside("serde"), "bailiwick-new has no row in LAYERS");
}

#[test]
fn a_row_without_a_crate_is_caught() {
    let mut packages = packages();
    packages.retain(|package| package.name != "bailiwick-store");
    assert_eq!(wrong(&packages), ["bailiwick-store has a row and no crate"]);
}
