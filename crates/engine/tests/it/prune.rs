//! What `prune` takes, what it leaves alone, and that a killed one is finished by the next.
use crate::world::{World, declaring, job, writing_pi, ws};
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::id::JobId;
use bailiwick_contract::package::{PruneFacts, ResultPackage};
use bailiwick_contract::provider::Recovered;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_engine::requests::{AboutRequest, ListRequest, PruneRequest};
use core::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);

fn prune(world: &World, request: &PruneRequest) -> ResultPackage {
    let report = world.engine().prune(request).expect("pruned");
    assert_eq!(report.exit, ExitCode::Success);
    report.package
}

fn facts(package: &ResultPackage) -> PruneFacts {
    package.facts.prune.expect("every prune counts")
}

fn applied(world: &World) -> ResultPackage {
    prune(world, &PruneRequest { apply: true, ..PruneRequest::default() })
}

fn last_job(world: &World) -> JobId {
    world.store.tables().jobs.last().expect("a job").id.clone()
}

#[test]
fn a_preview_changes_nothing_and_an_apply_does_what_it_said() {
    let world = World::new();
    let about = AboutRequest { ttl: Some(DAY), ..AboutRequest::default() };
    world.create_about("demo", about).expect("created");
    world.script(writing_pi());
    world.run(job(&["true"])).expect("ran");
    world.exec(job(&["true"])).expect("ran");
    world.pass(8 * DAY);
    world.batches();
    let preview = prune(&world, &PruneRequest::default());
    assert!(world.batches().is_empty() && world.state_of("demo") == WorkspaceState::Ready);
    assert_eq!(world.provider.inner().outputs.len(), 2);
    let said = facts(&preview);
    assert_eq!((said.workspaces, said.outputs, said.tombstones), (1, 2, 1), "{preview:?}");
    assert_eq!(said.freed_bytes, 5 + 5 + 12, "two outputs and a disk");
    assert!(preview.attention.last().expect("one").contains("bailiwick prune --apply"));
    let done = applied(&world);
    assert_eq!(facts(&done), PruneFacts { applied: true, ..said });
    assert_eq!(done.resource_usage.storage_bytes, 22);
    assert_eq!(world.state_of("demo"), WorkspaceState::Destroyed);
    assert!(world.provider.inner().outputs.is_empty() && world.provider.inner().disks.is_empty());
    let again = applied(&world);
    assert_eq!(facts(&again), PruneFacts { applied: true, ..PruneFacts::default() });
    assert_eq!(again.outcome_summary, "there was nothing to remove");
}

#[test]
fn a_pruned_tombstone_says_when_and_its_ids_stay_taken() {
    let world = World::new();
    world.exec(declaring()).expect("ran");
    world.destroy_all();
    let (id, of) = (last_job(&world), world.store.tables().workspaces[0].id.to_string());
    assert!(world.inspect(id.as_str()).is_ok() && world.engine().logs(id.as_str()).is_ok());
    world.pass(7 * DAY);
    applied(&world);
    let seen = world.inspect(&of).expect("its id stays").package;
    assert_eq!(seen.facts.state.as_deref(), Some("destroyed"));
    assert!(seen.outcome_summary.contains("its record was pruned at 2026-12-07"), "{seen:?}");
    let gone = world.inspect(id.as_str()).expect_err("pruned");
    assert_eq!(gone.reason, "job_pruned");
    assert!(gone.message.contains(&of), "{gone}");
    let logs = world.engine().logs(&of).expect("read");
    assert!(logs.jobs.is_empty() && logs.attention[0].contains("pruned at"), "{logs:?}");
    assert_eq!(world.create(&of).expect_err("taken").reason, "workspace_exists");
    assert!(world.list(&ListRequest::default()).workspaces.is_empty());
}

#[test]
fn what_is_retained_or_young_or_in_flight_stays() {
    let world = World::new();
    let about = AboutRequest { retain: true, ..AboutRequest::default() };
    world.create_about("demo", about).expect("created");
    world.run(job(&["true"])).expect("ran");
    world.destroy(false).expect("destroyed");
    world.pass(8 * DAY);
    world.create("other").expect("created");
    world.exec(job(&["true"])).expect("ran");
    assert_eq!(facts(&applied(&world)), PruneFacts { applied: true, ..PruneFacts::default() });
    assert_eq!(world.provider.inner().outputs.len(), 2);
    assert!(world.inspect("demo").is_ok());

    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    let id = last_job(&world);
    world.provider.inner().outputs.insert(id.clone(), b"so far".to_vec());
    world.provider.inner().running.push(id);
    world.pass(8 * DAY);
    let all = PruneRequest {
        apply: true,
        force: true,
        older_than: Duration::ZERO,
        keep_bytes: 0,
        bound: None,
    };
    assert_eq!(facts(&prune(&world, &all)).outputs, 0);
    assert_eq!(world.provider.inner().outputs.len(), 1, "a job in flight keeps its output");
}

