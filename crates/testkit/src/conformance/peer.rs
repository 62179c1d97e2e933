//! What the peer's own suite tries of a back end, tried of ours.
//!
//! The names and the words are ours; which promises there are is told by its documentation and by what it does.
use super::acts::{
    ABSENT, DISCREET, FAILS, FLOODS, HELLO, HUNGRY, MARKS, QUIET, SLOW, TALKS, TOKEN, UNRUNNABLE,
    WRITES,
};
use super::neutral;
use super::scene::{Case, Does, Full, Keeps, Open, Scene, entry, failing, file, path, shut};
use super::verdict::{Told, Whose, Works, holds, refused, same, whose};
use bailiwick_contract::bytes::Secret;
use bailiwick_contract::enforcement::{EffectivePolicy, Label};
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::{WsPath, WsPathError};
use bailiwick_contract::job::{EnvVar, JobOutcome, JobStatus, Reason};
use bailiwick_contract::policy::{Limit, Network, Policy};
use bailiwick_contract::provider::{
    EntryKind, EntrySource, Ports, ProviderError, Recovered, Removed, Slots, StopReply,
};
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) fn a_provider_answers_through_the_trait(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    same!(scene.provider.name(), case.name(), "its name");
    same!(scene.provider.is_present(&scene.id).works("look")?, true, "presence");
    scene.provider.plan(&scene.spec("ws-2"), &scene.cx()).works("plan").map(drop)
}

pub(super) fn probe_is_typed_and_stable(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let first = scene.provider.capabilities(&scene.cx()).works("probe")?;
    let again = scene.provider.capabilities(&scene.cx()).works("probe")?;
    same!(again, first, "a second probe");
    let elsewhere = scene.other().capabilities(&scene.cx()).works("probe")?;
    same!(elsewhere, first, "a probe by another process");
    holds!(first.wall_clock.is_some() && first.output_bytes.is_some(), "it bounds jobs: {first:?}");
    let json = serde_json::to_string(&first).works("write it")?;
    same!(
        serde_json::from_str::<bailiwick_contract::enforcement::Capabilities>(&json)
            .works("read it")?,
        first,
        "what was written"
    );
    Ok(())
}

pub(super) fn create_makes_a_ready_workspace(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let seen = scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?;
    holds!(seen.present, "it is there: {seen:?}");
    same!(scene.names()?, Vec::<String>::new(), "what lies in it");
    same!(scene.act(QUIET)?.outcome.status, JobStatus::Success, "its first job");
    Ok(())
}

pub(super) fn create_refuses_a_duplicate(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("kept", "by the first")]).works("write")?;
    holds!(scene.create("ws-1").is_err(), "a used workspace was made again");
    same!(scene.read("kept").works("read")?, b"by the first", "what was in it");
    Ok(())
}

pub(super) fn create_honours_the_network(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    same!(scene.policy.policy.network, Network::Disabled, "the default");
    let offered = scene.provider.capabilities(&scene.cx()).works("probe")?;
    let wanted = Policy { network: Network::Enabled, ..Policy::default() };
    match (offered.network_enabled, Scene::empty(case, &wanted)) {
        (None, Ok(_)) => Err("a network that is not offered was granted".into()),
        (None, Err(_)) => Ok(()),
        (Some(held), open) => {
            let open = open?;
            open.create("ws-1").works("create")?;
            same!(open.policy.enforcement(Limit::Network), held, "how it is held");
            Ok(())
        }
    }
}

pub(super) fn inspect_says_the_same_twice(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("a", "12345")]).works("write")?;
    let first = scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?;
    same!(scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?, first, "a second look");
    same!(scene.other().inspect(&scene.id, &scene.cx()).works("inspect")?, first, "another's look");
    same!(first.inodes, 1, "what is counted");
    Ok(())
}

fn nobody() -> WorkspaceId {
    WorkspaceId::parse("ws-nobody").expect("an id")
}

