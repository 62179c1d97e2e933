//! Workspaces on this host: namespaces, Landlock, seccomp and control groups, without a daemon and without root.
//!
//! It needs the home's directory and the supervisor's program, and nothing else. What a sandbox is made of is in
//! `bailiwick-isolation`; here are the disks, the holds on them and the conversation with a supervisor.
pub(crate) mod batch;
pub(crate) mod cwd;
pub(crate) mod disks;
mod explain;
pub(crate) mod files;
pub(crate) mod hold;
pub(crate) mod home;
mod host;
mod host_path;
pub(crate) mod listing;
pub(crate) mod moves;
mod output;
mod profile;
pub(crate) mod retention;
mod run;
pub(crate) mod stdin;
mod stop;
pub(crate) mod trouble;

use bailiwick_contract::context::OpCx;
use bailiwick_contract::enforcement::Capabilities;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobOutcome, JobSpec};
use bailiwick_contract::provider::{
    ByteSink, EntrySource, Followed, Gate, Hold, Inspection, Kept, KeptOutput, ListSpec, Listing,
    Orphan, OutputBytes, OutputPart, Ports, Profile, Provider, ProviderError, ProviderName,
    Recovered, Removed, Slots, StopReply, Streams, WorkspaceSpec,
};
use bailiwick_isolation::facts::HostFacts;
use bailiwick_isolation::remains;
use bailiwick_isolation::spawn::Supervisor;
use home::Home;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What a native provider is made from.
#[derive(Debug, Clone)]
pub struct NativeOptions {
    /// The home.
    pub home: PathBuf,
    /// The supervisor's program.
    pub supervisor: PathBuf,
    /// Picks the outside id of a home that root owns, when it is first used.
    pub seed: u32,
    /// Leave control groups alone, as on a host that has none; for tests.
    pub without_cgroups: bool,
}

/// The native provider.
#[derive(Debug)]
pub struct Native {
    options: NativeOptions,
    home: Home,
    facts: OnceLock<HostFacts>,
    /// A supervisor that was started before its job was known.
    waiting: Mutex<Option<Supervisor>>,
    /// Supervisors that have said their outcome and are tidying up.
    finished: Mutex<Vec<Supervisor>>,
}

impl Native {
    /// Makes the provider; nothing is read or started.
    #[must_use]
    pub fn new(options: NativeOptions) -> Self {
        let home = Home::at(options.home.clone());
        Self {
            options,
            home,
            facts: OnceLock::new(),
            waiting: Mutex::new(None),
            finished: Mutex::new(Vec::new()),
        }
    }

    /// Returns the host's facts, probing at most once a boot.
    fn facts(&self) -> Result<&HostFacts, ProviderError> {
        if let Some(facts) = self.facts.get() {
            return Ok(facts);
        }
        let facts = host::facts(&self.home, &self.options)?;
        Ok(self.facts.get_or_init(|| facts))
    }

    /// Returns a supervisor that has no job yet.
    fn supervisor(&self) -> Result<Supervisor, ProviderError> {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        match waiting {
            Some(supervisor) => Ok(supervisor),
            None => host::start(&self.options.supervisor),
        }
    }

    fn finish(&self, supervisor: Supervisor) {
        self.reap();
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).push(supervisor);
    }

    /// Reaps the supervisors that are gone; those that are still tidying up are met by the next job.
    fn reap(&self) {
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        finished.retain_mut(|supervisor| !supervisor.has_ended());
    }
}

impl Provider for Native {
    fn name(&self) -> ProviderName {
        ProviderName::Native
    }

    fn capabilities(&self, _: &OpCx<'_>) -> Result<Capabilities, ProviderError> {
        Ok(self.facts()?.capabilities())
    }

    fn profile(&self, name: Option<&str>, _: &OpCx<'_>) -> Result<Profile, ProviderError> {
        profile::find(name, &self.facts()?.kernel)
    }

    fn create(&self, spec: &WorkspaceSpec, _: &OpCx<'_>) -> Result<(), ProviderError> {
        disks::create(&self.home, self.facts()?, spec)
    }

    fn inspect(&self, id: &WorkspaceId, _: &OpCx<'_>) -> Result<Inspection, ProviderError> {
        disks::inspect(&self.home, id)
    }

