//! A home of its own for every check, a workspace in it, and the short words for what checks do there.
use super::acts::{self, Act};
use super::verdict::Works;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::{CancelToken, Clock, OpCx};
use bailiwick_contract::enforcement::{EffectivePolicy, Strictness, resolve};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobOutcome, JobSpec, Stdin};
use bailiwick_contract::policy::Policy;
use bailiwick_contract::provider::{
    ByteSink, EntryKind, EntrySource, Gate, Hold, ListSpec, Listed, OutputBytes, OutputPart, Ports,
    Provider, ProviderError, ProviderName, Recovered, Slots, Streams, WorkspaceSpec,
};
use bailiwick_contract::time::Timestamp;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// How long a check waits for what comes soon; far beyond what a loaded machine needs.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// A back end, as the suite makes it.
pub trait Case: Sync {
    /// Which one it is.
    fn name(&self) -> ProviderName;

    /// Makes the provider over a home, as another process would that comes later.
    fn provider(&self, place: &Place) -> Box<dyn Provider>;

    /// Makes one over the same home that lacks what it needs for a job.
    fn broken(&self, place: &Place) -> Box<dyn Provider>;

    /// Returns where the disk of a workspace lies, for what is planted there and looked for.
    fn tree(&self, place: &Place, id: &str) -> PathBuf;
}

/// Where a check works.
#[derive(Debug)]
pub struct Place {
    /// The home.
    pub home: PathBuf,
    /// The file that says what jobs do.
    pub script: PathBuf,
    /// A file that holds something of use to nobody.
    pub nonsense: PathBuf,
}

/// The host's clock.
#[derive(Debug)]
pub struct HostClock(Instant);

impl HostClock {
    /// Makes one.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for HostClock {
    #[expect(clippy::disallowed_methods, reason = "jobs take real time")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        Timestamp::from_micros(u64::try_from(since.as_micros()).expect("before 586524"))
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A gate that opens.
pub(super) struct Open;

impl Gate for Open {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

/// A gate that does what a check says.
pub(super) struct Does<F>(pub(super) F);

impl<F: FnMut() -> Result<(), Box<dyn Error + Send + Sync>>> Gate for Does<F> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)()
    }
}

/// Why a gate stays shut.
pub(super) fn shut() -> Result<(), Box<dyn Error + Send + Sync>> {
    Err("the disk of the journal is full".into())
}

/// A sink that keeps what it is given.
#[derive(Default)]
pub(super) struct Keeps {
    pub(super) bytes: Vec<u8>,
    pub(super) largest: usize,
}

impl ByteSink for Keeps {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.largest = self.largest.max(bytes.len());
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// A sink that takes so many bytes and then no more.
pub(super) struct Full {
    pub(super) bytes: Vec<u8>,
    pub(super) room: usize,
}

impl ByteSink for Full {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.bytes.len() >= self.room {
            return Err("it is full".into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

/// An entry of a batch, from memory.
pub(super) struct Given {
    destination: WsPath,
    kind: EntryKind,
    left: Vec<u8>,
    fails: bool,
}

impl EntrySource for Given {
    fn destination(&self) -> &WsPath {
        &self.destination
    }

    fn kind(&self) -> EntryKind {
        self.kind.clone()
    }

    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>> {
        // In pieces that fit nothing, as a pipe gives them.
        let length = self.left.len().min(buffer.len()).min(4_099);
        if length == 0 && self.fails {
            return Err("the source is not what was announced".into());
        }
        buffer[..length].copy_from_slice(&self.left[..length]);
        self.left.drain(..length);
        Ok(length)
    }
}

/// The time of every file that a check writes: 2001-09-09T01:46:40Z.
pub(super) const MTIME: i64 = 1_000_000_000;

pub(super) fn path(text: impl AsRef<[u8]>) -> WsPath {
    WsPath::parse(text.as_ref()).expect("a path of a check")
}

pub(super) fn file(at: &str, bytes: impl AsRef<[u8]>) -> Given {
    entry(at, EntryKind::File { mode: 0o644, mtime: MTIME }, bytes)
}

pub(super) fn entry(at: impl AsRef<[u8]>, kind: EntryKind, bytes: impl AsRef<[u8]>) -> Given {
    Given { destination: path(at), kind, left: bytes.as_ref().to_vec(), fails: false }
}

pub(super) fn failing(at: &str, bytes: impl AsRef<[u8]>) -> Given {
    Given { fails: true, ..file(at, bytes) }
}

/// A home with one workspace.
pub(super) struct Scene<'c> {
    pub(super) case: &'c dyn Case,
    /// Removed last.
    _folder: TempDir,
    pub(super) place: Place,
    pub(super) provider: Box<dyn Provider>,
    pub(super) cancel: CancelToken,
    clock: Arc<HostClock>,
    pub(super) policy: EffectivePolicy,
    pub(super) id: WorkspaceId,
}

/// A job that ended, and what it printed.
pub(super) struct Done {
    pub(super) outcome: JobOutcome,
    pub(super) bytes: Vec<u8>,
}

impl<'c> Scene<'c> {
    /// A workspace under the default policy.
    pub(super) fn new(case: &'c dyn Case) -> Result<Self, String> {
        Self::under(case, &Policy::default())
    }

