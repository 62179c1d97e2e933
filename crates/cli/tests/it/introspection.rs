//! The verbs that describe: what they say, where they take it from, and that they leave nothing behind.
use crate::support::{each_user, keys_in_order, plain};
use bailiwick_testkit::TestEnv;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::geteuid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{chown, symlink};

/// Writes a `culture.yaml` into the working folder.
fn culture(env: &TestEnv, text: &str) {
    drop(env.write("culture.yaml", text));
}

/// Returns the strings of a list.
fn strings(list: &Value) -> Vec<String> {
    serde_json::from_value(list.clone()).unwrap_or_else(|error| panic!("{error}: {list}"))
}

#[test]
fn whoami_tells_the_built_in_identity_where_there_is_no_other() {
    let env = plain();
    let output = env.run(["whoami", "--json"]).exits(0);
    assert_eq!(keys_in_order(&output), ["nick", "version", "backend", "model", "source"]);
    let who = output.json();
    assert_eq!(who["nick"], "bailiwick");
    assert_eq!(who["backend"], "colleague");
    assert_eq!(who["model"], "unknown");
    assert_eq!(who["source"], "built-in");
    assert_eq!(who["version"], env.json(0, &["version"])["version"]);
    let text = env.run(["whoami"]).exits(0);
    assert!(text.out().starts_with("nick: bailiwick\nversion: "), "{text}");
}

#[test]
fn whoami_tells_the_identity_of_the_nearest_file_above() {
    let env = plain();
    culture(
        &env,
        "agents:\n- suffix: scout\n  backend: claude\n  model: some/model-1\n  tags: [a]\n",
    );
    let folder = env.work().join("a");
    env.make_folder(&folder, 0o755);
    let who = whoami_in(&env, "cd a");
    assert_eq!(who["nick"], "scout");
    assert_eq!(who["backend"], "claude");
    assert_eq!(who["model"], "some/model-1");
    assert!(who["source"].as_str().expect("a path").ends_with("/culture.yaml"), "{who}");
}

/// Returns who answers after a line of shell that goes somewhere.
fn whoami_in(env: &TestEnv, go: &str) -> Value {
    let program = env.program().display().to_string();
    let line = format!("{go} && exec \"$0\" whoami --json");
    env.host("sh", ["-c", &line, &program]).exits(0).json()
}

#[test]
fn whoami_does_not_take_its_name_from_whoever_may_write_above() {
    each_user(|env| {
        let text = "suffix: scout\nbackend: b\n";
        let file = env.write("culture.yaml", text);
        let inner = env.work().join("inner");
        env.make_folder(&inner, 0o755);
        assert_eq!(whoami_in(env, "cd inner")["nick"], "scout");

        assert!(geteuid().is_root(), "this test gives files away and mounts, which needs root");
        chown(&file, Some(65_534), None).expect("given away");
        assert_eq!(whoami_in(env, "cd inner")["nick"], "bailiwick", "it is a stranger's");
        chown(&inner, Some(65_534), None).expect("given away");
        assert_eq!(whoami_in(env, "cd inner")["nick"], "scout", "we went to the stranger");

        env.give(&file);
        env.give(&inner);
        mount("tmpfs", &inner, "tmpfs", MountFlags::empty(), c"mode=0755").expect("a mount");
        let told = whoami_in(env, "cd inner");
        unmount(&inner, UnmountFlags::DETACH).expect("it was mounted");
        assert_eq!(told["nick"], "bailiwick", "it is on another file system");
    });
}

#[test]
fn whoami_answers_in_a_folder_that_is_gone() {
    let env = plain();
    culture(&env, "suffix: scout\nbackend: b\n");
    let who = whoami_in(&env, "mkdir gone && cd gone && rmdir ../gone");
    assert_eq!(who["source"], "built-in");
}

