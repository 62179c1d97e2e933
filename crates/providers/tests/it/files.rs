//! Reading files out of a workspace and writing batches into it, against whatever a job has planted.
use crate::world::{Open, World, is_root};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::provider::{
    ByteSink, EntryKind, EntrySource, Gate, Kept as Held, ListSpec, ListedKind, Provider,
    ProviderError,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    refuses: bool,
}

impl ByteSink for Kept {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        if self.refuses {
            return Err("no more".into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

fn path(text: &str) -> WsPath {
    WsPath::parse(text.as_bytes()).expect("a path")
}

fn read(world: &World, name: &str) -> Result<Vec<u8>, ProviderError> {
    let mut sink = Kept::default();
    world.native.read(&world.id, &path(name), &mut sink, &world.cx()).map(|()| sink.bytes)
}

/// A directory beside the homes, and in it what no job may reach.
fn plant() -> World {
    let world = World::new();
    let done = world.sh("mkdir -p dir/sub; echo inside > file; echo deep > dir/sub/f; mkfifo fifo
         ln -s /etc/passwd out; ln -s / root; ln -s .. up; ln -s file inner; ln -s dir way
         ln -s /proc/self/root magic; ln -s /workspace/file absolute; ln -s loop loop");
    assert_eq!(done.outcome.status, JobStatus::Success);
    // Bound by a process that is gone when it is opened.
    drop(UnixListener::bind(world.tree().join("socket")).expect("a socket"));
    world
}

#[test]
fn only_regular_files_below_the_disk_are_read() {
    let world = plant();
    assert_eq!(read(&world, "file").expect("read"), b"inside\n");
    assert_eq!(read(&world, "dir/./sub//f").expect("read"), b"deep\n");
    let no_file = [
        "out",
        "root",
        "up",
        "inner",
        "absolute",
        "loop",
        "magic",
        "root/etc/passwd",
        "up/tree/file",
        "way/sub/f",
        "magic/etc/passwd",
        "fifo",
        "socket",
        "dir",
    ];
    for name in no_file {
        let error = read(&world, name).expect_err(name);
        assert!(matches!(error, ProviderError::NotAFile { .. }), "{name}: {error}");
    }
    for name in ["none", "none/f", "file/f", "dir/sub/none"] {
        let error = read(&world, name).expect_err(name);
        assert!(matches!(error, ProviderError::NoFile { .. }), "{name}: {error}");
    }
    for escape in ["../file", "/etc/passwd", "dir/../../file"] {
        assert!(WsPath::parse(escape.as_bytes()).is_err(), "{escape}");
    }
}

#[test]
fn reading_keeps_to_its_budget_its_sink_and_its_token() {
    let world = plant();
    let mut sink = Kept::default();
    let cx = OpCx { budget_bytes: 6, ..world.cx() };
    let error = world.native.read(&world.id, &path("file"), &mut sink, &cx);
    assert!(matches!(error, Err(ProviderError::NotAFile { .. })), "{error:?}");
    let mut full = Kept { refuses: true, ..Kept::default() };
    let error = world.native.read(&world.id, &path("file"), &mut full, &world.cx());
    assert!(matches!(error, Err(ProviderError::Peer(_))), "{error:?}");
    let gone = WorkspaceId::parse("ws-none").expect("an id");
    let error = world.native.read(&gone, &path("file"), &mut sink, &world.cx());
    assert!(matches!(error, Err(ProviderError::NoWorkspace { .. })), "{error:?}");
    world.cancel.cancel();
    let error = read(&world, "file");
    assert!(matches!(error, Err(ProviderError::Interrupted(_))), "{error:?}");
}

/// An entry of a batch.
struct Entry {
    destination: WsPath,
    kind: EntryKind,
    bytes: Vec<u8>,
    at: usize,
    breaks: bool,
}

impl EntrySource for Entry {
    fn destination(&self) -> &WsPath {
        &self.destination
    }

    fn kind(&self) -> EntryKind {
        self.kind.clone()
    }

    fn pull(&mut self, buffer: &mut [u8]) -> Result<usize, Box<dyn Error + Send + Sync>> {
        let rest = &self.bytes[self.at..];
        if rest.is_empty() && self.breaks {
            return Err("the source broke".into());
        }
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

const MTIME: i64 = 1_000_000_000;

fn file(name: &str, bytes: &[u8]) -> Entry {
    let kind = EntryKind::File { mode: 0o644, mtime: MTIME };
    Entry { destination: path(name), kind, bytes: bytes.to_vec(), at: 0, breaks: false }
}

fn directory(name: &str) -> Entry {
    Entry { kind: EntryKind::Directory, ..file(name, b"") }
}

fn link(name: &str, target: &str) -> Entry {
    Entry { kind: EntryKind::Link { target: target.into() }, ..file(name, b"") }
}

fn write_within(
    world: &World,
    entries: Vec<Entry>,
    overwrite: bool,
    cx: &OpCx<'_>,
) -> Result<(), ProviderError> {
    let mut entries = entries.into_iter().map(|entry| Box::new(entry) as Box<dyn EntrySource>);
    world.native.write(&world.id, &mut entries, overwrite, &mut Open, cx)
}

fn write(world: &World, entries: Vec<Entry>, overwrite: bool) -> Result<(), ProviderError> {
    write_within(world, entries, overwrite, &world.cx())
}

/// Everything on the disk and beside it: path, mode, time of change, content.
fn everything(world: &World) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let top = world.tree().parent().expect("a parent").to_owned();
    walk(&top, &mut found);
    found
}

fn walk(path: &Path, found: &mut BTreeMap<String, String>) {
    let meta = fs::symlink_metadata(path).expect("looked at");
    let content = if meta.is_file() { fs::read(path).expect("read") } else { Vec::new() };
    let time = if meta.is_dir() { 0 } else { meta.mtime() };
    let content = ByteString::from(content);
    let line = format!("{:o} {} {time} {content:?}", meta.mode(), meta.uid());
    found.insert(path.to_str().expect("UTF-8").to_owned(), line);
    if meta.is_dir() {
        for entry in fs::read_dir(path).expect("listed") {
            walk(&entry.expect("an entry").path(), found);
        }
    }
}

#[test]
fn a_batch_lands_whole_and_belongs_to_the_job() {
    let world = World::new();
    let script = Entry {
        kind: EntryKind::File { mode: 0o4_755, mtime: MTIME },
        ..file("bin/tool", b"#!/bin/sh\necho tool\n")
    };
    let large = vec![7; 300_000];
    let entries =
        vec![script, file("a/b/c", b"deep"), directory("empty/dir"), file("large", &large)];
    write(&world, entries, false).expect("written");
    let done = world.sh("bin/tool; stat -c '%u:%g %a %Y %n' bin bin/tool a/b/c empty/dir large
         cat a/b/c; echo + >> a/b/c; rm -r a empty large bin; ls -A");
    let lines: Vec<&str> = done.text.lines().collect();
    let times = format!("{MTIME}");
    assert_eq!(lines[0], "tool");
    assert!(lines[1].starts_with("1000:1000 755 "), "{lines:?}");
    assert_eq!(lines[2], format!("1000:1000 755 {times} bin/tool"), "without its setuid bit");
    assert_eq!(lines[3], format!("1000:1000 644 {times} a/b/c"));
    assert!(lines[4].starts_with("1000:1000 755 "), "{lines:?}");
    assert_eq!(lines[5..], [format!("1000:1000 644 {times} large").as_str(), "deep"]);
    assert_eq!(world.native.inspect(&world.id, &world.cx()).expect("seen").inodes, 0);
}

#[test]
fn one_bad_entry_among_fifty_leaves_nothing() {
    let world = plant();
    let before = everything(&world);
    let bad: Vec<(&str, Entry)> = vec![
        ("there already", file("file", b"x")),
        ("a directory", file("dir", b"x")),
        ("no directory", directory("file")),
        ("behind a file", file("file/x", b"x")),
        ("a link out", file("root/tmp/bailiwick-planted", b"x")),
        ("a link within", file("way/x", b"x")),
        ("a link at the end", file("out", b"x")),
        ("a FIFO", file("fifo", b"x")),
        ("twice", file("new/20", b"x")),
        ("in a file of the batch", file("new/20/x", b"x")),
        ("broken", Entry { breaks: true, ..file("new/broken", b"half") }),
    ];
    for (what, entry) in bad {
        for place in [0, 25, 49] {
            let mut entries: Vec<Entry> =
                (0..50).map(|index| file(&format!("new/{index}"), b"good")).collect();
            entries.insert(
                place,
                Entry {
                    destination: entry.destination.clone(),
                    bytes: entry.bytes.clone(),
                    kind: entry.kind.clone(),
                    ..entry
                },
            );
            entries.insert(0, directory("made/first"));
            write(&world, entries, false).expect_err(what);
            assert_eq!(everything(&world), before, "{what} at {place}");
        }
    }
    assert!(!Path::new("/tmp/bailiwick-planted").exists());
}

#[test]
fn overwriting_replaces_and_what_fails_keeps_the_old_content() {
    let world = plant();
    let before = everything(&world);
    let broken = Entry { breaks: true, ..file("z", b"") };
    let late = [file("file", b"new"), file("dir/sub/f", b"new"), file("out", b"new"), broken];
    write(&world, late.into(), true).expect_err("broken");
    assert_eq!(everything(&world), before);
    // This one fails only while it is moved into place: its parent is a file of the same batch.
    let clash = [file("file", b"new"), file("out", b"new"), file("n", b"x"), file("n/x", b"x")];
    write(&world, clash.into(), true).expect_err("a clash");
    assert_eq!(everything(&world), before);
    write(&world, vec![file("file", b"new"), file("out", b"mine")], true).expect("written");
    assert_eq!(read(&world, "file").expect("read"), b"new");
    // The link itself was replaced, not what it pointed to.
    assert_eq!(read(&world, "out").expect("read"), b"mine");
    assert!(fs::read("/etc/passwd").expect("read").starts_with(b"root:"));
    let stage = everything(&world).into_keys().find(|name| name.contains("stage"));
    assert_eq!(stage, None);
}

#[test]
fn a_batch_beyond_its_budget_leaves_nothing() {
    let world = World::new();
    let before = everything(&world);
    let cx = OpCx { budget_bytes: 9, ..world.cx() };
    let entries = || vec![file("a", b"12345"), file("b", b"67890")];
    write_within(&world, entries(), false, &cx).expect_err("ten bytes");
    assert_eq!(everything(&world), before);
    let cx = OpCx { budget_bytes: 10, ..world.cx() };
    write_within(&world, entries(), false, &cx).expect("ten bytes");
    world.cancel.cancel();
    let error = write(&world, vec![file("c", b"x")], false);
    assert!(matches!(error, Err(ProviderError::Interrupted(_))), "{error:?}");
}

#[test]
fn a_failure_late_in_a_large_batch_leaves_nothing() {
    let world = World::new();
    let before = everything(&world);
    let entries = (0..1_000).map(|index| Entry {
        breaks: index == 900,
        ..file(&format!("d{}/f{index}", index % 7), b"good")
    });
    write(&world, entries.collect(), false).expect_err("broken");
    assert_eq!(everything(&world), before);
}

/// A gate that does something before it opens or refuses.
struct Doing<F>(F);

impl<F: FnMut() -> Result<(), Box<dyn Error + Send + Sync>>> Gate for Doing<F> {
    fn open(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        (self.0)()
    }
}

fn write_through(
    world: &World,
    entries: Vec<Entry>,
    gate: impl FnMut() -> Result<(), Box<dyn Error + Send + Sync>>,
) -> Result<(), ProviderError> {
    let mut entries = entries.into_iter().map(|entry| Box::new(entry) as Box<dyn EntrySource>);
    world.native.write(&world.id, &mut entries, true, &mut Doing(gate), &world.cx())
}

fn stages(world: &World) -> Vec<String> {
    everything(world).into_keys().filter(|name| name.contains("stage.")).collect()
}

#[test]
fn the_gate_opens_when_everything_is_read_and_nothing_is_in_place() {
    let world = World::new();
    let opened = std::cell::Cell::new(0);
    let entries = || vec![file("d/a", b"a"), file("b", b"b")];
    write_through(&world, entries(), || {
        opened.set(opened.get() + 1);
        assert!(!world.tree().join("d").exists() && !world.tree().join("b").exists());
        let staged: Vec<String> = stages(&world);
        assert!(staged.iter().any(|name| name.ends_with("/d/a")), "{staged:?}");
        // Nobody takes the stage of a living writer for a leftover.
        world.native.clear_stage(&world.id).expect("cleared");
        assert_eq!(stages(&world), staged);
        Ok(())
    })
    .expect("written");
    assert_eq!((opened.get(), stages(&world)), (1, Vec::new()));
    let before = everything(&world);
    let refused = write_through(&world, vec![file("c", b"c")], || Err("not durable".into()));
    assert!(matches!(refused, Err(ProviderError::Gate(_))), "{refused:?}");
    assert_eq!(everything(&world), before);
}

#[test]
fn what_appears_while_a_batch_is_staged_undoes_it() {
    let world = World::new();
    write(&world, vec![file("old", b"old"), file("there/x", b"x")], false).expect("written");
    let before = everything(&world);
    // The last of the moves meets a directory; the file before it has been replaced by then.
    let entries =
        vec![file("new/n", b"n"), file("old", b"new"), file("there/y", b"y"), file("z", b"z")];
    let late = world.tree().join("z");
    let refused = write_through(&world, entries, || {
        fs::create_dir(&late).expect("made");
        Ok(())
    });
    assert!(matches!(refused, Err(ProviderError::Exists { .. })), "{refused:?}");
    fs::remove_dir(&late).expect("removed");
    assert_eq!(everything(&world), before);
}

#[test]
fn a_directory_that_goes_away_while_a_batch_is_staged_undoes_it() {
    let world = World::new();
    fs::create_dir_all(world.tree().join("n")).expect("a directory");
    let tree = world.tree();
    // It is found at first, then somewhere else is copied while a job removes it, and then it is met again.
    let entries = [directory("n"), file("m", b"m"), file("n/b", b"b")];
    let mut entries = entries.into_iter().map(|entry| {
        if entry.destination == path("n/b") {
            fs::remove_dir(tree.join("n")).expect("as a job may");
        }
        Box::new(entry) as Box<dyn EntrySource>
    });
    let written = world.native.write(&world.id, &mut entries, false, &mut Open, &world.cx());
    assert!(written.is_err(), "what is not there must not be told as landed");
    assert_eq!(fs::read_dir(&tree).expect("listed").count(), 0);
    assert!(stages(&world).is_empty(), "{:?}", stages(&world));
}

#[test]
fn a_batch_joins_the_directories_that_are_there() {
    let world = World::new();
    write(&world, vec![file("a/b/one", b"1"), directory("empty")], false).expect("written");
    let inode = fs::metadata(world.tree().join("a/b")).expect("there").ino();
    let more = vec![
        directory("a"),
        directory("a/b"),
        file("a/b/two", b"2"),
        directory("a/c"),
        file("a/c/three", b"3"),
        directory("empty"),
        file("a/b/four", b"4"),
    ];
    write(&world, more, false).expect("written");
    for (name, bytes) in [("one", b"1"), ("two", b"2"), ("four", b"4")] {
        assert_eq!(read(&world, &format!("a/b/{name}")).expect(name), bytes);
    }
    assert_eq!(read(&world, "a/c/three").expect("read"), b"3");
    assert_eq!(fs::metadata(world.tree().join("a/b")).expect("there").ino(), inode);
}

#[test]
fn links_land_as_links_and_replace_only_when_they_may() {
    let world = World::new();
    write(&world, vec![file("d/f", b"f"), link("d/l", "f"), link("dangling", "d/none")], false)
        .expect("written");
    assert_eq!(world.sh("cat d/l; stat -c %u d/l; readlink dangling").text, "f1000\nd/none\n");
    let again = write(&world, vec![link("d/l", "other")], false);
    assert!(matches!(again, Err(ProviderError::Exists { .. })), "{again:?}");
    let over = write(&world, vec![link("d", "other")], true);
    assert!(matches!(over, Err(ProviderError::InTheWay { .. })), "{over:?}");
    write(&world, vec![link("d/l", "other")], true).expect("replaced");
    assert_eq!(fs::read_link(world.tree().join("d/l")).expect("a link"), Path::new("other"));
    // What lies behind a link of the same batch is refused like what lies behind one that was there.
    for bad in [vec![link("x", "/tmp"), file("x/f", b"f")], vec![file("d/l/f", b"f")]] {
        let refused = write(&world, bad, true);
        assert!(matches!(refused, Err(ProviderError::InTheWay { .. })), "{refused:?}");
    }
}

#[test]
fn what_a_killed_batch_left_is_removed_by_whatever_comes_next() {
    let world = World::new();
    let plant = || {
        // The form of an older build, and today's; nobody holds a lock on either.
        for name in ["stage.1", "stage.4194305.0"] {
            let stage = world.tree().with_file_name(name);
            fs::create_dir(&stage).expect("a directory");
            fs::write(stage.join("0"), "old").expect("a file");
        }
    };
    plant();
    write(&world, vec![file("a", b"new")], false).expect("written");
    assert_eq!((read(&world, "a").expect("read"), stages(&world)), (b"new".to_vec(), Vec::new()));
    plant();
    world.native.clear_stage(&world.id).expect("cleared");
    assert_eq!(stages(&world), Vec::<String>::new());
    plant();
    let disk = fs::File::open(world.tree().parent().expect("a parent")).expect("open");
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + Duration::from_secs(9));
    disk.set_times(old).expect("ours");
    let is_known = |kept: &Held| matches!(kept, Held::Workspace(id) if *id == world.id);
    world.native.remove_orphans(&is_known, Duration::from_secs(60), &world.cx()).expect("removed");
    assert_eq!(stages(&world), Vec::<String>::new());
    assert_eq!(read(&world, "a").expect("read"), b"new");
}

fn list(world: &World, below: Option<&str>, recursive: bool, limit: u64) -> (Vec<String>, bool) {
    let spec = ListSpec { below: below.map(path), recursive, limit };
    let found = world.native.list(&world.id, &spec, &world.cx()).expect("listed");
    let shown = |path: &WsPath| path.as_bytes().escape_ascii().to_string();
    (found.entries.iter().map(|entry| shown(&entry.path)).collect(), found.more)
}

#[test]
fn a_listing_is_in_the_order_of_bytes_and_says_what_it_cut() {
    let world = World::new();
    let names = ["a/b", "a.txt", "a0", "a/a/x", "b/\u{e9}"];
    write(&world, names.map(|name| file(name, b"12")).into(), false).expect("written");
    fs::write(world.tree().join(std::ffi::OsStr::from_bytes(b"\xff")), "").expect("written");
    let top = ["a", "a.txt", "a0", "b", "\\xff"];
    assert_eq!(list(&world, None, false, 9), (top.map(str::to_owned).to_vec(), false));
    let (all, more) = list(&world, None, true, 9);
    let wanted = ["a", "a.txt", "a/a", "a/a/x", "a/b", "a0", "b", "b/\\xc3\\xa9", "\\xff"];
    assert_eq!((all.clone(), more), (wanted.map(str::to_owned).to_vec(), false));
    for limit in 0..9 {
        let kept = usize::try_from(limit).expect("small");
        assert_eq!(list(&world, None, true, limit), (all[..kept].to_vec(), true), "{limit}");
    }
    assert_eq!(list(&world, Some("a"), true, 9).0, ["a/a", "a/a/x", "a/b"]);
    assert_eq!(list(&world, Some("a/b"), true, 9).0, ["a/b"]);
    assert_eq!(list(&world, Some("a/b"), true, 0), (Vec::new(), true));
}

#[test]
fn a_listing_follows_no_link_and_reports_what_is_special() {
    let world = plant();
    let spec = ListSpec { below: None, recursive: true, limit: 100 };
    let found = world.native.list(&world.id, &spec, &world.cx()).expect("listed").entries;
    let what = |name: &str| {
        let one = found.iter().find(|entry| entry.path == path(name)).expect(name);
        one.what.clone()
    };
    assert_eq!(what("file"), ListedKind::File { size_bytes: 7 });
    assert_eq!(what("dir/sub"), ListedKind::Directory);
    assert_eq!(what("root"), ListedKind::Link { target: "/".into() });
    assert_eq!((what("fifo"), what("socket")), (ListedKind::Special, ListedKind::Special));
    let through = |entry: &bailiwick_contract::provider::Listed| {
        ["root/", "up/", "way/", "magic/", "out/"]
            .iter()
            .any(|link| entry.path.as_bytes().starts_with(link.as_bytes()))
    };
    assert!(!found.iter().any(through), "{found:?}");
    assert_eq!(list(&world, Some("out"), false, 9).0, ["out"], "a link is listed as itself");
    let refused = |name: &str| {
        let spec = ListSpec { below: Some(path(name)), recursive: true, limit: 9 };
        world.native.list(&world.id, &spec, &world.cx()).expect_err(name)
    };
    for name in ["root/etc", "way/sub", "magic/etc"] {
        assert!(matches!(refused(name), ProviderError::NotAFile { .. }), "{name}");
    }
    assert!(matches!(refused("none"), ProviderError::NoFile { .. }));
}

#[test]
fn a_listing_survives_changes_closed_directories_and_depth() {
    let world = World::new();
    let deep = vec!["d"; 600].join("/");
    fs::create_dir_all(world.tree().join(&deep)).expect("made");
    assert_eq!(list(&world, None, true, 1_000).0.len(), 600);
    fs::remove_dir_all(world.tree().join("d")).expect("removed");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::create_dir_all(world.tree().join("x/y/z")).expect("made");
                fs::remove_dir_all(world.tree().join("x")).expect("removed");
                symlink("/", world.tree().join("x")).expect("linked");
                fs::remove_file(world.tree().join("x")).expect("removed");
            }
        });
        for _ in 0..500 {
            let (names, more) = list(&world, None, true, 9);
            assert!(names.len() <= 3 && !more, "{names:?}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn a_disk_that_its_job_has_closed_is_measured_and_removed() {
    let world = World::new();
    let done = world.sh("mkdir -p shut/in; echo x > shut/in/f; chmod 000 shut/in shut
         mkdir -p .bailiwick-removing-1/a/b; echo x > .bailiwick-removing-1/a/b/c
         mkdir plain; mkdir -p plain/x/y; chmod 555 plain/x
         i=0; (while [ $i -lt 400 ]; do mkdir deep && cd deep && i=$((i+1)) || exit 1; done)
         chmod 000 /workspace");
    assert_eq!(done.outcome.status, JobStatus::Success, "{}", done.text);
    let mode = fs::metadata(world.tree()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0);
    let seen = world.native.inspect(&world.id, &world.cx()).expect("inspected");
    assert!(seen.present);
    // Root reads what is closed; a tree that is too deep is partial for both.
    assert!(!is_root() || seen.inodes > 100, "{seen:?}");
    use bailiwick_contract::provider::Removed;
    assert_eq!(world.native.remove(&world.id, &world.cx()).expect("removed"), Removed::Gone);
    assert_eq!(world.native.remove(&world.id, &world.cx()).expect("removed"), Removed::WasAbsent);
    assert!(!world.native.inspect(&world.id, &world.cx()).expect("inspected").present);
}
