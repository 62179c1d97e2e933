//! `destroy`: ends a workspace and leaves its tombstone.
//!
//! The record is read again under the hold, so that nothing can begin between the look and the removal. Captured output
//! and records stay.
use crate::engine::Engine;
use crate::journal::Batch;
use crate::pack::{check_bound, exported, pending};
use crate::reconcile::Held;
use crate::requests::{DestroyRequest, GRACE_DEFAULT, Report};
use crate::stop::Stopped;
use crate::text::{command, printable};
use bailiwick_contract::artifact::ArtifactRecord;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::JobId;
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::{Hold, Removed, Slots};
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;

/// How often `--force` ends jobs again because further ones have begun meanwhile.
const STOPS_MAX: u32 = 16;

impl Engine<'_> {
    /// Removes a workspace.
    ///
    /// # Errors
    /// [`Failure`]: before the intent nothing was touched; after it the workspace is `failed`, and destroying it again
    /// goes on.
    pub fn destroy(&self, request: &DestroyRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let id = &request.workspace;
        let record = match self.living(id) {
            Err(failure) if request.force && failure.reason == "unknown_workspace" => {
                return self.destroy_left(request, failure, begun);
            }
            found => found.map_err(|failure| self.or_job(failure, id, "destroy", ""))?,
        };
        let (hold, Stopped { jobs: stopped, mut notes }) = self.empty(&record, request.force)?;
        let held = if hold.is_some() { Held::All } else { Held::Nothing };
        notes.extend(self.reconcile(&record, held)?);
        let destroyed = self.destroy_held(request, begun, &stopped);
        let mut package = destroyed.map_err(|failure| failure.noting(&notes))?;
        package.attention.splice(0..0, notes);
        Ok(self.report(package, request.bound, None))
    }

    /// Removes a disk that is on no record: a verb was killed after it had copied files in and before its first entry. Who
    /// is still at that holds it.
    fn destroy_left(
        &self,
        request: &DestroyRequest,
        unknown: Failure,
        begun: Timestamp,
    ) -> Result<Report, Failure> {
        let id = &request.workspace;
        let failed = |error| self.provider_failure(error);
        if !self.provider.is_present(id).map_err(failed)? {
            return Err(self.or_job(unknown, id, "destroy", ""));
        }
        let Some(_hold) = self.provider.hold(id, Slots::All(1)).map_err(failed)? else {
            return Err(unknown);
        };
        // Whoever held it may have recorded it meanwhile; then it is destroyed as any other.
        if self.open()?.workspace(id).map_err(|error| self.store_failure(&error))?.is_some() {
            return Err(unknown.retryable());
        }
        self.provider.remove(id, &self.settling()).map_err(failed)?;
        let mut package = self.blank(begun);
        package.outcome_summary =
            format!("what a killed verb had left of workspace {id} was removed");
        package.key_findings = vec!["it was on no record, and no job had run in it".into()];
        package.provenance.workspace_id = id.as_str().into();
        Ok(self.report_once(package, request.bound))
    }

    /// Does so once nothing runs there any more.
    fn destroy_held(
        &self,
        request: &DestroyRequest,
        begun: Timestamp,
        stopped: &[JobId],
    ) -> Result<ResultPackage, Failure> {
        let mut record = self.living(&request.workspace)?;
        if record.state == WorkspaceState::Running {
            // Its disk is gone, and its job goes on without it.
            let busy = self.busy(&record)?;
            return self.running_or(&record, busy);
        }
        let artifacts = self.artifacts(&record)?;
        if !request.force {
            self.check_exported(&record, &artifacts)?;
        }
        let (removed, path) = self.remove(&mut record, &artifacts, request.force)?;
        let mut package = destroyed(self.draft(&record, begun), &record, removed, &path);
        package
            .key_findings
            .extend(stopped.iter().map(|job| format!("job {job} was stopped first")));
        package.artifacts = exported(&artifacts);
        if request.force {
            tell_discarded(&mut package, &pending(&artifacts));
        }
        Ok(package)
    }

    /// Takes the whole workspace; with `force` it ends what runs there first, also what began while it was at that.
    fn empty(
        &self,
        record: &WorkspaceRecord,
        force: bool,
    ) -> Result<(Option<Box<dyn Hold>>, Stopped), Failure> {
        let mut stopped = Stopped::default();
        let mut rounds = if force { STOPS_MAX } else { 0 };
        loop {
            if force {
                stopped.extend(self.stop_all(record, GRACE_DEFAULT)?);
            }
            match self.take_all_there_is(record) {
                Ok(hold) => return Ok((hold, stopped)),
                Err(busy)
                    if busy.retryable && rounds > 0 && !self.in_flight(record)?.is_empty() =>
                {
                    rounds -= 1;
                }
                Err(busy) => return self.running_or(record, busy),
            }
        }
    }

    /// Says of a workspace that is held whether a job holds it, since `stop` helps then.
    fn running_or<T>(&self, record: &WorkspaceRecord, busy: Failure) -> Result<T, Failure> {
        let Some(job) = self.running_job(record, &busy)? else { return Err(busy) };
        let (id, program) = (&record.id, self.program);
        Err(Failure::user(
            "workspace_running",
            format!("workspace {id} is running job {job}, and nothing was removed"),
            format!("end it with {program} stop --apply {id}, or pass --force to stop and discard"),
        ))
    }

    /// Returns the job that keeps a workspace busy, where one does.
    pub(crate) fn running_job(
        &self,
        record: &WorkspaceRecord,
        busy: &Failure,
    ) -> Result<Option<JobId>, Failure> {
        let intents = if busy.retryable { self.intents(&record.id)? } else { Vec::new() };
        Ok(intents.into_iter().find_map(|intent| intent.job))
    }

    fn check_exported(
        &self,
        record: &WorkspaceRecord,
        artifacts: &[ArtifactRecord],
    ) -> Result<(), Failure> {
        let lost = pending(artifacts);
        if lost.is_empty() {
            return Ok(());
        }
        let (id, program) = (&record.id, self.program);
        let names = command(lost.iter().map(|artifact| artifact.declaration.name.as_bytes()));
        Err(Failure::user(
            "artifacts_not_exported",
            format!(
                "workspace {id} has {} declared artifact(s) that were never exported ({names}); nothing was removed",
                lost.len()
            ),
            format!(
                "{program} export {id} NAME --to PATH for each, or {program} destroy --force {id} to give them up"
            ),
        ))
    }

    /// Removes the disk: intent, act, settle. Returns what was there, and the states that the workspace went through.
    fn remove(
        &self,
        record: &mut WorkspaceRecord,
        artifacts: &[ArtifactRecord],
        force: bool,
    ) -> Result<(Removed, Vec<&'static str>), Failure> {
        let (intent, detail) =
            (self.mint_intent(), IntentDetail::Remove { force, after_job: false });
        let mut open = Batch::new(&record.id, record.state, self.now());
        self.append(open.open(&intent, IntentKind::Remove, None, detail))?;
        let removed = self.provider.remove(&record.id, &self.settling());
        let mut settle = Batch::new(&record.id, record.state, self.now());
        let removed = match removed {
            Ok(removed) => removed,
            Err(error) => {
                // Part of the disk may be gone, so the workspace cannot go on as it was.
                let failure = self.provider_failure(error);
                settle.step(WorkspaceState::Failed);
                settle.close(&intent, Phase::Abandoned, Some(failure.message.clone()));
                self.append(&settle).ok();
                return Err(failure);
            }
        };
        for artifact in pending(artifacts) {
            settle.push(Change::ArtifactDiscarded { name: artifact.declaration.name.clone() });
        }
        let path: Vec<&str> = record
            .state
            .removal_path()
            .unwrap_or_default()
            .iter()
            .map(|state| state.name())
            .collect();
        self.append(settle.step_to_destroyed().close(&intent, Phase::Settled, None))?;
        record.state = settle.state();
        Ok((removed, path))
    }
}

fn destroyed(
    mut package: ResultPackage,
    record: &WorkspaceRecord,
    removed: Removed,
    path: &[&str],
) -> ResultPackage {
    let parts = match removed {
        Removed::Gone => "removed: runtime, storage",
        Removed::WasAbsent => "removed: runtime (the storage was gone before)",
    };
    package.outcome_summary =
        format!("workspace {} was destroyed on {}", record.id, record.provider.name());
    package.key_findings = vec![
        parts.into(),
        "retained: captured output and records".into(),
        "unverified: (none)".into(),
        format!("lifecycle path: {}", path.join(" -> ")),
    ];
    // Nothing is limited any more, so nothing is measured either.
    package.warnings.clear();
    package
}

/// Says what `--force` gave up.
pub(crate) fn tell_discarded(package: &mut ResultPackage, lost: &[&ArtifactRecord]) {
    if lost.is_empty() {
        return;
    }
    package.warnings.push(format!(
        "force gave up {} declared artifact(s) that were never exported; they cannot be had back",
        lost.len()
    ));
    package.attention.extend(lost.iter().map(|artifact| {
        format!("artifact '{}' was discarded", printable(artifact.declaration.name.as_bytes()))
    }));
}
