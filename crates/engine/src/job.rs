//! What a package says about a job: its summary, findings, evidence and facts.
//!
//! Everything comes from the record and the outcome, so that a package can be built again from what is stored. Values
//! of forwarded variables are in neither.
use crate::checks::verdict;
use crate::engine::Engine;
use crate::logs::missing;
use crate::pack::{input_findings, input_line, mechanism};
use crate::render::{EXCERPT_BYTES_MAX, excerpt_of};
use crate::text::{command, printable};
use bailiwick_contract::enforcement::{Label, LimitValue};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::job::{
    CheckResult, JobOutcome, JobStatus, JobTerms, Measurement, OutputFacts, Reason, Usage,
};
use bailiwick_contract::package::{Evidence, EvidenceKind, ResourceUsage, ResultPackage, Status};
use bailiwick_contract::policy::Limit;
use bailiwick_contract::provider::OutputPart;
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use std::borrow::Cow;

/// A job with all that a package says about it.
pub(crate) struct Story<'a> {
    /// The workspace, in the state that the package reports.
    pub record: &'a WorkspaceRecord,
    /// The job.
    pub job: &'a JobRecord,
    /// What came of it.
    pub outcome: &'a JobOutcome,
    /// The files that were copied in for it.
    pub inputs: &'a [InputRecord],
}

impl Engine<'_> {
    /// Returns the package of a job that is over.
    pub(crate) fn job_package(&self, story: &Story<'_>) -> ResultPackage {
        let record = narrowed(story.record, &story.job.terms);
        let story = &Story { record: &record, ..*story };
        let Story { record, job, outcome, inputs } = story;
        let mut package = self.draft(record, job.started_at);
        package.outcome_summary = summary(story);
        package.status = status_of(outcome.status);
        package.key_findings = findings(story);
        package.key_findings.extend(input_findings(inputs));
        package.warnings.extend(warnings(job, outcome));
        package.resource_usage = usage(&outcome.usage, outcome.output.bytes);
        package.provenance.job_id = job.id.as_str().into();
        package.provenance.started_at = outcome.started_at.to_iso();
        package.provenance.finished_at = outcome.finished_at.to_iso();
        package.provenance.inputs = provenance_inputs(job, inputs);
        package.attention = hints(story);
        fill_facts(&mut package, outcome);
        self.add_excerpt(&mut package, job, outcome);
        self.add_declared_evidence(&mut package, job, outcome);
        package
    }

    /// Adds the head and the tail of what the job printed; `logs` has all that was kept.
    pub(crate) fn add_excerpt(
        &self,
        package: &mut ResultPackage,
        job: &JobRecord,
        outcome: &JobOutcome,
    ) {
        let half = (EXCERPT_BYTES_MAX / 2) as u64;
        let part = OutputPart::HeadTail { head: half, tail: half };
        match self.provider.output(&job.id, part, &self.settling()) {
            Ok(bytes) => {
                let (head, tail) = (bytes.head.as_bytes(), bytes.tail.as_bytes());
                let is_gone = outcome.output.kept > 0 && head.is_empty() && tail.is_empty();
                package.warnings.extend(is_gone.then(|| missing(job, 0)).flatten());
                package.evidence.push(Evidence {
                    label: "captured output".into(),
                    kind: EvidenceKind::Excerpt,
                    source: job.id.as_str().into(),
                    truncated: bytes.omitted > 0 || outcome.output.kept < outcome.output.bytes,
                    excerpt: excerpt_of(head, bytes.omitted, tail),
                });
                // Where the budget or the excerpt cut it: whence the rest comes, and what all of it was.
                if bytes.omitted > 0 && !is_gone {
                    package.evidence.push(reference(
                        self.program,
                        job.id.as_str(),
                        &outcome.output,
                    ));
                }
            }
            Err(error) => {
                let why = crate::failure::told(&error);
                package.warnings.push(format!("the captured output could not be read: {why}"));
            }
        }
    }
}

impl Engine<'_> {
    /// Adds what a job in flight has printed so far, if it has.
    pub(crate) fn add_output_so_far(&self, package: &mut ResultPackage, job: &JobRecord) {
        let half = (EXCERPT_BYTES_MAX / 2) as u64;
        let part = OutputPart::HeadTail { head: half, tail: half };
        // A job that has not printed yet, or cannot be read yet, has nothing to show.
        let Ok(bytes) = self.provider.output(&job.id, part, &self.settling()) else { return };
        let (head, tail) = (bytes.head.as_bytes(), bytes.tail.as_bytes());
        if head.is_empty() && tail.is_empty() {
            return;
        }
        package.evidence.push(Evidence {
            label: format!("output of job {} so far", job.id),
            kind: EvidenceKind::Excerpt,
            source: job.id.as_str().into(),
            truncated: bytes.omitted > 0,
            excerpt: excerpt_of(head, bytes.omitted, tail),
        });
    }
}

