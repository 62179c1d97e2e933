//! A provider that keeps files in memory and whose jobs do what a test says.
//!
//! A job can die with its caller (a panic after the gate), so that a test is left with exactly what a `kill -9` leaves:
//! an open intent and no hold.
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::enforcement::{Capabilities, Enforcement, Mechanism};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{
    Basis, JobOutcome, JobSpec, JobStatus, Observed, OutputFacts, Usage, judge,
};
use bailiwick_contract::provider::{
    ByteSink, EntryKind, EntrySource, Followed, Gate, Hold, Inspection, Kept, KeptOutput, ListSpec,
    Listed, ListedKind, Listing, Orphan, OutputBytes, OutputPart, Ports, Profile, Provider,
    ProviderError, ProviderName, Recovered, Removed, Slots, StopReply, Streams, WorkspaceSpec,
};
use bailiwick_contract::time::Timestamp;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// What the next jobs do.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) exit_code: i32,
    pub(crate) output: Vec<u8>,
    pub(crate) writes: Vec<(&'static str, Vec<u8>)>,
    /// The caller is killed once the gate is open.
    pub(crate) kills_caller: bool,
    /// The caller is killed before it opens the gate.
    pub(crate) kills_before: bool,
    /// The caller is killed once the job has ended.
    pub(crate) kills_after: bool,
    /// The sandbox cannot be set up.
    pub(crate) fails: bool,
    /// The wall clock ends the job.
    pub(crate) timed_out: bool,
    /// The job runs until it is stopped.
    pub(crate) endless: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            exit_code: 0,
            output: b"done\n".to_vec(),
            writes: Vec::new(),
            kills_caller: false,
            kills_before: false,
            kills_after: false,
            fails: false,
            timed_out: false,
            endless: false,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    pub(crate) disks: BTreeMap<WorkspaceId, BTreeMap<Vec<u8>, Vec<u8>>>,
    pub(crate) outputs: BTreeMap<JobId, Vec<u8>>,
    pub(crate) recovered: BTreeMap<JobId, Recovered>,
    pub(crate) script: Script,
    /// What `sh -c COMMAND` does instead, by its command.
    pub(crate) shell: BTreeMap<&'static str, Script>,
    /// The jobs as they were asked for.
    pub(crate) specs: Vec<JobSpec>,
    /// The jobs whose caller is alive: it has the hold that they were run under.
    pub(crate) kept: Vec<JobId>,
    /// Jobs that run without a caller, with the share of the hold that is theirs.
    launched: BTreeMap<JobId, FakeHold>,
    pub(crate) held: BTreeMap<WorkspaceId, u64>,
    pub(crate) running: Vec<JobId>,
    pub(crate) stopped: Vec<JobId>,
    pub(crate) calls: Vec<&'static str>,
    pub(crate) env: Vec<(String, Vec<u8>)>,
    pub(crate) makes_directory: Option<std::path::PathBuf>,
    pub(crate) write_fails: bool,
    pub(crate) remove_fails: bool,
    pub(crate) discard_fails: bool,
    /// When the output of each job last changed.
    pub(crate) output_at: BTreeMap<JobId, Timestamp>,
}

#[derive(Debug, Default, Clone)]
pub(crate) struct FakeProvider(Arc<(Mutex<Inner>, Condvar)>);

#[derive(Debug)]
struct FakeHold {
    provider: FakeProvider,
    id: WorkspaceId,
    count: u64,
    jobs: Mutex<Vec<JobId>>,
}

impl Hold for FakeHold {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

impl Drop for FakeHold {
    fn drop(&mut self) {
        let mut inner = self.provider.inner();
        *inner.held.entry(self.id.clone()).or_default() -= self.count;
        let jobs = self.jobs.lock().expect("no test panics with it");
        inner.kept.retain(|job| !jobs.contains(job));
    }
}

impl FakeProvider {
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn called(&self, name: &'static str) -> MutexGuard<'_, Inner> {
        let mut inner = self.inner();
        inner.calls.push(name);
        inner
    }

    fn script_of(&self, job: &JobSpec) -> Script {
        let inner = self.inner();
        let words: Vec<&[u8]> = job.argv.iter().map(|word| word.as_bytes()).collect();
        let own = match words[..] {
            [b"sh", b"-c", line] => inner.shell.iter().find(|(known, _)| known.as_bytes() == line),
            _ => None,
        };
        own.map_or_else(|| inner.script.clone(), |(_, script)| script.clone())
    }

    /// What a job does at its begin: it prints and writes.
    fn begin(&self, id: &WorkspaceId, job: &JobSpec, script: &Script) -> MutexGuard<'_, Inner> {
        let mut inner = self.called("payload");
        inner.env = job.env.iter().map(|v| (v.name.clone(), v.value.expose().to_vec())).collect();
        inner.specs.push(job.clone());
        inner.outputs.insert(job.id.clone(), script.output.clone());
        let disk = inner.disks.get_mut(id).expect("it was created");
        disk.extend(
            script.writes.iter().map(|(path, bytes)| (path.as_bytes().to_vec(), bytes.clone())),
        );
        if let Some(path) = &inner.makes_directory {
            std::fs::create_dir(path).expect("made");
        }
        inner.running.push(job.id.clone());
        self.0.1.notify_all();
        inner
    }

