//! Back ends that do not work: they say so, say what to do, and make nothing.
use super::acts::HELLO;
use super::scene::{Case, Open, Scene};
use super::verdict::{Told, Whose, Works, holds, same, whose};
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::provider::{Ports, ProviderError, Recovered, Slots};

pub(super) fn a_broken_back_end_makes_nothing(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let broken = case.broken(&scene.place);
    let job = scene.job(HELLO);
    let hold = scene.hold(Slots::One(1))?;
    let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
    let launched = broken.launch(&scene.id, &job, ports, &scene.cx());
    drop(hold);
    if launched.is_err() {
        let known = scene.recover(&job.id)?;
        holds!(matches!(known, Recovered::Lost | Recovered::NeverStarted), "the job is {known:?}");
    } else {
        same!(scene.ended(&job.id)?.status, JobStatus::InfrastructureFailure, "the end");
    }
    same!(scene.names()?, Vec::<String>::new(), "what it left");
    same!(scene.act(HELLO)?.bytes, b"hello\n", "a job of one that works");
    Ok(())
}

pub(super) fn a_broken_back_end_says_what_to_do(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let broken = case.broken(&scene.place);
    let hold = scene.hold(Slots::One(1))?;
    let job = scene.job(HELLO);
    let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
    match broken.run(&scene.id, &job, ports, &scene.cx()) {
        Err(ProviderError::Unavailable { message, remediation, .. }) => {
            holds!(!message.is_empty() && !remediation.is_empty(), "what and what to do");
        }
        Err(ProviderError::Supervisor { message } | ProviderError::Script { why: message, .. }) => {
            holds!(!message.is_empty(), "what is wrong");
        }
        other => return Err(format!("it does not say that it is broken: {other:?}")),
    }
    Ok(())
}

pub(super) fn a_broken_disk_is_not_the_callers_mistake(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    std::fs::remove_dir_all(scene.tree()).works("break the disk")?;
    std::fs::write(scene.tree(), "no directory").works("break the disk")?;
    let Err(error) = scene.provider.inspect(&scene.id, &scene.cx()) else {
        return Err("a file was measured as a disk".into());
    };
    same!(whose(&error), Whose::Infrastructure, "whose it is: {error:?}");
    let Err(error) = scene.write(vec![super::scene::file("a", "a")]) else {
        return Err("something was written".into());
    };
    same!(whose(&error), Whose::Infrastructure, "whose it is: {error:?}");
    Ok(())
}
