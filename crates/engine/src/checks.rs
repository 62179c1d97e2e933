//! What a job was declared to leave: checks that have to hold, and numbers that it wrote.
//!
//! A check is a job of its own, run after its job under the same hold and within what is left of its wall clock; both are
//! settled in one batch. It gets its job's directory, but none of the variables that were forwarded to it. `wait` runs those of
//! a job that nobody else began to check; who settles a job for a dead caller runs none, and one that is not
//! on record counts as not run.
use crate::engine::Engine;
use crate::flight::Flight;
use crate::job::narrowed;
use crate::journal::Batch;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{IntentId, JobId};
use bailiwick_contract::job::{
    CheckDeclaration, CheckResult, JobOutcome, JobSpec, JobStatus, JobTerms, MeasureDeclaration,
    Measurement, Stdin,
};
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::{Evidence, EvidenceKind, ResultPackage};
use bailiwick_contract::provider::{ByteSink, Gate, Hold, OutputPart, Ports, Recovered};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use core::error::Error;
use core::time::Duration;

/// The most bytes of a file that holds a measurement: a number and some blanks.
const MEASURE_BYTES_MAX: usize = 4_096;

/// How much of the end of a check's output its evidence shows.
const TAIL_BYTES: u64 = 512;

/// A check that was run; its intent is open until its job is settled.
pub(crate) struct CheckRun {
    pub(crate) job: JobRecord,
    pub(crate) intent: IntentId,
    pub(crate) outcome: JobOutcome,
}

/// What came of the checks of a job.
#[derive(Default)]
pub(crate) struct Checked {
    /// One for each declaration, in their order.
    pub(crate) results: Vec<CheckResult>,
    /// Why some were not run, where that does not follow from how the job ended.
    pub(crate) notes: Vec<String>,
}

/// Why a check was not run.
enum NotRun {
    /// Another verb took the job over.
    Taken,
    /// Something else stood against it.
    Because(String),
}