    /// Ends a job that was launched; as a supervisor does, it records the outcome and then lets the slot go.
    pub(crate) fn finish(&self, job: &JobId, seen: &Observed, cx: &OpCx<'_>) {
        let mut inner = self.inner();
        let output = inner.outputs.get(job).cloned().unwrap_or_default();
        let outcome = outcome_of(seen, &output, cx);
        inner.recovered.insert(job.clone(), Recovered::Ended(Box::new(outcome)));
        inner.running.retain(|running| running != job);
        let hold = inner.launched.remove(job);
        drop(inner);
        drop(hold);
        self.0.1.notify_all();
    }

    /// Waits until a job runs.
    pub(crate) fn wait_for_job(&self) {
        let mut inner = self.inner();
        while inner.running.is_empty() {
            inner = self.0.1.wait(inner).expect("not poisoned");
        }
    }
}

fn no_file(id: &WorkspaceId, path: &WsPath) -> ProviderError {
    let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
    ProviderError::NoFile { id: id.clone(), path }
}

fn broken(step: &str) -> ProviderError {
    ProviderError::Host { step: step.into(), source: "scripted".into() }
}

pub(crate) fn outcome_of(seen: &Observed, output: &[u8], cx: &OpCx<'_>) -> JobOutcome {
    let verdict = judge(seen);
    let bytes = output.len() as u64;
    JobOutcome {
        status: verdict.status,
        exit_status: verdict.exit_status,
        signal: verdict.signal,
        reason: verdict.reason,
        detail: None,
        started_at: cx.clock.now(),
        finished_at: cx.clock.now(),
        usage: Usage {
            wall_time_us: 31_000,
            cpu_basis: Basis::Cgroup,
            memory_bytes_max: 9 << 20,
            memory_basis: Basis::Cgroup,
            ..Usage::default()
        },
        output: OutputFacts { bytes, kept: bytes, stdout_bytes: bytes, ..OutputFacts::default() },
        quota_events: Vec::new(),
        checks: Vec::new(),
        measurements: Vec::new(),
    }
}

impl Provider for FakeProvider {
    fn name(&self) -> ProviderName {
        ProviderName::Native
    }

    fn capabilities(&self, _: &OpCx<'_>) -> Result<Capabilities, ProviderError> {
        drop(self.called("capabilities"));
        let held = Some(Enforcement::enforced(Mechanism::SlotLock));
        Ok(Capabilities {
            network_disabled: held,
            network_enabled: None,
            filesystem: held,
            memory: held,
            cpu_whole: held,
            cpu_fraction: held,
            pids: held,
            storage: Some(Enforcement::measured(Mechanism::WatchStatfs)),
            wall_clock: held,
            output_bytes: held,
            concurrency: held,
            lacks: Vec::new(),
        })
    }

    fn profile(&self, name: Option<&str>, _: &OpCx<'_>) -> Result<Profile, ProviderError> {
        match name.unwrap_or("host") {
            "host" => Ok(Profile { name: "host".into(), digest: Digest::new([7; 32]) }),
            other => {
                Err(ProviderError::UnknownProfile { name: other.into(), known: "host".into() })
            }
        }
    }

    fn create(&self, spec: &WorkspaceSpec, _: &OpCx<'_>) -> Result<(), ProviderError> {
        let mut inner = self.called("create");
        if inner.disks.contains_key(&spec.id) {
            return Err(broken("create the disk"));
        }
        inner.disks.insert(spec.id.clone(), BTreeMap::new());
        Ok(())
    }

    fn inspect(&self, id: &WorkspaceId, _: &OpCx<'_>) -> Result<Inspection, ProviderError> {
        let inner = self.inner();
        let disk = inner.disks.get(id);
        Ok(Inspection {
            present: disk.is_some(),
            storage_bytes: disk.map_or(0, |files| files.values().map(|f| f.len() as u64).sum()),
            inodes: disk.map_or(0, |files| files.len() as u64),
        })
    }

