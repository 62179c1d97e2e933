//! Trees of the host that are walked and read, with nothing behind them.
use super::*;
use bailiwick_contract::error::ExitCode;
use bailiwick_contract::time::Timestamp;
use std::os::unix::fs::{PermissionsExt, symlink};

const ROOM: Room = Room { bytes: 1 << 20, entries: 100 };

fn plan_within(source: &Path, destination: &[u8], room: Room) -> Result<Plan, Failure> {
    let mut plan = Plan::new(room);
    plan.add(source, destination, None, &CancelToken::new()).map(|()| plan)
}

fn plan(source: &Path, destination: &[u8]) -> Result<Plan, Failure> {
    plan_within(source, destination, ROOM)
}

/// Reads a whole delivery, as a provider does.
fn read(delivery: Delivery) -> Result<Ledger, Failure> {
    let Delivery { entries, ledger } = delivery;
    for mut entry in entries {
        while entry.pull(&mut [0; 3]).map_err(|error| *error.downcast().expect("ours"))? > 0 {}
    }
    Ok(ledger)
}

#[test]
fn a_caller_who_cancels_ends_the_walk() {
    let home = tempfile::tempdir().expect("a directory");
    let cancel = CancelToken::new();
    cancel.cancel();
    let ended = Plan::new(ROOM).add(home.path(), b"f", None, &cancel).expect_err("cancelled");
    assert_eq!((ended.reason, ended.code), ("cancelled", ExitCode::Cancelled));
}

#[test]
fn a_tree_keeps_modes_links_and_empty_directories_in_the_order_of_names() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(home.path().join("empty")).expect("made");
    std::fs::write(home.path().join("b.sh"), "true\n").expect("written");
    std::fs::write(home.path().join("a"), "").expect("written");
    symlink("../tree/none/../../a", home.path().join("out")).expect("linked");
    let script = home.path().join("b.sh");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("set");
    assert_eq!(plan(home.path(), b"t").expect_err("it leaves").reason, "link_leaves_tree");
    std::fs::remove_file(home.path().join("out")).expect("removed");
    symlink("none/../a", home.path().join("empty/l")).expect("linked");
    let made = plan(home.path(), b"in/./tree").expect("a good tree");
    let shown: Vec<String> =
        made.entries.iter().map(|e| printable(e.destination.as_bytes())).collect();
    assert_eq!(shown, ["in/tree", "in/tree/a", "in/tree/b.sh", "in/tree/empty", "in/tree/empty/l"]);
    assert!(matches!(made.entries[2].kind, EntryKind::File { mode: 0o755, .. }));
    assert_eq!(made.entries[4].kind, EntryKind::Link { target: "none/../a".into() });
    let ledger = read(made.deliver()).expect("read");
    let records = ledger.records(Timestamp::default(), None);
    assert_eq!((records.len(), ledger.bytes()), (2, 5));
    assert_eq!(records[1].sha256, Digest::new(Sha256::digest(b"true\n").into()));
    let root = plan(home.path(), b"./").expect("the workspace's root");
    assert_eq!(root.entries[0].destination.as_bytes(), b"a");
}

#[test]
fn links_that_leave_special_files_and_absent_ones_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let refused = |name: &str| plan(&home.path().join(name), b"x").expect_err(name);
    symlink("/etc/passwd", home.path().join("link")).expect("linked");
    assert_eq!(refused("link").reason, "input_is_link");
    assert_eq!(refused("absent").reason, "no_such_input");
    let inside = plan(home.path(), b"x").expect_err("it is absolute");
    assert_eq!(inside.reason, "link_leaves_tree");
    assert!(inside.message.contains("/link` is a symbolic link to `/etc/passwd`"), "{inside}");
    let special = plan(Path::new("/dev/null"), b"x").expect_err("a device");
    assert_eq!(special.reason, "input_is_special");
    assert_eq!(plan(home.path(), b"../x").expect_err("out").reason, "bad_destination");
    std::fs::write(home.path().join("f"), "").expect("written");
    assert_eq!(refused_at(&home.path().join("f"), b"."), "bad_destination");
    assert_eq!(refused_at(&home.path().join("f"), b""), "bad_destination");
}

fn refused_at(path: &Path, destination: &[u8]) -> &'static str {
    plan(path, destination).expect_err("refused").reason
}

