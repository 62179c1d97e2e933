//! Host paths: those that a job may see (`--allow-host-path PATH[:ro|:rw]`, `--toolchain DIR`), and where artifacts go.
//!
//! A path is made absolute and resolved here, and refused where what it shows could not be bounded: the whole host, its
//! kernel's interfaces, and Bailiwick's own home. Whether a writable path's owner may be trusted is the provider's to say.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::policy::{Access, HostPath};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// What is never shown to a job, with whatever is below it.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Reads `--allow-host-path`.
///
/// # Errors
/// `host_path_missing` (1) where nothing is there, `host_path_denied` (3) where it cannot be allowed.
pub(super) fn allowed(argument: &OsString, home: &Path) -> Result<HostPath, Failure> {
    const FLAG: &str = "--allow-host-path";
    let (path, access) = split(argument);
    let path = resolve(FLAG, path).map_err(|failure| or_suffix(failure, path))?;
    check(FLAG, &path, home)?;
    Ok(HostPath { path: into_bytes(path), access, toolchain: false })
}

/// Reads `--toolchain`.
///
/// # Errors
/// As [`allowed`], and `host_path_missing` where it is no directory.
pub(super) fn toolchain(argument: &OsString, home: &Path) -> Result<HostPath, Failure> {
    const FLAG: &str = "--toolchain";
    let path = resolve(FLAG, argument)?;
    if !path.is_dir() {
        return Err(missing(FLAG, &path, "is not a directory"));
    }
    check(FLAG, &path, home)?;
    Ok(HostPath { path: into_bytes(path), access: Access::ReadOnly, toolchain: true })
}

/// Refuses to publish something in Bailiwick's own home.
///
/// # Errors
/// `destination_in_home`.
pub(crate) fn check_destination(flag: &str, path: &Path, home: &Path) -> Result<(), Failure> {
    let Ok(path) = std::path::absolute(path) else { return Ok(()) };
    // The last part is replaced, not followed; what it lies in is.
    let parent = path.parent().map(resolved_as_far_as_it_exists);
    if !parent.is_some_and(|parent| parent.starts_with(resolved_as_far_as_it_exists(home))) {
        return Ok(());
    }
    let message = format!("`{flag} {}` is refused: it lies in Bailiwick's home", shown(&path));
    Err(Failure::user("destination_in_home", message, "name a path outside the home"))
}

/// Splits the access off the end.
fn split(argument: &OsStr) -> (&OsStr, Access) {
    let bytes = argument.as_bytes();
    let with = |access| move |path| (OsStr::from_bytes(path), access);
    let read_only = bytes.strip_suffix(b":ro").map(with(Access::ReadOnly));
    let found = read_only.or_else(|| bytes.strip_suffix(b":rw").map(with(Access::ReadWrite)));
    found.unwrap_or((argument, Access::ReadOnly))
}

/// Names the suffixes that there are, where what is missing may end with another one.
fn or_suffix(failure: Failure, path: &OsStr) -> Failure {
    let last = path.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if !last.contains(&b':') {
        return failure;
    }
    Failure::user(
        failure.reason,
        failure.message,
        "the suffix of a path is `:ro` or `:rw`; before it, name a path that exists on this host",
    )
}

fn resolve(flag: &str, path: &OsStr) -> Result<PathBuf, Failure> {
    Path::new(path).canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => missing(flag, Path::new(path), "does not exist"),
        _ => missing(flag, Path::new(path), &format!("cannot be resolved: {error}")),
    })
}

fn missing(flag: &str, path: &Path, why: &str) -> Failure {
    let message = format!("`{flag} {}` {why}", shown(path));
    Failure::user("host_path_missing", message, "name a path that exists on this host")
}

fn check(flag: &str, path: &Path, home: &Path) -> Result<(), Failure> {
    let Some(why) = denied(path, &resolved_as_far_as_it_exists(home)) else { return Ok(()) };
    let message = format!("`{flag} {}` is refused: it {why}", shown(path));
    let advice =
        "allow the one directory that the job needs, outside the kernel's and Bailiwick's own";
    Err(Failure::new(ExitCode::PolicyDenied, "host_path_denied", message, advice))
}

/// Returns why a resolved path cannot be shown to a job; pure.
fn denied(path: &Path, home: &Path) -> Option<&'static str> {
    if path == Path::new("/") {
        return Some("is the whole host");
    }
    if KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
        return Some("belongs to the kernel");
    }
    if path.starts_with(home) {
        return Some("lies in Bailiwick's home");
    }
    home.starts_with(path).then_some("holds Bailiwick's home")
}

/// Resolves the part of `path` that exists already, and keeps the rest: a home is made when it is first used.
fn resolved_as_far_as_it_exists(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(resolved), Ok(rest)) = (ancestor.canonicalize(), path.strip_prefix(ancestor)) {
            return resolved.join(rest);
        }
    }
    path.to_owned()
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().flat_map(char::escape_debug).collect()
}

fn into_bytes(path: PathBuf) -> ByteString {
    path.into_os_string().into_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_is_the_end_of_the_argument() {
        let check = |argument: &str, path: &str, access| {
            assert_eq!(split(OsStr::new(argument)), (OsStr::new(path), access), "{argument}");
        };
        check("/a", "/a", Access::ReadOnly);
        check("/a:ro", "/a", Access::ReadOnly);
        check("/a:rw", "/a", Access::ReadWrite);
        check("/a:rw:ro", "/a:rw", Access::ReadOnly);
        check("/a:b", "/a:b", Access::ReadOnly);
        check(":rw", "", Access::ReadWrite);
    }

    #[test]
    fn what_cannot_be_bounded_is_denied() {
        let home = Path::new("/h/me/.local/state/bailiwick");
        let no = ["/", "/proc", "/proc/1", "/sys/fs", "/dev", "/dev/null", "/h", "/h/me/.local"];
        for path in
            no.into_iter().chain(["/h/me/.local/state/bailiwick", "/h/me/.local/state/bailiwick/x"])
        {
            assert!(denied(Path::new(path), home).is_some(), "{path}");
        }
        for path in ["/usr", "/process", "/h/me/code", "/h/me/.local/state/other"] {
            assert!(denied(Path::new(path), home).is_none(), "{path}");
        }
    }

    #[test]
    fn a_home_that_is_not_there_yet_is_resolved_as_far_as_it_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let real = folder.path().canonicalize().expect("it exists");
        std::os::unix::fs::symlink(&real, real.join("link")).expect("a link");
        assert_eq!(resolved_as_far_as_it_exists(&real.join("link/a/b")), real.join("a/b"));
    }
}