/// Returns where the whole output of a job can be had, and what its digest is.
pub(crate) fn reference(program: &str, job: &str, output: &OutputFacts) -> Evidence {
    let OutputFacts { bytes, kept, sha256, .. } = output;
    let what = if kept < bytes {
        format!("{kept} of {bytes} bytes were kept")
    } else {
        format!("all {bytes} bytes were kept")
    };
    Evidence {
        label: "whole output".into(),
        kind: EvidenceKind::Reference,
        source: job.into(),
        truncated: kept < bytes,
        excerpt: format!("{program} logs --raw {job}\n{what}, with sha256 {sha256}\n"),
    }
}

/// Returns a workspace as a job is held to it that was asked to be narrower.
pub(crate) fn narrowed<'r>(
    record: &'r WorkspaceRecord,
    terms: &JobTerms,
) -> Cow<'r, WorkspaceRecord> {
    let whole = record.policy.policy.budget.wall_clock_ms;
    match terms.timeout_ms {
        Some(timeout_ms) if timeout_ms < whole => {
            let mut record = record.clone();
            record.policy.policy.budget.wall_clock_ms = timeout_ms;
            Cow::Owned(record)
        }
        _ => Cow::Borrowed(record),
    }
}

/// Returns the status of a package about a job that ended so.
pub(crate) const fn status_of(status: JobStatus) -> Status {
    match status {
        JobStatus::Success => Status::Success,
        JobStatus::PartialSuccess => Status::PartialSuccess,
        JobStatus::Failure => Status::Failure,
        JobStatus::Cancelled => Status::Cancelled,
        JobStatus::Timeout => Status::Timeout,
        JobStatus::InfrastructureFailure => Status::InfrastructureFailure,
        JobStatus::ResourceExhausted => Status::ResourceExhausted,
    }
}

/// Returns a job's command as one short line.
pub(crate) fn command_of(job: &JobRecord) -> String {
    command(job.argv.iter().map(|argument| argument.as_bytes()))
}

fn summary(story: &Story<'_>) -> String {
    let Story { record, job, outcome, inputs } = story;
    let (line, status) = (command_of(job), outcome.status);
    let mut text =
        format!("job {} ran {line} in workspace {} and reported {status}", job.id, record.id);
    if let Some((parent, name)) = &job.terms.check_of {
        text += &format!("; it is check '{name}' of job {parent}");
    }
    if !inputs.is_empty() {
        let bytes: u64 = inputs.iter().map(|input| input.size_bytes).sum();
        text += &format!("; {} file(s) of {bytes} bytes in all were copied in first", inputs.len());
    }
    if !job.env_names.is_empty() {
        text += &format!("; env: [{}]", job.env_names.join(", "));
    }
    text
}

fn findings(story: &Story<'_>) -> Vec<String> {
    let Story { record, job, outcome, .. } = story;
    let mut found = ending(record, job, outcome);
    if let Some(detail) = &outcome.detail {
        found.push(printable(detail.as_bytes()));
    }
    found.extend(outcome.quota_events.iter().map(|event| {
        let (limit, count) = (event.limit, event.count);
        format!("the {limit} limit was met {count} time(s): {}", printable(event.detail.as_bytes()))
    }));
    found.extend(declared_findings(outcome));
    if !job.env_names.is_empty() {
        found.push(format!(
            "{} variable(s) were handed over by name: {}; no value is recorded",
            job.env_names.len(),
            job.env_names.join(", ")
        ));
    }
    found
}

/// Returns a line for each check and each measurement.
fn declared_findings(outcome: &JobOutcome) -> Vec<String> {
    let check = |check: &CheckResult| format!("check '{}': {}", check.name, verdict(check));
    let measured = |measured: &Measurement| {
        let value = measured.value.as_deref().unwrap_or("no number");
        format!("measurement '{}': {value}", measured.name)
    };
    let checks = outcome.checks.iter().map(check);
    checks.chain(outcome.measurements.iter().map(measured)).collect()
}

