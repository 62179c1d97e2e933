//! Jobs do not outlive themselves, and do not see each other.
use crate::claim::{Claim, Control, Seen, Verdict};
use crate::scene::{Scene, children, kill, said};
use crate::table::check;
use bailiwick_testkit::{files_holding, processes_holding, until};
use std::thread;
use std::time::{Duration, Instant};

/// How long processes of a job that has ended may still be seen; the kernel takes milliseconds.
const LINGER: Duration = Duration::from_secs(10);

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::steps(
        "leftover-setsid",
        "A process that a job left in a session of its own, deaf to signals, dies with the job.",
        |scene| leftover(scene, "setsid sh -c 'trap \"\" TERM HUP INT; exec ./NAME 600' &"),
    ),
    Claim::steps(
        "leftover-double-fork",
        "A process that a job left by forking twice dies with the job.",
        |scene| leftover(scene, "(./NAME 600 &) &"),
    ),
    Claim::steps(
        "leftover-stopped",
        "A process that a job left stopped dies with the job.",
        |scene| {
            leftover(
                scene,
                "./NAME 600 & until ./probe see-host-process NAME; do sleep 0.05; done; kill -STOP $!",
            )
        },
    ),
    Claim::steps("other-process", "A job cannot see a process of another job.", |scene| {
        beside_another(scene, |name, _| format!("./probe see-host-process {name}"))
    }),
    Claim::steps(
        "other-supervisor",
        "A job cannot see or signal the supervisor of another job.",
        |scene| {
            beside_another(scene, |_, supervisor| {
                format!("./probe read-file /proc/{supervisor}/comm; ./probe kill {supervisor}")
            })
        },
    ),
    Claim::steps("other-disk", "A job cannot read the disk of another workspace.", other_disk),
    Claim::steps(
        "earlier-memory-files",
        "What a job left in /tmp, /dev/shm or its home is not there for the next job of its workspace.",
        earlier_memory_files,
    ),
    Claim::steps(
        "earlier-secret",
        "A variable that was forwarded to an earlier job is not visible to a later one.",
        earlier_secret,
    ),
];

/// Leaves a process called NAME behind by `line`, inside and outside.
fn leftover(scene: &mut Scene, line: &str) -> Verdict {
    let name = scene.process_name();
    drop(scene.sleeping(&name));
    let line = line.replace("NAME", &name);
    // The job ends only once the process has the name that is looked for.
    let line = format!(
        "[ -e {name} ] || ln -s \"$(command -v sleep)\" {name}; {{ {line}\n}} >/dev/null 2>&1; \
         until ./probe see-host-process {name} >/dev/null; do sleep 0.05; done; echo begun"
    );
    let exec = ["exec", "--json", "--wall-clock-seconds", "60", "--input", "probe=probe", "--"];
    let output = scene.env.run([&exec[..], &["sh", "-c", &line]].concat());
    let inside = if output.code() == Some(0) && output.mentions("begun") {
        Seen::of(!gone(&name), "gone with the job")
    } else {
        Seen::Broken(output.to_string())
    };
    let outside = scene.env.host("sh", ["-c", &line]);
    let left = processes_holding(&name);
    for pid in &left {
        kill(*pid);
    }
    let control = match outside.code() {
        Some(0) => Seen::of(!left.is_empty(), "left"),
        _ => Seen::Broken(outside.to_string()),
    };
    Verdict { inside, control }
}

/// Waits until no process has `name` in its command line.
fn gone(name: &str) -> bool {
    let deadline = Instant::now() + LINGER;
    while Instant::now() < deadline {
        if processes_holding(name).is_empty() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Tries a line inside and outside while another job runs: it is made from the name of a process of that job and from
/// the id of its supervisor.
fn beside_another(scene: &mut Scene, line: impl Fn(&str, u32) -> String) -> Verdict {
    let name = scene.process_name();
    let id = workspace(scene);
    let job = format!("ln -s \"$(command -v sleep)\" {name}; exec ./{name} 600");
    let mut run = scene.env.start(["run", &id, "sh", "-c", &job]);
    let see = format!("./probe see-host-process {name}");
    until("the other job runs", Duration::from_secs(30), || {
        run.assert_alive();
        matches!(scene.outside(Control::Plain, &see), Seen::Reached(_)).then_some(())
    });
    let supervisor = *children(run.pid()).first().expect("a caller waits for its supervisor");
    let line = line(&name, supervisor);
    let verdict =
        Verdict { inside: scene.inside("", &line), control: scene.outside(Control::Plain, &line) };
    drop(scene.env.run(["stop", "--apply", &id]));
    drop(run.wait());
    verdict
}

/// Makes a workspace and returns its id.
fn workspace(scene: &Scene) -> String {
    let package = scene.env.json(0, &["create"]);
    package["provenance"]["workspace_id"].as_str().expect("an id is text").to_owned()
}

fn other_disk(scene: &mut Scene) -> Verdict {
    let id = workspace(scene);
    let word = format!("disk-of-another-{}", scene.tag());
    // The word is written in two parts, so that only the file holds it whole.
    let (first, rest) = word.split_at(8);
    let line = format!("printf %s%s {first} {rest} > kept");
    drop(scene.env.run(["run", &id, "sh", "-c", &line]).exits(0));
    let found = files_holding(&scene.env.home(), word.as_bytes());
    let kept = found.iter().find(|path| path.ends_with("kept")).expect("the disk is in the home");
    let line = format!("./probe read-file {}", kept.display());
    Verdict { inside: scene.inside("", &line), control: scene.outside(Control::Plain, &line) }
}

/// The places are written by one job, found by itself, and looked for by the next.
fn earlier_memory_files(scene: &mut Scene) -> Verdict {
    let id = workspace(scene);
    let places = ["/tmp/kept", "/dev/shm/kept", "/tmp/home/kept"];
    let write = places.map(|place| format!("echo kept > {place}; ./probe read-file {place}; "));
    let read = places.map(|place| format!("./probe read-file {place}; "));
    let control = run(scene, &["--input", "probe=probe"], &id, &write.concat());
    Verdict { control, inside: run(scene, &[], &id, &read.concat()) }
}

fn earlier_secret(scene: &mut Scene) -> Verdict {
    let name = format!("BWS_{}", scene.tag());
    scene.env.set(&name, "hunter2");
    let id = workspace(scene);
    let script = format!("./probe env {name}; ./probe proc-environ {name}");
    let control = run(scene, &["--input", "probe=probe", "--env", &name], &id, &script);
    Verdict { control, inside: run(scene, &[], &id, &script) }
}

/// Runs a script in a workspace; the first job copies the probe in.
fn run(scene: &Scene, flags: &[&str], id: &str, script: &str) -> Seen {
    let words = [&["run", "--json"], flags, &[id, "sh", "-c", script]].concat();
    said(&scene.env.run(words))
}

#[test]
fn a_job_leaves_nothing_running_and_sees_no_other_job() {
    check("jobs", CLAIMS);
}
