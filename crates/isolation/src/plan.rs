//! Decides, from values alone, everything that starting a sandbox will do.
//!
//! A plan is printed, snapshot-tested and fuzzed without privileges; [`apply`](crate::apply::apply) and the supervisor
//! only carry it out. The order of operations and its pitfalls were measured on Linux 6.18; the sources of single steps
//! are pivot_root(2), mount_setattr(2), user_namespaces(7) and proc(5).
use crate::facts::{CgroupFacts, HostFacts, ProcMask, RootEntry};
use crate::skeleton::{LINKS, Skeleton};
use crate::spec::{HostPathFacts, SandboxSpec};
use bailiwick_contract::bytes::{ByteString, Secret};
use bailiwick_contract::enforcement::Mechanism;
use bailiwick_contract::policy::{Access, Limit, Network};
use core::fmt;
use serde::{Deserialize, Serialize};

/// The user and group id of a job, inside.
pub const INSIDE_ID: u32 = 1_000;

/// Inodes of a tmpfs; a directory entry costs the kernel about 1 KiB that a watch does not see.
const TMPFS_INODES: u64 = 16_384;

/// What starting one sandbox will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The name of the job's control groups.
    pub group: String,
    /// Where the supervisor works.
    pub job_dir: ByteString,
    /// The directory that becomes `/workspace`, for the watch.
    pub disk: ByteString,
    /// Who the job is, outside.
    pub identity: Identity,
    /// The detached trees, by the index that steps use.
    pub sources: Vec<Source>,
    /// What init does to its own mount, network and UTS namespaces, in this order.
    pub steps: Vec<Step>,
    /// The file rules of the payload's Landlock domain.
    pub landlock: Vec<LandlockRule>,
    /// The control groups, if there are any.
    pub groups: Option<GroupPlan>,
    /// The processors, by affinity; empty means all.
    pub affinity: Vec<u32>,
    /// The resource limits of the payload.
    pub rlimits: Rlimits,
    /// The command and its world.
    pub payload: PayloadPlan,
    /// What the supervisor watches and when it ends the job.
    pub watch: WatchPlan,
}

/// Who a job is, outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
    /// Whether root sets the sandbox up: it makes the trees, writes the maps and changes to `uid`.
    pub by_root: bool,
}

/// A part of the host that is cloned as a detached tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Its path on the host.
    pub path: ByteString,
    /// Whether it is read-only.
    pub read_only: bool,
    /// Whether it is a device node, which `nodev` would disable.
    pub device: bool,
    /// Whether a link on the way to it is refused: the path was resolved, and somebody may have put one there since.
    pub resolved: bool,
    /// The owner on disk that the job stands for, where root shows a writable path of somebody else's.
    pub owner: Option<(u32, u32)>,
}

/// One step of init.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Bring the loopback interface up.
    LoopbackUp,
    /// Set the host name.
    Hostname(String),
    /// Attach a source as the root that is being built.
    RootFrom(usize),
    /// Make the root that is being built an empty tmpfs.
    RootTmpfs,
    /// Make a directory, and its parents, in the root that is being built.
    MakeDir {
        /// Where, relative to the root.
        path: ByteString,
        /// Its mode.
        mode: u32,
    },
    /// Make an empty file to mount on.
    MakeFile(ByteString),
    /// Make a symbolic link.
    MakeLink {
        /// Where, relative to the root.
        path: ByteString,
        /// Where it points.
        target: ByteString,
    },
    /// Attach a source.
    Attach {
        /// Which.
        source: usize,
        /// Where, relative to the root.
        path: ByteString,
    },
    /// Mount a sized tmpfs.
    Tmpfs {
        /// Where, relative to the root.
        path: ByteString,
        /// Its size.
        bytes: u64,
        /// Its inodes.
        inodes: u64,
    },
    /// Mount a private set of pseudo-terminals.
    Devpts(ByteString),
    /// Mount the sandbox's own `/proc`.
    Proc(ByteString),
    /// Hide or protect an entry of `/proc`.
    Mask(ProcMask),
    /// Make the tmpfs root read-only.
    SealRoot,
    /// Make it the root, and let go of the host's.
    PivotRoot,
}

