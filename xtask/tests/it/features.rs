//! Which features a build has without being asked: never the fault points.

use cargo_metadata::MetadataCommand;

/// What only `cargo xtask crash` may compile.
const FAULTS: &str = "faults";

#[test]
fn no_build_has_fault_points_unless_it_asks_for_them() {
    let metadata = MetadataCommand::new()
        .manifest_path(super::root().join("Cargo.toml"))
        .no_deps()
        .other_options(["--offline".to_owned()])
        .exec()
        .expect("cargo metadata");
    let names = |feature: &str| feature.split('/').next_back() == Some(FAULTS);
    let (mut with, mut wrong) = (Vec::new(), Vec::new());
    for package in &metadata.packages {
        for (feature, brings) in &package.features {
            if feature == FAULTS {
                with.push(package.name.as_str());
            } else if brings.iter().any(|brought| names(brought)) {
                wrong.push(format!("{}: feature {feature}", package.name));
            }
        }
        for dependency in &package.dependencies {
            if dependency.features.iter().any(|feature| names(feature)) {
                wrong.push(format!("{}: dependency {}", package.name, dependency.name));
            }
        }
    }
    assert!(with.contains(&"bailiwick-cli") && with.contains(&"bailiwick-supervisor"), "{with:?}");
    assert!(wrong.is_empty(), "these bring the fault points along:\n{}", wrong.join("\n"));
}
