//! `run`: one job in a workspace.
//!
//! The verb waits for a free slot, settles what a dead caller left, and lets the job go only once its intent is
//! durable; a second batch holds what came of it. A job's failure never fails its workspace.
use crate::engine::Engine;
use crate::hold::Patience;
use crate::job::Story;
use crate::journal::Batch;
use crate::pack::{check_bound, pending};
use crate::reconcile::Held;
use crate::requests::{Bound, JobRequest, Report, RunRequest};
use crate::text::printable;
use crate::tree::Seen;
use bailiwick_contract::artifact::{ArtifactDeclaration, ArtifactRecord};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{IntentId, JobId};
use bailiwick_contract::input::{InputRecord, WsPath};
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus, JobTerms, Stdin};
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::{ByteSink, Gate, Ports, ProviderError};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::StoreError;
use core::error::Error;
use core::time::Duration;

/// How often an append is tried again because a job in another slot moved the workspace meanwhile.
const TRIES_MAX: u32 = 16;

/// A job on its way: what is recorded of it, and the intent that it runs under.
pub(crate) struct Flight<'a> {
    pub(crate) job: JobRecord,
    pub(crate) declares: &'a [ArtifactDeclaration],
    pub(crate) inputs: Vec<InputRecord>,
    pub(crate) intent: IntentId,
    /// The declared names that were found to be nothing that can be exported once the job had ended.
    absent: Vec<ByteString>,
}

