//! `create`: a workspace under a declared policy.
//!
//! What the host cannot hold refuses before anything is recorded or made; a dry run ends there. `exec` decides on a
//! workspace here too, and differs only in when it records it.
use crate::engine::Engine;
use crate::failure;
use crate::journal::Batch;
use crate::pack::{check_bound, mechanism};
use crate::requests::{AboutRequest, CreateRequest, DryRun, PolicyRequest, Report};
use crate::text::printable;
use bailiwick_contract::enforcement::{Enforcement, Label, resolve};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::journal::{Change, IntentDetail, IntentKind, Phase};
use bailiwick_contract::package::{Evidence, EvidenceKind, ResultPackage};
use bailiwick_contract::policy::Limit;
use bailiwick_contract::provider::WorkspaceSpec;
use bailiwick_contract::record::WorkspaceRecord;
use bailiwick_contract::state::WorkspaceState;

impl Engine<'_> {
    /// Creates a workspace.
    ///
    /// # Errors
    /// [`Failure`]: before the intent nothing was done; after it the workspace is on record as `failed`.
    pub fn create(&self, request: &CreateRequest) -> Result<Report, Failure> {
        check_bound(request.bound)?;
        let begun = self.now();
        let (id, profile) = (request.workspace.as_ref(), request.profile.as_deref());
        let mut record = self.design(id, profile, &request.policy, &request.about)?;
        if let Some(dry_run) = request.dry_run {
            return self.rehearse(&record, request, dry_run);
        }
        self.check_fresh(&record.id)?;
        let intent = self.mint_intent();
        self.append(
            Batch::new(&record.id, WorkspaceState::Requested, begun)
                .open(&intent, IntentKind::Create, None, IntentDetail::None)
                .push(Change::WorkspaceAdded { record: record.clone() })
                .step(WorkspaceState::Provisioning),
        )?;
        let made = self.provider.create(&spec_of(&record), &self.cx());
        let mut settle = Batch::new(&record.id, WorkspaceState::Provisioning, self.now());
        if let Err(error) = made {
            let failure = self.provider_failure(error);
            settle.step(WorkspaceState::Failed);
            settle.close(&intent, Phase::Abandoned, Some(failure.message.clone()));
            // The refusal matters more than a second one about its record; reconciliation settles it again.
            self.append(&settle).ok();
            return Err(failure);
        }
        self.append(settle.step(WorkspaceState::Ready).close(&intent, Phase::Settled, None))?;
        record.state = settle.state();
        let package = created(self.draft(&record, begun), &record);
        Ok(self.report(package, request.bound, None))
    }

    /// Decides on a workspace: its id, its profile and its policy as this host holds it. Makes and records nothing.
    pub(crate) fn design(
        &self,
        id: Option<&WorkspaceId>,
        profile: Option<&str>,
        asked: &PolicyRequest,
        about: &AboutRequest,
    ) -> Result<WorkspaceRecord, Failure> {
        let about = crate::about::recorded(about, self.now())?;
        let cx = self.cx();
        let capabilities = self.provider.capabilities(&cx).map_err(|e| self.provider_failure(e))?;
        let profile = self.provider.profile(profile, &cx).map_err(|e| self.provider_failure(e))?;
        let policy = resolve(&asked.policy, &asked.strictness, &capabilities)
            .map_err(|error| failure::of_policy(&error, self.program))?;
        let now = self.now();
        Ok(WorkspaceRecord {
            id: id.cloned().unwrap_or_else(|| WorkspaceId::mint(self.entropy)),
            state: WorkspaceState::Requested,
            provider: self.provider.name(),
            profile: profile.name,
            image_digest: format!("sha256:{}", profile.digest),
            policy,
            created_at: now,
            updated_at: now,
            about,
            pruned_at: None,
        })
    }

    /// Says what would be created. A minted id is not looked up, so that a dry run without one opens no store.
    fn rehearse(
        &self,
        record: &WorkspaceRecord,
        request: &CreateRequest,
        dry_run: DryRun,
    ) -> Result<Report, Failure> {
        if request.workspace.is_some() {
            self.check_fresh(&record.id)?;
        }
        let mut package = self.draft(record, record.created_at);
        package.outcome_summary = format!(
            "nothing was created: {} can hold such a workspace, with the {} profile",
            record.provider.name(),
            record.profile
        );
        package.key_findings = limit_findings(record);
        package.key_findings.insert(0, "lifecycle state: none, since this was a dry run".into());
        package.facts.state = None;
        let id = request.workspace.as_ref().map_or("", WorkspaceId::as_str);
        package.provenance.workspace_id = id.into();
        package.provenance.trace_id = id.into();
        if dry_run == DryRun::Plan {
            self.add_plan(&mut package, record)?;
        }
        Ok(self.report_once(package, request.bound))
    }

    /// Adds the policy as it would be held, and what a job would be started with.
    fn add_plan(
        &self,
        package: &mut ResultPackage,
        record: &WorkspaceRecord,
    ) -> Result<(), Failure> {
        let steps = self.provider.plan(&spec_of(record), &self.cx());
        let steps = steps.map_err(|error| self.provider_failure(error))?;
        let held = Limit::ALL.map(|limit| {
            let value = crate::job::limit_text(record, limit);
            let value = if value.is_empty() { "(none)" } else { &value };
            format!("policy: {limit} {value} ({})", mechanism(record, limit))
        });
        package.key_findings.extend(held);
        package.key_findings.push(format!("isolation plan: {} step(s)", steps.len()));
        package.evidence.push(Evidence {
            label: "isolation plan".into(),
            kind: EvidenceKind::Excerpt,
            source: String::new(),
            truncated: false,
            excerpt: steps.iter().map(|step| format!("{}\n", printable(step.as_bytes()))).collect(),
        });
        Ok(())
    }

    /// Refuses an id that was ever used, also by a job: verbs take either, and would never find the job again.
    pub(crate) fn check_fresh(&self, id: &WorkspaceId) -> Result<(), Failure> {
        let store = self.open()?;
        if let Some(record) = store.workspace(id).map_err(|error| self.store_failure(&error))? {
            return Err(workspace_exists(&record));
        }
        let Ok(job) = JobId::parse(id.as_str()) else { return Ok(()) };
        match store.job(&job).map_err(|error| self.store_failure(&error))? {
            None => Ok(()),
            Some(_) => Err(Failure::user(
                "id_taken",
                format!(
                    "--workspace-id {id} is the id of a job, and no verb could tell the workspace from it"
                ),
                "choose another id, or leave --workspace-id out to have one minted",
            )),
        }
    }
}

