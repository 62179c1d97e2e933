//! `exec`: create, run, export and destroy in one call.
//!
//! The common case, and the fast one: nothing is asked of the store until the sandbox stands at its gate. One batch
//! then holds every intent, and one more, after everything was done, every outcome.
use crate::checks::unchecked;
use crate::create::spec_of as workspace_spec;
use crate::engine::Engine;
use crate::export::{Parcel, Published, detail_of, export_of, source_path, verified};
use crate::flight::Flight;
use crate::inputs::Plan;
use crate::job::Story;
use crate::journal::Batch;
use crate::ledger::Room;
use crate::pack::{check_bound, exported, pending};
use crate::publish::{Clobber, Destination};
use crate::put::Unrecorded;
use crate::requests::{Bound, ExecRequest, ExportTarget, Report};
use crate::run::{LiveSink, check_apart, check_job, check_timeout, spec_of};
use crate::text::{printable, quoted};
use bailiwick_contract::artifact::{
    ArtifactDeclaration, ArtifactExport, ArtifactRecord, Retention,
};
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::id::IntentId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobOutcome, JobStatus};
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::provider::{ByteSink, Gate, Hold, Ports, Slots};
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use core::error::Error;
use std::os::unix::ffi::OsStrExt as _;

/// An artifact on its way out.
struct Passage<'a> {
    declaration: &'a ArtifactDeclaration,
    target: &'a ExportTarget,
    source: WsPath,
    /// Looked at before anything ran; taken when it is used.
    destination: Option<Destination>,
    intent: IntentId,
    result: Option<Result<Published, Failure>>,
}

/// All that one `exec` does, from its decision to its report.
struct Course<'a> {
    record: WorkspaceRecord,
    flight: Flight<'a>,
    passages: Vec<Passage<'a>>,
    create: IntentId,
    remove: IntentId,
    given: &'a ExecRequest<'a>,
}

