//! A `culture.yaml` is somebody else's text: it names whoever answers, and can do nothing else.
use crate::claim::{Claim, Seen, Verdict};
use crate::scene::Scene;
use crate::table::check;
use bailiwick_testkit::Output;
use std::fs;
use std::os::unix::fs::symlink;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::steps("identity-link", "A culture.yaml that is a symbolic link is not followed.", link),
    Claim::steps(
        "identity-size",
        "A culture.yaml of more than 64 KiB is not read to its end.",
        size,
    ),
    Claim::steps("identity-run", "Nothing that a culture.yaml says is run.", run),
];

/// What a file says whose reader shows it.
const HONEST: &str = "suffix: planted-name\nbackend: colleague\n";

fn whoami(scene: &Scene) -> Output {
    scene.env.run(["whoami", "--json"])
}

/// A file that is refused as no identity, unless its name is shown.
fn refusal(output: &Output) -> Seen {
    if output.mentions("planted-name") {
        return Seen::Reached("shown".into());
    }
    match output.code() {
        Some(1) if output.error()["reason"] == "bad_identity" => {
            Seen::Refused("bad_identity".into())
        }
        _ => Seen::Broken(output.to_string()),
    }
}

/// The control: the same text in a plain file is read.
fn honest(scene: &Scene) -> Seen {
    let file = scene.env.write("culture.yaml", HONEST);
    let shown = whoami(scene).mentions("planted-name");
    fs::remove_file(file).expect("our own file");
    Seen::of(shown, "shown")
}

fn link(scene: &mut Scene) -> Verdict {
    let file = scene.env.write("elsewhere", HONEST);
    let link = scene.env.work().join("culture.yaml");
    symlink(file, &link).expect("a link of ours");
    let inside = refusal(&whoami(scene));
    fs::remove_file(link).expect("our own link");
    Verdict { inside, control: honest(scene) }
}

fn size(scene: &mut Scene) -> Verdict {
    let file = scene.env.write("culture.yaml", format!("{HONEST}#{}\n", "x".repeat(64 << 10)));
    let inside = refusal(&whoami(scene));
    fs::remove_file(file).expect("our own file");
    Verdict { inside, control: honest(scene) }
}

fn run(scene: &mut Scene) -> Verdict {
    let text = "suffix: \"$(touch ran)`touch ran`\"\nbackend: colleague\n\
                hook: !!python/object/apply:os.system [\"touch ran\"]\nprompt: |\n  $(touch ran)\n";
    let (file, ran) = (scene.env.write("culture.yaml", text), scene.env.work().join("ran"));
    let told = whoami(scene);
    for verb in ["learn", "overview", "doctor"] {
        drop(scene.env.run([verb]));
    }
    let inside = if told.code() == Some(0) && told.mentions("touch ran") {
        Seen::of(ran.exists(), "shown as it is")
    } else {
        Seen::Broken(told.to_string())
    };
    // The control: a shell that takes the text for a program.
    drop(scene.env.host("sh", ["culture.yaml"]));
    let control = Seen::of(ran.exists(), "run by a shell");
    for path in [file, ran] {
        fs::remove_file(path).ok();
    }
    Verdict { inside, control }
}

#[test]
fn a_culture_file_is_somebody_elses_text() {
    check("identity", CLAIMS);
}