pub(super) fn inspect_of_an_unknown_workspace_says_that_it_is_absent(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let seen = scene.provider.inspect(&nobody(), &scene.cx()).works("inspect")?;
    same!((seen.present, seen.storage_bytes, seen.inodes), (false, 0, 0), "what it says");
    same!(scene.provider.is_present(&nobody()).works("look")?, false, "presence");
    Ok(())
}

pub(super) fn what_describes_a_workspace_survives_json(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let json = serde_json::to_string(&scene.policy).works("write it")?;
    same!(
        serde_json::from_str::<EffectivePolicy>(&json).works("read it")?,
        scene.policy,
        "the policy"
    );
    let profile = scene.provider.profile(None, &scene.cx()).works("profile")?;
    let again = scene.provider.profile(Some(&profile.name), &scene.cx()).works("profile")?;
    same!(again, profile, "the profile by its name");
    Ok(())
}

pub(super) fn run_success_says_what_was_printed(case: &dyn Case) -> Told {
    let done = Scene::new(case)?.act(HELLO)?;
    same!(
        (done.outcome.status, done.outcome.exit_status),
        (JobStatus::Success, Some(0)),
        "the end"
    );
    same!(done.bytes, b"hello\n", "what was printed");
    Ok(())
}

pub(super) fn run_failure_is_never_infrastructure(case: &dyn Case) -> Told {
    let done = Scene::new(case)?.act(FAILS)?;
    let outcome = done.outcome;
    same!((outcome.status, outcome.exit_status), (JobStatus::Failure, Some(3)), "the end");
    same!((outcome.reason, outcome.detail), (None, None), "why");
    same!(done.bytes, b"oops\n", "what was printed");
    Ok(())
}

pub(super) fn run_of_an_absent_command_is_127(case: &dyn Case) -> Told {
    let outcome = Scene::new(case)?.act(ABSENT)?.outcome;
    same!((outcome.status, outcome.exit_status), (JobStatus::Failure, Some(127)), "the end");
    same!(outcome.reason, Some(Reason::CommandNotFound), "why");
    Ok(())
}

pub(super) fn run_of_an_unrunnable_command_is_126(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("plain", "no program")]).works("write")?;
    let outcome = scene.act(UNRUNNABLE)?.outcome;
    same!((outcome.status, outcome.exit_status), (JobStatus::Failure, Some(126)), "the end");
    same!(outcome.reason, Some(Reason::CommandNotExecutable), "why");
    Ok(())
}

pub(super) fn run_over_memory_is_resource_exhausted(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.memory_bytes = 64 << 20)?;
    let outcome = scene.act(HUNGRY)?.outcome;
    same!(
        (outcome.status, outcome.reason),
        (JobStatus::ResourceExhausted, Some(Reason::Memory)),
        "the end"
    );
    holds!(
        outcome.exit_status.is_some_and(|status| status != 0),
        "a status that is not 0: {:?}",
        outcome.exit_status
    );
    same!(scene.act(QUIET)?.outcome.status, JobStatus::Success, "the next job");
    Ok(())
}

pub(super) fn run_ends_in_a_known_status(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for (act, word) in [(QUIET, "success"), (FAILS, "failure"), (ABSENT, "failure")] {
        let status = scene.act(act)?.outcome.status;
        same!(status.name(), word, "the word");
        same!(serde_json::to_value(status).works("write it")?, word, "its wire form");
    }
    Ok(())
}

pub(super) fn run_in_an_unknown_workspace_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let hold = scene.hold(Slots::One(1))?;
    let job = scene.job(MARKS);
    let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
    let ran = scene.provider.run(&nobody(), &job, ports, &scene.cx());
    refused!(ran, ProviderError::NoWorkspace { .. }, "a job of nobody's");
    same!(scene.recover(&job.id)?, Recovered::Lost, "what is left of it");
    same!(scene.provider.is_present(&nobody()).works("look")?, false, "the workspace");
    Ok(())
}