#[test]
fn a_link_stays_inside_by_its_words() {
    let yes: [(&[u8], &[u8]); 6] = [
        (b"l", b"a"),
        (b"l", b"."),
        (b"d/l", b".."),
        (b"d/l", b"../a//./b"),
        (b"d/e/l", b"../../x"),
        (b"l", b"a/../b"),
    ];
    for (path, target) in yes {
        assert!(stays_inside(path, target), "{}", target.escape_ascii());
    }
    let no: [(&[u8], &[u8]); 6] = [
        (b"l", b".."),
        (b"l", b"/a"),
        (b"l", b""),
        (b"d/l", b"../.."),
        (b"d/l", b"../../d/x"),
        (b"l", b"a/../.."),
    ];
    for (path, target) in no {
        assert!(!stays_inside(path, target), "{}", target.escape_ascii());
    }
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_read() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("f");
    std::fs::write(&file, "12345").expect("written");
    let refused = |source, room| plan_within(source, b"f", room).expect_err("too much");
    assert_eq!(refused(&file, Room { bytes: 4, ..ROOM }).reason, "inputs_over_storage");
    let few = refused(home.path(), Room { entries: 1, ..ROOM });
    assert_eq!(few.code, ExitCode::PolicyDenied);
}

#[test]
fn a_file_is_what_it_was_when_it_was_read_and_may_not_outgrow_the_room() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("f");
    std::fs::write(&file, "before").expect("written");
    let made = plan(&file, b"f").expect("a good file");
    std::fs::write(&file, "longer than before").expect("written");
    let ledger = read(made.deliver()).expect("read");
    let [record] = &ledger.records(Timestamp::default(), None)[..] else { panic!("one file") };
    assert_eq!(record.sha256, Digest::new(Sha256::digest(b"longer than before").into()));
    assert_eq!(record.size_bytes, 18);
    let made = plan_within(&file, b"f", Room { bytes: 18, ..ROOM }).expect("it fits");
    std::fs::write(&file, "longer than there is room").expect("written");
    assert_eq!(read(made.deliver()).expect_err("grown").reason, "inputs_over_storage");
    let made = plan(&file, b"f").expect("a good file");
    std::fs::remove_file(&file).expect("removed");
    symlink("/etc/passwd", &file).expect("linked");
    assert_eq!(read(made.deliver()).expect_err("replaced").reason, "input_changed");
}

#[test]
fn what_an_ignore_file_names_is_left_out_and_counted() {
    let home = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(home.path().join("tree/target/deep")).expect("made");
    std::fs::write(home.path().join("tree/a.o"), "").expect("written");
    std::fs::write(home.path().join("tree/a.c"), "").expect("written");
    symlink("/outside", home.path().join("tree/target/l")).expect("linked");
    std::fs::write(home.path().join("ignore"), "*.o\n/target/\n").expect("written");
    let ignore = Ignore::read(&home.path().join("ignore")).expect("good patterns");
    let mut made = Plan::new(ROOM);
    let tree = home.path().join("tree");
    made.add(&tree, b".", Some(&ignore), &CancelToken::new()).expect("walked");
    let delivery = made.deliver();
    assert_eq!(delivery.ledger.findings(Some(b"x")), ["2 entr(ies) were left out as x says"]);
    assert_eq!(delivery.entries.count(), 1);
}

#[test]
fn a_directory_that_becomes_a_link_after_the_walk_leads_nowhere() {
    let home = tempfile::tempdir().expect("a directory");
    let (tree, outside) = (home.path().join("tree"), home.path().join("outside"));
    for folder in [&tree.join("d"), &outside] {
        std::fs::create_dir_all(folder).expect("made");
        std::fs::write(folder.join("f"), "x\n").expect("written");
    }
    let made = plan(&tree, b"t").expect("a good tree");
    std::fs::rename(tree.join("d"), home.path().join("moved")).expect("moved");
    symlink(&outside, tree.join("d")).expect("linked");
    assert_eq!(read(made.deliver()).expect_err("it is a link now").reason, "input_changed");
    std::fs::remove_file(tree.join("d")).expect("removed");
    std::fs::rename(home.path().join("moved"), tree.join("d")).expect("moved back");
    let made = plan(&tree, b"t").expect("a good tree");
    std::fs::rename(&tree, home.path().join("gone")).expect("moved");
    std::fs::create_dir_all(tree.join("d")).expect("made");
    std::fs::write(tree.join("d/f"), "of another tree\n").expect("written");
    assert_eq!(read(made.deliver()).expect_err("it is another one").reason, "input_changed");
}
