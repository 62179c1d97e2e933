//! A forwarded value is nowhere but in the job.
use crate::support::{
    create, each_user, holds, marker, processes, read_proc, sha256, supervisors, wait_for_job,
};
use bailiwick_testkit::files_holding;

/// The value; long and odd enough to be found nowhere by chance.
const SECRET: &str = "hunter2-7f1d9c3e5b";

#[test]
fn a_forwarded_value_is_nowhere_during_and_after_the_job() {
    each_user(|env| {
        create(env, &[]);
        env.set("TOKEN", SECRET);
        drop(env.write("vars.env", format!("FROM_FILE={SECRET}\n")));
        let name = marker(env);
        let script = format!("printf %s \"$TOKEN$FROM_FILE\" | sha256sum; sleep 1; : {name}");
        let flags = ["run", "--json", "--env", "TOKEN", "--env-file", "vars.env", "ws"];
        let mut run = env.start([&flags[..], &["sh", "-c", &script]].concat());
        let job = wait_for_job(&mut run, &name);
        assert!(
            files_holding(&env.home(), SECRET.as_bytes()).is_empty(),
            "in the home, during the job"
        );
        for pid in processes() {
            assert!(!holds(&read_proc(pid, "cmdline"), SECRET.as_bytes()), "in the argv of {pid}");
        }
        for pid in supervisors() {
            assert!(
                !holds(&read_proc(pid, "environ"), SECRET.as_bytes()),
                "in the environment of {pid}"
            );
        }
        assert_ne!(job, run.pid());
        let output = run.wait().exits(0);
        let digest = sha256(format!("{SECRET}{SECRET}").as_bytes());
        assert!(output.mentions(&digest), "the job had both values: {output}");
        assert!(!output.mentions(SECRET), "{output}");
        assert!(
            output.mentions("TOKEN") && output.mentions("FROM_FILE"),
            "names are recorded: {output}"
        );
        let verbs: [&[&str]; 4] = [
            &["inspect", "--full", "ws"],
            &["inspect", "--logs", "ws"],
            &["logs", "ws"],
            &["list"],
        ];
        for line in verbs {
            let output = env.run(line).exits(0);
            assert!(!output.mentions(SECRET), "{output}");
        }
        assert!(
            files_holding(&env.home(), SECRET.as_bytes()).is_empty(),
            "in the home, after the job"
        );
        drop(env.json(0, &["destroy", "ws"]));
        assert!(
            files_holding(&env.home(), SECRET.as_bytes()).is_empty(),
            "in the home, after the workspace"
        );
    });
}

#[test]
fn a_value_that_the_job_prints_is_kept_and_found_by_the_same_search() {
    each_user(|env| {
        create(env, &[]);
        env.set("TOKEN", SECRET);
        let output = env.run(["run", "--env", "TOKEN", "ws", "sh", "-c", "echo $TOKEN"]).exits(0);
        assert!(output.mentions(SECRET), "captured output is the job's own doing: {output}");
        assert!(
            !files_holding(&env.home(), SECRET.as_bytes()).is_empty(),
            "the search finds what is there"
        );
    });
}

#[test]
fn the_help_states_the_edge() {
    each_user(|env| {
        for verb in ["run", "exec"] {
            let help = env.run([verb, "--help"]).exits(0);
            let text = help.out().split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                text.contains("a job that prints its own environment")
                    || text.contains("A job that prints its own environment"),
                "{help}"
            );
        }
    });
}
