//! The host's facts, probed by the supervisor's program and cached in `host.json`.
//!
//! They hold for one boot, one user, one pair of namespaces, one control group and one version of the program; anything else
//! probes again. The
//! outside id of a home that root owns is kept across probes, since the disks belong to it.
use super::home::Home;
use super::{NativeOptions, trouble};
use bailiwick_contract::artifact::Digest;
use bailiwick_contract::provider::ProviderError;
use bailiwick_isolation::facts::{CgroupFacts, HostFacts};
use bailiwick_isolation::spawn::Supervisor;
use bailiwick_isolation::{spawn, wire};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{self, Read as _, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the facts, from the cache if they still hold.
pub(super) fn facts(home: &Home, options: &NativeOptions) -> Result<HostFacts, ProviderError> {
    home.ensure()?;
    let key = key(options);
    let cached = read(&home.host_facts());
    if let Some(facts) = cached.as_ref().filter(|facts| facts.key == key) {
        return Ok(facts.clone());
    }
    let mut facts = probe(&options.supervisor, &key, options.seed)?;
    if options.without_cgroups {
        facts.cgroup = CgroupFacts::Absent;
    }
    agree(home, facts).map_err(trouble::on("write the host's facts to", &home.host_facts()))
}

/// Writes what was found, unless somebody else was quicker: callers that use a new home at once have to agree on the outside
/// id, or the jobs of some could not enter the disks of others. Whoever holds the lock reads and writes one small file.
fn agree(home: &Home, mut facts: HostFacts) -> io::Result<HostFacts> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let lock = openat(CWD, home.path(), flags, Mode::empty())?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let cached = read(&home.host_facts());
    if let Some(found) = cached.as_ref().filter(|found| found.key == facts.key) {
        return Ok(found.clone());
    }
    let kept =
        cached.map(|old| (old.outside_uid, old.outside_gid)).or_else(|| owner_of_disks(home));
    if let Some(ids) = kept.filter(|_| facts.by_root) {
        (facts.outside_uid, facts.outside_gid) = ids;
    }
    write(&home.host_facts(), &facts)?;
    Ok(facts)
}

/// Returns whose the disks are, where there are any: a lost cache must not give the jobs another id.
fn owner_of_disks(home: &Home) -> Option<(u32, u32)> {
    let disks = fs::read_dir(home.path().join("disks")).ok()?.flatten();
    let trees = disks.filter_map(|disk| fs::symlink_metadata(disk.path().join("tree")).ok());
    trees.map(|tree| (tree.uid(), tree.gid())).find(|(uid, _)| *uid != 0)
}

/// Names what the facts hold for.
fn key(options: &NativeOptions) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // A caller's groups are made below its own, so that limits around it hold for its jobs too.
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = Digest::new(Sha256::digest(&own).into());
    let namespace = |name: &str| {
        fs::read_link(format!("/proc/self/ns/{name}"))
            .map(|link| link.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    format!(
        "{} {} {} {} {} {} {} {own}",
        boot.trim(),
        rustix::process::geteuid().as_raw(),
        namespace("mnt"),
        namespace("cgroup"),
        env!("CARGO_PKG_VERSION"),
        wire::WIRE_VERSION,
        if options.without_cgroups { "no-cgroups" } else { "cgroups" },
    )
}

/// A pipe or a device in the place of the file is no cache, and opening it waits for nobody.
fn read(path: &Path) -> Option<HostFacts> {
    let nonblock = OFlags::NONBLOCK.bits().cast_signed();
    let mut file = fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

fn write(path: &Path, facts: &HostFacts) -> io::Result<()> {
    // Several providers of one process may share a home.
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&serde_json::to_vec(facts)?)?;
    fs::rename(&draft, path)
}

fn probe(supervisor: &Path, key: &str, seed: u32) -> Result<HostFacts, ProviderError> {
    let answer = spawn::ask(supervisor, &["--probe", key, &seed.to_string()])
        .map_err(|error| missing(supervisor, &error))?;
    serde_json::from_str(&answer).map_err(|_| ProviderError::Supervisor {
        message: format!(
            "the supervisor at `{}` is another version than this program",
            trouble::printable(supervisor)
        ),
    })
}

/// Starts the supervisor's program.
pub(super) fn start(supervisor: &Path) -> Result<Supervisor, ProviderError> {
    Supervisor::start(supervisor).map_err(|error| missing(supervisor, &error))
}

/// Says that the supervisor's program cannot be started.
pub(super) fn missing(supervisor: &Path, error: &io::Error) -> ProviderError {
    let path = trouble::printable(supervisor);
    ProviderError::Supervisor {
        message: format!("the supervisor `{path}` cannot be started: {error}"),
    }
}
