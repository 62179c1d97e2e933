//! Workspaces whose jobs do what a script says: nothing is executed, and everything else is as it is elsewhere.
//!
//! A job is a value of time: its record says what it prints, leaves and when, and whoever asks later computes how far it has come
//! (`course`). So it outlives its caller without a process, and shell scripts can be tried where nothing is installed.
//! docs/fake.md describes the script.
mod course;
mod hold;
mod land;
mod leftovers;
mod output;
mod printed;
mod record;
mod run;
mod script;
mod settle;

use crate::native::batch::Batch;
use crate::native::home::{Home, make_private};
use crate::native::moves::{clear_stages, finish_stages};
use crate::native::{disks, files, listing, trouble};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::context::{Clock, OpCx};
use bailiwick_contract::enforcement::{Capabilities, Enforcement, Mechanism};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobOutcome, JobSpec};
use bailiwick_contract::provider::{
    ByteSink, EntrySource, Followed, Gate, Hold, Inspection, Kept, KeptOutput, ListSpec, Listing,
    Orphan, OutputBytes, OutputPart, Ports, Profile, Provider, ProviderError, ProviderName,
    Recovered, Removed, Slots, StopReply, Streams, WorkspaceSpec,
};
use bailiwick_isolation::disk;
use bailiwick_isolation::facts::{CgroupFacts, HostFacts};
use record::JobDir;
use rustix::fs::OFlags;
use script::Script;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The profiles, the default first.
const PROFILES: [&str; 2] = ["python3.12", "host"];

/// The largest script.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;

/// What a fake provider is made from.
#[derive(Clone)]
pub struct FakeOptions {
    /// The home; everything lies under `fake` in it.
    pub home: PathBuf,
    /// The file that says what jobs do; without one every job succeeds and prints nothing.
    pub script: Option<PathBuf>,
    /// The time, for those calls that are given none.
    pub clock: Arc<dyn Clock>,
}

impl std::fmt::Debug for FakeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { home, script, .. } = self;
        f.debug_struct("FakeOptions")
            .field("home", home)
            .field("script", script)
            .finish_non_exhaustive()
    }
}

/// The fake provider.
#[derive(Debug)]
pub struct Fake {
    options: FakeOptions,
    home: Home,
    script: OnceLock<Result<Script, String>>,
    /// What files need to know of a host: that they are given to nobody.
    facts: HostFacts,
}

impl Fake {
    /// Makes the provider; nothing is read.
    #[must_use]
    pub fn new(options: FakeOptions) -> Self {
        let home = Home::at(options.home.join("fake"));
        Self { options, home, script: OnceLock::new(), facts: no_host() }
    }

    /// Returns the script, which is read once.
    fn script(&self) -> Result<&Script, ProviderError> {
        let path = self.options.script.as_deref();
        let read = || path.map_or_else(|| Ok(Script::default()), read_script);
        self.script.get_or_init(read).as_ref().map_err(|why| ProviderError::Script {
            path: trouble::printable(path.unwrap_or_else(|| Path::new(""))),
            why: why.clone(),
        })
    }

    /// Makes sure that the home is ours and that the script can be used: before anything is made.
    fn ready(&self) -> Result<(), ProviderError> {
        Home::at(self.options.home.clone()).ensure()?;
        self.home.ensure()?;
        self.script().map(drop)
    }

    fn settle(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        settle::settle_all(&self.home, id, cx.clock.now())
    }
}

/// Opens a regular file; a pipe or a device is refused, and not waited for.
fn open_script(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

fn read_script(path: &Path) -> Result<Script, String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = open_script(path).map_err(|error| error.to_string())?;
    let read = file.take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > SCRIPT_BYTES_MAX {
        return Err(format!("it is larger than {SCRIPT_BYTES_MAX} bytes"));
    }
    Script::parse(&bytes)
}

const fn no_host() -> HostFacts {
    HostFacts {
        key: String::new(),
        kernel: String::new(),
        by_root: false,
        outside_uid: 0,
        outside_gid: 0,
        landlock_abi: 0,
        cgroup: CgroupFacts::Absent,
        cpus: Vec::new(),
        root_entries: Vec::new(),
        links: Vec::new(),
        proc_masks: Vec::new(),
        lacks: Vec::new(),
    }
}

impl Provider for Fake {
    fn name(&self) -> ProviderName {
        ProviderName::Fake
    }

    fn capabilities(&self, _: &OpCx<'_>) -> Result<Capabilities, ProviderError> {
        self.ready()?;
        let held = Some(Enforcement::enforced(Mechanism::Scripted));
        Ok(Capabilities {
            network_disabled: held,
            network_enabled: held,
            filesystem: held,
            memory: held,
            cpu_whole: held,
            cpu_fraction: held,
            pids: held,
            // As everywhere else, so that scripts meet the same warning.
            storage: Some(Enforcement::measured(Mechanism::Scripted)),
            wall_clock: held,
            output_bytes: held,
            concurrency: held,
            lacks: Vec::new(),
        })
    }

