//! Batches of journal entries: what a verb appends before and after its effect.
//!
//! A batch knows the state that its workspace will have once it is appended, so that only legal moves are written. It
//! writes nothing itself.
use bailiwick_contract::id::{IntentId, JobId, WorkspaceId};
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind, Phase};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;

/// Entries of one workspace's journal, appended together.
#[derive(Debug)]
pub(crate) struct Batch {
    workspace: WorkspaceId,
    at: Timestamp,
    state: WorkspaceState,
    entries: Vec<Entry>,
}

impl Batch {
    /// Begins a batch for a workspace that is in `state`.
    pub(crate) fn new(workspace: &WorkspaceId, state: WorkspaceState, at: Timestamp) -> Self {
        Self { workspace: workspace.clone(), at, state, entries: Vec::new() }
    }

    pub(crate) fn push(&mut self, change: Change) -> &mut Self {
        self.entries.push(Entry { workspace: self.workspace.clone(), at: self.at, change });
        self
    }

    pub(crate) fn open(
        &mut self,
        intent: &IntentId,
        verb: IntentKind,
        job: Option<&JobId>,
        detail: IntentDetail,
    ) -> &mut Self {
        self.push(Change::IntentOpened { intent: intent.clone(), verb, job: job.cloned(), detail })
    }

    pub(crate) fn close(
        &mut self,
        intent: &IntentId,
        phase: Phase,
        detail: Option<String>,
    ) -> &mut Self {
        self.push(Change::IntentClosed { intent: intent.clone(), phase, detail })
    }

    /// Moves the workspace, unless it is there already or the step is not a legal one.
    pub(crate) fn step(&mut self, to: WorkspaceState) -> &mut Self {
        let from = self.state;
        if from.next().contains(&to) {
            self.state = to;
            self.push(Change::WorkspaceMoved { from, to });
        }
        self
    }

    /// Moves the workspace to `destroyed`, over the state that its life ends in; a running one stays.
    pub(crate) fn step_to_destroyed(&mut self) -> &mut Self {
        for state in self.state.removal_path().unwrap_or_default() {
            self.step(*state);
        }
        self
    }

    /// Returns the state that the workspace has once the batch is appended.
    pub(crate) const fn state(&self) -> WorkspaceState {
        self.state
    }

    /// Returns when it is written.
    pub(crate) const fn at(&self) -> Timestamp {
        self.at
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_legal_steps_are_written() {
        let id = WorkspaceId::parse("demo").expect("an id");
        let mut batch = Batch::new(&id, WorkspaceState::Ready, Timestamp::default());
        batch.step(WorkspaceState::Ready).step(WorkspaceState::Provisioning);
        assert!(batch.is_empty());
        batch.step_to_destroyed();
        assert_eq!((batch.state(), batch.entries().len()), (WorkspaceState::Destroyed, 2));
    }
}
