//! The fake provider where time and crashes matter: a clock that is moved by hand, ends that were cut short, callers that died.
use crate::world::{Open, ports};
use bailiwick_contract::context::{CancelToken, OpCx};
use bailiwick_contract::enforcement::{Strictness, resolve};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus, Stdin};
use bailiwick_contract::policy::Policy;
use bailiwick_contract::provider::{
    ByteSink, Gate, OutputPart, Provider, Recovered, Slots, WorkspaceSpec,
};
use bailiwick_providers::fake::{Fake, FakeOptions};
use bailiwick_testkit::FakeClock;
use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SCRIPT: &str = r#"[
    {"argv": ["minute"], "delay_ms": 60000, "output": [{"text": "start\n"}, {"text": "half\n", "at_ms": 30000}],
     "files": [{"path": "d/left", "content": "by it"}]},
    {"argv": ["blocked"], "files": [{"path": "plain/below", "content": "x"}]}
]"#;

/// A home whose time stands still unless it is moved.
struct World {
    home: TempDir,
    clock: Arc<FakeClock>,
    cancel: CancelToken,
    fake: Fake,
    id: WorkspaceId,
}

impl World {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a home");
        let script = home.path().join("script.json");
        fs::write(&script, SCRIPT).expect("a script");
        let clock = Arc::new(FakeClock::new());
        let options = FakeOptions {
            home: home.path().join("home"),
            script: Some(script),
            clock: Arc::<FakeClock>::clone(&clock),
        };
        let (fake, cancel) = (Fake::new(options), CancelToken::new());
        let id = WorkspaceId::parse("ws-1").expect("an id");
        let world = Self { home, clock, cancel, fake, id };
        world.fake.create(&world.spec(), &world.cx()).expect("created");
        world
    }

    fn cx(&self) -> OpCx<'_> {
        OpCx { cancel: &self.cancel, deadline: None, budget_bytes: u64::MAX, clock: &*self.clock }
    }

    fn spec(&self) -> WorkspaceSpec {
        let capabilities = self.fake.capabilities(&self.cx()).expect("capabilities");
        let policy = resolve(&Policy::default(), &Strictness::default(), &capabilities);
        let policy = policy.expect("held");
        WorkspaceSpec { id: self.id.clone(), profile: "python3.12".into(), policy }
    }

    fn job(&self, command: &str) -> JobSpec {
        JobSpec {
            id: JobId::parse("job-1").expect("an id"),
            argv: vec![command.into()],
            env: Vec::new(),
            policy: self.spec().policy,
            cwd: None,
            stdin: Stdin::Empty,
        }
    }

    fn launch(&self, job: &JobSpec) {
        let hold = self.fake.hold(&self.id, Slots::One(1)).expect("asked").expect("free");
        self.fake.launch(&self.id, job, ports(&*hold, &mut Open), &self.cx()).expect("launched");
    }

    fn recover(&self, job: &JobSpec) -> Recovered {
        self.fake.recover(&self.id, &job.id, &self.cx()).expect("recovered")
    }

    fn ended(&self, job: &JobSpec) -> JobOutcome {
        let Recovered::Ended(outcome) = self.recover(job) else { panic!("it has ended") };
        *outcome
    }

    fn printed(&self, job: &JobSpec) -> Vec<u8> {
        let part = self.fake.output(&job.id, OutputPart::Kept, &self.cx()).expect("output");
        part.head.into_bytes()
    }

    fn is_free(&self) -> bool {
        self.fake.hold(&self.id, Slots::One(1)).expect("asked").is_some()
    }

    fn job_dir(&self) -> PathBuf {
        self.home.path().join("home/fake/jobs/job-1")
    }

    fn tree(&self) -> PathBuf {
        self.home.path().join("home/fake/disks/ws-1/tree")
    }
}

#[test]
fn a_job_is_what_the_clock_says() {
    let world = World::new();
    let job = world.job("minute");
    world.launch(&job);
    for (seconds, printed) in [(29, &b"start\n"[..]), (1, b"start\nhalf\n"), (29, b"start\nhalf\n")]
    {
        world.clock.advance(Duration::from_secs(seconds));
        assert_eq!(world.recover(&job), Recovered::Alive);
        assert_eq!(world.printed(&job), printed);
        assert!(!world.is_free() && !world.tree().join("d").exists());
    }
    // Long after its end it ended when it did.
    world.clock.advance(Duration::from_secs(3_600));
    assert!(world.is_free());
    let outcome = world.ended(&job);
    assert_eq!((outcome.status, outcome.usage.wall_time_us), (JobStatus::Success, 60_000_000));
    assert_eq!(outcome.finished_at.millis_since(outcome.started_at), 60_000);
    assert_eq!(fs::read(world.tree().join("d/left")).expect("left"), b"by it");
}

