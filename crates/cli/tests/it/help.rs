//! The help, as it is printed: a change of a flag is a change of a file here.
//!
//! `UPDATE_EXPECT=1 cargo test -p bailiwick-cli help` writes them anew.
use crate::support::plain;
use expect_test::expect_file;

#[test]
fn the_help_of_every_verb_is_as_recorded() {
    let env = plain();
    let root = env.run(["--help"]).exits(0);
    expect_file!["help/bailiwick.txt"].assert_eq(root.out());
    let verbs = [
        ("create", expect_file!["help/create.txt"]),
        ("put", expect_file!["help/put.txt"]),
        ("run", expect_file!["help/run.txt"]),
        ("exec", expect_file!["help/exec.txt"]),
        ("wait", expect_file!["help/wait.txt"]),
        ("stop", expect_file!["help/stop.txt"]),
        ("inspect", expect_file!["help/inspect.txt"]),
        ("files", expect_file!["help/files.txt"]),
        ("export", expect_file!["help/export.txt"]),
        ("seal", expect_file!["help/seal.txt"]),
        ("destroy", expect_file!["help/destroy.txt"]),
        ("prune", expect_file!["help/prune.txt"]),
        ("list", expect_file!["help/list.txt"]),
        ("logs", expect_file!["help/logs.txt"]),
        ("doctor", expect_file!["help/doctor.txt"]),
        ("version", expect_file!["help/version.txt"]),
        ("whoami", expect_file!["help/whoami.txt"]),
        ("learn", expect_file!["help/learn.txt"]),
        ("explain", expect_file!["help/explain.txt"]),
        ("overview", expect_file!["help/overview.txt"]),
        ("cli", expect_file!["help/cli.txt"]),
        ("completions", expect_file!["help/completions.txt"]),
        ("man", expect_file!["help/man.txt"]),
    ];
    for (verb, file) in &verbs {
        let help = env.run([verb, "--help"]).exits(0);
        file.assert_eq(help.out());
        assert_eq!(env.run([verb, "-h"]).exits(0).out(), help.out(), "-h is --help");
        assert!(root.out().contains(&format!("\n  {verb}")), "the root's help lists {verb}");
    }
    assert_eq!(env.run(["help"]).exits(0).out(), root.out());
    let help = env.run(["help", "run"]).exits(0);
    assert_eq!(help.out(), env.run(["run", "--help"]).exits(0).out());
    assert!(env.run(["help", "crate"]).exits(1).err().contains("unknown verb `crate`"));
    let listed = root.out().lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty()).count();
    assert_eq!(listed, verbs.len(), "every verb has its file");
}