/// What a Landlock rule allows below a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandlockAccess {
    /// Read and execute.
    Read,
    /// Read, and write to what is there: devices, files of `/proc`.
    ReadWriteFile,
    /// Everything but devices; links and renames between directories too.
    All,
}

/// One rule of the payload's Landlock domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LandlockRule {
    /// Below what, inside.
    pub path: ByteString,
    /// What is allowed.
    pub access: LandlockAccess,
}

/// The control groups of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupPlan {
    /// Where they are made.
    pub facts: CgroupFacts,
    /// Bytes; none where the host's groups do not hold memory.
    pub memory_bytes: Option<u64>,
    /// Processes, init included.
    pub pids: Option<u64>,
    /// Thousandths of a core.
    pub cpu_milli: Option<u64>,
}

/// The resource limits of a payload (getrlimit(2)); soft and hard are equal unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimits {
    /// `RLIMIT_NPROC`, init included; none where a group holds it.
    pub nproc: Option<u64>,
    /// `RLIMIT_DATA`: a backstop where no group holds memory.
    pub data: Option<u64>,
    /// `RLIMIT_FSIZE`: a backstop for the watch.
    pub fsize: u64,
}

/// The command and its world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadPlan {
    /// The command.
    pub argv: Vec<ByteString>,
    /// `NAME=VALUE`, complete.
    pub env: Vec<Secret>,
    /// Directories in which a command without a slash is looked for.
    pub path: Vec<ByteString>,
    /// The working directory.
    pub cwd: ByteString,
}

/// What the supervisor watches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchPlan {
    /// From the payload's start; then the job is killed.
    pub wall_clock_ms: u64,
    /// Bytes of output that are kept.
    pub output_bytes: u64,
    /// Bytes of memory over which the job is killed; none where a group holds it.
    pub memory_bytes: Option<u64>,
    /// Processes at which an event is reported; none where a group counts them.
    pub pids: Option<u64>,
    /// Bytes on the disk over which the job is killed.
    pub storage_bytes: u64,
    /// Inodes on the disk over which the job is killed.
    pub inodes: u64,
}

/// Why no sandbox can be planned; nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A policy asks for a network that this mechanism does not have.
    #[error("a native sandbox has no network but a loopback of its own")]
    Network,
    /// A host path cannot be shown.
    #[error("the host path `{path}` cannot be shown to a job: {why}")]
    HostPath {
        /// The path, made printable.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// A text for the kernel has a NUL.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// What has it.
        what: &'static str,
    },
}

/// Decides how `spec` becomes a sandbox on the host that `host` describes, with `skeleton` as its root.
///
/// # Errors
/// [`PlanError`].
pub fn plan(spec: &SandboxSpec, host: &HostFacts, skeleton: &Skeleton) -> Result<Plan, PlanError> {
    if spec.policy.policy.network != Network::Disabled {
        return Err(PlanError::Network);
    }
    refuse_nul(spec)?;
    for path in &spec.host_paths {
        check_host_path(path, host)?;
    }
    let mut layout = Layout::default();
    layout.build(spec, host, skeleton);
    Ok(Plan {
        group: spec.group.clone(),
        job_dir: spec.job_dir.clone(),
        disk: spec.disk.clone(),
        identity: Identity { uid: host.outside_uid, gid: host.outside_gid, by_root: host.by_root },
        landlock: landlock_rules(spec, host),
        sources: layout.sources,
        steps: layout.steps,
        groups: groups(spec, host),
        affinity: affinity(spec, host),
        rlimits: rlimits(spec),
        payload: payload(spec, host),
        watch: watch(spec),
    })
}