    fn is_present(&self, id: &WorkspaceId) -> Result<bool, ProviderError> {
        Ok(self.inner().disks.contains_key(id))
    }

    fn hold(&self, id: &WorkspaceId, slots: Slots) -> Result<Option<Box<dyn Hold>>, ProviderError> {
        let mut inner = self.inner();
        if !inner.disks.contains_key(id) {
            return Err(ProviderError::NoWorkspace { id: id.clone() });
        }
        let held = inner.held.entry(id.clone()).or_default();
        let count = match slots {
            Slots::One(of) if *held < of => 1,
            Slots::All(of) if *held == 0 => of,
            _ => return Ok(None),
        };
        *held += count;
        Ok(Some(Box::new(FakeHold {
            provider: self.clone(),
            id: id.clone(),
            count,
            jobs: Mutex::default(),
        })))
    }

    fn run(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<JobOutcome, ProviderError> {
        let Ports { hold, gate, live } = ports;
        let hold = hold.as_any().downcast_ref::<FakeHold>().filter(|held| held.id == *id);
        let hold = hold.expect("a hold of ours on that workspace");
        drop(self.called("run"));
        let script = self.script_of(job);
        assert!(!script.kills_before, "the caller is killed here");
        if script.fails {
            return Err(broken("make a namespace"));
        }
        hold.jobs.lock().expect("no test panics with it").push(job.id.clone());
        self.inner().kept.push(job.id.clone());
        gate.open().map_err(ProviderError::Gate)?;
        assert!(!script.kills_caller, "the caller is killed here");
        let mut inner = self.begin(id, job, &script);
        inner.output_at.insert(job.id.clone(), cx.clock.now());
        while script.endless && !inner.stopped.contains(&job.id) {
            inner = self.0.1.wait(inner).expect("not poisoned");
        }
        drop(inner);
        if let Some(sink) = live {
            // Who does not want more gets no more, and the job goes on.
            script.output.chunks(3).try_for_each(|chunk| sink.push(chunk)).ok();
        }
        let (stopped, timed_out) = (script.endless, script.timed_out);
        let exit_code = (!stopped && !timed_out).then_some(script.exit_code);
        let seen = Observed { exit_code, stopped, timed_out, ..Observed::default() };
        let outcome = outcome_of(&seen, &script.output, cx);
        let mut inner = self.inner();
        // As a supervisor's outcome file does, it stays.
        inner.recovered.insert(job.id.clone(), Recovered::Ended(Box::new(outcome.clone())));
        inner.running.retain(|running| *running != job.id);
        self.0.1.notify_all();
        drop(inner);
        assert!(!script.kills_after, "the caller is killed here");
        Ok(outcome)
    }

    fn plan(&self, _: &WorkspaceSpec, _: &OpCx<'_>) -> Result<Vec<String>, ProviderError> {
        Ok(vec!["a plan".into()])
    }

    fn launch(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let Ports { hold, gate, live } = ports;
        assert!(live.is_none(), "nobody is there who would listen");
        let hold = hold.as_any().downcast_ref::<FakeHold>().expect("a hold of ours");
        drop(self.called("launch"));
        gate.open().map_err(ProviderError::Gate)?;
        let script = self.script_of(job);
        let mut inner = self.begin(id, job, &script);
        inner.output_at.insert(job.id.clone(), cx.clock.now());
        *inner.held.entry(id.clone()).or_default() += 1;
        let (provider, id, jobs) = (self.clone(), id.clone(), Mutex::default());
        assert!(hold.count > 0 && hold.id == id);
        inner.launched.insert(job.id.clone(), FakeHold { provider, id, count: 1, jobs });
        drop(inner);
        if !script.endless {
            let seen = Observed { exit_code: Some(script.exit_code), ..Observed::default() };
            self.finish(&job.id, &seen, cx);
        }
        Ok(())
    }

    fn recover(
        &self,
        _: &WorkspaceId,
        job: &JobId,
        _: &OpCx<'_>,
    ) -> Result<Recovered, ProviderError> {
        let inner = self.called("recover");
        if inner.running.contains(job) || inner.kept.contains(job) {
            return Ok(Recovered::Alive);
        }
        Ok(inner.recovered.get(job).cloned().unwrap_or(Recovered::Lost))
    }

    fn stop(&self, job: &JobId, _: Duration, cx: &OpCx<'_>) -> Result<StopReply, ProviderError> {
        let mut inner = self.called("stop");
        if !inner.running.contains(job) {
            return Ok(StopReply::NotRunning);
        }
        inner.stopped.push(job.clone());
        if inner.launched.contains_key(job) {
            drop(inner);
            self.finish(job, &Observed { stopped: true, ..Observed::default() }, cx);
            return Ok(StopReply::Stopped);
        }
        self.0.1.notify_all();
        while inner.running.contains(job) {
            inner = self.0.1.wait(inner).expect("not poisoned");
        }
        Ok(StopReply::Stopped)
    }

    fn output(
        &self,
        job: &JobId,
        part: OutputPart,
        _: &OpCx<'_>,
    ) -> Result<OutputBytes, ProviderError> {
        let bytes = self.inner().outputs.get(job).cloned().unwrap_or_default();
        let (head, tail) = match part {
            OutputPart::Range { start, end } => {
                let part: Vec<u8> = bytes
                    .into_iter()
                    .enumerate()
                    .filter(|(at, _)| (start..end).contains(&(*at as u64)))
                    .map(|b| b.1)
                    .collect();
                return Ok(OutputBytes { head: part.into(), ..OutputBytes::default() });
            }
            OutputPart::HeadTail { head, tail } if (head + tail) < bytes.len() as u64 => {
                (usize::try_from(head).expect("small"), usize::try_from(tail).expect("small"))
            }
            _ => return Ok(OutputBytes { head: bytes.into(), ..OutputBytes::default() }),
        };
        let (first, last) = (&bytes[..head], &bytes[bytes.len() - tail..]);
        let omitted = (bytes.len() - head - tail) as u64;
        Ok(OutputBytes { head: first.into(), omitted, tail: last.into() })
    }

    fn stream_output(
        &self,
        job: &JobId,
        _: Streams,
        sink: &mut dyn ByteSink,
        _: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let bytes = self.inner().outputs.get(job).cloned().unwrap_or_default();
        sink.push(&bytes).map_err(ProviderError::Peer)
    }

    fn follow_output(
        &self,
        job: &JobId,
        from: u64,
        sink: &mut dyn ByteSink,
        _: &OpCx<'_>,
    ) -> Result<Followed, ProviderError> {
        let bytes = self.inner().outputs.get(job).cloned().unwrap_or_default();
        let ended = !self.inner().running.contains(job);
        let from = usize::try_from(from).expect("small").min(bytes.len());
        sink.push(&bytes[from..]).map_err(ProviderError::Peer)?;
        Ok(Followed { next: bytes.len() as u64, omitted: 0, ended })
    }

    fn kept_outputs(&self, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
        let inner = self.inner();
        let kept = |(job, bytes): (&JobId, &Vec<u8>)| KeptOutput {
            job: job.clone(),
            bytes: bytes.len() as u64,
            changed_at: inner.output_at.get(job).copied().unwrap_or_else(|| cx.clock.now()),
        };
        Ok(inner.outputs.iter().map(kept).collect())
    }

    fn discard_output(&self, job: &JobId, _: &OpCx<'_>) -> Result<(), ProviderError> {
        let mut inner = self.called("discard_output");
        if inner.discard_fails {
            return Err(broken("remove the output"));
        }
        inner.outputs.remove(job);
        Ok(())
    }

    fn list(
        &self,
        id: &WorkspaceId,
        spec: &ListSpec,
        _: &OpCx<'_>,
    ) -> Result<Listing, ProviderError> {
        let inner = self.inner();
        let disk = inner.disks.get(id);
        let disk = disk.ok_or_else(|| ProviderError::NoWorkspace { id: id.clone() })?;
        let mut all: BTreeMap<Vec<u8>, ListedKind> = BTreeMap::new();
        for (path, bytes) in disk {
            for (at, _) in path.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
                all.insert(path[..at].to_vec(), ListedKind::Directory);
            }
            all.insert(path.clone(), ListedKind::File { size_bytes: bytes.len() as u64 });
        }
        let below = spec.below.as_ref().map_or(&b""[..], WsPath::as_bytes);
        match (all.get(below), &spec.below) {
            (None, Some(path)) => return Err(no_file(id, path)),
            (Some(ListedKind::Directory), _) | (None, None) => all.retain(|path, _| {
                let rest =
                    path.strip_prefix(below).map(|rest| rest.strip_prefix(b"/").unwrap_or(rest));
                let is_below = rest.is_some_and(|rest| path.len() > below.len() && rest != *path)
                    || below.is_empty();
                is_below && (spec.recursive || !rest.unwrap_or_default().contains(&b'/'))
            }),
            _ => all.retain(|path, _| path == below),
        }
        let limit = usize::try_from(spec.limit).unwrap_or(usize::MAX);
        let more = all.len() > limit;
        let listed = |(path, what): (Vec<u8>, ListedKind)| Listed {
            path: WsPath::parse(&path).expect("a path"),
            mode: if what == ListedKind::Directory { 0o755 } else { 0o644 },
            what,
            mtime: 0,
        };
        Ok(Listing { entries: all.into_iter().take(limit).map(listed).collect(), more })
    }

