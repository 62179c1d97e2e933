//! Where a job starts.
use crate::world::World;
use bailiwick_contract::input::WsPath;
use bailiwick_contract::job::{JobSpec, JobStatus};
use bailiwick_contract::provider::ProviderError;
use std::fs;
use std::os::unix::fs::symlink;

fn job_in(world: &World, cwd: &str, script: &str) -> JobSpec {
    JobSpec { cwd: Some(WsPath::parse(cwd.as_bytes()).expect("a path")), ..world.script(script) }
}

#[test]
fn a_job_starts_in_the_directory_that_it_was_given() {
    let world = World::new();
    world.sh("mkdir -p 'a b/c'; echo found > 'a b/c/f'; printf '#!/bin/sh\\necho tool\\n' > 'a b/t'; chmod +x 'a b/t'");
    let done = world.run(&job_in(&world, "a b/./c", "pwd; cat f; ../t"));
    assert_eq!(done.text, "/workspace/a b/c\nfound\ntool\n");
    assert_eq!(world.sh("pwd").text, "/workspace\n");
}

#[test]
fn a_directory_that_is_not_there_is_refused_before_anything_runs() {
    let world = World::new();
    let tree = world.tree();
    fs::create_dir(tree.join("dir")).expect("made");
    fs::write(tree.join("file"), "").expect("written");
    symlink("/etc", tree.join("out")).expect("linked");
    symlink("dir", tree.join("in")).expect("linked");
    let cases = [
        ("none", "it is not there"),
        ("none/below", "it is not there"),
        ("file", "it is no directory, or lies below a file"),
        ("file/below", "it is no directory, or lies below a file"),
        ("out", "it is a link, or lies behind one"),
        ("in", "it is a link, or lies behind one"),
        ("out/ssl", "it is a link, or lies behind one"),
    ];
    for (cwd, expected) in cases {
        let job = job_in(&world, cwd, "echo > ran");
        let error = world.try_run(&job).expect_err(cwd);
        let ProviderError::WorkingDirectory { why, path, .. } = &error else {
            panic!("{cwd}: {error:?}");
        };
        assert_eq!((path.as_str(), *why), (cwd, expected));
        assert!(!world.job_dir(&job.id).exists() && !tree.join("ran").exists());
    }
}

#[test]
fn a_directory_that_goes_after_it_was_looked_at_is_said_by_name() {
    let world = World::new();
    let dir = world.tree().join("dir");
    fs::create_dir(&dir).expect("made");
    let job = job_in(&world, "dir", "echo > ../ran");
    let hold = world.hold(&world.id, bailiwick_contract::provider::Slots::One(1));
    // At the gate the payload may be in the directory already; then nothing is wrong with it.
    let mut gate = Swaps(&dir);
    let ports = crate::world::ports(&*hold, &mut gate);
    let outcome = bailiwick_contract::provider::Provider::run(
        &world.native,
        &world.id,
        &job,
        ports,
        &world.cx(),
    );
    let outcome = outcome.expect("an outcome");
    if outcome.status == JobStatus::InfrastructureFailure {
        let detail = outcome.detail.expect("it says why");
        assert!(detail.contains("enter the directory that the job starts in"), "{detail}");
    }
    assert!(!std::path::Path::new("/ran").exists(), "the link led nowhere");
}

/// A gate that puts a link where the directory was.
struct Swaps<'a>(&'a std::path::Path);

impl bailiwick_contract::provider::Gate for Swaps<'_> {
    fn open(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        fs::remove_dir(self.0)?;
        Ok(symlink("/tmp", self.0)?)
    }
}