impl Engine<'_> {
    /// Runs the checks of a job that has ended; `None` where another verb has taken it over.
    pub(crate) fn run_checks(
        &self,
        record: &WorkspaceRecord,
        flight: &mut Flight<'_>,
        hold: &dyn Hold,
        outcome: &JobOutcome,
    ) -> Option<Checked> {
        let (mut checked, begun) = (Checked::default(), self.clock.monotonic());
        // A job that was ended by somebody else is not looked at: it did not get as far as its end.
        let by_itself = [JobStatus::Success, JobStatus::PartialSuccess, JobStatus::Failure];
        let mut wanted = by_itself.contains(&outcome.status);
        for declared in flight.job.terms.checks.clone() {
            let taken = self.clock.monotonic().saturating_sub(begun);
            let left_ms = left_ms(record, &flight.job, outcome, taken);
            if !wanted || self.cancel.is_cancelled() {
                checked.results.push(not_run(&declared));
                continue;
            }
            match self.run_check(record, flight, &declared, left_ms, hold) {
                Ok(run) => {
                    wanted = run.outcome.status != JobStatus::Cancelled;
                    checked.results.push(result_of(&declared, &run.job.id, Some(&run.outcome)));
                    flight.checks.push(run);
                }
                Err(NotRun::Taken) => return None,
                Err(NotRun::Because(why)) => {
                    checked.notes.push(format!("check '{}' was not run: {why}", declared.name));
                    checked.results.push(not_run(&declared));
                }
            }
        }
        Some(checked)
    }

    fn run_check(
        &self,
        record: &WorkspaceRecord,
        flight: &mut Flight<'_>,
        declared: &CheckDeclaration,
        left_ms: u64,
        hold: &dyn Hold,
    ) -> Result<CheckRun, NotRun> {
        if left_ms == 0 {
            let why = "nothing is left of the job's wall clock".into();
            return Err(NotRun::Because(why));
        }
        let mut job = self.check_job_of(record, &flight.job, declared, left_ms);
        let spec = JobSpec {
            id: job.id.clone(),
            argv: job.argv.clone(),
            env: Vec::new(),
            policy: narrowed(record, &job.terms).policy.clone(),
            cwd: job.terms.cwd.clone(),
            stdin: Stdin::Empty,
        };
        // Only a job that was taken over can be taken by somebody else, and only before its first check.
        let adopted = flight.adopted;
        let intent = self.mint_intent();
        let mut gate = CheckGate { engine: self, record, flight, job: &mut job, intent: &intent };
        let ports = Ports { hold, gate: &mut gate, live: None };
        match self.provider.run(&record.id, &spec, ports, &self.cx()) {
            Ok(outcome) => Ok(CheckRun { job, intent, outcome }),
            Err(error) => {
                let failure = self.provider_failure(error);
                Err(match failure.reason {
                    "conflict" if adopted => NotRun::Taken,
                    _ => NotRun::Because(failure.message),
                })
            }
        }
    }

    fn check_job_of(
        &self,
        record: &WorkspaceRecord,
        parent: &JobRecord,
        declared: &CheckDeclaration,
        left_ms: u64,
    ) -> JobRecord {
        let argv = [ByteString::from("sh"), ByteString::from("-c"), declared.command.clone()];
        JobRecord {
            id: JobId::mint(self.entropy),
            workspace: record.id.clone(),
            argv: argv.into(),
            env_names: Vec::new(),
            env_files: Vec::new(),
            terms: JobTerms {
                cwd: parent.terms.cwd.clone(),
                timeout_ms: Some(left_ms),
                check_of: Some((parent.id.clone(), declared.name.clone())),
                ..JobTerms::default()
            },
            started_at: self.now(),
            outcome: None,
            package: None,
        }
    }

    /// Returns what is on record of the checks of a job whose caller is gone; `None` while one of them is in flight.
    ///
    /// # Errors
    /// [`Failure`] where the store or the provider cannot say.
    pub(crate) fn recorded_checks(
        &self,
        record: &WorkspaceRecord,
        job: &JobRecord,
    ) -> Result<Option<Vec<CheckResult>>, Failure> {
        if job.terms.checks.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let (mut results, runs) = (Vec::new(), self.checks_of(record, job)?);
        for declared in &job.terms.checks {
            let of_name = |run: &&JobRecord| {
                run.terms.check_of.as_ref().is_some_and(|(_, name)| *name == declared.name)
            };
            let Some(found) = runs.iter().find(of_name) else {
                results.push(not_run(declared));
                continue;
            };
            let outcome = match &found.outcome {
                Some(outcome) => Some(outcome.clone()),
                None => {
                    let known = self.provider.recover(&record.id, &found.id, &self.settling());
                    match known.map_err(|error| self.provider_failure(error))? {
                        Recovered::Alive => return Ok(None),
                        Recovered::Ended(outcome) => Some(*outcome),
                        Recovered::NeverStarted | Recovered::Lost => None,
                    }
                }
            };
            results.push(result_of(declared, &found.id, outcome.as_ref()));
        }
        Ok(Some(results))
    }

    /// Returns the jobs that were let go for the checks of a job.
    pub(crate) fn checks_of(
        &self,
        record: &WorkspaceRecord,
        job: &JobRecord,
    ) -> Result<Vec<JobRecord>, Failure> {
        let jobs = self.open()?.jobs(&record.id).map_err(|error| self.store_failure(&error))?;
        let own = |run: &JobRecord| {
            run.terms.check_of.as_ref().is_some_and(|(parent, _)| *parent == job.id)
        };
        Ok(jobs.into_iter().filter(own).collect())
    }

    /// Reads the numbers that a job was declared to leave.
    pub(crate) fn measured(
        &self,
        record: &WorkspaceRecord,
        job: &JobRecord,
        outcome: JobOutcome,
    ) -> JobOutcome {
        let declared = job.terms.measures.iter();
        let measurements = declared.map(|declared| self.measure(record, declared)).collect();
        with_measurements(outcome, measurements)
    }

    fn measure(&self, record: &WorkspaceRecord, declared: &MeasureDeclaration) -> Measurement {
        let mut file = Small::default();
        let read = self.provider.read(&record.id, &declared.path, &mut file, &self.settling());
        let value = read.ok().and_then(|()| number(&file.0));
        Measurement { name: declared.name.clone(), value }
    }

    /// Adds a piece of evidence for each check and each measurement.
    pub(crate) fn add_declared_evidence(
        &self,
        package: &mut ResultPackage,
        job: &JobRecord,
        outcome: &JobOutcome,
    ) {
        for (declared, result) in job.terms.checks.iter().zip(&outcome.checks) {
            package.evidence.push(self.check_evidence(job, declared, result));
        }
        for (declared, measured) in job.terms.measures.iter().zip(&outcome.measurements) {
            package.evidence.push(measure_evidence(job, declared, measured));
        }
    }

    fn check_evidence(
        &self,
        job: &JobRecord,
        declared: &CheckDeclaration,
        result: &CheckResult,
    ) -> Evidence {
        let (tail, omitted) = self.tail_of(result);
        let command = crate::text::printable(declared.command.as_bytes());
        let mut excerpt = format!("$ {command}\n{}\n", verdict(result));
        if omitted > 0 {
            excerpt += &format!("...[{omitted} bytes omitted]\n");
        }
        excerpt.push_str(&tail);
        Evidence {
            label: format!("check {}", result.name),
            kind: EvidenceKind::Check,
            source: result.job.clone().unwrap_or_else(|| job.id.as_str().into()),
            truncated: omitted > 0,
            excerpt,
        }
    }

    /// Returns the last lines that a check printed, and how many bytes come before them.
    fn tail_of(&self, result: &CheckResult) -> (String, u64) {
        let part = OutputPart::HeadTail { head: 0, tail: TAIL_BYTES };
        let job = result.job.as_deref().and_then(|id| JobId::parse(id).ok());
        let read = job.and_then(|job| self.provider.output(&job, part, &self.settling()).ok());
        let Some(bytes) = read else { return (String::new(), 0) };
        let whole = [bytes.head.as_bytes(), bytes.tail.as_bytes()].concat();
        // What was cut begins with a whole line, where there is one.
        let first = whole.iter().position(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let skipped = if bytes.omitted > 0 && first < whole.len() { first } else { 0 };
        let text = String::from_utf8_lossy(&whole[skipped..]).into_owned();
        (text, bytes.omitted + skipped as u64)
    }
}