impl Engine<'_> {
    /// Runs a command in a workspace and waits for its end.
    ///
    /// # Errors
    /// [`Failure`]; the command did not run. Once it ran, everything is a [`Report`].
    pub fn run(&self, request: &RunRequest<'_>) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        check_job(&request.job)?;
        self.provider.expect_job();
        let id = &request.workspace;
        let record = self.living(id).map_err(|f| self.or_job(f, id, "run", " COMMAND..."))?;
        let wall_clock = Duration::from_millis(record.policy.policy.budget.wall_clock_ms);
        let patience =
            Patience { wait: request.wait.unwrap_or(wall_clock), notice: request.notice };
        let hold = self.take_slot(&record, patience)?;
        let notes = self.reconcile(&record, Held::Slot)?;
        let record = self.usable(&record)?;
        self.check_names(&record, &request.job)?;
        let mut flight = self.flight(&record, &request.job);
        flight.inputs = self.bring_inputs(&record, &request.job, &flight.job.id)?;
        let spec = spec_of(&record, &flight.job, &request.job);
        let mut gate = RunGate { engine: self, record: &record, flight: &mut flight };
        let ports = Ports { hold: &*hold, gate: &mut gate, live: None };
        let outcome = self.provider.run(&record.id, &spec, ports, &self.cx());
        let outcome = outcome.map_err(|error| self.provider_failure(error))?;
        let (outcome, absent) = self.checked(&record, flight.declares, outcome);
        let (names, lines): (Vec<ByteString>, Vec<String>) = absent.into_iter().unzip();
        flight.absent = names;
        let notes = [notes, lines].concat();
        Ok(self.settle_run(record, &flight, &outcome, &notes, request.bound))
    }

    /// Reads the record again under the hold: it may have moved while the verb waited.
    fn usable(&self, record: &WorkspaceRecord) -> Result<WorkspaceRecord, Failure> {
        let shared = record.policy.policy.budget.concurrency > 1;
        let now = self.living(&record.id)?;
        if shared && now.state == WorkspaceState::Running {
            return Ok(now);
        }
        // What was read decides: a job in another slot may begin at any moment.
        self.check_ready(now)
    }

    /// Refuses names that are taken before anything of the job is done.
    fn check_names(&self, record: &WorkspaceRecord, job: &JobRequest) -> Result<(), Failure> {
        let store = self.open()?;
        if let Some(id) = &job.job {
            self.check_job_fresh(id)?;
        }
        if job.declares.is_empty() {
            return Ok(());
        }
        let taken = store.artifacts(&record.id).map_err(|error| self.store_failure(&error))?;
        let name = |declared: &ArtifactDeclaration| {
            taken.iter().any(|artifact| artifact.declaration.name == declared.name)
        };
        match job.declares.iter().find(|declared| name(declared)) {
            None => Ok(()),
            Some(declared) => Err(declared_twice(declared)),
        }
    }

    /// Refuses a job's id that was ever used.
    pub(crate) fn check_job_fresh(&self, id: &JobId) -> Result<(), Failure> {
        let found = self.open()?.job(id).map_err(|error| self.store_failure(&error))?;
        match found {
            None => Ok(()),
            Some(_) => Err(Failure::user(
                "job_exists",
                format!("job {id} exists already"),
                "leave --job-id out to have an id minted; ids are never used twice",
            )),
        }
    }

    fn bring_inputs(
        &self,
        record: &WorkspaceRecord,
        request: &JobRequest,
        job: &JobId,
    ) -> Result<Vec<InputRecord>, Failure> {
        if request.inputs.is_empty() {
            return Ok(Vec::new());
        }
        let plan = self.plan_inputs(&request.inputs, self.room(record)?)?;
        self.copy_in(record, plan.deliver(), Some(job), false)
    }

    /// Returns a job that has not been let go yet.
    pub(crate) fn flight<'r>(
        &self,
        record: &WorkspaceRecord,
        request: &'r JobRequest,
    ) -> Flight<'r> {
        let job = JobRecord {
            id: request.job.clone().unwrap_or_else(|| JobId::mint(self.entropy)),
            workspace: record.id.clone(),
            argv: request.argv.clone(),
            env_names: request.environment.vars.iter().map(|var| var.name.clone()).collect(),
            env_files: request.environment.files.clone(),
            terms: JobTerms::default(),
            started_at: self.now(),
            outcome: None,
            package: None,
        };
        let (declares, intent) = (&request.declares, self.mint_intent());
        Flight { job, declares, inputs: Vec::new(), intent, absent: Vec::new() }
    }

    /// Makes the intent durable; tries again where a job in another slot was quicker.
    fn open_gate(&self, record: &WorkspaceRecord, flight: &mut Flight<'_>) -> Result<(), Failure> {
        let shared = record.policy.policy.budget.concurrency > 1;
        let mut state = record.state;
        flight.job.started_at = self.now();
        for _ in 1..TRIES_MAX {
            let mut batch = Batch::new(&record.id, state, self.now());
            flight.enter(&mut batch);
            batch.step(WorkspaceState::Running);
            match self.open()?.append(batch.entries()) {
                Ok(_) => return Ok(()),
                Err(error @ StoreError::Conflict { .. }) if shared => {
                    let now = self.usable(record)?.state;
                    if now == state {
                        return Err(self.store_failure(&error));
                    }
                    state = now;
                }
                Err(error) => return Err(self.store_failure(&error)),
            }
        }
        Err(self.busy(record)?)
    }

    /// Looks whether a job made what it declared; returns the names of what it did not, each with the line that says
    /// so. One that succeeded otherwise did so in part only.
    pub(crate) fn checked(
        &self,
        record: &WorkspaceRecord,
        declares: &[ArtifactDeclaration],
        mut outcome: JobOutcome,
    ) -> (JobOutcome, Vec<(ByteString, String)>) {
        let absent = |declared: &ArtifactDeclaration| {
            let path = WsPath::parse(declared.name.as_bytes()).ok()?;
            let read = self.provider.read(&record.id, &path, &mut Glimpse, &self.settling());
            let shown = printable(declared.name.as_bytes());
            let line = match read {
                Err(ProviderError::NoFile { .. }) => {
                    format!("artifact '{shown}' was declared, and the job did not write it")
                }
                Err(ProviderError::NotAFile { what, .. }) => {
                    if matches!(self.look(record, &path), Ok(Seen::Directory)) {
                        return None;
                    }
                    format!(
                        "artifact '{shown}' is {what}, and only files and directories can be exported"
                    )
                }
                _ => return None,
            };
            Some((declared.name.clone(), line))
        };
        let found: Vec<_> = declares.iter().filter_map(absent).collect();
        if !found.is_empty() && outcome.status == JobStatus::Success {
            outcome.status = JobStatus::PartialSuccess;
        }
        (outcome, found)
    }

    /// Settles a job and reports it; trouble with the record never hides what came of the job.
    fn settle_run(
        &self,
        mut record: WorkspaceRecord,
        flight: &Flight<'_>,
        outcome: &JobOutcome,
        notes: &[String],
        bound: Option<Bound>,
    ) -> Report {
        let shared = record.policy.policy.budget.concurrency > 1;
        let mut left = if shared { TRIES_MAX } else { 1 };
        loop {
            left -= 1;
            // Without a shared workspace nobody else can have moved it: the hold is ours.
            let alone = !shared || self.is_alone(&mut record, &flight.job.id);
            let from = if shared { record.state } else { WorkspaceState::Running };
            let mut batch = Batch::new(&record.id, from, self.now());
            if alone {
                batch.step(WorkspaceState::Ready);
            }
            record.state = batch.state();
            let (mut report, whole) = self.run_report(&record, flight, outcome, notes, bound);
            flight.leave(&mut batch, outcome, whole);
            match self.store.open().and_then(|store| store.append(batch.entries())) {
                Ok(_) => {
                    self.after_settlement(&record, &flight.job.id, outcome);
                    return report;
                }
                // A verb in another slot found the job ended and settled it, with the same outcome.
                Err(StoreError::Conflict { .. }) if self.is_settled(&flight.job.id) => {
                    return report;
                }
                Err(StoreError::Conflict { .. }) if left > 0 => {}
                Err(error) => {
                    report.package.attention.push(self.unsettled(&error));
                    return self.report(report.package, bound, Some(&flight.job.id));
                }
            }
        }
    }

    /// Does what may be done only once the outcome is on record.
    fn after_settlement(&self, record: &WorkspaceRecord, job: &JobId, outcome: &JobOutcome) {
        self.provider.settled(job, outcome);
        if record.policy.policy.budget.concurrency > 1 {
            self.repair(record);
        }
    }

    /// Returns whether no other job of the workspace is in flight, and brings the record's state up to date.
    fn is_alone(&self, record: &mut WorkspaceRecord, job: &JobId) -> bool {
        if let Ok(now) = self.known(&record.id) {
            record.state = now.state;
        }
        let others = self.intents(&record.id).unwrap_or_default();
        !others
            .iter()
            .any(|intent| intent.kind == IntentKind::Run && intent.job.as_ref() != Some(job))
    }

    fn is_settled(&self, job: &JobId) -> bool {
        self.outcome_of(job).is_ok_and(|outcome| outcome.is_some())
    }

    /// Returns the line for a job whose outcome could not be recorded.
    pub(crate) fn unsettled(&self, error: &StoreError) -> String {
        let why = crate::failure::told(error);
        format!(
            "the outcome is not recorded yet ({why}); the next verb on this workspace settles it"
        )
    }

    fn run_report(
        &self,
        record: &WorkspaceRecord,
        flight: &Flight<'_>,
        outcome: &JobOutcome,
        notes: &[String],
        bound: Option<Bound>,
    ) -> (Report, Option<String>) {
        let story = Story { record, job: &flight.job, outcome, inputs: &flight.inputs };
        let mut package = self.job_package(&story);
        package.attention.splice(0..0, notes.iter().cloned());
        if let Ok(artifacts) = self.open().and_then(|store| {
            store.artifacts(&record.id).map_err(|error| self.store_failure(&error))
        }) {
            // Only what this job can have left: its own artifacts are exported later, those of others are not its own.
            let own = |one: &&ArtifactRecord| {
                one.job == flight.job.id && !flight.absent.contains(&one.declaration.name)
            };
            let lines = pending(&artifacts).into_iter().filter(own);
            package.attention.extend(lines.map(|one| self.pending_line(record, one)));
        }
        self.report_and_whole(package, bound, &flight.job.id)
    }

    /// Returns the report, and the whole package as JSON where the bound cut it.
    pub(crate) fn report_and_whole(
        &self,
        package: ResultPackage,
        bound: Option<Bound>,
        job: &JobId,
    ) -> (Report, Option<String>) {
        let whole = package.clone();
        let report = self.report(package, bound, Some(job));
        let text = report.cut.then(|| serde_json::to_string(&whole).ok()).flatten();
        (report, text)
    }
}

