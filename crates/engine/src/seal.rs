//! `seal`: ends what can happen in a workspace, and keeps it readable.
//!
//! It makes one move and has no effect outside the store, so it opens no intent. The files stay until `destroy`, or
//! until `prune` where the workspace has a time to live.
use crate::engine::Engine;
use crate::journal::Batch;
use crate::pack::{check_bound, exported};
use crate::reconcile::Held;
use crate::requests::{Report, SealRequest};
use bailiwick_contract::error::Failure;
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;

impl Engine<'_> {
    /// Seals a workspace; one that is sealed already stays as it is.
    ///
    /// # Errors
    /// [`Failure`]; the workspace is not sealed.
    pub fn seal(&self, request: &SealRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let id = &request.workspace;
        let record = self.living(id).map_err(|f| self.or_job(f, id, "seal", ""))?;
        if record.state == WorkspaceState::Completed {
            let package = self.sealed(&record, begun, "was sealed already")?;
            return Ok(self.report(package, request.bound, None));
        }
        let _hold = self.take_all(&record).or_else(|busy| self.running_instead(&record, busy))?;
        let notes = self.reconcile(&record, Held::All)?;
        let package = self.seal_held(request, begun).map_err(|failure| failure.noting(&notes))?;
        Ok(self.report(with_notes(package, notes), request.bound, None))
    }

    /// Does so under the hold.
    fn seal_held(&self, request: &SealRequest, begun: Timestamp) -> Result<ResultPackage, Failure> {
        let mut record = self.living(&request.workspace)?;
        if record.state == WorkspaceState::Completed {
            return self.sealed(&record, begun, "was sealed already");
        }
        record = self.check_ready(record)?;
        let mut batch = Batch::new(&record.id, record.state, self.now());
        self.append(batch.step(WorkspaceState::Completed))?;
        record.state = batch.state();
        self.sealed(&record, begun, "is sealed")
    }

    /// Names the job that keeps a workspace from being sealed.
    fn running_instead<T>(&self, record: &WorkspaceRecord, busy: Failure) -> Result<T, Failure> {
        let Some(job) = self.running_job(record, &busy)? else { return Err(busy) };
        let (id, program) = (&record.id, self.program);
        Err(Failure::user(
            "workspace_running",
            format!("workspace {id} is running job {job}, and was not sealed"),
            format!("wait for the job, or end it with {program} stop --apply {id}"),
        ))
    }

    fn sealed(
        &self,
        record: &WorkspaceRecord,
        begun: Timestamp,
        how: &str,
    ) -> Result<ResultPackage, Failure> {
        let artifacts = self.artifacts(record)?;
        let mut package = self.draft(record, begun);
        package.outcome_summary =
            format!("workspace {} {how}: it can be read, and runs nothing any more", record.id);
        package.key_findings = vec![
            format!("lifecycle state: {}", record.state),
            "still possible: inspect, logs, files, export, destroy".into(),
        ];
        package.key_findings.extend(crate::about::findings(record));
        package.artifacts = exported(&artifacts);
        package.attention = self.pending_lines(record, &artifacts);
        Ok(package)
    }
}

fn with_notes(mut package: ResultPackage, notes: Vec<String>) -> ResultPackage {
    package.attention.splice(0..0, notes);
    package
}
