//! Captured output: whole, in part, of one stream, as it comes, and until it is discarded.
use super::acts::{BOTH, BYTES, COUNTS, FLOODS, HELLO, QUIET, TALKS};
use super::scene::{Case, Full, Keeps, Open, Scene, until};
use super::verdict::{Told, Works, holds, refused, same};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::context::CancelToken;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{Encoding, JobSpec, JobStatus};
use bailiwick_contract::provider::{
    Followed, OutputBytes, OutputPart, Ports, ProviderError, Recovered, Slots, Streams,
};
use sha2::{Digest as _, Sha256};
use std::time::Duration;

/// What [`FLOODS`] prints.
fn flood() -> Vec<u8> {
    b"abcdefg\n".repeat(125_000)
}

/// A job that printed 1 000 000 bytes, of which 1 000 are kept.
fn flooded(case: &dyn Case) -> Result<(Scene<'_>, JobId), String> {
    let scene = Scene::with(case, |policy| policy.budget.output_bytes = 1_000)?;
    let job = scene.job(FLOODS);
    scene.run(&job)?;
    Ok((scene, job.id))
}

fn bytes(head: &[u8], omitted: u64, tail: &[u8]) -> OutputBytes {
    OutputBytes { head: head.into(), omitted, tail: tail.into() }
}

pub(super) fn kept_output_is_what_was_printed(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FLOODS);
    let done = scene.run(&job)?;
    holds!(done.bytes == flood(), "all of it");
    holds!(scene.stream(&job.id, Streams::Both)? == flood(), "streamed");
    same!(done.outcome.output.encoding, Encoding::Utf8, "its encoding");
    Ok(())
}

pub(super) fn a_range_is_those_bytes(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FLOODS);
    scene.run(&job)?;
    for (start, end) in [(0, 5), (3, 70_001), (131_071, 262_145), (999_990, 1_000_000)] {
        let part = scene.part(&job.id, OutputPart::Range { start, end })?;
        let wanted = flood()
            [usize::try_from(start).expect("small")..usize::try_from(end).expect("small")]
            .to_vec();
        holds!(
            part == bytes(&wanted, 0, b""),
            "{start}..{end} is {} bytes",
            part.head.as_bytes().len()
        );
    }
    Ok(())
}

pub(super) fn a_range_beyond_the_end_is_empty(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    scene.run(&job)?;
    for (start, end) in [(6, 10), (100, u64::MAX), (3, 3), (5, 2)] {
        same!(
            scene.part(&job.id, OutputPart::Range { start, end })?,
            OutputBytes::default(),
            "{start}..{end}"
        );
    }
    same!(
        scene.part(&job.id, OutputPart::Range { start: 4, end: 100 })?,
        bytes(b"o\n", 0, b""),
        "over the end"
    );
    Ok(())
}

pub(super) fn a_range_over_what_was_dropped_says_so(case: &dyn Case) -> Told {
    let (scene, job) = flooded(case)?;
    let all = flood();
    let part = scene.part(&job, OutputPart::Range { start: 490, end: 999_510 })?;
    same!(part, bytes(&all[490..500], 999_000, &all[999_500..999_510]), "around the gap");
    let into = scene.part(&job, OutputPart::Range { start: 999_000, end: 999_510 })?;
    same!(into, bytes(b"", 500, &all[999_500..999_510]), "from it into the tail");
    let inside = scene.part(&job, OutputPart::Range { start: 600, end: 800 })?;
    same!(inside, bytes(b"", 200, b""), "inside it");
    Ok(())
}

pub(super) fn a_range_in_the_tail_is_found(case: &dyn Case) -> Told {
    let (scene, job) = flooded(case)?;
    let part = scene.part(&job, OutputPart::Range { start: 999_600, end: 999_700 })?;
    same!(part, bytes(b"", 0, &flood()[999_600..999_700]), "a part of the tail");
    Ok(())
}

pub(super) fn head_and_tail_are_the_ends(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FLOODS);
    scene.run(&job)?;
    let part = scene.part(&job.id, OutputPart::HeadTail { head: 10, tail: 5 })?;
    let all = flood();
    same!(part, bytes(&all[..10], 999_985, &all[999_995..]), "both ends");
    let part = scene.part(&job.id, OutputPart::HeadTail { head: 10, tail: 0 })?;
    same!(part, bytes(&all[..10], 999_990, b""), "the head");
    let part = scene.part(&job.id, OutputPart::HeadTail { head: 0, tail: 5 })?;
    same!(part, bytes(b"", 999_995, &all[999_995..]), "the tail");
    Ok(())
}

