//! Jobs: what they are given, what is said of them, and what plans and profiles say before.
use super::acts::{ARGS, BOTH, BYTES, COPIES, DIES, HELLO, LEAVES, QUIET, TALKS, WHERE};
use super::scene::{Case, Open, Scene, file, folder, host_path, path};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{JobStatus, Reason, SHA256_OF_NOTHING, Stdin};
use bailiwick_contract::policy::Policy;
use bailiwick_contract::provider::{Ports, ProviderError, Recovered, Slots};

pub(super) fn the_facts_of_an_outcome_add_up(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let outcome = scene.act(BOTH)?.outcome;
    let output = &outcome.output;
    same!(output.bytes, output.stdout_bytes + output.stderr_bytes, "the streams");
    same!((output.bytes, output.stderr_bytes, output.lines), (18, 4, 3), "the figures");
    same!(output.kept, output.bytes, "what is kept within the budget");
    holds!(Digest::parse(&output.sha256).is_some(), "a digest: {}", output.sha256);
    holds!(outcome.finished_at > outcome.started_at, "it took time: {outcome:?}");
    let lasted = outcome.finished_at.as_micros() - outcome.started_at.as_micros();
    let wall = outcome.usage.wall_time_us;
    holds!(wall > 0 && wall <= lasted + 1_000_000, "{wall} us of {lasted} us");
    let quiet = scene.act(QUIET)?.outcome.output;
    same!((quiet.bytes, quiet.sha256.as_str()), (0, SHA256_OF_NOTHING), "of nothing");
    Ok(())
}

pub(super) fn a_signal_is_told_by_shell_convention(case: &dyn Case) -> Told {
    let outcome = Scene::new(case)?.act(DIES)?.outcome;
    same!((outcome.status, outcome.reason), (JobStatus::Failure, None), "the end");
    same!((outcome.exit_status, outcome.signal), (Some(139), Some(11)), "its status");
    Ok(())
}

pub(super) fn an_outcome_is_recovered_by_whoever_asks(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    let known = Recovered::Ended(Box::new(scene.run(&job)?.outcome));
    same!(scene.recover(&job.id)?, known, "what its own process finds");
    let other = scene.other().recover(&scene.id, &job.id, &scene.cx()).works("recover")?;
    same!(other, known, "what another process finds");
    Ok(())
}

pub(super) fn an_outcome_waits_until_it_is_on_record(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for act in [QUIET, HELLO] {
        let job = scene.job(act);
        let hold = scene.hold(Slots::One(1))?;
        let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
        let outcome = scene.provider.run(&scene.id, &job, ports, &scene.cx()).works("run")?;
        same!(scene.recover(&job.id)?, Recovered::Alive, "its caller is about to record it");
        drop(hold);
        // It was killed before it had: nothing is lost, also of a job that printed nothing.
        same!(scene.ended(&job.id)?, outcome, "what whoever comes next finds");
    }
    Ok(())
}

pub(super) fn a_job_starts_in_the_directory_that_was_named(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("d/e/f", "x")]).works("write")?;
    same!(scene.act(WHERE)?.bytes, b"/workspace\n", "without a name");
    let mut job = scene.job(WHERE);
    job.cwd = Some(path("d/e"));
    same!(scene.run(&job)?.bytes, b"/workspace/d/e\n", "with one");
    let mut job = scene.job(LEAVES);
    job.cwd = Some(path("d/e"));
    scene.run(&job)?;
    same!(scene.read("d/e/a").works("read")?, b"12345", "what it leaves there");
    Ok(())
}

pub(super) fn a_directory_that_is_not_there_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("plain", "x")]).works("write")?;
    for at in ["nowhere", "plain", "plain/below"] {
        let mut job = scene.job(WHERE);
        job.cwd = Some(path(at));
        let ran = scene.try_run(&job, &mut Open)?;
        refused!(ran, ProviderError::WorkingDirectory { .. }, "starting in `{at}`");
    }
    Ok(())
}

pub(super) fn a_directory_behind_a_link_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    std::os::unix::fs::symlink("/etc", scene.tree().join("out")).works("plant a link")?;
    let mut job = scene.job(WHERE);
    job.cwd = Some(path("out"));
    let ran = scene.try_run(&job, &mut Open)?;
    refused!(ran, ProviderError::WorkingDirectory { .. }, "starting behind a link");
    Ok(())
}

fn fed(scene: &Scene<'_>, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let from = scene.place.home.with_file_name("input");
    std::fs::write(&from, bytes).works("write an input")?;
    let mut job = scene.job(COPIES);
    job.stdin = Stdin::File(host_path(&from));
    let done = scene.run(&job)?;
    same!(done.outcome.status, JobStatus::Success, "the end");
    Ok(done.bytes)
}

