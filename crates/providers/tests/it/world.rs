//! A home of its own, a workspace in it, and jobs that run there through [`Native`] alone.
use bailiwick_contract::bytes::{ByteString, Secret};
use bailiwick_contract::context::{CancelToken, Clock, OpCx};
use bailiwick_contract::enforcement::{EffectivePolicy, Strictness, resolve};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::job::{EnvVar, JobOutcome, JobSpec, Stdin};
use bailiwick_contract::policy::{Access, HostPath, Policy};
use bailiwick_contract::provider::{
    Gate, Hold, OutputPart, Ports, Provider, ProviderError, Recovered, Slots, WorkspaceSpec,
};
use bailiwick_contract::time::Timestamp;
use bailiwick_providers::native::{Native, NativeOptions};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a test waits for what comes soon; far beyond what a loaded machine needs.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Tells a copy of this program where the supervisor is.
pub(crate) const SUPERVISOR: &str = "BAILIWICK_TEST_SUPERVISOR";

pub(crate) struct RealClock(Instant);

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

/// Returns what a job is run with when nobody reads along.
pub(crate) fn ports<'a>(hold: &'a dyn Hold, gate: &'a mut dyn Gate) -> Ports<'a> {
    Ports { hold, gate, live: None }
}

/// A gate that opens.
pub(crate) struct Open;

impl Gate for Open {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

/// A home with one workspace.
pub(crate) struct World {
    home: Result<TempDir, PathBuf>,
    pub(crate) native: Native,
    pub(crate) cancel: CancelToken,
    clock: RealClock,
    pub(crate) policy: EffectivePolicy,
    pub(crate) id: WorkspaceId,
}

/// What came of a job, and what it printed.
pub(crate) struct Done {
    pub(crate) outcome: JobOutcome,
    pub(crate) text: String,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the value of a variable that this program gave to itself.
pub(crate) fn told(name: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "tests have their own variables")]
    std::env::var_os(name).map(PathBuf::from)
}

/// The supervisor that cargo built beside this test, or the copy that an ordinary user can run.
pub(crate) fn supervisor() -> PathBuf {
    let own = std::env::current_exe().expect("this test has a path");
    let profile = own.parent().and_then(Path::parent).expect("target/<profile>/deps");
    let supervisor = told(SUPERVISOR).unwrap_or_else(|| profile.join("bailiwick-supervisor"));
    assert!(supervisor.is_file(), "build it first: cargo build -p bailiwick-supervisor");
    supervisor
}

/// Starts one test of this program in a process of its own, with a variable.
pub(crate) fn myself(test: &str, name: &str, value: &Path) -> Child {
    let own = std::env::current_exe().expect("this test has a path");
    #[expect(clippy::disallowed_methods, reason = "a test starts itself")]
    Command::new(own)
        .args(["--exact", test, "--nocapture"])
        .env(name, value)
        .stdout(Stdio::null())
        .spawn()
        .expect("this program")
}

impl World {
    /// A workspace under the default policy.
    pub(crate) fn new() -> Self {
        Self::under(&Policy::default())
    }

    /// A workspace under `policy`.
    pub(crate) fn under(policy: &Policy) -> Self {
        Self::try_under(policy).expect("created")
    }

    /// The same, where creating it may be refused.
    pub(crate) fn try_under(policy: &Policy) -> Result<Self, ProviderError> {
        let home = tempfile::tempdir().expect("a home");
        Self::make(Ok(home), policy, supervisor(), false)
    }

    /// A workspace as on a host without control groups.
    pub(crate) fn without_groups(policy: &Policy) -> Self {
        let home = tempfile::tempdir().expect("a home");
        Self::make(Ok(home), policy, supervisor(), true).expect("created")
    }

    /// A workspace whose supervisor is started by the program at `supervisor`.
    pub(crate) fn supervised_by(supervisor: PathBuf) -> Self {
        let home = tempfile::tempdir().expect("a home");
        Self::make(Ok(home), &Policy::default(), supervisor, false).expect("created")
    }

    /// The home of somebody else, with the workspace that is there or is made now.
    pub(crate) fn at(home: PathBuf) -> Self {
        Self::make(Err(home), &Policy::default(), supervisor(), false).expect("created")
    }

    fn make(
        home: Result<TempDir, PathBuf>,
        policy: &Policy,
        supervisor: PathBuf,
        without_cgroups: bool,
    ) -> Result<Self, ProviderError> {
        let path = home.as_ref().map_or_else(Clone::clone, |dir| dir.path().to_owned());
        let native =
            Native::new(NativeOptions { home: path, supervisor, seed: 1, without_cgroups });
        let (cancel, clock) = (CancelToken::new(), RealClock(Instant::now()));
        let cx = OpCx { cancel: &cancel, deadline: None, budget_bytes: u64::MAX, clock: &clock };
        let capabilities = native.capabilities(&cx)?;
        let strictness = Strictness { allow_watched: true, ..Strictness::default() };
        let policy = resolve(policy, &strictness, &capabilities).expect("held");
        let id = WorkspaceId::parse("ws-1").expect("an id");
        let spec = WorkspaceSpec { id: id.clone(), profile: "host".into(), policy: policy.clone() };
        native.create(&spec, &cx)?;
        Ok(Self { home, native, cancel, clock, policy, id })
    }

