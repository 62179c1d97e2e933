//! `prune`: gives back what nobody needs any more: expired workspaces, old output, old tombstones.
//!
//! Without `--apply` it reads and changes nothing. Each piece is removed for itself and can be removed again, so that
//! what a killed prune left is found by the next one. The log is never rewritten, and no id becomes free.
use crate::destroy::tell_discarded;
use crate::engine::Engine;
use crate::journal::Batch;
use crate::pack::{check_bound, pending};
use crate::reconcile::Held;
use crate::requests::{DestroyRequest, PruneRequest, Report};
use bailiwick_contract::artifact::ArtifactRecord;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::journal::Change;
use bailiwick_contract::package::{PruneFacts, ResultPackage};
use bailiwick_contract::provider::KeptOutput;
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::WorkspaceFilter;
use bailiwick_contract::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// The most workspaces and the most tombstones that one call takes up; the next one goes on.
const TAKEN_MAX: u64 = 10_000;

/// How many names a finding lists.
const NAMES_MAX: usize = 10;

/// The states in which a workspace whose time is over can be removed; one with a job in flight is not interrupted.
const ENDING: [WorkspaceState; 6] = [
    WorkspaceState::Requested,
    WorkspaceState::Ready,
    WorkspaceState::Completed,
    WorkspaceState::Failed,
    WorkspaceState::Cancelled,
    WorkspaceState::Expired,
];

/// An expired workspace.
struct Ended {
    id: WorkspaceId,
    bytes: u64,
    /// What a destroy would lose.
    pending: Vec<ArtifactRecord>,
}

/// A tombstone, and the output that is still kept of its jobs.
struct Tombstone {
    id: WorkspaceId,
    jobs: Vec<JobId>,
}

/// Output, and whether it has to stay.
struct Candidate {
    output: KeptOutput,
    spared: bool,
}

/// What there is to remove.
#[derive(Default)]
struct Survey {
    ended: Vec<Ended>,
    outputs: Vec<KeptOutput>,
    tombstones: Vec<Tombstone>,
    /// What could not be looked at, and what a further call will find.
    attention: Vec<String>,
}

/// What was removed, or would be.
#[derive(Default)]
struct Tally {
    facts: PruneFacts,
    workspaces: Vec<WorkspaceId>,
    outputs: Vec<JobId>,
    tombstones: Vec<WorkspaceId>,
    attention: Vec<String>,
}