impl Flight<'_> {
    /// Writes what has to be durable before the job is let go.
    pub(crate) fn enter(&self, batch: &mut Batch) {
        batch
            .open(&self.intent, IntentKind::Run, Some(&self.job.id), IntentDetail::None)
            .push(Change::JobAdded { record: self.job.clone() });
        for declaration in self.declares {
            let (job, declaration) = (self.job.id.clone(), declaration.clone());
            batch.push(Change::ArtifactDeclared { job, declaration });
        }
    }

    /// Writes what came of the job.
    pub(crate) fn leave(&self, batch: &mut Batch, outcome: &JobOutcome, package: Option<String>) {
        let (job, outcome) = (self.job.id.clone(), outcome.clone());
        batch.push(Change::JobEnded { job, outcome, package }).close(
            &self.intent,
            Phase::Settled,
            None,
        );
    }
}

/// The gate of `run`: the intent goes into a store that is open already.
struct RunGate<'g, 'e, 'r> {
    engine: &'g Engine<'e>,
    record: &'g WorkspaceRecord,
    flight: &'g mut Flight<'r>,
}

impl Gate for RunGate<'_, '_, '_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.engine.open_gate(self.record, self.flight)?)
    }
}

/// A sink that wants to know only whether there is something to read.
struct Glimpse;

