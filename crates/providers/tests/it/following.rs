//! Output that is read while a job runs, in part, by stream, and removed.
use crate::world::{Open, SOON, World};
use bailiwick_contract::context::OpCx;
use bailiwick_contract::job::{JobSpec, JobStatus};
use bailiwick_contract::policy::{Budget, Policy};
use bailiwick_contract::provider::{
    ByteSink, Followed, OutputBytes, OutputPart, Ports, Provider, Slots, Streams,
};
use bailiwick_isolation::record::OutcomeFile;
use bailiwick_testkit::{FakeClock, until};
use rustix::fs::{FlockOperation, flock};
use std::error::Error;
use std::fs;
use std::time::Duration;

#[derive(Default)]
struct Kept(Vec<u8>);

impl ByteSink for Kept {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

fn with_budget(output_bytes: u64) -> World {
    let budget = Budget { output_bytes, ..Budget::default() };
    World::under(&Policy { budget, ..Policy::default() })
}

fn follow(world: &World, job: &JobSpec, from: u64) -> (Vec<u8>, Followed) {
    let mut sink = Kept::default();
    let followed =
        world.native.follow_output(&job.id, from, &mut sink, &world.cx()).expect("followed");
    assert_eq!(followed.next - from, sink.0.len() as u64 + followed.omitted, "nothing is lost");
    (sink.0, followed)
}

fn output(world: &World, job: &JobSpec, part: OutputPart) -> OutputBytes {
    world.native.output(&job.id, part, &world.cx()).expect("output")
}

fn streamed(world: &World, job: &JobSpec, streams: Streams) -> Vec<u8> {
    let mut sink = Kept::default();
    world.native.stream_output(&job.id, streams, &mut sink, &world.cx()).expect("streamed");
    sink.0
}

fn small(bytes: u64) -> usize {
    usize::try_from(bytes).expect("small")
}

/// Lines of 64 bytes, each with its number, so that every byte says where it belongs.
const NUMBERED: &str = "awk 'BEGIN { for (n = FROM; n < TO; n++) printf \"%063d\\n\", n }'";

fn numbered(lines: u64) -> Vec<u8> {
    (0..lines).flat_map(|line| format!("{line:063}\n").into_bytes()).collect()
}

fn printing(lines: u64) -> String {
    printing_from(0, lines)
}

fn printing_from(first: u64, end: u64) -> String {
    NUMBERED.replace("FROM", &first.to_string()).replace("TO", &end.to_string())
}

#[test]
fn a_job_is_followed_while_it_runs_and_to_its_end() {
    let world = World::new();
    let job = world.script("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two");
    world.launch(&job).expect("let go");
    until("its first line", SOON, || (follow(&world, &job, 0).0 == b"one\n").then_some(()));
    let (bytes, followed) = follow(&world, &job, 4);
    assert!(bytes.is_empty());
    assert_eq!(followed, Followed { next: 4, omitted: 0, ended: false });
    assert_eq!(follow(&world, &job, 2).0, b"e\n");
    fs::write(world.tree().join("go"), "").expect("a file");
    let outcome = world.wait_for_end(&job.id);
    assert_eq!(
        follow(&world, &job, 4),
        (b"two\n".to_vec(), Followed { next: 8, omitted: 0, ended: true })
    );
    assert_eq!(follow(&world, &job, 99).1, Followed { next: 99, omitted: 0, ended: true });
    world.native.settled(&job.id, &outcome);
    assert_eq!(follow(&world, &job, 0).0, b"one\ntwo\n");
}

#[test]
fn a_ring_that_goes_round_while_it_is_followed_never_gives_wrong_bytes() {
    const LINES: u64 = 80_000;
    // Rings that are smaller and larger than what is read at once.
    for budget in [64 << 10, 3 << 20] {
        let world = with_budget(budget);
        // The second half is printed once the first has been read, so that it is followed however slow the reader is.
        let (first, second) = (printing_from(0, LINES / 2), printing_from(LINES / 2, LINES));
        let wait = |name: &str| format!("while [ ! -e {name} ]; do sleep 0.02; done");
        let script = format!("{first}; {}; {second}; echo > printed; {}", wait("on"), wait("go"));
        let job = world.script(&script);
        let all = numbered(LINES);
        world.launch(&job).expect("let go");
        let (mut next, mut turns) = (0, 0);
        while next < all.len() as u64 {
            let (bytes, followed) = follow(&world, &job, next);
            let span = &all[small(next)..small(followed.next)];
            // Pieces may have gaps between them, but a whole line is the line that it says it is.
            for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.len() == 64)
            {
                let number: usize =
                    std::str::from_utf8(&line[..63]).expect("digits").parse().expect("a number");
                assert_eq!(line, &all[number * 64..number * 64 + 64], "at {next}");
            }
            if followed.omitted == 0 {
                assert!(bytes == span, "at {next}");
            }
            let part = output(&world, &job, OutputPart::Kept);
            assert!(all.starts_with(part.head.as_bytes()));
            let produced = part.head.as_bytes().len() as u64
                + part.omitted
                + part.tail.as_bytes().len() as u64;
            assert!(all[..small(produced)].ends_with(part.tail.as_bytes()), "exact at {produced}");
            next = followed.next;
            turns += u32::from(!bytes.is_empty());
            if next == all.len() as u64 / 2 {
                fs::write(world.tree().join("on"), "").expect("a file");
            }
        }
        assert!(turns > 1, "it was followed while it ran");
        // In flight, and all is there that the budget keeps.
        world.wait_for("printed");
        until("all is on file", SOON, || {
            let part = output(&world, &job, OutputPart::Kept);
            (part.head.as_bytes().len() + part.tail.as_bytes().len() == small(budget)).then_some(())
        });
        fs::write(world.tree().join("go"), "").expect("a file");
        let outcome = world.wait_for_end(&job.id);
        assert_eq!((outcome.output.bytes, outcome.output.kept), (LINES * 64, budget));
        assert!(!world.job_dir(&job.id).join("output.ring").exists(), "the outcome says it now");
        let part = output(&world, &job, OutputPart::Kept);
        assert!(all.ends_with(part.tail.as_bytes()));
    }
}