impl Engine<'_> {
    /// Runs a command in a workspace of its own, exports what it declared, and removes the workspace.
    ///
    /// # Errors
    /// [`Failure`]; the command did not run, and nothing of the workspace is left. Once it ran, everything is a
    /// [`Report`], also an export that failed.
    pub fn exec(&self, request: &ExecRequest<'_>) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        check_job(&request.job)?;
        self.provider.expect_job();
        // A given id may name a workspace of somebody's; a minted one cannot, and need not be looked up.
        if let Some(id) = &request.workspace {
            self.check_fresh(id)?;
            check_apart(id, request.job.job.as_ref())?;
        }
        let passages = self.passages(request)?;
        let profile = request.profile.as_deref();
        let record =
            self.design(request.workspace.as_ref(), profile, &request.policy, &request.about)?;
        check_timeout(&record, &request.job)?;
        let budget = &record.policy.policy.budget;
        let room = Room { bytes: budget.storage_bytes, entries: budget.inodes() };
        let plan = self.plan_inputs(&request.job.inputs, room)?;
        let made = self.provider.create(&workspace_spec(&record), &self.cx());
        made.map_err(|error| self.provider_failure(error))?;
        let flight = self.flight(&record, &request.job);
        let (create, remove) = (self.mint_intent(), self.mint_intent());
        let mut course = Course { record, flight, passages, create, remove, given: request };
        let hold = self.hold_new(&course.record)?;
        match self.let_go(&mut course, plan, &*hold) {
            Ok(outcome) => {
                let Course { record, flight, .. } = &mut course;
                // Nobody else knows of this workspace, so that nobody else runs its checks.
                let assessed = self.assess_declared(record, flight, &*hold, outcome.clone());
                let (outcome, notes) =
                    assessed.unwrap_or_else(|| (unchecked(&flight.job.terms, outcome), Vec::new()));
                Ok(self.conclude(course, outcome, notes))
            }
            Err(failure) => {
                // It is on no record, so what cannot be removed here is found by its disk.
                self.provider.remove(&course.record.id, &self.settling()).ok();
                Err(failure)
            }
        }
    }

    /// Takes all slots of a new workspace; when somebody else has one, the workspace is theirs and is left alone.
    fn hold_new(&self, record: &WorkspaceRecord) -> Result<Box<dyn Hold>, Failure> {
        let slots = Slots::All(record.policy.policy.budget.concurrency);
        let held = self.provider.hold(&record.id, slots).map_err(|e| self.provider_failure(e))?;
        held.ok_or_else(|| {
            Failure::user(
                "workspace_busy",
                format!("workspace {} is held by another process", record.id),
                "leave --workspace-id out to have an id minted",
            )
        })
    }

    /// Pairs each declared artifact with its export, and looks at every destination.
    fn passages<'r>(&self, request: &'r ExecRequest<'_>) -> Result<Vec<Passage<'r>>, Failure> {
        let declares = &request.job.declares;
        if let Some(stray) = request
            .exports
            .iter()
            .find(|export| !declares.iter().any(|declared| declared.name == export.name))
        {
            let name = printable(stray.name.as_bytes());
            return Err(Failure::user(
                "export_not_declared",
                format!("--export {name}: no --declare names it"),
                format!("add --declare {name}=PURPOSE"),
            ));
        }
        for (index, export) in request.exports.iter().enumerate() {
            let taken = |earlier: &ExportTarget| earlier.destination == export.destination;
            if request.exports[..index].iter().any(taken) {
                let path = printable(export.destination.as_os_str().as_bytes());
                return Err(Failure::user(
                    "export_twice",
                    format!("two artifacts are exported to `{path}`"),
                    "give each --export a path of its own",
                ));
            }
        }
        declares.iter().map(|declaration| self.passage(declaration, &request.exports)).collect()
    }

    fn passage<'r>(
        &self,
        declaration: &'r ArtifactDeclaration,
        exports: &'r [ExportTarget],
    ) -> Result<Passage<'r>, Failure> {
        let name = printable(declaration.name.as_bytes());
        let mut targets = exports.iter().filter(|export| export.name == declaration.name);
        let (Some(target), None) = (targets.next(), targets.next()) else {
            return Err(Failure::user(
                "declare_without_export",
                format!(
                    "--declare {name} needs exactly one --export {name}=PATH: the workspace is removed afterwards"
                ),
                format!(
                    "add --export {name}=PATH once, or use create and run to keep the workspace"
                ),
            ));
        };
        Ok(Passage {
            declaration,
            target,
            source: source_path(&declaration.name)?,
            destination: Some(Destination::open(&target.destination, Clobber::Yes)?),
            intent: self.mint_intent(),
            result: None,
        })
    }

    /// Copies the inputs in and runs the job; what it did is on record from the moment that the gate opens.
    fn let_go(
        &self,
        course: &mut Course<'_>,
        plan: Plan,
        hold: &dyn Hold,
    ) -> Result<JobOutcome, Failure> {
        let record = course.record.clone();
        if !plan.is_empty() {
            let delivery = plan.deliver();
            let ledger = delivery.ledger.clone();
            self.write(&record, delivery, false, &mut Unrecorded(ledger.clone()))?;
            course.flight.inputs = ledger.records(self.now(), Some(&course.flight.job.id));
        }
        let spec = spec_of(&record, &course.flight.job, &course.given.job);
        let mut live = LiveSink::of(course.given.live);
        let mut gate = ExecGate { engine: self, course };
        let live = live.as_mut().map(|sink| sink as &mut dyn ByteSink);
        let ports = Ports { hold, gate: &mut gate, live };
        let outcome = self.provider.run(&record.id, &spec, ports, &self.cx());
        outcome.map_err(|error| self.provider_failure(error))
    }

    /// Opens the store, for the first time in this call, and appends every intent in one batch.
    fn open_exec_gate(&self, course: &mut Course<'_>) -> Result<(), Failure> {
        if let Some(id) = &course.given.workspace {
            self.check_fresh(id)?;
        }
        if let Some(id) = &course.given.job.job {
            self.check_job_fresh(id)?;
        }
        let now = self.now();
        course.flight.job.started_at = now;
        course.record.state = WorkspaceState::Ready;
        let record = course.record.clone();
        let mut batch = Batch::new(&record.id, record.state, now);
        batch
            .open(&course.create, IntentKind::Create, None, IntentDetail::None)
            .push(Change::WorkspaceAdded { record });
        if !course.flight.inputs.is_empty() {
            batch.push(Change::InputsAdded { inputs: course.flight.inputs.clone() });
        }
        course.flight.enter(&mut batch);
        for passage in &course.passages {
            let detail = detail_of(&passage.declaration.name, &passage.target.destination);
            batch.open(&passage.intent, IntentKind::Export, None, detail);
        }
        let detail = IntentDetail::Remove { force: false, after_job: true };
        batch.open(&course.remove, IntentKind::Remove, None, detail).step(WorkspaceState::Running);
        self.append(&batch)?;
        course.record.state = batch.state();
        Ok(())
    }

    /// Exports, removes, settles and reports, under the hold of the caller; the job has ended.
    fn conclude(
        &self,
        mut course: Course<'_>,
        mut outcome: JobOutcome,
        mut notes: Vec<String>,
    ) -> Report {
        for passage in &mut course.passages {
            self.pass(&course.record, passage);
        }
        let succeeded = matches!(outcome.status, JobStatus::Success | JobStatus::PartialSuccess);
        if succeeded && course.passages.iter().any(Passage::is_absent) {
            outcome.status = JobStatus::PartialSuccess;
        }
        // A job that failed need not have written anything; one that succeeded keeps what could not be taken out.
        let kept = course
            .passages
            .iter()
            .any(|one| one.failure().is_some() && (succeeded || !one.is_absent()));
        let removed = if kept {
            None
        } else {
            Some(self.provider.remove(&course.record.id, &self.settling()))
        };
        let mut batch = Batch::new(&course.record.id, WorkspaceState::Running, self.now());
        match removed {
            None => {
                batch.step(WorkspaceState::Ready);
                batch.close(&course.remove, Phase::Abandoned, Some("an export failed".into()));
            }
            Some(Ok(_)) => {
                course.discard_absent(&mut batch);
                batch.step(WorkspaceState::Ready).step_to_destroyed();
                batch.close(&course.remove, Phase::Settled, None);
            }
            Some(Err(error)) => {
                let failure = self.provider_failure(error);
                notes.push(format!("the workspace could not be removed: {}", failure.message));
                batch.step(WorkspaceState::Ready).step(WorkspaceState::Failed);
                batch.close(&course.remove, Phase::Abandoned, Some(failure.message));
            }
        }
        course.record.state = batch.state();
        self.settle_exec(&course, batch, &outcome, notes)
    }

    /// Takes one artifact out, where the job left one.
    fn pass(&self, record: &WorkspaceRecord, passage: &mut Passage<'_>) {
        let Some(destination) = passage.destination.take() else { return };
        // The caller's wish to stop was for the job, which has ended; what it made is not thrown away for it.
        let settled = Engine { cancel: self.settling().cancel, ..*self };
        let (source, intent) = (&passage.source, &passage.intent);
        let parcel = Parcel { source, destination, intent, expected: None, tar: false };
        passage.result = Some(settled.publish(record, parcel));
    }

    fn settle_exec(
        &self,
        course: &Course<'_>,
        mut batch: Batch,
        outcome: &JobOutcome,
        notes: Vec<String>,
    ) -> Report {
        let bound = course.given.bound;
        let (report, whole) = self.exec_report(course, outcome, notes, bound);
        course.flight.leave(&mut batch, outcome, whole);
        batch.close(&course.create, Phase::Settled, None);
        for passage in &course.passages {
            passage.leave(&mut batch);
        }
        match self.store.open().and_then(|store| store.append(batch.entries())) {
            Ok(_) => {
                course.flight.tell_settled(self, outcome);
                report
            }
            Err(error) => {
                let Report { mut package, exit, .. } = report;
                package.attention.push(self.unsettled(&error));
                Report { exit, ..self.report(package, bound, Some(&course.flight.job.id)) }
            }
        }
    }

    fn exec_report(
        &self,
        course: &Course<'_>,
        outcome: &JobOutcome,
        notes: Vec<String>,
        bound: Option<Bound>,
    ) -> (Report, Option<String>) {
        let Course { record, flight, passages, .. } = course;
        let story = Story { record, job: &flight.job, outcome, inputs: &flight.inputs };
        let mut package = self.job_package(&story);
        let artifacts: Vec<ArtifactRecord> =
            passages.iter().map(|passage| passage.record(&flight.job.id)).collect();
        package.artifacts = exported(&artifacts);
        package.key_findings.extend(passages.iter().filter_map(|passage| {
            let name = printable(passage.declaration.name.as_bytes());
            Some(verified(&name, passage.published()?))
        }));
        package.key_findings.extend(passages.iter().filter_map(Passage::finding));
        let lines = passages.iter().filter_map(|passage| self.passage_line(record, passage));
        let lines: Vec<String> = notes.into_iter().chain(lines).collect();
        package.attention.splice(0..0, lines);
        let (mut report, whole) = self.report_and_whole(package, bound, &flight.job.id);
        if report.exit == ExitCode::Success && !pending(&artifacts).is_empty() {
            let first = passages.iter().find_map(Passage::failure);
            report.exit = first.map_or(ExitCode::UserError, |failure| failure.code);
        }
        (report, whole)
    }

    /// Returns the line about an artifact that did not come out.
    fn passage_line(&self, record: &WorkspaceRecord, passage: &Passage<'_>) -> Option<String> {
        passage.failure()?;
        let (id, program) = (&record.id, self.program);
        let name = printable(passage.declaration.name.as_bytes());
        if record.state == WorkspaceState::Destroyed {
            return Some(format!("artifact '{name}' was not exported: the job did not write it"));
        }
        if passage.is_absent() {
            return Some(format!(
                "the job did not write artifact '{name}'; workspace {id} is kept: {program} destroy --force {id}"
            ));
        }
        let typed = quoted(passage.declaration.name.as_bytes());
        Some(format!("workspace {id} is kept: {program} export {id} {typed} --to PATH"))
    }
}

