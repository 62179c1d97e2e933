//! Host paths as jobs see them: read-only or writable, with the owner that the host knows, and refused where they would
//! give more than was asked for.
use crate::world::{World, is_root, showing};
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::policy::Access::{ReadOnly, ReadWrite};
use bailiwick_contract::policy::{Access, Policy};
use bailiwick_contract::provider::ProviderError;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Somebody who is nobody on this host.
const OWNER: (u32, u32) = (54_321, 54_322);

/// Gives `path` to somebody else than root, where root asks.
fn give(path: &Path) {
    if is_root() {
        chown(path, Some(OWNER.0), Some(OWNER.1)).expect("root may");
    }
}

/// A directory of the host with a file in it.
fn shared(parent: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(parent).expect("a directory");
    let path = dir.path().canonicalize().expect("resolved");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    fs::write(path.join("f"), "host\n").expect("a file");
    give(&path);
    give(&path.join("f"));
    (dir, path)
}

/// Below the sandbox's own `/tmp`, and where a root of its own is needed.
const PLACES: [&str; 2] = ["/tmp", "/var/tmp"];

#[test]
fn a_read_only_path_can_be_read_and_not_changed() {
    for place in PLACES {
        let (_dir, path) = shared(place);
        let world = World::under(&showing(&[(&path, ReadOnly)]));
        let shown = path.display();
        let done = world.sh(&format!(
            "cat {shown}/f; exec 2>&1; echo x > {shown}/g; echo x > {shown}/f; rm -f {shown}/f
             chmod 777 {shown}/f; mv {shown}/f {shown}/h; ln -s a {shown}/l; : >> {shown}/f"
        ));
        assert!(done.text.starts_with("host\n"), "{}", done.text);
        assert_eq!(done.text.lines().count(), 8, "each was refused: {}", done.text);
        let refused = |line: &str| line.contains("Read-only") || line.contains("denied");
        assert!(done.text.lines().skip(1).all(refused), "{}", done.text);
        assert_eq!(fs::read(path.join("f")).expect("still there"), b"host\n");
        assert_eq!(fs::read_dir(&path).expect("listed").count(), 1);
    }
}

#[test]
fn a_writable_path_is_written_as_its_owner() {
    for place in PLACES {
        let (_dir, path) = shared(place);
        let world = World::under(&showing(&[(&path, ReadWrite)]));
        let shown = path.display();
        let done = world.sh(&format!(
            "stat -c %u:%g {shown} {shown}/f; cd {shown}; echo more >> f; echo new > g
             mkdir d && mv g d/g && cat d/g"
        ));
        assert_eq!(done.outcome.status, JobStatus::Success, "{}", done.text);
        assert_eq!(done.text, "1000:1000\n1000:1000\nnew\n");
        assert_eq!(fs::read(path.join("f")).expect("there"), b"host\nmore\n");
        let owner = fs::metadata(&path).expect("there");
        for name in ["f", "d", "d/g"] {
            let meta = fs::metadata(path.join(name)).expect("there");
            assert_eq!((meta.uid(), meta.gid()), (owner.uid(), owner.gid()), "{name}");
        }
    }
}

#[test]
fn a_single_file_can_be_shown() {
    for access in [ReadOnly, ReadWrite] {
        let (_dir, path) = shared("/var/tmp");
        let file = path.join("f");
        let world = World::under(&showing(&[(&file, access)]));
        let done = world.sh(&format!(
            "cat {0}; exec 2> /dev/null; (echo x > {0}); ls {1}",
            file.display(),
            path.display()
        ));
        assert_eq!(done.text, "host\nf\n");
        let expected: &[u8] = if access == ReadOnly { b"host\n" } else { b"x\n" };
        assert_eq!(fs::read(&file).expect("there"), expected);
    }
}