impl ByteSink for Glimpse {
    fn push(&mut self, _: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("it is there".into())
    }
}

/// Returns a job as the provider is asked to run it; the only place where values of variables go.
pub(crate) fn spec_of(record: &WorkspaceRecord, job: &JobRecord, request: &JobRequest) -> JobSpec {
    JobSpec {
        id: job.id.clone(),
        argv: job.argv.clone(),
        env: request.environment.vars.clone(),
        policy: record.policy.clone(),
        cwd: job.terms.cwd.clone(),
        stdin: Stdin::Empty,
    }
}

/// Refuses a job that cannot be run anywhere.
pub(crate) fn check_job(job: &JobRequest) -> Result<(), Failure> {
    if job.argv.is_empty() {
        return Err(Failure::user(
            "no_command",
            "no command was given",
            "put the command and its arguments last, after the options",
        ));
    }
    if job.argv.iter().any(|argument| argument.as_bytes().contains(&0)) {
        return Err(Failure::user(
            "bad_command",
            "an argument of the command contains a NUL byte",
            "no program can be given one; hand the data over as a file with --input",
        ));
    }
    for (index, declared) in job.declares.iter().enumerate() {
        if job.declares[..index].iter().any(|earlier| earlier.name == declared.name) {
            return Err(declared_twice(declared));
        }
        check_path(declared)?;
    }
    Ok(())
}

/// Refuses a name under which no file of a workspace could be exported.
fn check_path(declared: &ArtifactDeclaration) -> Result<(), Failure> {
    let name = declared.name.as_bytes();
    WsPath::parse(name).map(drop).map_err(|error| {
        Failure::user(
            "bad_artifact_path",
            format!("--declare `{}` names no file of a workspace: {error}", printable(name)),
            "name the file's place relative to the workspace, such as out/result.json",
        )
    })
}

fn declared_twice(declared: &ArtifactDeclaration) -> Failure {
    Failure::user(
        "artifact_declared",
        format!("artifact '{}' is declared already", printable(declared.name.as_bytes())),
        "declare it under another name, or leave this --declare out",
    )
}