pub(super) fn head_and_tail_that_meet_are_all(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    scene.run(&job)?;
    for (head, tail) in [(3, 3), (100, 100), (6, 0), (5, 1)] {
        let part = scene.part(&job.id, OutputPart::HeadTail { head, tail })?;
        let all = [part.head.as_bytes(), part.tail.as_bytes()].concat();
        same!((all.as_slice(), part.omitted), (&b"hello\n"[..], 0), "{head} and {tail}");
    }
    Ok(())
}

pub(super) fn a_flood_keeps_both_ends(case: &dyn Case) -> Told {
    let (scene, job) = flooded(case)?;
    let all = flood();
    let kept = scene.part(&job, OutputPart::Kept)?;
    same!(kept, bytes(&all[..500], 999_000, &all[999_500..]), "what is kept");
    let part = scene.part(&job, OutputPart::HeadTail { head: 8, tail: 8 })?;
    same!(part, bytes(&all[..8], 999_984, &all[999_992..]), "parts of it");
    same!(scene.stream(&job, Streams::Both)?, [&all[..500], &all[999_500..]].concat(), "streamed");
    Ok(())
}

pub(super) fn the_digest_is_that_of_what_is_kept(case: &dyn Case) -> Told {
    let (scene, job) = flooded(case)?;
    let Recovered::Ended(outcome) = scene.recover(&job)? else {
        return Err("it is not over".into());
    };
    let digest: [u8; 32] = Sha256::digest(scene.kept(&job)?).into();
    same!(outcome.output.sha256, Digest::new(digest).to_string(), "the digest");
    Ok(())
}

pub(super) fn a_budget_of_one_byte_keeps_the_last(case: &dyn Case) -> Told {
    let scene = Scene::with(case, |policy| policy.budget.output_bytes = 1)?;
    let job = scene.job(HELLO);
    let facts = scene.run(&job)?.outcome.output;
    same!((facts.bytes, facts.kept), (6, 1), "the facts");
    same!(scene.part(&job.id, OutputPart::Kept)?, bytes(b"", 5, b"\n"), "what is kept");
    Ok(())
}

pub(super) fn each_stream_is_told_apart(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(BOTH);
    let facts = scene.run(&job)?.outcome.output;
    same!((facts.stdout_bytes, facts.stderr_bytes), (14, 4), "the facts");
    same!(scene.stream(&job.id, Streams::Stdout)?, b"out\nout again\n", "standard output");
    same!(scene.stream(&job.id, Streams::Stderr)?, b"err\n", "standard error");
    let mut both = scene.stream(&job.id, Streams::Both)?;
    both.sort_unstable();
    let mut wanted = b"out\nerr\nout again\n".to_vec();
    wanted.sort_unstable();
    same!(both, wanted, "both");
    Ok(())
}

pub(super) fn a_stream_is_told_apart_once_the_job_has_ended(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    let mut sink = Keeps::default();
    let early = scene.provider.stream_output(&job.id, Streams::Stderr, &mut sink, &scene.cx());
    holds!(early.is_err() && sink.bytes.is_empty(), "one stream of a job in flight was given");
    same!(scene.stream(&job.id, Streams::Both)?, b"ready\n", "both of them");
    scene.end(&job.id)?;
    scene.ended(&job.id)?;
    same!(scene.stream(&job.id, Streams::Stdout)?, b"ready\n", "standard output afterwards");
    same!(scene.stream(&job.id, Streams::Stderr)?, Vec::<u8>::new(), "standard error afterwards");
    Ok(())
}

pub(super) fn bytes_that_are_no_text_are_kept(case: &dyn Case) -> Told {
    let done = Scene::new(case)?.act(BYTES)?;
    same!(done.bytes, b"a\xff\xfeb", "the bytes");
    let facts = done.outcome.output;
    same!((facts.encoding, facts.lines, facts.bytes), (Encoding::Binary, 0, 4), "the facts");
    Ok(())
}

