//! What goes into a workspace and comes out of it stays there, whatever links an archive, a tree or a job has laid.
use crate::claim::{Claim, Seen, Verdict};
use crate::scene::Scene;
use crate::table::check;
use bailiwick_testkit::Output;
use std::fs;
use std::path::PathBuf;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::steps(
        "put-archive-link",
        "An archive that is put does not write outside through a link that it laid before.",
        |scene| {
            let make = "ln -s {OUT} way && tar -c -f archive way && rm way && mkdir way \
                        && echo x > way/landed && tar -r -f archive way/landed && rm -r way";
            archive(scene, make)
        },
    ),
    Claim::steps(
        "put-archive-path",
        "An archive that is put does not write to an absolute path.",
        |scene| {
            let make = "echo x > f && tar -c -P --transform 's|^f$|{OUT}/landed|' -f archive f";
            archive(scene, make)
        },
    ),
    Claim::steps(
        "put-tree-link",
        "A link in a directory that is put does not bring a file from outside it in.",
        tree_in,
    ),
    Claim::steps(
        "put-workspace-link",
        "What is put is not written through a symbolic link that a job left.",
        behind_a_link,
    ),
    Claim::steps(
        "files-link",
        "A listing shows no name, and reads no byte, behind a symbolic link of a job.",
        listing,
    ),
    Claim::steps(
        "export-tree-link",
        "An exported directory does not hold what a symbolic link in it points to outside.",
        tree_out,
    ),
];

/// Makes a workspace and returns its id.
fn workspace(scene: &Scene) -> String {
    let package = scene.env.json(0, &["create"]);
    package["provenance"]["workspace_id"].as_str().expect("text").to_owned()
}

/// Runs a line of shell outside, in which `$0` is the command and `{OUT}` a folder that no verb may reach.
fn outside(scene: &Scene, line: &str) -> Output {
    let line = scene.fill(line).expect("it names what every scene has");
    let line = line.replace("{OUT}", scene.public_folder().to_str().expect("text"));
    let program = scene.env.program().to_str().expect("text");
    scene.env.host("sh", ["-c", line.as_str(), program])
}

/// Runs a line of shell in a job of the workspace, which has to succeed.
fn job(scene: &Scene, id: &str, line: &str) {
    let line = scene.fill(line).expect("it names what every scene has");
    let line = line.replace("{OUT}", scene.public_folder().to_str().expect("text"));
    drop(scene.env.json(0, &["run", id, "sh", "-c", &line]));
}

/// What a verb that has to refuse came to, where `reached` says whether it did what it must not; a refusal for another reason
/// than one of `reasons` proves nothing.
fn refusal(output: &Output, reached: bool, reasons: &[&str]) -> Seen {
    if reached {
        return Seen::Reached("outside".into());
    }
    match reasons.iter().find(|reason| output.code() == Some(1) && output.mentions(reason)) {
        Some(reason) => Seen::Refused((*reason).into()),
        None => Seen::Broken(output.to_string()),
    }
}

/// What must not be written.
fn landed(scene: &Scene) -> PathBuf {
    scene.public_folder().join("landed")
}

/// Removes what a control wrote, and says whether it was there.
fn wrote(scene: &Scene) -> Seen {
    let there = fs::remove_file(landed(scene)).is_ok();
    Seen::of(there, "written outside")
}

/// Puts the archive that `make` makes; a tar that trusts it is the control.
fn archive(scene: &mut Scene, make: &str) -> Verdict {
    let id = workspace(scene);
    drop(outside(scene, make).exits(0));
    let put = outside(scene, &format!("\"$0\" put --json {id} - in < archive"));
    let inside = refusal(&put, landed(scene).exists(), &["link_leaves_tree", "archive_refused"]);
    fs::remove_file(landed(scene)).ok();
    drop(outside(scene, "mkdir -p trusting && tar -x -P -f archive -C trusting"));
    Verdict { inside, control: wrote(scene) }
}

fn tree_in(scene: &mut Scene) -> Verdict {
    let id = workspace(scene);
    drop(
        outside(scene, "mkdir tree && echo x > tree/honest && ln -s {VAR_TMP} tree/planted")
            .exits(0),
    );
    let put = outside(scene, &format!("\"$0\" put --json {id} tree in"));
    let read = outside(scene, &format!("\"$0\" files --read {id} in/planted"));
    let inside = refusal(&put, read.out() == "planted\n", &["link_leaves_tree"]);
    let copied = outside(scene, "cp -rL tree copied && cat copied/planted");
    Verdict { inside, control: Seen::of(copied.out() == "planted\n", "copied") }
}

fn behind_a_link(scene: &mut Scene) -> Verdict {
    let id = workspace(scene);
    job(scene, &id, "ln -s {OUT} way");
    drop(outside(scene, "echo x > honest").exits(0));
    let put = outside(scene, &format!("\"$0\" put --json --overwrite {id} honest way/landed"));
    let inside = refusal(&put, landed(scene).exists(), &["destination_in_the_way"]);
    fs::remove_file(landed(scene)).ok();
    drop(outside(scene, "ln -s {OUT} way && cp honest way/landed; rm -f way"));
    Verdict { inside, control: wrote(scene) }
}

fn listing(scene: &mut Scene) -> Verdict {
    let id = workspace(scene);
    let link = "ln -s \"$(dirname {VAR_TMP})\" out";
    job(scene, &id, link);
    let listed = scene.env.run(["files", "--json", "--recursive", &id]);
    let named = scene.env.run(["files", "--json", "--recursive", &id, "out"]);
    let read = scene.env.run(["files", "--read", &id, "out/planted"]);
    let shown = [&listed, &named].iter().any(|output| output.mentions("planted"));
    let inside = if listed.mentions("\"out\"") {
        refusal(&read, shown || read.out() == "planted\n", &["a link, or lies behind one"])
    } else {
        Seen::Broken(listed.to_string())
    };
    let followed = outside(scene, &format!("{link}; find -L out; rm out"));
    Verdict { inside, control: Seen::of(followed.mentions("out/planted"), "followed") }
}

fn tree_out(scene: &mut Scene) -> Verdict {
    let id = workspace(scene);
    let make = "mkdir site && echo x > site/honest && ln -s {VAR_TMP} site/planted";
    job(scene, &id, make);
    let export = ["export", "--json", "--undeclared", "--path", "site", "--to", "odd", &id, "site"];
    let output = scene.env.run(export);
    let inside = refusal(&output, scene.env.work().join("odd").exists(), &["tree_refused"]);
    let copied = outside(scene, &format!("{make} && cp -rL site copy && cat copy/planted"));
    Verdict { inside, control: Seen::of(copied.out() == "planted\n", "copied") }
}

#[test]
fn what_goes_in_and_out_follows_no_link() {
    check("transfer", CLAIMS);
}
