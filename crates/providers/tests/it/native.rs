//! Runs jobs through [`Native`] alone, without a store or an engine.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::{CancelToken, Clock, OpCx};
use bailiwick_contract::enforcement::{Strictness, resolve};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus};
use bailiwick_contract::policy::Policy;
use bailiwick_contract::provider::{Gate, OutputPart, Provider, Removed, Slots, WorkspaceSpec};
use bailiwick_contract::time::Timestamp;
use bailiwick_providers::native::{Native, NativeOptions};
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

struct RealClock(Instant);

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        #[expect(clippy::disallowed_methods, reason = "a test of real time")]
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let micros = since.expect("after 1970").as_micros();
        Timestamp::from_micros(u64::try_from(micros).expect("before 586524"))
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

struct Open;

impl Gate for Open {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

/// The supervisor that cargo built beside this test.
fn supervisor() -> PathBuf {
    let own = std::env::current_exe().expect("this test has a path");
    let profile = own.parent().and_then(|deps| deps.parent()).expect("target/<profile>/deps");
    profile.join("bailiwick-supervisor")
}

fn run(script: &str) -> (JobOutcome, Vec<u8>) {
    let home = tempfile::tempdir().expect("a home");
    let native = Native::new(NativeOptions {
        home: home.path().to_owned(),
        supervisor: supervisor(),
        seed: 1,
        without_cgroups: false,
    });
    let cancel = CancelToken::new();
    let clock = RealClock(Instant::now());
    let cx = OpCx { cancel: &cancel, deadline: None, budget_bytes: u64::MAX, clock: &clock };
    let id = WorkspaceId::parse("ws-test").expect("an id");
    let capabilities = native.capabilities(&cx).expect("capabilities");
    let policy = resolve(&Policy::default(), &Strictness::default(), &capabilities).expect("held");
    let spec = WorkspaceSpec { id: id.clone(), profile: "host".into(), policy: policy.clone() };
    native.create(&spec, &cx).expect("created");
    let hold = native.hold(&id, Slots::One(1)).expect("held").expect("free");
    let job = JobSpec {
        id: JobId::parse("job-test").expect("an id"),
        argv: ["sh", "-c", script].map(ByteString::from).to_vec(),
        env: Vec::new(),
        policy,
    };
    let outcome = native.run(&id, &job, hold.as_ref(), &mut Open, &cx).expect("run");
    let output = native.output(&job.id, OutputPart::Kept, &cx).expect("output");
    drop(hold);
    assert_eq!(native.remove(&id, &cx).expect("removed"), Removed::Gone);
    (outcome, output.head.into_bytes())
}

#[test]
fn a_job_runs_and_its_output_is_kept() {
    let (outcome, output) = run("id -u; echo hi > f; cat f; exit 3");
    assert_eq!(output, b"1000\nhi\n", "{outcome:?}");
    assert_eq!((outcome.status, outcome.exit_status), (JobStatus::Failure, Some(3)));
}