    fn is_present(&self, id: &WorkspaceId) -> Result<bool, ProviderError> {
        disks::is_present(&self.home, id)
    }

    fn hold(&self, id: &WorkspaceId, slots: Slots) -> Result<Option<Box<dyn Hold>>, ProviderError> {
        hold::take(&self.home, id, slots)
    }

    fn expect_job(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.is_none() {
            // What is wrong with the program is said when it is needed.
            *waiting = host::start(&self.options.supervisor).ok();
        }
    }

    fn run(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        mut ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<JobOutcome, ProviderError> {
        run::run(self, id, job, &mut ports, cx)
    }

    fn plan(&self, spec: &WorkspaceSpec, _: &OpCx<'_>) -> Result<Vec<String>, ProviderError> {
        explain::lines(&self.home, self.facts()?, spec)
    }

    fn launch(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        mut ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        run::launch(self, id, job, &mut ports, cx)
    }

    fn follow_output(
        &self,
        job: &JobId,
        from: u64,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<Followed, ProviderError> {
        output::follow(&self.home.job(job), from, sink, cx)
    }

    fn kept_outputs(&self, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
        retention::kept(&self.home, cx)
    }

    fn discard_output(&self, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        retention::discard(&self.home.job(job), cx)
    }

    fn list(
        &self,
        id: &WorkspaceId,
        spec: &ListSpec,
        cx: &OpCx<'_>,
    ) -> Result<Listing, ProviderError> {
        listing::list(&self.home, id, spec, cx)
    }

    fn settled(&self, job: &JobId, outcome: &JobOutcome) {
        run::tidy(&self.home.job(job), outcome);
    }

    fn recover(
        &self,
        _: &WorkspaceId,
        job: &JobId,
        _: &OpCx<'_>,
    ) -> Result<Recovered, ProviderError> {
        stop::recover(&self.home, job)
    }

    fn stop(
        &self,
        job: &JobId,
        grace: Duration,
        cx: &OpCx<'_>,
    ) -> Result<StopReply, ProviderError> {
        stop::stop(&self.home, job, grace, cx)
    }

    fn output(
        &self,
        job: &JobId,
        part: OutputPart,
        _: &OpCx<'_>,
    ) -> Result<OutputBytes, ProviderError> {
        output::read(&self.home, job, part)
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

    fn read(
        &self,
        id: &WorkspaceId,
        path: &WsPath,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
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
        let batch = batch::Batch { home: &self.home, facts: self.facts()?, id, overwrite };
        batch.write(entries, gate, cx)
    }

    fn clear_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        moves::clear_stages(&self.home, id)
    }

    fn finish_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        moves::finish_stages(&self.home, id)
    }

    fn remove(&self, id: &WorkspaceId, _: &OpCx<'_>) -> Result<Removed, ProviderError> {
        disks::remove(&self.home, id)
    }

    fn sweep(&self, job: &JobId, _: &OpCx<'_>) -> Result<(), ProviderError> {
        let name = remains::group_name(self.home.path(), job);
        remains::sweep(&self.facts()?.cgroup, &name);
        stop::sweep(&self.home, job);
        Ok(())
    }

    fn remove_orphans(
        &self,
        is_known: &dyn Fn(&Kept) -> bool,
        age: Duration,
        cx: &OpCx<'_>,
    ) -> Result<Vec<Orphan>, ProviderError> {
        let home = &self.home;
        let removal = |kept: &Kept| match kept {
            Kept::Workspace(id) => {
                let held = hold::take(home, id, Slots::All(1));
                disks::remove_unused(home, id, held, &|| is_known(kept))
            }
            Kept::Job(id) => disks::remove_unstarted(home, id),
        };
        let orphans = disks::remove_orphans(home, is_known, age, cx, &removal)?;
        for orphan in orphans.iter().filter(|orphan| orphan.removed) {
            // Its supervisor may have been killed with groups that nobody else will ever look for.
            if let Kept::Job(job) = &orphan.kept {
                self.sweep(job, cx)?;
            }
        }
        // Where it cannot be told, it is left alone.
        let is_alive = |job: &JobId| !matches!(stop::recover(&self.home, job), Ok(found) if found != Recovered::Alive);
        remains::sweep_home(&self.facts()?.cgroup, self.home.path(), &is_alive);
        Ok(orphans)
    }
}
