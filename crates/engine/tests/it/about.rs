//! What an owner says of a workspace, where it is shown, and a `create` that makes nothing.
use crate::world::{World, job, ws};
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::package::EvidenceKind;
use bailiwick_engine::render::{self, Sections};
use bailiwick_engine::requests::{
    AboutRequest, Bound, CreateRequest, DryRun, ListRequest, PolicyRequest,
};
use core::time::Duration;

fn about() -> AboutRequest {
    AboutRequest {
        purpose: Some("nightly\n## Status".into()),
        owner: Some("ci".into()),
        parent: Some("task-7".into()),
        labels: vec![("branch".into(), "main".into()), ("tier".into(), "2".into())],
        ttl: Some(Duration::from_secs(3_600)),
        retain: false,
    }
}

#[test]
fn what_an_owner_says_is_recorded_and_shown() {
    let world = World::new();
    let created = world.create_about("demo", about()).expect("created").package;
    let seen = world.inspect("demo").expect("seen").package;
    for package in [&created, &seen] {
        let found = package.key_findings.join("|");
        for line in ["purpose: nightly\\n## Status", "owner: ci", "labels: branch=main, tier=2"] {
            assert!(found.contains(line), "{found}");
        }
        assert!(found.contains("expires at 2026-11-30T18:41:38.785206+00:00"), "{found}");
        let facts = package.facts.about.as_ref().expect("said");
        assert_eq!(facts.parent.as_deref(), Some("task-7"));
        let page = render::markdown(package, Sections::All);
        assert_eq!(page.lines().filter(|line| *line == "## Status").count(), 1, "{page}");
    }
    let ran = world.run(job(&["true"])).expect("ran").package;
    assert_eq!(ran.facts.about, seen.facts.about);
    world.create("plain").expect("created");
    assert_eq!(world.inspect("plain").expect("seen").package.facts.about, None);
}

#[test]
fn a_listing_is_narrowed_by_owner_and_labels() {
    let world = World::new();
    world.create_about("demo", about()).expect("created");
    world.create("plain").expect("created");
    let ids = |request: ListRequest| {
        let listing = world.list(&request);
        let ids = listing.workspaces.iter().map(|row| row.workspace_id.clone());
        (ids.collect::<Vec<_>>().join(" "), listing.left_out)
    };
    let labelled = |key: &str, value: Option<&str>| ListRequest {
        labels: vec![(key.into(), value.map(str::to_owned))],
        ..ListRequest::default()
    };
    assert_eq!(ids(ListRequest::default()), ("plain demo".into(), 0));
    let owner = Some("ci".into());
    assert_eq!(ids(ListRequest { owner, ..ListRequest::default() }), ("demo".into(), 0));
    assert_eq!(ids(labelled("tier", None)).0, "demo");
    assert_eq!(ids(labelled("tier", Some("2"))).0, "demo");
    assert_eq!(ids(labelled("tier", Some("3"))).0, "");
    let wrong = labelled("No Key", None);
    assert_eq!(world.engine().list(&wrong).expect_err("no key").reason, "bad_label");
    let row = &world.list(&ListRequest { size: true, ..ListRequest::default() }).workspaces[1];
    assert_eq!(row.storage_bytes, Some(0), "no job ran, and it was measured");
    assert_eq!(row.about.as_ref().expect("said").owner.as_deref(), Some("ci"));
}

#[test]
fn a_dry_run_checks_everything_and_makes_nothing() {
    let world = World::new();
    let dry = |workspace, dry_run| CreateRequest {
        workspace,
        dry_run: Some(dry_run),
        about: about(),
        bound: Some(Bound::default()),
        ..CreateRequest::default()
    };
    let report = world.engine().create(&dry(None, DryRun::Check)).expect("checked");
    assert_eq!((report.exit, &report.package.facts.state), (ExitCode::Success, &None));
    assert!(report.package.outcome_summary.starts_with("nothing was created"));
    assert_eq!(report.package.provenance.workspace_id, "");
    assert_eq!(world.store.tables().opened, 0, "without an id there is nothing to look up");
    let planned = world.engine().create(&dry(Some(ws("demo")), DryRun::Plan)).expect("planned");
    let evidence = &planned.package.evidence[0];
    assert_eq!((evidence.label.as_str(), evidence.kind), ("isolation plan", EvidenceKind::Excerpt));
    assert_eq!(evidence.excerpt, "a plan\n");
    let found = planned.package.key_findings.join("|");
    assert!(found.contains("policy: memory 536870912 bytes ("), "{found}");
    assert!(world.store.tables().workspaces.is_empty() && world.provider.inner().disks.is_empty());
    world.create("demo").expect("the id is still free");
    let taken = world.engine().create(&dry(Some(ws("demo")), DryRun::Check)).expect_err("taken");
    assert_eq!(taken.reason, "workspace_exists");
    let mut policy = PolicyRequest::default();
    policy.policy.network = bailiwick_contract::policy::Network::Enabled;
    let refused = CreateRequest { policy, ..dry(None, DryRun::Check) };
    assert_eq!(
        world.engine().create(&refused).expect_err("no network").code,
        ExitCode::PolicyDenied
    );
    let about = AboutRequest { purpose: Some(String::new()), ..AboutRequest::default() };
    let refused = CreateRequest { about, ..dry(None, DryRun::Check) };
    assert_eq!(world.engine().create(&refused).expect_err("empty").reason, "bad_about");
}