#[test]
fn a_job_whose_supervisor_is_killed_leaves_both_ends_of_its_output() {
    let world = with_budget(64 << 10);
    let script = format!("{}; echo > printed; sleep 1000", printing(10_000));
    let job = world.script(&script);
    let all = numbered(10_000);
    world.launch(&job).expect("let go");
    world.wait_for("printed");
    let is_whole =
        |part: &OutputBytes| part.head.as_bytes().len() + part.tail.as_bytes().len() == 64 << 10;
    until("all is on file", SOON, || {
        let part = output(&world, &job, OutputPart::Kept);
        (is_whole(&part) && all.ends_with(part.tail.as_bytes())).then_some(())
    });
    let dir = world.job_dir(&job.id).canonicalize().expect("there");
    let pid = crate::callers::supervisor_in(&dir).expect("it lives");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("killed");
    until("lost", SOON, || follow(&world, &job, 0).1.ended.then_some(()));
    let part = output(&world, &job, OutputPart::Kept);
    assert!(
        is_whole(&part)
            && all.starts_with(part.head.as_bytes())
            && all.ends_with(part.tail.as_bytes())
    );
    assert_eq!(part.omitted, 640_000 - (64 << 10));
    world.native.discard_output(&job.id, &world.cx()).expect("removed");
}

#[test]
fn a_range_is_cut_from_what_was_produced() {
    let world = with_budget(1_000);
    let job = world.script(&printing(100));
    world.try_run(&job).expect("it ran");
    let all = numbered(100);
    let cases = [
        ((0, 0), (0, 0, 0)),
        ((0, 10), (10, 0, 0)),
        ((490, 500), (10, 0, 0)),
        ((490, 510), (10, 10, 0)),
        ((600, 700), (0, 100, 0)),
        ((490, 5_910), (10, 5_400, 10)),
        ((5_890, 5_910), (0, 10, 10)),
        ((5_900, 6_400), (0, 0, 500)),
        ((6_000, u64::MAX), (0, 0, 400)),
        ((0, u64::MAX), (500, 5_400, 500)),
        ((7_000, 8_000), (0, 0, 0)),
    ];
    for ((start, end), (head, omitted, tail)) in cases {
        let part = output(&world, &job, OutputPart::Range { start, end });
        let lengths = (part.head.as_bytes().len(), part.omitted, part.tail.as_bytes().len());
        assert_eq!(lengths, (head, omitted, tail), "{start}..{end}");
        let span = &all[small(start.min(6_400))..small(end.min(6_400))];
        assert!(span.starts_with(part.head.as_bytes()) && span.ends_with(part.tail.as_bytes()));
    }
    let world = World::new();
    let job = world.script(&printing(100));
    world.try_run(&job).expect("it ran");
    let part = output(&world, &job, OutputPart::Range { start: 60, end: 70 });
    assert_eq!((part.head.as_bytes(), part.omitted), (&all[60..70], 0));
}

