//! The gate: nothing of a job runs before its intent is durable, and nothing is left where it never is.
use super::acts::{HELLO, MARKS};
use super::scene::{Case, Does, Open, Scene, path, shut};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::job::{JobStatus, Stdin};
use bailiwick_contract::provider::{Ports, ProviderError, Recovered, Slots};
use std::time::Duration;

pub(super) fn nothing_runs_before_the_gate_opens(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(MARKS);
    let mut seen = None;
    let mut gate = Does(|| {
        // Long enough for a job that does not wait.
        std::thread::sleep(Duration::from_millis(300));
        seen = Some((scene.names()?, scene.kept(&job.id)?));
        Ok(())
    });
    let outcome = scene.try_run(&job, &mut gate)?.works("run")?;
    same!(outcome.status, JobStatus::Success, "the end");
    same!(seen, Some((Vec::new(), Vec::new())), "what there was at the gate");
    same!(scene.read("ran").works("read")?, b"ran\n", "what there is afterwards");
    Ok(())
}

pub(super) fn a_job_is_alive_while_its_gate_opens(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    let mut known = None;
    let mut gate = Does(|| {
        known = Some(scene.other().recover(&scene.id, &job.id, &scene.cx())?);
        Ok(())
    });
    scene.try_run(&job, &mut gate)?.works("run")?;
    same!(known, Some(Recovered::Alive), "what another process sees of it");
    Ok(())
}

/// Nothing of a job is there.
fn nothing_of(scene: &Scene<'_>, job: &bailiwick_contract::id::JobId) -> Told {
    let known = scene.recover(job)?;
    holds!(
        matches!(known, Recovered::Lost | Recovered::NeverStarted),
        "nothing of it ran, and it is {known:?}"
    );
    same!(scene.names()?, Vec::<String>::new(), "what it left");
    same!(scene.kept(job)?, Vec::<u8>::new(), "what it printed");
    same!(scene.provider.kept_outputs(&scene.cx()).works("list")?, Vec::new(), "the outputs");
    same!(scene.act(MARKS)?.outcome.status, JobStatus::Success, "the next job");
    Ok(())
}

pub(super) fn a_gate_that_fails_leaves_nothing_of_a_run(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(MARKS);
    refused!(scene.try_run(&job, &mut Does(shut))?, ProviderError::Gate(_), "a shut gate");
    nothing_of(&scene, &job.id)
}

pub(super) fn a_gate_that_fails_leaves_nothing_of_a_launch(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(MARKS);
    let hold = scene.hold(Slots::One(1))?;
    let mut gate = Does(shut);
    let ports = Ports { hold: &*hold, gate: &mut gate, live: None };
    let launched = scene.provider.launch(&scene.id, &job, ports, &scene.cx());
    refused!(launched, ProviderError::Gate(_), "a shut gate");
    drop(hold);
    nothing_of(&scene, &job.id)
}

pub(super) fn a_gate_is_opened_once(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut count = 0;
    let mut gate = Does(|| {
        count += 1;
        Ok(())
    });
    scene.try_run(&scene.job(HELLO), &mut gate)?.works("run")?;
    same!(count, 1, "how often");
    Ok(())
}

pub(super) fn what_cannot_be_prepared_never_meets_the_gate(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut opened = false;
    let mut gate = Does(|| {
        opened = true;
        Ok(())
    });
    let mut nowhere = scene.job(MARKS);
    nowhere.cwd = Some(path("no/such/directory"));
    holds!(scene.try_run(&nowhere, &mut gate)?.is_err(), "it started nowhere");
    let mut hears = scene.job(MARKS);
    hears.stdin = Stdin::File(ByteString::from("/no/such/file"));
    holds!(scene.try_run(&hears, &mut gate)?.is_err(), "it read nothing");
    holds!(!opened, "the gate was opened for a job that cannot run");
    nothing_of(&scene, &hears.id)
}

pub(super) fn a_job_id_is_taken_once(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let first = scene.job(HELLO);
    let done = scene.run(&first)?;
    let mut second = scene.job(MARKS);
    second.id = first.id.clone();
    holds!(scene.try_run(&second, &mut Open)?.is_err(), "the id was taken");
    same!(scene.kept(&first.id)?, done.bytes, "the first one's output");
    same!(scene.recover(&first.id)?, Recovered::Ended(Box::new(done.outcome)), "its outcome");
    same!(scene.names()?, Vec::<String>::new(), "what the second left");
    Ok(())
}
