//! Result packages: the parts that every verb shares.
//!
//! A package is built whole and bounded once, at its end. What it says of a job is in `job`; how it is cut and shown, in
//! `render`.
use crate::engine::Engine;
use crate::job::reference;
use crate::render::{Bounded, FLOOR, Retrieval, Sections, bounded};
use crate::requests::{Bound, Report};
use crate::text::{printable, quoted};
use bailiwick_contract::artifact::{ArtifactRecord, Retention};
use bailiwick_contract::enforcement::{Label, Mechanism};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::input::InputRecord;
use bailiwick_contract::package::{
    AboutFacts, Artifact, Evidence, EvidenceKind, Facts, PolicyFacts, Provenance, ResourceUsage,
    ResultPackage, Status,
};
use bailiwick_contract::policy::Limit;
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::time::Timestamp;

/// How many files findings list one by one; `provenance` lists all of them.
const FILES_LISTED_MAX: usize = 10;

impl Engine<'_> {
    /// Returns a package that says what is true of `record` whatever the verb did.
    pub(crate) fn draft(&self, record: &WorkspaceRecord, begun: Timestamp) -> ResultPackage {
        let now = self.now();
        ResultPackage {
            outcome_summary: String::new(),
            status: Status::Success,
            key_findings: Vec::new(),
            evidence: Vec::new(),
            artifacts: Vec::new(),
            warnings: record.policy.measured().map(|limit| warning(record, limit)).collect(),
            resource_usage: ResourceUsage::default(),
            provenance: Provenance {
                workspace_id: record.id.as_str().into(),
                job_id: String::new(),
                profile: record.profile.clone(),
                image_digest: record.image_digest.clone(),
                started_at: record.created_at.to_iso(),
                finished_at: now.to_iso(),
                policy_summary: record.policy.summary(),
                inputs: Vec::new(),
                trace_id: record.id.as_str().into(),
            },
            attention: Vec::new(),
            facts: Facts {
                state: Some(record.state.name().into()),
                provider: record.provider.name().into(),
                duration_ms: now.millis_since(begun),
                policy: PolicyFacts(
                    Limit::ALL.map(|limit| (limit, record.policy.facts(limit))).into(),
                ),
                about: AboutFacts::of(&record.about),
                ..Facts::default()
            },
        }
    }

    /// Returns a package of a verb that concerns no workspace in particular.
    pub(crate) fn blank(&self, begun: Timestamp) -> ResultPackage {
        let now = self.now();
        ResultPackage {
            outcome_summary: String::new(),
            status: Status::Success,
            key_findings: Vec::new(),
            evidence: Vec::new(),
            artifacts: Vec::new(),
            warnings: Vec::new(),
            resource_usage: ResourceUsage::default(),
            provenance: Provenance {
                started_at: begun.to_iso(),
                finished_at: now.to_iso(),
                ..Provenance::default()
            },
            attention: Vec::new(),
            facts: Facts {
                provider: self.provider.name().name().into(),
                duration_ms: now.millis_since(begun),
                ..Facts::default()
            },
        }
    }

    /// Returns the report of a finished package, within its bound.
    pub(crate) fn report(
        &self,
        package: ResultPackage,
        bound: Option<Bound>,
        job: Option<&JobId>,
    ) -> Report {
        let handle = job.map_or(package.provenance.workspace_id.as_str(), JobId::as_str).to_owned();
        let retrieval = Retrieval { handle, job: job.map(|job| job.as_str().into()) };
        let reference = self.reference_if_cut(&package);
        let first = within(package.clone(), bound, &retrieval);
        let Some(reference) = reference.filter(|_| is_excerpt_cut(&package, &first.package)) else {
            return first;
        };
        let mut package = package;
        package.evidence.insert(1, reference);
        within(package, bound, &retrieval)
    }

    /// Returns the report of a package that no record can be asked for again.
    pub(crate) fn report_once(&self, package: ResultPackage, bound: Option<Bound>) -> Report {
        within(package, bound, &Retrieval { handle: String::new(), job: None })
    }

    /// Returns the evidence to add where a bound cuts the output of a package's job; none where it has that already.
    fn reference_if_cut(&self, package: &ResultPackage) -> Option<Evidence> {
        let job = package.provenance.job_id.as_str();
        let (first, output) = (package.evidence.first()?, package.facts.output.as_ref()?);
        let of_job = first.kind == EvidenceKind::Excerpt && first.source == job;
        let is_there = package.evidence.iter().any(|one| one.kind == EvidenceKind::Reference);
        (of_job && !is_there).then(|| reference(self.program, job, output))
    }

    /// Returns the line that says an artifact still has to be exported.
    pub(crate) fn pending_line(
        &self,
        record: &WorkspaceRecord,
        artifact: &ArtifactRecord,
    ) -> String {
        self.pending_line_of(&record.id, artifact)
    }

    /// The same, where the workspace's id is all there is.
    pub(crate) fn pending_line_of(&self, id: &WorkspaceId, artifact: &ArtifactRecord) -> String {
        let name = artifact.declaration.name.as_bytes();
        format!(
            "artifact '{}' is declared but not exported: {} export {id} {} --to PATH",
            printable(name),
            self.program,
            quoted(name)
        )
    }
}

