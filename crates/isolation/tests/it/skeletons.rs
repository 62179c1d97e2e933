//! The root of sandboxes, as it lies on disk, built by several at once and under any umask.
use crate::hosts::of_a_user;
use bailiwick_isolation::skeleton::current;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Barrier;

/// Tells the copy of this test that is a child where to build.
const PARENT: &str = "BAILIWICK_TEST_SKELETONS";
const CHILD: &str = "skeletons::what_a_child_does";

#[test]
#[expect(clippy::disallowed_methods, reason = "a test has its own variables")]
fn what_a_child_does() {
    // Without the variable this is no child, and there is nothing to do.
    if let Some(parent) = std::env::var_os(PARENT) {
        current(Path::new(&parent), &of_a_user()).expect("a skeleton");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test starts itself")]
fn child(parent: &Path, umask: &str) -> Child {
    let own = std::env::current_exe().expect("this test has a path");
    Command::new("sh")
        .args(["-c", &format!("umask {umask}; exec \"$0\" --exact {CHILD}")])
        .arg(own)
        .env(PARENT, parent)
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("a shell")
}

fn only_entry(parent: &Path) -> std::path::PathBuf {
    let entries: Vec<_> = fs::read_dir(parent).expect("listed").map(|e| e.expect("one")).collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
    entries[0].path()
}

#[test]
fn processes_that_race_build_one_skeleton() {
    let parent = tempfile::tempdir().expect("a directory");
    let children: Vec<Child> = (0..4).map(|_| child(parent.path(), "022")).collect();
    for mut child in children {
        assert!(child.wait().expect("waited").success());
    }
    assert!(only_entry(parent.path()).join("etc/passwd").is_file());
}

#[test]
fn threads_that_race_build_one_skeleton() {
    let parent = tempfile::tempdir().expect("a directory");
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                current(parent.path(), &of_a_user()).expect("a skeleton");
            });
        }
    });
    assert!(only_entry(parent.path()).join("etc/passwd").is_file());
}

#[test]
fn everybody_can_read_it_whatever_the_umask_was() {
    let parent = tempfile::tempdir().expect("a directory");
    assert!(child(parent.path(), "077").wait().expect("waited").success());
    let mut pending = vec![only_entry(parent.path())];
    while let Some(path) = pending.pop() {
        let meta = fs::symlink_metadata(&path).expect("looked at");
        if meta.is_symlink() {
            continue;
        }
        let mode = meta.permissions().mode() & 0o7777;
        let allowed: &[u32] = if meta.is_dir() { &[0o755] } else { &[0o644, 0o755] };
        assert!(allowed.contains(&mode), "{} has {mode:o}", path.display());
        if meta.is_dir() {
            pending.extend(fs::read_dir(&path).expect("listed").map(|e| e.expect("one").path()));
        }
    }
}

#[test]
fn no_account_or_secret_of_the_host_is_in_it() {
    let parent = tempfile::tempdir().expect("a directory");
    current(parent.path(), &of_a_user()).expect("a skeleton");
    let etc = only_entry(parent.path()).join("etc");
    for name in ["shadow", "gshadow", "sudoers", "ssh", "machine-id", "fstab", "ssl/private"] {
        assert!(!etc.join(name).exists(), "{name}");
    }
    let passwd = fs::read_to_string(etc.join("passwd")).expect("accounts");
    let names: Vec<_> = passwd.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(names, ["root", "agent", "nobody"]);
}