impl Engine<'_> {
    /// Removes what nobody needs any more, or says what that is.
    ///
    /// # Errors
    /// [`Failure`] where the store cannot be read; what was removed until then is removed.
    pub fn prune(&self, request: &PruneRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let settled = if request.apply { self.reconcile_all(Held::Looking)? } else { Vec::new() };
        let survey = self.survey(request, begun)?;
        let mut package = self.blank(begun);
        let mut tally = if request.apply {
            self.carry_out(survey, request, &mut package)
        } else {
            self.preview_of(survey, request)
        };
        tally.attention.splice(0..0, settled);
        if request.apply {
            let leftovers = self.remove_leftovers();
            tally.facts.leftovers =
                leftovers.iter().filter(|line| line.starts_with("removed ")).count() as u64;
            tally.attention.extend(leftovers);
        } else {
            let next = format!("{} prune --apply, with the same flags, does it", self.program);
            tally.attention.extend((!tally.is_empty()).then_some(next));
        }
        tell(&mut package, tally);
        Ok(self.report_once(package, request.bound))
    }

    fn survey(&self, request: &PruneRequest, now: Timestamp) -> Result<Survey, Failure> {
        let mut survey = Survey::default();
        self.survey_ended(&mut survey, now)?;
        self.survey_tombstones(&mut survey, request, now)?;
        self.survey_outputs(&mut survey, request, now)?;
        Ok(survey)
    }

    fn survey_ended(&self, survey: &mut Survey, now: Timestamp) -> Result<(), Failure> {
        let filter = WorkspaceFilter {
            states: ENDING.to_vec(),
            overdue_at: Some(now),
            ..WorkspaceFilter::default()
        };
        for record in self.some_of(filter, survey)? {
            let pending = pending(&self.artifacts(&record)?).into_iter().cloned().collect();
            let seen = self.provider.inspect(&record.id, &self.cx());
            let seen = seen.map_err(|error| self.provider_failure(error))?;
            survey.ended.push(Ended { id: record.id, bytes: seen.storage_bytes, pending });
        }
        Ok(())
    }

    fn survey_tombstones(
        &self,
        survey: &mut Survey,
        request: &PruneRequest,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let age = u64::try_from(request.older_than.as_micros()).unwrap_or(u64::MAX);
        let since = Timestamp::from_micros(now.as_micros().saturating_sub(age));
        let filter = WorkspaceFilter {
            states: vec![WorkspaceState::Destroyed],
            unchanged_since: Some(since),
            ..WorkspaceFilter::default()
        };
        for record in self.some_of(filter, survey)? {
            if record.about.retain || !self.intents(&record.id)?.is_empty() {
                continue;
            }
            let jobs = self.open()?.jobs(&record.id).map_err(|error| self.store_failure(&error))?;
            let jobs = jobs.into_iter().map(|job| job.id).collect();
            survey.tombstones.push(Tombstone { id: record.id, jobs });
        }
        Ok(())
    }

    /// Lists workspaces of this provider, up to what one call takes up.
    fn some_of(
        &self,
        filter: WorkspaceFilter,
        survey: &mut Survey,
    ) -> Result<Vec<WorkspaceRecord>, Failure> {
        let filter = WorkspaceFilter { limit: TAKEN_MAX, ..filter };
        let found = self.open()?.workspaces(&filter).map_err(|error| self.store_failure(&error))?;
        let (records, total) = found;
        if total > TAKEN_MAX {
            let left = total - TAKEN_MAX;
            survey.attention.push(format!("{left} more are for the next {} prune", self.program));
        }
        Ok(records.into_iter().filter(|one| one.provider == self.provider.name()).collect())
    }

    /// Finds the output that is too old or too much; that of a tombstone that goes is not among it, since it goes too.
    fn survey_outputs(
        &self,
        survey: &mut Survey,
        request: &PruneRequest,
        now: Timestamp,
    ) -> Result<(), Failure> {
        let outputs = match self.provider.kept_outputs(&self.cx()) {
            Ok(outputs) => outputs,
            Err(error) => {
                let why = crate::failure::told(&error);
                survey.attention.push(format!(
                    "captured output was not looked for, and so no tombstone goes: {why}"
                ));
                // What is kept of their output would be on no record afterwards.
                survey.tombstones.clear();
                return Ok(());
            }
        };
        let going: BTreeSet<&JobId> =
            survey.tombstones.iter().flat_map(|tombstone| &tombstone.jobs).collect();
        let (gone, rest): (Vec<KeptOutput>, Vec<KeptOutput>) =
            outputs.into_iter().partition(|output| going.contains(&output.job));
        let mut retained = BTreeMap::new();
        let mut candidates = Vec::with_capacity(rest.len());
        for output in rest {
            let spared = self.is_spared(&output.job, &mut retained)?;
            candidates.push(Candidate { output, spared });
        }
        survey.outputs = gone;
        survey.outputs.extend(too_much(candidates, request, now));
        Ok(())
    }

    /// Returns whether the output of a job has to stay: of one in flight, of one that is on no record, of one whose
    /// workspace is retained.
    fn is_spared(
        &self,
        job: &JobId,
        retained: &mut BTreeMap<WorkspaceId, bool>,
    ) -> Result<bool, Failure> {
        let store = self.open()?;
        let failed = |error| self.store_failure(&error);
        let Some(job) = store.job(job).map_err(failed)? else { return Ok(true) };
        if job.outcome.is_none() {
            return Ok(true);
        }
        if let Some(retain) = retained.get(&job.workspace) {
            return Ok(*retain);
        }
        let record = store.workspace(&job.workspace).map_err(failed)?;
        let retain = record.is_none_or(|record| record.about.retain);
        retained.insert(job.workspace, retain);
        Ok(retain)
    }

    fn preview_of(&self, survey: Survey, request: &PruneRequest) -> Tally {
        let mut tally = Tally { attention: survey.attention, ..Tally::default() };
        for ended in survey.ended {
            if ended.pending.is_empty() || request.force {
                tally.facts.freed_bytes += ended.bytes;
                tally.workspaces.push(ended.id);
            } else {
                self.keep(&mut tally, &ended);
            }
        }
        for output in survey.outputs {
            tally.facts.freed_bytes += output.bytes;
            tally.outputs.push(output.job);
        }
        tally.tombstones = survey.tombstones.into_iter().map(|tombstone| tombstone.id).collect();
        tally
    }

    /// Says of an expired workspace why it stays, and how its artifacts are had.
    fn keep(&self, tally: &mut Tally, ended: &Ended) {
        tally.facts.kept += 1;
        let (id, count) = (&ended.id, ended.pending.len());
        tally.attention.push(format!(
            "workspace {id} is kept for {count} artifact(s) never exported; --force gives them up"
        ));
        tally.attention.extend(ended.pending.iter().map(|one| self.pending_line_of(id, one)));
    }

    fn carry_out(
        &self,
        survey: Survey,
        request: &PruneRequest,
        package: &mut ResultPackage,
    ) -> Tally {
        let mut tally = Tally { attention: survey.attention, ..Tally::default() };
        tally.facts.applied = true;
        for ended in &survey.ended {
            if !ended.pending.is_empty() && !request.force {
                self.keep(&mut tally, ended);
                continue;
            }
            self.destroy_ended(&mut tally, ended, request.force, package);
        }
        let failed = self.discard(&mut tally, survey.outputs);
        for tombstone in survey.tombstones {
            if !tombstone.jobs.iter().any(|job| failed.contains(job)) {
                self.bury(&mut tally, tombstone);
            }
        }
        tally
    }

    fn destroy_ended(
        &self,
        tally: &mut Tally,
        ended: &Ended,
        force: bool,
        package: &mut ResultPackage,
    ) {
        let request = DestroyRequest { workspace: ended.id.clone(), force, bound: None };
        match self.destroy(&request) {
            Ok(_) => {
                tally.facts.freed_bytes += ended.bytes;
                tally.workspaces.push(ended.id.clone());
                tell_discarded(package, &ended.pending.iter().collect::<Vec<_>>());
            }
            // Another verb was quicker.
            Err(failure) if failure.reason == "workspace_destroyed" => {}
            Err(failure) => {
                tally.facts.kept += 1;
                tally.attention.extend(failure.notes.iter().cloned());
                tally.attention.push(format!("workspace {} is kept: {failure}", ended.id));
            }
        }
    }

    /// Removes output, and returns whose could not be removed.
    fn discard(&self, tally: &mut Tally, outputs: Vec<KeptOutput>) -> BTreeSet<JobId> {
        let mut failed = BTreeSet::new();
        for KeptOutput { job, bytes, .. } in outputs {
            match self.provider.discard_output(&job, &self.settling()) {
                Ok(()) => {
                    tally.facts.freed_bytes += bytes;
                    tally.outputs.push(job);
                }
                Err(error) => {
                    let why = crate::failure::told(&error);
                    tally.attention.push(format!("the output of job {job} is kept: {why}"));
                    failed.insert(job);
                }
            }
        }
        failed
    }

    /// Removes a tombstone, and before it whatever is left of its jobs, which would be on no record afterwards.
    fn bury(&self, tally: &mut Tally, Tombstone { id, jobs }: Tombstone) {
        for job in &jobs {
            if let Err(error) = self.provider.discard_output(job, &self.settling()) {
                let why = crate::failure::told(&error);
                tally.attention.push(format!("the record of workspace {id} is kept: {why}"));
                return;
            }
        }
        let mut batch = Batch::new(&id, WorkspaceState::Destroyed, self.now());
        match self.append(batch.push(Change::WorkspacePruned)) {
            Ok(()) => tally.tombstones.push(id),
            // Another prune was quicker.
            Err(failure) if failure.reason == "conflict" => {}
            Err(failure) => {
                tally.attention.push(format!("the record of workspace {id} is kept: {failure}"));
            }
        }
    }
}

