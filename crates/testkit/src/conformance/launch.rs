//! Jobs that nobody waits for.
use super::acts::{FAILS, MARKS, SLOW, TALKS};
use super::scene::{Case, Keeps, Open, Scene, path, until};
use super::verdict::{Told, Works, holds, same};
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::provider::{Ports, Recovered, Slots, StopReply};
use std::time::Duration;

pub(super) fn a_launched_job_goes_on_without_its_caller(case: &dyn Case) -> Told {
    let mut scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    // All that its caller had is gone.
    scene.provider = scene.other();
    scene.printed(&job.id, b"ready\n")?;
    same!(scene.recover(&job.id)?, Recovered::Alive, "what is known of it");
    scene.end(&job.id)?;
    same!(scene.ended(&job.id)?.status, JobStatus::Cancelled, "the end");
    Ok(())
}

pub(super) fn a_launched_job_is_found_by_another_process(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    let other = scene.other();
    same!(other.recover(&scene.id, &job.id, &scene.cx()).works("recover")?, Recovered::Alive, "it");
    let reply = other.stop(&job.id, Duration::ZERO, &scene.cx()).works("stop")?;
    same!(reply, StopReply::Stopped, "its stop");
    same!(scene.ended(&job.id)?.status, JobStatus::Cancelled, "the end");
    Ok(())
}

pub(super) fn a_launched_job_holds_its_slot_to_its_end(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(SLOW);
    scene.launch(&job)?;
    holds!(!scene.is_free(Slots::One(1))?, "the slot is taken");
    holds!(!scene.is_free(Slots::All(1))?, "and so are all");
    holds!(scene.is_free(Slots::One(2))?, "a second one is not");
    scene.end(&job.id)?;
    drop(scene.hold(Slots::All(2))?);
    Ok(())
}

pub(super) fn what_a_launched_job_prints_and_leaves_is_there(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(MARKS);
    scene.launch(&job)?;
    same!(scene.ended(&job.id)?.status, JobStatus::Success, "the end");
    same!(scene.kept(&job.id)?, b"ran\n", "what it printed");
    same!(scene.read("ran").works("read")?, b"ran\n", "what it left");
    Ok(())
}

pub(super) fn nobody_is_given_the_output_of_a_launched_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(MARKS);
    let hold = scene.hold(Slots::One(1))?;
    let mut sink = Keeps::default();
    let ports = Ports { hold: &*hold, gate: &mut Open, live: Some(&mut sink) };
    scene.provider.launch(&scene.id, &job, ports, &scene.cx()).works("launch")?;
    drop(hold);
    same!(scene.ended(&job.id)?.output.bytes, 4, "what it printed");
    same!(sink.bytes, Vec::<u8>::new(), "what was given");
    Ok(())
}

pub(super) fn a_launched_failure_is_recovered_as_one(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FAILS);
    scene.launch(&job)?;
    let outcome = scene.ended(&job.id)?;
    same!((outcome.status, outcome.exit_status), (JobStatus::Failure, Some(3)), "the end");
    same!(outcome.output.stderr_bytes, 5, "what it printed");
    same!(scene.ended(&job.id)?, outcome, "the same again");
    Ok(())
}

pub(super) fn a_launch_that_is_refused_leaves_nothing(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut job = scene.job(MARKS);
    job.cwd = Some(path("nowhere"));
    let hold = scene.hold(Slots::One(1))?;
    let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
    let launched = scene.provider.launch(&scene.id, &job, ports, &scene.cx());
    holds!(launched.is_err(), "it was launched nowhere");
    drop(hold);
    same!(scene.recover(&job.id)?, Recovered::Lost, "what is left of it");
    same!(scene.names()?, Vec::<String>::new(), "and of what it does");
    until(|| Ok(scene.is_free(Slots::One(1))?.then_some(())), "its slot is free")
}

pub(super) fn an_unknown_job_is_lost(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = JobId::parse("job-of-nobody").expect("an id");
    same!(scene.recover(&job)?, Recovered::Lost, "what is known of it");
    Ok(())
}