pub(super) fn a_job_that_prints_nothing_has_no_output(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(QUIET);
    scene.run(&job)?;
    for part in [
        OutputPart::Kept,
        OutputPart::Range { start: 0, end: 9 },
        OutputPart::HeadTail { head: 1, tail: 1 },
    ] {
        same!(scene.part(&job.id, part)?, OutputBytes::default(), "{part:?}");
    }
    same!(scene.stream(&job.id, Streams::Stdout)?, Vec::<u8>::new(), "streamed");
    let followed = scene
        .provider
        .follow_output(&job.id, 0, &mut Keeps::default(), &scene.cx())
        .works("follow")?;
    same!(followed, Followed { next: 0, omitted: 0, ended: true }, "followed");
    same!(scene.provider.kept_outputs(&scene.cx()).works("list")?, Vec::new(), "the outputs");
    Ok(())
}

pub(super) fn streaming_ends_with_its_sink(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FLOODS);
    scene.run(&job)?;
    let mut sink = Full { bytes: Vec::new(), room: 1 };
    let streamed = scene.provider.stream_output(&job.id, Streams::Both, &mut sink, &scene.cx());
    refused!(streamed, ProviderError::Peer(_), "a full sink");
    holds!(flood().starts_with(&sink.bytes) && !sink.bytes.is_empty(), "it has a prefix");
    holds!(scene.kept(&job.id)? == flood(), "the output is as it was");
    Ok(())
}

pub(super) fn streaming_can_be_cancelled(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FLOODS);
    scene.run(&job)?;
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let mut sink = Keeps::default();
    let cx = scene.cx_of(&cancelled);
    let streamed = scene.provider.stream_output(&job.id, Streams::Both, &mut sink, &cx);
    refused!(streamed, ProviderError::Interrupted(_), "a cancelled caller");
    Ok(())
}

/// Follows from `from` and returns what came, and what was said of it.
fn follow(scene: &Scene<'_>, job: &JobId, from: u64) -> Result<(Vec<u8>, Followed), String> {
    let mut sink = Keeps::default();
    let followed =
        scene.provider.follow_output(job, from, &mut sink, &scene.cx()).works("follow")?;
    Ok((sink.bytes, followed))
}

pub(super) fn following_gives_what_is_there_and_never_waits(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    let wanted = Followed { next: 6, omitted: 0, ended: false };
    same!(follow(&scene, &job.id, 0)?, (b"ready\n".to_vec(), wanted), "from the start");
    same!(follow(&scene, &job.id, 2)?, (b"ady\n".to_vec(), wanted), "from the middle");
    same!(follow(&scene, &job.id, 6)?, (Vec::new(), wanted), "from the end");
    scene.end(&job.id)?;
    scene.ended(&job.id)?;
    let wanted = Followed { ended: true, ..wanted };
    same!(follow(&scene, &job.id, 6)?, (Vec::new(), wanted), "after the end");
    Ok(())
}

pub(super) fn following_goes_on_where_it_stopped(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(COUNTS);
    scene.launch(&job)?;
    let (mut all, mut from) = (Vec::new(), 0);
    until(
        || {
            let (bytes, followed) = follow(&scene, &job.id, from)?;
            same!(followed.next, from + bytes.len() as u64, "where it goes on");
            all.extend(bytes);
            from = followed.next;
            Ok(followed.ended.then_some(()))
        },
        "it has ended",
    )?;
    same!(all, b"one\ntwo\n", "what came");
    same!(scene.ended(&job.id)?.status, JobStatus::Success, "the end");
    Ok(())
}

pub(super) fn following_a_flood_says_what_was_dropped(case: &dyn Case) -> Told {
    let (scene, job) = flooded(case)?;
    let all = flood();
    let (bytes, followed) = follow(&scene, &job, 0)?;
    same!(followed, Followed { next: 1_000_000, omitted: 999_000, ended: true }, "from the start");
    same!(bytes, [&all[..500], &all[999_500..]].concat(), "what is kept");
    let (bytes, followed) = follow(&scene, &job, 700_000)?;
    same!((bytes.as_slice(), followed.omitted), (&all[999_500..], 299_500), "from the gap");
    Ok(())
}

pub(super) fn following_ends_with_its_sink(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(FLOODS);
    scene.run(&job)?;
    let mut sink = Full { bytes: Vec::new(), room: 1 };
    let followed = scene.provider.follow_output(&job.id, 0, &mut sink, &scene.cx());
    refused!(followed, ProviderError::Peer(_), "a full sink");
    holds!(flood().starts_with(&sink.bytes), "it has a prefix");
    Ok(())
}