/// Chooses output to remove: what is too old, and of the rest the oldest, until what is left is little enough. What is
/// spared counts, and stays.
fn too_much(
    mut candidates: Vec<Candidate>,
    request: &PruneRequest,
    now: Timestamp,
) -> Vec<KeptOutput> {
    let age = u64::try_from(request.older_than.as_millis()).unwrap_or(u64::MAX);
    let order = |one: &Candidate| (one.output.changed_at, one.output.job.clone());
    candidates.sort_by_key(order);
    let mut left: u64 = candidates.iter().map(|one| one.output.bytes).sum();
    let mut chosen = Vec::new();
    for Candidate { output, spared } in candidates {
        let old = now.millis_since(output.changed_at) >= age;
        if !spared && (old || left > request.keep_bytes) {
            left -= output.bytes;
            chosen.push(output);
        }
    }
    chosen
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.workspaces.is_empty() && self.outputs.is_empty() && self.tombstones.is_empty()
    }
}

/// Writes into a package what was removed, or would be.
fn tell(package: &mut ResultPackage, tally: Tally) {
    let Tally { mut facts, workspaces, outputs, tombstones, attention } = tally;
    facts.workspaces = workspaces.len() as u64;
    facts.outputs = outputs.len() as u64;
    facts.tombstones = tombstones.len() as u64;
    let PruneFacts { freed_bytes, leftovers, .. } = facts;
    let nothing = workspaces.is_empty() && outputs.is_empty() && tombstones.is_empty();
    let what = format!(
        "{} expired workspace(s), the output of {} job(s) and {} tombstone(s)",
        workspaces.len(),
        outputs.len(),
        tombstones.len()
    );
    package.outcome_summary = match (facts.applied, nothing && leftovers == 0) {
        (_, true) => "there was nothing to remove".into(),
        (true, false) => format!("{what} were removed, which freed {freed_bytes} bytes"),
        (false, false) => format!(
            "{what} would be removed, which would free {freed_bytes} bytes; this was a preview, and nothing was removed"
        ),
    };
    package.key_findings = vec![
        named("expired workspaces", workspaces.iter().map(WorkspaceId::as_str)),
        named("captured output of jobs", outputs.iter().map(JobId::as_str)),
        named("tombstones", tombstones.iter().map(WorkspaceId::as_str)),
        format!("bytes freed: {freed_bytes}"),
    ];
    if facts.applied {
        package.key_findings.insert(3, format!("leftovers of killed verbs: {leftovers}"));
    }
    package.resource_usage.storage_bytes = freed_bytes;
    package.facts.prune = Some(facts);
    package.attention.splice(0..0, attention);
}