#[test]
fn each_stream_can_be_had_for_itself_once_the_job_has_ended() {
    let script = "for n in 1 2 3; do echo out$n; sleep 0.05; echo err$n >&2; sleep 0.05; done";
    let world = World::new();
    let job = world.script(&format!("{script}; while [ ! -e go ]; do sleep 0.02; done"));
    world.launch(&job).expect("let go");
    until("all of it", SOON, || (world.kept(&job.id).len() == 30).then_some(()));
    let mut sink = Kept::default();
    let refused = world.native.stream_output(&job.id, Streams::Stderr, &mut sink, &world.cx());
    let error = refused.expect_err("not known yet");
    assert!(
        error.source().expect("a cause").to_string().contains("recorded at a job's end"),
        "{error}"
    );
    fs::write(world.tree().join("go"), "").expect("a file");
    world.wait_for_end(&job.id);
    assert_eq!(streamed(&world, &job, Streams::Stdout), b"out1\nout2\nout3\n");
    assert_eq!(streamed(&world, &job, Streams::Stderr), b"err1\nerr2\nerr3\n");
    assert_eq!(streamed(&world, &job, Streams::Both).len(), 30);
    // What was cut out belonged to both.
    let world = with_budget(12);
    let job = world.script(script);
    world.try_run(&job).expect("it ran");
    assert_eq!(streamed(&world, &job, Streams::Stdout), b"out1\n\n");
    assert_eq!(streamed(&world, &job, Streams::Stderr), b"eerr3\n");
}

/// A sink that notes what it is given, and when it has had enough.
struct Until(Vec<u8>, usize);

impl ByteSink for Until {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.0.len() >= self.1 {
            return Err("enough".into());
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

#[test]
fn a_caller_that_reads_along_is_given_output_before_the_job_ends() {
    let world = World::new();
    let script = "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two";
    for enough in [usize::MAX, 1] {
        let job = world.script(script);
        let hold = world.hold(&world.id, Slots::One(1));
        let mut sink = Goes(Until(Vec::new(), enough), world.tree().join("go"));
        let ports = Ports { hold: &*hold, gate: &mut Open, live: Some(&mut sink) };
        let outcome = world.native.run(&world.id, &job, ports, &world.cx()).expect("it ran");
        assert_eq!(outcome.exit_status, Some(0));
        let expected = if enough == 1 { b"one\n".as_slice() } else { b"one\ntwo\n" };
        assert_eq!(sink.0.0, expected, "a sink that fails ends the giving alone");
        fs::remove_file(world.tree().join("go")).expect("removed");
    }
}

/// Ends the job, waits until its outcome is on file, and then says that an hour has passed; as a terminal that was stopped.
struct Stops<'w> {
    world: &'w World,
    job: &'w JobSpec,
    clock: &'w FakeClock,
}

impl ByteSink for Stops<'_> {
    fn push(&mut self, _: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        fs::write(self.world.tree().join("go"), "")?;
        let outcome = self.world.job_dir(&self.job.id).join("outcome");
        until("its outcome", SOON, || outcome.exists().then_some(()));
        self.clock.advance(Duration::from_secs(3_600));
        Ok(())
    }
}

#[test]
fn a_sink_that_takes_longer_than_the_job_may_changes_nothing_of_its_outcome() {
    let world = World::new();
    let clock = FakeClock::new();
    let job = world.script("echo one; while [ ! -e go ]; do sleep 0.02; done");
    let hold = world.hold(&world.id, Slots::One(1));
    let mut sink = Stops { world: &world, job: &job, clock: &clock };
    let ports = Ports { hold: &*hold, gate: &mut Open, live: Some(&mut sink) };
    let cx = OpCx { clock: &clock, ..world.cx() };
    let outcome = world.native.run(&world.id, &job, ports, &cx).expect("it ran");
    assert_eq!((outcome.status, outcome.exit_status), (JobStatus::Success, Some(0)), "{outcome:?}");
}

