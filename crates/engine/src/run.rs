//! `run`: one job in a workspace.
//!
//! The verb waits for a free slot, settles what a dead caller left, and lets the job go only once its intent is
//! durable; a second batch holds what came of it. A job's failure never fails its workspace. With `--detach` it returns as
//! soon as the job was let go; the intent stays open until a later verb settles it.
use crate::checks::unchecked;
use crate::engine::Engine;
use crate::flight::{Flight, RunGate};
use crate::hold::Patience;
use crate::job::narrowed;
use crate::pack::{check_bound, input_findings};
use crate::reconcile::Held;
use crate::requests::{JobRequest, Listener, Live, Report, RunRequest};
use crate::text::printable;
use crate::tree::Seen;
use bailiwick_contract::artifact::ArtifactDeclaration;
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::{InputRecord, WsPath};
use bailiwick_contract::job::{JobOutcome, JobSpec, JobStatus, JobTerms, Stdin};
use bailiwick_contract::provider::{ByteSink, Hold, Ports, ProviderError};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use core::error::Error;
use core::time::Duration;

impl Engine<'_> {
    /// Runs a command in a workspace and waits for its end.
    ///
    /// # Errors
    /// [`Failure`]; the command did not run. Once it ran, everything is a [`Report`].
    pub fn run(&self, request: &RunRequest<'_>) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        check_job(&request.job)?;
        check_detached(request)?;
        self.provider.expect_job();
        let id = &request.workspace;
        let record = self.living(id).map_err(|f| self.or_job(f, id, "run", " COMMAND..."))?;
        check_timeout(&record, &request.job)?;
        let wall_clock = Duration::from_millis(record.policy.policy.budget.wall_clock_ms);
        let patience =
            Patience { wait: request.wait.unwrap_or(wall_clock), notice: request.notice };
        let hold = self.take_slot(&record, patience)?;
        let notes = self.reconcile(&record, Held::Slot)?;
        let told = |failure: Failure| failure.noting(&notes);
        let record = self.usable(&record).map_err(told)?;
        self.check_names(&record, &request.job).map_err(told)?;
        let mut flight = self.flight(&record, &request.job);
        flight.job.terms.detached = request.detach;
        flight.inputs = self.bring_inputs(&record, &request.job, &flight.job.id).map_err(told)?;
        let spec = spec_of(&record, &flight.job, &request.job);
        let mut live = LiveSink::of(request.live);
        let mut gate = RunGate { engine: self, record: &record, flight: &mut flight };
        let live = live.as_mut().map(|sink| sink as &mut dyn ByteSink);
        let ports = Ports { hold: &*hold, gate: &mut gate, live };
        if request.detach {
            let launched = self.provider.launch(&record.id, &spec, ports, &self.cx());
            launched.map_err(|error| told(self.provider_failure(error)))?;
            return Ok(self.detached(&record, &flight, notes, request));
        }
        let outcome = self.provider.run(&record.id, &spec, ports, &self.cx());
        let outcome = outcome.map_err(|error| told(self.provider_failure(error)))?;
        let (outcome, lines) = self.assessed(&record, &mut flight, &*hold, outcome);
        let notes = [notes, lines].concat();
        Ok(self.settle_run(record, &flight, &outcome, &notes, request.bound))
    }

    /// Looks at what a job left whose caller this is: nobody else can run its checks.
    fn assessed(
        &self,
        record: &WorkspaceRecord,
        flight: &mut Flight<'_>,
        hold: &dyn Hold,
        outcome: JobOutcome,
    ) -> (JobOutcome, Vec<String>) {
        let as_it_is = outcome.clone();
        let assessed = self.assess(record, flight, hold, outcome);
        assessed.unwrap_or_else(|| (unchecked(&flight.job.terms, as_it_is), Vec::new()))
    }

    /// Reports a job that was let go and that nobody waits for.
    fn detached(
        &self,
        record: &WorkspaceRecord,
        flight: &Flight<'_>,
        notes: Vec<String>,
        request: &RunRequest<'_>,
    ) -> Report {
        let record = WorkspaceRecord { state: WorkspaceState::Running, ..record.clone() };
        let (id, job, program) = (&record.id, &flight.job, self.program);
        let mut package = self.running_package(&record, job);
        package.outcome_summary = format!("job {} is running in workspace {id}, detached", job.id);
        package.key_findings = vec![format!("command: {}", crate::job::command_of(job))];
        package.key_findings.extend(input_findings(&flight.inputs));
        package.provenance.inputs = crate::job::provenance_inputs(job, &flight.inputs);
        package.attention = notes;
        package.attention.extend([
            format!("{program} wait {} waits for its end and reports it", job.id),
            format!("{program} logs --follow {} shows what it prints", job.id),
            format!("{program} stop --apply {id} ends it"),
        ]);
        if !job.terms.checks.is_empty() {
            let line = "its checks are run by that wait; a verb that changes the workspace before gives them up";
            package.attention.push(line.into());
        }
        self.report(package, request.bound, Some(&job.id))
    }

    /// Reads the record again under the hold: it may have moved while the verb waited.
    pub(crate) fn usable(&self, record: &WorkspaceRecord) -> Result<WorkspaceRecord, Failure> {
        let shared = record.policy.policy.budget.concurrency > 1;
        let now = self.living(&record.id)?;
        if shared && now.state == WorkspaceState::Running {
            return self.in_time(now);
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

    /// Refuses a job's id that was ever used, also by a workspace: verbs take either, and would never find the job.
    pub(crate) fn check_job_fresh(&self, id: &JobId) -> Result<(), Failure> {
        let store = self.open()?;
        if store.job(id).map_err(|error| self.store_failure(&error))?.is_some() {
            return Err(Failure::user(
                "job_exists",
                format!("job {id} exists already"),
                "leave --job-id out to have an id minted; ids are never used twice",
            ));
        }
        let Ok(workspace) = WorkspaceId::parse(id.as_str()) else { return Ok(()) };
        match store.workspace(&workspace).map_err(|error| self.store_failure(&error))? {
            None => Ok(()),
            Some(_) => Err(job_named_as_workspace(id)),
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
            terms: terms_of(request),
            started_at: self.now(),
            outcome: None,
            package: None,
        };
        let (declares, intent) = (&request.declares, self.mint_intent());
        Flight {
            job,
            declares,
            inputs: Vec::new(),
            intent,
            adopted: false,
            checks: Vec::new(),
            absent: Vec::new(),
        }
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
        policy: narrowed(record, &job.terms).policy.clone(),
        cwd: job.terms.cwd.clone(),
        stdin: request.stdin.clone(),
    }
}

/// Returns what is recorded of how a job is to run.
fn terms_of(request: &JobRequest) -> JobTerms {
    let timeout = request.timeout.map(|timeout| u64::try_from(timeout.as_millis()));
    JobTerms {
        cwd: request.cwd.clone(),
        stdin: match &request.stdin {
            Stdin::Empty => None,
            Stdin::File(path) => Some(path.clone()),
            Stdin::Caller => Some("-".into()),
        },
        timeout_ms: timeout.map(|millis| millis.unwrap_or(u64::MAX)),
        detached: false,
        checks: request.checks.clone(),
        measures: request.measures.clone(),
        check_of: None,
    }
}

/// Hands a job's output to whoever listens.
pub(crate) struct LiveSink<'a>(Listener<'a>);