/// The gate of a check: its job and its intent, while its workspace goes on running.
///
/// With the first check of a job that was taken over, its run changes hands: who is second finds the old intent closed, and
/// so no check is run twice.
struct CheckGate<'g, 'e, 'r> {
    engine: &'g Engine<'e>,
    record: &'g WorkspaceRecord,
    flight: &'g mut Flight<'r>,
    job: &'g mut JobRecord,
    intent: &'g IntentId,
}

impl Gate for CheckGate<'_, '_, '_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let now = self.engine.now();
        self.job.started_at = now;
        let mut batch = Batch::new(&self.record.id, WorkspaceState::Running, now);
        let (parent, next) = (&self.flight.job.id, self.engine.mint_intent());
        if self.flight.adopted {
            let note = format!("job {parent} was taken over to be checked");
            batch.close(&self.flight.intent, Phase::Reconciled, Some(note));
            batch.open(&next, IntentKind::Run, Some(parent), IntentDetail::None);
        }
        batch
            .open(self.intent, IntentKind::Run, Some(&self.job.id), IntentDetail::None)
            .push(Change::JobAdded { record: self.job.clone() });
        self.engine.append(&batch)?;
        if self.flight.adopted {
            (self.flight.intent, self.flight.adopted) = (next, false);
        }
        Ok(())
    }
}

/// A sink for a file that has to be small.
#[derive(Default)]
struct Small(Vec<u8>);