pub(super) fn standard_input_is_read_to_its_end(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for bytes in [&b"a line\nand \xff\xfe\0 more"[..], b""] {
        same!(fed(&scene, bytes)?, bytes, "what arrived");
    }
    Ok(())
}

pub(super) fn a_large_standard_input_arrives_whole(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let bytes: Vec<u8> =
        (0..5_000_000_u32).flat_map(|n| n.to_le_bytes().into_iter().take(1)).collect();
    holds!(fed(&scene, &bytes)? == bytes, "more than any pipe holds");
    Ok(())
}

pub(super) fn a_job_without_standard_input_reads_its_end(case: &dyn Case) -> Told {
    let done = Scene::new(case)?.act(COPIES)?;
    same!((done.outcome.status, done.bytes.len()), (JobStatus::Success, 0), "the end");
    Ok(())
}

pub(super) fn standard_input_that_is_not_there_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for at in [scene.place.home.join("nothing"), scene.place.home.clone()] {
        let mut job = scene.job(COPIES);
        job.stdin = Stdin::File(host_path(&at));
        let ran = scene.try_run(&job, &mut Open)?;
        refused!(ran, ProviderError::Stdin { .. }, "reading {}", at.display());
        same!(scene.recover(&job.id)?, Recovered::Lost, "what is left of it");
    }
    Ok(())
}

pub(super) fn an_argument_need_not_be_text(case: &dyn Case) -> Told {
    same!(Scene::new(case)?.act(BYTES)?.bytes, b"a\xff\xfeb", "what the job saw");
    Ok(())
}

pub(super) fn an_argument_keeps_its_spaces_and_its_emptiness(case: &dyn Case) -> Told {
    same!(Scene::new(case)?.act(ARGS)?.bytes, b"<><a b><--x><*>", "what the job saw");
    Ok(())
}

pub(super) fn an_id_may_be_as_odd_as_the_contract_allows(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let long = "x".repeat(64);
    for text in ["0", "a..b", "A-_.", "job.0", long.as_str()] {
        let workspace = scene.create(text).works("create")?;
        same!(scene.provider.is_present(&workspace).works("look")?, true, "workspace {text}");
        let mut job = scene.job(HELLO);
        job.id = JobId::parse(text).works("make an id")?;
        same!(scene.run(&job)?.bytes, b"hello\n", "job {text}");
        scene.provider.discard_output(&job.id, &scene.cx()).works("discard")?;
        scene.provider.remove(&workspace, &scene.cx()).works("remove")?;
    }
    Ok(())
}

pub(super) fn a_cancelled_caller_ends_its_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    let outcome = std::thread::scope(|threads| {
        threads.spawn(|| {
            // Whatever comes of the wait, the job has to end.
            scene.printed(&job.id, b"ready\n").ok();
            scene.cancel.cancel();
        });
        scene.try_run(&job, &mut Open)
    })?
    .works("run")?;
    same!(
        (outcome.status, outcome.reason),
        (JobStatus::Cancelled, Some(Reason::Stopped)),
        "the end"
    );
    Ok(())
}

pub(super) fn a_plan_has_steps_and_makes_nothing(case: &dyn Case) -> Told {
    let scene = Scene::empty(case, &Policy::default())?;
    let before = folder(&scene.place.home);
    let steps = scene.provider.plan(&scene.spec("ws-planned"), &scene.cx()).works("plan")?;
    holds!(!steps.is_empty(), "there are steps");
    holds!(
        steps.iter().all(|step| !step.is_empty() && !step.contains('\n')),
        "one a line: {steps:?}"
    );
    same!(scene.provider.is_present(&scene.id).works("look")?, false, "the workspace");
    let tree = scene.case.tree(&scene.place, "ws-planned");
    holds!(!tree.exists(), "no disk was made");
    let made: Vec<_> =
        folder(&scene.place.home).into_iter().filter(|name| !before.contains(name)).collect();
    holds!(made.iter().all(|name| name != "disks" && name != "jobs"), "what was made: {made:?}");
    Ok(())
}

pub(super) fn a_profile_is_known_or_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let refused = scene.provider.profile(Some("no-such\nprofile"), &scene.cx());
    let Err(ProviderError::UnknownProfile { name, known }) = refused else {
        return Err(format!("an unknown profile: {refused:?}"));
    };
    holds!(!name.contains('\n'), "the name is on one line: {name}");
    let default = scene.provider.profile(None, &scene.cx()).works("profile")?;
    holds!(known.contains(&default.name), "`{known}` names `{}`", default.name);
    Ok(())
}
