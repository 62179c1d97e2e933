//! `--check` and `--measure`: what is asserted of a job in its own workspace.
use crate::support::{
    create, each_user, fact, marker, processes, read_proc, run_script, wait_for_nothing,
    wait_for_payload,
};
use serde_json::{Value, json};

/// Returns name, whether it passed and the exit status of each check.
fn told(package: &Value) -> Value {
    let checks = fact(package, "checks").as_array().expect("a list");
    checks.iter().map(|one| json!([one["name"], one["passed"], one["exit_status"]])).collect()
}

#[test]
fn a_failing_check_makes_a_success_partial_and_shows_why() {
    each_user(|env| {
        create(env, &[]);
        let line = [
            "run",
            "--check",
            "there=test -s out",
            "--check",
            "sum=cat out; sleep 0.3; echo wrong >&2; exit 9",
            "ws",
            "sh",
            "-c",
            "echo 41 > out",
        ];
        let package = env.json(0, &line);
        assert_eq!(package["status"], "partial_success", "{package}");
        assert_eq!(told(&package), json!([["there", true, 0], ["sum", false, 9]]));
        assert_eq!(fact(&package, "exit_status"), 0);
        let evidence = &package["evidence"][2];
        assert_eq!(evidence["kind"], "check", "{package}");
        let excerpt = evidence["excerpt"].as_str().expect("text");
        assert!(excerpt.starts_with(
            "$ cat out; sleep 0.3; echo wrong >&2; exit 9\nfailed with exit status 9\n"
        ));
        assert!(excerpt.ends_with("41\nwrong\n"), "{excerpt}");
        let check = fact(&package, "checks/1/job").as_str().expect("an id");
        let logs = env.run(["logs", check]).exits(0);
        assert!(logs.out().contains(&format!("## job {check}, check 'sum' of job ")), "{logs}");
        let seen = env.json(0, &["inspect", "ws"]);
        assert_eq!(seen["evidence"][0]["source"], package["provenance"]["job_id"], "{seen}");
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn a_check_sees_the_job_s_directory_and_none_of_its_secrets() {
    each_user(|env| {
        env.set("TOKEN", "s3cret");
        create(env, &[]);
        drop(run_script(env, 0, "mkdir src"));
        let check = "env=test -z \"$TOKEN\" -a \"$(basename \"$PWD\")\" = src -a -z \"$(cat)\"";
        let line = ["run", "--cwd", "src", "--env", "TOKEN", "--check", check, "ws"];
        let script = "test \"$TOKEN\" = s3cret && test \"$(basename \"$PWD\")\" = src";
        let package = env.json(0, &[&line[..], &["sh", "-c", script]].concat());
        assert_eq!(package["status"], "success", "{package}");
    });
}

#[test]
fn checks_share_the_wall_clock_of_their_job() {
    each_user(|env| {
        create(env, &["--wall-clock-seconds", "3"]);
        let line = ["run", "--check", "long=sleep 60", "--check", "next=true", "ws", "true"];
        let package = env.json(0, &line);
        assert_eq!(package["status"], "partial_success", "{package}");
        assert_eq!(told(&package), json!([["long", false, null], ["next", false, null]]));
        assert!(package["attention"].to_string().contains("check 'next' was not run"), "{package}");
        let stopped = ["run", "--timeout", "200ms", "--check", "a=true", "ws", "sleep", "60"];
        let package = env.json(4, &stopped);
        assert_eq!(fact(&package, "checks/0/job"), &Value::Null, "{package}");
    });
}

#[test]
fn a_number_that_the_job_wrote_is_reported_as_it_was_written() {
    each_user(|env| {
        let line = ["exec", "--measure", "loss=out/loss", "--measure", "none=absent", "--"];
        let script = "mkdir out; echo ' 2.50e-3 ' > out/loss; ln -s /etc/hostname absent";
        let package = env.json(0, &[&line[..], &["sh", "-c", script]].concat());
        assert_eq!(package["status"], "partial_success", "{package}");
        let measured =
            json!([{"name": "loss", "value": "2.50e-3"}, {"name": "none", "value": null}]);
        assert_eq!(fact(&package, "measurements"), &measured, "{package}");
        assert!(package["warnings"].to_string().contains("no finite number in `absent`"));
    });
}

#[test]
fn an_exec_is_checked_before_its_workspace_goes() {
    each_user(|env| {
        let line =
            ["exec", "--declare", "o=x", "--export", "o=o", "--check", "c=grep -q yes o", "--"];
        let package = env.json(0, &[&line[..], &["sh", "-c", "echo yes > o"]].concat());
        assert_eq!(
            (&package["status"], fact(&package, "state")),
            (&json!("success"), &json!("destroyed"))
        );
        let package = env.json(0, &[&line[..], &["sh", "-c", "echo no > o"]].concat());
        assert_eq!(package["status"], "partial_success", "{package}");
        assert_eq!(std::fs::read_to_string(env.work().join("o")).expect("exported"), "no\n");
        assert_eq!(fact(&package, "state"), "destroyed");
    });
}

#[test]
fn a_detached_job_is_checked_by_who_waits_for_it_and_by_nobody_else() {
    each_user(|env| {
        create(env, &[]);
        let detach = ["run", "--detach", "--check", "c=test -f out", "ws", "sh", "-c", "touch out"];
        drop(env.json(0, &detach));
        let package = env.json(0, &["wait", "ws"]);
        assert_eq!(
            (&package["status"], told(&package)),
            (&json!("success"), json!([["c", true, 0]]))
        );
        drop(env.json(0, &detach));
        let next = env.json(0, &["run", "ws", "true"]);
        assert!(next["attention"].to_string().contains("1 check(s) were not run"), "{next}");
    });
}

#[test]
fn a_caller_that_is_killed_among_the_checks_leaves_them_to_the_next_verb() {
    each_user(|env| {
        create(env, &["--wall-clock-seconds", "4"]);
        let name = marker(env);
        let check = format!("slow=sleep 60; : {name}");
        let run = env
            .start(["run", "--job-id", "j", "--check", "a=true", "--check", &check, "ws", "true"]);
        let _pid = wait_for_payload(&name);
        drop(run.kill());
        // Its supervisor ends it by what is left of the wall clock.
        wait_for_nothing(&name);
        let seen = env.json(0, &["inspect", "ws"]);
        assert!(
            seen["attention"].to_string().contains("job j had ended with partial_success"),
            "{seen}"
        );
        let package = env.json(0, &["wait", "j"]);
        assert_eq!(told(&package), json!([["a", true, 0], ["slow", false, null]]), "{package}");
        assert!(
            !processes()
                .iter()
                .any(|pid| { crate::support::holds(&read_proc(*pid, "cmdline"), name.as_bytes()) })
        );
        drop(env.json(0, &["destroy", "ws"]));
    });
}

#[test]
fn a_malformed_declaration_is_refused_before_anything_is_made() {
    each_user(|env| {
        for flag in [
            &["--check", "noequals"][..],
            &["--check", "=true"],
            &["--check", "a[1]=true"],
            &["--check", "a=true", "--check", "a=false"],
            &["--measure", "m=/etc/hostname"],
            &["--measure", "m=../m"],
            &["--cwd", "/tmp"],
            &["--timeout", "0"],
        ] {
            let failure = env.json(1, &[&["exec"], flag, &["--", "true"]].concat());
            assert_eq!(failure["code"], 1, "{flag:?}: {failure}");
        }
        let failure = env.json(3, &["exec", "--timeout", "301", "--", "true"]);
        assert!(failure["message"].as_str().expect("text").contains("300 s"), "{failure}");
        assert!(
            !env.home().join("disks").exists()
                || std::fs::read_dir(env.home().join("disks")).expect("a folder").count() == 0
        );
    });
}
