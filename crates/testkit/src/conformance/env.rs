//! Forwarded variables: they reach their job, and nothing else.
use super::acts::{DISCREET, TOKEN};
use super::scene::{Case, Open, Scene, until};
use super::verdict::{Told, Works, same};
use bailiwick_contract::bytes::Secret;
use bailiwick_contract::job::EnvVar;
use bailiwick_contract::provider::{Ports, Slots};
use std::path::PathBuf;

fn var(value: &[u8]) -> Vec<EnvVar> {
    vec![EnvVar { name: "TOKEN".into(), value: Secret::new(value.to_vec()) }]
}

pub(super) fn a_forwarded_variable_reaches_its_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for value in [&b"a value"[..], b"two\nlines", b"no \xff text", b""] {
        let mut job = scene.job(TOKEN);
        job.env = var(value);
        same!(scene.run(&job)?.bytes, [value, b"\n"].concat(), "what the job saw");
    }
    Ok(())
}

pub(super) fn a_value_of_a_variable_lies_in_no_file(case: &dyn Case) -> Told {
    const SECRET: &[u8] = b"hunter2-in-no-file";
    let scene = Scene::new(case)?;
    let mut job = scene.job(DISCREET);
    job.env = var(SECRET);
    let hold = scene.hold(Slots::One(1))?;
    let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
    scene.provider.launch(&scene.id, &job, ports, &scene.cx()).works("launch")?;
    same!(scene.home_holds(SECRET), Vec::<PathBuf>::new(), "files while it may run");
    drop(hold);
    until(|| Ok((scene.kept(&job.id)? == b"seen\n").then_some(())), "it has said so")?;
    scene.ended(&job.id)?;
    same!(scene.home_holds(SECRET), Vec::<PathBuf>::new(), "files afterwards");
    Ok(())
}