fn named<'n>(what: &str, names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let count = names.len();
    if count == 0 {
        return format!("{what}: none");
    }
    let listed: Vec<&str> = names.take(NAMES_MAX).collect();
    let more = count - listed.len();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("{what}: {count} ({}{more})", listed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn candidate(job: &str, bytes: u64, age_seconds: u64, spared: bool) -> Candidate {
        let changed_at = Timestamp::from_micros((1_000 - age_seconds) * 1_000_000);
        let job = JobId::parse(job).expect("an id");
        Candidate { output: KeptOutput { job, bytes, changed_at }, spared }
    }

    fn chosen(older_than: u64, keep_bytes: u64) -> String {
        let candidates = vec![
            candidate("d", 10, 1, false),
            candidate("a", 10, 100, false),
            candidate("c", 10, 20, false),
            candidate("b", 10, 50, true),
        ];
        let older_than = Duration::from_secs(older_than);
        let request = PruneRequest { older_than, keep_bytes, ..PruneRequest::default() };
        let now = Timestamp::from_micros(1_000_000_000);
        let chosen = too_much(candidates, &request, now);
        chosen.iter().map(|output| output.job.as_str()).collect()
    }

    #[test]
    fn old_output_goes_and_then_the_oldest_until_it_is_little_enough() {
        assert_eq!(chosen(1_000, 40), "", "neither too old nor too much");
        assert_eq!(chosen(100, 40), "a", "an age is reached, not passed");
        assert_eq!(chosen(50, 40), "a", "what is spared stays however old it is");
        assert_eq!(chosen(1_000, 39), "a");
        assert_eq!(chosen(1_000, 30), "a");
        assert_eq!(chosen(1_000, 29), "ac", "and counts");
        assert_eq!(chosen(1_000, 0), "acd");
        assert_eq!(chosen(0, u64::MAX), "acd");
    }

    #[test]
    fn a_finding_names_a_few() {
        assert_eq!(
            named("x", std::iter::empty::<&str>().collect::<Vec<_>>().into_iter()),
            "x: none"
        );
        assert_eq!(named("x", ["a", "b"].into_iter()), "x: 2 (a, b)");
        let many = ["a"; 12];
        assert!(named("x", many.into_iter()).ends_with("a, a, and 2 more)"));
    }
}