fn ending(record: &WorkspaceRecord, job: &JobRecord, outcome: &JobOutcome) -> Vec<String> {
    let Some(reason) = &outcome.reason else { return own_ending(outcome) };
    let status = outcome.exit_status.unwrap_or_default();
    let argv0 = command(job.argv.iter().take(1).map(|argument| argument.as_bytes()));
    let profile = &record.profile;
    let cause = match reason {
        Reason::Memory => killed_over(record, Limit::Memory, "memory limit"),
        Reason::Storage => killed_over(record, Limit::Storage, "storage limit"),
        Reason::Inodes => {
            let inodes = record.policy.policy.budget.inodes();
            let by = mechanism(record, Limit::Storage);
            format!(
                "the job was killed over its {inodes} inodes ({by}); --storage-bytes raises them"
            )
        }
        Reason::WallClock if job.terms.timeout_ms.is_some() => {
            let (value, by) =
                (limit_text(record, Limit::WallClock), mechanism(record, Limit::WallClock));
            format!("the job was killed over its timeout of {value} ({by})")
        }
        Reason::WallClock => killed_over(record, Limit::WallClock, "wall clock"),
        Reason::Stopped => "the job was stopped on request".into(),
        Reason::CommandNotFound => {
            format!("the {profile} profile has no command '{argv0}' (exit status {status})")
        }
        Reason::CommandNotExecutable => {
            format!("the {profile} profile cannot execute '{argv0}' (exit status {status})")
        }
        Reason::SupervisorLost => {
            "the job's supervisor was lost; what the job did until then is not known".into()
        }
        Reason::SetupFailed => "the sandbox could not be set up; the command did not run".into(),
        Reason::NeverStarted => {
            "the caller was killed before the job was let go; the command did not run".into()
        }
        Reason::HostDiskFull => {
            "the job was killed since the host's file system is nearly full, not over a limit of its own".into()
        }
    };
    core::iter::once(cause).chain(exit_line(outcome)).collect()
}

fn killed_over(record: &WorkspaceRecord, limit: Limit, what: &str) -> String {
    let (value, by, flag) = (limit_text(record, limit), mechanism(record, limit), limit.flag());
    format!("the job was killed over its {what} of {value} ({by}); {flag} raises it")
}

/// Returns what the exit status of a job that did not end by itself means, where the cause does not say it.
fn exit_line(outcome: &JobOutcome) -> Option<String> {
    match outcome.exit_status {
        None => Some("there is no exit status: the command did not end by itself".into()),
        Some(code) if outcome.status == JobStatus::ResourceExhausted => {
            Some(format!("exit status {code} reports that kill"))
        }
        Some(_) => None,
    }
}

fn own_ending(outcome: &JobOutcome) -> Vec<String> {
    match (outcome.exit_status, outcome.signal) {
        (Some(code), Some(signal)) => {
            vec![format!("signal {signal} ended the command (exit status {code})")]
        }
        (Some(code), None) => vec![format!("the command completed with exit status {code}")],
        (None, _) => vec!["the job has no exit status".into()],
    }
}

/// Returns a limit with its unit.
pub(crate) fn limit_text(record: &WorkspaceRecord, limit: Limit) -> String {
    let unit = match limit {
        Limit::Memory | Limit::Storage | Limit::OutputBytes => " bytes",
        Limit::WallClock => " s",
        _ => "",
    };
    match record.policy.facts(limit).value {
        LimitValue::Whole(number) => format!("{number}{unit}"),
        LimitValue::Number(number) => format!("{number}{unit}"),
        LimitValue::Text(text) => text,
        LimitValue::Paths(paths) => paths.join(", "),
    }
}

fn warnings(job: &JobRecord, outcome: &JobOutcome) -> Vec<String> {
    let mut lines = Vec::new();
    let measures = job.terms.measures.iter().zip(&outcome.measurements);
    for (declared, _) in measures.filter(|(_, measured)| measured.value.is_none()) {
        let path = printable(declared.path.as_bytes());
        lines.push(format!(
            "measurement '{}': there is no finite number in `{path}`, a path from the workspace's root",
            declared.name
        ));
    }
    let (kept, bytes) = (outcome.output.kept, outcome.output.bytes);
    if kept < bytes {
        lines.push(format!(
            "the output budget kept {kept} of {bytes} bytes: the first half and the last; --output-bytes raises it"
        ));
    }
    if !job.env_names.is_empty() {
        lines.push(
            "values of forwarded variables are not recorded, but output is kept as it is: a job that prints one leaves it there"
                .into(),
        );
    }
    lines
}

/// Returns what to do about a limit that ended the job, or about a command that could not be run.
fn hints(story: &Story<'_>) -> Vec<String> {
    let Story { record, job, outcome, .. } = story;
    let mut lines: Vec<String> = outcome.checks.iter().filter_map(not_run_line).collect();
    let over = match outcome.reason {
        Some(Reason::Memory) => Some(Limit::Memory),
        Some(Reason::Storage | Reason::Inodes) => Some(Limit::Storage),
        Some(Reason::WallClock) if job.terms.timeout_ms.is_none() => Some(Limit::WallClock),
        _ => None,
    };
    let hint = over.map(|limit| {
        let value = limit_text(record, limit);
        format!("a new workspace with {} above {value} would give the job more room", limit.flag())
    });
    let hint = hint.or_else(|| {
        let argv0 = job.argv.first()?.as_bytes();
        command_hint(argv0, outcome.reason.as_ref()?).map(str::to_owned)
    });
    lines.extend(hint);
    if outcome.reason == Some(Reason::WallClock) && job.terms.timeout_ms.is_some() {
        lines.push("a larger --timeout would give the job more room".into());
    }
    lines
}