impl<'a> LiveSink<'a> {
    /// Returns a sink where somebody listens.
    pub(crate) fn of(live: Live<'a>) -> Option<Self> {
        live.0.map(Self)
    }
}

impl ByteSink for LiveSink<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)(bytes)
    }
}

/// Refuses what a job cannot have whose caller goes away.
fn check_detached(request: &RunRequest<'_>) -> Result<(), Failure> {
    if !request.detach || request.live.0.is_none() {
        return Ok(());
    }
    Err(Failure::user(
        "detached_stream",
        "--detach returns at once, so that nobody is left who would show the output",
        "leave --stream out; logs --follow shows it",
    ))
}

/// Refuses a wall clock that the policy does not allow.
pub(crate) fn check_timeout(record: &WorkspaceRecord, job: &JobRequest) -> Result<(), Failure> {
    let most = Duration::from_millis(record.policy.policy.budget.wall_clock_ms);
    match job.timeout {
        Some(timeout) if timeout > most => Err(Failure::new(
            ExitCode::PolicyDenied,
            "timeout_over_wall_clock",
            format!(
                "--timeout {} s is more than the wall clock of {} s that the policy allows a job",
                timeout.as_secs_f64(),
                most.as_secs_f64()
            ),
            format!(
                "pass at most {}, or make a workspace with a larger --wall-clock-seconds",
                most.as_secs_f64()
            ),
        )),
        _ => Ok(()),
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
    check_terms(job)
}

/// The most checks, and the most measurements, of one job: each check is a job.
const DECLARED_MAX: usize = 64;

/// Refuses what no job can be asked for.
fn check_terms(job: &JobRequest) -> Result<(), Failure> {
    if job.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(Failure::user(
            "bad_timeout",
            "--timeout 0 leaves a job no time at all",
            "pass a positive duration, such as 30s, or leave --timeout out",
        ));
    }
    let checks: Vec<&str> = job.checks.iter().map(|check| check.name.as_str()).collect();
    let measures: Vec<&str> = job.measures.iter().map(|measure| measure.name.as_str()).collect();
    for (flag, names) in [("--check", checks), ("--measure", measures)] {
        if names.len() > DECLARED_MAX {
            return Err(Failure::user(
                "too_many_declared",
                format!(
                    "{flag} was given {} times, and a job has at most {DECLARED_MAX}",
                    names.len()
                ),
                "let one script do several of them",
            ));
        }
        let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
        if let Some((_, name)) = twice {
            return Err(Failure::user(
                "declared_twice",
                format!("{flag} '{name}' was given twice"),
                "give each a name of its own",
            ));
        }
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

/// Refuses one id for a new workspace and its job.
pub(crate) fn check_apart(workspace: &WorkspaceId, job: Option<&JobId>) -> Result<(), Failure> {
    match job {
        Some(job) if job.as_str() == workspace.as_str() => Err(job_named_as_workspace(job)),
        _ => Ok(()),
    }
}

/// A job that no verb could find: its id is that of a workspace.
fn job_named_as_workspace(id: &JobId) -> Failure {
    Failure::user(
        "id_taken",
        format!("--job-id {id} is the id of a workspace, and no verb could tell the job from it"),
        "choose another id, or leave --job-id out to have one minted",
    )
}

fn declared_twice(declared: &ArtifactDeclaration) -> Failure {
    Failure::user(
        "artifact_declared",
        format!("artifact '{}' is declared already", printable(declared.name.as_bytes())),
        "declare it under another name, or leave this --declare out",
    )
}