pub(super) fn run_of_several_jobs_leaves_the_workspace_ready(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for act in [HELLO, FAILS, ABSENT, HELLO] {
        scene.act(act)?;
        holds!(scene.provider.is_present(&scene.id).works("look")?, "it is still there");
        // Free again for whoever comes next.
        drop(scene.hold(Slots::All(1))?);
    }
    same!(scene.act(HELLO)?.bytes, b"hello\n", "one more");
    Ok(())
}

pub(super) fn run_capture_is_capped_and_flagged(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.output_bytes = 1_000)?;
    let done = scene.act(FLOODS)?;
    let facts = done.outcome.output;
    same!((facts.bytes, facts.kept), (1_000_000, 1_000), "what was produced and kept");
    same!(done.bytes.len(), 1_000, "what can be read");
    same!(done.outcome.status, JobStatus::Success, "the end");
    Ok(())
}

pub(super) fn run_past_its_wall_clock_has_no_exit_status(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.wall_clock_ms = 500)?;
    let outcome = scene.act(SLOW)?.outcome;
    same!(
        (outcome.status, outcome.reason),
        (JobStatus::Timeout, Some(Reason::WallClock)),
        "the end"
    );
    same!((outcome.exit_status, outcome.signal), (None, None), "its status");
    Ok(())
}

pub(super) fn run_in_a_broken_back_end_is_infrastructure(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let broken = case.broken(&scene.place);
    let hold = scene.hold(Slots::One(1))?;
    let job = scene.job(MARKS);
    let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
    match broken.run(&scene.id, &job, ports, &scene.cx()) {
        Ok(outcome) => same!(outcome.status, JobStatus::InfrastructureFailure, "the end"),
        Err(error) => same!(whose(&error), Whose::Infrastructure, "whose it is: {error}"),
    }
    same!(scene.names()?, Vec::<String>::new(), "what it left");
    Ok(())
}

const SECRET: &str = "hunter2-hunter2-hunter2";

fn token() -> Vec<EnvVar> {
    vec![EnvVar { name: "TOKEN".into(), value: Secret::new(SECRET.into()) }]
}

pub(super) fn env_left_out_is_an_empty_env(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let left_out = scene.act(TOKEN)?;
    let mut other = scene.job(TOKEN);
    other.env = vec![EnvVar { name: "OTHER".into(), value: Secret::new(SECRET.into()) }];
    let other = scene.run(&other)?;
    same!(left_out.bytes, b"\n", "what it sees");
    same!(
        (other.bytes, other.outcome.status),
        (left_out.bytes, left_out.outcome.status),
        "with another variable"
    );
    Ok(())
}

pub(super) fn env_is_in_nothing_that_is_returned(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut job = scene.job(DISCREET);
    job.env = token();
    let done = scene.run(&job)?;
    same!(done.bytes, b"seen\n", "what the job says");
    let told = [
        format!("{job:?}"),
        format!("{:?}", done.outcome),
        serde_json::to_string(&done.outcome).works("write it")?,
        format!("{:?}", scene.recover(&job.id)?),
        format!("{:?}", scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?),
        format!("{:?}", scene.provider.kept_outputs(&scene.cx()).works("list outputs")?),
    ];
    for text in told {
        holds!(!text.contains(SECRET), "the value is in {text}");
    }
    Ok(())
}

pub(super) fn env_outlives_no_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut job = scene.job(DISCREET);
    job.env = token();
    scene.run(&job)?;
    same!(scene.act(TOKEN)?.bytes, b"\n", "what the next job sees");
    same!(scene.home_holds(SECRET.as_bytes()), Vec::<std::path::PathBuf>::new(), "files with it");
    Ok(())
}

pub(super) fn read_gives_the_exact_bytes(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(WRITES)?;
    let wanted = b"0123456\n".repeat(375_000);
    holds!(scene.read("out.bin").works("read")? == wanted, "what the job wrote");
    Ok(())
}

pub(super) fn read_comes_in_bounded_chunks(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(WRITES)?;
    let mut sink = Keeps::default();
    scene.provider.read(&scene.id, &path("out.bin"), &mut sink, &scene.cx()).works("read")?;
    same!(sink.bytes.len(), 3_000_000, "all of it");
    holds!((1..=1 << 20).contains(&sink.largest), "chunks of at most 1 MiB: {}", sink.largest);
    Ok(())
}