fn refuse_nul(spec: &SandboxSpec) -> Result<(), PlanError> {
    let has_nul = |bytes: &ByteString| bytes.as_bytes().contains(&0);
    if spec.argv.iter().any(has_nul) {
        return Err(PlanError::Nul { what: "the command" });
    }
    if spec.env.iter().any(|var| var.name.contains('\0') || var.value.expose().contains(&0)) {
        return Err(PlanError::Nul { what: "a forwarded variable" });
    }
    Ok(())
}

/// Places inside that are ours: a host path there would replace a part of the sandbox.
const RESERVED: [&[u8]; 5] = [b"/proc", b"/sys", b"/dev", b"/etc", b"/workspace"];

/// Refuses a host path that no job may see, whatever else a plan holds.
///
/// # Errors
/// [`PlanError::HostPath`].
pub fn check_host_path(path: &HostPathFacts, host: &HostFacts) -> Result<(), PlanError> {
    let bytes = path.path.as_bytes();
    let why = if bytes == b"/" || bytes.first() != Some(&b'/') {
        "it is the whole file system, or not absolute"
    } else if bytes.contains(&0) || bytes.split(|byte| *byte == b'/').any(|part| part == b"..") {
        "it is not a resolved path"
    } else if RESERVED.iter().any(|reserved| is_below(bytes, reserved))
        || bytes == b"/tmp"
        || bytes == b"/tmp/home"
    {
        "the sandbox has its own there"
    } else if path.access == Access::ReadWrite && belongs_to_root(path) && host.by_root {
        "it is writable and belongs to root or its group, so a job could leave a file with root's rights on the host"
    } else {
        return Ok(());
    };
    Err(PlanError::HostPath { path: path.path.to_text().escape_debug().to_string(), why })
}

fn belongs_to_root(path: &HostPathFacts) -> bool {
    path.owner_uid == 0 || path.owner_gid == 0
}

