//! Everything here a second time, as an ordinary user, where root runs it.
use crate::world::{SUPERVISOR, is_root, supervisor};
use bailiwick_testkit::User;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

#[test]
fn all_of_this_holds_for_an_ordinary_user() {
    if !is_root() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("bailiwick-it-").tempdir().expect("a folder");
    let mode = |path: &std::path::Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own file");
    };
    mode(folder.path(), 0o755);
    let own = std::env::current_exe().expect("this test has a path");
    let (program, helper) = (folder.path().join("it"), folder.path().join("bailiwick-supervisor"));
    for (from, to) in [(&own, &program), (&supervisor(), &helper)] {
        fs::copy(from, to).expect("a copy");
        mode(to, 0o755);
    }
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    mode(&temporary, 0o1777);
    let output = User::Ordinary
        .command(&program)
        .args(["--test-threads", "2"])
        .env(SUPERVISOR, &helper)
        .env("TMPDIR", &temporary)
        .current_dir(&temporary)
        .output()
        .expect("setpriv is there");
    let text = String::from_utf8_lossy(&output.stdout);
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "as an ordinary user:\n{text}\n{words}");
}
