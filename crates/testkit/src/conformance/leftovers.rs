//! What verbs that were killed before their first record left: removed where it is nobody's, and named where it holds something.
use super::acts::{HELLO, TALKS};
use super::scene::{Case, Scene, file};
use super::verdict::{Told, Works, holds, same};
use bailiwick_contract::id::JobId;
use bailiwick_contract::provider::{Kept, Orphan, Recovered, Removed, Slots};
use std::time::Duration;

fn remove(scene: &Scene<'_>, is_known: &dyn Fn(&Kept) -> bool) -> Result<Vec<Orphan>, String> {
    // The clock of a directory counts whole seconds.
    std::thread::sleep(Duration::from_millis(1_100));
    scene.provider.remove_orphans(is_known, Duration::ZERO, &scene.cx()).works("remove leftovers")
}

pub(super) fn what_is_known_is_left(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    scene.run(&job)?;
    same!(remove(&scene, &|_| true)?, Vec::new(), "what was removed");
    holds!(scene.provider.is_present(&scene.id).works("look")?, "the workspace is there");
    same!(scene.kept(&job.id)?, b"hello\n", "and the output");
    Ok(())
}

pub(super) fn an_unused_workspace_is_removed(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let unused = scene.create("ws-unused").works("create")?;
    let known = |kept: &Kept| *kept == Kept::Workspace(scene.id.clone());
    let wanted = Orphan { kept: Kept::Workspace(unused.clone()), removed: true };
    same!(remove(&scene, &known)?, [wanted], "what was removed");
    holds!(!scene.provider.is_present(&unused).works("look")?, "it is gone");
    holds!(scene.provider.is_present(&scene.id).works("look")?, "the known one is not");
    Ok(())
}

pub(super) fn a_workspace_that_holds_something_is_named_and_left(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("a", "somebody's")]).works("write")?;
    let job = scene.job(HELLO);
    scene.run(&job)?;
    let mut found = remove(&scene, &|_| false)?;
    found.sort_by_key(|orphan| matches!(orphan.kept, Kept::Job(_)));
    let left = |kept| Orphan { kept, removed: false };
    same!(
        found,
        [left(Kept::Workspace(scene.id.clone())), left(Kept::Job(job.id.clone()))],
        "what was found"
    );
    same!(scene.read("a").works("read")?, b"somebody's", "what is in it");
    same!(scene.kept(&job.id)?, b"hello\n", "what was printed");
    Ok(())
}

pub(super) fn what_is_young_is_left(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let hour = Duration::from_secs(3_600);
    let found = scene.provider.remove_orphans(&|_| false, hour, &scene.cx()).works("remove")?;
    same!(found, Vec::new(), "what was removed");
    holds!(scene.provider.is_present(&scene.id).works("look")?, "it is there");
    Ok(())
}

pub(super) fn what_is_held_is_left(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let held = scene.hold(Slots::All(1))?;
    same!(remove(&scene, &|_| false)?, Vec::new(), "what was removed");
    holds!(scene.provider.is_present(&scene.id).works("look")?, "it is there");
    drop(held);
    Ok(())
}

pub(super) fn a_job_in_flight_is_left(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    same!(remove(&scene, &|_| false)?, Vec::new(), "what was removed");
    same!(scene.recover(&job.id)?, Recovered::Alive, "the job");
    scene.end(&job.id)
}

pub(super) fn sweeping_an_unknown_job_is_no_error(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let nobody = JobId::parse("job-of-nobody").expect("an id");
    scene.provider.sweep(&nobody, &scene.cx()).works("sweep")
}

pub(super) fn sweeping_a_finished_job_keeps_its_output(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    let outcome = scene.run(&job)?.outcome;
    scene.provider.sweep(&job.id, &scene.cx()).works("sweep")?;
    same!(scene.kept(&job.id)?, b"hello\n", "what was printed");
    same!(scene.recover(&job.id)?, Recovered::Ended(Box::new(outcome)), "the outcome");
    Ok(())
}

pub(super) fn removing_twice_is_no_error(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("d/a", "a")]).works("write")?;
    for wanted in [Removed::Gone, Removed::WasAbsent] {
        same!(scene.provider.remove(&scene.id, &scene.cx()).works("remove")?, wanted, "removal");
    }
    // An id is free for whoever makes it again; the record of ids is not the provider's.
    scene.create("ws-1").works("create it again")?;
    same!(scene.names()?, Vec::<String>::new(), "what is in it");
    Ok(())
}