pub(super) fn read_that_is_abandoned_releases(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(WRITES)?;
    for _ in 0..50 {
        let mut sink = Full { bytes: Vec::new(), room: 1 };
        let read = scene.provider.read(&scene.id, &path("out.bin"), &mut sink, &scene.cx());
        refused!(read, ProviderError::Peer(_), "a full sink");
    }
    let name = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).ok();
    let open = std::fs::read_dir("/proc/self/fd").works("look at the descriptors")?;
    let left: Vec<_> =
        open.flatten().filter_map(name).filter(|at| at.starts_with(scene.tree())).collect();
    same!(left, Vec::<std::path::PathBuf>::new(), "what is still open");
    same!(scene.provider.remove(&scene.id, &scene.cx()).works("remove")?, Removed::Gone, "removal");
    Ok(())
}

pub(super) fn read_of_a_missing_path_is_the_callers_mistake(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for at in ["nothing", "no/such/file"] {
        let Err(error) = scene.read(at) else { return Err(format!("{at} was read")) };
        same!(whose(&error), Whose::Caller, "whose it is: {error}");
        holds!(error.to_string().contains(at), "it names the path: {error}");
    }
    Ok(())
}

pub(super) fn read_in_an_unknown_workspace_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let read = scene.provider.read(&nobody(), &path("a"), &mut Keeps::default(), &scene.cx());
    refused!(read, ProviderError::NoWorkspace { .. }, "a file of nobody's");
    Ok(())
}

pub(super) fn read_of_an_escaping_path_is_refused(case: &dyn Case) -> Told {
    same!(WsPath::parse(b"../up"), Err(WsPathError::Escapes), "a path that climbs");
    same!(WsPath::parse(b"/etc/passwd"), Err(WsPathError::Absolute), "an absolute path");
    let scene = Scene::new(case)?;
    std::os::unix::fs::symlink("/etc", scene.tree().join("out")).works("plant a link")?;
    std::os::unix::fs::symlink("..", scene.tree().join("up")).works("plant a link")?;
    for at in ["out/passwd", "up/anything", "out"] {
        let Err(error) = scene.read(at) else { return Err(format!("{at} was read")) };
        same!(whose(&error), Whose::Caller, "whose it is: {error}");
    }
    Ok(())
}

pub(super) fn read_in_a_broken_back_end_is_infrastructure(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("a", "a")]).works("write")?;
    std::fs::remove_dir_all(scene.tree()).works("break the disk")?;
    std::fs::write(scene.tree(), "no directory").works("break the disk")?;
    let Err(error) = scene.read("a") else { return Err("it was read".into()) };
    same!(whose(&error), Whose::Infrastructure, "whose it is: {error:?}");
    Ok(())
}

pub(super) fn write_lands(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let large = b"0123456\n".repeat(100_000);
    scene.write(vec![file("a", "12345"), file("d/e/large", &large)]).works("write")?;
    same!(scene.read("a").works("read")?, b"12345", "a small one");
    holds!(scene.read("d/e/large").works("read")? == large, "a large one");
    same!(scene.names()?, ["a", "d", "d/e", "d/e/large"], "what lies there");
    Ok(())
}

pub(super) fn write_takes_any_source(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let mut count = 0;
    // Made one by one while the batch is written, and each read in pieces that fit nothing.
    let mut entries = std::iter::from_fn(|| {
        count += 1;
        let made = file(&format!("f{count}"), vec![b'x'; count * 5_000]);
        (count <= 5).then(|| Box::new(made) as Box<dyn EntrySource>)
    });
    let written = scene.provider.write(&scene.id, &mut entries, false, &mut Open, &scene.cx());
    written.works("write")?;
    same!(scene.read("f5").works("read")?.len(), 25_000, "the last one");
    same!(scene.names()?.len(), 5, "how many");
    Ok(())
}

