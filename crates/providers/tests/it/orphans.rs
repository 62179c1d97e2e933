//! What no record knows: it is removed where nothing ever ran in it, and left where somebody may want it.
use crate::world::{Open, World, ports};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{Kept, Orphan, Provider, Recovered, Slots};
use std::fs;
use std::time::Duration;

const NO_AGE: Duration = Duration::ZERO;

/// Removes orphans in a home where nothing is on record but what `known` says.
fn remove(world: &World, known: &dyn Fn(&Kept) -> bool, age: Duration) -> Vec<(String, bool)> {
    let orphans = world.native.remove_orphans(known, age, &world.cx()).expect("listed");
    let mut shown: Vec<_> = orphans
        .into_iter()
        .map(|Orphan { kept, removed }| match kept {
            Kept::Workspace(id) => (id.to_string(), removed),
            Kept::Job(id) => (id.to_string(), removed),
        })
        .collect();
    shown.sort();
    shown
}

/// Waits until what was made before is older than a second, which is what a modification time is compared by.
fn grow_old() {
    std::thread::sleep(Duration::from_millis(1_100));
}

#[test]
fn what_nothing_ran_in_is_removed_and_the_rest_is_left() {
    let world = World::new();
    let (held, used) = (world.another("held"), world.another("used"));
    fs::write(world.tree_of(&used).join("file"), "words").expect("written");
    let _hold = world.native.hold(&held, Slots::All(1)).expect("asked").expect("free");
    for name in ["job-empty", "job-output"] {
        let dir = world.job_dir(&JobId::parse(name).expect("an id"));
        fs::create_dir_all(&dir).expect("made");
    }
    let output = world.job_dir(&JobId::parse("job-output").expect("an id")).join("output");
    fs::write(&output, "words").expect("written");
    grow_old();
    assert!(remove(&world, &|_| true, NO_AGE).is_empty(), "all is known");
    assert!(remove(&world, &|_| false, Duration::from_secs(60)).is_empty(), "all is young");
    let wanted = [("job-empty", true), ("job-output", false), ("used", false), ("ws-1", true)];
    let wanted = wanted.map(|(name, removed)| (name.to_owned(), removed));
    assert_eq!(remove(&world, &|_| false, NO_AGE), wanted);
    assert!(!world.tree().exists() && world.tree_of(&held).exists());
    assert!(world.tree_of(&used).join("file").exists() && output.exists());
}

#[test]
fn a_workspace_that_is_recorded_while_it_is_looked_at_is_left() {
    let world = World::new();
    grow_old();
    let looks = std::cell::Cell::new(0);
    let known = |_: &Kept| looks.replace(looks.get() + 1) > 0;
    assert!(remove(&world, &known, NO_AGE).is_empty());
    assert!(world.tree().exists());
}

#[test]
fn a_lost_disk_is_told_apart_from_one_that_is_there() {
    let world = World::new();
    let is_present = |id: &WorkspaceId| world.native.is_present(id).expect("looked");
    assert!(is_present(&world.id));
    fs::remove_dir_all(world.home().join("disks")).expect("removed");
    assert!(!is_present(&world.id));
}

#[test]
fn what_proves_an_outcome_stays_until_it_is_on_record() {
    let world = World::new();
    let job = world.script("true");
    let hold = world.native.hold(&world.id, Slots::One(2)).expect("asked").expect("free");
    let outcome =
        world.native.run(&world.id, &job, ports(&*hold, &mut Open), &world.cx()).expect("it ran");
    let recover = || world.native.recover(&world.id, &job.id, &world.cx()).expect("asked");
    assert_eq!(recover(), Recovered::Alive, "its caller is, and records it");
    drop(hold);
    assert_eq!(recover(), Recovered::Ended(Box::new(outcome.clone())));
    world.native.settled(&job.id, &outcome);
    assert!(!world.job_dir(&job.id).exists());
}
