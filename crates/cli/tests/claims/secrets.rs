//! A forwarded value is in the job and nowhere else that Bailiwick writes; the same search finds what is planted.
use crate::claim::{Claim, Control, Seen, Verdict};
use crate::scene::{Scene, children, with_probe};
use crate::table::check;
use bailiwick_testkit::{Output, Running, User, files_holding, processes_holding, until};
use std::fs;
use std::time::Duration;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::steps(
        "secret-at-rest",
        "No byte under the home holds a forwarded value, neither while its job runs nor afterwards.",
        at_rest,
    ),
    Claim::steps(
        "secret-results",
        "No result, listing or log holds a forwarded value that the job did not print.",
        in_results,
    ),
    Claim::steps(
        "secret-arguments",
        "No process's arguments hold a forwarded value.",
        in_arguments,
    ),
    Claim::steps(
        "secret-supervisor",
        "A supervisor's environment does not hold a forwarded value.",
        in_supervisor,
    ),
];

/// The name of the variable.
const NAME: &str = "BAILIWICK_CLAIM_TOKEN";

/// A job that got a value and now sleeps.
struct Job {
    run: Running,
    workspace: String,
    value: String,
}

impl Job {
    /// Starts it and returns once it has checked that the value is there.
    fn start(scene: &mut Scene) -> Self {
        let value = format!("hunter2-{}-7f1d9c3e5b", scene.tag());
        scene.env.set(NAME, &value);
        let package = scene.env.json(0, &["create"]);
        let workspace = package["provenance"]["workspace_id"].as_str().expect("text").to_owned();
        let begun = format!("begun-{workspace}");
        // The output is looked for, so the command line must not hold it whole.
        let script = format!(
            "[ \"${{#{NAME}}}\" = {} ] && printf %s%s begun {}; exec sleep 600",
            value.len(),
            &begun[5..]
        );
        let words = ["run", "--json", "--env", NAME, &workspace, "sh", "-c", &script];
        let mut run = scene.env.start(words);
        let jobs = scene.env.home().join("jobs");
        until("the job has its value", Duration::from_secs(30), || {
            run.assert_alive();
            (!files_holding(&jobs, begun.as_bytes()).is_empty()).then_some(())
        });
        Self { run, workspace, value }
    }

    /// Stops it and returns what its caller printed.
    fn stop(self, scene: &Scene) -> Output {
        drop(scene.env.run(["stop", "--apply", &self.workspace]));
        self.run.wait()
    }
}

fn at_rest(scene: &mut Scene) -> Verdict {
    let job = Job::start(scene);
    let value = job.value.clone();
    let home = scene.env.home();
    let mut found = files_holding(&home, value.as_bytes());
    drop(job.stop(scene));
    found.extend(files_holding(&home, value.as_bytes()));
    // The control: a job that prints the value itself, which is then in its captured output.
    let print = format!("echo ${NAME}");
    drop(scene.env.run(["exec", "--env", NAME, "--", "sh", "-c", &print]).exits(0));
    let planted = files_holding(&home, value.as_bytes());
    Verdict {
        inside: Seen::of(!found.is_empty(), format!("{} files", found.len())),
        control: Seen::of(!planted.is_empty(), format!("{} files", planted.len())),
    }
}

fn in_results(scene: &mut Scene) -> Verdict {
    let job = Job::start(scene);
    let (value, id) = (job.value.clone(), job.workspace.clone());
    let mut outputs = vec![scene.env.run(["inspect", "--full", &id]), job.stop(scene)];
    let verbs: [&[&str]; 4] =
        [&["inspect", "--full", &id], &["inspect", "--logs", &id], &["logs", &id], &["list"]];
    outputs.extend(verbs.map(|words| scene.env.run(words)));
    let hits = outputs.iter().filter(|output| output.mentions(&value)).count();
    let print = format!("echo ${NAME}");
    let printed = scene.env.run(["run", "--env", NAME, &id, "sh", "-c", &print]).exits(0);
    Verdict {
        inside: Seen::of(hits > 0, format!("{hits} outputs")),
        control: Seen::of(printed.mentions(&value), "printed by a job"),
    }
}

/// Returns the processes whose arguments hold `value`.
fn arguments_holding(value: &str) -> Vec<u32> {
    let holds = |pid: &u32| {
        let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        bytes.windows(value.len()).any(|part| part == value.as_bytes())
    };
    processes_holding(value).into_iter().filter(holds).collect()
}

fn in_arguments(scene: &mut Scene) -> Verdict {
    let job = Job::start(scene);
    let value = job.value.clone();
    let hits = arguments_holding(&value).len();
    drop(job.stop(scene));
    // It stops itself, so that nothing but this one process is left to kill.
    scene.start(&format!("sh -c 'kill -STOP $$; : {value}'"));
    let planted = arguments_holding(&value).len();
    Verdict {
        inside: Seen::of(hits > 0, format!("{hits} processes")),
        control: Seen::of(planted > 0, format!("{planted} processes")),
    }
}

/// The control is the caller's environment, in which the value has to be.
fn in_supervisor(scene: &mut Scene) -> Verdict {
    let job = Job::start(scene);
    let value = job.value.clone();
    let holds = |pid: u32| processes_holding(&value).contains(&pid);
    let caller = job.run.pid();
    let supervisors = children(caller);
    let hits = supervisors.iter().filter(|pid| holds(**pid)).count();
    let seen = scene.outside(Control::Plain, "./probe see-host-process bailiwick-supervisor");
    let control = Seen::of(holds(caller), "in the caller's");
    drop(job.stop(scene));
    let inside = match (supervisors.is_empty(), seen) {
        (false, Seen::Reached(_)) => Seen::of(hits > 0, format!("{hits} supervisors")),
        (_, seen) => Seen::Broken(format!("no supervisor of {caller}: {seen}")),
    };
    Verdict { inside, control }
}

#[test]
fn a_forwarded_value_is_nowhere_but_in_its_job() {
    check("secrets", CLAIMS);
}

#[test]
fn what_describes_a_workspace_is_recorded_in_clear_as_security_md_says() {
    for user in User::all() {
        let env = with_probe(*user);
        let words = ["purpose-4f1c", "owner-4f1c", "task-4f1c", "label-4f1c"];
        let label = format!("k={}", words[3]);
        let flags =
            ["--purpose", words[0], "--owner", words[1], "--parent", words[2], "--label", &label];
        drop(env.run([&["create"], &flags[..]].concat()).exits(0));
        for word in words {
            assert!(!files_holding(&env.home(), word.as_bytes()).is_empty(), "{word} as {user:?}");
        }
    }
}
