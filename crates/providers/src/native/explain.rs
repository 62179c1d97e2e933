//! Says what a job of a workspace would be started with, for a command that does nothing.
//!
//! The lines are those of `bailiwick_isolation::explain`. No sandbox, disk or directory is made for them; the facts of the host are
//! probed as for a workspace, and kept in the home.
use super::home::Home;
use super::{disks, host_path};
use bailiwick_contract::id::JobId;
use bailiwick_contract::provider::{ProviderError, WorkspaceSpec};
use bailiwick_isolation::explain;
use bailiwick_isolation::facts::HostFacts;
use bailiwick_isolation::plan::plan;
use bailiwick_isolation::remains::group_name;
use bailiwick_isolation::skeleton;
use bailiwick_isolation::spec::SandboxSpec;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Stands for the id that a job will have.
const EXAMPLE: &str = "job-000000000000";

/// Returns the lines.
pub(super) fn lines(
    home: &Home,
    facts: &HostFacts,
    workspace: &WorkspaceSpec,
) -> Result<Vec<String>, ProviderError> {
    disks::refuse_lacking(facts)?;
    let job = JobId::parse(EXAMPLE).expect("it has the form of an id");
    let bytes = |path: &Path| path.as_os_str().as_bytes().into();
    let spec = SandboxSpec {
        group: group_name(home.path(), &job),
        disk: bytes(&home.tree(&workspace.id)),
        job_dir: bytes(&home.job(&job)),
        job,
        argv: vec!["true".into()],
        env: Vec::new(),
        cwd: None,
        policy: workspace.policy.clone(),
        host_paths: host_path::look_up(home, facts, &workspace.policy.policy)?,
    };
    let skeleton = skeleton::named(&home.skeleton());
    let plan = plan(&spec, facts, &skeleton).map_err(host_path::refused)?;
    Ok(explain::lines(&plan))
}
