//! `schemas`: writes `schemas/*.json` from the wire types of the contract.
//!
//! The types are the source; a schema is never edited. A file in `schemas/` that no row makes is stale.

use std::collections::BTreeMap;
use std::path::Path;

use bailiwick_contract::error::FailureWire;
use bailiwick_contract::files::FileListing;
use bailiwick_contract::package::ResultPackage;
use schemars::{Schema, schema_for};

use crate::failure::Failure;
use crate::host;
use crate::options::Options;

/// A file of `schemas/` and the function that makes what it holds.
type Row = (&'static str, fn() -> Schema);

/// Each file of `schemas/`.
const SCHEMAS: &[Row] = &[
    ("package.json", || schema_for!(ResultPackage)),
    ("files.json", || schema_for!(FileListing)),
    ("error.json", || schema_for!(FailureWire<'static>)),
];

/// Writes the schemas, or compares them with `--check`.
pub(super) fn run(words: &[String]) -> Result<(), Failure> {
    let mut options = Options::new(words);
    let check = options.switch("--check");
    options.finish()?;
    let folder = host::root().join("schemas");
    let wanted = wanted();
    let found = found(&folder)?;
    if !check {
        return write(&folder, &wanted, &found);
    }
    let stale = stale(&wanted, &found);
    if stale.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("stale: {}; run `cargo xtask schemas`", stale.join(", "))))
}

/// Returns the files as they should be.
fn wanted() -> BTreeMap<String, String> {
    let text = |schema: Schema| format!("{:#}\n", schema.to_value());
    SCHEMAS.iter().map(|(name, schema)| ((*name).to_owned(), text(schema()))).collect()
}

/// Returns the JSON files that are in `folder`; git keeps no empty folder, so there may be none.
fn found(folder: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let mut files = BTreeMap::new();
    if !folder.exists() {
        return Ok(files);
    }
    for entry in std::fs::read_dir(folder).map_err(Failure::at(folder.display()))? {
        let path = entry.map_err(Failure::at(folder.display()))?.path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if name.ends_with(".json") {
            let text = std::fs::read_to_string(&path).map_err(Failure::at(path.display()))?;
            files.insert(name, text);
        }
    }
    Ok(files)
}

/// Returns the names that differ, are missing or have no row.
fn stale(wanted: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let differs = wanted.iter().filter(|(name, text)| found.get(*name) != Some(text));
    let orphans = found.iter().filter(|(name, _)| !wanted.contains_key(*name));
    differs.chain(orphans).map(|(name, _)| name.clone()).collect()
}

fn write(
    folder: &Path,
    wanted: &BTreeMap<String, String>,
    found: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(Failure::at(folder.display()))?;
    for name in stale(wanted, found) {
        let path = folder.join(&name);
        match wanted.get(&name) {
            Some(text) => std::fs::write(&path, text),
            None => std::fs::remove_file(&path),
        }
        .map_err(Failure::at(path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::stale;

    #[test]
    fn a_changed_a_missing_and_an_orphaned_file_are_stale() {
        let files = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let wanted = files(&[("same", "1"), ("changed", "1"), ("missing", "1")]);
        let found = files(&[("same", "1"), ("changed", "2"), ("orphan", "1")]);
        assert_eq!(stale(&wanted, &found), ["changed", "missing", "orphan"]);
    }
}
