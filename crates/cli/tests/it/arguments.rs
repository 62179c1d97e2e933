//! Arguments that are refused before anything is done, and the two forms of an error.
use crate::support::plain;
use bailiwick_testkit::TestEnv;
use expect_test::expect;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Runs `line` and expects a refusal with `code` that made no home; returns standard error.
#[track_caller]
fn refused(env: &TestEnv, code: i32, line: &[&str]) -> String {
    let output = env.run(line).exits(code);
    assert!(output.stdout.is_empty(), "an error has no result: {output}");
    assert!(!env.home().exists(), "nothing was done: {output}");
    output.err().to_owned()
}

#[test]
fn no_arguments_print_the_help_and_succeed() {
    let env = plain();
    let output = env.run([] as [&str; 0]).exits(0);
    assert!(output.out().contains("Usage: bailiwick"), "{output}");
    assert!(output.stderr.is_empty(), "{output}");
    assert_eq!(env.run(["--help"]).exits(0).out(), output.out());
}

#[test]
fn an_error_is_two_lines_of_text_or_one_of_json() {
    let env = plain();
    expect![[r"
        error: unknown argument `--bogus`
        hint: run `bailiwick create --help` to see valid arguments
    "]]
    .assert_eq(&refused(&env, 1, &["create", "--bogus"]));
    expect![[r#"
        {"code": 1, "message": "unknown argument `--bogus`", "remediation": "run `bailiwick create --help` to see valid arguments", "category": "user_error", "reason": "usage", "retryable": false}
    "#]]
    .assert_eq(&refused(&env, 1, &["create", "--bogus", "--json"]));
}

#[test]
fn a_policy_refusal_names_its_category() {
    expect![[r"
        error: [policy_denied] `--allow-host-path /proc` is refused: it belongs to the kernel
        hint: allow the one directory that the job needs, outside the kernel's and Bailiwick's own
    "]]
    .assert_eq(&refused(&plain(), 3, &["create", "--allow-host-path", "/proc"]));
}

#[test]
fn a_json_flag_of_the_job_does_not_choose_the_form_of_an_error() {
    let env = plain();
    for line in [
        &["run", "--bogus", "demo", "python", "--json"][..],
        &["run", "--wait", "never", "demo", "python", "--json"],
        &["exec", "--bogus", "--", "python", "--json"],
        &["exec", "--cpu-limit", "0", "python", "--json"],
    ] {
        let error = refused(&env, 1, line);
        assert!(error.starts_with("error: "), "{line:?}: {error}");
    }
}

#[test]
fn wrong_words_are_refused_with_exit_code_1() {
    let env = plain();
    let lines: [&[&str]; 15] = [
        &["crate"],
        &["create", "demo"],
        &["create", "--network", "some"],
        &["create", "--package", "ten"],
        &["create", "--provider", "docker"],
        &["run"],
        &["run", "demo"],
        &["run", "demo", "--"],
        &["exec"],
        &["exec", "--"],
        &["stop"],
        &["put", "demo", "file"],
        &["export", "demo", "name"],
        &["list", "--state", "sleeping"],
        &["list", "--all", "--state", "ready"],
    ];
    for line in lines {
        let error = refused(&env, 1, line);
        assert!(error.starts_with("error: ") && error.contains("\nhint: "), "{line:?}: {error}");
    }
}

#[test]
fn budgets_that_are_no_limit_are_refused_by_the_name_of_their_flag() {
    let env = plain();
    let flags = [
        "--memory-bytes",
        "--cpu-limit",
        "--pids-limit",
        "--storage-bytes",
        "--wall-clock-seconds",
        "--output-bytes",
        "--concurrency",
    ];
    let huge = "9".repeat(60);
    let values = [
        "0",
        "-1",
        "-0.5",
        "NaN",
        "inf",
        "-inf",
        "1e9",
        "",
        "9223372036854775808000",
        &huge,
        "5 parsecs",
    ];
    for verb in [&["create"][..], &["exec"]] {
        for flag in flags {
            for value in values {
                let command: &[&str] = if verb == ["exec"] { &["--", "true"] } else { &[] };
                let error = refused(&env, 1, &[verb, &[flag, value], command].concat());
                assert!(error.starts_with(&format!("error: `{flag}")), "{flag} {value}: {error}");
            }
        }
    }
}

#[test]
fn a_bound_below_the_floor_is_refused_before_any_effect() {
    let env = plain();
    for value in ["0", "-1", "512", "2047", "NaN"] {
        let error = refused(&env, 1, &["create", "--max-result-bytes", value]);
        assert!(error.contains("--max-result-bytes"), "{error}");
    }
    expect![[r"
        error: `--max-result-bytes 2047`: it is below the least value, 2048
        hint: run `bailiwick create --help` to see valid arguments
    "]]
    .assert_eq(&refused(&env, 1, &["create", "--max-result-bytes", "2047"]));
}

#[test]
fn ids_outside_the_pattern_are_refused() {
    let env = plain();
    let long = "x".repeat(65);
    for id in ["", "a/b", ".a", "a b", "ä", "..", "a\n", &long] {
        drop(refused(&env, 1, &["create", "--workspace-id", id]));
        drop(refused(&env, 1, &["run", "--job-id", id, "demo", "true"]));
        drop(refused(&env, 1, &["run", id, "true"]));
        drop(refused(&env, 1, &["destroy", id]));
    }
}

#[test]
fn an_id_that_is_not_utf_8_is_refused() {
    let env = plain();
    for verb in ["run", "stop", "destroy"] {
        let line = [OsStr::new(verb), OsStr::from_bytes(b"\xff\xfe"), OsStr::new("true")];
        let words = if verb == "run" { &line[..] } else { &line[..2] };
        let output = env.run(words).exits(1);
        assert!(output.err().starts_with("error: "), "{output}");
    }
}

#[test]
fn host_paths_that_cannot_be_bounded_are_refused() {
    let env = plain();
    for path in
        ["/", "/proc", "/proc/self/fd", "/sys", "/dev", "/dev/null", "/usr/..", "/proc:rw", "/:ro"]
    {
        let error = refused(&env, 3, &["create", "--allow-host-path", path]);
        assert!(error.starts_with("error: [policy_denied]"), "{path}: {error}");
    }
    drop(refused(&env, 3, &["exec", "--toolchain", "/sys", "--", "true"]));
    drop(refused(&env, 1, &["create", "--allow-host-path", "/no/such/path"]));
    let error = refused(&env, 1, &["create", "--allow-host-path", "/usr:rx"]);
    assert!(error.contains("`:ro` or `:rw`"), "{error}");
    drop(refused(&env, 1, &["create", "--allow-host-path", ""]));
    drop(refused(&env, 1, &["create", "--toolchain", "/etc/passwd"]));
    // The folder that will hold the home, also by a link.
    let folder = env.home().parent().expect("it lies somewhere").to_owned();
    std::os::unix::fs::symlink(&folder, env.work().join("link")).expect("a link");
    drop(refused(&env, 3, &["create", "--allow-host-path", folder.to_str().expect("text")]));
    drop(refused(&env, 3, &["create", "--allow-host-path", "link:rw"]));
}

#[test]
fn a_value_of_a_variable_is_never_echoed() {
    let mut env = plain();
    env.set("SET", "from-the-shell-hunter2");
    drop(env.write("bad.env", "GOOD=1\nexport BAD=hunter2\n"));
    let lines: [&[&str]; 13] = [
        &["run", "--env", "TOKEN=hunter2", "demo", "true"],
        &["run", "--env=TOKEN=hunter2", "demo", "true"],
        &["exec", "--env", "TOKEN=hunter2", "--", "true"],
        &["exec", "--env", "TOKEN=hunter2"],
        &["exec", "--envy", "TOKEN=hunter2"],
        &["exec", "--envy=TOKEN=hunter2", "--", "true"],
        &["run", "-eTOKEN=hunter2", "demo", "true"],
        &["create", "TOKEN=hunter2"],
        &["create", "TOKEN=hunter2>"],
        &["create", "--bogus=hunter2..."],
        &["create", "--env", "TOKEN=hunter2"],
        &["TOKEN=hunter2", "run", "demo"],
        &["run", "--env-file", "bad.env", "demo", "true"],
    ];
    for line in lines {
        for json in [false, true] {
            let mut line = line.to_vec();
            line.splice(1..1, json.then_some("--json"));
            let output = env.run(&line);
            assert!(!output.mentions("hunter2"), "{output}");
            assert_ne!(output.code(), Some(0), "{output}");
        }
    }
    let error = refused(&env, 1, &["run", "--env-file", "bad.env", "demo", "true"]);
    assert!(error.contains("line 2"), "{error}");
    let error = refused(&env, 1, &["run", "--env", "UNSET", "demo", "true"]);
    assert!(error.contains("UNSET"), "{error}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let env = plain();
    let program = env.program().to_str().expect("text").to_owned();
    let script =
        format!("{program} --help | true; {program} version | head -c 1 >/dev/null; echo ended");
    let output = env.host("sh", ["-c", &script]).exits(0);
    assert_eq!(output.out(), "ended\n", "{output}");
    assert!(output.stderr.is_empty(), "{output}");
}

#[test]
fn a_result_that_cannot_be_written_is_an_environment_error() {
    let env = plain();
    let script = format!("{} version >/dev/full", env.program().to_str().expect("text"));
    let output = env.host("sh", ["-c", &script]).exits(2);
    assert!(output.err().starts_with("error: the result cannot be written"), "{output}");
}

#[test]
fn the_version_names_build_and_schemas() {
    let env = plain();
    let version = env.json(0, &["version"]);
    assert_eq!(version["name"], "bailiwick");
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    for key in ["commit", "schemas"] {
        assert!(!version[key].is_null(), "{version}");
    }
    let text = env.run(["--version"]).exits(0);
    assert_eq!(text.out(), env.run(["version"]).exits(0).out());
    assert!(!env.home().exists());
}

#[test]
fn doctor_answers_where_nothing_can_run() {
    let mut env = plain();
    drop(env.write("file", ""));
    env.set("BAILIWICK_HOME", env.work().join("file"));
    let health = env.json(1, &["doctor"]);
    assert_eq!(health["healthy"], false, "{health}");
    let checks = health["checks"].as_array().expect("a list");
    let home = checks.iter().find(|check| check["id"] == "home").expect("the home is checked");
    assert_eq!((&home["passed"], &home["severity"]), (&false.into(), &"error".into()), "{home}");
    for check in checks {
        let keys = ["id", "passed", "severity", "message", "remediation"];
        assert!(keys.iter().all(|key| !check[key].is_null()), "{check}");
    }
    drop(env.run(["doctor"]).exits(1));
}

#[test]
fn an_unknown_provider_in_the_environment_is_named() {
    let mut env = plain();
    env.set("BAILIWICK_PROVIDER", "podman");
    let error = refused(&env, 1, &["create"]);
    assert!(error.contains("podman") && error.contains("native"), "{error}");
}

#[test]
fn without_a_place_for_state_the_variables_are_named() {
    let mut env = plain();
    for name in ["BAILIWICK_HOME", "HOME"] {
        env.set(name, "");
    }
    let error = refused(&env, 2, &["create"]);
    assert!(error.contains("BAILIWICK_HOME"), "{error}");
}
