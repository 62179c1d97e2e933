//! A job sees the toolchain, its workspace and what the policy shows, and writes to its own places only.
use crate::claim::{Claim, Control, Seen, Verdict, attempt};
use crate::scene::{Scene, said};
use crate::table::check;
use std::fs;

const SHOWN: &str = "--allow-host-path {SHOWN}:ro";

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::tried(
        "file-var-tmp",
        "A job cannot read a file of the host that everybody may read.",
        attempt("./probe read-file {VAR_TMP}", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-account",
        "A job cannot read what is in its caller's home directory.",
        attempt("./probe read-file {ACCOUNT}", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-etc",
        "A job cannot read a file of the host's /etc that is not on the list of copied ones.",
        attempt("./probe read-file {ETC}", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-run",
        "A job has no /run of the host.",
        attempt("./probe list-dir /run", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-sysfs",
        "A job has no sysfs.",
        attempt("./probe sysfs", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-home",
        "A job cannot list the home of Bailiwick.",
        attempt("./probe list-dir {HOME}", &["ENOENT"], Control::Plain),
    ),
    Claim::steps(
        "file-home-shown",
        "A policy cannot show the home of Bailiwick to a job.",
        home_shown,
    ),
    Claim::tried(
        "file-dot-dot",
        "A job cannot leave its root by dot-dot.",
        attempt("./probe read-file ../../../../../../../..{VAR_TMP}", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-symlink",
        "A symbolic link in the workspace does not lead outside.",
        attempt(
            "ln -s {VAR_TMP} link; ./probe read-file link; rm link",
            &["ENOENT"],
            Control::Plain,
        ),
    ),
    Claim::tried(
        "file-hard-link",
        "A job cannot make a hard link to a file of the host.",
        attempt("./probe hard-link {BESIDE}", &["ENOENT"], Control::Plain),
    ),
    Claim::tried(
        "file-handle",
        "A job cannot open a file by its handle.",
        attempt("./probe file-handle", &["EPERM"], Control::Root),
    ),
    Claim::tried(
        "file-proc-root",
        "A job cannot go through /proc to the root of its init.",
        attempt("./probe proc-root {VAR_TMP}", &["EACCES"], Control::OwnInit),
    ),
    Claim::tried(
        "file-shown-hard-link",
        "A job cannot hard-link a file of a shown host path into its workspace.",
        attempt("./probe hard-link {IN_SHOWN}", &["EXDEV"], Control::Plain).flags(SHOWN),
    ),
    Claim::tried(
        "file-shown-symlink",
        "A symbolic link in a shown host path does not lead outside.",
        attempt("./probe read-file {SHOWN}/link", &["ENOENT"], Control::Plain).flags(SHOWN),
    ),
    Claim::tried(
        "file-shown-sibling",
        "A job cannot see what lies beside a shown host path.",
        attempt("./probe read-file {SHOWN}/../beside", &["ENOENT"], Control::Plain).flags(SHOWN),
    ),
    Claim::steps(
        "write-stdin",
        "A job that opens its standard input again for writing does not write to the host's file.",
        stdin,
    ),
    Claim::tried(
        "write-shown",
        "A job cannot make a file in a host path that is shown read-only.",
        attempt("./probe write-file {SHOWN}/new", &["EROFS"], Control::Plain).flags(SHOWN),
    ),
    Claim::tried(
        "write-elsewhere",
        "A job can write to no directory and no file besides those in /workspace, /tmp and /dev/shm.",
        attempt("./probe write-elsewhere", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "write-proc-sys",
        "A job cannot set a kernel parameter.",
        attempt("./probe proc-sys-write", &["EROFS", "EACCES"], Control::Root),
    ),
    Claim::tried(
        "write-proc-irq",
        "A job cannot direct an interrupt.",
        attempt(
            "./probe open-write /proc/irq/default_smp_affinity",
            &["EROFS", "EACCES"],
            Control::Root,
        ),
    ),
    Claim::tried(
        "write-cgroup",
        "A job cannot write to a file of a control group.",
        attempt("./probe cgroup-write", &["ENOENT"], Control::Root),
    ),
    Claim::tried(
        "proc-kallsyms",
        "A job cannot read the kernel's symbols.",
        attempt("./probe read-file /proc/kallsyms", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "proc-interrupts",
        "A job cannot read the host's interrupts.",
        attempt("./probe read-file /proc/interrupts", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "proc-key-users",
        "A job cannot read who has keys.",
        attempt("./probe read-file /proc/key-users", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "dev-kmsg",
        "A job cannot read the kernel's log.",
        attempt("./probe dev-kmsg", &["ENOENT"], Control::Root),
    ),
    Claim::tried(
        "dev-others",
        "A job sees no device but null, zero, full, random, urandom, tty and its own terminals.",
        attempt("./probe devices", &["ABSENT"], Control::Plain),
    ),
];

/// The refusal is the command's own, before anything runs; another path is shown.
fn home_shown(scene: &mut Scene) -> Verdict {
    // It exists from the first command on.
    drop(scene.env.run(["list"]).exits(0));
    let show = |path: &str, read: &str| {
        let line = format!("./probe list-dir {read}");
        let flag = format!("{path}:ro");
        let words = ["exec", "--json", "--input", "probe=probe", "--allow-host-path", &flag, "--"];
        scene.env.run([&words[..], &["sh", "-c", &line]].concat())
    };
    let home = scene.word("HOME");
    let refused = show(home, home);
    let inside = match refused.code() {
        Some(3) => Seen::Refused("exit code 3".into()),
        _ => Seen::Reached(refused.to_string()),
    };
    let shown = scene.word("SHOWN");
    Verdict { inside, control: said(&show(shown, shown)) }
}

/// What a job reads is a pipe; outside, whoever has the file as its input can open it again.
fn stdin(scene: &mut Scene) -> Verdict {
    let file = scene.env.write("input", "planted\n");
    let script = "cat; printf overwritten > /proc/self/fd/0; echo tried";
    let words = ["exec", "--json", "--stdin", "input", "--", "sh", "-c", script];
    let output = scene.env.run(words);
    let inside = match output.json()["evidence"][0]["excerpt"].as_str() {
        Some(excerpt) if excerpt.starts_with("planted\n") && excerpt.ends_with("tried\n") => {
            let changed = fs::read(&file).expect("a file of the test") != b"planted\n";
            Seen::of(changed, "not the file")
        }
        _ => Seen::Broken(output.to_string()),
    };
    drop(scene.env.host("sh", ["-c", &format!("sh -c '{script}' < input")]));
    let changed = fs::read(&file).is_ok_and(|bytes| bytes.starts_with(b"overwritten"));
    Verdict { inside, control: Seen::of(changed, "overwritten") }
}

#[test]
fn a_job_sees_and_writes_no_file_outside_its_declared_parts() {
    check("files", CLAIMS);
}
