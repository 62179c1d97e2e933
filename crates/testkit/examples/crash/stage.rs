//! Plays a scenario in a home of its own, and kills whom the case names.
//!
//! It judges nothing: it returns what was seen, in the order in which a caller would see it.
use crate::case::{Kill, Trace};
use crate::look::{self, Journal, debris, files_below, quiet};
use crate::scenario::{FAKE_SCRIPT, Line, Scenario};
use bailiwick_testkit::{Output, Running, TestEnv, User, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// The variable of the fault points.
const VARIABLE: &str = "BAILIWICK_FAULTS";

/// How long the job of a scenario may take to say its first word.
const BEGINS_WITHIN: Duration = Duration::from_secs(30);

/// How a call ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Ended {
    /// The exit code; none where it was killed.
    pub(crate) code: Option<i32>,
    /// What it answered: a result, or the error object.
    pub(crate) answer: Value,
}

impl Ended {
    fn of(output: &Output) -> Self {
        let text = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
        let answer = serde_json::from_slice(text.trim_ascii()).unwrap_or_else(|_| {
            if output.code().is_none() { Value::Null } else { format!("{output}").into() }
        });
        Self { code: output.code(), answer }
    }

    /// Returns a text of the answer.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.answer.pointer(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a list of texts of the answer.
    pub(crate) fn lines(&self, key: &str) -> Vec<String> {
        let lines = self.answer.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
        lines.iter().filter_map(|line| line.as_str().map(str::to_owned)).collect()
    }
}

/// What is known of the job afterwards.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct JobSeen {
    /// Its package.
    pub(crate) package: Ended,
    /// What `logs --raw` printed; none where it did not exit with 0.
    pub(crate) output: Option<Vec<u8>>,
}

/// Files and their bytes.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Everything that was seen of one case.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What the killing processes wrote down: the wreck's, then the target's.
    pub(crate) kills: Vec<Option<Kill>>,
    /// How the target ended.
    pub(crate) target: Ended,
    /// How the call in the background ended.
    pub(crate) background: Option<Ended>,
    /// The first look, while others may still be at work.
    pub(crate) first: Ended,
    /// The workspace's state once nothing moves any more; `unknown` where there is no record.
    pub(crate) state: String,
    /// Everything that the calls after the kill said beside their results.
    pub(crate) notes: Vec<String>,
    /// The job; none where it is on no record.
    pub(crate) job: Option<JobSeen>,
    /// What lies in the workspace; none where there is no disk.
    pub(crate) tree: Option<Files>,
    /// What lies in the working folder.
    pub(crate) host: Files,
    /// The journal.
    pub(crate) journal: Journal,
    /// What should not be there.
    pub(crate) debris: Vec<String>,
    /// The target, called again.
    pub(crate) again: Ended,
    /// The workspace as it was found by that call.
    pub(crate) again_from: String,
    /// A command in the workspace, where it is ready.
    pub(crate) usable: Option<Ended>,
    /// The end of the workspace, where it is on record and not gone.
    pub(crate) destroyed: Option<Ended>,
    /// The job's output after that.
    pub(crate) output_after: Option<Vec<u8>>,
    /// What was still there after that.
    pub(crate) debris_after: Vec<String>,
    /// The journal after that.
    pub(crate) journal_after: Journal,
}

/// A scenario on its way.
struct Stage<'s> {
    scenario: &'s Scenario,
    env: TestEnv,
    marker: String,
    notes: Vec<String>,
}

/// Plays a scenario undisturbed, and returns what its target passed.
pub(crate) fn trace(scenario: &Scenario, user: User, program: &str) -> (Trace, Ended) {
    let mut stage = Stage::open(scenario, user, program);
    let background = stage.prepare(&mut Vec::new());
    let (report, target) = stage.target("trace", "");
    drop(background);
    let home = stage.env.home();
    // A supervisor goes on after its caller, and passes points there.
    quiet(&stage.marker, &home);
    let text = fs::read_to_string(&report).expect("a tracing run writes its report");
    (Trace::parse(&text), target)
}

/// Plays a scenario up to the kill, and looks at what came of it.
pub(crate) fn play(scenario: &Scenario, user: User, program: &str, plan: &str) -> Seen {
    let mut stage = Stage::open(scenario, user, program);
    let mut seen = Seen::default();
    let background = stage.prepare(&mut seen.kills);
    let (report, target) = stage.target("kill", plan);
    seen.first = stage.call(&["inspect", "--json", "ws"]);
    seen.target = target;
    if let Some(background) = background {
        // Nobody else would end its job.
        stage.again(&mut seen);
        seen.background = Some(Ended::of(&background.wait()));
    }
    seen.debris = stage.settle_down();
    // Only now: a supervisor may come to its point after its caller has ended.
    seen.kills.push(Kill::parse(&fs::read_to_string(report).unwrap_or_default()));
    stage.look(&mut seen);
    if seen.background.is_none() {
        stage.again(&mut seen);
    }
    stage.finish(&mut seen);
    seen.notes = stage.notes;
    seen
}

impl<'s> Stage<'s> {
    fn open(scenario: &'s Scenario, user: User, program: &str) -> Self {
        let env = TestEnv::with_sandbox(user, program);
        let folder = env.home().parent().expect("it lies somewhere").to_owned();
        let marker = folder.file_name().expect("it has a name").to_string_lossy().into_owned();
        for (name, bytes) in [("old.txt", "old\n"), ("new.txt", "new\n")] {
            env.write(name, bytes);
        }
        for folder in ["tree", "tree/b", "tree/empty"] {
            env.make_folder(&env.work().join(folder), 0o755);
        }
        for (name, bytes) in [("tree/a", "a\n"), ("tree/b/c", "c\n"), ("tree/z", "z\n")] {
            env.write(name, bytes);
        }
        let mut env = env;
        if scenario.fake {
            let script = env.write("script.json", FAKE_SCRIPT);
            env.set("BAILIWICK_PROVIDER", "fake");
            env.set("BAILIWICK_FAKE_SCRIPT", script);
        }
        Self { scenario, env, marker, notes: Vec::new() }
    }