#[test]
fn a_file_of_somebody_elses_making_is_refused_or_escaped() {
    let env = plain();
    culture(&env, "suffix: \"a\\e[31m\\nversion: 9\"\nbackend: b\nmodel: \"\\x07\"\n");
    let text = env.run(["whoami"]).exits(0);
    assert_eq!(text.out().lines().count(), 5, "{text}");
    assert!(!text.out().contains(['\u{1b}', '\u{7}']), "{text}");
    assert_eq!(env.json(0, &["whoami"])["nick"], "a\u{1b}[31m\nversion: 9");
    let overview = env.run(["overview"]).exits(0);
    assert!(!overview.out().contains('\u{1b}'), "{overview}");

    for text in ["suffix: a\n", "suffix: a\nbackend: ../../etc/passwd\n", "a: *b\n", "\0", "[[["] {
        culture(&env, text);
        let error = env.json(1, &["whoami"]);
        assert_eq!(error["reason"], "bad_identity", "{error}");
        assert!(error["remediation"].as_str().expect("text").contains("explain identity"));
    }
}

#[test]
fn learn_names_every_verb_that_the_help_lists() {
    let env = plain();
    let output = env.run(["learn", "--json"]).exits(0);
    let keys = ["tool", "version", "purpose", "command", "commands", "exit_codes", "json_support"];
    assert_eq!(keys_in_order(&output), [&keys[..], &["explain_pointer"]].concat());
    let lesson = output.json();
    let program = env.program().file_name().expect("it has a name").to_string_lossy().into_owned();
    assert_eq!(lesson["command"], program.as_str(), "what is typed is what it is called");
    assert_eq!(lesson["json_support"], true);

    let help = env.run(["--help"]).exits(0);
    assert!(help.out().contains(&format!("Usage: {program} <COMMAND>")), "{help}");
    let listed = help.out().lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    let listed: BTreeSet<String> =
        listed.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect();
    let commands = lesson["commands"].as_array().expect("a list");
    let first = |command: &Value| strings(&command["path"])[0].clone();
    assert_eq!(commands.iter().map(first).collect::<BTreeSet<_>>(), listed);
    assert!(commands.iter().any(|command| strings(&command["path"]) == ["cli", "overview"]));
    assert!(commands.iter().all(|command| !command["summary"].as_str().expect("text").is_empty()));

    let codes = lesson["exit_codes"].as_object().expect("an object");
    assert_eq!(codes.keys().map(String::as_str).collect::<String>(), "012345678");
    let text = env.run(["learn"]).exits(0);
    for verb in listed {
        assert!(text.out().contains(&format!("\n  {verb} ")), "{verb}: {text}");
    }
}

#[test]
fn explain_has_a_page_for_each_topic_and_knows_what_is_near() {
    let env = plain();
    for topic in ["exit-codes", "policy", "package", "identity"] {
        let output = env.run(["explain", "--json", topic]).exits(0);
        assert_eq!(keys_in_order(&output), ["path", "markdown"]);
        let page = output.json();
        assert_eq!(strings(&page["path"]), [topic]);
        assert_eq!(page["markdown"], env.run(["explain", topic]).exits(0).out());
    }
    let root = env.run(["explain"]).exits(0);
    assert!(root.out().contains("`bailiwick explain exit-codes`"), "{root}");
    assert_eq!(env.run(["explain", "bailiwick"]).exits(0).out(), root.out());
    assert_eq!(
        env.run(["explain", "bailiwick", "run"]).exits(0).out(),
        env.run(["explain", "run"]).exits(0).out()
    );
    let error = env.json(1, &["explain", "inspcet"]);
    assert_eq!(error["reason"], "unknown_page", "{error}");
    assert!(error["remediation"].as_str().expect("text").contains("`inspect`"), "{error}");
    let long = env.run(["explain", &"\u{1b}[2J".repeat(9_000)]).exits(1);
    assert!(long.stderr.len() < 1_000 && !long.err().contains('\u{1b}'), "{long}");
}

