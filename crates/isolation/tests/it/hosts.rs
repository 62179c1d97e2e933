//! Hosts and specs that tests plan for.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::enforcement::{Strictness, resolve};
use bailiwick_contract::id::JobId;
use bailiwick_contract::policy::{Access, HostPath, Policy};
use bailiwick_isolation::facts::{CgroupFacts, HostFacts, ProcMask, RootEntry};
use bailiwick_isolation::plan::{Plan, PlanError, plan};
use bailiwick_isolation::skeleton::Skeleton;
use bailiwick_isolation::spec::{HostPathFacts, SandboxSpec};

/// A host of an ordinary user without control groups, with a merged `/usr`.
pub(crate) fn of_a_user() -> HostFacts {
    let link =
        |name: &str, target: &str| RootEntry::Link { name: name.into(), target: target.into() };
    HostFacts {
        key: "key".into(),
        kernel: "6.18.0".into(),
        by_root: false,
        outside_uid: 1_001,
        outside_gid: 1_002,
        landlock_abi: 7,
        cgroup: CgroupFacts::Absent,
        cpus: vec![0, 1, 2, 3],
        root_entries: vec![
            RootEntry::Dir("usr".into()),
            link("bin", "usr/bin"),
            link("lib", "usr/lib"),
        ],
        links: Vec::new(),
        proc_masks: vec![
            ProcMask::Dir("acpi".into()),
            ProcMask::File("kcore".into()),
            ProcMask::ReadOnly("sys".into()),
        ],
        lacks: Vec::new(),
    }
}

/// The same host for root, with control groups of version 1.
pub(crate) fn of_root() -> HostFacts {
    let group = |name: &str| Some(ByteString::from(format!("/sys/fs/cgroup/{name}")));
    HostFacts {
        by_root: true,
        outside_uid: 1_900_000_000,
        outside_gid: 1_900_000_000,
        cgroup: CgroupFacts::V1 { memory: group("memory"), pids: group("pids"), cpu: group("cpu") },
        ..of_a_user()
    }
}

/// A host whose user was given a group of version 2.
pub(crate) fn with_version_2() -> HostFacts {
    let controllers = ["memory", "pids", "cpu"].map(str::to_owned).to_vec();
    let parent = "/sys/fs/cgroup/user.slice/run-1.scope".into();
    HostFacts { cgroup: CgroupFacts::V2 { parent, controllers }, ..of_a_user() }
}

/// A host path of user 1001.
pub(crate) fn shown(path: impl Into<ByteString>, access: Access) -> HostPathFacts {
    HostPathFacts {
        path: path.into(),
        access,
        is_dir: true,
        owner_uid: 1_001,
        owner_gid: 1_002,
        toolchain: false,
    }
}

/// A job under the default policy that sees `host_paths`.
pub(crate) fn spec(host: &HostFacts, host_paths: Vec<HostPathFacts>) -> SandboxSpec {
    let declared = host_paths.iter().map(|facts| HostPath {
        path: facts.path.clone(),
        access: facts.access,
        toolchain: facts.toolchain,
    });
    let policy = Policy { host_paths: declared.collect(), ..Policy::default() };
    let strictness = Strictness::default();
    SandboxSpec {
        job: JobId::parse("job-000000000001").expect("an id"),
        group: "bailiwick-0-job-000000000001".into(),
        disk: "/home/u/state/disks/ws-1/tree".into(),
        job_dir: "/home/u/state/jobs/job-000000000001".into(),
        argv: vec!["true".into()],
        env: Vec::new(),
        cwd: None,
        policy: resolve(&policy, &strictness, &host.capabilities()).expect("the defaults hold"),
        host_paths,
    }
}

/// Plans a job on `host`.
pub(crate) fn planned(host: &HostFacts, spec: &SandboxSpec) -> Result<Plan, PlanError> {
    plan(spec, host, &Skeleton::at("/home/u/state/skeleton/v1".into()))
}
