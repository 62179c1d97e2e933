//! What a test has: an engine, what it stands on, and a directory of the host.
use crate::provider::{FakeProvider, Script};
use crate::store::MemoryStore;
use bailiwick_contract::artifact::ArtifactDeclaration;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::{CancelToken, Clock, Entropy, OpCx};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::listing::WorkspaceListing;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;
use bailiwick_engine::Engine;
use bailiwick_engine::requests::{
    AboutRequest, Bound, CreateRequest, DestroyRequest, ExecRequest, ExportRequest, ExportTarget,
    InspectRequest, JobRequest, ListRequest, Live, PutRequest, Report, RunRequest, SealRequest,
    StopRequest, WaitRequest,
};
use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct FakeClock(AtomicU64);

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_796_060_498_785_206 + self.0.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).expect("a short sleep");
        self.0.fetch_add(micros, Ordering::SeqCst);
        // Other threads of a test need real time to get on.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counting(AtomicU64);

impl Entropy for Counting {
    fn fill(&self, buffer: &mut [u8]) {
        let count = self.0.fetch_add(1, Ordering::SeqCst).to_be_bytes();
        buffer.fill(0);
        let end = buffer.len();
        buffer[end - 2..].copy_from_slice(&count[6..]);
    }
}

pub(crate) struct World {
    pub(crate) store: MemoryStore,
    pub(crate) provider: FakeProvider,
    pub(crate) clock: FakeClock,
    pub(crate) entropy: Counting,
    pub(crate) cancel: CancelToken,
    pub(crate) host: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            store: MemoryStore::default(),
            provider: FakeProvider::default(),
            clock: FakeClock::default(),
            entropy: Counting::default(),
            cancel: CancelToken::new(),
            host: tempfile::tempdir().expect("a directory"),
        }
    }

    /// A world with the workspace `demo`.
    pub(crate) fn with_demo() -> Self {
        let world = Self::new();
        world.create("demo").expect("created");
        world
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine {
            provider: &self.provider,
            store: &self.store,
            clock: &self.clock,
            entropy: &self.entropy,
            cancel: &self.cancel,
            program: "bailiwick",
        }
    }

    pub(crate) fn cx(&self) -> OpCx<'_> {
        OpCx { cancel: &self.cancel, deadline: None, budget_bytes: u64::MAX, clock: &self.clock }
    }

    pub(crate) fn script(&self, script: Script) {
        self.provider.inner().script = script;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.host.path().join(name)
    }

    pub(crate) fn host_file(&self, name: &str, contents: &str) -> PathBuf {
        std::fs::write(self.path(name), contents).expect("written");
        self.path(name)
    }

    pub(crate) fn create(&self, id: &str) -> Result<Report, Failure> {
        self.engine().create(&CreateRequest { workspace: Some(ws(id)), ..CreateRequest::default() })
    }

    pub(crate) fn create_about(&self, id: &str, about: AboutRequest) -> Result<Report, Failure> {
        let workspace = Some(ws(id));
        self.engine().create(&CreateRequest { workspace, about, ..CreateRequest::default() })
    }

    /// Lets time pass.
    pub(crate) fn pass(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).expect("some days");
        self.clock.0.fetch_add(micros, Ordering::SeqCst);
    }

    pub(crate) fn seal(&self) -> Result<Report, Failure> {
        self.engine().seal(&SealRequest { workspace: ws("demo"), bound: None })
    }

    pub(crate) fn list(&self, request: &ListRequest) -> WorkspaceListing {
        let request = ListRequest { limit: 100, ..request.clone() };
        self.engine().list(&request).expect("listed")
    }

    /// Destroys every workspace that is not gone.
    pub(crate) fn destroy_all(&self) {
        let records = self.store.tables().workspaces.clone();
        for record in records.iter().filter(|one| one.state != WorkspaceState::Destroyed) {
            let (workspace, bound) = (record.id.clone(), None);
            self.engine()
                .destroy(&DestroyRequest { workspace, force: true, bound })
                .expect("destroyed");
        }
    }

    pub(crate) fn state_of(&self, id: &str) -> WorkspaceState {
        let tables = self.store.tables();
        tables.workspaces.iter().find(|record| record.id == ws(id)).expect("there").state
    }

    pub(crate) fn run(&self, job: JobRequest) -> Result<Report, Failure> {
        self.run_waiting(job, Duration::ZERO)
    }

    pub(crate) fn run_waiting(&self, job: JobRequest, wait: Duration) -> Result<Report, Failure> {
        self.engine().run(&RunRequest { job, wait: Some(wait), ..running("demo") })
    }

    pub(crate) fn detach(&self, job: JobRequest) -> Result<Report, Failure> {
        self.engine().run(&RunRequest { job, detach: true, ..running("demo") })
    }

    pub(crate) fn wait(&self, handle: &str) -> Result<Report, Failure> {
        self.wait_within(handle, None)
    }

    pub(crate) fn wait_within(
        &self,
        handle: &str,
        timeout: Option<Duration>,
    ) -> Result<Report, Failure> {
        let bound = Some(Bound::default());
        self.engine().wait(&WaitRequest { handle: handle.into(), timeout, bound })
    }

    /// Runs a job whose caller is killed once the gate is open.
    pub(crate) fn run_and_die(&self, job: JobRequest) {
        self.die(|| drop(self.run(job)));
    }

    pub(crate) fn die(&self, verb: impl FnOnce()) {
        self.provider.inner().script.kills_caller = true;
        catch_unwind(AssertUnwindSafe(verb)).expect_err("the caller is killed");
        self.provider.inner().script.kills_caller = false;
    }

    pub(crate) fn put(&self, source: PathBuf, destination: &str) -> Result<Report, Failure> {
        self.engine().put(&PutRequest {
            workspace: ws("demo"),
            source,
            destination: destination.into(),
            overwrite: false,
            ignore_file: None,
            bound: None,
        })
    }

    pub(crate) fn stop(&self, apply: bool) -> Result<Report, Failure> {
        let grace = Duration::from_secs(2);
        self.engine().stop(&StopRequest { workspace: ws("demo"), apply, grace, bound: None })
    }

    pub(crate) fn inspect(&self, handle: &str) -> Result<Report, Failure> {
        self.engine().inspect(&InspectRequest { handle: handle.into(), bound: None })
    }

    pub(crate) fn export(&self, name: &str, to: PathBuf) -> Result<Report, Failure> {
        self.engine().export(&ExportRequest {
            workspace: ws("demo"),
            name: name.into(),
            destination: to,
            path: None,
            undeclared: false,
            tar: false,
            no_clobber: false,
            expect_sha256: None,
            bound: None,
        })
    }

    pub(crate) fn destroy(&self, force: bool) -> Result<Report, Failure> {
        self.engine().destroy(&DestroyRequest { workspace: ws("demo"), force, bound: None })
    }

    /// Runs `job` in a workspace of its own, with an export of `pi` where the job declares it.
    pub(crate) fn exec(&self, job: JobRequest) -> Result<Report, Failure> {
        let exports = job.declares.iter().map(|declared| ExportTarget {
            name: declared.name.clone(),
            destination: self.path("out"),
        });
        let exports = exports.collect();
        self.engine().exec(&ExecRequest { job, exports, bound: None, ..ExecRequest::default() })
    }

    pub(crate) fn state(&self) -> WorkspaceState {
        self.store.tables().workspaces.last().expect("one workspace").state
    }

    /// Returns the batches since the last call.
    pub(crate) fn batches(&self) -> Vec<Vec<&'static str>> {
        std::mem::take(&mut self.store.tables().batches)
    }
}

pub(crate) fn ws(id: &str) -> WorkspaceId {
    WorkspaceId::parse(id).expect("a good id")
}

/// A run that waits for nobody.
pub(crate) fn running(workspace: &str) -> RunRequest<'static> {
    RunRequest {
        workspace: ws(workspace),
        job: JobRequest::default(),
        wait: Some(Duration::ZERO),
        notice: &|_| {},
        detach: false,
        live: Live::default(),
        bound: Some(Bound::default()),
    }
}

pub(crate) fn job(argv: &[&str]) -> JobRequest {
    let argv = argv.iter().map(|argument| ByteString::from(*argument)).collect();
    JobRequest { argv, ..JobRequest::default() }
}

/// A job that declares `pi`.
pub(crate) fn declaring() -> JobRequest {
    let declares = vec![ArtifactDeclaration {
        name: "pi".into(),
        purpose: "ten digits".into(),
        media_type: "text/plain".into(),
    }];
    JobRequest { declares, ..job(&["make", "pi"]) }
}

pub(crate) fn writing_pi() -> Script {
    Script { writes: vec![("pi", b"3.1415926536".to_vec())], ..Script::default() }
}