fn workspace_exists(record: &WorkspaceRecord) -> Failure {
    let id = &record.id;
    if record.state == WorkspaceState::Destroyed {
        return Failure::user(
            "workspace_exists",
            format!("{id} was used before and is destroyed: ids are never used twice"),
            "choose another id, or leave --workspace-id out to have one minted",
        );
    }
    Failure::user(
        "workspace_exists",
        format!("workspace {id} exists already; it is {}", record.state),
        "leave --workspace-id out to have an id minted; ids are never used twice",
    )
}

/// Returns what a provider is asked to make.
pub(crate) fn spec_of(record: &WorkspaceRecord) -> WorkspaceSpec {
    WorkspaceSpec {
        id: record.id.clone(),
        profile: record.profile.clone(),
        policy: record.policy.clone(),
    }
}

fn created(mut package: ResultPackage, record: &WorkspaceRecord) -> ResultPackage {
    let (id, provider, profile) = (&record.id, record.provider.name(), &record.profile);
    package.outcome_summary =
        format!("workspace {id} is ready on {provider}, with the {profile} profile");
    package.key_findings = vec![format!("lifecycle state: {}", record.state)];
    package.key_findings.extend(limit_findings(record));
    package
}

/// Returns what is true of a workspace before anything runs in it.
fn limit_findings(record: &WorkspaceRecord) -> Vec<String> {
    let mut found = vec![
        format!("network: {}", record.policy.policy.network),
        format!("limits enforced: {}", limits_with(record, Label::Enforced)),
        format!("limits measured: {}", limits_with(record, Label::Measured)),
        format!("environment digest: {}", record.image_digest),
    ];
    found.extend(crate::about::findings(record));
    found
}

fn limits_with(record: &WorkspaceRecord, wanted: Label) -> String {
    let held = |limit: &Limit| {
        let Enforcement { label, .. } = record.policy.enforcement(*limit);
        label == wanted
    };
    let names: Vec<&str> = Limit::ALL.iter().filter(|l| held(l)).map(|l| l.name()).collect();
    if names.is_empty() { "(none)".into() } else { names.join(", ") }
}