/// Runs a job whose output is given to `sink` while it runs.
fn watched(
    scene: &Scene<'_>,
    job: &JobSpec,
    sink: &mut dyn bailiwick_contract::provider::ByteSink,
) -> Result<JobStatus, String> {
    let hold = scene.hold(Slots::One(1))?;
    let ports = Ports { hold: &*hold, gate: &mut Open, live: Some(sink) };
    let outcome = scene.provider.run(&scene.id, job, ports, &scene.cx()).works("run")?;
    Ok(outcome.status)
}

pub(super) fn output_is_given_live_in_order(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    for (act, wanted) in [(COUNTS, &b"one\ntwo\n"[..]), (HELLO, b"hello\n")] {
        let mut sink = Keeps::default();
        same!(watched(&scene, &scene.job(act), &mut sink)?, JobStatus::Success, "the end");
        same!(sink.bytes, wanted, "what was given");
    }
    Ok(())
}

pub(super) fn a_live_sink_that_fails_ends_the_giving_and_not_the_job(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(COUNTS);
    let mut sink = Full { bytes: Vec::new(), room: 0 };
    same!(watched(&scene, &job, &mut sink)?, JobStatus::Success, "the end");
    same!(scene.kept(&job.id)?, b"one\ntwo\n", "what is kept");
    Ok(())
}

pub(super) fn output_outlives_its_workspace(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    scene.run(&job)?;
    scene.provider.remove(&scene.id, &scene.cx()).works("remove")?;
    same!(scene.kept(&job.id)?, b"hello\n", "what is kept");
    let other = scene.other().output(&job.id, OutputPart::Kept, &scene.cx()).works("read")?;
    same!(other, bytes(b"hello\n", 0, b""), "for another process");
    Ok(())
}

pub(super) fn kept_outputs_are_listed(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let (first, second) = (scene.job(HELLO), scene.job(FLOODS));
    let began = bailiwick_contract::context::Clock::now(scene.cx().clock);
    for job in [&first, &scene.job(QUIET), &second] {
        scene.run(job)?;
    }
    let mut kept = scene.provider.kept_outputs(&scene.cx()).works("list")?;
    kept.sort_by_key(|one| one.bytes);
    let found: Vec<_> = kept.iter().map(|one| &one.job).collect();
    same!(found, [&first.id, &second.id], "the jobs");
    holds!(kept[0].bytes >= 6 && kept[1].bytes >= 1_000_000, "their sizes: {kept:?}");
    // A file's time may be that of the last tick of the kernel's clock.
    let early = began.as_micros() - 2_000_000;
    holds!(kept.iter().all(|one| one.changed_at.as_micros() >= early), "their times: {kept:?}");
    Ok(())
}

pub(super) fn discarded_output_is_gone(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let (gone, stays) = (scene.job(HELLO), scene.job(HELLO));
    scene.run(&gone)?;
    scene.run(&stays)?;
    scene.provider.discard_output(&gone.id, &scene.cx()).works("discard")?;
    same!(scene.kept(&gone.id)?, Vec::<u8>::new(), "the one");
    same!(scene.kept(&stays.id)?, b"hello\n", "the other");
    let kept = scene.provider.kept_outputs(&scene.cx()).works("list")?;
    same!(kept.iter().map(|one| &one.job).collect::<Vec<_>>(), [&stays.id], "the outputs");
    Ok(())
}

pub(super) fn the_output_of_a_job_in_flight_is_not_discarded(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(TALKS);
    scene.launch(&job)?;
    scene.printed(&job.id, b"ready\n")?;
    scene.provider.discard_output(&job.id, &scene.cx()).works("discard")?;
    same!(scene.kept(&job.id)?, b"ready\n", "what it printed");
    same!(scene.recover(&job.id)?, Recovered::Alive, "the job");
    scene.provider.stop(&job.id, Duration::ZERO, &scene.cx()).works("stop")?;
    same!(scene.ended(&job.id)?.output.bytes, 6, "its outcome");
    Ok(())
}

pub(super) fn discarding_twice_is_no_error(case: &dyn Case) -> Told {
    let scene = Scene::new(case)?;
    let job = scene.job(HELLO);
    scene.run(&job)?;
    for _ in 0..2 {
        scene.provider.discard_output(&job.id, &scene.cx()).works("discard")?;
    }
    let nobody = JobId::parse("job-of-nobody").expect("an id");
    scene.provider.discard_output(&nobody, &scene.cx()).works("discard")
}
