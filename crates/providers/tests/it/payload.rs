//! How a job's command begins and ends, and the world that it finds.
use crate::world::{SOON, World, supervisor, var};
use bailiwick_contract::job::{JobStatus, Reason};
use bailiwick_testkit::{processes_holding, until};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn the_exit_code_is_the_commands() {
    let world = World::new();
    for code in [0, 1, 2, 125, 126, 127, 128, 255] {
        let done = world.sh(&format!("exit {code}"));
        let expected = if code == 0 { JobStatus::Success } else { JobStatus::Failure };
        assert_eq!((done.outcome.status, done.outcome.exit_status), (expected, Some(code)));
        assert_eq!((done.outcome.signal, done.outcome.reason), (None, None));
    }
}

#[test]
fn a_signal_is_told_by_number_and_by_the_shells_convention() {
    let world = World::new();
    for (name, number) in [("SEGV", 11), ("ABRT", 6), ("KILL", 9), ("TERM", 15)] {
        let outcome = world.sh(&format!("kill -{name} $$")).outcome;
        assert_eq!(outcome.status, JobStatus::Failure);
        assert_eq!((outcome.exit_status, outcome.signal), (Some(128 + number), Some(number)));
        assert_eq!(outcome.reason, None, "137 alone is not out of memory");
    }
}

#[test]
fn a_command_that_is_not_there_is_127() {
    let world = World::new();
    for command in ["no-such-command", "/no/such/command", "./none", ""] {
        let outcome = world.run(&world.job(&[command])).outcome;
        assert_eq!(outcome.exit_status, Some(127), "{command}");
        assert_eq!(outcome.reason, Some(Reason::CommandNotFound), "{command}");
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_126() {
    let world = World::new();
    let made = world.sh("echo data > plain; mkdir dir; printf '#!/no/such/interpreter\n' > script
        echo text > text; chmod +x script text");
    assert_eq!(made.outcome.status, JobStatus::Success);
    for command in ["./plain", "/workspace/dir", "./script", "./text"] {
        let outcome = world.run(&world.job(&[command])).outcome;
        assert_eq!(outcome.exit_status, Some(126), "{command}");
        assert_eq!(outcome.reason, Some(Reason::CommandNotExecutable), "{command}");
    }
}

#[test]
fn arguments_are_bytes() {
    let world = World::new();
    let mut job = world.job(&["printf", "%s|"]);
    for argument in [&b"a b"[..], b"", b"\xff\xfe", "\u{2028}\u{1b}[31m\n`".as_bytes()] {
        job.argv.push(argument.into());
    }
    world.try_run(&job).expect("it ran");
    let expected = [&b"a b||\xff\xfe|"[..], "\u{2028}\u{1b}[31m\n`|".as_bytes()].concat();
    assert_eq!(world.kept(&job.id), expected);
}

#[test]
fn what_a_job_leaves_behind_dies_with_it() {
    let world = World::new();
    let marker = format!("orphan-{}-{}", std::process::id(), world.home().display());
    let mut job = world.job(&[
        "sh",
        "-c",
        "
        linger='while :; do sleep 1000; done'
        sh -c \"$linger\" \"$1\" &
        setsid sh -c \"$linger\" \"$1\" > /dev/null 2>&1 < /dev/null &
        (setsid sh -c \"trap '' TERM HUP INT; $linger & $linger\" \"$1\" &)
        nohup sh -c \"$linger\" \"$1\" > /dev/null 2>&1 &
        echo begun",
        "sh",
    ]);
    job.argv.push(marker.as_str().into());
    let done = world.run(&job);
    assert_eq!((done.outcome.status, done.text.as_str()), (JobStatus::Success, "begun\n"));
    until("they are gone", SOON, || processes_holding(&marker).is_empty().then_some(()));
}

#[test]
fn standard_input_is_empty_and_there_is_no_terminal() {
    let world = World::new();
    let done = world.sh("cat; for fd in 0 1 2; do [ -t $fd ] && echo terminal; done
        (: < /dev/tty) 2> /dev/null && echo controlled
        ps -o tty= -p $$ 2> /dev/null | grep -v '?' ; ls /proc/self/fd | tr '\n' ' '");
    // The fourth is the directory that `ls` reads.
    assert_eq!(done.text, "0 1 2 3 ");
}

#[test]
fn the_environment_is_the_documented_one() {
    let world = World::new();
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let plain = world.run(&world.job(&["env"]));
    // A host without `python` gets the link that stands in for it, last.
    let has_python = ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|dir| std::path::Path::new(dir).join("python").exists());
    let links = if has_python { "" } else { ":/etc/bailiwick/bin" };
    let path = format!("PATH=/usr/local/bin:/usr/bin:/bin{links}");
    let expected = ["HOME=/tmp/home", "LANG=C.UTF-8", path.as_str(), "TMPDIR=/tmp", "USER=agent"];
    assert_eq!(lines(&plain.text), expected);
    let mut job = world.job(&["env"]);
    job.env = vec![var("LANG", "de_DE.UTF-8"), var("EMPTY", ""), var("TOKEN", "a=b c")];
    let expected = [
        "EMPTY=",
        "HOME=/tmp/home",
        "LANG=de_DE.UTF-8",
        path.as_str(),
        "TMPDIR=/tmp",
        "TOKEN=a=b c",
        "USER=agent",
    ];
    assert_eq!(lines(&world.run(&job).text), expected);
}

#[test]
fn the_job_is_agent_in_workspace_with_a_home_of_its_own() {
    let world = World::new();
    let done = world
        .sh("pwd; id -un; id -u; id -g; id -G; hostname; echo x > $HOME/f && cat $HOME/f
        stat -c %u:%g . $HOME; cat /proc/self/setgroups 2> /dev/null");
    let expected =
        "/workspace\nagent\n1000\n1000\n1000\nbailiwick\nx\n1000:1000\n1000:1000\ndeny\n";
    assert!(expected.starts_with(done.text.trim_end_matches("allow\n")), "{}", done.text);
    assert_eq!(world.sh("ls -A $HOME").text, "", "a home is one job's");
}

#[test]
fn the_umask_is_not_the_callers() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrapper = folder.path().join("supervisor");
    let script = format!("#!/bin/sh\numask 077\nexec '{}' \"$@\"\n", supervisor().display());
    fs::write(&wrapper, script).expect("a script");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("ours");
    let world = World::supervised_by(wrapper);
    assert_eq!(world.sh("umask; touch f; stat -c %a f").text, "0022\n644\n");
}

#[test]
fn python_is_there_where_only_python3_is() {
    let world = World::new();
    assert_eq!(world.sh("python -c 'print(1)'").text, "1\n");
}