#[test]
fn a_read_only_part_of_a_writable_path_stays_read_only_in_any_order() {
    let (_dir, path) = shared("/var/tmp");
    let part = path.join("part");
    fs::create_dir(&part).expect("a directory");
    give(&part);
    let orders: [[(&Path, Access); 2]; 2] =
        [[(&path, ReadWrite), (&part, ReadOnly)], [(&part, ReadOnly), (&path, ReadWrite)]];
    for order in orders {
        let world = World::under(&showing(&order));
        let shown = path.display();
        let done = world.sh(&format!(
            "exec 2> /dev/null; echo y > {shown}/g && echo outer
             (echo y > {shown}/part/g) || echo inner; mv {shown}/part {shown}/moved || echo kept"
        ));
        assert_eq!(done.text, "outer\ninner\nkept\n");
        assert_eq!(fs::read_dir(&part).expect("listed").count(), 0);
    }
}

#[test]
fn what_belongs_to_somebody_else_in_a_writable_path_cannot_be_written() {
    if !is_root() {
        return;
    }
    let (_dir, path) = shared("/var/tmp");
    fs::write(path.join("roots"), "root\n").expect("a file");
    let world = World::under(&showing(&[(&path, ReadWrite)]));
    let shown = path.display();
    let done = world.sh(&format!(
        "exec 2> /dev/null; stat -c %u:%g {shown}/roots; (echo x >> {shown}/roots) || echo refused
         chown 0 {shown}/f || chown 65534 {shown}/f || echo fixed"
    ));
    assert_eq!(done.text, "65534:65534\nrefused\nfixed\n");
    assert_eq!(fs::read(path.join("roots")).expect("there"), b"root\n");
}

#[test]
fn root_shows_nothing_writable_of_roots() {
    if !is_root() {
        return;
    }
    let (_dir, path) = shared("/var/tmp");
    for (uid, gid) in [(0, OWNER.1), (OWNER.0, 0)] {
        chown(&path, Some(uid), Some(gid)).expect("root may");
        let refused = refused(&showing(&[(&path, ReadWrite)]));
        assert!(matches!(refused, ProviderError::HostPath { .. }), "{refused}");
        World::under(&showing(&[(&path, ReadOnly)]));
    }
}

/// Returns why no job can see what `policy` shows, and checks that nothing is left of trying.
#[track_caller]
fn refused(policy: &Policy) -> ProviderError {
    match World::try_under(policy) {
        Err(error) => error,
        Ok(world) => {
            let job = world.script("echo ran > ran");
            let error = world.try_run(&job).expect_err("refused");
            assert!(!world.job_dir(&job.id).exists() && !world.tree().join("ran").exists());
            error
        }
    }
}

#[test]
fn the_homes_own_state_and_our_own_places_are_refused() {
    let (_dir, path) = shared("/var/tmp");
    let link = path.join("link");
    symlink("/usr", &link).expect("a link");
    let missing = path.join("missing");
    let mut cases = vec![link, missing];
    cases.extend(["/", "/proc", "/sys", "/dev", "/etc", "/tmp", "/dev/shm"].map(PathBuf::from));
    for case in cases {
        let error = refused(&showing(&[(&case, ReadOnly)]));
        assert!(matches!(error, ProviderError::HostPath { .. }), "{}: {error}", case.display());
    }
}

#[test]
fn the_home_its_parents_and_its_parts_are_refused() {
    let world = World::new();
    let home = world.home().canonicalize().expect("resolved");
    let parent = home.parent().expect("a parent").to_owned();
    for case in [home.clone(), parent, world.tree(), home.join("host.json")] {
        let mut job = world.script("true");
        job.policy.policy = showing(&[(&case, ReadOnly)]);
        let error = world.try_run(&job).expect_err("refused");
        let is_about_it = matches!(error, ProviderError::HostPath { .. });
        assert!(is_about_it, "{}: {error}", case.display());
        assert!(!world.job_dir(&job.id).exists());
    }
}
