//! The scenarios: what is done, who is killed while it is done, and what may be found afterwards.
//!
//! One entry a scenario. Words of a line may hold `{marker}`, which no other process of the host has, and files are named
//! relative to the working folder. The workspace is always `ws`, and the job whose end matters always `job-t`.

/// One call of the command.
pub(crate) type Line = &'static [&'static str];

/// A file: its name below the workspace or the working folder, and its bytes.
pub(crate) type File = (&'static str, &'static str);

/// What a job comes to when nobody disturbs it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    /// Its status, as `facts.job_status` names it.
    pub(crate) status: &'static str,
    /// Its exit status; none for one that is stopped.
    pub(crate) exit: Option<i64>,
    /// All that it prints.
    pub(crate) output: &'static str,
}

/// A call that is killed before the one that the matrix is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wreck {
    /// The call.
    pub(crate) line: Line,
    /// Who is killed, where.
    pub(crate) plan: &'static str,
}

/// What may be said to the same call when it is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// It works, unless the workspace is on record.
    Create,
    /// It works on a ready workspace, unless the files are there.
    Put,
    /// It works on a ready workspace, unless the job or its files are there.
    Run,
    /// It works on a workspace that is on record.
    Export,
    /// It works, unless the workspace is on record or its disk holds something.
    Exec,
    /// It works on a workspace that is not gone.
    Destroy,
    /// It works as long as the workspace is on record.
    Look,
    /// It says how the job ended.
    Report,
    /// It works always.
    Always,
}

/// One scenario.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether the fake provider holds the workspace; its job is `job`, and does what [`FAKE_SCRIPT`] says.
    pub(crate) fake: bool,
    /// Calls that nobody disturbs; they succeed with their exit codes.
    pub(crate) setup: &'static [(i32, Line)],
    /// A call that is killed on the way.
    pub(crate) wreck: Option<Wreck>,
    /// Whether everything below the home is made to look old before the target.
    pub(crate) aged: bool,
    /// A call that is in flight meanwhile; its job says `begun`.
    pub(crate) background: Option<Line>,
    /// The call whose points are the matrix.
    pub(crate) target: Line,
    /// The job that is in flight, by the target, the wreck or in the background.
    pub(crate) job: Option<Truth>,
    /// Files of the workspace before the target.
    pub(crate) kept: &'static [File],
    /// Files that the target brings into the workspace: all of them, or none.
    pub(crate) landed: &'static [File],
    /// A file that the job makes and declares.
    pub(crate) artifact: Option<File>,
    /// A file that the target publishes on the host.
    pub(crate) taken: Option<File>,
    /// The states that may be found.
    pub(crate) ends: &'static [&'static str],
    /// Those that may be found where the target said that it was done.
    pub(crate) done: &'static [&'static str],
    /// What the target does when it is called again.
    pub(crate) again: Again,
    /// Whether what the job made may be given up.
    pub(crate) gives_up: bool,
}

const NOTHING: Scenario = Scenario {
    name: "",
    fake: false,
    setup: &[],
    wreck: None,
    aged: false,
    background: None,
    target: &[],
    job: None,
    kept: &[],
    landed: &[],
    artifact: None,
    taken: None,
    ends: READY,
    done: READY,
    again: Again::Look,
    gives_up: false,
};

const READY: &[&str] = &["ready"];
const UNKNOWN: &str = "unknown";

const CREATE: (i32, Line) = (0, &["create", "--json", "--workspace-id", "ws"]);

/// A workspace with a file in it.
const FILLED: &[(i32, Line)] = &[CREATE, (0, &["put", "--json", "ws", "old.txt", "in.txt"])];
const OLD: &[File] = &[("in.txt", "old\n")];

const GOOD_SCRIPT: &str = "echo begun; : > witness; cat in.txt > out; echo ended; : {marker}";
const GOOD: Truth = Truth { status: "success", exit: Some(0), output: "begun\nended\n" };
const RUN_GOOD: Line = &[
    "run",
    "--json",
    "--job-id",
    "job-t",
    "--declare",
    "out=a copy",
    "ws",
    "sh",
    "-c",
    GOOD_SCRIPT,
];
const OUT: File = ("out", "old\n");

/// A workspace whose job has left an artifact.
const MADE: &[(i32, Line)] =
    &[CREATE, (0, &["put", "--json", "ws", "old.txt", "in.txt"]), (0, RUN_GOOD)];

const LONG: Line =
    &["run", "--json", "--job-id", "job-t", "ws", "sh", "-c", "echo begun; sleep 30; : {marker}"];
const STOPPED: Truth = Truth { status: "cancelled", exit: None, output: "begun\n" };