fn not_run_line(check: &CheckResult) -> Option<String> {
    let name = &check.name;
    let line = || format!("check '{name}' was not run, so that whether it holds is not known");
    check.job.is_none().then(line)
}

/// Returns the next step where the command could not be run.
fn command_hint(argv0: &[u8], reason: &Reason) -> Option<&'static str> {
    let is_shell = |byte: &u8| byte.is_ascii_whitespace() || b"|&;<>()$`\"'*?~".contains(byte);
    Some(match reason {
        Reason::CommandNotFound if argv0.starts_with(b"-") => {
            "flags of run go before the workspace: what follows it is the command, whatever it looks like"
        }
        Reason::CommandNotFound if argv0.iter().any(is_shell) => {
            "no shell reads the command, and its first word is one program's name: run a shell line with sh -c 'LINE'"
        }
        Reason::CommandNotFound => {
            "bring the file with --input and run it as ./NAME, name its interpreter first, or show its directory with \
             --toolchain DIR (create and exec)"
        }
        Reason::CommandNotExecutable => {
            "chmod +x the file before it is copied in, or name its interpreter first, such as sh ./FILE"
        }
        Reason::HostDiskFull => {
            "make room on the host's file system that holds the home, and run the command again"
        }
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of a job stay far below 2^53")]
pub(crate) fn usage(usage: &Usage, output_bytes: u64) -> ResourceUsage {
    ResourceUsage {
        wall_time_seconds: usage.wall_time_us as f64 / 1e6,
        cpu_seconds: usage.cpu_us as f64 / 1e6,
        max_memory_bytes: usage.memory_bytes_max,
        max_memory_basis: usage.memory_basis.name().into(),
        storage_bytes: usage.storage_bytes,
        output_bytes,
    }
}

pub(crate) fn provenance_inputs(job: &JobRecord, inputs: &[InputRecord]) -> Vec<String> {
    let argv = job.argv.iter().map(|argument| argument.to_text().into_owned());
    let env = job
        .env_names
        .iter()
        .map(|name| format!("env {name} (the name only; no value is recorded)"));
    let files =
        job.env_files.iter().map(|file| format!("env-file {} (names only)", file.to_text()));
    let cwd = job.terms.cwd.iter().map(|cwd| format!("cwd {}", cwd.as_byte_string().to_text()));
    let stdin = job.terms.stdin.iter().map(|path| format!("stdin {}", path.to_text()));
    let timeout = job.terms.timeout_ms.iter().map(|millis| format!("timeout {millis} ms"));
    let terms = cwd.chain(stdin).chain(timeout);
    argv.chain(inputs.iter().map(input_line)).chain(env).chain(files).chain(terms).collect()
}

pub(crate) fn fill_facts(package: &mut ResultPackage, outcome: &JobOutcome) {
    let facts = &mut package.facts;
    facts.exit_status = outcome.exit_status;
    facts.signal = outcome.signal;
    facts.job_status = Some(outcome.status.name().into());
    facts.reason = outcome.reason.as_ref().map(|reason| reason.name().into());
    facts.duration_ms = outcome.usage.wall_time_us / 1_000;
    facts.output = Some(outcome.output.clone());
    facts.quota_events.clone_from(&outcome.quota_events);
    facts.checks.clone_from(&outcome.checks);
    facts.measurements.clone_from(&outcome.measurements);
    for (limit, held) in &mut facts.policy.0 {
        let overshoot = match limit {
            Limit::Memory => outcome.usage.memory_overshoot_bytes,
            Limit::Storage => outcome.usage.storage_overshoot_bytes,
            _ => continue,
        };
        held.overshoot = (held.label == Label::Measured).then_some(overshoot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_cannot_be_run_has_a_next_step() {
        let hint = |argv0: &str, reason| command_hint(argv0.as_bytes(), &reason).unwrap_or("");
        assert!(hint("--json", Reason::CommandNotFound).contains("before the workspace"));
        assert!(hint("ls | wc", Reason::CommandNotFound).contains("sh -c"));
        assert!(hint("tool", Reason::CommandNotFound).contains("--toolchain DIR"));
        assert!(hint("./a b", Reason::CommandNotExecutable).contains("chmod +x"));
        assert!(hint("tool", Reason::HostDiskFull).contains("host's file system"));
        assert_eq!(hint("tool", Reason::Stopped), "");
    }
}
