//! Rules about the text of the tree: headers, lints, sizes, `unsafe`, reasons.
//!
//! The checks take text and return complaints, so that each is also fed a text that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

use super::root;

/// Blocks, functions and implementations that are `unsafe` in `crates/isolation/src`. The count may fall, and then
/// this number follows; it rises only in a diff that says why.
const UNSAFE_IN_ISOLATION: usize = 50;

/// The same in `crates/isolation/examples`: the probe of the claims, which is not shipped.
const UNSAFE_IN_PROBE: usize = 35;

/// Lines of a source file; tests and tables may have more.
const LINES_MAX: usize = 1_000;

/// Files over [`LINES_MAX`] because they are a table.
const TABLES: &[&str] = &[];

/// What cargo, git and editors make, and what is not ours to word.
const NOT_OURS: &[&str] = &["target", ".git", ".venv", "node_modules", "LICENSE", "Cargo.lock"];

/// Returns the files under `folder` whose name ends with `ending`, as paths from the root.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let entry = entry.expect("the tree can be listed");
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if entry.file_type().expect("an entry has a type").is_dir() {
            found.extend(files(&path, ending));
        } else if name.ends_with(ending) {
            found.push(path.strip_prefix(root()).expect("it lies under the root").to_owned());
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    let bytes = fs::read(root().join(path)).expect("a file of the tree can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn sources() -> Vec<PathBuf> {
    [files(&root().join("crates"), ".rs"), files(&root().join("xtask"), ".rs")].concat()
}

/// Whether the file is part of a test: in a folder `tests` of a crate.
fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests")
}

/// Fails with all of `complaints`.
fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let manifests = [files(&root().join("crates"), "Cargo.toml"), vec!["xtask/Cargo.toml".into()]];
    let manifests = manifests.concat();
    assert!(manifests.len() > 5, "the tree has crates");
    let without = manifests.iter().filter(|path| !read(path).contains("[lints]\nworkspace = true"));
    none(&without.map(|path| format!("{} lacks [lints]", path.display())).collect::<Vec<_>>());
}

#[test]
fn only_isolation_may_hold_unsafe_code() {
    let roots = sources()
        .into_iter()
        .filter(|path| ["src/lib.rs", "src/main.rs"].iter().any(|root| path.ends_with(root)));
    let mut complaints = Vec::new();
    for path in roots {
        let isolation = path.starts_with("crates/isolation");
        let wanted = if isolation { "#![expect(" } else { "#![forbid(unsafe_code)]" };
        if !read(&path).contains(wanted) {
            complaints.push(format!("{} lacks `{wanted}`", path.display()));
        }
    }
    none(&complaints);
}

#[test]
fn every_source_file_begins_with_its_header() {
    let without = sources()
        .into_iter()
        .filter(|path| !is_test(path))
        .filter(|path| !read(path).lines().next().is_some_and(|line| line.starts_with("//! ")));
    none(&without.map(|path| format!("{} lacks `//!`", path.display())).collect::<Vec<_>>());
}

#[test]
fn no_header_is_a_placeholder() {
    let stubs = sources().into_iter().filter(|path| read(path).starts_with("//! Placeholder"));
    none(&stubs.map(|path| format!("{} is a stub", path.display())).collect::<Vec<_>>());
}

#[test]
fn no_source_file_is_too_long_to_read() {
    let may = |path: &Path| is_test(path) || TABLES.iter().any(|table| path == Path::new(table));
    let mut complaints = Vec::new();
    for path in sources().into_iter().filter(|path| !may(path)) {
        let lines = read(&path).lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{}: {lines} lines, {LINES_MAX} are allowed", path.display()));
        }
    }
    none(&complaints);
}

/// Counts what is `unsafe` in `text`, comments left out.
fn unsafe_count(text: &str) -> usize {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let forms = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"];
    let count = |line: String| forms.iter().map(|form| line.matches(form).count()).sum::<usize>();
    text.lines().map(|line| count(code(line))).sum()
}

/// Checks the count of `unsafe` under `folder` against `ratchet`.
fn check_ratchet(folder: &str, ratchet: usize) {
    let files = files(&root().join(folder), ".rs");
    let count: usize = files.iter().map(|path| unsafe_count(&read(path))).sum();
    let advice = if ratchet > count { "lower the ratchet" } else { "remove it, or say why" };
    assert_eq!(count, ratchet, "`unsafe` in {folder}, against the ratchet: {advice}");
}

#[test]
fn unsafe_code_in_isolation_only_becomes_less() {
    check_ratchet("crates/isolation/src", UNSAFE_IN_ISOLATION);
}

#[test]
fn unsafe_code_in_the_probe_only_becomes_less() {
    check_ratchet("crates/isolation/examples", UNSAFE_IN_PROBE);
}

#[test]
fn unsafe_is_counted_in_code_and_not_in_comments() {
    let text = "let a = unsafe { f() }; // unsafe { no }\nunsafe fn g() {}\n// unsafe impl\n";
    assert_eq!(unsafe_count(text), 2);
}

/// Returns the lines of `manifest` that add an outside crate and do not say why.
fn without_reason(manifest: &str) -> Vec<String> {
    let start = "[workspace.dependencies]";
    let lines = manifest.lines().skip_while(|line| *line != start).skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter(|line| line.contains(" = ") && !line.starts_with('#'))
        .filter(|line| !line.contains("path = ") && !line.contains(" # "))
        .map(|line| format!("no reason: {line}"))
        .collect()
}

#[test]
fn every_dependency_says_why() {
    none(&without_reason(&read(Path::new("Cargo.toml"))));
}

#[test]
fn a_dependency_without_a_reason_is_caught() {
    let manifest = "[workspace.dependencies]\nours = { path = \"x\" }\na = \"1\" # why\nb = \"1\"\n[x]\nc = 1\n";
    assert_eq!(without_reason(manifest), ["no reason: b = \"1\""]);
}

/// Returns the paths of a single machine that `text` names.
fn machine_paths(text: &str, checkout: &str) -> Vec<String> {
    // Built here, so that this file does not name them.
    let known = [format!("/{}/", "Users"), format!(".cargo/{}", "registry")];
    let mut names: Vec<&str> = known.iter().map(String::as_str).collect();
    // A checkout right under the root could be a word that a sentence needs.
    if checkout.matches('/').count() > 1 {
        names.push(checkout);
    }
    let hits = text.lines().filter(|line| names.iter().any(|name| line.contains(name)));
    hits.map(str::to_owned).collect()
}

#[test]
fn no_file_names_the_machine_it_was_written_on() {
    let checkout = root().to_string_lossy();
    let mut complaints = Vec::new();
    for path in files(root(), "") {
        let lines = machine_paths(&read(&path), &checkout);
        complaints.extend(lines.iter().map(|line| format!("{}: {line}", path.display())));
    }
    none(&complaints);
}

#[test]
fn a_machine_path_is_caught() {
    let caught = |text: &str| !machine_paths(text, "/somewhere/bailiwick").is_empty();
    assert!(caught("see /somewhere/bailiwick/crates"));
    assert!(caught(&format!("/{}/me", "Users")));
    assert!(!caught("reads /root and /home/agent"));
}
