//! A job sees its own processes only, and does not reach into its init.
use crate::claim::{Claim, Control, Seen, Verdict, attempt};
use crate::scene::Scene;
use crate::table::check;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::tried(
        "process-seen",
        "A job cannot see a process of the host.",
        attempt("./probe see-host-process {NAME}", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "process-environment",
        "A job cannot read the environment of a process of the host.",
        attempt("./probe proc-environ {VARIABLE}", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "process-signalled",
        "A job cannot signal a process of the host by its id.",
        attempt("./probe kill {PID}", &["ESRCH"], Control::Plain),
    ),
    Claim::steps(
        "process-kill-all",
        "A job that kills everybody whom it can leaves the processes of the host alone.",
        kill_all,
    ),
    Claim::tried(
        "shared-memory",
        "A job cannot attach a shared memory segment of the host.",
        attempt("./probe shared-memory {SHARED}", &["EINVAL"], Control::Plain),
    ),
    Claim::tried(
        "ptrace",
        "A job cannot trace a process, not even a child of its own.",
        attempt("./probe ptrace", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "process-vm",
        "A job cannot read another process's memory by process_vm_readv.",
        attempt("./probe process-vm", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "init-trace",
        "A job cannot trace its init.",
        attempt("./probe ptrace-init", &["EPERM"], Control::OwnInit),
    ),
    Claim::tried(
        "init-memory",
        "A job cannot open the memory of its init.",
        attempt("./probe init-memory", &["EACCES"], Control::OwnInit),
    ),
    Claim::tried(
        "init-environment",
        "A job cannot read the environment of its init.",
        attempt("./probe dumpable", &["EACCES"], Control::OwnInit),
    ),
    Claim::tried(
        "init-executable",
        "A job cannot open the executable of its init.",
        attempt("./probe read-file /proc/1/exe", &["EACCES"], Control::OwnInit),
    ),
    Claim::tried(
        "init-descriptors",
        "A job cannot list the descriptors of its init.",
        attempt("./probe list-dir /proc/1/fd", &["EACCES"], Control::OwnInit),
    ),
    Claim::tried(
        "init-namespace",
        "A job cannot enter the mount namespace of its init anew.",
        attempt("./probe setns-init", &["EACCES", "EPERM"], Control::OwnInit),
    ),
];

/// Outside, the signal goes to the one process that the test started for it.
fn kill_all(scene: &mut Scene) -> Verdict {
    // The shell is among those that are killed, so the probe has nothing to say.
    let output = scene.env.run(["exec", "--json", "--", "sh", "-c", "kill -KILL -1; echo alive"]);
    let inside = match output.code() {
        Some(0 | 6) => Seen::of(!scene.sleeper_runs(), "it lives"),
        _ => Seen::Broken(output.to_string()),
    };
    let name = scene.process_name();
    let line = scene.sleeping(&name);
    let pid = scene.start(&line);
    let killed = scene.env.host("sh", ["-c", &format!("kill -KILL {pid}")]);
    Verdict { inside, control: Seen::of(killed.code() == Some(0), "by its id") }
}

#[test]
fn a_job_reaches_no_process_but_its_own() {
    check("processes", CLAIMS);
}
