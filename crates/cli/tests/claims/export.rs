//! What a job declares is exported as the bytes of a file, or not at all.
use crate::claim::{Claim, Seen, Verdict};
use crate::scene::Scene;
use crate::table::check;
use std::fs;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::steps(
        "export-symlink",
        "An exported artifact is never what a symbolic link of the job points to on the host.",
        |scene| export(scene, "ln -s {VAR_TMP} out/planted"),
    ),
    Claim::steps(
        "export-symlink-parent",
        "An export does not follow a symbolic link among the directories of the artifact.",
        |scene| export(scene, "rmdir out; ln -s $(dirname {VAR_TMP}) out"),
    ),
    Claim::steps(
        "export-fifo",
        "An export of a FIFO is refused and does not wait for a writer.",
        |scene| export(scene, "mkfifo out/planted"),
    ),
    Claim::steps("export-socket", "An export of a socket is refused.", |scene| {
        let bind = "import socket; socket.socket(socket.AF_UNIX).bind(\"out/planted\")";
        export(scene, &format!("python3 -c '{bind}'"))
    }),
];

/// Declares and exports `out/planted`, which `script` makes; an honest file is the control.
fn export(scene: &mut Scene, script: &str) -> Verdict {
    let script = scene.fill(script).expect("it names what every scene has");
    let run = |script: &str, to: &str| {
        let to_flag = format!("out/planted=./{to}");
        let flags = ["exec", "--json", "--declare", "out/planted=a file", "--export", &to_flag];
        let script = format!("mkdir out; {script} && echo made");
        let output = scene.env.run([&flags[..], &["--", "sh", "-c", &script]].concat());
        (output, scene.env.work().join(to))
    };
    let (output, path) = run(&script, "odd");
    // The job says that it did make what is then not exported.
    let inside = if output.json()["evidence"][0]["excerpt"] == "made\n" {
        Seen::of(output.code() == Some(0) || path.symlink_metadata().is_ok(), "not exported")
    } else {
        Seen::Broken(output.to_string())
    };
    let (_, path) = run("echo honest > out/planted", "honest");
    let control = Seen::of(fs::read(&path).is_ok_and(|bytes| bytes == b"honest\n"), "exported");
    drop(fs::remove_file(path));
    Verdict { inside, control }
}

#[test]
fn an_export_gives_the_bytes_of_a_file_of_the_job_or_nothing() {
    check("export", CLAIMS);
}
