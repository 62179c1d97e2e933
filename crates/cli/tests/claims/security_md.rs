//! SECURITY.md promises what is tested, and everything that is tested.
use crate::claim::Claim;
use crate::{
    export, files, identity, jobs, kernel, mounts, network, privileges, processes, secrets,
    transfer,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The themes: the test that tries them, and its claims.
const THEMES: &[(&str, &[Claim])] = &[
    ("files::a_job_sees_and_writes_no_file_outside_its_declared_parts", files::CLAIMS),
    ("network::a_job_reaches_no_network", network::CLAIMS),
    ("processes::a_job_reaches_no_process_but_its_own", processes::CLAIMS),
    ("jobs::a_job_leaves_nothing_running_and_sees_no_other_job", jobs::CLAIMS),
    ("privileges::a_job_has_and_gains_no_privilege", privileges::CLAIMS),
    ("mounts::a_job_changes_no_mount_and_makes_no_device", mounts::CLAIMS),
    ("kernel::a_job_opens_no_other_door_of_the_kernel", kernel::CLAIMS),
    ("export::an_export_gives_the_bytes_of_a_file_of_the_job_or_nothing", export::CLAIMS),
    ("transfer::what_goes_in_and_out_follows_no_link", transfer::CLAIMS),
    ("identity::a_culture_file_is_somebody_elses_text", identity::CLAIMS),
    ("secrets::a_forwarded_value_is_nowhere_but_in_its_job", secrets::CLAIMS),
];

/// Where the tables of claims begin and end.
const MARKS: [&str; 2] = ["\n## Claims\n", "\n## Limits\n"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/cli lies in the root")
}

fn security_md() -> String {
    fs::read_to_string(root().join("SECURITY.md")).expect("SECURITY.md is there")
}

/// Returns the part of `text` that holds the claims.
fn claims_of(text: &str) -> &str {
    let [begin, end] = MARKS.map(|mark| text.find(mark).expect("SECURITY.md has this heading"));
    &text[begin..end]
}

/// Returns what the tables of SECURITY.md have to say.
fn wanted() -> String {
    let mut wanted = String::new();
    for (test, claims) in THEMES {
        wanted.push_str(&format!("\nTest `{test}`:\n\n| claim | |\n|---|---|\n"));
        for claim in *claims {
            wanted.push_str(&format!("| `{}` | {} |\n", claim.id, claim.sentence));
        }
    }
    wanted
}

#[test]
fn security_md_states_every_claim_and_no_other() {
    let text = security_md();
    let stated: BTreeSet<&str> =
        claims_of(&text).lines().filter(|line| line.starts_with("| `")).collect();
    let wanted = wanted();
    let tested: BTreeSet<&str> = wanted.lines().filter(|line| line.starts_with("| `")).collect();
    let missing: Vec<_> = tested.difference(&stated).collect();
    let untested: Vec<_> = stated.difference(&tested).collect();
    assert!(
        missing.is_empty() && untested.is_empty(),
        "missing from SECURITY.md: {missing:#?}\nwithout a test: {untested:#?}\nwhat it has to say:\n{wanted}"
    );
}

#[test]
fn security_md_names_the_test_of_every_theme() {
    let text = security_md();
    for (test, _) in THEMES {
        assert!(claims_of(&text).contains(&format!("Test `{test}`:")), "{test} is not named");
        let (module, name) = test.split_once("::").expect("a test is in a module");
        let source =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/claims").join(format!("{module}.rs"));
        let source = fs::read_to_string(source).expect("a theme is a module");
        assert!(source.contains(&format!("#[test]\nfn {name}()")), "{test} does not exist");
    }
}

#[test]
fn no_claim_has_the_name_of_another() {
    let ids: Vec<&str> =
        THEMES.iter().flat_map(|(_, claims)| claims.iter()).map(|c| c.id).collect();
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len(), "{ids:?}");
}

#[test]
fn security_md_states_the_edge_of_forwarded_variables() {
    let text = security_md().split_whitespace().collect::<Vec<_>>().join(" ");
    for edge in ["job that prints its environment", "`/proc/PID/environ`", "recorded in clear"] {
        assert!(text.contains(edge), "{edge} is not stated");
    }
}
