//! Reading files out of a workspace and writing batches into it, against whatever a job has planted.
use crate::world::{Open, World, is_root};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::JobStatus;
use bailiwick_contract::provider::{ByteSink, EntryKind, EntrySource, Provider, ProviderError};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;

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
fn what_a_killed_batch_left_is_no_obstacle() {
    let world = World::new();
    let stage = world.tree().with_file_name(format!("stage.{}", std::process::id()));
    fs::create_dir(&stage).expect("a directory");
    fs::write(stage.join("0"), "old").expect("a file");
    write(&world, vec![file("a", b"new")], false).expect("written");
    assert_eq!(read(&world, "a").expect("read"), b"new");
    assert!(!stage.exists());
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
