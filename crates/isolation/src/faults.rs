//! Fault points: places at which a process can be told to kill itself, or those that it works with.
//!
//! Compiled with the feature `faults` only, which no release has. A point is a name that a process passes before and after
//! something; what happens there is said by a plan, which the command reads from its environment and hands to its supervisor.
//! A tracing plan writes down what was passed and who was alive there, so that a matrix can be made of it; a killing plan sends
//! SIGKILL at one passing, and waits until it has worked.
use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The variable that holds the plan.
pub const VARIABLE: &str = "BAILIWICK_FAULTS";

/// How long a victim may take to die: mounts come down first.
const DIES_WITHIN: Duration = Duration::from_secs(10);

/// The side of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    After,
}

impl When {
    const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// What is done at the points.
#[derive(Debug)]
enum Act {
    /// Each passing is written down.
    Trace,
    /// At one passing somebody is killed.
    Kill { point: String, nth: u32, when: String, victims: String },
}

/// What a process was told.
#[derive(Debug)]
struct Plan {
    /// As it was given, for whoever is started by this process.
    text: OsString,
    /// Where it is written down.
    report: PathBuf,
    /// Whose jobs the supervisors are that may be killed.
    home: PathBuf,
    act: Act,
    passed: Mutex<HashMap<String, u32>>,
}

static PLAN: OnceLock<Plan> = OnceLock::new();

/// Takes the plan of this process: `trace REPORT HOME`, or `kill REPORT HOME NTH before|after VICTIMS POINT`.
///
/// # Panics
/// Where the plan cannot be read: a matrix that tests nothing must not pass.
pub fn arm(plan: Option<OsString>) {
    let Some(text) = plan else { return };
    let words: Vec<&str> = text.to_str().expect("a plan is text").split(' ').collect();
    let (report, home, act) = match words.as_slice() {
        ["trace", report, home] => (report, home, Act::Trace),
        ["kill", report, home, nth, when, victims, point] => {
            let nth = nth.parse().expect("the plan names the passing by its number");
            let act = Act::Kill {
                point: (*point).to_owned(),
                nth,
                when: (*when).to_owned(),
                victims: (*victims).to_owned(),
            };
            (report, home, act)
        }
        _ => panic!("{VARIABLE} is no plan"),
    };
    let (report, home) = (PathBuf::from(report), PathBuf::from(home));
    let plan = Plan { report, home, act, passed: Mutex::default(), text: text.clone() };
    PLAN.set(plan).expect("a process is armed once");
}

/// Gives the plan to a program that is about to be started.
pub(crate) fn hand_on(command: &mut Command) {
    if let Some(plan) = PLAN.get() {
        command.env(VARIABLE, &plan.text);
    }
}

/// Says that there is such a point, whether it is passed or not.
pub fn declare(point: &str) {
    if let Some(plan) = PLAN.get().filter(|plan| matches!(plan.act, Act::Trace)) {
        plan.write(&format!("declared {point}"));
    }
}

/// Passes a point before what it stands for.
pub fn before(point: &str) {
    if let Some(plan) = PLAN.get() {
        let mut passed = plan.passed.lock().unwrap_or_else(PoisonError::into_inner);
        *passed.entry(point.to_owned()).or_default() += 1;
        drop(passed);
        plan.pass(point, When::Before);
    }
}

/// Passes a point after what it stands for.
pub fn after(point: &str) {
    if let Some(plan) = PLAN.get() {
        plan.pass(point, When::After);
    }
}

impl Plan {
    fn pass(&self, point: &str, when: When) {
        let passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let count = passed.get(point).copied().unwrap_or_default();
        drop(passed);
        match &self.act {
            Act::Trace => {
                let alive = Cast::find(&self.home).names().join(",");
                self.write(&format!("passed {} {count} {alive} {point}", when.name()));
            }
            Act::Kill { point: wanted, nth, when: side, victims }
                if wanted == point && *nth == count && side == when.name() =>
            {
                self.kill(victims);
            }
            Act::Kill { .. } => {}
        }
    }

    /// Kills from the inside out, this process last.
    fn kill(&self, victims: &str) {
        let cast = Cast::find(&self.home);
        let of = |name: &str, pids: &[Pid]| {
            if matches!(victims, "all") || victims == name { pids.to_vec() } else { Vec::new() }
        };
        let mut doomed = of("init", &cast.inits);
        doomed.extend(of("supervisor", &cast.supervisors));
        doomed.extend(of("caller", &cast.callers));
        let (count, recorded) = (doomed.len(), self.recorded().join(","));
        self.write(&format!("killed {count} {} {recorded}", cast.names().join(",")));
        let own = getpid();
        for pid in doomed.iter().filter(|pid| **pid != own) {
            end(*pid);
        }
        if doomed.contains(&own) {
            end(own);
        }
    }