    fn read(
        &self,
        id: &WorkspaceId,
        path: &WsPath,
        sink: &mut dyn ByteSink,
        _: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let bytes = {
            let inner = self.inner();
            let disk = inner.disks.get(id);
            let disk = disk.ok_or_else(|| ProviderError::NoWorkspace { id: id.clone() })?;
            let below = [path.as_bytes(), b"/"].concat();
            if disk.keys().any(|name| name.starts_with(&below)) {
                let path = String::from_utf8_lossy(path.as_bytes()).into_owned();
                return Err(ProviderError::NotAFile { id: id.clone(), path, what: "a directory" });
            }
            disk.get(path.as_bytes()).cloned().ok_or_else(|| no_file(id, path))?
        };
        bytes.chunks(4).try_for_each(|chunk| sink.push(chunk)).map_err(ProviderError::Peer)
    }

    fn write(
        &self,
        id: &WorkspaceId,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        overwrite: bool,
        gate: &mut dyn Gate,
        _: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let mut landing = BTreeMap::new();
        for mut entry in entries {
            if entry.kind() == EntryKind::Directory {
                continue;
            }
            let (mut bytes, mut buffer) = (Vec::new(), [0_u8; 16]);
            loop {
                match entry.pull(&mut buffer).map_err(ProviderError::Peer)? {
                    0 => break,
                    read => bytes.extend_from_slice(&buffer[..read]),
                }
            }
            landing.insert(entry.destination().as_bytes().to_vec(), bytes);
        }
        gate.open().map_err(ProviderError::Gate)?;
        let mut inner = self.called("write");
        if inner.write_fails {
            return Err(ProviderError::NoSpace { what: format!("the disk of {id}") });
        }
        let disk = inner.disks.get_mut(id).expect("it was created");
        if let Some(taken) = landing.keys().find(|path| !overwrite && disk.contains_key(*path)) {
            let path = String::from_utf8_lossy(taken).into_owned();
            return Err(ProviderError::Exists { id: id.clone(), path });
        }
        disk.extend(landing);
        Ok(())
    }