    /// A workspace under a default policy that `change` changed.
    pub(super) fn with(
        case: &'c dyn Case,
        change: impl FnOnce(&mut Policy),
    ) -> Result<Self, String> {
        let mut policy = Policy::default();
        change(&mut policy);
        Self::under(case, &policy)
    }

    fn under(case: &'c dyn Case, policy: &Policy) -> Result<Self, String> {
        let scene = Self::empty(case, policy)?;
        scene.create(scene.id.as_str()).works("create a workspace")?;
        Ok(scene)
    }

    /// A home without a workspace.
    pub(super) fn empty(case: &'c dyn Case, policy: &Policy) -> Result<Self, String> {
        let folder = tempfile::tempdir().works("make a folder")?;
        let at = |name: &str| folder.path().join(name);
        let place = Place { home: at("home"), script: at("script.json"), nonsense: at("nonsense") };
        std::fs::write(&place.script, acts::script()).works("write the script")?;
        std::fs::write(&place.nonsense, "nonsense").works("write nonsense")?;
        let provider = case.provider(&place);
        let (cancel, clock) = (CancelToken::new(), HostClock::shared());
        let cx = OpCx { cancel: &cancel, deadline: None, budget_bytes: u64::MAX, clock: &*clock };
        let capabilities = provider.capabilities(&cx).works("ask for the capabilities")?;
        let strictness = Strictness { allow_watched: true, ..Strictness::default() };
        let policy = resolve(policy, &strictness, &capabilities).works("hold the policy")?;
        let id = WorkspaceId::parse("ws-1").works("make an id")?;
        Ok(Self { case, _folder: folder, place, provider, cancel, clock, policy, id })
    }

    pub(super) fn cx(&self) -> OpCx<'_> {
        self.cx_of(&self.cancel)
    }

    /// A context that another token cancels.
    pub(super) fn cx_of<'a>(&'a self, cancel: &'a CancelToken) -> OpCx<'a> {
        OpCx { cancel, deadline: None, budget_bytes: u64::MAX, clock: &*self.clock }
    }

    /// What another process has.
    pub(super) fn other(&self) -> Box<dyn Provider> {
        self.case.provider(&self.place)
    }

    pub(super) fn spec(&self, id: &str) -> WorkspaceSpec {
        let id = WorkspaceId::parse(id).expect("an id of a check");
        let profile = self.provider.profile(None, &self.cx()).expect("a default profile");
        WorkspaceSpec { id, profile: profile.name, policy: self.policy.clone() }
    }

    pub(super) fn create(&self, id: &str) -> Result<WorkspaceId, ProviderError> {
        let spec = self.spec(id);
        self.provider.create(&spec, &self.cx()).map(|()| spec.id)
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.case.tree(&self.place, self.id.as_str())
    }

    /// A job with an id that no other job of this process has.
    pub(super) fn job(&self, act: Act) -> JobSpec {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        JobSpec {
            id: JobId::parse(&format!("job-{}-{count}", std::process::id())).expect("an id"),
            argv: act.argv(),
            env: Vec::new(),
            policy: self.policy.clone(),
            cwd: None,
            stdin: Stdin::Empty,
        }
    }

    /// Takes a hold that is free, or will be.
    pub(super) fn hold(&self, slots: Slots) -> Result<Box<dyn Hold>, String> {
        // A program that is being started beside this shares every descriptor until it is executed.
        until(|| self.provider.hold(&self.id, slots).works("ask for a hold"), "the hold is free")
    }

    pub(super) fn is_free(&self, slots: Slots) -> Result<bool, String> {
        Ok(self.provider.hold(&self.id, slots).works("ask for a hold")?.is_some())
    }

    /// Runs a job under a hold of its own, and lets the provider tidy up after it.
    pub(super) fn try_run(
        &self,
        job: &JobSpec,
        gate: &mut dyn Gate,
    ) -> Result<Result<JobOutcome, ProviderError>, String> {
        let hold = self.hold(Slots::One(1))?;
        let ports = Ports { hold: &*hold, gate, live: None };
        let outcome = self.provider.run(&self.id, job, ports, &self.cx());
        if let Ok(outcome) = &outcome {
            self.provider.settled(&job.id, outcome);
        }
        Ok(outcome)
    }

