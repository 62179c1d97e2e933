//! A home that is full, runs out of inodes, or was written by a newer version.
//!
//! Nothing may be half done: what was refused never ran, and what ran is on record once there is room again. The small disks are
//! tmpfs mounts that root makes, one a test and user.
use crate::support::{SOON, each_user, marker, signal, supervisors, wait_for_nothing};
use bailiwick_testkit::{TestEnv, User, until};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::{Signal, geteuid};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

/// A small file system, unmounted when the test is over.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Makes one that `env`'s user owns, and makes it the home's place.
    fn new(env: &mut TestEnv, options: &str) -> Self {
        assert!(geteuid().is_root(), "these tests mount file systems, which needs root");
        let path = env.work().join("small");
        fs::create_dir(&path).expect("a folder");
        let options = CString::new(format!("{options},mode=0700")).expect("no NUL");
        mount("tmpfs", &path, "tmpfs", MountFlags::empty(), options.as_c_str()).expect("a mount");
        env.give(&path);
        env.set("BAILIWICK_HOME", path.join("home"));
        Self(path)
    }

    /// Takes all the room that is left, and returns the file that holds it.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let chunk = vec![1; 4_096];
        let mut file = fs::File::create(&path).expect("a file");
        while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).ok();
    }
}

#[test]
fn a_full_home_refuses_before_anything_runs_and_works_again_with_room() {
    each_user(|env| {
        let disk = SmallDisk::new(env, "size=80m");
        drop(env.run(["exec", "--", "true"]).exits(0));
        let filler = disk.fill();
        for line in [&["create"][..], &["exec", "--", "true"]] {
            let error = env.json(2, line);
            assert_eq!(error["category"], "environment_error", "{error}");
            let words = error["message"].as_str().expect("a message");
            assert!(words.contains("space") || words.contains("full"), "{error}");
        }
        fs::remove_file(filler).expect("removed");
        drop(env.run(["exec", "--", "true"]).exits(0));
        drop(disk);
        wait_for_nothing(&marker(env));
    });
}

#[test]
fn a_home_without_inodes_refuses_before_anything_runs() {
    each_user(|env| {
        let disk = SmallDisk::new(env, "size=80m,nr_inodes=2000");
        drop(env.run(["exec", "--", "true"]).exits(0));
        let mut kept = Vec::new();
        while let Ok(file) = fs::File::create(disk.0.join(format!("f{}", kept.len()))) {
            kept.push(file);
        }
        let error = env.json(2, &["exec", "--", "true"]);
        assert_eq!(error["category"], "environment_error", "{error}");
        drop(disk);
        wait_for_nothing(&marker(env));
    });
}

#[test]
fn a_job_that_fills_the_hosts_disk_is_ended_and_settled() {
    each_user(|env| {
        let disk = SmallDisk::new(env, "size=128m");
        drop(env.run(["create", "--workspace-id", "ws"]).exits(0));
        let package = env.json(8, &["run", "ws", "sh", "-c", "cat /dev/zero > fill; sleep 60"]);
        assert_eq!(package["facts"]["reason"], "host_disk_full", "{package}");
        let inspected = env.json(0, &["inspect", "ws"]);
        assert_eq!(inspected["facts"]["state"], "ready", "{inspected}");
        drop(env.run(["destroy", "ws"]).exits(0));
        drop(env.run(["exec", "--", "true"]).exits(0));
        drop(disk);
        wait_for_nothing(&marker(env));
    });
}

#[test]
fn a_store_of_a_newer_version_is_refused_and_left_alone() {
    each_user(|env| {
        drop(env.run(["exec", "--", "true"]).exits(0));
        let database = env.home().join("state.db");
        let script = "import sqlite3, sys\n\
                      db = sqlite3.connect(sys.argv[1])\n\
                      db.execute('PRAGMA user_version = 99000')\n\
                      db.commit()\n\
                      db.execute('PRAGMA wal_checkpoint(TRUNCATE)')";
        let path = database.to_str().expect("UTF-8");
        drop(env.host("python3", ["-c", script, path]).exits(0));
        let before = fs::read(&database).expect("the database");
        for line in [&["list"][..], &["exec", "--", "true"], &["create"]] {
            let error = env.json(2, line);
            assert!(error["message"].as_str().is_some_and(|words| words.contains("99")), "{error}");
        }
        assert_eq!(fs::read(&database).expect("the database"), before);
        wait_for_nothing(&marker(env));
    });
}

#[test]
fn a_home_of_somebody_else_is_refused() {
    each_user(|env| {
        let theirs = env.work().join("theirs");
        fs::create_dir(&theirs).expect("a folder");
        let stranger = if env.user() == User::Root { 65_534 } else { 0 };
        std::os::unix::fs::chown(&theirs, Some(stranger), Some(stranger)).expect("given away");
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o777)).expect("opened");
        env.set("BAILIWICK_HOME", &theirs);
        for line in [&["list"][..], &["exec", "--", "true"]] {
            let error = env.json(2, line);
            assert_eq!(error["category"], "environment_error", "{error}");
        }
        assert_eq!(fs::read_dir(&theirs).expect("the folder").count(), 0);
    });
}

#[test]
fn callers_that_use_a_new_home_at_once_agree_on_it() {
    each_user(|env| {
        let ids: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
        let made: Vec<_> =
            ids.iter().map(|id| env.start(["create", "--workspace-id", id])).collect();
        made.into_iter().for_each(|create| drop(create.wait().exits(0)));
        for id in &ids {
            drop(env.json(0, &["run", id, "true"]));
        }
    });
}

#[test]
fn a_detached_job_keeps_its_verdict_on_a_host_that_fills_up() {
    each_user(|env| {
        let disk = SmallDisk::new(env, "size=64m");
        let marker = marker(env);
        drop(env.run(["create", "--workspace-id", "ws"]).exits(0));
        let script = format!(": {marker}; sleep 60");
        let words = ["run", "--detach", "--job-id", &marker, "ws", "sh", "-c", &script];
        drop(env.run(words).exits(0));
        let dir = disk.0.join("home/jobs").join(&marker);
        let is_ours =
            |pid: &u32| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == dir);
        let supervisor = supervisors().into_iter().find(is_ours).expect("its supervisor");
        // So that the disk is full before it looks, and not only nearly.
        signal(supervisor, Signal::STOP);
        let ballast = disk.fill();
        signal(supervisor, Signal::CONT);
        let socket = dir.join("control.sock");
        until("the job has ended", SOON, || (!socket.exists()).then_some(()));
        fs::remove_file(ballast).expect("removed");
        let package = env.json(8, &["wait", "ws"]);
        assert_eq!(package["facts"]["reason"], "host_disk_full", "{package}");
        let text = package["key_findings"].to_string() + &package["attention"].to_string();
        assert!(text.contains("the host's file system had "), "{package}");
        assert!(!text.contains("--storage-bytes"), "{package}");
        drop(disk);
        wait_for_nothing(&marker);
    });
}
