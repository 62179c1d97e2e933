//! What holds of every plan, whatever is asked and wherever: random specs and hosts.
use crate::hosts::{of_a_user, of_root, planned, shown, spec, with_version_2};
use bailiwick_contract::policy::Access;
use bailiwick_isolation::facts::{HostFacts, RootEntry};
use bailiwick_isolation::plan::{LandlockAccess, Plan, PlanError, Step};
use bailiwick_isolation::spec::HostPathFacts;
use proptest::prelude::*;
use std::collections::HashSet;

const DEVICES: [&str; 6] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
const OURS: [&str; 5] = ["/proc", "/sys", "/dev", "/etc", "/workspace"];

fn hosts() -> impl Strategy<Value = HostFacts> {
    let base = prop_oneof![Just(of_a_user()), Just(of_root()), Just(with_version_2())];
    let merged = any::<bool>();
    (base, merged, 0_u32..8, 1_u32..5).prop_map(|(mut host, merged, abi, cpus)| {
        host.landlock_abi = abi;
        host.cpus = (0..cpus).collect();
        if !merged {
            let dirs = ["usr", "bin", "lib", "nix"];
            host.root_entries = dirs.map(|name| RootEntry::Dir(name.into())).to_vec();
        }
        host
    })
}

/// Paths of every kind, most of which are refused.
fn odd_paths() -> impl Strategy<Value = HostPathFacts> {
    let part = prop::sample::select(vec![
        "usr",
        "srv",
        "a",
        "b",
        "tmp",
        "home",
        "proc",
        "sys",
        "dev",
        "etc",
        "workspace",
        "devices",
        "..",
        "n\0l",
    ]);
    let path = prop::collection::vec(part, 0..4).prop_map(|parts| format!("/{}", parts.join("/")));
    facts(prop_oneof![20 => path, 1 => Just("srv/a".to_owned())])
}

/// Paths that meet each other and the toolchain often.
fn paths() -> impl Strategy<Value = Vec<HostPathFacts>> {
    let top = prop::sample::select(vec!["usr", "usr", "srv", "tmp", "nix", "devices"]);
    let below = prop::collection::vec(prop::sample::select(vec!["a", "a", "b", "home"]), 0..4);
    let path = (top, below).prop_map(|(top, below)| {
        below.iter().fold(format!("/{top}"), |path, part| format!("{path}/{part}"))
    });
    prop::collection::vec(facts(path), 0..6)
}

fn facts(path: impl Strategy<Value = String>) -> impl Strategy<Value = HostPathFacts> {
    let owner = prop::sample::select(vec![0_u32, 1_001, 1_002]);
    (path, any::<bool>(), any::<bool>(), owner.clone(), owner, any::<bool>()).prop_map(
        |(path, writable, is_dir, owner_uid, owner_gid, toolchain)| HostPathFacts {
            is_dir,
            owner_uid,
            owner_gid,
            toolchain,
            ..shown(path, if writable { Access::ReadWrite } else { Access::ReadOnly })
        },
    )
}

fn text(path: &HostPathFacts) -> String {
    path.path.to_text().into_owned()
}

fn is_below(path: &str, parent: &str) -> bool {
    path == parent || path.starts_with(&format!("{}/", parent.trim_end_matches('/')))
}

/// Says the rules again, in other words than the plan does.
fn may_be_shown(path: &HostPathFacts, host: &HostFacts) -> bool {
    let text = text(path);
    let resolved = text.starts_with('/') && !text.contains("..") && !text.contains('\0');
    let ours = OURS.iter().any(|own| is_below(&text, own));
    let owned_by_root = path.owner_uid == 0 || path.owner_gid == 0;
    let dangerous = host.by_root && path.access == Access::ReadWrite && owned_by_root;
    let whole = ["/", "/tmp", "/tmp/home"].contains(&text.as_str());
    resolved && !ours && !dangerous && !whole
}