    /// Runs a job to its end.
    pub(super) fn run(&self, job: &JobSpec) -> Result<Done, String> {
        let outcome = self.try_run(job, &mut Open)?.works("run a job")?;
        let bytes = self.kept(&job.id)?;
        Ok(Done { outcome, bytes })
    }

    /// Runs a command to its end.
    pub(super) fn act(&self, act: Act) -> Result<Done, String> {
        self.run(&self.job(act))
    }

    /// Lets a job go and drops everything that its caller had.
    pub(super) fn launch(&self, job: &JobSpec) -> Told {
        let hold = self.hold(Slots::One(1))?;
        let ports = Ports { hold: &*hold, gate: &mut Open, live: None };
        self.provider.launch(&self.id, job, ports, &self.cx()).works("launch a job")
    }

    pub(super) fn recover(&self, job: &JobId) -> Result<Recovered, String> {
        self.provider.recover(&self.id, job, &self.cx()).works("recover a job")
    }

    /// Waits for the end of a job that nobody waits for.
    pub(super) fn ended(&self, job: &JobId) -> Result<JobOutcome, String> {
        let look = || match self.recover(job)? {
            Recovered::Ended(outcome) => Ok(Some(*outcome)),
            Recovered::Alive => Ok(None),
            other => Err(format!("job {job} is {other:?}")),
        };
        until(look, "the job has ended")
    }

    /// Waits until a job has printed `wanted`.
    pub(super) fn printed(&self, job: &JobId, wanted: &[u8]) -> Told {
        let look = || Ok((self.kept(job)? == wanted).then_some(()));
        until(look, &format!("it printed `{}`", wanted.escape_ascii()))
    }

    /// Stops a job at once, whatever it was.
    pub(super) fn end(&self, job: &JobId) -> Told {
        self.provider.stop(job, Duration::ZERO, &self.cx()).works("stop a job").map(drop)
    }

    /// All output of a job that was kept.
    pub(super) fn kept(&self, job: &JobId) -> Result<Vec<u8>, String> {
        let OutputBytes { head, tail, .. } = self.part(job, OutputPart::Kept)?;
        Ok([head.into_bytes(), tail.into_bytes()].concat())
    }

    pub(super) fn part(&self, job: &JobId, part: OutputPart) -> Result<OutputBytes, String> {
        self.provider.output(job, part, &self.cx()).works("read output")
    }

    pub(super) fn stream(&self, job: &JobId, streams: Streams) -> Result<Vec<u8>, String> {
        let mut sink = Keeps::default();
        let streamed = self.provider.stream_output(job, streams, &mut sink, &self.cx());
        streamed.works("stream output").map(|()| sink.bytes)
    }

    /// Writes a batch.
    pub(super) fn write(&self, entries: Vec<Given>) -> Result<(), ProviderError> {
        self.write_with(entries, false, &mut Open, &self.cx())
    }

    pub(super) fn write_with(
        &self,
        entries: Vec<Given>,
        overwrite: bool,
        gate: &mut dyn Gate,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let mut entries = entries.into_iter().map(|entry| Box::new(entry) as Box<dyn EntrySource>);
        self.provider.write(&self.id, &mut entries, overwrite, gate, cx)
    }

    /// Reads a file.
    pub(super) fn read(&self, at: impl AsRef<[u8]>) -> Result<Vec<u8>, ProviderError> {
        let mut sink = Keeps::default();
        self.provider.read(&self.id, &path(at), &mut sink, &self.cx())?;
        Ok(sink.bytes)
    }

    /// Lists everything.
    pub(super) fn list(&self) -> Result<Vec<Listed>, String> {
        let spec = ListSpec { below: None, recursive: true, limit: 10_000 };
        let found = self.provider.list(&self.id, &spec, &self.cx()).works("list")?;
        Ok(found.entries)
    }

    /// The names of everything.
    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        let text = |entry: &Listed| String::from_utf8_lossy(entry.path.as_bytes()).into_owned();
        Ok(self.list()?.iter().map(text).collect())
    }

    /// Whether any file of the home holds `needle`.
    pub(super) fn home_holds(&self, needle: &[u8]) -> Vec<PathBuf> {
        crate::files_holding(&self.place.home, needle)
    }
}

use super::verdict::Told;

/// Calls `look` until it finds something.
pub(super) fn until<T>(
    mut look: impl FnMut() -> Result<Option<T>, String>,
    what: &str,
) -> Result<T, String> {
    let deadline = Instant::now() + SOON;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            return Err(format!("after {SOON:?} still not: {what}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The entries of a folder of the host, by name.
pub(super) fn folder(at: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(at) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// A host path as a job's input names it.
pub(super) fn host_path(at: &Path) -> ByteString {
    at.as_os_str().as_encoded_bytes().into()
}