    /// Returns the jobs whose supervisors have recorded how they ended.
    fn recorded(&self) -> Vec<String> {
        let Ok(jobs) = std::fs::read_dir(self.home.join("jobs")) else { return Vec::new() };
        let ended = |job: &std::fs::DirEntry| {
            // The other kind of `record::OutcomeFile` says that nothing ran.
            let outcome = std::fs::read(job.path().join("outcome"));
            outcome.is_ok_and(|bytes| bytes.starts_with(br#"{"ended""#))
        };
        let jobs = jobs.flatten().filter(ended);
        jobs.filter_map(|job| job.file_name().into_string().ok()).collect()
    }

    /// Appends a line; several processes write at once.
    fn write(&self, line: &str) {
        let mut options = OpenOptions::new();
        let report = options.append(true).create(true).open(&self.report);
        let written = report.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.expect("the report of a plan can be written");
    }
}

/// Kills a process and waits until it does nothing any more.
fn end(pid: Pid) {
    kill_process(pid, Signal::KILL).ok();
    let deadline = Instant::now() + DIES_WITHIN;
    while is_alive(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Who takes part in a verb.
struct Cast {
    callers: Vec<Pid>,
    supervisors: Vec<Pid>,
    inits: Vec<Pid>,
}

/// The names of processes in `/proc/PID/comm`, which holds 15 bytes (proc(5)).
const CALLER: &str = "bailiwick";
const SUPERVISOR: &str = "bailiwick-super";

impl Cast {
    /// Finds who takes part: this process, its supervisor or its caller, and the supervisors that work below `home`.
    fn find(home: &Path) -> Self {
        let (own, parent) = (getpid(), getppid());
        let living: Vec<Pid> = pids().into_iter().filter(|pid| is_alive(*pid)).collect();
        let named = |pid: &Pid, name: &str| comm(*pid).is_some_and(|comm| comm == name);
        let ours = |pid: &Pid| {
            let place = std::fs::read_link(format!("/proc/{}/cwd", pid.as_raw_nonzero()));
            *pid == own
                || parent_of(*pid) == Some(own)
                || place.is_ok_and(|place| place.starts_with(home))
        };
        // Init is its supervisor's fork, and has the same name until it gives itself one.
        let is_init = |pid: &Pid| parent_of(*pid).is_some_and(|parent| named(&parent, SUPERVISOR));
        let supervisor = |pid: &&Pid| named(pid, SUPERVISOR) && ours(pid) && !is_init(pid);
        let supervisors: Vec<Pid> = living.iter().filter(supervisor).copied().collect();
        let inits = living
            .iter()
            .filter(|pid| parent_of(**pid).is_some_and(|parent| supervisors.contains(&parent)));
        let callers = [Some(own), parent].into_iter().flatten().filter(|pid| named(pid, CALLER));
        Self { callers: callers.collect(), inits: inits.copied().collect(), supervisors }
    }

    /// Names the roles that somebody has.
    fn names(&self) -> Vec<&'static str> {
        let roles =
            [("caller", &self.callers), ("supervisor", &self.supervisors), ("init", &self.inits)];
        let taken = roles.into_iter().filter(|(_, pids)| !pids.is_empty());
        let names: Vec<&str> = taken.map(|(name, _)| name).collect();
        if names.is_empty() { vec!["nobody"] } else { names }
    }
}

fn pids() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted");
    let number = |name: &OsStr| name.to_str()?.parse().ok();
    entries.flatten().filter_map(|entry| Pid::from_raw(number(&entry.file_name())?)).collect()
}

fn read(pid: Pid, file: &str) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{}/{file}", pid.as_raw_nonzero())).ok()
}

fn comm(pid: Pid) -> Option<String> {
    read(pid, "comm").map(|comm| comm.trim_end().to_owned())
}

/// Returns the state and the parent of a process: what follows its name in `/proc/PID/stat`.
fn stat(pid: Pid) -> Option<(String, i32)> {
    let stat = read(pid, "stat")?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn parent_of(pid: Pid) -> Option<Pid> {
    Pid::from_raw(stat(pid)?.1)
}

/// A zombie does nothing any more.
fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}
