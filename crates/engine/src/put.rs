//! `put`: host files into a workspace, in one batch that lands whole or not at all.
//!
//! `run --input` uses the same copy-in, with no way to overwrite: replacing a file is a deliberate act. What is recorded
//! is destination, size and digest, never the bytes.
use crate::engine::Engine;
use crate::inputs::{Plan, Room};
use crate::journal::Batch;
use crate::pack::{check_bound, input_findings, input_line};
use crate::reconcile::Held;
use crate::requests::{InputRequest, PutRequest, Report};
use crate::text::printable;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::{EntrySource, Gate, ProviderError};
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use core::error::Error;
use std::os::unix::ffi::OsStrExt as _;

impl Engine<'_> {
    /// Copies a host file or directory into a workspace.
    ///
    /// # Errors
    /// [`Failure`]; nothing landed.
    pub fn put(&self, request: &PutRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let (id, rest) = (&request.workspace, " HOST_PATH DESTINATION");
        let record = self.living(id).map_err(|f| self.or_job(f, id, "put", rest))?;
        let _hold = self.take_all(&record)?;
        let notes = self.reconcile(&record, Held::All)?;
        let told = |failure: Failure| failure.noting(&notes);
        let record = self.ready(&request.workspace).map_err(told)?;
        let (mut plan, room) = (Plan::default(), self.room(&record).map_err(told)?);
        let (source, destination) = (&request.source, request.destination.as_bytes());
        plan.add(source, destination, room, self.cancel).map_err(told)?;
        let landed = self.copy_in(&record, &plan, None, request.overwrite).map_err(told)?;
        let mut package = copied(self.draft(&record, begun), request, &landed);
        package.resource_usage.storage_bytes = plan.bytes();
        package.attention = notes;
        Ok(self.report(package, request.bound, None))
    }

    /// Finds a workspace that is quiet and can take files.
    pub(crate) fn ready(&self, id: &WorkspaceId) -> Result<WorkspaceRecord, Failure> {
        self.check_ready(self.living(id)?)
    }

    /// Refuses a workspace that is not ready.
    pub(crate) fn check_ready(&self, record: WorkspaceRecord) -> Result<WorkspaceRecord, Failure> {
        match record.state {
            WorkspaceState::Ready => Ok(record),
            WorkspaceState::Running => Err(self.busy(&record)?),
            _ => Err(self.not_ready(&record)),
        }
    }

    /// Returns the refusal of a verb that needs a ready workspace.
    pub(crate) fn not_ready(&self, record: &WorkspaceRecord) -> Failure {
        if let Some(over) = self.over(record) {
            return over;
        }
        let (id, state) = (&record.id, record.state);
        Failure::user(
            "workspace_not_ready",
            format!("workspace {id} is {state}, and only a ready one can be used"),
            format!("{} destroy {id} ends it; {0} create makes a new one", self.program),
        )
    }

    /// Returns how much the storage budget has left.
    pub(crate) fn room(&self, record: &WorkspaceRecord) -> Result<Room, Failure> {
        let used = self.provider.inspect(&record.id, &self.cx());
        let used = used.map_err(|error| self.provider_failure(error))?;
        if !used.present {
            let id = record.id.clone();
            return Err(self.provider_failure(ProviderError::NoWorkspace { id }));
        }
        let budget = &record.policy.policy.budget;
        Ok(Room {
            bytes: budget.storage_bytes.saturating_sub(used.storage_bytes),
            entries: budget.inodes().saturating_sub(used.inodes),
        })
    }

    /// Walks and measures what `inputs` name; touches the host only.
    pub(crate) fn plan_inputs(&self, inputs: &[InputRequest], room: Room) -> Result<Plan, Failure> {
        let mut plan = Plan::default();
        for input in inputs {
            plan.add(&input.source, input.destination.as_bytes(), room, self.cancel)?;
        }
        plan.check_distinct().map(|()| plan)
    }

    /// Copies a plan in: intent, act, settle.
    pub(crate) fn copy_in(
        &self,
        record: &WorkspaceRecord,
        plan: &Plan,
        job: Option<&JobId>,
        overwrite: bool,
    ) -> Result<Vec<InputRecord>, Failure> {
        let (intent, inputs) = (self.mint_intent(), plan.records(self.now(), job));
        let detail = IntentDetail::Inputs(inputs.clone());
        self.append(Batch::new(&record.id, record.state, self.now()).open(
            &intent,
            IntentKind::Put,
            None,
            detail,
        ))?;
        let written = self.write(record, plan, overwrite);
        let mut settle = Batch::new(&record.id, record.state, self.now());
        match written {
            Ok(()) => settle.push(Change::InputsAdded { inputs: inputs.clone() }).close(
                &intent,
                Phase::Settled,
                None,
            ),
            Err(ref failure) => {
                settle.close(&intent, Phase::Abandoned, Some(failure.message.clone()))
            }
        };
        let settled = self.append(&settle);
        written.and(settled).map(|()| inputs)
    }

    /// Hands a plan to the provider; journals nothing.
    pub(crate) fn write(
        &self,
        record: &WorkspaceRecord,
        plan: &Plan,
        overwrite: bool,
    ) -> Result<(), Failure> {
        let mut sources = plan.sources();
        let sources: &mut dyn Iterator<Item = Box<dyn EntrySource>> = &mut sources;
        let written = self.provider.write(
            &record.id,
            sources,
            overwrite,
            &mut OpenGate,
            &self.cx_within(plan.bytes()),
        );
        written.map_err(|error| self.provider_failure(error))
    }
}

/// The gate of a batch whose intent is durable already.
struct OpenGate;

impl Gate for OpenGate {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

fn copied(
    mut package: ResultPackage,
    request: &PutRequest,
    landed: &[InputRecord],
) -> ResultPackage {
    let id = &request.workspace;
    let from = printable(request.source.as_os_str().as_bytes());
    package.outcome_summary = match landed {
        [one] => format!(
            "copied {from} into workspace {id} as '{}' ({} bytes, sha256:{})",
            printable(one.destination.as_bytes()),
            one.size_bytes,
            one.sha256
        ),
        many => format!(
            "copied {} file(s) of {} bytes in all from {from} into workspace {id}, recorded by destination and digest",
            many.len(),
            many.iter().map(|input| input.size_bytes).sum::<u64>()
        ),
    };
    package.key_findings = input_findings(landed);
    package.provenance.inputs = landed.iter().map(input_line).collect();
    package
}
