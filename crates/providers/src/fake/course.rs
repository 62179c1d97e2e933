//! The course of a job: from what is on record and the time, whether it runs, and how it ended.
//!
//! Nothing runs, so that nothing can be killed: the job goes on for as long as its record says, whoever asks. The end is the
//! first of its own end, its wall clock and what a stop leaves it. Pure; every process comes to the same answer.
use super::printed::Printed;
use super::script::{Ending, Over, Rule};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobOutcome, JobStatus, Observed, QuotaEvent, Reason, Usage, judge};
use bailiwick_contract::policy::{Budget, Limit};
use bailiwick_contract::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `SIGKILL` and `SIGTERM` (signal(7)).
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// What is on record of a job before it is let go. No value of a variable is in it but what the script prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) workspace: WorkspaceId,
    pub(super) cwd: Option<WsPath>,
    pub(super) budget: Budget,
    pub(super) rule: Rule,
}

/// That a job was asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stop {
    /// When it was first asked.
    pub(super) at: Timestamp,
    /// When the shortest grace that somebody gave it is over.
    pub(super) kill_at: Timestamp,
}

impl Stop {
    /// What holds when a job is asked again.
    pub(super) fn after(self, earlier: Option<Self>) -> Self {
        earlier
            .map_or(self, |first| Self { at: first.at, kill_at: first.kill_at.min(self.kill_at) })
    }
}

/// The end of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// Microseconds after its start.
    pub(super) after_us: u64,
    pub(super) observed: Observed,
    /// It came to its own end.
    pub(super) own: bool,
}

impl End {
    /// Whether the job did what it does, so that its files are there.
    pub(super) const fn leaves_files(&self) -> bool {
        let seen = &self.observed;
        let killed = seen.over_memory || seen.over_storage || seen.over_inodes;
        let ran = seen.exit_code.is_some() || seen.signal.is_some();
        self.own && ran && !seen.refused && !killed
    }

    /// The same end, but for a disk that was too small.
    pub(super) fn over_disk(&mut self, storage: bool, inodes: bool) {
        let seen = &mut self.observed;
        *seen = Observed { over_storage: storage, over_inodes: inodes, ..killed_by(SIGKILL) };
    }
}

impl Work {
    /// Returns how a job that was let go at `started` has ended by `now`; `None` while it runs.
    pub(super) fn end(
        &self,
        started: Timestamp,
        stop: Option<&Stop>,
        now: Timestamp,
    ) -> Option<End> {
        let after_us = self.due(started, stop);
        if now.as_micros() < started.as_micros().saturating_add(after_us) {
            return None;
        }
        let own = after_us == self.own_us();
        let asked = stop.map(|stop| stop.at.as_micros().saturating_sub(started.as_micros()));
        let mut observed = if own { self.own_end() } else { killed_by(SIGKILL) };
        observed.stopped = asked.is_some_and(|asked| asked <= after_us);
        if !own {
            observed.timed_out = after_us == self.wall_us();
            let on_request = asked == Some(after_us) && !self.rule.ignores_sigterm;
            observed.signal = Some(if on_request { SIGTERM } else { SIGKILL });
        }
        Some(End { after_us, observed, own })
    }

    /// Returns how long after its start it ends, as far as is known by now.
    pub(super) fn due(&self, started: Timestamp, stop: Option<&Stop>) -> u64 {
        let killed = stop.map(|stop| {
            let at = if self.rule.ignores_sigterm { stop.kill_at } else { stop.at };
            at.as_micros().saturating_sub(started.as_micros())
        });
        self.own_us().min(self.wall_us()).min(killed.unwrap_or(u64::MAX))
    }

    const fn own_us(&self) -> u64 {
        self.rule.delay_ms.saturating_mul(1_000)
    }

    const fn wall_us(&self) -> u64 {
        self.budget.wall_clock_ms.saturating_mul(1_000)
    }