/// Returns whether a bound cut the first piece of evidence, which is a job's output.
fn is_excerpt_cut(whole: &ResultPackage, cut: &ResultPackage) -> bool {
    let excerpt = |package: &ResultPackage| Some(package.evidence.first()?.excerpt.clone());
    excerpt(whole) != excerpt(cut)
}

fn within(package: ResultPackage, bound: Option<Bound>, retrieval: &Retrieval) -> Report {
    let exit = package.status.exit_code();
    let Some(Bound { max_bytes, nine }) = bound else {
        return Report { package, exit, cut: false };
    };
    let sections = if nine { Sections::Nine } else { Sections::All };
    let Bounded { package, cut } = bounded(package, max_bytes, retrieval, sections);
    Report { package, exit, cut }
}

/// Refuses a bound below the floor; called before a verb does anything.
pub(crate) fn check_bound(bound: Option<Bound>) -> Result<(), Failure> {
    let floor = FLOOR;
    match bound {
        Some(bound) if bound.max_bytes < floor => Err(Failure::user(
            "bound_below_floor",
            format!("--max-result-bytes {} is below the floor of {floor}", bound.max_bytes),
            format!("pass at least {floor}; nothing was done"),
        )),
        _ => Ok(()),
    }
}

/// Returns what is weaker than a reader might think about a limit that is only measured.
fn warning(record: &WorkspaceRecord, limit: Limit) -> String {
    let how = match record.policy.enforcement(limit).mechanism {
        Mechanism::WatchStatfs => "watched by statfs, jobs stopped over it",
        Mechanism::WatchMemory => "watched by sampling, jobs stopped over it",
        Mechanism::CpuAffinity => "held to whole cores by affinity, the fraction is not held",
        Mechanism::Scripted => "nothing is executed, a script says what a job does",
        Mechanism::NetNamespace
        | Mechanism::MountNamespace
        | Mechanism::CgroupV1
        | Mechanism::CgroupV2
        | Mechanism::RlimitNproc
        | Mechanism::SupervisorTimer
        | Mechanism::SupervisorCapture
        | Mechanism::SlotLock => "this host only accounts for it",
    };
    format!("the {limit} limit is measured, not enforced: {how}")
}

/// Returns the name that packages use for what holds a limit.
pub(crate) fn mechanism(record: &WorkspaceRecord, limit: Limit) -> String {
    let enforcement = record.policy.enforcement(limit);
    match (enforcement.label, enforcement.mechanism.name()) {
        (Label::Enforced, name) => name.into(),
        (Label::Measured, name) => format!("{name}, measured"),
    }
}

/// Returns the line of `provenance.inputs` that stands for a file copied in.
pub(crate) fn input_line(input: &InputRecord) -> String {
    format!(
        "{} (sha256:{}, {} bytes, from {})",
        input.destination.as_byte_string().to_text(),
        input.sha256,
        input.size_bytes,
        input.source.to_text()
    )
}

/// Returns the findings about files copied in.
pub(crate) fn input_findings(inputs: &[InputRecord]) -> Vec<String> {
    if inputs.is_empty() {
        return Vec::new();
    }
    let finding = |input: &InputRecord| {
        let (to, from) = (input.destination.as_bytes(), input.source.as_bytes());
        let (size, digest) = (input.size_bytes, input.sha256);
        format!("{} <- {} ({size} bytes, sha256:{digest})", printable(to), printable(from))
    };
    let mut findings: Vec<String> = inputs.iter().take(FILES_LISTED_MAX).map(finding).collect();
    if inputs.len() > FILES_LISTED_MAX {
        findings.push(format!(
            "{} more file(s) were copied in; provenance.inputs lists all of them",
            inputs.len() - FILES_LISTED_MAX
        ));
    }
    findings
        .push("files copied in are inputs, not artifacts: a destroy does not wait for them".into());
    findings
}

/// Returns the exported artifacts among `records`, as packages carry them.
pub(crate) fn exported(records: &[ArtifactRecord]) -> Vec<Artifact> {
    records.iter().filter_map(exported_one).collect()
}

fn exported_one(record: &ArtifactRecord) -> Option<Artifact> {
    let export = record.export.as_ref()?;
    Some(Artifact {
        name: record.declaration.name.to_text().into_owned(),
        purpose: record.declaration.purpose.to_text().into_owned(),
        media_type: record.declaration.media_type.clone(),
        digest: export.digest.to_string(),
        size_bytes: export.size_bytes,
        reference: export.reference.to_text().into_owned(),
    })
}

/// Returns the artifacts that a destroy would lose.
pub(crate) fn pending(records: &[ArtifactRecord]) -> Vec<&ArtifactRecord> {
    records.iter().filter(|record| record.retention == Retention::Declared).collect()
}
