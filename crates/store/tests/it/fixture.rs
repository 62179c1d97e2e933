//! Records and batches of the kind that the verbs write.
use bailiwick_contract::artifact::{ArtifactDeclaration, ArtifactExport, Digest};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::{EffectivePolicy, Enforcement, Mechanism};
use bailiwick_contract::id::{IntentId, JobId, WorkspaceId};
use bailiwick_contract::input::{InputRecord, WsPath};
use bailiwick_contract::job::{
    JobOutcome, JobStatus, JobTerms, OutputFacts, QuotaEvent, Reason, Usage,
};
use bailiwick_contract::journal::{Change, Entry, IntentDetail, IntentKind, Phase};
use bailiwick_contract::policy::{Access, Budget, HostPath, Limit, Network, Policy};
use bailiwick_contract::provider::ProviderName;
use bailiwick_contract::record::{About, JobRecord, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;
use bailiwick_store::{OpenOptions, SqliteStore};
use std::path::Path;

/// Text that a careless column would cut, split or refuse.
pub(crate) const ODD_TEXT: &str = "a\0b\u{2028}c\"'\\\n\u{1f512}";
/// Bytes that are no text.
pub(crate) const ODD_BYTES: &[u8] = b"\xff\0\xfe end";

pub(crate) fn open(home: &Path) -> SqliteStore {
    bailiwick_store::open(&options(home)).expect("the home is good")
}

pub(crate) fn options(home: &Path) -> OpenOptions {
    OpenOptions { home: home.into(), now: at(1_796_060_498_785_206) }
}

pub(crate) const fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(micros)
}

pub(crate) fn workspace_id(text: &str) -> WorkspaceId {
    WorkspaceId::parse(text).expect("an id")
}

pub(crate) fn job_id(text: &str) -> JobId {
    JobId::parse(text).expect("an id")
}

pub(crate) fn intent_id(text: &str) -> IntentId {
    IntentId::parse(text).expect("an id")
}

pub(crate) fn entry(workspace: &WorkspaceId, micros: u64, change: Change) -> Entry {
    Entry { workspace: workspace.clone(), at: at(micros), change }
}

pub(crate) fn workspace(id: &WorkspaceId, state: WorkspaceState, micros: u64) -> WorkspaceRecord {
    let host_paths =
        vec![HostPath { path: ODD_BYTES.into(), access: Access::ReadWrite, toolchain: true }];
    WorkspaceRecord {
        id: id.clone(),
        state,
        provider: ProviderName::Native,
        profile: ODD_TEXT.into(),
        image_digest: format!("sha256:{}", "a5".repeat(32)),
        policy: EffectivePolicy {
            policy: Policy { network: Network::Enabled, host_paths, budget: Budget::default() },
            limits: [Enforcement::measured(Mechanism::CgroupV1); 9],
        },
        created_at: at(micros),
        updated_at: at(micros),
        about: About {
            purpose: Some(ODD_TEXT.into()),
            labels: [("tier".into(), ODD_TEXT.into())].into(),
            expires_at: Some(at(micros + 1)),
            ..About::default()
        },
        pruned_at: None,
    }
}

pub(crate) fn job(id: &JobId, workspace: &WorkspaceId, micros: u64) -> JobRecord {
    JobRecord {
        id: id.clone(),
        workspace: workspace.clone(),
        argv: vec!["sh".into(), ODD_BYTES.into(), ODD_TEXT.into(), "".into()],
        env_names: vec!["TOKEN".into()],
        env_files: vec![ODD_BYTES.into()],
        terms: JobTerms { timeout_ms: Some(micros), detached: true, ..JobTerms::default() },
        started_at: at(micros),
        outcome: None,
        package: None,
    }
}

pub(crate) fn outcome(status: JobStatus) -> JobOutcome {
    let (limit, count) = (Limit::Memory, u64::MAX);
    JobOutcome {
        status,
        exit_status: Some(137),
        signal: Some(9),
        reason: Some(Reason::Memory),
        detail: Some(ODD_TEXT.into()),
        started_at: at(10),
        finished_at: at(20),
        usage: Usage { cpu_us: u64::MAX, ..Usage::default() },
        output: OutputFacts::default(),
        quota_events: vec![QuotaEvent { limit, count, detail: ODD_TEXT.into() }],
        checks: Vec::new(),
        measurements: Vec::new(),
    }
}

pub(crate) fn declaration(name: impl Into<ByteString>) -> ArtifactDeclaration {
    let purpose = ODD_TEXT.into();
    ArtifactDeclaration { name: name.into(), purpose, media_type: "text/plain".into() }
}

pub(crate) fn export(size_bytes: u64) -> ArtifactExport {
    ArtifactExport { digest: Digest::new([7; 32]), size_bytes, reference: ODD_BYTES.into() }
}

pub(crate) fn input(destination: &[u8], size_bytes: u64) -> InputRecord {
    InputRecord {
        source: ODD_BYTES.into(),
        destination: WsPath::parse(destination).expect("a path"),
        size_bytes,
        sha256: Digest::new([9; 32]),
        recorded_at: at(5),
        job: size_bytes.is_multiple_of(2).then(|| job_id("j")),
    }
}

pub(crate) fn opened(intent: &str, verb: IntentKind, job: Option<JobId>) -> Change {
    Change::IntentOpened { intent: intent_id(intent), verb, job, detail: IntentDetail::None }
}

pub(crate) fn closed(intent: &str) -> Change {
    Change::IntentClosed { intent: intent_id(intent), phase: Phase::Settled, detail: None }
}

/// The two batches of an `exec` without artifacts: all intents, then all outcomes.
pub(crate) fn exec(id: &str) -> [Vec<Entry>; 2] {
    use WorkspaceState::{Completed, Destroyed, Provisioning, Ready, Requested, Running};
    let (ws, job_id) = (workspace_id(&format!("ws-{id}")), job_id(&format!("job-{id}")));
    let [create, run, remove] = ["c", "r", "d"].map(|verb| format!("int-{verb}-{id}"));
    let moved = |from, to| Change::WorkspaceMoved { from, to };
    let after_job = IntentDetail::Remove { force: false, after_job: true };
    let begin = vec![
        opened(&create, IntentKind::Create, None),
        Change::WorkspaceAdded { record: workspace(&ws, Requested, 1) },
        moved(Requested, Provisioning),
        moved(Provisioning, Ready),
        closed(&create),
        opened(&run, IntentKind::Run, Some(job_id.clone())),
        Change::JobAdded { record: job(&job_id, &ws, 1) },
        Change::IntentOpened {
            intent: intent_id(&remove),
            verb: IntentKind::Remove,
            job: None,
            detail: after_job,
        },
    ];
    let end = vec![
        moved(Ready, Running),
        Change::JobEnded { job: job_id, outcome: outcome(JobStatus::Success), package: None },
        moved(Running, Completed),
        closed(&run),
        moved(Completed, Destroyed),
        closed(&remove),
    ];
    [begin, end].map(|batch| batch.into_iter().map(|change| entry(&ws, 2, change)).collect())
}
