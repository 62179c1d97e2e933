//! Limits: they end what is over, hold for whom they are set, and are labelled as what they are.
use super::acts::{FILLS, HELLO, QUIET, SLOW};
use super::scene::{Case, Open, Scene};
use super::verdict::{Told, Works, holds, same};
use bailiwick_contract::enforcement::{Label, PolicyError, Strictness, resolve};
use bailiwick_contract::job::{JobStatus, Reason};
use bailiwick_contract::policy::{Limit, Policy};

pub(super) fn a_job_may_have_a_narrower_wall_clock(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut job = scene.job(SLOW);
    job.policy.policy.budget.wall_clock_ms = 500;
    let outcome = scene.run(&job)?.outcome;
    same!(
        (outcome.status, outcome.reason),
        (JobStatus::Timeout, Some(Reason::WallClock)),
        "the end"
    );
    holds!(outcome.usage.wall_time_us >= 500_000, "not before: {} us", outcome.usage.wall_time_us);
    Ok(())
}

pub(super) fn a_narrower_wall_clock_holds_for_one_job_only(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut job = scene.job(SLOW);
    job.policy.policy.budget.wall_clock_ms = 300;
    scene.run(&job)?;
    let next = scene.job(super::acts::COUNTS);
    same!(scene.run(&next)?.outcome.status, JobStatus::Success, "a job of 2 s afterwards");
    Ok(())
}

pub(super) fn a_launched_job_has_the_same_wall_clock(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.wall_clock_ms = 500)?;
    let job = scene.job(SLOW);
    scene.launch(&job)?;
    let outcome = scene.ended(&job.id)?;
    same!((outcome.status, outcome.exit_status), (JobStatus::Timeout, None), "the end");
    Ok(())
}

pub(super) fn a_disk_that_is_over_its_budget_ends_the_job(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.storage_bytes = 8 << 20)?;
    let outcome = scene.act(FILLS)?.outcome;
    same!(
        (outcome.status, outcome.reason),
        (JobStatus::ResourceExhausted, Some(Reason::Storage)),
        "the end"
    );
    let events = outcome.quota_events;
    holds!(events.iter().any(|event| event.limit == Limit::Storage), "it is told: {events:?}");
    Ok(())
}

pub(super) fn a_job_within_its_limits_meets_none(case: &dyn Case) -> Told {
    let outcome = Scene::new(case)?.act(HELLO)?.outcome;
    same!(outcome.quota_events, Vec::new(), "what it met");
    let usage = outcome.usage;
    same!((usage.memory_overshoot_bytes, usage.storage_overshoot_bytes), (0, 0), "overshoot");
    Ok(())
}

pub(super) fn every_limit_has_a_label(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let capabilities = scene.provider.capabilities(&scene.cx()).works("probe")?;
    for limit in Limit::ALL {
        let facts = scene.policy.facts(limit);
        let held = scene.policy.enforcement(limit);
        same!((facts.label, facts.mechanism), (held.label, held.mechanism), "{limit}");
    }
    for limit in [
        capabilities.filesystem,
        capabilities.wall_clock,
        capabilities.output_bytes,
        capabilities.concurrency,
    ] {
        holds!(
            limit.is_some_and(|held| held.label == Label::Enforced),
            "our own limits hold: {limit:?}"
        );
    }
    same!(scene.act(QUIET)?.outcome.status, JobStatus::Success, "a job under them");
    Ok(())
}

pub(super) fn a_watched_limit_is_never_called_enforced(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let capabilities = scene.provider.capabilities(&scene.cx()).works("probe")?;
    let strict =
        Strictness { named: vec![Limit::Memory], require_enforced: false, allow_watched: false };
    match (resolve(&Policy::default(), &strict, &capabilities), capabilities.memory) {
        (Ok(held), Some(memory)) => {
            same!(held.enforcement(Limit::Memory), memory, "how memory is held");
            same!(memory.label, Label::Enforced, "a named limit that was granted");
            holds!(scene.try_run(&scene.job(HELLO), &mut Open)?.is_ok(), "a job under it");
            Ok(())
        }
        (Err(PolicyError::OnlyWatched { limit: Limit::Memory, .. }), Some(memory)) => {
            same!(memory.label, Label::Measured, "a named limit that was refused");
            Ok(())
        }
        other => Err(format!("memory is neither held nor watched: {other:?}")),
    }
}