    fn clear_stage(&self, _: &WorkspaceId) -> Result<(), ProviderError> {
        drop(self.called("clear_stage"));
        Ok(())
    }

    fn remove(&self, id: &WorkspaceId, _: &OpCx<'_>) -> Result<Removed, ProviderError> {
        let mut inner = self.called("remove");
        if inner.remove_fails {
            return Err(broken("remove the disk"));
        }
        Ok(if inner.disks.remove(id).is_some() { Removed::Gone } else { Removed::WasAbsent })
    }

    fn sweep(&self, _: &JobId, _: &OpCx<'_>) -> Result<(), ProviderError> {
        drop(self.called("sweep"));
        Ok(())
    }

    fn remove_orphans(
        &self,
        is_known: &dyn Fn(&Kept) -> bool,
        _: Duration,
        _: &OpCx<'_>,
    ) -> Result<Vec<Orphan>, ProviderError> {
        let ids: Vec<WorkspaceId> = self.inner().disks.keys().cloned().collect();
        let mut orphans = Vec::new();
        for id in ids {
            let kept = Kept::Workspace(id.clone());
            if is_known(&kept) {
                continue;
            }
            let removed = self.inner().disks[&id].is_empty();
            if removed {
                self.inner().disks.remove(&id);
            }
            orphans.push(Orphan { kept, removed });
        }
        Ok(orphans)
    }
}

/// The outcome of a job that ended by itself, for a recovery.
pub(crate) fn ended(cx: &OpCx<'_>) -> Recovered {
    let seen = Observed { exit_code: Some(0), ..Observed::default() };
    let outcome = outcome_of(&seen, b"done\n", cx);
    assert_eq!(outcome.status, JobStatus::Success);
    Recovered::Ended(Box::new(outcome))
}
