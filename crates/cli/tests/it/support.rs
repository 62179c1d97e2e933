//! What the suites share: an environment a user, and the forms of results.
use bailiwick_testkit::{
    Output, Running, TestEnv, User, cgroups_holding, mounts_holding, processes_holding, until,
};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::time::Duration;

/// How long a test waits for what comes soon; far beyond what a loaded machine needs, and far below what a job here sleeps.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// What a wall clock may be late by (docs/concepts.md), five times: what a loaded machine may make of it.
pub(crate) const LATE_SECONDS: f64 = 5.0 * 0.25;

/// The command that cargo built.
const BUILT: &str = env!("CARGO_BIN_EXE_bailiwick");

/// The keys of a package, in order.
pub(crate) const KEYS: [&str; 10] = [
    "outcome_summary",
    "status",
    "key_findings",
    "evidence",
    "artifacts",
    "warnings",
    "resource_usage",
    "provenance",
    "attention",
    "facts",
];

/// Returns an environment for tests that need no sandbox.
pub(crate) fn plain() -> TestEnv {
    TestEnv::new(User::all()[0], BUILT)
}

/// An environment whose provider is fake and whose jobs do what `script` says.
pub(crate) fn scripted(script: &str) -> TestEnv {
    let mut env = plain();
    let path = env.write("script.json", script);
    env.set("BAILIWICK_PROVIDER", "fake");
    env.set("BAILIWICK_FAKE_SCRIPT", path);
    env
}

/// Runs `test` in an environment of its own for each user.
pub(crate) fn each_user(test: impl Fn(&mut TestEnv)) {
    for user in User::all() {
        eprintln!("as {user:?}");
        test(&mut TestEnv::with_sandbox(*user, BUILT));
    }
}

/// Returns an environment of the first user there is, for a test that need not be tried as each.
pub(crate) fn root_or_caller() -> TestEnv {
    TestEnv::with_sandbox(User::all()[0], BUILT)
}

/// Makes a workspace called `ws`.
#[track_caller]
pub(crate) fn create(env: &TestEnv, flags: &[&str]) {
    let output = env.run([&["create", "--workspace-id", "ws"], flags].concat());
    drop(output.exits(0));
}

/// Runs a script in the workspace `ws` and returns its package.
#[track_caller]
pub(crate) fn run_script(env: &TestEnv, code: i32, script: &str) -> Value {
    env.json(code, &["run", "ws", "sh", "-c", script])
}

/// Runs a script in a workspace of its own under `flags` and returns its package.
#[track_caller]
pub(crate) fn exec_script(env: &TestEnv, code: i32, flags: &[&str], script: &str) -> Value {
    env.json(code, &[&["exec"], flags, &["--", "sh", "-c", script]].concat())
}

/// Returns a fact of a package: `fact(&package, "policy/memory/label")`.
#[track_caller]
pub(crate) fn fact<'a>(package: &'a Value, path: &str) -> &'a Value {
    let found = package.pointer(&format!("/facts/{path}"));
    found.unwrap_or_else(|| panic!("the fact {path} of {package}"))
}

/// Fails unless a job was ended by its wall clock in time, as its own record says: how long the caller took says nothing of that.
#[track_caller]
pub(crate) fn check_wall_clock(package: &Value, seconds: f64) {
    assert_eq!(fact(package, "reason"), "wall_clock", "{package}");
    let took = package["resource_usage"]["wall_time_seconds"].as_f64().expect("a number");
    assert!((seconds..seconds + LATE_SECONDS).contains(&took), "{took} s: {package}");
}

/// Returns the keys of a line of JSON in the order in which they were written.
pub(crate) fn keys_in_order(output: &Output) -> Vec<String> {
    let package = output.json();
    let keys = package.as_object().expect("a package is an object").keys();
    // Every key but `facts` is also the name of nothing else at the top, so the first place of each tells the order.
    let mut placed: Vec<(usize, String)> = keys
        .map(|key| {
            (output.out().find(&format!("\"{key}\": ")).expect("it was parsed"), key.clone())
        })
        .collect();
    placed.sort();
    placed.into_iter().map(|(_, key)| key).collect()
}