impl ByteSink for Small {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.0.len() + bytes.len() > MEASURE_BYTES_MAX {
            return Err("a measurement is one number".into());
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

/// Returns what is left of a job's wall clock, in milliseconds, once its checks have taken `taken`.
fn left_ms(
    record: &WorkspaceRecord,
    job: &JobRecord,
    outcome: &JobOutcome,
    taken: Duration,
) -> u64 {
    let whole = narrowed(record, &job.terms).policy.policy.budget.wall_clock_ms;
    let taken = u64::try_from(taken.as_millis()).unwrap_or(u64::MAX);
    whole.saturating_sub(outcome.usage.wall_time_us / 1_000).saturating_sub(taken)
}

fn not_run(declared: &CheckDeclaration) -> CheckResult {
    CheckResult { name: declared.name.clone(), passed: false, job: None, exit_status: None }
}

fn result_of(
    declared: &CheckDeclaration,
    job: &JobId,
    outcome: Option<&JobOutcome>,
) -> CheckResult {
    CheckResult {
        name: declared.name.clone(),
        passed: outcome.is_some_and(|outcome| outcome.status == JobStatus::Success),
        job: Some(job.as_str().into()),
        exit_status: outcome.and_then(|outcome| outcome.exit_status),
    }
}

/// Returns an outcome none of whose checks was run.
pub(crate) fn unchecked(terms: &JobTerms, outcome: JobOutcome) -> JobOutcome {
    with_checks(outcome, terms.checks.iter().map(not_run).collect())
}

/// Returns an outcome with what came of its checks: one that succeeded otherwise did so in part only where one failed.
pub(crate) fn with_checks(mut outcome: JobOutcome, results: Vec<CheckResult>) -> JobOutcome {
    demote(&mut outcome, results.iter().any(|result| !result.passed));
    outcome.checks = results;
    outcome
}

fn with_measurements(mut outcome: JobOutcome, measured: Vec<Measurement>) -> JobOutcome {
    demote(&mut outcome, measured.iter().any(|one| one.value.is_none()));
    outcome.measurements = measured;
    outcome
}

fn demote(outcome: &mut JobOutcome, is_lacking: bool) {
    if is_lacking && outcome.status == JobStatus::Success {
        outcome.status = JobStatus::PartialSuccess;
    }
}

/// Returns the number that a file holds, as it was written; none where it is anything else or not finite.
fn number(bytes: &[u8]) -> Option<String> {
    let text = core::str::from_utf8(bytes).ok()?.trim();
    text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    Some(text.into())
}

/// Says how a check ended.
pub(crate) fn verdict(result: &CheckResult) -> String {
    match (&result.job, result.exit_status) {
        (None, _) => "not run".into(),
        (Some(_), Some(0)) if result.passed => "passed".into(),
        (Some(_), Some(code)) => format!("failed with exit status {code}"),
        (Some(_), None) => "failed: it did not come to its own end".into(),
    }
}

fn measure_evidence(
    job: &JobRecord,
    declared: &MeasureDeclaration,
    measured: &Measurement,
) -> Evidence {
    let path = crate::text::printable(declared.path.as_bytes());
    let value = measured.value.as_deref().unwrap_or("no number");
    Evidence {
        label: format!("measurement {}", measured.name),
        kind: EvidenceKind::Measurement,
        source: job.id.as_str().into(),
        truncated: false,
        excerpt: format!("{path}: {value}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_one_finite_number_as_it_was_written() {
        let check = |text: &str, value: Option<&str>| {
            assert_eq!(number(text.as_bytes()).as_deref(), value, "{text:?}");
        };
        check(" 0.250\n", Some("0.250"));
        check("-3e-7", Some("-3e-7"));
        for bad in ["", "NaN", "inf", "1e999", "1 2", "0x10", "1,5", "loss=1"] {
            check(bad, None);
        }
        assert_eq!(number(b"\xff"), None);
    }
}