/// Returns which source is seen at `path` in the end: the last one attached at or above it.
fn seen_at<'a>(plan: &'a Plan, path: &str) -> Option<(&'a str, bool)> {
    let attached = plan.steps.iter().rev().find_map(|step| match step {
        Step::Attach { source, path: at } => {
            is_below(path, &format!("/{}", at.to_text())).then_some(*source)
        }
        _ => None,
    })?;
    let source = &plan.sources[attached];
    Some((std::str::from_utf8(source.path.as_bytes()).expect("text"), source.read_only))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_may_not_be_shown_is_refused_and_nothing_else(host in hosts(), path in odd_paths()) {
        let expected = may_be_shown(&path, &host);
        let plan = planned(&host, &spec(&host, vec![path]));
        prop_assert_eq!(plan.is_ok(), expected, "{:?}", plan);
        if let Err(error) = plan {
            let is_about_it = matches!(error, PlanError::HostPath { .. });
            prop_assert!(is_about_it);
            prop_assert!(!error.to_string().contains('\0'));
        }
    }

    #[test]
    fn only_what_was_declared_is_writable(
        host in hosts(),
        paths in paths(),
    ) {
        let paths: Vec<_> = paths.into_iter().filter(|path| may_be_shown(path, &host)).collect();
        let spec = spec(&host, paths.clone());
        let plan = planned(&host, &spec).expect("all may be shown");
        let declared = |text: &str| {
            paths.iter().any(|one| one.access == Access::ReadWrite && self::text(one) == text)
        };
        for source in &plan.sources {
            let text = source.path.to_text();
            let expected = source.path == spec.disk || declared(&text);
            prop_assert!(source.read_only || expected, "{source}");
            prop_assert!(source.to_string().contains(",nosuid"), "{source}");
            let device = DEVICES.contains(&&*text);
            prop_assert_eq!(source.device, device);
            prop_assert_eq!(source.to_string().contains(",nodev)"), !device);
            // Only root can map an owner, and only what a job writes to needs it.
            prop_assert!(source.owner.is_none() || (host.by_root && !source.read_only));
        }
        for rule in &plan.landlock {
            let text = rule.path.to_text();
            let writable = rule.access != LandlockAccess::Read;
            let ours = ["/workspace", "/tmp", "/dev/shm", "/dev", "/proc"].contains(&&*text);
            prop_assert!(!writable || ours || declared(&text), "{rule:?}");
        }
        prop_assert_eq!(plan.landlock.is_empty(), host.landlock_abi < 2);
    }

    #[test]
    fn every_declared_path_is_seen_as_it_was_declared(
        host in hosts(),
        paths in paths(),
    ) {
        // Which of two declarations of one path counts is the caller's to refuse.
        let mut known = HashSet::new();
        let paths: Vec<_> = paths
            .into_iter()
            .filter(|path| may_be_shown(path, &host) && known.insert(path.path.clone()))
            .collect();
        let plan = planned(&host, &spec(&host, paths.clone())).expect("all may be shown");
        for path in &paths {
            let text = text(path);
            let (source, read_only) = seen_at(&plan, &text).expect("something is attached there");
            prop_assert!(is_below(&text, source), "{text} is seen from {source}");
            prop_assert_eq!(read_only, path.access == Access::ReadOnly, "{}", text);
        }
        for own in OURS {
            let (source, _) = seen_at(&plan, own).unwrap_or(("", true));
            prop_assert!(!paths.iter().any(|path| self::text(path) == source), "{own}: {source}");
        }
    }

    #[test]
    fn the_steps_end_with_the_pivot_and_use_every_source_once(
        host in hosts(),
        paths in paths(),
    ) {
        let paths: Vec<_> = paths.into_iter().filter(|path| may_be_shown(path, &host)).collect();
        let plan = planned(&host, &spec(&host, paths)).expect("all may be shown");
        prop_assert_eq!(plan.steps.last(), Some(&Step::PivotRoot));
        prop_assert_eq!(plan.steps.iter().filter(|step| **step == Step::PivotRoot).count(), 1);
        let mut used: Vec<usize> = plan.steps.iter().filter_map(|step| match step {
            Step::Attach { source, .. } | Step::RootFrom(source) => Some(*source),
            _ => None,
        }).collect();
        used.sort_unstable();
        prop_assert_eq!(used, (0..plan.sources.len()).collect::<Vec<_>>());
        // What is built by hand is sealed before it becomes the root.
        let by_hand = plan.steps.contains(&Step::RootTmpfs);
        let sealed = plan.steps.iter().rev().nth(1) == Some(&Step::SealRoot);
        prop_assert_eq!(by_hand, sealed);
    }

    #[test]
    fn a_plan_survives_its_frame(
        host in hosts(),
        paths in paths(),
        argv in prop::collection::vec(prop::collection::vec(1_u8.., 0..20), 1..4),
    ) {
        let paths: Vec<_> = paths.into_iter().filter(|path| may_be_shown(path, &host)).collect();
        let mut spec = spec(&host, paths);
        spec.argv = argv.into_iter().map(Into::into).collect();
        let plan = planned(&host, &spec).expect("all may be shown");
        let bytes = postcard::to_allocvec(&plan).expect("serializes");
        prop_assert_eq!(postcard::from_bytes::<Plan>(&bytes).expect("parses"), plan);
    }
}
