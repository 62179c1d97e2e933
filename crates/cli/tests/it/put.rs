//! Copy-in as a caller sees it: trees, links, ignore files, tar streams, and what a kill leaves.
use crate::support::{SOON, create, each_user, holds, run_script, sha256, signal};
use bailiwick_testkit::{Output, TestEnv, until};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Makes a tree of the user's with an executable, a link, an empty directory and an odd name.
fn tree(env: &TestEnv) -> PathBuf {
    let root = env.work().join("tree");
    for folder in ["tree", "tree/bin", "tree/empty"] {
        env.make_folder(&env.work().join(folder), 0o755);
    }
    let tool = env.write("tree/bin/tool", "#!/bin/sh\necho tool\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).expect("ours");
    let old = fs::FileTimes::new()
        .set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    fs::File::options().write(true).open(&tool).expect("open").set_times(old).expect("ours");
    symlink("bin/tool", root.join("link")).expect("linked");
    symlink("../none", root.join("bin/dangling")).expect("linked");
    drop(env.write("tree/odd\nname", "odd"));
    root
}

/// Runs the command in a shell that feeds it: `script` has it as `"$@"`.
fn piped(env: &TestEnv, script: &str, arguments: &[&str]) -> Output {
    let program = env.program().to_str().expect("UTF-8").to_owned();
    let words = ["-c", script, "sh", &program].into_iter().chain(arguments.iter().copied());
    env.host("/bin/sh", words)
}

/// What lies in the workspace `ws`, path by path.
fn paths(env: &TestEnv) -> Vec<String> {
    let listing = env.json(0, &["files", "--recursive", "ws"]);
    let entries = listing["entries"].as_array().expect("a list").iter();
    entries.map(|entry| entry["path"].as_str().expect("UTF-8").to_owned()).collect()
}

fn reason(error: &Value) -> &str {
    error["reason"].as_str().expect("a reason")
}

#[test]
fn a_tree_lands_as_it_was() {
    each_user(|env| {
        create(env, &[]);
        drop(tree(env));
        let put = env.json(0, &["put", "ws", "tree", "in/t"]);
        let findings = put["key_findings"].to_string();
        assert!(findings.contains("2 symbolic link(s)"), "{put}");
        let seen = run_script(
            env,
            0,
            "cd in/t && bin/tool && ./link && readlink bin/dangling
             stat -c '%a %Y' bin/tool; stat -c %F empty; cat odd*; ls -A",
        );
        let wanted =
            "tool\ntool\n../none\n755 1000000000\ndirectory\noddbin\nempty\nlink\nodd\nname\n";
        let excerpt = seen["evidence"][0]["excerpt"].as_str().expect("text");
        assert_eq!(excerpt.replace("'odd'$'\\n''name'", "odd\nname"), wanted, "{seen}");
    });
}

#[test]
fn a_directory_may_become_the_workspace_itself() {
    each_user(|env| {
        create(env, &[]);
        drop(tree(env));
        drop(env.json(0, &["put", "ws", "tree", "."]));
        let found = paths(env);
        let wanted = ["bin", "bin/dangling", "bin/tool", "empty", "link", "odd\nname"];
        assert_eq!(found, wanted);
        let again = env.json(1, &["put", "ws", "tree", "."]);
        assert_eq!(reason(&again), "destination_exists", "{again}");
        drop(env.write("tree/more", "more"));
        drop(env.json(0, &["put", "--overwrite", "ws", "tree", "./"]));
        assert_eq!(paths(env).len(), wanted.len() + 1);
        let file = env.json(1, &["put", "ws", "tree/more", "."]);
        assert_eq!(reason(&file), "bad_destination", "{file}");
        assert_eq!(
            reason(&env.json(1, &["put", "--overwrite", "ws", "tree/more", "bin"])),
            "destination_in_the_way"
        );
    });
}

#[test]
fn a_link_that_leaves_is_named_and_nothing_lands() {
    each_user(|env| {
        create(env, &[]);
        let root = tree(env);
        let top = env.json(1, &["put", "ws", "tree/link", "x"]);
        assert_eq!(reason(&top), "input_is_link", "{top}");
        for target in ["/etc/passwd", "../../outside", ".."] {
            symlink(target, root.join("leaves")).expect("linked");
            let error = env.json(1, &["put", "ws", "tree", "x"]);
            assert_eq!(reason(&error), "link_leaves_tree", "{target}: {error}");
            let message = error["message"].as_str().expect("text");
            assert!(message.contains("tree/leaves` is a symbolic link to"), "{error}");
            fs::remove_file(root.join("leaves")).expect("removed");
        }
        assert_eq!(paths(env), Vec::<String>::new());
    });
}

#[test]
fn what_an_ignore_file_names_stays_outside() {
    each_user(|env| {
        create(env, &[]);
        drop(tree(env));
        drop(env.write("ignore", "/bin/\n*name\n# no pattern\n!empty\n"));
        let put = env.json(0, &["put", "--ignore-file", "ignore", "ws", "tree", "t"]);
        let findings = put["key_findings"].to_string();
        assert!(findings.contains("2 entr(ies) were left out as ignore says"), "{put}");
        assert_eq!(paths(env), ["t", "t/empty", "t/link"]);
        drop(env.write("bad", "ok\n["));
        let bad = env.json(1, &["put", "--ignore-file", "bad", "ws", "tree", "u"]);
        assert_eq!(reason(&bad), "bad_ignore_file");
        assert!(bad["message"].as_str().expect("text").contains("line 2"), "{bad}");
        let line = ["put", "--ignore-file", "ignore", "--json", "ws", "-", "a"];
        drop(piped(env, "tar -c -C tree . | \"$@\"", &line).exits(0));
        assert_eq!(paths(env)[..3], ["a", "a/empty", "a/link"]);
    });
}

#[test]
fn a_tar_stream_lands_as_the_tree_it_was_made_of() {
    each_user(|env| {
        create(env, &[]);
        drop(tree(env));
        let long = "n".repeat(150);
        drop(env.write(&format!("tree/{long}"), "long"));
        let name = OsStr::new("tree/name-\u{fc}");
        drop(env.write(name.to_str().expect("UTF-8"), "umlaut"));
        for (format, to) in [("gnu", "g"), ("pax", "p")] {
            let script = format!("tar -c --format={format} -C tree . | \"$@\"");
            let put = piped(env, &script, &["put", "--json", "ws", "-", to]).exits(0).json();
            let inputs = put["provenance"]["inputs"].to_string();
            assert!(inputs.contains(&sha256(b"#!/bin/sh\necho tool\n")), "{put}");
            assert!(inputs.contains("from -:./bin/tool"), "{put}");
        }
        let seen = run_script(env, 0, "for d in g p; do cd $d; bin/tool; stat -c '%a %Y' bin/tool
             readlink bin/dangling link; cat n*; ls -d empty; cd ..; done; diff -r --no-dereference g p && echo same");
        let one = "tool\n755 1000000000\n../none\nbin/tool\numlautlongempty\n";
        let excerpt = seen["evidence"][0]["excerpt"].as_str().expect("text");
        let excerpt = excerpt.replace("longumlaut", "umlautlong");
        assert_eq!(excerpt, format!("{one}{one}same\n"), "{seen}");
    });
}

#[test]
fn a_long_name_that_is_cut_behind_a_slash_names_a_file_all_the_same() {
    each_user(|env| {
        create(env, &[]);
        // The 100th byte, where both formats cut the name that old readers see, is the slash.
        let folder = "d".repeat(99);
        for path in ["tree".to_owned(), format!("tree/{folder}"), format!("tree/{folder}/sub")] {
            env.make_folder(&env.work().join(path), 0o755);
        }
        drop(env.write(&format!("tree/{folder}/sub/f"), "far down"));
        symlink("sub/f", env.work().join(format!("tree/{folder}/a-link"))).expect("linked");
        for format in ["pax", "gnu"] {
            let script = format!("tar -c --format={format} -C tree {folder} | \"$@\"");
            drop(piped(env, &script, &["put", "--json", "ws", "-", format]).exits(0));
            let seen = run_script(env, 0, &format!("cat {format}/d*/sub/f {format}/d*/a-link"));
            let excerpt = &seen["evidence"][0]["excerpt"];
            assert_eq!(excerpt, "far downfar down", "{format}: {seen}");
        }
    });
}

#[test]
fn an_ignore_file_that_is_no_regular_file_is_refused_and_not_waited_for() {
    each_user(|env| {
        create(env, &[]);
        drop(tree(env));
        drop(env.host("mkfifo", ["fifo"]).exits(0));
        for path in ["fifo", "/dev/zero", "/dev/null", "tree"] {
            let refused = env.json(1, &["put", "--ignore-file", path, "ws", "tree", "t"]);
            assert_eq!(reason(&refused), "bad_ignore_file", "{path}");
            let message = refused["message"].as_str().expect("text");
            assert!(message.ends_with("it is not a regular file"), "{path}: {message}");
        }
        assert_eq!(paths(env), Vec::<String>::new());
    });
}

#[test]
fn a_hostile_archive_lands_nothing_anywhere() {
    each_user(|env| {
        create(env, &[]);
        drop(env.write("f", "payload"));
        symlink("..", env.work().join("up")).expect("linked");
        symlink("f", env.work().join("inner")).expect("linked");
        fs::hard_link(env.work().join("f"), env.work().join("g")).expect("linked");
        // Each is a stream that a real tar makes of files or of names that it was told to change.
        let hostile = [
            ("tar -c --transform 's|f|../../f|' -P f", "archive_refused"),
            ("tar -c -P \"$PWD/f\"", "archive_refused"),
            ("tar -c up", "link_leaves_tree"),
            ("tar -c f g", "archive_refused"),
            ("tar -c f f", "archive_refused"),
            ("tar -c --transform 's|^f$|inner/f|' inner f", "archive_refused"),
            ("tar -c f | head -c 700", "bad_archive"),
            ("tar -c f | gzip", "bad_archive"),
            ("{ mkfifo fifo; tar -c fifo; rm fifo; }", "archive_refused"),
            ("tar -c -C /dev null", "archive_refused"),
            ("cat /dev/null", "bad_archive"),
            ("head -c 65536 /dev/zero", "bad_archive"),
            ("{ tar -c f; tar -c up; }", "bad_archive"),
        ];
        for (script, wanted) in hostile {
            let script = format!("{script} | \"$@\"");
            let output = piped(env, &script, &["put", "--json", "ws", "-", "x"]).exits(1);
            let line = output.err().lines().last().expect("an error").to_owned();
            let error: Value = serde_json::from_str(&line).expect("JSON");
            assert_eq!(reason(&error), wanted, "{script}: {output}");
            assert_eq!(paths(env), Vec::<String>::new(), "{script}");
        }
        assert!(!env.home().join("f").exists());
        assert!(stages(env).is_empty());
    });
}

#[test]
fn an_archive_or_a_tree_over_the_budget_is_refused_before_it_is_copied() {
    each_user(|env| {
        create(env, &["--storage-bytes", "1MiB"]);
        let sparse = fs::File::create(env.work().join("large")).expect("made");
        sparse.set_len(1 << 32).expect("sparse");
        env.give(&env.work().join("large"));
        let error = env.json(3, &["put", "ws", "large", "x"]);
        assert_eq!(reason(&error), "inputs_over_storage", "{error}");
        let line = ["put", "--json", "ws", "-", "x"];
        let output = piped(env, "tar -c large 2>/dev/null | \"$@\"", &line).exits(3);
        assert!(output.err().contains("inputs_over_storage"), "{output}");
        assert_eq!(paths(env), Vec::<String>::new());
    });
}

/// The stages of the workspace `ws`, also of dead writers.
fn stages(env: &TestEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(env.home().join("disks/ws")).expect("its disk is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| holds(path.as_os_str().as_encoded_bytes(), b"/stage.")).collect()
}

/// Starts a `put` from a stream that never ends, waits until some of it is staged, and kills it.
fn killed_while_staging(env: &TestEnv) {
    let program = env.program().to_str().expect("UTF-8");
    // The shell becomes the command itself, so that the kill meets it.
    let script = "mkfifo stream; { tar -c f; sleep 600; } 2>/dev/null >stream & exec \"$0\" put ws - x <stream";
    let staged = || {
        let stage = stages(env).pop()?;
        files_in(&stage).iter().any(|path| path.ends_with("x/f")).then_some(())
    };
    let words = ["-c".to_owned(), format!("echo $$ > pid; {script}"), program.to_owned()];
    std::thread::scope(|scope| {
        let shell = scope.spawn(|| env.host("/bin/sh", words));
        until("something is staged", SOON, staged);
        let pid = fs::read_to_string(env.work().join("pid")).expect("written");
        signal(pid.trim().parse().expect("a number"), Signal::KILL);
        let feeder = until("its feeder is found", SOON, || feeder(env));
        signal(feeder, Signal::KILL);
        assert_eq!(shell.join().expect("joined").signal(), Some(9));
    });
}

/// The `sleep` that keeps the stream open, by the folder that it runs in.
fn feeder(env: &TestEnv) -> Option<u32> {
    let work = env.work();
    crate::support::processes().into_iter().find(|pid| {
        crate::support::read_proc(*pid, "cmdline").starts_with(b"sleep\x00600")
            && fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == work)
    })
}

fn files_in(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
    let entries = entries.flatten().map(|entry| entry.path());
    entries.flat_map(|path| [vec![path.clone()], files_in(&path)].concat()).collect()
}

#[test]
fn what_a_killed_put_had_staged_never_lands_and_is_removed() {
    each_user(|env| {
        create(env, &[]);
        drop(env.write("f", "x".repeat(100_000)));
        killed_while_staging(env);
        assert_eq!(stages(env).len(), 1);
        assert_eq!(paths(env), Vec::<String>::new());
        drop(env.json(0, &["put", "ws", "f", "f"]));
        assert_eq!((stages(env).len(), paths(env)), (0, vec!["f".to_owned()]));
    });
}

#[test]
fn a_batch_of_thousand_files_lands_whole_or_not_at_all() {
    each_user(|env| {
        create(env, &[]);
        env.make_folder(&env.work().join("many"), 0o755);
        for index in 0..1_000 {
            drop(env.write(&format!("many/{index:03}"), format!("{index}")));
        }
        // Found only when it is opened: nobody can tell by its size.
        if env.user() == bailiwick_testkit::User::Ordinary {
            let shut = env.work().join("many/900");
            fs::set_permissions(&shut, fs::Permissions::from_mode(0o0)).expect("ours");
            let error = env.json(2, &["put", "ws", "many", "m"]);
            assert_eq!(reason(&error), "input_unreadable", "{error}");
            assert!(error["message"].as_str().expect("text").contains("many/900"), "{error}");
            assert_eq!(paths(env), Vec::<String>::new());
            fs::set_permissions(&shut, fs::Permissions::from_mode(0o644)).expect("ours");
        }
        drop(env.json(0, &["run", "ws", "sh", "-c", "mkdir m; echo old > m/900"]));
        let error = env.json(1, &["put", "ws", "many", "m"]);
        assert_eq!(reason(&error), "destination_exists", "{error}");
        assert_eq!(paths(env), ["m", "m/900"]);
        let put = env.json(0, &["put", "--overwrite", "ws", "many", "m"]);
        assert!(put["key_findings"].as_array().expect("a list").len() <= 13, "{put}");
        assert_eq!(
            run_script(env, 0, "cat m/900; ls m | wc -l")["evidence"][0]["excerpt"],
            "9001000\n"
        );
    });
}

#[test]
fn inputs_of_a_job_keep_what_a_put_keeps() {
    each_user(|env| {
        drop(tree(env));
        let line =
            ["exec", "--input", "t=tree", "--", "sh", "-c", "t/link; readlink t/bin/dangling"];
        let package = env.json(0, &line);
        assert_eq!(package["evidence"][0]["excerpt"], "tool\n../none\n", "{package}");
        let inputs = package["provenance"]["inputs"].to_string();
        assert!(inputs.contains(&sha256(b"#!/bin/sh\necho tool\n")), "{package}");
        create(env, &[]);
        let twice =
            ["run", "--input", "a=tree/bin/tool", "--input", "a=tree/bin/tool", "ws", "true"];
        assert_eq!(reason(&env.json(1, &twice)), "input_twice");
    });
}