#[test]
fn overview_answers_whatever_it_is_pointed_at() {
    let env = plain();
    let output = env.run(["overview", "--json"]).exits(0);
    assert_eq!(keys_in_order(&output), ["subject", "sections"]);
    let overview = output.json();
    assert_eq!(overview["subject"], "bailiwick");
    let titles = |overview: &Value| -> Vec<String> {
        let sections = overview["sections"].as_array().expect("a list");
        sections.iter().map(|section| section["title"].as_str().expect("text").to_owned()).collect()
    };
    let expected = ["Identity", "Lifecycle verbs", "Introspection verbs", "Identity files"];
    assert_eq!(titles(&overview), expected);
    assert!(
        strings(&overview["sections"][1]["items"]).iter().any(|line| line.starts_with("run: "))
    );
    assert_eq!(env.json(0, &["overview", "/no/such/place"]), overview);

    culture(&env, "not an identity\n");
    assert_eq!(titles(&env.json(0, &["overview"])), expected);

    let cli = env.json(0, &["cli", "overview"]);
    assert_eq!(cli["subject"], "bailiwick cli");
    assert_eq!(titles(&cli), ["Verbs", "Conventions"]);
    assert_eq!(env.json(0, &["cli"]), cli);
    assert_eq!(env.json(0, &["overview", "cli"]), cli);
    assert_eq!(env.run(["cli", "overview", "--json"]).exits(0).json(), cli);
}

/// Runs `doctor` and returns its exit code and the two checks of the identity.
fn identity_checks(env: &TestEnv) -> (Option<i32>, [Value; 2]) {
    let output = env.run(["doctor", "--json"]);
    let health = output.json();
    let checks = health["checks"].as_array().expect("a list");
    let check = |id: &str| {
        let found = checks.iter().find(|check| check["id"] == id);
        found.unwrap_or_else(|| panic!("the check {id}: {health}")).clone()
    };
    (output.code(), [check("prompt-file-present"), check("backend-consistency")])
}

#[test]
fn doctor_checks_that_an_identity_has_the_prompt_of_its_backend() {
    let env = plain();
    let (usual, checks) = identity_checks(&env);
    for check in checks {
        assert_eq!(check["passed"], true, "{check}");
        assert!(check["message"].as_str().expect("text").starts_with("not applicable"), "{check}");
    }
    let expect = |passed: [bool; 2]| {
        let (code, checks) = identity_checks(&env);
        assert_eq!(checks.clone().map(|check| check["passed"] == true), passed, "{checks:?}");
        assert_eq!(code, if passed == [true, true] { usual } else { Some(1) });
        for check in checks.iter().filter(|check| check["passed"] == false) {
            assert_eq!(check["severity"], "error", "{check}");
            assert!(!check["remediation"].as_str().expect("text").is_empty(), "{check}");
        }
    };
    culture(&env, "suffix: a\nbackend: b\n");
    expect([false, true]);
    drop(env.write("AGENTS.c.md", "a prompt"));
    expect([false, false]);
    let prompt = env.write("AGENTS.b.md", "");
    expect([false, false]);
    fs::write(&prompt, "a prompt").expect("ours");
    expect([true, true]);
    culture(&env, "suffix: a\nbackend: [b]\n");
    expect([false, false]);
    culture(&env, "suffix: a\nbackend: claude\n");
    drop(env.write("CLAUDE.md", "a prompt"));
    expect([true, true]);
}

#[test]
fn the_identity_of_this_repository_is_whole() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |name: &str| fs::read_to_string(format!("{root}/{name}")).expect("it is there");
    let env = plain();
    culture(&env, &read("culture.yaml"));
    drop(env.write("AGENTS.colleague.md", read("AGENTS.colleague.md")));
    let (_, checks) = identity_checks(&env);
    assert!(checks.iter().all(|check| check["passed"] == true), "{checks:?}");
    let mut who = env.json(0, &["whoami"]);
    who["source"] = "built-in".into();
    fs::remove_file(env.work().join("culture.yaml")).expect("ours");
    assert_eq!(env.json(0, &["whoami"]), who, "the built-in identity is this repository's");
}