fn is_below(path: &[u8], parent: &[u8]) -> bool {
    path.strip_prefix(parent).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Collects sources and steps.
#[derive(Default)]
struct Layout {
    sources: Vec<Source>,
    steps: Vec<Step>,
}

/// Device nodes of a sandbox; the others of the host are not there.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

impl Layout {
    fn build(&mut self, spec: &SandboxSpec, host: &HostFacts, skeleton: &Skeleton) {
        self.steps.push(Step::LoopbackUp);
        self.steps.push(Step::Hostname("bailiwick".into()));
        let mut extra: Vec<&HostPathFacts> =
            spec.host_paths.iter().filter(|path| !is_shown_anyway(path, spec, host)).collect();
        // A path sorts after its parents, which would hide it if they were mounted later.
        extra.sort_by(|one, other| one.path.cmp(&other.path));
        let sealed = extra.iter().any(|path| needs_own_root(path, host));
        if sealed {
            self.tmpfs_root(host, skeleton);
        } else {
            let source = self.source(skeleton.path().clone(), true, false);
            self.steps.push(Step::RootFrom(source));
        }
        self.toolchain(host);
        let disk = self.source(spec.disk.clone(), false, false);
        self.attach(disk, "workspace");
        self.memory_file_systems(spec);
        self.devices();
        self.proc(host);
        for (index, path) in extra.iter().enumerate() {
            let has_place = lies_in_toolchain(path, host) || lies_in_any(path, &extra[..index]);
            self.host_path(path, has_place, host);
        }
        if sealed {
            self.steps.push(Step::SealRoot);
        }
        self.steps.push(Step::PivotRoot);
    }

    fn source(&mut self, path: ByteString, read_only: bool, device: bool) -> usize {
        self.sources.push(Source { path, read_only, device, resolved: false, owner: None });
        self.sources.len() - 1
    }

    fn attach(&mut self, source: usize, path: &str) {
        self.steps.push(Step::Attach { source, path: path.into() });
    }

    /// Builds the skeleton's tree by hand, so that further mount points can be made in it.
    fn tmpfs_root(&mut self, host: &HostFacts, skeleton: &Skeleton) {
        self.steps.push(Step::RootTmpfs);
        for path in ["etc", "dev", "proc", "tmp", "workspace", "var/empty"] {
            self.steps.push(Step::MakeDir { path: path.into(), mode: 0o755 });
        }
        for entry in &host.root_entries {
            self.steps.push(match entry {
                RootEntry::Dir(name) => Step::MakeDir { path: name.clone(), mode: 0o755 },
                RootEntry::Link { name, target } => {
                    Step::MakeLink { path: name.clone(), target: target.clone() }
                }
            });
        }
        for part in ["etc", "dev", "var/empty"] {
            let source = self.source(skeleton.part(part), true, false);
            self.attach(source, part);
        }
    }

    fn toolchain(&mut self, host: &HostFacts) {
        for entry in &host.root_entries {
            if let RootEntry::Dir(name) = entry {
                let path = [b"/", name.as_bytes()].concat();
                let source = self.source(path.into(), true, false);
                self.steps.push(Step::Attach { source, path: name.clone() });
            }
        }
    }

    /// Each tmpfs may take half of the memory; both are charged to it.
    fn memory_file_systems(&mut self, spec: &SandboxSpec) {
        let bytes = (spec.policy.policy.budget.memory_bytes / 2).max(4_096);
        for path in ["tmp", "dev/shm"] {
            self.steps.push(Step::Tmpfs { path: path.into(), bytes, inodes: TMPFS_INODES });
        }
        self.steps.push(Step::MakeDir { path: "tmp/home".into(), mode: 0o700 });
    }

    fn devices(&mut self) {
        for name in DEVICES {
            let source = self.source(format!("/dev/{name}").into(), true, true);
            self.attach(source, &format!("dev/{name}"));
        }
        self.steps.push(Step::Devpts("dev/pts".into()));
    }

    fn proc(&mut self, host: &HostFacts) {
        self.steps.push(Step::Proc("proc".into()));
        self.steps.extend(host.proc_masks.iter().cloned().map(Step::Mask));
    }

    fn host_path(&mut self, path: &HostPathFacts, has_place: bool, host: &HostFacts) {
        let read_only = path.access == Access::ReadOnly;
        let source = self.source(path.path.clone(), read_only, false);
        self.sources[source].resolved = true;
        if host.by_root && !read_only {
            self.sources[source].owner = Some((path.owner_uid, path.owner_gid));
        }
        let inside: ByteString = path.path.as_bytes()[1..].into();
        if !has_place {
            self.steps.push(if path.is_dir {
                Step::MakeDir { path: inside.clone(), mode: 0o755 }
            } else {
                Step::MakeFile(inside.clone())
            });
        }
        self.steps.push(Step::Attach { source, path: inside });
    }
}

fn lies_in_toolchain(path: &HostPathFacts, host: &HostFacts) -> bool {
    host.root_entries.iter().any(|entry| match entry {
        RootEntry::Dir(name) => is_below(&path.path.as_bytes()[1..], name.as_bytes()),
        RootEntry::Link { .. } => false,
    })
}

/// Whether `path` lies in one of `others`; a parent that is mounted already holds a place for it.
fn lies_in_any(path: &HostPathFacts, others: &[&HostPathFacts]) -> bool {
    others.iter().any(|other| is_below(path.path.as_bytes(), other.path.as_bytes()))
}

/// Whether the toolchain shows `path` as it was asked for: read-only, and in no path that is writable.
fn is_shown_anyway(path: &HostPathFacts, spec: &SandboxSpec, host: &HostFacts) -> bool {
    let writable = |other: &&HostPathFacts| other.access == Access::ReadWrite;
    let writable: Vec<_> = spec.host_paths.iter().filter(writable).collect();
    path.access == Access::ReadOnly
        && lies_in_toolchain(path, host)
        && !lies_in_any(path, &writable)
}

/// Whether the read-only skeleton has no place to mount `path` on.
fn needs_own_root(path: &HostPathFacts, host: &HostFacts) -> bool {
    !lies_in_toolchain(path, host) && !is_below(path.path.as_bytes(), b"/tmp")
}

fn landlock_rules(spec: &SandboxSpec, host: &HostFacts) -> Vec<LandlockRule> {
    let rule = |path: &str, access| LandlockRule { path: path.into(), access };
    let mut rules = vec![
        rule("/", LandlockAccess::Read),
        rule("/workspace", LandlockAccess::All),
        rule("/tmp", LandlockAccess::All),
        rule("/dev/shm", LandlockAccess::All),
        rule("/dev", LandlockAccess::ReadWriteFile),
        rule("/proc", LandlockAccess::ReadWriteFile),
    ];
    let writable = spec.host_paths.iter().filter(|path| path.access == Access::ReadWrite);
    rules.extend(writable.map(|path| LandlockRule {
        path: path.path.clone(),
        access: if path.is_dir { LandlockAccess::All } else { LandlockAccess::ReadWriteFile },
    }));
    if host.landlock_abi < 2 { Vec::new() } else { rules }
}

fn held_by_group(spec: &SandboxSpec, limit: Limit) -> bool {
    let mechanism = spec.policy.enforcement(limit).mechanism;
    matches!(mechanism, Mechanism::CgroupV1 | Mechanism::CgroupV2)
}

fn groups(spec: &SandboxSpec, host: &HostFacts) -> Option<GroupPlan> {
    let budget = &spec.policy.policy.budget;
    let plan = GroupPlan {
        facts: host.cgroup.clone(),
        memory_bytes: held_by_group(spec, Limit::Memory).then_some(budget.memory_bytes),
        // Init is one of them.
        pids: held_by_group(spec, Limit::Pids).then_some(budget.pids.saturating_add(1)),
        cpu_milli: held_by_group(spec, Limit::Cpu).then_some(budget.cpu_milli),
    };
    let any = plan.memory_bytes.or(plan.pids).or(plan.cpu_milli).is_some();
    any.then_some(plan)
}

/// Takes ⌈n⌉ processors, beginning at one that the job's id chooses, so that sandboxes spread.
fn affinity(spec: &SandboxSpec, host: &HostFacts) -> Vec<u32> {
    let wanted = spec.policy.policy.budget.cpu_milli.div_ceil(1_000);
    let available = host.cpus.len();
    let Ok(wanted) = usize::try_from(wanted) else { return Vec::new() };
    if held_by_group(spec, Limit::Cpu) || wanted >= available {
        return Vec::new();
    }
    let seed: usize = spec.job.as_str().bytes().map(usize::from).sum();
    (0..wanted).map(|index| host.cpus[(seed + index) % available]).collect()
}

fn rlimits(spec: &SandboxSpec) -> Rlimits {
    let budget = &spec.policy.policy.budget;
    let nproc = !held_by_group(spec, Limit::Pids);
    let data = !held_by_group(spec, Limit::Memory);
    // Twice the limit: a bound for what the watch does not catch in time.
    const SLACK_BYTES: u64 = 64 << 20;
    Rlimits {
        nproc: nproc.then_some(budget.pids.saturating_add(1)),
        data: data.then_some(budget.memory_bytes.saturating_mul(2)),
        fsize: budget.storage_bytes.saturating_add(budget.storage_bytes.max(SLACK_BYTES)),
    }
}

fn payload(spec: &SandboxSpec, host: &HostFacts) -> PayloadPlan {
    let toolchains = spec.host_paths.iter().filter(|path| path.toolchain);
    let mut path: Vec<ByteString> = toolchains
        .flat_map(|path| [[path.path.as_bytes(), b"/bin"].concat().into(), path.path.clone()])
        .collect();
    path.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(ByteString::from));
    if !host.links.is_empty() {
        path.push(format!("/{LINKS}").into());
    }
    PayloadPlan {
        argv: spec.argv.clone(),
        env: environment(spec, &path),
        path,
        cwd: working_directory(spec),
    }
}