#[test]
fn an_end_that_was_cut_short_is_done_again_and_comes_to_the_same() {
    let world = World::new();
    let job = world.job("minute");
    world.launch(&job);
    world.clock.advance(Duration::from_secs(60));
    let first = world.ended(&job);
    // As whoever settled it left things when it was killed: with all of the disk done, and with nothing but the decision.
    for undone in [&["outcome"][..], &["outcome", "landing"]] {
        undone.iter().for_each(|name| fs::remove_file(world.job_dir().join(name)).expect("there"));
        fs::remove_dir_all(world.tree().join("d")).expect("there");
        world.clock.advance(Duration::from_secs(60));
        assert_eq!(world.ended(&job), first);
        assert_eq!(fs::read(world.tree().join("d/left")).expect("left"), b"by it");
    }
}

#[test]
fn what_is_left_of_a_job_that_was_discarded_makes_no_end_a_second_time() {
    let world = World::new();
    let job = world.job("minute");
    world.launch(&job);
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.ended(&job).status, JobStatus::Success);
    fs::write(world.tree().join("d/left"), "by the next").expect("written");
    // As whoever discarded it left things when it was killed: what the job does is the first to go.
    fs::remove_file(world.job_dir().join("work")).expect("there");
    fs::remove_file(world.job_dir().join("outcome")).expect("there");
    assert_eq!(world.fake.kept_outputs(&world.cx()).expect("listed"), []);
    assert_eq!(world.printed(&job), b"");
    assert!(world.is_free());
    assert_eq!(fs::read(world.tree().join("d/left")).expect("there"), b"by the next");
    world.fake.discard_output(&job.id, &world.cx()).expect("the rest");
    assert!(!world.job_dir().exists());
}

/// A gate at which its caller dies.
struct Dies;

impl Gate for Dies {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        panic!("the caller is killed here")
    }
}

#[test]
fn a_caller_that_dies_at_the_gate_takes_the_job_with_it() {
    let world = World::new();
    let job = world.job("minute");
    let hold = world.fake.hold(&world.id, Slots::One(1)).expect("asked").expect("free");
    let run = || world.fake.run(&world.id, &job, ports(&*hold, &mut Dies), &world.cx());
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_eq!(world.recover(&job), Recovered::Alive, "its caller still has the hold");
    drop(hold);
    world.clock.advance(Duration::from_secs(3_600));
    assert_eq!(world.recover(&job), Recovered::NeverStarted);
    assert!(world.is_free());
    assert_eq!(world.printed(&job), b"");
    assert_eq!(fs::read_dir(world.tree()).expect("listed").count(), 0);
}

#[test]
fn whoever_looks_at_the_disk_first_finds_what_the_job_left() {
    struct Sink;
    impl ByteSink for Sink {
        fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
            assert_eq!(bytes, b"by it");
            Ok(())
        }
    }
    let world = World::new();
    world.launch(&world.job("minute"));
    let path = WsPath::parse(b"d/left").expect("a path");
    let read = || world.fake.read(&world.id, &path, &mut Sink, &world.cx());
    assert!(read().is_err());
    world.clock.advance(Duration::from_secs(60));
    read().expect("read");
    assert_eq!(world.fake.inspect(&world.id, &world.cx()).expect("measured").inodes, 2);
}

#[test]
fn a_file_that_cannot_be_made_breaks_the_job_and_says_which() {
    let world = World::new();
    fs::write(world.tree().join("plain"), "a file").expect("written");
    let job = world.job("blocked");
    world.launch(&job);
    world.clock.advance(Duration::from_secs(1));
    let outcome = world.ended(&job);
    assert_eq!(outcome.status, JobStatus::InfrastructureFailure);
    assert!(outcome.detail.is_some_and(|detail| detail.contains("`plain/below`")));
}

#[test]
fn what_it_keeps_is_its_owners_alone() {
    fn check(folder: &Path) {
        for entry in fs::read_dir(folder).expect("listed").flatten() {
            let meta = entry.metadata().expect("there");
            let wanted = if meta.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(meta.mode() & 0o777, wanted, "{}", entry.path().display());
            // What lies on a disk has the modes of its job.
            if meta.is_dir() && entry.file_name() != "tree" {
                check(&entry.path());
            }
        }
    }
    let world = World::new();
    let job = world.job("minute");
    world.launch(&job);
    world.fake.stop(&job.id, Duration::ZERO, &world.cx()).expect("stopped");
    assert_eq!(world.ended(&job).status, JobStatus::Cancelled);
    check(&world.home.path().join("home"));
}
