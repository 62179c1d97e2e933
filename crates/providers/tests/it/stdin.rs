//! What a job reads from standard input: copied to it, to the end, and never the descriptor itself.
use crate::world::{SOON, World, told};
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::{JobSpec, JobStatus, Stdin};
use bailiwick_contract::provider::ProviderError;
use bailiwick_testkit::until;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Tells the copy of this test that is the caller which home to use.
const READS: &str = "BAILIWICK_TEST_READS";

fn file(path: &Path) -> Stdin {
    Stdin::File(path.as_os_str().as_encoded_bytes().into())
}

fn reading(world: &World, path: &Path, script: &str) -> JobSpec {
    JobSpec { stdin: file(path), ..world.script(script) }
}

#[test]
fn a_job_reads_a_file_to_its_end() {
    let world = World::new();
    let path = world.home().join("input");
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251).to_le_bytes()[0]).collect();
    for length in [0, 1, 65_536, 65_537, 3_000_000] {
        fs::write(&path, &bytes[..length]).expect("written");
        let done = world.run(&reading(&world, &path, "cat > copy; echo ended"));
        assert_eq!(done.text, "ended\n");
        assert!(fs::read(world.tree().join("copy")).expect("copied") == bytes[..length]);
    }
    assert_eq!(world.sh("cat; echo nothing").text, "nothing\n");
}

#[test]
fn a_job_that_reads_slowly_or_not_at_all_ends_as_it_wants() {
    let world = World::new();
    let path = world.home().join("input");
    fs::write(&path, "line\n".repeat(400_000)).expect("written");
    assert_eq!(
        world.run(&reading(&world, &path, "echo unread; exit 4")).outcome.exit_status,
        Some(4)
    );
    let slow = "exec 3<&0 <&-; sleep 0.2; head -c 4 <&3; exec 3<&-; sleep 0.2; echo; echo on";
    assert_eq!(world.run(&reading(&world, &path, slow)).text, "line\non\n");
    let closed = "exec <&-; i=0; while [ $i -lt 5 ]; do i=$((i+1)); sleep 0.1; done; echo alive";
    let done = world.run(&reading(&world, &path, closed));
    assert_eq!(done.text, "alive\n");
    assert_eq!(done.outcome.status, JobStatus::Success);
}

#[test]
fn a_job_has_a_pipe_and_not_the_file() {
    let world = World::new();
    let path = world.home().join("input");
    fs::write(&path, "secret place").expect("written");
    let done = world.run(&reading(
        &world,
        &path,
        "readlink /proc/self/fd/0; ls /proc/self/fd; cat; echo x >&0",
    ));
    assert!(done.text.starts_with("pipe:["), "{}", done.text);
    assert!(!done.text.contains(world.home().to_str().expect("text")), "{}", done.text);
    assert!(done.text.contains("secret place"), "{}", done.text);
    assert_eq!(fs::read(&path).expect("there"), b"secret place");
    let again = world.run(&reading(&world, &path, "cat /dev/stdin"));
    assert_eq!(again.text, "secret place");
    let streams = world.sh("echo out > /dev/stdout; echo err > /dev/stderr");
    assert_eq!((streams.outcome.output.stdout_bytes, streams.outcome.output.stderr_bytes), (4, 4));
}

#[test]
fn a_job_waits_for_whoever_writes_to_a_fifo() {
    let world = World::new();
    let path = world.home().join("fifo");
    #[expect(clippy::disallowed_methods, reason = "a test makes a FIFO")]
    let made = Command::new("mkfifo").arg(&path).status().expect("started");
    assert!(made.success());
    let job = reading(&world, &path, "echo > began; cat");
    std::thread::scope(|scope| {
        let running = scope.spawn(|| world.run(&job));
        world.wait_for("began");
        std::thread::sleep(std::time::Duration::from_millis(100));
        let mut writer = fs::OpenOptions::new().write(true).open(&path).expect("it is read");
        writer.write_all(b"one ").expect("written");
        until("the first word", SOON, || (world.kept(&job.id) == b"one ").then_some(()));
        writer.write_all(b"two").expect("written");
        drop(writer);
        assert_eq!(running.join().expect("no panic").text, "one two");
    });
}

#[test]
fn what_cannot_be_read_is_refused_before_anything_is_made() {
    let world = World::new();
    let home = world.home();
    let socket = home.join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
    let long = home.join("x".repeat(300));
    for path in [&home.join("none"), home, Path::new("/dev/null"), &socket, &long] {
        let job = reading(&world, path, "echo > ran");
        let error = world.try_run(&job).expect_err("refused");
        assert!(matches!(error, ProviderError::Stdin { .. }), "{path:?}: {error:?}");
        assert!(!world.job_dir(&job.id).exists() && !world.tree().join("ran").exists());
    }
}

fn id() -> JobId {
    JobId::parse("job-of-the-caller").expect("an id")
}

#[test]
fn what_a_caller_with_input_does() {
    // Without the variable this is no caller, and there is nothing to do.
    if let Some(home) = told(READS) {
        let world = World::at(home);
        let script = "echo > began; read line; echo \"first: $line\"; cat";
        world
            .launch(&JobSpec { id: id(), stdin: Stdin::Caller, ..world.script(script) })
            .expect("let go");
    }
}

fn caller(world: &World, stdin: Stdio) -> Child {
    let own = std::env::current_exe().expect("this test has a path");
    #[expect(clippy::disallowed_methods, reason = "a test starts itself")]
    Command::new(own)
        .args(["--exact", "stdin::what_a_caller_with_input_does", "--nocapture"])
        .env(READS, world.home())
        .stdin(stdin)
        .stdout(Stdio::null())
        .spawn()
        .expect("this program")
}

#[test]
fn a_job_reads_on_from_what_its_caller_had_when_the_caller_is_gone() {
    let world = World::new();
    let (source, mut writer) = std::io::pipe().expect("a pipe");
    let kept = source.try_clone().expect("a copy");
    let mut child = caller(&world, source.into());
    assert!(child.wait().expect("reaped").success());
    world.wait_for("began");
    writer.write_all(b"one\n").expect("read by the supervisor");
    until("the first line", SOON, || (world.kept(&id()) == b"first: one\n").then_some(()));
    let flags = rustix::fs::fcntl_getfl(&kept).expect("asked");
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK), "its description is as it was");
    writer.write_all(b"two\n").expect("written");
    drop(writer);
    assert_eq!(world.wait_for_end(&id()).status, JobStatus::Success);
    assert_eq!(world.kept(&id()), b"first: one\ntwo\n");
}