fn working_directory(spec: &SandboxSpec) -> ByteString {
    let below = spec.cwd.iter().flat_map(|cwd| [b"/", cwd.as_bytes()]);
    [b"/workspace".as_slice()].into_iter().chain(below).collect::<Vec<_>>().concat().into()
}

fn environment(spec: &SandboxSpec, path: &[ByteString]) -> Vec<Secret> {
    let joined = path.iter().map(ByteString::as_bytes).collect::<Vec<_>>().join(&b':');
    let base: [(&str, &[u8]); 5] = [
        ("PATH", &joined),
        ("HOME", b"/tmp/home"),
        ("USER", b"agent"),
        ("LANG", b"C.UTF-8"),
        ("TMPDIR", b"/tmp"),
    ];
    let forwarded = |name: &str| spec.env.iter().any(|var| var.name == name);
    let ours = base.into_iter().filter(|(name, _)| !forwarded(name));
    let theirs = spec.env.iter().map(|var| (var.name.as_str(), var.value.expose()));
    ours.chain(theirs)
        .map(|(name, value)| Secret::new([name.as_bytes(), b"=", value].concat()))
        .collect()
}

fn watch(spec: &SandboxSpec) -> WatchPlan {
    let budget = &spec.policy.policy.budget;
    WatchPlan {
        wall_clock_ms: budget.wall_clock_ms,
        output_bytes: budget.output_bytes,
        memory_bytes: (!held_by_group(spec, Limit::Memory)).then_some(budget.memory_bytes),
        pids: (!held_by_group(spec, Limit::Pids)).then_some(budget.pids),
        storage_bytes: budget.storage_bytes,
        inodes: budget.inodes(),
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |bytes: &ByteString| format!("/{}", bytes.as_bytes().escape_ascii());
        match self {
            Self::LoopbackUp => write!(f, "bring the loopback interface up"),
            Self::Hostname(name) => write!(f, "set the host name {name}"),
            Self::RootFrom(source) => write!(f, "attach source {source} as the new root"),
            Self::RootTmpfs => write!(f, "make a tmpfs the new root"),
            Self::MakeDir { path, mode } => write!(f, "make directory {} ({mode:o})", shown(path)),
            Self::MakeFile(path) => write!(f, "make file {}", shown(path)),
            Self::MakeLink { path, target } => {
                write!(f, "link {} to {}", shown(path), target.as_bytes().escape_ascii())
            }
            Self::Attach { source, path } => write!(f, "attach source {source} at {}", shown(path)),
            Self::Tmpfs { path, bytes, inodes } => {
                write!(f, "mount tmpfs at {} ({bytes} bytes, {inodes} inodes)", shown(path))
            }
            Self::Devpts(path) => write!(f, "mount devpts at {}", shown(path)),
            Self::Proc(path) => write!(f, "mount proc at {}", shown(path)),
            Self::Mask(ProcMask::File(name)) => write!(f, "hide file /proc/{name}"),
            Self::Mask(ProcMask::Dir(name)) => write!(f, "hide directory /proc/{name}"),
            Self::Mask(ProcMask::ReadOnly(name)) => write!(f, "make /proc/{name} read-only"),
            Self::SealRoot => write!(f, "make the new root read-only"),
            Self::PivotRoot => write!(f, "pivot to the new root and drop the old one"),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = if self.read_only { "ro" } else { "rw" };
        let device = if self.device { "" } else { ",nodev" };
        write!(f, "{} ({access},nosuid{device})", self.path.as_bytes().escape_ascii())
    }
}
