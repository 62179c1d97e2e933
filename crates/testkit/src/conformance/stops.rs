//! Stops: a grace, one verdict, and a workspace that can be used afterwards.
use super::acts::{DEAF, HELLO, TALKS};
use super::scene::{Case, Open, Scene};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::context::CancelToken;
use bailiwick_contract::job::{JobOutcome, JobStatus, Reason};
use bailiwick_contract::provider::{ProviderError, Recovered, StopReply};
use std::time::{Duration, Instant};

/// A grace that no check waits for.
const LONG: Duration = Duration::from_secs(600);

fn is_cancelled(outcome: &JobOutcome) -> Told {
    same!(
        (outcome.status, outcome.reason.clone()),
        (JobStatus::Cancelled, Some(Reason::Stopped)),
        "the end"
    );
    same!((outcome.exit_status, outcome.signal), (None, None), "its status");
    Ok(())
}

pub(super) fn a_stopped_job_has_one_verdict_for_everybody(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    let (ran, reply) = std::thread::scope(|threads| {
        let stopper = threads.spawn(|| {
            scene.printed(&job.id, b"ready\n")?;
            scene.other().stop(&job.id, LONG, &scene.cx()).works("stop")
        });
        (scene.try_run(&job, &mut Open), stopper.join())
    });
    let outcome = ran?.works("run")?;
    same!(reply.map_err(|_| "it panicked")??, StopReply::Stopped, "what the stop says");
    is_cancelled(&outcome)?;
    same!(scene.recover(&job.id)?, Recovered::Ended(Box::new(outcome)), "what is found later");
    Ok(())
}

pub(super) fn a_job_that_listens_ends_before_its_grace(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    let asked = Instant::now();
    same!(scene.provider.stop(&job.id, LONG, &scene.cx()).works("stop")?, StopReply::Stopped, "it");
    holds!(asked.elapsed() < LONG / 2, "it did not wait for the grace");
    is_cancelled(&scene.ended(&job.id)?)
}

pub(super) fn a_job_that_does_not_listen_ends_with_its_grace(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(DEAF);
    scene.launch(&job)?;
    scene.printed(&job.id, b"deaf\n")?;
    let (asked, grace) = (Instant::now(), Duration::from_secs(1));
    same!(
        scene.provider.stop(&job.id, grace, &scene.cx()).works("stop")?,
        StopReply::Stopped,
        "it"
    );
    holds!(asked.elapsed() >= grace, "it had its grace: {:?}", asked.elapsed());
    is_cancelled(&scene.ended(&job.id)?)
}

pub(super) fn two_who_stop_a_job_agree(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(DEAF);
    scene.launch(&job)?;
    scene.printed(&job.id, b"deaf\n")?;
    let stop = || scene.other().stop(&job.id, Duration::from_secs(1), &scene.cx()).works("stop");
    let replies = std::thread::scope(|threads| {
        let both = [threads.spawn(stop), threads.spawn(stop)];
        both.map(|thread| thread.join().unwrap_or_else(|_| Err("it panicked".into())))
    });
    for reply in replies {
        same!(reply?, StopReply::Stopped, "an answer");
    }
    is_cancelled(&scene.ended(&job.id)?)?;
    same!(
        scene.provider.stop(&job.id, LONG, &scene.cx()).works("stop")?,
        StopReply::NotRunning,
        "a third"
    );
    Ok(())
}

pub(super) fn a_shorter_grace_counts(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(DEAF);
    scene.launch(&job)?;
    scene.printed(&job.id, b"deaf\n")?;
    let patient = CancelToken::new();
    std::thread::scope(|threads| {
        let first = threads.spawn(|| scene.other().stop(&job.id, LONG, &scene.cx_of(&patient)));
        // Whoever is patient asks first; how long that takes is the machine's.
        std::thread::sleep(Duration::from_secs(1));
        let second = scene.provider.stop(&job.id, Duration::ZERO, &scene.cx()).works("stop");
        if second.is_err() {
            patient.cancel();
        }
        same!(second?, StopReply::Stopped, "whoever is in a hurry");
        let first = first.join().map_err(|_| "it panicked")?.works("stop")?;
        same!(first, StopReply::Stopped, "whoever is not");
        Ok(())
    })
}

pub(super) fn a_stop_that_is_cancelled_leaves_the_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(DEAF);
    scene.launch(&job)?;
    scene.printed(&job.id, b"deaf\n")?;
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let stopped = scene.provider.stop(&job.id, LONG, &scene.cx_of(&cancelled));
    refused!(stopped, ProviderError::Interrupted(_), "a cancelled stop");
    same!(scene.recover(&job.id)?, Recovered::Alive, "the job, which has its grace");
    scene.end(&job.id)
}

pub(super) fn what_a_stopped_job_printed_is_kept(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    scene.end(&job.id)?;
    let outcome = scene.ended(&job.id)?;
    same!((outcome.output.bytes, outcome.output.lines), (6, 1), "the facts");
    same!(scene.kept(&job.id)?, b"ready\n", "the bytes");
    Ok(())
}

pub(super) fn a_stopped_workspace_runs_the_next_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(DEAF);
    scene.launch(&job)?;
    scene.printed(&job.id, b"deaf\n")?;
    scene.end(&job.id)?;
    same!(scene.act(HELLO)?.bytes, b"hello\n", "what the next one says");
    Ok(())
}