/// Stops the supervisor, leaves an outcome as it would, and says that an hour has passed.
struct Silences<'w> {
    world: &'w World,
    job: &'w JobSpec,
    clock: &'w FakeClock,
    outcome: OutcomeFile,
}

impl ByteSink for Silences<'_> {
    fn push(&mut self, _: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let dir = self.world.job_dir(&self.job.id).canonicalize()?;
        let supervisor = crate::callers::supervisor_in(&dir).expect("it lives");
        rustix::process::kill_process(supervisor, rustix::process::Signal::STOP)?;
        fs::write(dir.join("outcome"), serde_json::to_vec(&self.outcome)?)?;
        self.clock.advance(Duration::from_secs(3_600));
        Ok(())
    }
}

#[test]
fn an_outcome_that_was_recorded_counts_where_it_was_never_said() {
    let world = World::new();
    let clock = FakeClock::new();
    let recorded = world.sh("exit 4").outcome;
    let job = world.script("echo one; sleep 1000");
    let hold = world.hold(&world.id, Slots::One(1));
    let outcome = OutcomeFile::Ended { outcome: Box::new(recorded.clone()), output_budget: 1_000 };
    let mut sink = Silences { world: &world, job: &job, clock: &clock, outcome };
    let ports = Ports { hold: &*hold, gate: &mut Open, live: Some(&mut sink) };
    let cx = OpCx { clock: &clock, ..world.cx() };
    assert_eq!(world.native.run(&world.id, &job, ports, &cx).expect("it ran"), recorded);
}

/// Lets the job go on once its first line was given: without that it would not end.
struct Goes(Until, std::path::PathBuf);

impl ByteSink for Goes {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        fs::write(&self.1, "")?;
        self.0.push(bytes)
    }
}

#[test]
fn what_is_kept_is_listed_and_removed_but_never_of_a_job_in_flight() {
    let world = World::new();
    assert!(world.native.kept_outputs(&world.cx()).expect("listed").is_empty());
    let (silent, ended) = (world.script("true"), world.script("head -c 100000 /dev/zero"));
    world.try_run(&silent).expect("it ran");
    world.try_run(&ended).expect("it ran");
    let running = world.script("echo began; while [ ! -e go ]; do sleep 0.02; done");
    world.launch(&running).expect("let go");
    until("its line", SOON, || (world.kept(&running.id) == b"began\n").then_some(()));
    let listed = world.native.kept_outputs(&world.cx()).expect("listed");
    let of = |job: &JobSpec| listed.iter().find(|kept| kept.job == job.id);
    assert!(listed.len() == 2 && of(&running).is_some());
    let kept = of(&ended).expect("listed");
    assert!((100_000..300_000).contains(&kept.bytes), "{kept:?}");
    let outcome_at = fs::metadata(world.job_dir(&ended.id).join("output")).expect("there");
    let changed = outcome_at.modified().expect("a time").duration_since(std::time::UNIX_EPOCH);
    assert_eq!(u128::from(kept.changed_at.as_micros()), changed.expect("after 1970").as_micros());
    for job in [&running, &ended, &silent, &ended] {
        world.native.discard_output(&job.id, &world.cx()).expect("no trouble");
    }
    assert!(!world.job_dir(&ended.id).exists());
    assert_eq!(output(&world, &ended, OutputPart::Kept), OutputBytes::default());
    fs::write(world.tree().join("go"), "").expect("a file");
    world.wait_for_end(&running.id);
    assert_eq!(world.kept(&running.id), b"began\n");
    drop(world.hold(&world.id, Slots::One(1)));
    until("it is gone", SOON, || {
        world.native.discard_output(&running.id, &world.cx()).expect("removed");
        (!world.job_dir(&running.id).exists()).then_some(())
    });
}

#[test]
fn output_is_removed_also_where_somebody_is_just_looking() {
    let world = World::new();
    let job = world.script("echo one");
    world.try_run(&job).expect("it ran");
    let dir = world.job_dir(&job.id);
    let looking = fs::File::open(&dir).expect("a directory");
    flock(&looking, FlockOperation::NonBlockingLockShared).expect("as `recover` does");
    std::thread::scope(|scope| {
        let discarding = scope.spawn(|| world.native.discard_output(&job.id, &world.cx()));
        // As long as somebody needs who is interrupted in the middle.
        std::thread::sleep(Duration::from_millis(50));
        drop(looking);
        discarding.join().expect("no panic").expect("removed");
    });
    assert!(!dir.exists());
}
