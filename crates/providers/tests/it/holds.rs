//! Holds: who may use a workspace at the same time.
use crate::world::World;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{Hold, Provider, ProviderError, Slots};

fn hold(world: &World, slots: Slots) -> Option<Box<dyn Hold>> {
    world.native.hold(&world.id, slots).expect("asked")
}

fn free(world: &World, slots: Slots) -> Box<dyn Hold> {
    world.hold(&world.id, slots)
}

#[test]
fn a_slot_is_held_once_and_free_when_it_is_dropped() {
    let world = World::new();
    let first = free(&world, Slots::One(1));
    assert!(hold(&world, Slots::One(1)).is_none());
    drop(first);
    drop(free(&world, Slots::One(1)));
}

#[test]
fn as_many_slots_are_held_as_there_are() {
    let world = World::new();
    let held: Vec<_> = (0..3).map(|_| free(&world, Slots::One(3))).collect();
    assert!(hold(&world, Slots::One(3)).is_none());
    drop(free(&world, Slots::One(4)));
    drop(held);
    let zero = free(&world, Slots::One(0));
    assert!(hold(&world, Slots::One(1)).is_none());
    drop(zero);
}

#[test]
fn all_slots_are_held_together_or_not_at_all() {
    let world = World::new();
    let one = free(&world, Slots::One(3));
    assert!(hold(&world, Slots::All(3)).is_none());
    drop(free(&world, Slots::One(3)));
    drop(one);
    let all = free(&world, Slots::All(3));
    assert!(hold(&world, Slots::One(3)).is_none());
    assert!(hold(&world, Slots::All(3)).is_none());
    drop(all);
    drop(free(&world, Slots::All(3)));
}

#[test]
fn workspaces_are_held_apart() {
    let world = World::new();
    let other = world.another("ws-2");
    let _held = free(&world, Slots::All(1));
    drop(world.hold(&other, Slots::All(1)));
    let none = WorkspaceId::parse("ws-none").expect("an id");
    let missing = world.native.hold(&none, Slots::One(1));
    assert!(matches!(missing, Err(ProviderError::NoWorkspace { .. })), "{missing:?}");
}

#[test]
fn a_hold_is_free_as_soon_as_its_job_has_ended() {
    let world = World::new();
    for _ in 0..20 {
        world.sh("true");
        drop(free(&world, Slots::All(1)));
    }
}
