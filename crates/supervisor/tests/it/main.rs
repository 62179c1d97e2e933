//! The supervisor's program from outside: what it does with callers that speak badly, or go.

use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::{Strictness, resolve};
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::policy::Policy;
use bailiwick_isolation::facts::HostFacts;
use bailiwick_isolation::plan::{Plan, plan};
use bailiwick_isolation::record::OutcomeFile;
use bailiwick_isolation::remains::group_name;
use bailiwick_isolation::skeleton;
use bailiwick_isolation::spawn::{Supervisor, ask};
use bailiwick_isolation::spec::SandboxSpec;
use bailiwick_isolation::wire::{Frame, FrameReader, Reply, Request, WIRE_VERSION, send};
use bailiwick_testkit::{cgroups_holding, until};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Far beyond what a loaded machine needs.
const SOON: Duration = Duration::from_secs(20);

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_bailiwick-supervisor"))
}

/// A home with a disk and a job's directory.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().expect("a home"));
        for dir in [home.disk(), home.job_dir()] {
            fs::create_dir(dir).expect("a directory");
        }
        home
    }

    fn disk(&self) -> PathBuf {
        self.0.path().join("disk")
    }

    fn job_dir(&self) -> PathBuf {
        self.0.path().join("job")
    }

    fn job(&self) -> JobId {
        JobId::parse("job-supervised").expect("an id")
    }

    fn group(&self) -> String {
        group_name(self.0.path(), &self.job())
    }

    fn plan(&self, script: &str) -> Plan {
        let answer = ask(program(), &["--probe", "key", "1"]).expect("an answer");
        let facts: HostFacts = serde_json::from_str(&answer).expect("the host's facts");
        if facts.by_root {
            let (uid, gid) = (Some(facts.outside_uid), Some(facts.outside_gid));
            chown(self.disk(), uid, gid).expect("root may");
        }
        let skeleton = skeleton::current(&self.0.path().join("skeleton"), &facts).expect("a root");
        let strictness = Strictness::default();
        let bytes = |path: PathBuf| ByteString::from(path.as_os_str().as_encoded_bytes());
        let spec = SandboxSpec {
            job: self.job(),
            group: self.group(),
            disk: bytes(self.disk()),
            job_dir: bytes(self.job_dir()),
            argv: ["sh", "-c", script].map(ByteString::from).to_vec(),
            env: Vec::new(),
            cwd: None,
            policy: resolve(&Policy::default(), &strictness, &facts.capabilities()).expect("held"),
            host_paths: Vec::new(),
        };
        plan(&spec, &facts, &skeleton).expect("a plan")
    }

    fn start(&self, supervisor: &Supervisor, script: &str) {
        let plan = Box::new(self.plan(script));
        let request = Request::Start { version: WIRE_VERSION, stdin: false, plan };
        send(supervisor.as_fd(), &request).expect("it listens");
    }

    /// Waits until the sandbox stands at its gate: from then on the supervisor can be asked to stop.
    fn wait_for_control(&self) {
        let socket = self.job_dir().join("control.sock");
        until("the control socket", SOON, || socket.exists().then_some(()));
    }

    /// What there is in the job's directory.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.job_dir()).expect("listed").flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[track_caller]
    fn assert_nothing_ran(&self) {
        assert_eq!(fs::read_dir(self.disk()).expect("listed").count(), 0);
        until("no group", SOON, || cgroups_holding(&self.group()).is_empty().then_some(()));
    }
}

fn started() -> Supervisor {
    Supervisor::start(program()).expect("it starts")
}

/// Takes the supervisor's word; `None` where it ends without one.
fn word(supervisor: &Supervisor) -> Option<Reply> {
    match FrameReader::default().next::<Reply>(supervisor.as_fd()).expect("read") {
        Frame::Message(reply) => Some(reply),
        Frame::Pending | Frame::Closed => None,
    }
}

#[track_caller]
fn assert_refused(supervisor: Supervisor) {
    let reply = word(&supervisor);
    assert!(matches!(reply, Some(Reply::SetupFailed { .. })), "{reply:?}");
    supervisor.reap().expect("it ends");
}

#[test]
fn a_first_frame_that_is_none_is_refused() {
    for bytes in [&[1, 0, 0, 0, 0xff][..], &[0xff; 64], &[0, 0, 0, 0], b"GET / HTTP/1.1\r\n\r\n"] {
        let supervisor = started();
        rustix::io::write(&supervisor, bytes).expect("it listens");
        assert_refused(supervisor);
    }
    let supervisor = started();
    send(supervisor.as_fd(), &Request::Go { alone: false }).expect("it listens");
    assert_refused(supervisor);
}

