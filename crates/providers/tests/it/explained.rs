//! What a provider says that it would do.
use crate::world::World;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{Provider, ProviderError, WorkspaceSpec};
use std::fs;

fn spec(world: &World) -> WorkspaceSpec {
    let id = WorkspaceId::parse("ws-planned").expect("an id");
    WorkspaceSpec { id, profile: "host".into(), policy: world.policy.clone() }
}

#[test]
fn a_plan_is_told_in_the_same_words_again_and_makes_nothing() {
    let world = World::new();
    let spec = spec(&world);
    let plan = || world.native.plan(&spec, &world.cx()).expect("a plan");
    let entries = || fs::read_dir(world.home()).expect("listed").count();
    let before = entries();
    let lines = plan();
    assert_eq!(plan(), lines);
    assert_eq!(entries(), before);
    assert!(!world.tree_of(&spec.id).exists());
    let says = |words: &str| lines.iter().any(|line| line.contains(words));
    assert!(says(world.tree_of(&spec.id).to_str().expect("text")), "{lines:#?}");
    assert!(says("new namespaces") && says("payload: execute true"), "{lines:#?}");
    assert!(lines.iter().all(|line| !line.contains('\n')), "one step a line");
}

#[test]
fn what_could_not_be_created_cannot_be_planned() {
    let world = World::new();
    let mut spec = spec(&world);
    spec.policy.policy.host_paths =
        crate::world::showing(&[(world.home(), bailiwick_contract::policy::Access::ReadOnly)])
            .host_paths;
    let error = world.native.plan(&spec, &world.cx()).expect_err("refused");
    assert!(matches!(error, ProviderError::HostPath { .. }), "{error:?}");
}