/// Returns SHA-256 as 64 hex digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a supervisor in `/proc/PID/comm`, which holds 15 bytes (proc(5)).
const SUPERVISOR_COMM: &str = "bailiwick-super";

/// Returns the supervisor that the command `caller` started, once it is there.
#[track_caller]
pub(crate) fn supervisor_of(caller: u32) -> u32 {
    until("a supervisor is there", SOON, || {
        processes().into_iter().find(|pid| {
            parent(*pid) == Some(caller)
                && read_proc(*pid, "comm").trim_ascii() == SUPERVISOR_COMM.as_bytes()
        })
    })
}

/// Returns all supervisors of the host.
pub(crate) fn supervisors() -> Vec<u32> {
    let named = |pid: &u32| read_proc(*pid, "comm").trim_ascii() == SUPERVISOR_COMM.as_bytes();
    processes().into_iter().filter(named).collect()
}

/// Returns all processes.
pub(crate) fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns a file of `/proc/PID`, empty where it is gone or not ours to read.
pub(crate) fn read_proc(pid: u32, file: &str) -> Vec<u8> {
    fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

fn parent(pid: u32) -> Option<u32> {
    let status = String::from_utf8(read_proc(pid, "status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Sends a signal to any process.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("the process is there");
}

/// Returns a word that no other test's processes have.
pub(crate) fn marker(env: &TestEnv) -> String {
    let folder = env.home().parent().expect("it lies somewhere").to_owned();
    folder.file_name().expect("it has a name").to_string_lossy().into_owned()
}

/// Waits until the job that `caller` runs, with `marker` in its command line, is there.
#[track_caller]
pub(crate) fn wait_for_job(caller: &mut Running, marker: &str) -> u32 {
    until("the job runs", SOON, || {
        caller.assert_alive();
        payload(marker)
    })
}

/// The same for a job without a caller, or one that comes after others.
#[track_caller]
pub(crate) fn wait_for_payload(marker: &str) -> u32 {
    until("the job runs", SOON, || payload(marker))
}

fn payload(marker: &str) -> Option<u32> {
    // A command line that begins with the job's own program; the caller's begins with ours.
    processes().into_iter().find(|pid| {
        let cmdline = read_proc(*pid, "cmdline");
        cmdline.starts_with(b"sh\0") && holds(&cmdline, marker.as_bytes())
    })
}

/// Waits until a command has its handlers: before that an interrupt ends it as it does any program.
#[track_caller]
pub(crate) fn wait_until_it_listens(command: &mut Running) {
    until("it takes interrupts", SOON, || {
        command.assert_alive();
        let status = String::from_utf8(read_proc(command.pid(), "status")).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?.trim();
        // One bit a signal, from 1 on (proc_pid_status(5)).
        let bit = u64::from(Signal::INT.as_raw().unsigned_abs() - 1);
        (u64::from_str_radix(caught, 16).ok()? >> bit & 1 == 1).then_some(())
    });
}

/// Fails unless every process with `marker` is gone soon, and every mount.
#[track_caller]
pub(crate) fn wait_for_nothing(marker: &str) {
    until("no process is left", SOON, || processes_holding(marker).is_empty().then_some(()));
    // The mounts of a sandbox come down with its last process, but not in the same instant.
    until("no mount is left", SOON, || mounts_holding(marker).is_empty().then_some(()));
}

/// Fails where a control group is left whose name holds `marker`; a job's id is part of the name of its group.
#[track_caller]
pub(crate) fn check_no_cgroup(marker: &str) {
    let groups = cgroups_holding(marker);
    assert!(groups.is_empty(), "control groups are left: {groups:?}");
}

pub(crate) fn holds(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|part| part == needle)
}