#[test]
fn a_caller_of_another_version_is_refused_and_nothing_is_made() {
    let home = Home::new();
    for version in [0, WIRE_VERSION + 1, u32::MAX] {
        let supervisor = started();
        let plan = Box::new(home.plan("echo ran > ran"));
        send(supervisor.as_fd(), &Request::Start { version, stdin: false, plan })
            .expect("it listens");
        assert_refused(supervisor);
        assert!(home.left().is_empty(), "{:?}", home.left());
        home.assert_nothing_ran();
    }
}

#[test]
fn a_caller_that_goes_without_a_word_or_within_one_leaves_nothing() {
    started().reap().expect("it ends");
    let supervisor = started();
    rustix::io::write(&supervisor, &[200, 0, 0, 0, 1, 2, 3]).expect("it listens");
    supervisor.reap().expect("it ends");
}

#[test]
fn a_caller_that_goes_before_the_gate_takes_the_job_with_it() {
    let home = Home::new();
    let supervisor = started();
    home.start(&supervisor, "echo ran > ran");
    home.wait_for_control();
    supervisor.reap().expect("it ends");
    home.assert_nothing_ran();
    assert_eq!(home.left(), ["outcome"]);
    let outcome = fs::read(home.job_dir().join("outcome")).expect("a record");
    let outcome: OutcomeFile = serde_json::from_slice(&outcome).expect("a record");
    assert!(matches!(outcome, OutcomeFile::NeverStarted { .. }), "{outcome:?}");
}

#[test]
fn a_caller_that_starts_twice_is_not_believed() {
    let home = Home::new();
    let supervisor = started();
    home.start(&supervisor, "echo ran > ran");
    home.start(&supervisor, "echo ran > ran");
    supervisor.reap().expect("it ends");
    home.assert_nothing_ran();
}

#[test]
fn a_stop_before_the_gate_ends_what_was_prepared() {
    let home = Home::new();
    let supervisor = started();
    home.start(&supervisor, "echo ran > ran");
    send(supervisor.as_fd(), &Request::Stop { grace_ms: 0 }).expect("it listens");
    assert_refused(supervisor);
    home.assert_nothing_ran();
}

#[test]
fn a_gate_that_is_opened_twice_runs_the_job_once() {
    let home = Home::new();
    let supervisor = started();
    home.start(&supervisor, "echo ran >> ran");
    for _ in 0..2 {
        send(supervisor.as_fd(), &Request::Go { alone: false }).expect("it listens");
    }
    let Some(Reply::Ended(outcome)) = word(&supervisor) else { panic!("it has ended") };
    assert_eq!(outcome.status, JobStatus::Success);
    assert_eq!(fs::read(home.disk().join("ran")).expect("it ran"), b"ran\n");
    supervisor.reap().expect("it ends");
    assert_eq!(home.left(), ["outcome"], "no socket is left");
}

#[test]
fn more_peers_than_are_heard_do_no_harm() {
    let home = Home::new();
    let supervisor = started();
    home.start(&supervisor, "echo began > began; while [ ! -e go ]; do sleep 0.02; done");
    send(supervisor.as_fd(), &Request::Go { alone: false }).expect("it listens");
    until("it runs", SOON, || home.disk().join("began").exists().then_some(()));
    let socket = home.job_dir().join("control.sock");
    let connect = || UnixStream::connect(&socket).expect("room in the queue");
    let silent: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
    // One that speaks nonsense is let go, and its place is free again.
    let rude = &silent[0];
    rustix::io::write(rude, &[0xff; 16]).expect("written");
    let mut byte = [0];
    assert_eq!(rustix::io::read(rude, &mut byte).expect("closed"), 0);
    drop(silent);
    let stop = connect();
    send(stop.as_fd(), &Request::Stop { grace_ms: 0 }).expect("written");
    let told = FrameReader::default().next::<Reply>(stop.as_fd()).expect("read");
    let Frame::Message(Reply::Ended(outcome)) = told else { panic!("{told:?}") };
    assert_eq!(outcome.status, JobStatus::Cancelled);
    supervisor.reap().expect("it ends");
}

#[test]
fn a_program_that_nobody_speaks_to_says_what_it_is() {
    let version = ask(program(), &["--version"]).expect("an answer");
    assert_eq!(version.trim(), format!("{} {WIRE_VERSION}", env!("CARGO_PKG_VERSION")));
    for arguments in [&[][..], &["--help"], &["--socket", "x"], &["--probe"]] {
        let error = ask(program(), arguments).expect_err("refused");
        assert!(error.to_string().contains("started by `bailiwick`"), "{error}");
    }
}