    /// Returns where the provider keeps disks and jobs.
    fn place(&self) -> PathBuf {
        if self.scenario.fake { self.env.home().join("fake") } else { self.env.home() }
    }

    /// Waits until nothing moves any more; returns what still does. A fake job has no process, and is over when it says so.
    fn settle_down(&mut self) -> Vec<String> {
        if self.scenario.fake {
            until("the job is over", BEGINS_WITHIN, || {
                let job = self.call(&["inspect", "--json", "job-t"]);
                (job.text("/facts/job_status") != "running").then_some(())
            });
        }
        quiet(&self.marker, &self.env.home())
    }

    fn start(&self, line: &[&str]) -> Running {
        self.env.start(line.iter().map(|word| word.replace("{marker}", &self.marker)))
    }

    /// Makes a call that nobody disturbs, and notes what it says.
    fn call(&mut self, line: &[&str]) -> Ended {
        let ended = Ended::of(&self.start(line).wait());
        self.notes.extend(ended.lines("attention"));
        self.notes.extend(ended.lines("warnings"));
        self.notes.push(ended.text("/message").to_owned());
        ended
    }

    fn prepare(&mut self, kills: &mut Vec<Option<Kill>>) -> Option<Running> {
        for (code, line) in self.scenario.setup {
            let ended = self.call(line);
            assert_eq!(ended.code, Some(*code), "the setup {line:?}: {}", ended.answer);
        }
        if let Some(wreck) = &self.scenario.wreck {
            let (report, _) = self.armed(wreck.line, "kill", wreck.plan, "wreck");
            kills.push(Kill::parse(&fs::read_to_string(report).unwrap_or_default()));
            quiet(&self.marker, &self.env.home());
        }
        if self.scenario.aged {
            look::make_old(&self.place());
        }
        self.notes.clear();
        let background = self.scenario.background.map(|line| self.start(line));
        if background.is_some() {
            let output = self.env.home().join("jobs/job-t/output");
            until("the job in the background begins", BEGINS_WITHIN, || {
                fs::read(&output).is_ok_and(|bytes| bytes == b"begun\n").then_some(())
            });
        }
        background
    }

    fn target(&mut self, what: &str, plan: &str) -> (PathBuf, Ended) {
        self.armed(self.scenario.target, what, plan, "target")
    }

    /// Makes a call with fault points, and returns where they are reported.
    fn armed(&mut self, line: Line, what: &str, plan: &str, name: &str) -> (PathBuf, Ended) {
        let report = self.env.home().with_file_name(format!("home/{name}.report"));
        let home = self.env.home();
        let plan = format!("{what} {} {} {plan}", report.display(), home.display());
        self.env.set(VARIABLE, plan.trim_end());
        let running = self.start(line);
        // Empty is as good as unset.
        self.env.set(VARIABLE, "");
        let ended = Ended::of(&running.wait());
        self.notes.extend(ended.lines("attention"));
        (report, ended)
    }

    /// Looks at everything once nothing moves any more; whatever is open is settled by the looking.
    fn look(&mut self, seen: &mut Seen) {
        let home = self.env.home();
        let listed = self.call(&["list", "--json"]);
        assert_eq!(listed.code, Some(0), "list: {}", listed.answer);
        seen.state = self.state();
        look::make_old(&self.place());
        let doctor = self.call(&["doctor", "--json"]);
        assert_eq!(doctor.code, Some(0), "doctor: {}", doctor.answer);
        let package = self.call(&["inspect", "--json", "job-t"]);
        if package.text("/reason") != "unknown_workspace" {
            seen.job = Some(JobSeen { package, output: self.output() });
        }
        seen.tree = files_below(&self.place().join("disks/ws/tree"));
        seen.host = files_below(&self.env.work()).unwrap_or_default();
        seen.journal = Journal::read(&home);
        seen.debris.extend(debris(&home, &self.env.work()));
    }

    fn state(&mut self) -> String {
        let ended = self.call(&["inspect", "--json", "ws"]);
        match ended.text("/facts/state") {
            "" if ended.text("/reason") == "unknown_workspace" => "unknown".to_owned(),
            "" => format!("{}", ended.answer),
            state => state.to_owned(),
        }
    }

    fn output(&self) -> Option<Vec<u8>> {
        let output = self.env.run(["logs", "--raw", "job-t"]);
        (output.code() == Some(0)).then_some(output.stdout)
    }

    fn again(&mut self, seen: &mut Seen) {
        seen.again_from = self.state();
        seen.again = self.call(self.scenario.target);
    }

    fn finish(&mut self, seen: &mut Seen) {
        let home = self.env.home();
        self.settle_down();
        if self.state() == "ready" {
            seen.usable = Some(self.call(&["run", "--json", "ws", "echo", "usable"]));
        }
        if !matches!(self.state().as_str(), "unknown" | "destroyed") {
            seen.destroyed = Some(self.call(&["destroy", "--json", "--force", "ws"]));
        }
        seen.output_after = self.output();
        seen.debris_after = quiet(&self.marker, &home);
        seen.debris_after.extend(debris(&home, &self.env.work()));
        if self.place().join("disks/ws").exists() && self.state() != "unknown" {
            seen.debris_after.push("the disk of a destroyed workspace".into());
        }
        seen.journal_after = Journal::read(&home);
    }
}