const EXEC: Line = &[
    "exec",
    "--json",
    "--workspace-id",
    "ws",
    "--job-id",
    "job-t",
    "--input",
    "in.txt=old.txt",
    "--declare",
    "out=a copy",
    "--export",
    "out=taken.txt",
    "--",
    "sh",
    "-c",
    GOOD_SCRIPT,
];
/// What the job of the fake provider does: as [`GOOD_SCRIPT`], without a process.
pub(crate) const FAKE_SCRIPT: &str = r#"[{"argv": ["job"], "stdout": "begun\nended\n",
    "files": [{"path": "out", "content": "old\n"}, {"path": "witness", "content": ""}]},
    {"argv": ["echo", "usable"], "stdout": "usable\n"}]"#;
const FAKE_EXEC: Line = &[
    "exec",
    "--json",
    "--workspace-id",
    "ws",
    "--job-id",
    "job-t",
    "--input",
    "in.txt=old.txt",
    "--declare",
    "out=a copy",
    "--export",
    "out=taken.txt",
    "--",
    "job",
];

const EXEC_ENDS: &[&str] = &[UNKNOWN, "ready", "destroyed"];

/// Every scenario.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "create",
        target: CREATE.1,
        ends: &[UNKNOWN, "ready", "failed"],
        again: Again::Create,
        ..NOTHING
    },
    Scenario {
        name: "put-file",
        setup: &[CREATE],
        target: &["put", "--json", "ws", "new.txt", "deep/in.txt"],
        landed: &[("deep/in.txt", "new\n")],
        again: Again::Put,
        ..NOTHING
    },
    Scenario {
        name: "put-folder",
        setup: FILLED,
        target: &["put", "--json", "ws", "tree", "d"],
        kept: OLD,
        landed: &[("d/a", "a\n"), ("d/b/c", "c\n"), ("d/z", "z\n")],
        again: Again::Put,
        ..NOTHING
    },
    Scenario {
        name: "put-over",
        setup: FILLED,
        target: &["put", "--json", "--overwrite", "ws", "new.txt", "in.txt"],
        landed: &[("in.txt", "new\n")],
        ..NOTHING
    },
    Scenario {
        name: "run",
        setup: FILLED,
        target: RUN_GOOD,
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-input",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--job-id",
            "job-t",
            "--input",
            "new.txt=new.txt",
            "ws",
            "sh",
            "-c",
            "cat new.txt; : > witness; : {marker}",
        ],
        job: Some(Truth { status: "success", exit: Some(0), output: "new\n" }),
        kept: OLD,
        landed: &[("new.txt", "new\n")],
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-fails",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--job-id",
            "job-t",
            "ws",
            "sh",
            "-c",
            "echo begun; : > witness; exit 3; : {marker}",
        ],
        job: Some(Truth { status: "failure", exit: Some(3), output: "begun\n" }),
        kept: OLD,
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-silent",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--job-id",
            "job-t",
            "ws",
            "sh",
            "-c",
            ": > witness; : {marker}",
        ],
        job: Some(Truth { status: "success", exit: Some(0), output: "" }),
        kept: OLD,
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-partial",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--job-id",
            "job-t",
            "--declare",
            "absent=nothing",
            "ws",
            "sh",
            "-c",
            "echo begun; : > witness; : {marker}",
        ],
        job: Some(Truth { status: "partial_success", exit: Some(0), output: "begun\n" }),
        kept: OLD,
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-checks",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--job-id",
            "job-t",
            "--check",
            "good=test -f witness",
            "--check",
            "bad=false",
            "ws",
            "sh",
            "-c",
            "echo begun; : > witness; : {marker}",
        ],
        job: Some(Truth { status: "partial_success", exit: Some(0), output: "begun\n" }),
        kept: OLD,
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-stdin",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--job-id",
            "job-t",
            "--stdin",
            "new.txt",
            "ws",
            "sh",
            "-c",
            ": > witness; cat; : {marker}",
        ],
        job: Some(Truth { status: "success", exit: Some(0), output: "new\n" }),
        kept: OLD,
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "run-detached",
        setup: FILLED,
        target: &[
            "run",
            "--json",
            "--detach",
            "--job-id",
            "job-t",
            "--declare",
            "out=a copy",
            "ws",
            "sh",
            "-c",
            GOOD_SCRIPT,
        ],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "wait",
        setup: &[
            CREATE,
            (0, &["put", "--json", "ws", "old.txt", "in.txt"]),
            (
                0,
                &[
                    "run",
                    "--json",
                    "--detach",
                    "--job-id",
                    "job-t",
                    "ws",
                    "sh",
                    "-c",
                    "echo begun; sleep 1; : > witness; echo ended; : {marker}",
                ],
            ),
        ],
        target: &["wait", "--json", "job-t"],
        job: Some(GOOD),
        kept: OLD,
        again: Again::Report,
        ..NOTHING
    },
    Scenario {
        name: "stop",
        setup: FILLED,
        background: Some(LONG),
        target: &["stop", "--json", "--apply", "ws"],
        job: Some(STOPPED),
        kept: OLD,
        ..NOTHING
    },
    Scenario {
        name: "export",
        setup: MADE,
        target: &["export", "--json", "ws", "out", "--to", "taken.txt"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        taken: Some(("taken.txt", "old\n")),
        again: Again::Export,
        ..NOTHING
    },
    Scenario {
        name: "export-over",
        setup: MADE,
        target: &["export", "--json", "ws", "out", "--to", "new.txt"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        taken: Some(("new.txt", "old\n")),
        again: Again::Export,
        ..NOTHING
    },
    Scenario {
        name: "export-folder",
        setup: &[CREATE, (0, &["put", "--json", "ws", "tree", "d"])],
        target: &["export", "--json", "--undeclared", "--path", "d", "ws", "d", "--to", "taken"],
        kept: &[("d/a", "a\n"), ("d/b/c", "c\n"), ("d/z", "z\n")],
        taken: Some(("taken/b/c", "c\n")),
        again: Again::Export,
        ..NOTHING
    },
    Scenario {
        name: "exec",
        target: &[
            "exec",
            "--json",
            "--workspace-id",
            "ws",
            "--job-id",
            "job-t",
            "--",
            "sh",
            "-c",
            "echo begun; : {marker}",
        ],
        job: Some(Truth { status: "success", exit: Some(0), output: "begun\n" }),
        ends: EXEC_ENDS,
        done: &["destroyed"],
        again: Again::Exec,
        ..NOTHING
    },
    Scenario {
        name: "exec-fails",
        target: &[
            "exec",
            "--json",
            "--workspace-id",
            "ws",
            "--job-id",
            "job-t",
            "--",
            "sh",
            "-c",
            "echo begun; exit 3; : {marker}",
        ],
        job: Some(Truth { status: "failure", exit: Some(3), output: "begun\n" }),
        ends: EXEC_ENDS,
        done: &["destroyed"],
        again: Again::Exec,
        ..NOTHING
    },
    Scenario {
        name: "exec-export",
        target: EXEC,
        job: Some(GOOD),
        landed: OLD,
        artifact: Some(OUT),
        taken: Some(("taken.txt", "old\n")),
        ends: EXEC_ENDS,
        done: &["destroyed"],
        again: Again::Exec,
        ..NOTHING
    },
    Scenario {
        name: "destroy",
        setup: FILLED,
        target: &["destroy", "--json", "ws"],
        kept: OLD,
        ends: &["ready", "destroyed"],
        done: &["destroyed"],
        again: Again::Destroy,
        ..NOTHING
    },
    Scenario {
        name: "destroy-force",
        setup: MADE,
        target: &["destroy", "--json", "--force", "ws"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        ends: &["ready", "destroyed"],
        done: &["destroyed"],
        again: Again::Destroy,
        gives_up: true,
        ..NOTHING
    },
    Scenario {
        name: "destroy-running",
        setup: FILLED,
        background: Some(LONG),
        target: &["destroy", "--json", "--force", "ws"],
        job: Some(STOPPED),
        kept: OLD,
        ends: &["destroyed"],
        done: &["destroyed"],
        again: Again::Destroy,
        gives_up: true,
        ..NOTHING
    },
    Scenario {
        name: "seal",
        setup: MADE,
        target: &["seal", "--json", "ws"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        ends: &["ready", "completed"],
        done: &["completed"],
        again: Again::Always,
        ..NOTHING
    },
    Scenario {
        name: "expire",
        setup: &[(0, &["create", "--json", "--workspace-id", "ws", "--ttl", "1ms"])],
        target: &["list", "--json"],
        ends: &["expired"],
        done: &["expired"],
        ..NOTHING
    },
    Scenario {
        name: "prune",
        setup: &[
            CREATE,
            (0, &["put", "--json", "ws", "old.txt", "in.txt"]),
            (0, RUN_GOOD),
            (0, &["destroy", "--json", "--force", "ws"]),
            (0, &["create", "--json", "--workspace-id", "other", "--ttl", "1ms"]),
        ],
        target: &["prune", "--json", "--apply", "--older-than", "1ms"],
        ends: &["destroyed"],
        done: &["destroyed"],
        again: Again::Always,
        ..NOTHING
    },
    Scenario {
        name: "settle-create",
        wreck: Some(Wreck { line: CREATE.1, plan: "1 before caller effect:create" }),
        target: &["list", "--json"],
        ends: &["failed"],
        done: &["failed"],
        ..NOTHING
    },
    Scenario {
        name: "settle-put",
        setup: FILLED,
        wreck: Some(Wreck {
            line: &["put", "--json", "ws", "new.txt", "new.txt"],
            plan: "1 after caller effect:write",
        }),
        target: &["inspect", "--json", "ws"],
        kept: OLD,
        landed: &[("new.txt", "new\n")],
        ..NOTHING
    },
    Scenario {
        name: "settle-run",
        setup: FILLED,
        wreck: Some(Wreck { line: RUN_GOOD, plan: "1 after caller effect:run" }),
        target: &["inspect", "--json", "ws"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        ..NOTHING
    },
    Scenario {
        name: "settle-lost",
        setup: FILLED,
        wreck: Some(Wreck { line: RUN_GOOD, plan: "1 before all supervisor:outcome" }),
        target: &["list", "--json"],
        job: Some(GOOD),
        kept: OLD,
        ..NOTHING
    },
    Scenario {
        name: "settle-export",
        setup: MADE,
        wreck: Some(Wreck {
            line: &["export", "--json", "ws", "out", "--to", "taken.txt"],
            plan: "1 after caller effect:read",
        }),
        target: &["export", "--json", "ws", "out", "--to", "taken.txt"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        taken: Some(("taken.txt", "old\n")),
        again: Again::Export,
        ..NOTHING
    },
    Scenario {
        name: "settle-exec",
        wreck: Some(Wreck { line: EXEC, plan: "1 after all effect:run" }),
        target: &["inspect", "--json", "job-t"],
        job: Some(GOOD),
        landed: OLD,
        artifact: Some(OUT),
        ..NOTHING
    },
    Scenario {
        name: "settle-destroy",
        setup: MADE,
        wreck: Some(Wreck {
            line: &["destroy", "--json", "--force", "ws"],
            plan: "1 before caller effect:remove",
        }),
        target: &["list", "--json"],
        job: Some(GOOD),
        artifact: Some(OUT),
        ends: &["destroyed"],
        done: &["destroyed"],
        gives_up: true,
        ..NOTHING
    },
    Scenario {
        name: "fake-create",
        fake: true,
        target: CREATE.1,
        ends: &[UNKNOWN, "ready", "failed"],
        again: Again::Create,
        ..NOTHING
    },
    Scenario {
        name: "fake-put",
        fake: true,
        setup: FILLED,
        target: &["put", "--json", "ws", "tree", "d"],
        kept: OLD,
        landed: &[("d/a", "a\n"), ("d/b/c", "c\n"), ("d/z", "z\n")],
        again: Again::Put,
        ..NOTHING
    },
    Scenario {
        name: "fake-run",
        fake: true,
        setup: FILLED,
        target: &["run", "--json", "--job-id", "job-t", "--declare", "out=a copy", "ws", "job"],
        job: Some(GOOD),
        kept: OLD,
        artifact: Some(OUT),
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "fake-detached",
        fake: true,
        setup: FILLED,
        target: &["run", "--json", "--detach", "--job-id", "job-t", "ws", "job"],
        job: Some(GOOD),
        kept: OLD,
        again: Again::Run,
        ..NOTHING
    },
    Scenario {
        name: "fake-exec",
        fake: true,
        target: FAKE_EXEC,
        job: Some(GOOD),
        landed: OLD,
        artifact: Some(OUT),
        taken: Some(("taken.txt", "old\n")),
        ends: EXEC_ENDS,
        done: &["destroyed"],
        again: Again::Exec,
        ..NOTHING
    },
    Scenario {
        name: "fake-destroy",
        fake: true,
        setup: FILLED,
        target: &["destroy", "--json", "ws"],
        kept: OLD,
        ends: &["ready", "destroyed"],
        done: &["destroyed"],
        again: Again::Destroy,
        ..NOTHING
    },
    Scenario {
        name: "orphans",
        setup: &[(0, &["create", "--json", "--workspace-id", "other"])],
        wreck: Some(Wreck {
            line: &["exec", "--json", "--workspace-id", "ws", "--job-id", "job-t", "--", "true"],
            plan: "1 before all append:intent_opened(create)+workspace_added+intent_opened(run)+job_added+intent_opened(remove)+workspace_moved(running)",
        }),
        aged: true,
        target: &["doctor", "--json"],
        ends: &[UNKNOWN],
        done: &[UNKNOWN],
        again: Again::Always,
        ..NOTHING
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_a_name_of_its_own_and_says_what_may_be_found() {
        let mut names: Vec<&str> = ALL.iter().map(|scenario| scenario.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        for scenario in ALL {
            assert!(
                scenario.done.iter().all(|state| scenario.ends.contains(state)),
                "{scenario:?}"
            );
            assert!(!scenario.name.contains(':'), "{scenario:?}");
        }
    }
}
