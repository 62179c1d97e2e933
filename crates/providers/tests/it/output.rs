//! Captured output as it is read back: exact, bounded, head and tail.
use crate::world::World;
use bailiwick_contract::job::{Encoding, JobStatus, SHA256_OF_NOTHING};
use bailiwick_contract::policy::{Budget, Policy};
use bailiwick_contract::provider::{ByteSink, OutputBytes, OutputPart, Provider, Streams};
use std::error::Error;
use std::fmt::Write;

#[derive(Default)]
struct Kept(Vec<u8>);

impl ByteSink for Kept {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// What `seq` prints.
fn sequence(last: u32) -> Vec<u8> {
    let text = (1..=last).fold(String::new(), |mut text, number| {
        writeln!(text, "{number}").expect("a String takes any text");
        text
    });
    text.into_bytes()
}

fn with_budget(output_bytes: u64) -> World {
    World::under(&Policy {
        budget: Budget { output_bytes, ..Budget::default() },
        ..Policy::default()
    })
}

#[test]
fn output_beyond_the_budget_keeps_both_ends_exactly() {
    let produced = sequence(100_000);
    for budget in [1, 2, 7, 10_000, 100_001, produced.len() - 1] {
        let world = with_budget(budget as u64);
        let job = world.job(&["seq", "100000"]);
        let outcome = world.try_run(&job).expect("it ran");
        let (head, tail) = (budget / 2, budget - budget / 2);
        assert_eq!(outcome.status, JobStatus::Success);
        assert_eq!((outcome.output.bytes, outcome.output.kept), (588_895, budget as u64));
        assert_eq!(outcome.output.lines, 100_000);
        let output = world.native.output(&job.id, OutputPart::Kept, &world.cx()).expect("output");
        assert_eq!(output.head.as_bytes(), &produced[..head], "budget {budget}");
        assert_eq!(output.tail.as_bytes(), &produced[produced.len() - tail..], "budget {budget}");
        assert_eq!(output.omitted, (produced.len() - budget) as u64);
        let mut streamed = Kept::default();
        world
            .native
            .stream_output(&job.id, Streams::Both, &mut streamed, &world.cx())
            .expect("streamed");
        assert_eq!(streamed.0, [output.head.into_bytes(), output.tail.into_bytes()].concat());
    }
}

#[test]
fn output_of_exactly_the_budget_is_whole() {
    let produced = sequence(10_000);
    let world = with_budget(produced.len() as u64);
    let job = world.job(&["seq", "10000"]);
    let outcome = world.try_run(&job).expect("it ran");
    assert_eq!(outcome.output.kept, outcome.output.bytes);
    assert_eq!(world.kept(&job.id), produced);
}

#[test]
fn a_part_is_cut_from_what_was_kept() {
    let world = World::new();
    let job = world.job(&["seq", "1000"]);
    let produced = sequence(1_000);
    world.try_run(&job).expect("it ran");
    let part = |head, tail| {
        let part = OutputPart::HeadTail { head, tail };
        world.native.output(&job.id, part, &world.cx()).expect("output")
    };
    for (head, tail) in [(0, 0), (1, 0), (0, 1), (10, 20), (3_000, 892), (3_893, 0), (4_000, 9)] {
        let OutputBytes { head: first, omitted, tail: last } = part(head, tail);
        assert!(
            first.as_bytes().len() as u64 <= head.max(3_893)
                && produced.starts_with(first.as_bytes())
        );
        assert!(produced.ends_with(last.as_bytes()), "{head} {tail}");
        let shown = first.as_bytes().len() + last.as_bytes().len();
        assert_eq!(shown as u64 + omitted, 3_893, "{head} {tail}");
        assert_eq!(shown as u64, (head + tail).min(3_893), "{head} {tail}");
    }
}

#[test]
fn both_streams_are_counted_and_bytes_stay_bytes() {
    let world = World::new();
    let job = world.script("printf 'out\\377\\n'; printf 'err' >&2");
    let outcome = world.try_run(&job).expect("it ran");
    let output = &outcome.output;
    assert_eq!((output.stdout_bytes, output.stderr_bytes, output.lines), (5, 3, 1));
    assert_eq!(output.encoding, Encoding::Binary);
    let mut kept = world.kept(&job.id);
    kept.sort_unstable();
    let mut expected = b"out\xff\nerr".to_vec();
    expected.sort_unstable();
    assert_eq!(kept, expected);
}

#[test]
fn a_job_that_prints_nothing_has_no_output() {
    let world = World::new();
    let job = world.job(&["true"]);
    let outcome = world.try_run(&job).expect("it ran");
    assert_eq!((outcome.output.bytes, outcome.output.sha256.as_str()), (0, SHA256_OF_NOTHING));
    let read = |part| world.native.output(&job.id, part, &world.cx()).expect("output");
    assert_eq!(read(OutputPart::Kept), OutputBytes::default());
    assert_eq!(read(OutputPart::HeadTail { head: 5, tail: 5 }), OutputBytes::default());
    let mut streamed = Kept::default();
    world
        .native
        .stream_output(&job.id, Streams::Both, &mut streamed, &world.cx())
        .expect("streamed");
    assert!(streamed.0.is_empty());
}

#[test]
fn output_outlives_its_workspace() {
    let world = World::new();
    let job = world.script("echo kept");
    world.try_run(&job).expect("it ran");
    world.native.remove(&world.id, &world.cx()).expect("removed");
    assert_eq!(world.kept(&job.id), b"kept\n");
}

#[test]
fn output_of_a_job_in_flight_can_be_read() {
    let world = World::new();
    let job = world.script("echo early; while [ ! -e go ]; do sleep 0.02; done; echo late");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.try_run(&job));
        bailiwick_testkit::until("its first line", crate::world::SOON, || {
            (world.kept(&job.id) == b"early\n").then_some(())
        });
        std::fs::write(world.tree().join("go"), "").expect("a file");
        running.join().expect("no panic").expect("it ran");
    });
    assert_eq!(world.kept(&job.id), b"early\nlate\n");
}
