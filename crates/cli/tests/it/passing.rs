//! A verb right after another one: what still holds the workspace is on its way out, and is waited for.
use crate::support::{create, each_user, marker, run_script, wait_for_job};

/// How often a race is run.
const ROUNDS: usize = 30;

#[test]
fn a_running_workspace_can_be_destroyed_by_force_every_time() {
    each_user(|env| {
        let name = marker(env);
        for _ in 0..ROUNDS {
            let made = env.json(0, &["create", "--concurrency", "2"]);
            let id = made["provenance"]["workspace_id"].as_str().expect("an id").to_owned();
            let script = format!("sleep 60; : {name}");
            let line = ["run", id.as_str(), "sh", "-c", &script];
            let mut jobs = [env.start(line), env.start(line)];
            for job in &mut jobs {
                let _pid = wait_for_job(job, &name);
            }
            drop(env.json(0, &["destroy", "--force", &id]));
            for job in jobs {
                let code = job.wait().code();
                // The second one may not have begun when the workspace went.
                assert!(matches!(code, Some(5 | 1)), "{code:?}");
            }
        }
    });
}

#[test]
fn the_next_verb_works_right_after_a_job_and_right_after_a_stop() {
    each_user(|env| {
        create(env, &["--concurrency", "2"]);
        let (name, file) = (marker(env), env.write("file", "x"));
        let file = file.to_str().expect("UTF-8");
        for round in 0..ROUNDS {
            let to = format!("x{round}");
            drop(run_script(env, 0, "echo word"));
            drop(env.json(0, &["put", "ws", file, &to]));
            let declared = format!("{to}=a file");
            drop(env.json(0, &["run", "--declare", &declared, "ws", "true"]));
            drop(env.json(0, &["export", "ws", &to, "--to", "out"]));
            let script = format!("sleep 60; : {name}");
            let mut run = env.start(["run", "ws", "sh", "-c", &script]);
            let _pid = wait_for_job(&mut run, &name);
            drop(env.json(5, &["stop", "--apply", "ws"]));
            drop(env.json(0, &["put", "--overwrite", "ws", file, &to]));
            drop(run.wait().exits(5));
        }
        drop(env.json(0, &["destroy", "ws"]));
    });
}
