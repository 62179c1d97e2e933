//! The end of a job: what was seen becomes an outcome, which is recorded and then told.
//!
//! Which status the observations amount to is decided by `bailiwick_contract::job::judge`. The caller is answered as soon as the
//! job's processes are gone; init itself, whose mounts take longer to come down, is reaped afterwards.
use crate::control;
use crate::job::{Job, now};
use crate::outcome::record;
use bailiwick_contract::job::{Basis, JobOutcome, JobStatus, QuotaEvent, Reason, Usage, judge};
use bailiwick_contract::policy::Limit;
use bailiwick_isolation::cgroup::Counted;
use bailiwick_isolation::record::OutcomeFile;
use bailiwick_isolation::sandbox::InitEnd;
use bailiwick_isolation::wire::{FromInit, JobEnd, PayloadEnd, Reply};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// `SIGXFSZ` of x86-64 (signal(7)).
const SIGXFSZ: i32 = 25;

impl Job<'_> {
    /// Records the outcome, then says it.
    pub(crate) fn settle(mut self, hold: Vec<OwnedFd>) -> io::Result<()> {
        let reply = if self.seen.began.is_some() { self.ended()? } else { self.never_started() };
        #[cfg(feature = "faults")]
        bailiwick_isolation::faults::before("supervisor:hang_up");
        self.hang_up();
        // Only init is left, on its way out: the caller may give the workspace to the next one.
        drop(hold);
        #[cfg(feature = "faults")]
        bailiwick_isolation::faults::after("supervisor:hang_up");
        #[cfg(feature = "faults")]
        bailiwick_isolation::faults::before("supervisor:tell");
        if let Some(caller) = &self.caller {
            caller.tell(&reply);
        }
        self.peers.tell(&reply);
        #[cfg(feature = "faults")]
        bailiwick_isolation::faults::after("supervisor:tell");
        #[cfg(feature = "faults")]
        bailiwick_isolation::faults::before("supervisor:end");
        std::fs::remove_file(control::CONTROL).ok();
        if !self.seen.reaped {
            self.sandbox.end()?;
        }
        self.sandbox.remove_groups();
        #[cfg(feature = "faults")]
        bailiwick_isolation::faults::after("supervisor:end");
        Ok(())
    }

    /// Hears the last who came to ask for a stop; whoever comes from now on is refused, and finds the outcome.
    fn hang_up(&mut self) {
        if let Some(listener) = self.listener.take() {
            self.peers.accept(listener.as_fd());
            self.peers.hear_stop();
        }
    }

    fn ended(&mut self) -> io::Result<Reply> {
        let outcome = Box::new(self.outcome()?);
        let output_budget = self.plan.watch.output_bytes;
        if record(&OutcomeFile::Ended { outcome: outcome.clone(), output_budget }) {
            // The outcome says it now. Usually there is none.
            std::fs::remove_file("output.ring").ok();
        }
        Ok(Reply::Ended(outcome))
    }

    fn never_started(&self) -> Reply {
        let detail = match &self.seen.end {
            Some(FromInit::Failed { step, error }) => format!("{step}: {error}"),
            _ => "the caller went away before the job was let go".to_owned(),
        };
        if self.caller.is_none() {
            record(&OutcomeFile::NeverStarted { detail: detail.clone() });
        }
        Reply::SetupFailed { detail }
    }

    fn outcome(&mut self) -> io::Result<JobOutcome> {
        let counted = self.sandbox.counted().unwrap_or_default();
        let end = self.end()?;
        let detail = self.observe(&end);
        self.seen.observed.over_memory |= counted.oom_kills > 0;
        let disk = self.storage.measure();
        let usage = self.usage(&end, &counted, disk.bytes);
        let quota_events = self.quota_events(&counted, disk.bytes);
        let verdict = judge(&self.seen.observed);
        let (output, trouble) = self.capture.finish();
        let host = (verdict.reason == Some(Reason::HostDiskFull))
            .then(|| format!("the host's file system had {} bytes left", self.seen.host_left));
        let mut outcome = JobOutcome {
            status: verdict.status,
            exit_status: verdict.exit_status,
            signal: verdict.signal,
            reason: verdict.reason,
            detail: host,
            started_at: self.seen.started_at,
            finished_at: now(),
            usage,
            output,
            quota_events,
            checks: Vec::new(),
            measurements: Vec::new(),
        };
        outcome.quota_events.extend(trouble.map(|detail| QuotaEvent {
            limit: Limit::OutputBytes,
            count: 1,
            detail,
        }));
        if let Some(detail) = detail {
            outcome.status = JobStatus::InfrastructureFailure;
            outcome.reason = Some(Reason::SetupFailed);
            outcome.detail = Some(detail);
        }
        Ok(outcome)
    }

    /// Returns the end as init told it; an init that was killed is reaped for what the kernel knows.
    fn end(&mut self) -> io::Result<End> {
        match self.seen.end.take() {
            Some(FromInit::Ended(end)) => Ok(End::Told(end)),
            Some(FromInit::Failed { step, error }) => Ok(End::Broken(format!("{step}: {error}"))),
            Some(FromInit::Started) | None => {
                self.seen.reaped = true;
                Ok(End::Killed(self.sandbox.end()?))
            }
        }
    }

    /// Takes the end into account; returns what broke, if the sandbox did.
    fn observe(&mut self, end: &End) -> Option<String> {
        let observed = &mut self.seen.observed;
        if let (End::Told(end), Some(limit)) = (end, self.plan.watch.pids) {
            self.seen.pids_met |= end.left_behind + 1 >= limit;
        }
        match end {
            End::Told(JobEnd { payload: PayloadEnd::Exited(code), .. }) => {
                observed.exit_code = Some((*code).into());
            }
            End::Told(JobEnd { payload: PayloadEnd::Killed(signal), .. }) => {
                observed.signal = Some(*signal);
            }
            End::Told(JobEnd { payload: PayloadEnd::Refused { found }, .. }) => {
                observed.refused = true;
                observed.exit_code = Some(if *found { 126 } else { 127 });
            }
            End::Told(JobEnd { payload: PayloadEnd::TimedOut, .. }) => observed.timed_out = true,
            End::Killed(init) => observed.signal = init.signal,
            End::Broken(detail) => return Some(detail.clone()),
        }
        // RLIMIT_FSIZE is the watch's backstop, so its signal says the same.
        observed.over_storage |= observed.signal == Some(SIGXFSZ);
        None
    }

    fn usage(&self, end: &End, counted: &Counted, storage_bytes: u64) -> Usage {
        let ended = self.seen.ended_at.unwrap_or_else(Instant::now);
        let wall =
            self.seen.began.map_or(Duration::ZERO, |began| ended.saturating_duration_since(began));
        let (memory_bytes_max, memory_basis) = match counted.memory_bytes_max {
            Some(bytes) => (bytes, Basis::Cgroup),
            None if self.seen.memory_bytes_max > 0 => (self.seen.memory_bytes_max, Basis::Watch),
            None => (end.resident_bytes_max(), Basis::Wait4),
        };
        let (cpu_us, cpu_basis) = match counted.cpu_us {
            Some(used) => (used, Basis::Cgroup),
            None => (end.cpu_us(), Basis::Wait4),
        };
        Usage {
            wall_time_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            cpu_us,
            cpu_basis,
            memory_bytes_max,
            memory_basis,
            storage_bytes,
            memory_overshoot_bytes: self.seen.memory_overshoot,
            storage_overshoot_bytes: self.seen.storage_overshoot,
        }
    }

    fn quota_events(&self, counted: &Counted, storage_bytes: u64) -> Vec<QuotaEvent> {
        let event = |limit, count, detail: &str| QuotaEvent { limit, count, detail: detail.into() };
        let mut events = Vec::new();
        if self.seen.pids_met {
            let detail = "the job had as many processes and threads as it may have";
            events.push(event(Limit::Pids, 1, detail));
        }
        if counted.oom_kills > 0 {
            let detail = "the kernel killed processes of the job for want of memory";
            events.push(event(Limit::Memory, counted.oom_kills, detail));
        }
        if counted.pids_refused > 0 {
            let detail = "the job was refused further processes (EAGAIN)";
            events.push(event(Limit::Pids, counted.pids_refused, detail));
        }
        let observed = &self.seen.observed;
        let over = storage_bytes > self.plan.watch.storage_bytes;
        if observed.over_storage || observed.over_inodes || over {
            let detail = "the workspace's disk went over its limit";
            events.push(event(Limit::Storage, 1, detail));
        }
        events
    }
}

/// How a job ended, and who says so.
enum End {
    /// Init.
    Told(JobEnd),
    /// The kernel: init was killed.
    Killed(InitEnd),
    /// A step of init's failed.
    Broken(String),
}

impl End {
    const fn cpu_us(&self) -> u64 {
        match self {
            Self::Told(end) => end.cpu_us,
            Self::Killed(init) => init.cpu_us,
            Self::Broken(_) => 0,
        }
    }

    const fn resident_bytes_max(&self) -> u64 {
        match self {
            Self::Told(end) => end.resident_bytes_max,
            Self::Killed(init) => init.resident_bytes_max,
            Self::Broken(_) => 0,
        }
    }
}
