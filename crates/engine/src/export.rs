//! `export`: an artifact, published on the host with a verified digest.
//!
//! A regular file, or a directory as a tree or as one tar file. What was not declared is published only when the caller
//! says so, and gates nothing. `exec` publishes through the same steps, and settles them with its job.
use crate::engine::Engine;
use crate::journal::Batch;
use crate::pack::check_bound;
use crate::publish::{Clobber, Destination, Publication, expectation, over_storage};
use crate::reconcile::Held;
use crate::requests::{ExportRequest, Report};
use crate::text::printable;
use crate::tree::{MEDIA_TYPE, Seen};
use bailiwick_contract::artifact::{ArtifactExport, ArtifactRecord, Digest, MEDIA_TYPE_DEFAULT};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::IntentId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::Artifact;
use bailiwick_contract::record::WorkspaceRecord;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What is published, from where, and to where.
pub(crate) struct Parcel<'p> {
    pub(crate) source: &'p WsPath,
    pub(crate) destination: Destination,
    pub(crate) intent: &'p IntentId,
    pub(crate) expected: Option<Digest>,
    /// A directory becomes one tar file.
    pub(crate) tar: bool,
}

/// What was published.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    pub(crate) digest: Digest,
    pub(crate) size_bytes: u64,
    /// It was a directory.
    pub(crate) is_tree: bool,
}

impl Engine<'_> {
    /// Publishes an artifact on the host.
    ///
    /// # Errors
    /// [`Failure`]; nothing was published, unless the message says that the record of it failed.
    pub fn export(&self, request: &ExportRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let expected = expectation(request.expect_sha256.as_deref())?;
        let source = source_path(request.path.as_ref().unwrap_or(&request.name))?;
        let clobber = if request.no_clobber { Clobber::No } else { Clobber::Yes };
        let destination = Destination::open(&request.destination, clobber)?;
        let begun = self.now();
        let (id, rest) = (&request.workspace, " NAME --to PATH");
        let record = self.living(id).map_err(|f| self.or_job(f, id, "export", rest))?;
        let _hold = self.take_all(&record)?;
        let notes = self.reconcile(&record, Held::All)?;
        let told = |failure: Failure| failure.noting(&notes);
        let record = self.living(&request.workspace).map_err(told)?;
        let artifact = self.wanted(&record, request).map_err(told)?;
        let intent = self.mint_intent();
        let (tar, source) = (request.tar, &source);
        let parcel = Parcel { source, destination, intent: &intent, expected, tar };
        let published =
            self.export_one(&record, request, artifact.is_some(), parcel).map_err(told)?;
        let mut package = self.draft(&record, begun);
        let (shown, to) = (printable(request.name.as_bytes()), shown_path(&request.destination));
        package.outcome_summary =
            format!("artifact '{shown}' of workspace {} is durable at {to}", record.id);
        package.key_findings =
            vec![verified(&shown, published), "the artifact outlives its workspace now".into()];
        package.artifacts = vec![artifact_of(artifact.as_ref(), request, published)];
        package.resource_usage.storage_bytes = published.size_bytes;
        package.attention = notes;
        Ok(self.report(package, request.bound, None))
    }

    /// Finds what is to be published among what was declared; `None` for what need not be.
    fn wanted(
        &self,
        record: &WorkspaceRecord,
        request: &ExportRequest,
    ) -> Result<Option<ArtifactRecord>, Failure> {
        let declared = self.declared(record, &request.name);
        if !request.undeclared {
            return declared.map(Some);
        }
        match declared {
            Ok(_) => Err(Failure::user(
                "artifact_declared",
                format!("artifact '{}' is declared", printable(request.name.as_bytes())),
                "leave --undeclared out, or give what --path names a name of its own",
            )),
            Err(failure) if failure.reason == "artifact_not_declared" => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Publishes: intent, act, settle.
    fn export_one(
        &self,
        record: &WorkspaceRecord,
        request: &ExportRequest,
        is_declared: bool,
        parcel: Parcel<'_>,
    ) -> Result<Published, Failure> {
        let (intent, detail) = (parcel.intent, detail_of(&request.name, &request.destination));
        let mut open = Batch::new(&record.id, record.state, self.now());
        self.append(open.open(intent, IntentKind::Export, None, detail))?;
        let published = self.publish(record, parcel);
        let mut settle = Batch::new(&record.id, record.state, self.now());
        match published {
            Ok(published) => {
                if is_declared {
                    let export = export_of(published, &request.destination);
                    settle.push(Change::ArtifactExported { name: request.name.clone(), export });
                }
                self.append(settle.close(intent, Phase::Settled, None))?;
                Ok(published)
            }
            Err(failure) => {
                settle.close(intent, Phase::Abandoned, Some(failure.message.clone()));
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
                "declare it with run --declare NAME=PURPOSE, by the job that writes it; or pass --undeclared",
            )
        })
    }

    /// Copies a file or a directory out and publishes it; journals nothing.
    pub(crate) fn publish(
        &self,
        record: &WorkspaceRecord,
        parcel: Parcel<'_>,
    ) -> Result<Published, Failure> {
        let Parcel { source, destination, intent, expected, tar } = parcel;
        let seen = self.look(record, source).map_err(|error| self.provider_failure(error))?;
        let (published, is_tree) = match seen {
            Seen::Directory if tar => {
                (self.publish_tar(record, source, destination, intent, expected), true)
            }
            Seen::Directory => {
                (self.publish_tree(record, source, destination, intent, expected), true)
            }
            Seen::Leaf { .. } if tar => return Err(no_directory(source)),
            Seen::Leaf { mode, size_bytes } => {
                let bytes_max = record.policy.policy.budget.storage_bytes;
                if size_bytes > bytes_max {
                    return Err(over_storage(bytes_max));
                }
                // It may grow yet: the publication counts for itself, and knows what to say about too much.
                let mut publication = Publication::begin(destination, intent, mode, bytes_max)?;
                let read = self.provider.read(&record.id, source, &mut publication, &self.cx());
                read.map_err(|error| self.provider_failure(error))?;
                (publication.commit(expected), false)
            }
        };
        published.map(|(digest, size_bytes)| Published { digest, size_bytes, is_tree })
    }
}

