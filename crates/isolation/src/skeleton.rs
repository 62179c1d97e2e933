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
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Bumped when the content changes.
const GENERATION: u32 = 1;

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
    Ok(Skeleton::at(path.as_os_str().as_bytes().into()))
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
    fs::create_dir_all(parent)?;
    let draft = parent.join(format!(".draft-{}", std::process::id()));
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    build(&draft, host)?;
    match fs::rename(&draft, path) {
        // Another process was quicker; its skeleton is as good as ours.
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
    // Others' read bit: what only an owner or a group may read never enters a sandbox.
    if meta.mode() & 0o004 == 0 {
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
