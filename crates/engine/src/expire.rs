//! The end of a workspace's time: who moves it to `expired`, and what is refused from then on.
//!
//! There is no daemon: a workspace expires when a verb meets it, waiting for something to do, after its time. The move
//! is part of what `reconcile` settles, so that it happens under a hold and never to somebody's work. Files, output and
//! records stay until `destroy` or `prune`.
use crate::engine::Engine;
use crate::reconcile::Held;
use bailiwick_contract::error::Failure;
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::store::WorkspaceFilter;

impl Engine<'_> {
    /// Returns the refusal of a verb that would use a workspace whose life is over while its files are still there.
    pub(crate) fn over(&self, record: &WorkspaceRecord) -> Option<Failure> {
        let (id, program) = (&record.id, self.program);
        let (reason, what) = match record.state {
            WorkspaceState::Expired => {
                let at = record.about.expires_at.unwrap_or(record.updated_at);
                ("workspace_expired", format!("has expired: its time was over at {at}"))
            }
            WorkspaceState::Completed => {
                ("workspace_sealed", format!("was sealed at {}", record.updated_at))
            }
            _ => return None,
        };
        Some(Failure::user(
            reason,
            format!("workspace {id} {what}; it takes no job and no file any more"),
            format!(
                "{program} inspect, logs, files and export still work on {id}, {program} destroy {id} ends it; \
                 {program} create makes a new one"
            ),
        ))
    }

    /// Refuses a further job where one is in flight and the workspace's time is over: it expires when that one ends.
    pub(crate) fn in_time(&self, record: WorkspaceRecord) -> Result<WorkspaceRecord, Failure> {
        if !record.is_overdue(self.now()) {
            return Ok(record);
        }
        let expired = WorkspaceRecord { state: WorkspaceState::Expired, ..record };
        Err(self.over(&expired).expect("an expired workspace is over"))
    }

    /// Expires up to `limit` workspaces of this provider whose time is over, and returns a line for each.
    pub(crate) fn expire_due(&self, limit: u64) -> Result<Vec<String>, Failure> {
        let filter = WorkspaceFilter {
            states: vec![WorkspaceState::Requested, WorkspaceState::Ready],
            overdue_at: Some(self.now()),
            limit,
            ..WorkspaceFilter::default()
        };
        let due = self.open()?.workspaces(&filter).map_err(|error| self.store_failure(&error))?;
        let mut notes = Vec::new();
        for record in due.0.iter().filter(|record| record.provider == self.provider.name()) {
            match self.reconcile(record, Held::Nothing) {
                Ok(settled) => notes.extend(settled),
                Err(failure) => {
                    notes.push(format!("workspace {} is not settled: {failure}", record.id));
                }
            }
        }
        Ok(notes)
    }
}