fn no_directory(source: &WsPath) -> Failure {
    Failure::user(
        "not_a_directory",
        format!("`{}` is no directory, and --tar packs one", printable(source.as_bytes())),
        "leave --tar out to publish the file itself",
    )
}

/// Returns the finding about what was published.
pub(crate) fn verified(shown: &str, published: Published) -> String {
    let Published { digest, size_bytes, is_tree } = published;
    let of = if is_tree { "; the digest is that of its canonical tar" } else { "" };
    format!("{size_bytes} bytes of {shown} verified as sha256:{digest}{of}")
}

/// Returns what was published as packages carry it.
fn artifact_of(
    declared: Option<&ArtifactRecord>,
    request: &ExportRequest,
    published: Published,
) -> Artifact {
    let declaration = declared.map(|record| &record.declaration);
    let media_type = declaration.map_or(MEDIA_TYPE_DEFAULT, |one| one.media_type.as_str());
    let media_type = if published.is_tree { MEDIA_TYPE } else { media_type };
    let purpose = declaration.map(|one| one.purpose.to_text().into_owned());
    Artifact {
        name: request.name.to_text().into_owned(),
        purpose: purpose.unwrap_or_else(|| "not declared".into()),
        media_type: media_type.into(),
        digest: published.digest.to_string(),
        size_bytes: published.size_bytes,
        reference: request.destination.to_string_lossy().into_owned(),
    }
}

/// Returns what an intent says about an export. The path is absolute there, so that whatever a killed export left beside
/// it can be found from another folder.
pub(crate) fn detail_of(name: &ByteString, destination: &Path) -> IntentDetail {
    let absolute = std::path::absolute(destination).unwrap_or_else(|_| destination.to_owned());
    let destination = absolute.as_os_str().as_bytes().into();
    IntentDetail::Export { name: name.clone(), destination }
}

pub(crate) fn export_of(published: Published, destination: &Path) -> ArtifactExport {
    let reference = destination.as_os_str().as_bytes().into();
    let Published { digest, size_bytes, .. } = published;
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
