//! Holds: who may use a workspace at the same time.
use super::acts::{HELLO, QUIET, TALKS};
use super::scene::{Case, Scene};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::{ProviderError, Recovered, Slots};

pub(super) fn a_slot_is_held_once(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let first = scene.hold(Slots::One(1))?;
    holds!(!scene.is_free(Slots::One(1))?, "it is taken");
    drop(first);
    drop(scene.hold(Slots::One(1))?);
    Ok(())
}

pub(super) fn as_many_slots_are_held_as_there_are(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(scene.hold(Slots::One(3))?);
    }
    holds!(!scene.is_free(Slots::One(3))?, "all three are taken");
    drop(scene.hold(Slots::One(4))?);
    Ok(())
}

pub(super) fn all_slots_are_held_together_or_not_at_all(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let one = scene.hold(Slots::One(3))?;
    holds!(!scene.is_free(Slots::All(3))?, "one is taken");
    drop(scene.hold(Slots::One(3))?);
    drop(one);
    let all = scene.hold(Slots::All(3))?;
    holds!(!scene.is_free(Slots::One(3))?, "all are taken");
    holds!(!scene.is_free(Slots::All(3))?, "by one holder");
    drop(all);
    drop(scene.hold(Slots::All(3))?);
    Ok(())
}

pub(super) fn zero_slots_are_one(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let _zero = scene.hold(Slots::One(0))?;
    holds!(!scene.is_free(Slots::One(1))?, "the first slot is taken");
    Ok(())
}

pub(super) fn workspaces_are_held_apart(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let other = scene.create("ws-2").works("create")?;
    let _held = scene.hold(Slots::All(1))?;
    holds!(scene.provider.hold(&other, Slots::All(1)).works("ask")?.is_some(), "the other is free");
    Ok(())
}

pub(super) fn another_process_meets_the_same_hold(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let other = scene.other();
    let _held = scene.hold(Slots::One(1))?;
    holds!(other.hold(&scene.id, Slots::One(1)).works("ask")?.is_none(), "it is taken there too");
    Ok(())
}

pub(super) fn a_hold_in_an_unknown_workspace_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let nobody = WorkspaceId::parse("ws-nobody").expect("an id");
    for slots in [Slots::One(1), Slots::All(2)] {
        let held = scene.provider.hold(&nobody, slots);
        refused!(held, ProviderError::NoWorkspace { .. }, "a workspace of nobody's");
    }
    same!(scene.provider.is_present(&nobody).works("look")?, false, "the workspace");
    Ok(())
}

pub(super) fn a_hold_is_free_as_soon_as_its_job_has_ended(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for act in [QUIET, HELLO, QUIET, HELLO] {
        scene.act(act)?;
        drop(scene.hold(Slots::All(1))?);
    }
    Ok(())
}

pub(super) fn as_many_jobs_run_at_once_as_there_are_slots(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.concurrency = 3)?;
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let job = scene.job(TALKS);
        let hold = scene.hold(Slots::One(3))?;
        let mut gate = super::scene::Open;
        let ports =
            bailiwick_contract::provider::Ports { hold: &*hold, gate: &mut gate, live: None };
        scene.provider.launch(&scene.id, &job, ports, &scene.cx()).works("launch")?;
        jobs.push(job.id);
    }
    holds!(!scene.is_free(Slots::One(3))?, "there is no fourth slot");
    for job in &jobs {
        scene.printed(job, b"ready\n")?;
        same!(scene.recover(job)?, Recovered::Alive, "job {job}");
    }
    scene.end(&jobs[1])?;
    drop(scene.hold(Slots::One(3))?);
    for job in &jobs {
        scene.end(job)?;
    }
    Ok(())
}
