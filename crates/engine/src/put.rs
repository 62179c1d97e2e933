//! `put`: host files into a workspace, in one batch that lands whole or not at all.
//!
//! A file is read once: it is hashed while it is copied aside, and the intent is made durable with those digests before
//! anything is moved into place. `run --input` uses the same copy-in, with no way to overwrite: replacing a file is a
//! deliberate act. What is recorded is destination, size and digest, never the bytes.
use crate::archive;
use crate::engine::Engine;
use crate::ignore::Ignore;
use crate::inputs::{Plan, destination_of};
use crate::journal::Batch;
use crate::ledger::{Delivery, Ledger, Room};
use crate::pack::{check_bound, input_findings, input_line};
use crate::reconcile::Held;
use crate::requests::{InputRequest, PutRequest, Report};
use crate::text::printable;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{IntentId, JobId, WorkspaceId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::ResultPackage;
use bailiwick_contract::provider::{Gate, ProviderError};
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;
use core::error::Error;
use std::io::Read;
use std::os::unix::ffi::OsStrExt as _;

impl Engine<'_> {
    /// Copies a host file or directory into a workspace.
    ///
    /// # Errors
    /// [`Failure`]; nothing landed.
    pub fn put(&self, request: &PutRequest) -> Result<Report, Failure> {
        self.put_with(request, |room, ignore| {
            let mut plan = Plan::new(room);
            let destination = request.destination.as_bytes();
            plan.add(&request.source, destination, ignore.as_ref(), self.cancel)?;
            Ok(plan.deliver())
        })
    }

    /// Copies what a tar stream holds into a workspace; `request.source` is how the stream is called.
    ///
    /// # Errors
    /// As [`Engine::put`].
    pub fn put_archive(
        &self,
        request: &PutRequest,
        archive: Box<dyn Read>,
    ) -> Result<Report, Failure> {
        let destination = destination_of(request.destination.as_bytes())?;
        self.put_with(request, |room, ignore| {
            Ok(archive::deliver(archive, destination, ignore, room))
        })
    }

    fn put_with(
        &self,
        request: &PutRequest,
        delivery: impl FnOnce(Room, Option<Ignore>) -> Result<Delivery, Failure>,
    ) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let ignore = request.ignore_file.as_deref().map(Ignore::read).transpose()?;
        let (id, rest) = (&request.workspace, " HOST_PATH DESTINATION");
        let record = self.living(id).map_err(|f| self.or_job(f, id, "put", rest))?;
        let _hold = self.take_all(&record)?;
        let notes = self.reconcile(&record, Held::All)?;
        let told = |failure: Failure| failure.noting(&notes);
        let record = self.ready(&request.workspace).map_err(told)?;
        let room = self.room(&record).map_err(told)?;
        let delivery = delivery(room, ignore).map_err(told)?;
        let ledger = delivery.ledger.clone();
        let landed = self.copy_in(&record, delivery, None, request.overwrite).map_err(told)?;
        let mut package = copied(self.draft(&record, begun), request, &landed);
        let ignored_by = request.ignore_file.as_ref().map(|path| path.as_os_str().as_bytes());
        package.key_findings.extend(ledger.findings(ignored_by));
        package.resource_usage.storage_bytes = ledger.bytes();
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

    /// Walks what `inputs` name; touches the host only.
    pub(crate) fn plan_inputs(&self, inputs: &[InputRequest], room: Room) -> Result<Plan, Failure> {
        let mut plan = Plan::new(room);
        for input in inputs {
            plan.add(&input.source, input.destination.as_bytes(), None, self.cancel)?;
        }
        plan.check_distinct().map(|()| plan)
    }

    /// Copies a delivery in: the intent is durable once everything was read and before anything lands.
    pub(crate) fn copy_in(
        &self,
        record: &WorkspaceRecord,
        delivery: Delivery,
        job: Option<&JobId>,
        overwrite: bool,
    ) -> Result<Vec<InputRecord>, Failure> {
        let intent = self.mint_intent();
        let ledger = delivery.ledger.clone();
        let mut gate = PutGate { engine: self, record, intent: &intent, job, ledger, inputs: None };
        let written = self.write(record, delivery, overwrite, &mut gate);
        // Before the gate was open nothing had begun, so there is nothing to settle.
        let Some(inputs) = gate.inputs else { return written.map(|()| Vec::new()) };
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

    /// Hands a delivery to the provider; journals nothing itself.
    pub(crate) fn write(
        &self,
        record: &WorkspaceRecord,
        delivery: Delivery,
        overwrite: bool,
        gate: &mut dyn Gate,
    ) -> Result<(), Failure> {
        let Delivery { mut entries, ledger } = delivery;
        let cx = self.cx_within(ledger.room().bytes);
        let written = self.provider.write(&record.id, &mut *entries, overwrite, gate, &cx);
        written.map_err(|error| self.provider_failure(error))
    }
}

/// The gate of a batch: the intent, with the digests that were just taken.
struct PutGate<'g, 'e> {
    engine: &'g Engine<'e>,
    record: &'g WorkspaceRecord,
    intent: &'g IntentId,
    job: Option<&'g JobId>,
    ledger: Ledger,
    /// What the intent says will land, once it is durable.
    inputs: Option<Vec<InputRecord>>,
}

impl Gate for PutGate<'_, '_> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        self.ledger.check()?;
        let now = self.engine.now();
        let inputs = self.ledger.records(now, self.job);
        let detail = IntentDetail::Inputs(inputs.clone());
        let mut open = Batch::new(&self.record.id, self.record.state, now);
        self.engine.append(open.open(self.intent, IntentKind::Put, None, detail))?;
        self.inputs = Some(inputs);
        Ok(())
    }
}

/// The gate of a batch for a workspace that is on no record yet: what becomes of it is told with the workspace's own intent.
pub(crate) struct Unrecorded(pub(crate) Ledger);

impl Gate for Unrecorded {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.0.check()?)
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