pub(super) fn write_of_a_source_that_fails_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let written = scene.write(vec![file("a", "a"), failing("b", "half")]);
    refused!(written, ProviderError::Peer(_), "half a source");
    same!(scene.names()?, Vec::<String>::new(), "what landed");
    Ok(())
}

pub(super) fn write_of_what_was_not_announced_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    // A source that notices only at its end, as one that compares a digest does.
    let written = scene.write(vec![failing("d/large", vec![b'x'; 1_000_000])]);
    let Err(error) = written else { return Err("it was written".into()) };
    same!(whose(&error), Whose::Peer, "whose it is: {error:?}");
    same!(scene.names()?, Vec::<String>::new(), "what landed");
    Ok(())
}

pub(super) fn write_over_something_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("a", "first")]).works("write")?;
    refused!(scene.write(vec![file("a", "second")]), ProviderError::Exists { .. }, "the same path");
    same!(scene.read("a").works("read")?, b"first", "what is there");
    Ok(())
}

pub(super) fn write_overwrites_when_asked(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("a", "first and longer")]).works("write")?;
    scene.write_with(vec![file("a", "second")], true, &mut Open, &scene.cx()).works("overwrite")?;
    same!(scene.read("a").works("read")?, b"second", "what is there");
    Ok(())
}

pub(super) fn write_of_an_escaping_path_is_refused(case: &dyn Case) -> Told {
    same!(WsPath::parse(b"a/../../b"), Err(WsPathError::Escapes), "a path that climbs");
    let scene = Scene::new(case)?;
    let outside = scene.place.home.with_file_name("outside");
    std::fs::create_dir(&outside).works("make a folder")?;
    std::os::unix::fs::symlink(&outside, scene.tree().join("out")).works("plant a link")?;
    let Err(error) = scene.write(vec![file("out/planted", "x")]) else {
        return Err("it was written".into());
    };
    same!(whose(&error), Whose::Caller, "whose it is: {error:?}");
    same!(super::scene::folder(&outside), Vec::<String>::new(), "what lies outside");
    Ok(())
}

pub(super) fn write_in_an_unknown_workspace_is_refused(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let kind = EntryKind::File { mode: 0o644, mtime: 0 };
    let mut entries = std::iter::once(Box::new(entry("a", kind, "a")) as Box<dyn EntrySource>);
    let mut gate = Does(shut);
    let written = scene.provider.write(&nobody(), &mut entries, false, &mut gate, &scene.cx());
    refused!(written, ProviderError::NoWorkspace { .. }, "a workspace of nobody's");
    same!(scene.provider.is_present(&nobody()).works("look")?, false, "the workspace");
    Ok(())
}

pub(super) fn stop_with_nothing_running_is_a_fact(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = JobId::parse("job-never").expect("an id");
    let reply = scene.provider.stop(&job, Duration::ZERO, &scene.cx()).works("stop")?;
    same!(reply, StopReply::NotRunning, "the answer");
    Ok(())
}

pub(super) fn stop_after_the_end_is_a_fact(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    let before = scene.run(&job)?;
    let reply = scene.provider.stop(&job.id, Duration::ZERO, &scene.cx()).works("stop")?;
    same!(reply, StopReply::NotRunning, "the answer");
    same!(scene.recover(&job.id)?, Recovered::Ended(Box::new(before.outcome)), "the outcome");
    Ok(())
}

pub(super) fn stop_changes_no_state(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.write(vec![file("a", "a")]).works("write")?;
    let before = scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    scene.end(&job.id)?;
    let after = scene.provider.inspect(&scene.id, &scene.cx()).works("inspect")?;
    same!((after.present, after.inodes), (before.present, before.inodes), "the workspace");
    same!(scene.read("a").works("read")?, b"a", "what is in it");
    Ok(())
}