    fn profile(&self, name: Option<&str>, _: &OpCx<'_>) -> Result<Profile, ProviderError> {
        let name = name.unwrap_or(PROFILES[0]);
        if !PROFILES.contains(&name) {
            return Err(ProviderError::UnknownProfile {
                name: name.escape_debug().take(64).collect(),
                known: PROFILES.join(", "),
            });
        }
        let digest = Digest::new(Sha256::digest(format!("fake profile {name}")).into());
        Ok(Profile { name: name.into(), digest })
    }

    fn create(&self, spec: &WorkspaceSpec, _: &OpCx<'_>) -> Result<(), ProviderError> {
        self.ready()?;
        let dir = self.home.workspace(&spec.id);
        match make_private(&dir) {
            // What a killed verb left before its intent was durable: nothing ran there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                disks::refuse_used(&self.home, &spec.id)?;
            }
            other => other.map_err(trouble::on("make the disk", &dir))?,
        }
        match make_private(&self.home.tree(&spec.id)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                // The error that matters is the first one.
                disk::remove(&dir).ok();
                Err(trouble::on("make the disk", &dir)(error))
            }
            _ => Ok(()),
        }
    }

    fn inspect(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<Inspection, ProviderError> {
        self.settle(id, cx)?;
        disks::inspect(&self.home, id)
    }

    fn is_present(&self, id: &WorkspaceId) -> Result<bool, ProviderError> {
        disks::is_present(&self.home, id)
    }

    fn hold(&self, id: &WorkspaceId, slots: Slots) -> Result<Option<Box<dyn Hold>>, ProviderError> {
        hold::take(&self.home, id, slots, self.options.clock.now())
    }

    fn plan(&self, _: &WorkspaceSpec, _: &OpCx<'_>) -> Result<Vec<String>, ProviderError> {
        self.ready()?;
        let script = match &self.options.script {
            None => "there is no script: every job succeeds and prints nothing".into(),
            Some(path) => format!(
                "what a job does is said by the {} rules of `{}`",
                self.script()?.rules.len(),
                trouble::printable(path)
            ),
        };
        Ok(vec!["no process is started: the fake provider executes nothing".into(), script])
    }

    fn run(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<JobOutcome, ProviderError> {
        run::run(self, id, job, ports, cx)
    }

    fn launch(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        run::launch(self, id, job, ports, cx)
    }

    fn settled(&self, job: &JobId, outcome: &JobOutcome) {
        // A job that printed nothing has nothing to keep once its outcome is on record; what stays harms nobody.
        if outcome.output.bytes == 0 {
            JobDir::at(self.home.job(job)).remove().ok();
        }
    }

    fn recover(
        &self,
        _: &WorkspaceId,
        job: &JobId,
        cx: &OpCx<'_>,
    ) -> Result<Recovered, ProviderError> {
        run::recover(self, job, cx)
    }

    fn stop(
        &self,
        job: &JobId,
        grace: Duration,
        cx: &OpCx<'_>,
    ) -> Result<StopReply, ProviderError> {
        run::stop(self, job, grace, cx)
    }

    fn output(
        &self,
        job: &JobId,
        part: OutputPart,
        cx: &OpCx<'_>,
    ) -> Result<OutputBytes, ProviderError> {
        output::read(&self.home, job, part, cx)
    }

    fn stream_output(
        &self,
        job: &JobId,
        streams: Streams,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        output::stream(&self.home, job, streams, sink, cx)
    }

    fn follow_output(
        &self,
        job: &JobId,
        from: u64,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<Followed, ProviderError> {
        output::follow_job(&self.home, job, from, sink, cx)
    }

    fn kept_outputs(&self, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
        output::kept(&self.home, cx)
    }

    fn discard_output(&self, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        output::discard(&self.home, job, cx)
    }

    fn list(
        &self,
        id: &WorkspaceId,
        spec: &ListSpec,
        cx: &OpCx<'_>,
    ) -> Result<Listing, ProviderError> {
        self.settle(id, cx)?;
        listing::list(&self.home, id, spec, cx)
    }

    fn read(
        &self,
        id: &WorkspaceId,
        path: &WsPath,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        self.settle(id, cx)?;
        files::read(&self.home, id, path, sink, cx)
    }

    fn write(
        &self,
        id: &WorkspaceId,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        overwrite: bool,
        gate: &mut dyn Gate,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        self.settle(id, cx)?;
        let batch = Batch { home: &self.home, facts: &self.facts, id, overwrite };
        batch.write(entries, gate, cx)
    }

    fn clear_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        clear_stages(&self.home, id)
    }

    fn finish_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        finish_stages(&self.home, id)
    }

    fn remove(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<Removed, ProviderError> {
        self.settle(id, cx)?;
        disks::remove(&self.home, id)
    }

    fn sweep(&self, _: &JobId, _: &OpCx<'_>) -> Result<(), ProviderError> {
        // A job has no process, and so nothing outside its directory.
        Ok(())
    }

    fn remove_orphans(
        &self,
        is_known: &dyn Fn(&Kept) -> bool,
        age: Duration,
        cx: &OpCx<'_>,
    ) -> Result<Vec<Orphan>, ProviderError> {
        leftovers::remove(&self.home, is_known, age, cx)
    }
}