    fn own_end(&self) -> Observed {
        if self.rule.memory_bytes > self.budget.memory_bytes {
            return Observed { over_memory: true, ..killed_by(SIGKILL) };
        }
        match self.rule.end {
            Ending::ExitCode(code) => {
                Observed { exit_code: Some(code.into()), ..Observed::default() }
            }
            Ending::Signal(signal) => killed_by(signal),
            Ending::Refused(code) => {
                Observed { exit_code: Some(code.into()), refused: true, ..Observed::default() }
            }
            Ending::Over(over) => Observed {
                over_memory: over == Over::Memory,
                over_storage: over == Over::Storage,
                over_inodes: over == Over::Inodes,
                ..killed_by(SIGKILL)
            },
            // Nobody saw how it ended.
            Ending::Breaks(_) => Observed::default(),
        }
    }

    /// What it has printed, so many microseconds after its start.
    pub(super) fn printed(&self, micros: u64) -> Printed<'_> {
        Printed::by(self.rule.pieces(), micros, self.budget.output_bytes)
    }

    /// Returns what came of a job that ended so, with `storage_bytes` on its workspace's disk.
    pub(super) fn outcome(&self, started: Timestamp, end: &End, storage_bytes: u64) -> JobOutcome {
        let verdict = judge(&end.observed);
        let mut outcome = JobOutcome {
            status: verdict.status,
            exit_status: verdict.exit_status,
            signal: verdict.signal,
            reason: verdict.reason,
            detail: None,
            started_at: started,
            finished_at: after(started, end.after_us),
            usage: self.usage(end, storage_bytes),
            output: self.printed(end.after_us).facts(),
            quota_events: quota_events(&end.observed),
            checks: Vec::new(),
            measurements: Vec::new(),
        };
        if let (Ending::Breaks(detail), JobStatus::InfrastructureFailure) =
            (&self.rule.end, outcome.status)
        {
            outcome.reason = Some(Reason::SetupFailed);
            outcome.detail = Some(detail.clone());
        }
        outcome
    }

    /// The basis stays `none`: these are the script's figures, and nothing ran.
    fn usage(&self, end: &End, storage_bytes: u64) -> Usage {
        let wanted = self.rule.memory_bytes;
        Usage {
            wall_time_us: end.after_us,
            cpu_us: self.rule.cpu_ms.saturating_mul(1_000),
            memory_bytes_max: wanted.min(self.budget.memory_bytes),
            storage_bytes,
            ..Usage::default()
        }
    }

    /// The directory that the job starts in, as it would see it.
    pub(super) fn cwd(cwd: Option<&WsPath>) -> ByteString {
        match cwd {
            None => WORKSPACE.into(),
            Some(path) => [WORKSPACE.as_bytes(), b"/", path.as_bytes()].concat().into(),
        }
    }
}

/// Where a job sees its workspace's disk.
const WORKSPACE: &str = "/workspace";

/// Returns the instant so many microseconds later.
pub(super) const fn after(instant: Timestamp, micros: u64) -> Timestamp {
    Timestamp::from_micros(instant.as_micros().saturating_add(micros))
}

fn killed_by(signal: i32) -> Observed {
    Observed { signal: Some(signal), ..Observed::default() }
}