    pub(crate) fn cx(&self) -> OpCx<'_> {
        OpCx { cancel: &self.cancel, deadline: None, budget_bytes: u64::MAX, clock: &self.clock }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.as_ref().map_or_else(PathBuf::as_path, TempDir::path)
    }

    /// What a job sees as `/workspace`.
    pub(crate) fn tree(&self) -> PathBuf {
        self.tree_of(&self.id)
    }

    pub(crate) fn tree_of(&self, id: &WorkspaceId) -> PathBuf {
        self.home().join("disks").join(id.as_str()).join("tree")
    }

    pub(crate) fn job_dir(&self, job: &JobId) -> PathBuf {
        self.home().join("jobs").join(job.as_str())
    }

    /// Makes a second workspace under the same policy.
    pub(crate) fn another(&self, id: &str) -> WorkspaceId {
        let id = WorkspaceId::parse(id).expect("an id");
        let policy = self.policy.clone();
        let spec = WorkspaceSpec { id: id.clone(), profile: "host".into(), policy };
        self.native.create(&spec, &self.cx()).expect("created");
        id
    }

    /// A job with an id that no other test of this run has.
    pub(crate) fn job(&self, argv: &[&str]) -> JobSpec {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        JobSpec {
            id: JobId::parse(&format!("job-{}-{count}", std::process::id())).expect("an id"),
            argv: argv.iter().map(|arg| ByteString::from(*arg)).collect(),
            env: Vec::new(),
            policy: self.policy.clone(),
            cwd: None,
            stdin: Stdin::Empty,
        }
    }

    /// A job of the shell.
    pub(crate) fn script(&self, script: &str) -> JobSpec {
        self.job(&["sh", "-c", script])
    }

    /// Runs a job whatever comes of it.
    pub(crate) fn try_run(&self, job: &JobSpec) -> Result<JobOutcome, ProviderError> {
        self.run_in(&self.id, job, &mut Open)
    }

    pub(crate) fn run_in(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        gate: &mut dyn Gate,
    ) -> Result<JobOutcome, ProviderError> {
        let hold = self.hold(id, Slots::One(1));
        let outcome = self.native.run(id, job, ports(&*hold, gate), &self.cx())?;
        self.native.settled(&job.id, &outcome);
        Ok(outcome)
    }

    /// Lets a job go, and the hold with it.
    pub(crate) fn launch(&self, job: &JobSpec) -> Result<(), ProviderError> {
        let hold = self.hold(&self.id, Slots::One(1));
        self.native.launch(&self.id, job, ports(&*hold, &mut Open), &self.cx())
    }

    /// Waits for the end of a job that nobody waits for.
    #[track_caller]
    pub(crate) fn wait_for_end(&self, job: &JobId) -> JobOutcome {
        bailiwick_testkit::until("its end", SOON, || {
            match self.native.recover(&self.id, job, &self.cx()).expect("recovered") {
                Recovered::Ended(outcome) => Some(*outcome),
                Recovered::Alive => None,
                other => panic!("{other:?}"),
            }
        })
    }

    /// Takes a hold that is free.
    ///
    /// A test beside this one that starts a program shares every descriptor of this process until the program is executed, so
    /// what was just dropped may be held for that long.
    #[track_caller]
    pub(crate) fn hold(&self, id: &WorkspaceId, slots: Slots) -> Box<dyn Hold> {
        let take = || self.native.hold(id, slots).expect("asked");
        bailiwick_testkit::until("the hold is free", SOON, take)
    }

    /// Runs a job and reads what it printed.
    #[track_caller]
    pub(crate) fn run(&self, job: &JobSpec) -> Done {
        let outcome = self.try_run(job).expect("it ran");
        let text = String::from_utf8_lossy(&self.kept(&job.id)).into_owned();
        Done { outcome, text }
    }

    /// Runs a script and reads what it printed.
    #[track_caller]
    pub(crate) fn sh(&self, script: &str) -> Done {
        self.run(&self.script(script))
    }

    /// All output of a job that was kept.
    pub(crate) fn kept(&self, job: &JobId) -> Vec<u8> {
        let output = self.native.output(job, OutputPart::Kept, &self.cx()).expect("output");
        [output.head.into_bytes(), output.tail.into_bytes()].concat()
    }

    /// Waits until a job has made `name` in its workspace.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str) {
        bailiwick_testkit::until(name, SOON, || self.tree().join(name).exists().then_some(()));
    }
}

/// A forwarded variable.
pub(crate) fn var(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Secret::new(value.as_bytes().to_vec()) }
}

/// A policy that shows `paths`.
pub(crate) fn showing(paths: &[(&Path, Access)]) -> Policy {
    let shown = paths.iter().map(|(path, access)| HostPath {
        path: path.as_os_str().as_encoded_bytes().into(),
        access: *access,
        toolchain: false,
    });
    Policy { host_paths: shown.collect(), ..Policy::default() }
}
