//! What settling costs, and that what was settled is not lost when the verb then fails.
use crate::world::{World, declaring, job, ws};
use bailiwick_contract::provider::Recovered;
use bailiwick_engine::requests::DestroyRequest;

fn with_idle(idle: usize) -> World {
    let world = World::with_demo();
    for number in 0..idle {
        world.create(&format!("idle-{number}")).expect("created");
    }
    world
}

/// Returns how often the store was read by each verb, beside one dead and `idle` idle workspaces.
fn reads(idle: usize) -> Vec<(&'static str, u64)> {
    type Verb = (&'static str, fn(&World));
    let verbs: [Verb; 6] = [
        ("run", |world| drop(world.run(job(&["true"])).expect("ran"))),
        ("put", |world| drop(world.put(world.host_file("a", "x"), "a").expect("put"))),
        ("inspect", |world| drop(world.inspect("demo").expect("seen"))),
        ("seal", |world| drop(world.seal().expect("sealed"))),
        ("destroy", |world| drop(world.destroy(true).expect("destroyed"))),
        ("doctor --reconcile", |world| {
            let notes = world.engine().reconcile_everything().expect("settled");
            assert!(notes.done[0].contains("workspace demo: job"), "{notes:?}");
            assert!(notes.open.is_empty(), "{notes:?}");
        }),
    ];
    let count = |(name, verb): Verb| {
        let world = with_idle(idle);
        world.run_and_die(job(&["true"]));
        let id = world.store.tables().jobs[0].id.clone();
        world.provider.inner().recovered.insert(id, Recovered::Lost);
        world.store.tables().reads = 0;
        verb(&world);
        let count = world.store.tables().reads;
        (name, count)
    };
    verbs.into_iter().map(count).collect()
}

#[test]
fn idle_workspaces_cost_no_verb_a_read() {
    assert_eq!(reads(10), reads(1_000));
}

#[test]
fn what_was_settled_is_told_also_by_a_verb_that_then_fails() {
    let world = World::with_demo();
    world.run_and_die(declaring());
    let id = world.store.tables().jobs[0].id.clone();
    world.provider.inner().recovered.insert(id, Recovered::Lost);
    let refused = world.run(declaring()).expect_err("the name is taken");
    assert_eq!(refused.reason, "artifact_declared");
    assert!(refused.notes[0].contains("lost its supervisor"), "{refused:?}");

    let world = World::with_demo();
    world.run_and_die(declaring());
    let id = world.store.tables().jobs[0].id.clone();
    world.provider.inner().recovered.insert(id, Recovered::Lost);
    let request = DestroyRequest { workspace: ws("demo"), force: false, bound: None };
    let refused = world.engine().destroy(&request).expect_err("an artifact would be lost");
    assert_eq!(refused.reason, "artifacts_not_exported");
    assert!(refused.notes[0].contains("lost its supervisor"), "{refused:?}");
    assert!(world.destroy(true).expect("destroyed").package.attention.len() == 1, "said once");
}

#[test]
fn the_package_of_a_recovered_job_says_that_nobody_waited() {
    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    let id = world.store.tables().jobs[0].id.clone();
    world.provider.inner().recovered.insert(id.clone(), crate::provider::ended(&world.cx()));
    world.inspect("demo").expect("seen");
    let found = world.inspect(id.as_str()).expect("seen").package.key_findings;
    assert!(found.iter().any(|line| line.contains("nobody waited for its end")), "{found:?}");
}

#[test]
fn open_work_is_told_by_whether_somebody_is_at_work_on_it() {
    let world = World::with_demo();
    assert!(world.engine().open_work().expect("read").is_empty());
    world.run_and_die(job(&["true"]));
    let id = world.store.tables().jobs[0].id.clone();
    let work = world.engine().open_work().expect("read");
    assert_eq!(work[0].what, format!("a run of job {id} in workspace demo"));
    assert!(!work[0].alive && world.store.tables().intents.len() == 1, "nothing was settled");
    world.provider.inner().running.push(id);
    assert!(world.engine().open_work().expect("read")[0].alive);
}
