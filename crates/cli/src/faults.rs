//! The fault points of the command: every `append` of the store, and every effect of the provider.
//!
//! Compiled with the feature `faults` only, which no release has; `cargo xtask crash` builds it. The decorators change nothing
//! of what they wrap: they pass a point of [`bailiwick_isolation::faults`] before and after it. What only reads is no effect,
//! except for the reading of a file, which lies between the two halves of an export.
use bailiwick_contract::artifact::ArtifactRecord;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::enforcement::Capabilities;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::{InputRecord, WsPath};
use bailiwick_contract::job::{JobOutcome, JobSpec};
use bailiwick_contract::journal::{Change, Entry};
use bailiwick_contract::provider::{
    ByteSink, EntrySource, Followed, Gate, Hold, Inspection, Kept, KeptOutput, ListSpec, Listing,
    Orphan, OutputBytes, OutputPart, Ports, Profile, Provider, ProviderError, ProviderName,
    Recovered, Removed, Slots, StopReply, Streams, WorkspaceSpec,
};
use bailiwick_contract::record::{JobRecord, OpenIntent, WorkspaceRecord};
use bailiwick_contract::store::{Receipts, Store, StoreError, WorkspaceFilter};
use bailiwick_isolation::faults::{after, before, declare};
use std::error::Error;
use std::ffi::OsString;
use std::time::Duration;

/// The changes that an append can hold; [`kind`] finds a change's place in it.
const CHANGES: [&str; 11] = [
    "intent_opened",
    "intent_closed",
    "workspace_added",
    "workspace_moved",
    "artifact_declared",
    "artifact_exported",
    "artifact_discarded",
    "inputs_added",
    "job_added",
    "job_ended",
    "workspace_pruned",
];

/// Exhaustive, so that a new change is declared, and has to be passed by the matrix.
fn kind(change: &Change) -> &'static str {
    CHANGES[match change {
        Change::IntentOpened { .. } => 0,
        Change::IntentClosed { .. } => 1,
        Change::WorkspaceAdded { .. } => 2,
        Change::WorkspaceMoved { .. } => 3,
        Change::ArtifactDeclared { .. } => 4,
        Change::ArtifactExported { .. } => 5,
        Change::ArtifactDiscarded { .. } => 6,
        Change::InputsAdded { .. } => 7,
        Change::JobAdded { .. } => 8,
        Change::JobEnded { .. } => 9,
        Change::WorkspacePruned => 10,
    }]
}

/// What a provider does to the host.
#[derive(Debug, Clone, Copy)]
enum Effect {
    Probe,
    ExpectJob,
    Create,
    Run,
    RunGate,
    Launch,
    LaunchGate,
    Settled,
    Stop,
    DiscardOutput,
    Read,
    Write,
    WriteGate,
    FinishStage,
    Remove,
    Sweep,
    RemoveOrphans,
}

impl Effect {
    const ALL: [Self; 17] = [
        Self::Probe,
        Self::ExpectJob,
        Self::Create,
        Self::Run,
        Self::RunGate,
        Self::Launch,
        Self::LaunchGate,
        Self::Settled,
        Self::Stop,
        Self::DiscardOutput,
        Self::Read,
        Self::Write,
        Self::WriteGate,
        Self::FinishStage,
        Self::Remove,
        Self::Sweep,
        Self::RemoveOrphans,
    ];

    const fn point(self) -> &'static str {
        match self {
            Self::Probe => "effect:probe",
            Self::ExpectJob => "effect:expect_job",
            Self::Create => "effect:create",
            Self::Run => "effect:run",
            Self::RunGate => "effect:run.gate",
            Self::Launch => "effect:launch",
            Self::LaunchGate => "effect:launch.gate",
            Self::Settled => "effect:settled",
            Self::Stop => "effect:stop",
            Self::DiscardOutput => "effect:discard_output",
            Self::Read => "effect:read",
            Self::Write => "effect:write",
            Self::WriteGate => "effect:write.gate",
            Self::FinishStage => "effect:finish_stage",
            Self::Remove => "effect:remove",
            Self::Sweep => "effect:sweep",
            Self::RemoveOrphans => "effect:remove_orphans",
        }
    }

    /// Does it between the two sides of its point.
    fn around<T>(self, act: impl FnOnce() -> T) -> T {
        before(self.point());
        let done = act();
        after(self.point());
        done
    }
}

/// Takes the plan, if there is one, and declares what this program can pass.
pub(crate) fn arm(plan: Option<OsString>) {
    bailiwick_isolation::faults::arm(plan);
    for effect in Effect::ALL {
        declare(effect.point());
    }
    for change in CHANGES {
        declare(&format!("append:{change}"));
    }
}

