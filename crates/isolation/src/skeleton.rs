//! The root of every sandbox: a small read-only tree of mount points and a curated `/etc`, built once a home.
//!
//! It holds no secret and no host key: accounts are invented, and only files that anybody may read are copied. It is
//! named by what it was made from, so that a changed `ld.so.cache` or certificate store makes a new one.
use crate::facts::{HostFacts, RootEntry};
use bailiwick_contract::bytes::ByteString;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bumped when the content changes.
const GENERATION: u32 = 2;

/// Where commands lie that are offered under a second name; last in a job's `PATH`.
pub(crate) const LINKS: &str = "etc/bailiwick/bin";

/// Files and directories of the host's `/etc` that a toolchain needs; copied, links as links.
const ETC: [&str; 15] = [
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "debian_version",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "mime.types",
    "os-release",
    "protocols",
    "services",
    "shells",
    "ssl/certs",
    "timezone",
];

/// What decides whether a skeleton is still current.
const STAMPED: [&str; 4] =
    ["/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/localtime"];

/// A built skeleton.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skeleton {
    path: ByteString,
}

impl Skeleton {
    /// Takes a path at which a skeleton has been built.
    #[must_use]
    pub const fn at(path: ByteString) -> Self {
        Self { path }
    }

    /// Returns where it is.
    #[must_use]
    pub const fn path(&self) -> &ByteString {
        &self.path
    }

    /// Returns where one of its directories is.
    #[must_use]
    pub fn part(&self, name: &str) -> ByteString {
        [self.path.as_bytes(), b"/", name.as_bytes()].concat().into()
    }
}

/// Returns the current skeleton below `parent`, building it where it is missing.
///
/// # Errors
/// What could not be made; no half-built skeleton is ever found later.
pub fn current(parent: &Path, host: &HostFacts) -> io::Result<Skeleton> {
    let path = parent.join(stamp());
    if !path.is_dir() {
        build_at(parent, &path, host)?;
    }
    Ok(named(parent))
}

/// Returns the skeleton that would be current below `parent`; makes nothing.
#[must_use]
pub fn named(parent: &Path) -> Skeleton {
    Skeleton::at(parent.join(stamp()).as_os_str().as_bytes().into())
}

/// Names a skeleton by generation and by size and time of what it copies.
fn stamp() -> String {
    let mut name = format!("v{GENERATION}");
    for path in STAMPED {
        // What is missing stamps as 0, so that it is noticed when it appears.
        let (size, mtime) =
            fs::metadata(path).map(|meta| (meta.size(), meta.mtime())).unwrap_or_default();
        name.push_str(&format!("-{size:x}.{mtime:x}"));
    }
    name
}

fn build_at(parent: &Path, path: &Path, host: &HostFacts) -> io::Result<()> {
    // Only the owner's, whatever the umask: its content becomes the root of every job.
    fs::DirBuilder::new().mode(0o700).recursive(true).create(parent)?;
    static DRAFTS: AtomicU32 = AtomicU32::new(0);
    let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
    let draft = parent.join(format!(".draft-{}-{number}", std::process::id()));
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    build(&draft, host)?;
    match fs::rename(&draft, path) {
        // Somebody else was quicker; that skeleton is as good as ours.
        Err(_) if path.is_dir() => fs::remove_dir_all(&draft),
        other => other,
    }
}

fn build(root: &Path, host: &HostFacts) -> io::Result<()> {
    for dir in ["etc", "proc", "tmp", "workspace", "var/empty", "dev/pts", "dev/shm"] {
        fs::create_dir_all(root.join(dir))?;
    }
    for name in ["null", "zero", "full", "random", "urandom", "tty"] {
        fs::write(root.join("dev").join(name), b"")?;
    }
    let links = [
        ("dev/fd", "/proc/self/fd"),
        ("dev/stdin", "/proc/self/fd/0"),
        ("dev/stdout", "/proc/self/fd/1"),
        ("dev/stderr", "/proc/self/fd/2"),
        ("dev/ptmx", "pts/ptmx"),
    ];
    for (link, target) in links {
        symlink(target, root.join(link))?;
    }
    for entry in &host.root_entries {
        match entry {
            RootEntry::Dir(name) => fs::create_dir_all(root.join(os(name)))?,
            RootEntry::Link { name, target } => symlink(os(target), root.join(os(name)))?,
        }
    }
    etc(&root.join("etc"))?;
    fs::create_dir_all(root.join(LINKS))?;
    for link in &host.links {
        symlink(os(&link.target), root.join(LINKS).join(&link.name))?;
    }
    open_to_all(root)
}