pub(super) fn stop_of_an_unknown_job_is_a_fact(case: &dyn Case) -> Told {
    let scene = Scene::empty(case, &Policy::default())?;
    let job = JobId::parse("job-of-nobody").expect("an id");
    let reply = scene.provider.stop(&job, Duration::from_secs(60), &scene.cx()).works("stop")?;
    same!(reply, StopReply::NotRunning, "the answer");
    Ok(())
}

pub(super) fn stop_has_an_outcome_that_survives_json(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    let reply = scene.provider.stop(&job.id, Duration::from_secs(60), &scene.cx()).works("stop")?;
    same!(reply, StopReply::Stopped, "the answer");
    let outcome = scene.ended(&job.id)?;
    same!((outcome.status, outcome.exit_status), (JobStatus::Cancelled, None), "the end");
    let json = serde_json::to_string(&outcome).works("write it")?;
    same!(serde_json::from_str::<JobOutcome>(&json).works("read it")?, outcome, "the outcome");
    Ok(())
}

pub(super) fn remove_reports_what_it_did(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    same!(scene.provider.remove(&scene.id, &scene.cx()).works("remove")?, Removed::Gone, "first");
    same!(
        scene.provider.remove(&scene.id, &scene.cx()).works("remove")?,
        Removed::WasAbsent,
        "again"
    );
    same!(
        scene.provider.remove(&nobody(), &scene.cx()).works("remove")?,
        Removed::WasAbsent,
        "nobody's"
    );
    Ok(())
}

pub(super) fn remove_works_after_jobs(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for act in [MARKS, WRITES, FAILS, super::acts::LEAVES] {
        scene.act(act)?;
    }
    same!(scene.provider.remove(&scene.id, &scene.cx()).works("remove")?, Removed::Gone, "removal");
    Ok(())
}

pub(super) fn remove_leaves_nothing(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    scene.act(MARKS)?;
    let tree = scene.tree();
    holds!(tree.is_dir(), "the disk is where it is looked for");
    scene.provider.remove(&scene.id, &scene.cx()).works("remove")?;
    holds!(!tree.exists(), "the disk is gone");
    holds!(!tree.parent().is_some_and(std::path::Path::exists), "and what held it");
    same!(scene.provider.is_present(&scene.id).works("look")?, false, "presence");
    refused!(scene.read("ran"), ProviderError::NoWorkspace { .. }, "reading");
    let held = scene.provider.hold(&scene.id, Slots::One(1));
    refused!(held, ProviderError::NoWorkspace { .. }, "holding");
    Ok(())
}

pub(super) fn nothing_that_leaves_names_the_back_end(case: &dyn Case) -> Told {
    neutral::walk(case)
}

pub(super) fn every_field_is_written(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for act in [QUIET, FAILS, ABSENT] {
        let json = serde_json::to_value(scene.act(act)?.outcome).works("write it")?;
        let keys = |value: &serde_json::Value| -> BTreeSet<String> {
            value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
        };
        same!(keys(&json), OUTCOME.map(String::from).into(), "an outcome");
        same!(keys(&json["usage"]), USAGE.map(String::from).into(), "what it used");
        same!(keys(&json["output"]), OUTPUT.map(String::from).into(), "its output");
    }
    let held =
        scene.policy.measured().all(|limit| scene.policy.facts(limit).label == Label::Measured);
    holds!(held, "each limit says how it is held");
    same!(ExitCode::InfrastructureFailure as u8, 7, "what a broken back end ends with");
    Ok(())
}

const OUTCOME: [&str; 12] = [
    "checks",
    "detail",
    "exit_status",
    "finished_at",
    "measurements",
    "output",
    "quota_events",
    "reason",
    "signal",
    "started_at",
    "status",
    "usage",
];

const USAGE: [&str; 8] = [
    "cpu_basis",
    "cpu_us",
    "memory_basis",
    "memory_bytes_max",
    "memory_overshoot_bytes",
    "storage_bytes",
    "storage_overshoot_bytes",
    "wall_time_us",
];

const OUTPUT: [&str; 7] =
    ["bytes", "encoding", "kept", "lines", "sha256", "stderr_bytes", "stdout_bytes"];