/// Names an append by what it writes; what is repeated counts once.
fn append_point(batch: &[Entry]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for entry in batch {
        let part = match &entry.change {
            Change::IntentOpened { verb, .. } => {
                format!("{}({})", kind(&entry.change), verb.name())
            }
            Change::WorkspaceMoved { to, .. } => format!("{}({})", kind(&entry.change), to.name()),
            other => kind(other).to_owned(),
        };
        if parts.last() != Some(&part) {
            parts.push(part);
        }
    }
    format!("append:{}", parts.join("+"))
}

/// A store whose appends are points.
pub(crate) struct FaultyStore(pub(crate) Box<dyn Store>);

impl Store for FaultyStore {
    fn append(&self, batch: &[Entry]) -> Result<Receipts, StoreError> {
        let point = append_point(batch);
        before(&point);
        let receipts = self.0.append(batch);
        after(&point);
        receipts
    }

    fn workspace(&self, id: &WorkspaceId) -> Result<Option<WorkspaceRecord>, StoreError> {
        self.0.workspace(id)
    }

    fn workspaces(
        &self,
        filter: &WorkspaceFilter,
    ) -> Result<(Vec<WorkspaceRecord>, u64), StoreError> {
        self.0.workspaces(filter)
    }

    fn job(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError> {
        self.0.job(id)
    }

    fn pruned_job(&self, id: &JobId) -> Result<Option<WorkspaceId>, StoreError> {
        self.0.pruned_job(id)
    }

    fn check(&self) -> Result<(), StoreError> {
        self.0.check()
    }

    fn jobs(&self, workspace: &WorkspaceId) -> Result<Vec<JobRecord>, StoreError> {
        self.0.jobs(workspace)
    }

    fn artifacts(&self, workspace: &WorkspaceId) -> Result<Vec<ArtifactRecord>, StoreError> {
        self.0.artifacts(workspace)
    }

    fn inputs(&self, workspace: &WorkspaceId) -> Result<Vec<InputRecord>, StoreError> {
        self.0.inputs(workspace)
    }

    fn open_intents(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<OpenIntent>, StoreError> {
        self.0.open_intents(workspace)
    }
}

/// A gate that is a point.
struct FaultyGate<'a>(&'a mut dyn Gate, Effect);

impl Gate for FaultyGate<'_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let Self(gate, effect) = self;
        effect.around(|| gate.open())
    }
}

/// A provider whose effects are points.
pub(crate) struct FaultyProvider(pub(crate) Box<dyn Provider>);

impl Provider for FaultyProvider {
    fn name(&self) -> ProviderName {
        self.0.name()
    }

    fn capabilities(&self, cx: &OpCx<'_>) -> Result<Capabilities, ProviderError> {
        Effect::Probe.around(|| self.0.capabilities(cx))
    }

    fn profile(&self, name: Option<&str>, cx: &OpCx<'_>) -> Result<Profile, ProviderError> {
        self.0.profile(name, cx)
    }

    fn create(&self, spec: &WorkspaceSpec, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        Effect::Create.around(|| self.0.create(spec, cx))
    }