#[test]
fn the_completions_of_every_shell_know_every_verb() {
    let env = plain();
    let lesson = env.json(0, &["learn"]);
    let commands = lesson["commands"].as_array().expect("a list");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = env.run(["completions", "--json", shell]).exits(0);
        assert_eq!(keys_in_order(&output), ["shell", "script"]);
        let completions = output.json();
        assert_eq!(completions["shell"], shell);
        let script = env.run(["completions", shell]).exits(0);
        assert_eq!(completions["script"], script.out());
        for command in commands {
            let verb = &strings(&command["path"])[0];
            assert!(script.out().contains(verb.as_str()), "{shell} lacks {verb}");
        }
    }
    let error = env.json(1, &["completions", "tcsh"]);
    assert!(error["message"].as_str().expect("text").contains("bash"), "{error}");
}

#[test]
fn bash_completes_a_verb_and_a_flag() {
    let env = plain();
    let script = env.run(["completions", "bash"]).exits(0);
    let file = env.write("completions", script.out()).display().to_string();
    let complete = |words: &str, place: &str| {
        let line = "source \"$1\"; read -ra COMP_WORDS <<<\"$2\"; COMP_CWORD=$3; \
                    _bailiwick bailiwick \"${COMP_WORDS[$3]}\" \"${COMP_WORDS[$3 - 1]}\"; \
                    echo \"${COMPREPLY[@]}\"";
        env.host("bash", ["-c", line, "bash", &file, words, place]).exits(0).out().to_owned()
    };
    assert_eq!(complete("bailiwick whoa", "1"), "whoami\n");
    assert_eq!(complete("bailiwick destroy --for", "2"), "--force\n");
    assert_eq!(complete("bailiwick cli overv", "2"), "overview\n");
}

#[test]
fn man_prints_a_page_and_writes_all_of_them() {
    let env = plain();
    let page = env.run(["man", "run"]).exits(0);
    for part in [".TH bailiwick-run 1", ".SH SYNOPSIS", "\\-\\-env\\-file", ".SH \"EXIT STATUS\""] {
        assert!(page.out().contains(part), "{part}: {page}");
    }
    assert!(env.run(["man"]).exits(0).out().contains(".TH bailiwick 1"));
    let pages = env.run(["man", "cli", "overview", "--json"]).exits(0).json();
    assert_eq!(pages["pages"][0]["name"], "bailiwick-cli-overview.1");
    assert_eq!(env.json(1, &["man", "nothing"])["reason"], "unknown_verb");

    let folder = env.work().join("man1");
    let told = folder.display().to_string();
    assert_eq!(env.json(1, &["man", "--all", &told])["reason"], "unwritable");
    env.make_folder(&folder, 0o755);
    let other = env.write("other", "kept");
    symlink(&other, folder.join("bailiwick-run.1")).expect("a link");
    let names = |pages: &Value| -> BTreeSet<String> {
        let pages = pages["pages"].as_array().expect("a list");
        pages.iter().map(|page| page["name"].as_str().expect("text").to_owned()).collect()
    };
    let written = env.json(0, &["man", "--all", &told]);
    let verbs = env.json(0, &["learn"])["commands"].as_array().expect("a list").len();
    assert_eq!(names(&written).len(), verbs + 1);
    let there = fs::read_dir(&folder).expect("it is there").flatten();
    let there: BTreeSet<String> =
        there.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(there, names(&written), "nothing else is there");
    assert_eq!(fs::read_to_string(folder.join("bailiwick-run.1")).expect("a page"), page.out());
    assert_eq!(fs::read_to_string(other).expect("it is there"), "kept", "no link is followed");
}

#[test]
fn what_only_describes_makes_no_home() {
    let env = plain();
    for line in [
        &["whoami"][..],
        &["learn"],
        &["explain", "run"],
        &["overview"],
        &["cli", "overview"],
        &["completions", "bash"],
        &["man"],
        &["version"],
    ] {
        let output = env.run(line).exits(0);
        assert!(output.stderr.is_empty(), "{output}");
        assert!(!env.home().exists(), "{output}");
    }
}
