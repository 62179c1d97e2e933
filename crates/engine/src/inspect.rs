//! `inspect`: what is true of a workspace or a job now.
//!
//! It settles what dead callers left and looks whether the provider still holds the workspace; a lost one reads
//! `failed` from then on. With no bound it returns every section whole, which is what the markers of a cut package ask
//! for.
use crate::engine::Engine;
use crate::hold::Attempt;
use crate::job::Story;
use crate::journal::Batch;
use crate::logs::{Found, Named};
use crate::pack::{check_bound, exported, input_line, pending};
use crate::requests::{InspectRequest, Report};
use bailiwick_contract::artifact::ArtifactRecord;
use bailiwick_contract::error::Failure;
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::job::Usage;
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::{Inspection, Slots};
use bailiwick_contract::record::{JobRecord, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;

impl Engine<'_> {
    /// Reports a workspace, or a job, as it is now.
    ///
    /// # Errors
    /// [`Failure`] for an unknown handle, or where the store or the provider cannot be read.
    pub fn inspect(&self, request: &InspectRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let Found { named, notes } = self.find(&request.handle)?;
        match named {
            Named::Workspace(record) => {
                let mut package = self.inspect_workspace(&record, begun)?;
                package.attention.splice(0..0, notes);
                Ok(self.report(package, request.bound, None))
            }
            Named::Job(record, job) => {
                let mut package = self.inspect_job(&record, &job)?;
                package.attention.splice(0..0, notes);
                let report = self.report(package, request.bound, Some(&job.id));
                // The package is the job's; that it could be shown is this verb's own outcome.
                Ok(Report { exit: bailiwick_contract::error::ExitCode::Success, ..report })
            }
        }
    }

    fn inspect_workspace(
        &self,
        record: &WorkspaceRecord,
        begun: Timestamp,
    ) -> Result<ResultPackage, Failure> {
        let seen = self.provider.inspect(&record.id, &self.cx());
        let seen = seen.map_err(|error| self.provider_failure(error))?;
        let lost = if seen.present { None } else { self.note_loss(record)? };
        let record = self.known(&record.id)?;
        let store = self.open()?;
        let failed = |error| self.store_failure(&error);
        let jobs = store.jobs(&record.id).map_err(failed)?;
        let inputs = store.inputs(&record.id).map_err(failed)?;
        let artifacts = self.artifacts(&record)?;
        let mut package = self.draft(&record, begun);
        let (id, provider) = (&record.id, record.provider.name());
        package.outcome_summary = match record.pruned_at {
            None => {
                let (state, count) = (record.state, jobs.len());
                format!("workspace {id} is {state} on {provider}, with {count} job(s) on record")
            }
            Some(at) => {
                format!(
                    "workspace {id} was destroyed on {provider}, and its record was pruned at {at}"
                )
            }
        };
        package.key_findings = self.workspace_findings(&record, &seen, &jobs, &inputs);
        package.artifacts = exported(&artifacts);
        package.provenance.inputs = inputs.iter().map(input_line).collect();
        package.resource_usage = crate::job::usage(&sum(&jobs, &seen), output_of(&jobs));
        self.add_last_job(&mut package, &jobs);
        package.warnings.extend(lost);
        package.attention = self.pending_lines(&record, &artifacts);
        Ok(package)
    }

    /// Records that a provider lost a workspace; returns the line that says so, unless it is meant to be gone.
    pub(crate) fn note_loss(&self, record: &WorkspaceRecord) -> Result<Option<String>, Failure> {
        let state = self.record_loss(record)?;
        let meant = matches!(
            state,
            WorkspaceState::Requested | WorkspaceState::Provisioning | WorkspaceState::Destroyed
        );
        let (id, program) = (&record.id, self.program);
        Ok((!meant).then(|| {
            format!(
                "the provider no longer holds workspace {id}: its files are gone, its records are kept; {program} destroy {id} ends it"
            )
        }))
    }

    /// Moves a ready workspace that its provider lost to `failed`, unless a verb is at work there, which knows better;
    /// returns its state.
    pub(crate) fn record_loss(&self, record: &WorkspaceRecord) -> Result<WorkspaceState, Failure> {
        let slots = Slots::All(record.policy.policy.budget.concurrency);
        // What is held is held until the loss is on record.
        let attempt = self.attempt(record, slots)?;
        let now = self.known(&record.id)?;
        let mut batch = Batch::new(&record.id, now.state, self.now());
        let at_work = matches!(attempt, Attempt::Taken) || !self.intents(&record.id)?.is_empty();
        if now.state == WorkspaceState::Ready && !at_work && !self.is_present(&now)? {
            self.append(batch.step(WorkspaceState::Failed))?;
        }
        Ok(batch.state())
    }

    fn workspace_findings(
        &self,
        record: &WorkspaceRecord,
        seen: &Inspection,
        jobs: &[JobRecord],
        inputs: &[InputRecord],
    ) -> Vec<String> {
        let mut found = vec![
            format!("lifecycle state: {}", record.state),
            format!("network: {}", record.policy.policy.network),
            format!("storage: {} bytes in {} entries", seen.storage_bytes, seen.inodes),
            format!("{} job(s) recorded", jobs.len()),
        ];
        if !inputs.is_empty() {
            let bytes: u64 = inputs.iter().map(|input| input.size_bytes).sum();
            found.push(format!("{} input file(s) recorded, {bytes} bytes in all", inputs.len()));
        }
        for job in jobs.iter().filter(|job| job.outcome.is_none()) {
            found.extend(self.running_findings(job));
        }
        let last = jobs.iter().rfind(|job| job.terms.check_of.is_none());
        if let Some((job, outcome)) = last.and_then(|job| Some((job, job.outcome.as_ref()?))) {
            let exit = outcome.exit_status.map_or_else(|| "none".into(), |code| code.to_string());
            found
                .push(format!("last job: {} reads {}, exit status {exit}", job.id, outcome.status));
        }
        found.push(format!("environment digest: {}", record.image_digest));
        found.extend(crate::about::findings(record));
        if let Some(at) = record.pruned_at {
            found.push(format!(
                "pruned at {at}: its jobs, artifacts and inputs are not known any more, and no id of theirs is used again"
            ));
        }
        found
    }

    /// Adds what jobs in flight have printed so far, and the output and the typed facts of the last job that ended; a
    /// check is no job of its own there.
    fn add_last_job(&self, package: &mut ResultPackage, jobs: &[JobRecord]) {
        for job in jobs.iter().filter(|job| job.outcome.is_none()) {
            self.add_output_so_far(package, job);
        }
        let own = jobs.iter().rev().filter(|job| job.terms.check_of.is_none());
        let last = own.filter_map(|job| Some((job, job.outcome.as_ref()?))).next();
        let Some((job, outcome)) = last else { return };
        crate::job::fill_facts(package, outcome);
        let first = package.evidence.len();
        self.add_excerpt(package, job, outcome);
        if let Some(evidence) = package.evidence.get_mut(first) {
            evidence.label = format!("captured output of job {}", job.id);
        }
    }

    pub(crate) fn pending_lines(
        &self,
        record: &WorkspaceRecord,
        artifacts: &[ArtifactRecord],
    ) -> Vec<String> {
        if record.state == WorkspaceState::Destroyed {
            return Vec::new();
        }
        pending(artifacts).into_iter().map(|artifact| self.pending_line(record, artifact)).collect()
    }

    /// Returns a job's package: as it was stored where a bound had cut it, else made again from the record.
    pub(crate) fn inspect_job(
        &self,
        record: &WorkspaceRecord,
        job: &JobRecord,
    ) -> Result<ResultPackage, Failure> {
        if let Some(whole) = &job.package {
            return serde_json::from_str(whole).map_err(|error| {
                Failure::environment(
                    "store_damaged",
                    format!("the stored package of job {} cannot be read: {error}", job.id),
                    format!("{} logs {} still shows its output", self.program, job.id),
                )
            });
        }
        let Some(outcome) = &job.outcome else { return Ok(self.running_package(record, job)) };
        let inputs = self.inputs_of(record, &job.id)?;
        let mut package = self.job_package(&Story { record, job, outcome, inputs: &inputs });
        let artifacts = self.artifacts(record)?;
        let own: Vec<ArtifactRecord> =
            artifacts.into_iter().filter(|artifact| artifact.job == job.id).collect();
        package.artifacts = exported(&own);
        package.attention.extend(self.pending_lines(record, &own));
        Ok(package)
    }

    pub(crate) fn running_package(
        &self,
        record: &WorkspaceRecord,
        job: &JobRecord,
    ) -> ResultPackage {
        let mut package = self.draft(record, job.started_at);
        package.outcome_summary = format!("job {} is running in workspace {}", job.id, record.id);
        package.key_findings = self.running_findings(job);
        package.provenance.job_id = job.id.as_str().into();
        package.provenance.started_at = job.started_at.to_iso();
        package.provenance.inputs =
            job.argv.iter().map(|argument| argument.to_text().into_owned()).collect();
        package.facts.job_status = Some("running".into());
        package.resource_usage.wall_time_seconds = self.seconds_of(job);
        self.add_output_so_far(&mut package, job);
        package
    }
}

/// Adds up what the jobs used; memory is the largest.
fn sum(jobs: &[JobRecord], seen: &Inspection) -> Usage {
    let mut total = Usage { storage_bytes: seen.storage_bytes, ..Usage::default() };
    for usage in jobs.iter().filter_map(|job| Some(&job.outcome.as_ref()?.usage)) {
        total.wall_time_us += usage.wall_time_us;
        total.cpu_us += usage.cpu_us;
        if usage.memory_bytes_max >= total.memory_bytes_max {
            total.memory_bytes_max = usage.memory_bytes_max;
            total.memory_basis = usage.memory_basis;
        }
    }
    total
}

fn output_of(jobs: &[JobRecord]) -> u64 {
    jobs.iter().filter_map(|job| Some(job.outcome.as_ref()?.output.bytes)).sum()
}
