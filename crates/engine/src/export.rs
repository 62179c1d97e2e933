//! `export`: a declared artifact, published on the host with a verified digest.
//!
//! Declared names only; one regular file each. `exec` publishes through the same steps, and settles them with its job.
use crate::engine::Engine;
use crate::journal::Batch;
use crate::pack::{check_bound, exported};
use crate::publish::{Destination, Publication, expectation};
use crate::reconcile::Held;
use crate::requests::{ExportRequest, Report};
use crate::text::printable;
use bailiwick_contract::artifact::{ArtifactExport, ArtifactRecord, Digest, Retention};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::IntentId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::record::WorkspaceRecord;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

impl Engine<'_> {
    /// Publishes a declared artifact on the host.
    ///
    /// # Errors
    /// [`Failure`]; nothing was published, unless the message says that the record of it failed.
    pub fn export(&self, request: &ExportRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let expected = expectation(request.expect_sha256.as_deref())?;
        let source = source_path(request.path.as_ref().unwrap_or(&request.name))?;
        let destination = Destination::open(&request.destination)?;
        let begun = self.now();
        let (id, rest) = (&request.workspace, " NAME --to PATH");
        let record = self.living(id).map_err(|f| self.or_job(f, id, "export", rest))?;
        let _hold = self.take_all(&record)?;
        let notes = self.reconcile(&record, Held::All)?;
        let told = |failure: Failure| failure.noting(&notes);
        let record = self.living(&request.workspace).map_err(told)?;
        let mut artifact = self.declared(&record, &request.name).map_err(told)?;
        let (digest, size_bytes) =
            self.export_one(&record, request, &source, destination, expected).map_err(told)?;
        artifact.retention = Retention::Exported;
        artifact.export = Some(export_of(digest, size_bytes, &request.destination));
        let mut package = self.draft(&record, begun);
        let (shown, to) = (printable(request.name.as_bytes()), shown_path(&request.destination));
        package.outcome_summary =
            format!("artifact '{shown}' of workspace {} is durable at {to}", record.id);
        package.key_findings = vec![
            format!("{size_bytes} bytes of {shown} verified as sha256:{digest}"),
            "the artifact outlives its workspace now".into(),
        ];
        package.artifacts = exported(&[artifact]);
        package.resource_usage.storage_bytes = size_bytes;
        package.attention = notes;
        Ok(self.report(package, request.bound, None))
    }

    /// Publishes: intent, act, settle.
    fn export_one(
        &self,
        record: &WorkspaceRecord,
        request: &ExportRequest,
        source: &WsPath,
        destination: Destination,
        expected: Option<Digest>,
    ) -> Result<(Digest, u64), Failure> {
        let (intent, detail) = (self.mint_intent(), detail_of(&request.name, &request.destination));
        let mut open = Batch::new(&record.id, record.state, self.now());
        self.append(open.open(&intent, IntentKind::Export, None, detail))?;
        let published = self.publish(record, source, destination, expected, &intent);
        let mut settle = Batch::new(&record.id, record.state, self.now());
        match published {
            Ok((digest, size_bytes)) => {
                let export = export_of(digest, size_bytes, &request.destination);
                settle.push(Change::ArtifactExported { name: request.name.clone(), export });
                self.append(settle.close(&intent, Phase::Settled, None))?;
                Ok((digest, size_bytes))
            }
            Err(failure) => {
                settle.close(&intent, Phase::Abandoned, Some(failure.message.clone()));
                // The refusal matters more than a second one about its record; reconciliation closes it again.
                self.append(&settle).ok();
                Err(failure)
            }
        }
    }

    fn declared(
        &self,
        record: &WorkspaceRecord,
        name: &ByteString,
    ) -> Result<ArtifactRecord, Failure> {
        let mut artifacts = self.artifacts(record)?.into_iter();
        artifacts.find(|artifact| artifact.declaration.name == *name).ok_or_else(|| {
            Failure::user(
                "artifact_not_declared",
                format!(
                    "workspace {} declares no artifact '{}'",
                    record.id,
                    printable(name.as_bytes())
                ),
                "declare it with run --declare NAME=PURPOSE, by the job that writes it",
            )
        })
    }

    /// Copies one file out and publishes it; journals nothing.
    pub(crate) fn publish(
        &self,
        record: &WorkspaceRecord,
        source: &WsPath,
        destination: Destination,
        expected: Option<Digest>,
        intent: &IntentId,
    ) -> Result<(Digest, u64), Failure> {
        let bytes_max = record.policy.policy.budget.storage_bytes;
        let mut publication = Publication::begin(destination, bytes_max, intent)?;
        // The publication counts for itself, and knows what to say about too much.
        let read = self.provider.read(&record.id, source, &mut publication, &self.cx());
        read.map_err(|error| self.provider_failure(error))?;
        publication.commit(expected)
    }
}

/// Returns what an intent says about an export; whoever settles it may work in another directory.
pub(crate) fn detail_of(name: &ByteString, destination: &Path) -> IntentDetail {
    let absolute = std::path::absolute(destination);
    let destination = absolute.as_deref().unwrap_or(destination).as_os_str().as_bytes().into();
    IntentDetail::Export { name: name.clone(), destination }
}

pub(crate) fn export_of(digest: Digest, size_bytes: u64, destination: &Path) -> ArtifactExport {
    let reference = destination.as_os_str().as_bytes().into();
    ArtifactExport { digest, size_bytes, reference }
}

pub(crate) fn source_path(bytes: &ByteString) -> Result<WsPath, Failure> {
    WsPath::parse(bytes.as_bytes()).map_err(|error| {
        Failure::user(
            "bad_artifact_path",
            format!("`{}` is no file of a workspace: {error}", printable(bytes.as_bytes())),
            "name the file's place below the workspace with --path",
        )
    })
}

fn shown_path(path: &Path) -> String {
    printable(path.as_os_str().as_bytes())
}