    fn inspect(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<Inspection, ProviderError> {
        self.0.inspect(id, cx)
    }

    fn is_present(&self, id: &WorkspaceId) -> Result<bool, ProviderError> {
        self.0.is_present(id)
    }

    fn hold(&self, id: &WorkspaceId, slots: Slots) -> Result<Option<Box<dyn Hold>>, ProviderError> {
        self.0.hold(id, slots)
    }

    fn expect_job(&self) {
        Effect::ExpectJob.around(|| self.0.expect_job());
    }

    fn plan(&self, spec: &WorkspaceSpec, cx: &OpCx<'_>) -> Result<Vec<String>, ProviderError> {
        self.0.plan(spec, cx)
    }

    fn run(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<JobOutcome, ProviderError> {
        let mut gate = FaultyGate(ports.gate, Effect::RunGate);
        // Borrowed for as short as the gate.
        let live = ports.live.map(|live| -> &mut dyn ByteSink { live });
        let ports = Ports { hold: ports.hold, gate: &mut gate, live };
        Effect::Run.around(|| self.0.run(id, job, ports, cx))
    }

    fn launch(
        &self,
        id: &WorkspaceId,
        job: &JobSpec,
        ports: Ports<'_>,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let mut gate = FaultyGate(ports.gate, Effect::LaunchGate);
        // Borrowed for as short as the gate.
        let live = ports.live.map(|live| -> &mut dyn ByteSink { live });
        let ports = Ports { hold: ports.hold, gate: &mut gate, live };
        Effect::Launch.around(|| self.0.launch(id, job, ports, cx))
    }

    fn settled(&self, job: &JobId, outcome: &JobOutcome) {
        Effect::Settled.around(|| self.0.settled(job, outcome));
    }

    fn recover(
        &self,
        id: &WorkspaceId,
        job: &JobId,
        cx: &OpCx<'_>,
    ) -> Result<Recovered, ProviderError> {
        self.0.recover(id, job, cx)
    }

    fn stop(
        &self,
        job: &JobId,
        grace: Duration,
        cx: &OpCx<'_>,
    ) -> Result<StopReply, ProviderError> {
        Effect::Stop.around(|| self.0.stop(job, grace, cx))
    }

    fn output(
        &self,
        job: &JobId,
        part: OutputPart,
        cx: &OpCx<'_>,
    ) -> Result<OutputBytes, ProviderError> {
        self.0.output(job, part, cx)
    }

    fn stream_output(
        &self,
        job: &JobId,
        streams: Streams,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        self.0.stream_output(job, streams, sink, cx)
    }

    fn follow_output(
        &self,
        job: &JobId,
        from: u64,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<Followed, ProviderError> {
        self.0.follow_output(job, from, sink, cx)
    }

    fn kept_outputs(&self, cx: &OpCx<'_>) -> Result<Vec<KeptOutput>, ProviderError> {
        self.0.kept_outputs(cx)
    }

    fn discard_output(&self, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        Effect::DiscardOutput.around(|| self.0.discard_output(job, cx))
    }

    fn list(
        &self,
        id: &WorkspaceId,
        spec: &ListSpec,
        cx: &OpCx<'_>,
    ) -> Result<Listing, ProviderError> {
        self.0.list(id, spec, cx)
    }

    fn read(
        &self,
        id: &WorkspaceId,
        path: &WsPath,
        sink: &mut dyn ByteSink,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        Effect::Read.around(|| self.0.read(id, path, sink, cx))
    }

    fn write(
        &self,
        id: &WorkspaceId,
        entries: &mut dyn Iterator<Item = Box<dyn EntrySource>>,
        overwrite: bool,
        gate: &mut dyn Gate,
        cx: &OpCx<'_>,
    ) -> Result<(), ProviderError> {
        let mut gate = FaultyGate(gate, Effect::WriteGate);
        Effect::Write.around(|| self.0.write(id, entries, overwrite, &mut gate, cx))
    }

    fn clear_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        self.0.clear_stage(id)
    }

    fn finish_stage(&self, id: &WorkspaceId) -> Result<(), ProviderError> {
        Effect::FinishStage.around(|| self.0.finish_stage(id))
    }

    fn remove(&self, id: &WorkspaceId, cx: &OpCx<'_>) -> Result<Removed, ProviderError> {
        Effect::Remove.around(|| self.0.remove(id, cx))
    }

    fn sweep(&self, job: &JobId, cx: &OpCx<'_>) -> Result<(), ProviderError> {
        Effect::Sweep.around(|| self.0.sweep(job, cx))
    }

    fn remove_orphans(
        &self,
        is_known: &dyn Fn(&Kept) -> bool,
        age: Duration,
        cx: &OpCx<'_>,
    ) -> Result<Vec<Orphan>, ProviderError> {
        Effect::RemoveOrphans.around(|| self.0.remove_orphans(is_known, age, cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::id::IntentId;
    use bailiwick_contract::journal::{IntentDetail, IntentKind, Phase};
    use bailiwick_contract::state::WorkspaceState;
    use bailiwick_contract::time::Timestamp;

    #[test]
    fn an_append_is_named_by_what_it_writes() {
        let intent = IntentId::parse("int-000000000001").expect("an id");
        let (verb, detail) = (IntentKind::Run, IntentDetail::None);
        let closed =
            Change::IntentClosed { intent: intent.clone(), phase: Phase::Settled, detail: None };
        let changes = [
            Change::IntentOpened { intent, verb, job: None, detail },
            Change::WorkspaceMoved { from: WorkspaceState::Ready, to: WorkspaceState::Running },
            closed.clone(),
            closed,
        ];
        let workspace = WorkspaceId::parse("ws").expect("an id");
        let entry =
            |change| Entry { workspace: workspace.clone(), at: Timestamp::default(), change };
        let batch: Vec<Entry> = changes.into_iter().map(entry).collect();
        assert_eq!(
            append_point(&batch),
            "append:intent_opened(run)+workspace_moved(running)+intent_closed"
        );
    }
}