impl Passage<'_> {
    fn failure(&self) -> Option<&Failure> {
        self.result.as_ref()?.as_ref().err()
    }

    /// Returns why it was not exported; what the job did not write is told elsewhere.
    fn finding(&self) -> Option<String> {
        let failure = self.failure().filter(|_| !self.is_absent())?;
        let name = printable(self.declaration.name.as_bytes());
        Some(format!("artifact '{name}' was not exported: {}", failure.message))
    }

    fn published(&self) -> Option<Published> {
        self.result.as_ref()?.as_ref().ok().copied()
    }

    fn export(&self) -> Option<ArtifactExport> {
        self.published().map(|published| export_of(published, &self.target.destination))
    }

    /// Returns whether the job did not write it.
    fn is_absent(&self) -> bool {
        self.failure().is_some_and(|failure| failure.reason == "no_such_file")
    }

    fn leave(&self, batch: &mut Batch) {
        if let Some(export) = self.export() {
            let name = self.declaration.name.clone();
            batch.push(Change::ArtifactExported { name, export });
            batch.close(&self.intent, Phase::Settled, None);
        } else {
            let why = self.failure().map(|failure| failure.message.clone());
            batch.close(&self.intent, Phase::Abandoned, why);
        }
    }

    fn record(&self, job: &bailiwick_contract::id::JobId) -> ArtifactRecord {
        let export = self.export();
        ArtifactRecord {
            declaration: self.declaration.clone(),
            job: job.clone(),
            retention: if export.is_some() { Retention::Exported } else { Retention::Declared },
            export,
        }
    }
}

impl Course<'_> {
    /// Gives up what a failed job did not write; its workspace is gone.
    fn discard_absent(&self, batch: &mut Batch) {
        for passage in self.passages.iter().filter(|passage| passage.is_absent()) {
            batch.push(Change::ArtifactDiscarded { name: passage.declaration.name.clone() });
        }
    }
}

/// The gate of `exec`: behind it the store is opened for the first time.
struct ExecGate<'g, 'e, 'c> {
    engine: &'g Engine<'e>,
    course: &'g mut Course<'c>,
}

impl Gate for ExecGate<'_, '_, '_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.engine.open_exec_gate(self.course)?)
    }
}