fn quota_events(seen: &Observed) -> Vec<QuotaEvent> {
    let event = |limit, detail: &str| QuotaEvent { limit, count: 1, detail: detail.into() };
    let mut events = Vec::new();
    if seen.over_memory {
        events.push(event(Limit::Memory, "the script says that the job went over its memory"));
    }
    if seen.over_storage || seen.over_inodes {
        events.push(event(Limit::Storage, "the workspace's disk went over its limit"));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::super::script::Script;
    use super::*;

    const START: Timestamp = Timestamp::from_micros(1_000_000_000);

    fn work(rule: &str) -> Work {
        let script = format!(r#"[{{"argv": ["**"]{rule}}}]"#);
        let rule = Script::parse(script.as_bytes()).expect("a script").of(&["x".into()]);
        Work {
            workspace: WorkspaceId::parse("ws-1").expect("an id"),
            cwd: None,
            budget: Budget { wall_clock_ms: 1_000, ..Budget::default() },
            rule,
        }
    }

    fn stop(after_ms: u64, grace_ms: u64) -> Stop {
        let at = after(START, after_ms * 1_000);
        Stop { at, kill_at: after(at, grace_ms * 1_000) }
    }

    /// When it ends, and as what.
    fn check(rule: &str, asked: Option<Stop>, ends_after_ms: u64, status: JobStatus) {
        let work = work(rule);
        let at = ends_after_ms * 1_000;
        let early = work.end(START, asked.as_ref(), after(START, at - 1));
        assert_eq!(early, None, "{rule} {asked:?} is alive until {ends_after_ms} ms");
        let end = work.end(START, asked.as_ref(), after(START, at)).expect(rule);
        let outcome = work.outcome(START, &end, 0);
        assert_eq!((outcome.status, end.after_us), (status, at), "{rule} {asked:?}");
        let late = work.end(START, asked.as_ref(), after(START, at * 1_000)).expect(rule);
        assert_eq!(late, end, "whoever comes later sees the same end");
    }

    #[test]
    fn the_first_of_own_end_wall_clock_and_stop_ends_a_job() {
        check("", None, 10, JobStatus::Success);
        check(r#", "end": {"exit_code": 3}"#, None, 10, JobStatus::Failure);
        check(r#", "end": {"refused": 126}"#, None, 10, JobStatus::Failure);
        check(r#", "end": {"signal": 11}"#, None, 10, JobStatus::Failure);
        check(r#", "end": {"over": "inodes"}"#, None, 10, JobStatus::ResourceExhausted);
        check(r#", "end": {"breaks": "no"}"#, None, 10, JobStatus::InfrastructureFailure);
        check(r#", "memory_bytes": 99999999999"#, None, 10, JobStatus::ResourceExhausted);
        check(r#", "delay_ms": 5000"#, None, 1_000, JobStatus::Timeout);
        check(r#", "delay_ms": 1000"#, None, 1_000, JobStatus::Success);
        check(r#", "delay_ms": 500"#, Some(stop(200, 100)), 200, JobStatus::Cancelled);
    }

    #[test]
    fn a_job_that_ignores_a_stop_has_its_grace_and_no_more() {
        let deaf = r#", "delay_ms": 500, "ignores_sigterm": true"#;
        check(deaf, Some(stop(200, 100)), 300, JobStatus::Cancelled);
        check(deaf, Some(stop(200, 300)), 500, JobStatus::Success);
        check(deaf, Some(stop(200, 1_000)), 500, JobStatus::Success);
        let sooner = stop(250, 0).after(Some(stop(200, 200)));
        check(deaf, Some(sooner), 250, JobStatus::Cancelled);
        let later = stop(250, 200).after(Some(stop(200, 100)));
        check(deaf, Some(later), 300, JobStatus::Cancelled);
        let failing = r#", "delay_ms": 500, "ignores_sigterm": true, "end": {"exit_code": 1}"#;
        check(failing, Some(stop(200, 1_000)), 500, JobStatus::Cancelled);
        let endless = r#", "delay_ms": 5000, "ignores_sigterm": true"#;
        check(endless, Some(stop(200, 9_000)), 1_000, JobStatus::Cancelled);
    }

    #[test]
    fn what_a_stopped_job_would_have_printed_later_is_not_printed() {
        let rule = r#", "delay_ms": 500, "output": [{"text": "a"}, {"text": "b", "at_ms": 300}]"#;
        let work = work(rule);
        let end = work.end(START, Some(&stop(200, 0)), after(START, 400_000)).expect("ended");
        let outcome = work.outcome(START, &end, 0);
        assert_eq!((outcome.output.bytes, outcome.exit_status), (1, None));
        assert!(!end.leaves_files(), "and its files are not there either");
    }
}