#[test]
fn young_output_goes_oldest_first_until_it_is_little_enough() {
    let world = World::with_demo();
    for _ in 0..3 {
        world.run(job(&["true"])).expect("ran");
        world.pass(DAY);
    }
    let keep_bytes = 12;
    let request = PruneRequest { apply: true, keep_bytes, ..PruneRequest::default() };
    let pruned = prune(&world, &request);
    assert_eq!((facts(&pruned).outputs, facts(&pruned).freed_bytes), (1, 5));
    let first = world.store.tables().jobs[0].id.clone();
    assert!(!world.provider.inner().outputs.contains_key(&first));
    let seen = world.inspect(first.as_str()).expect("its record stays").package;
    assert!(seen.warnings.iter().any(|line| line.contains("kept any more")), "{:?}", seen.warnings);
}

#[test]
fn artifacts_that_were_never_exported_keep_an_expired_workspace() {
    let world = World::new();
    let about = AboutRequest { ttl: Some(DAY), ..AboutRequest::default() };
    world.create_about("demo", about).expect("created");
    world.script(writing_pi());
    world.run(declaring()).expect("ran");
    world.pass(2 * DAY);
    for apply in [false, true] {
        let package = prune(&world, &PruneRequest { apply, ..PruneRequest::default() });
        assert_eq!((facts(&package).workspaces, facts(&package).kept), (0, 1), "{package:?}");
        let said = package.attention.join("|");
        assert!(said.contains("bailiwick export demo pi --to PATH"), "{said}");
    }
    assert!(!world.provider.inner().disks.is_empty());
    let force = PruneRequest { apply: true, force: true, ..PruneRequest::default() };
    let forced = prune(&world, &force);
    assert_eq!((facts(&forced).workspaces, facts(&forced).kept), (1, 0));
    assert!(forced.attention.iter().any(|line| line.contains("'pi' was discarded")));
    assert!(world.provider.inner().disks.is_empty());
}

#[test]
fn a_sealed_workspace_whose_time_is_over_goes_too() {
    let world = World::new();
    let about = AboutRequest { ttl: Some(DAY), ..AboutRequest::default() };
    world.create_about("demo", about).expect("created");
    world.seal().expect("sealed");
    assert_eq!(facts(&applied(&world)).workspaces, 0);
    world.pass(DAY);
    assert_eq!(facts(&applied(&world)).workspaces, 1);
    assert_eq!(world.state(), WorkspaceState::Destroyed);
}

#[test]
fn what_breaks_is_named_and_hides_nothing_else() {
    let world = World::new();
    let about = AboutRequest { ttl: Some(DAY), ..AboutRequest::default() };
    world.exec(job(&["true"])).expect("ran");
    world.create_about("demo", about).expect("created");
    world.pass(8 * DAY);
    (world.provider.inner().remove_fails, world.provider.inner().discard_fails) = (true, true);
    let broken = applied(&world);
    let said = facts(&broken);
    assert_eq!((said.workspaces, said.kept, said.outputs, said.tombstones), (0, 1, 0, 0));
    let lines = broken.attention.join("|");
    assert!(lines.contains("workspace demo is kept: "), "{lines}");
    assert!(lines.contains("the output of job "), "{lines}");
    (world.provider.inner().remove_fails, world.provider.inner().discard_fails) = (false, false);
    let done = facts(&applied(&world));
    assert_eq!((done.workspaces, done.outputs, done.tombstones), (1, 1, 1));
}

#[test]
fn a_prune_that_was_killed_anywhere_is_finished_by_the_next() {
    for room in 0..4 {
        let world = World::new();
        let about = AboutRequest { ttl: Some(DAY), ..AboutRequest::default() };
        world.exec(job(&["true"])).expect("ran");
        world.create_about("demo", about).expect("created");
        world.pass(8 * DAY);
        // As far as the store lets it: what it did until then is done.
        world.store.tables().room = Some(room);
        drop(world.engine().prune(&PruneRequest { apply: true, ..PruneRequest::default() }));
        world.store.tables().room = None;
        applied(&world);
        assert_eq!(world.state_of("demo"), WorkspaceState::Destroyed, "{room}");
        assert!(world.provider.inner().outputs.is_empty(), "{room}");
        assert!(world.store.tables().workspaces[0].pruned_at.is_some(), "{room}");
        assert!(world.store.tables().intents.is_empty(), "{room}");
    }
}

#[test]
fn an_open_intent_is_settled_before_anything_is_pruned() {
    let world = World::with_demo();
    world.run_and_die(job(&["true"]));
    world.provider.inner().recovered.insert(last_job(&world), Recovered::Lost);
    let preview = prune(&world, &PruneRequest::default());
    assert!(preview.attention.is_empty(), "{:?}", preview.attention);
    assert_eq!(world.state(), WorkspaceState::Running);
    let done = applied(&world);
    assert!(done.attention[0].contains("lost its supervisor"), "{:?}", done.attention);
    assert_eq!(world.state_of(ws("demo").as_str()), WorkspaceState::Ready);
}