fn etc(etc: &Path) -> io::Result<()> {
    let files = [
        (
            "passwd",
            "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\nagent:x:1000:1000:agent:/tmp/home:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
        ),
        ("group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
        ("hosts", "127.0.0.1\tlocalhost bailiwick\n::1\tlocalhost ip6-localhost\n"),
        ("hostname", "bailiwick\n"),
        ("resolv.conf", ""),
        ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ];
    for (name, text) in files {
        fs::write(etc.join(name), text)?;
    }
    for name in ETC {
        copy_public(&Path::new("/etc").join(name), &etc.join(name))?;
    }
    Ok(())
}

/// Copies what anybody may read; what is missing, special or private is left out.
fn copy_public(from: &Path, to: &Path) -> io::Result<()> {
    let Ok(meta) = fs::symlink_metadata(from) else { return Ok(()) };
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    if meta.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    // Others' bits: what only an owner or a group may read, or reach, never enters a sandbox.
    let needed = if meta.is_dir() { 0o005 } else { 0o004 };
    if meta.mode() & needed != needed {
        return Ok(());
    }
    if meta.is_file() {
        return fs::copy(from, to).map(drop);
    }
    if meta.is_dir() {
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy_public(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Makes every part readable inside, whatever the umask was: the job is another user than the skeleton's owner.
fn open_to_all(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let executable = meta.is_dir() || meta.mode() & 0o111 != 0;
    let mode = if executable { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            open_to_all(&entry?.path())?;
        }
    }
    Ok(())
}

fn os(bytes: &ByteString) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};

    fn plant(root: &Path, name: &str, mode: u32) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, name).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
    }

    fn close(root: &Path, name: &str, mode: u32) {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("its mode");
    }

    /// Every path under `root`, relative to it, in order.
    fn listed(root: &Path, below: &Path, found: &mut Vec<String>) {
        let entries = fs::read_dir(root.join(below)).expect("listed");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        for name in names {
            let path = below.join(name);
            found.push(path.to_str().expect("UTF-8").to_owned());
            let meta = fs::symlink_metadata(root.join(&path)).expect("looked at");
            if meta.is_dir() {
                listed(root, &path, found);
            }
        }
    }

    #[test]
    fn what_not_everybody_may_read_is_not_copied() {
        let host = tempfile::tempdir().expect("a directory");
        let etc = host.path().join("etc");
        plant(&etc, "public", 0o644);
        plant(&etc, "tool", 0o755);
        plant(&etc, "shadow", 0o640);
        plant(&etc, "key", 0o600);
        plant(&etc, "ssl/cert", 0o444);
        plant(&etc, "ssl/private/public-in-private", 0o644);
        plant(&etc, "listed/public-out-of-reach", 0o644);
        symlink("/etc/shadow", etc.join("link")).expect("a link");
        mkfifoat(CWD, etc.join("fifo"), Mode::from_raw_mode(0o644)).expect("a FIFO");
        close(&etc, "ssl/private", 0o700);
        close(&etc, "listed", 0o754);
        let copy = host.path().join("copy");
        copy_public(&etc, &copy).expect("copied");
        let mut found = Vec::new();
        listed(&copy, Path::new(""), &mut found);
        assert_eq!(found, ["link", "public", "ssl", "ssl/cert", "tool"]);
        let target = fs::read_link(copy.join("link")).expect("still a link");
        assert_eq!(target, Path::new("/etc/shadow"));
    }

    #[test]
    fn what_is_missing_is_left_out() {
        let host = tempfile::tempdir().expect("a directory");
        copy_public(&host.path().join("none"), &host.path().join("copy")).expect("nothing to do");
        assert!(!host.path().join("copy").exists());
    }
}
