//! A job has no privilege and gets none.
use crate::claim::{Claim, Control, Seen, Verdict, attempt};
use crate::scene::{Scene, with_probe};
use crate::table::check;
use bailiwick_testkit::User;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, makedev, mknodat, setxattr};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::tried(
        "caps",
        "A job has no capability in any set: inheritable, permitted, effective, bounding, ambient.",
        attempt("./probe caps", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "no-new-privs",
        "A job has no_new_privs set.",
        attempt("./probe no-new-privs", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "seccomp",
        "A job runs under a seccomp filter.",
        attempt("./probe seccomp-mode", &["ABSENT"], Control::Plain),
    ),
    Claim::tried(
        "setuid",
        "A job cannot become user 0 of its own namespace.",
        attempt("./probe setuid-root", &["EPERM", "EINVAL"], Control::Namespaces),
    ),
    Claim::steps(
        "setuid-file",
        "A setuid-root file in a shown host path gives a job nothing.",
        setuid_file,
    ),
    Claim::steps(
        "capability-file",
        "A file with capabilities in a shown host path gives a job nothing.",
        capability_file,
    ),
    Claim::tried(
        "userns-unshare",
        "A job cannot make a user namespace by unshare.",
        attempt("./probe userns", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "userns-clone",
        "A job cannot make a user namespace by clone.",
        attempt("./probe userns-clone", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "userns-clone3",
        "A job cannot make a user namespace by clone3.",
        attempt("./probe clone3-userns", &["ENOSYS"], Control::Plain),
    ),
    Claim::steps(
        "descriptors",
        "A job gets no descriptor beyond 0 to 2, also when its caller leaks one.",
        descriptors,
    ),
    Claim::steps(
        "device-file",
        "A device file in a shown host path cannot be opened.",
        device_file,
    ),
    Claim::steps(
        "groups",
        "A job that root starts has none of root's supplementary groups.",
        groups,
    )
    .for_root(),
    Claim::tried(
        "caller-environment",
        "A job does not see a variable of its caller that is not forwarded.",
        attempt("./probe env BAILIWICK_HOME", &["ABSENT"], Control::Plain),
    ),
];

fn setuid_file(scene: &mut Scene) -> Verdict {
    with_file(scene, "setuid-root", |file| {
        // A change of owner clears the bit, so it comes first.
        chown(file, Some(0), Some(0)).expect("root may own a file");
        fs::set_permissions(file, Permissions::from_mode(0o4755)).expect("our own file");
    })
}

fn capability_file(scene: &mut Scene) -> Verdict {
    with_file(scene, "caps-effective", |file| {
        // struct vfs_cap_data of revision 2, effective, with CAP_NET_RAW, which is 13 (linux/capability.h).
        let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        fs::set_permissions(file, Permissions::from_mode(0o755)).expect("our own file");
        setxattr(file, "security.capability", &bytes, XattrFlags::empty()).expect("root may");
    })
}

/// `/dev/zero`, which everybody may read; Landlock would refuse to open it for writing, and only `nodev` refuses this.
fn device_file(scene: &mut Scene) -> Verdict {
    if !User::all().contains(&User::Root) {
        let lacking = || Seen::Lacking("only root can make a device".into());
        return Verdict { inside: lacking(), control: lacking() };
    }
    let file = scene.public_folder().join("device");
    let mode = Mode::from_raw_mode(0o666);
    mknodat(CWD, &file, FileType::CharacterDevice, mode, makedev(1, 5)).expect("root may");
    fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("our own file");
    let line = format!("./probe read-file {}", file.display());
    let flags = format!("--allow-host-path {}:ro", scene.public_folder().display());
    let inside = match scene.inside(&flags, &line) {
        Seen::Refused(how) if how != "EACCES" => Seen::Broken(format!("refused {how}")),
        seen => seen,
    };
    Verdict { inside, control: scene.outside(Control::Plain, &line) }
}

/// Runs a copy of the probe that `prepare` made privileged: inside, and as an ordinary user outside, who gains by it.
fn with_file(scene: &Scene, probe: &str, prepare: impl Fn(&Path)) -> Verdict {
    if !User::all().contains(&User::Root) {
        let lacking = || Seen::Lacking("only root can make a privileged file".into());
        return Verdict { inside: lacking(), control: lacking() };
    }
    let file: PathBuf = scene.public_folder().join(probe);
    fs::copy(scene.env.work().join("probe"), &file).expect("a copy of the probe");
    prepare(&file);
    let line = format!("{} {probe}", file.display());
    let flags = format!("--allow-host-path {}:ro", scene.public_folder().display());
    let ordinary = with_probe(User::Ordinary);
    let outside = ordinary.host("sh", ["-c", &line]);
    Verdict {
        inside: scene.inside(&flags, &line),
        control: Seen::read(&String::from_utf8_lossy(&outside.stdout)),
    }
}

/// Starts the command, and the probe outside, from a shell that left descriptors of a file open.
fn descriptors(scene: &mut Scene) -> Verdict {
    let leak = format!("exec 3<{0} 5<{0} 9<{0}", scene.word("VAR_TMP"));
    let command = scene.env.program().display();
    let exec = format!("{leak}; exec {command} exec --json --input probe=probe -- ./probe fds");
    let inside = crate::scene::said(&scene.env.host("sh", ["-c", &exec]));
    Verdict { inside, control: scene.outside(Control::Plain, &format!("{leak}; ./probe fds")) }
}

/// A file that only members of a group may read, shown to a job whose caller is a member; outside, a member reads it.
fn groups(scene: &mut Scene) -> Verdict {
    let file = scene.public_folder().join("of-a-group");
    fs::write(&file, "planted\n").expect("a file of the test");
    chown(&file, Some(0), Some(GROUP)).expect("root may");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("our own file");
    let (group, show) = (GROUP.to_string(), format!("{}:ro", file.display()));
    let program = scene.env.program().to_str().expect("a path of the test is text");
    let exec = [program, "exec", "--json", "--input", "probe=probe", "--allow-host-path", &show];
    let line = format!("./probe read-file {}", file.display());
    let words = [&["--groups", &group][..], &exec, &["--", "sh", "-c", &line]].concat();
    let inside = crate::scene::said(&scene.env.host("setpriv", words));
    // The working folder is root's own, so the member runs a copy of the probe.
    let probe = scene.public_folder().join("probe");
    fs::copy(scene.env.work().join("probe"), &probe).expect("a copy of the probe");
    let nobody = NOBODY.to_string();
    let ids = ["--reuid", &nobody, "--regid", &nobody, "--groups", &group];
    let line = [probe.to_str().expect("text"), "read-file", file.to_str().expect("text")];
    let outside = scene.env.host("setpriv", [&ids[..], &line].concat());
    Verdict { inside, control: Seen::read(&String::from_utf8_lossy(&outside.stdout)) }
}

/// An id that is no account's and no group's on a usual host.
const GROUP: u32 = 54_321;
/// `nobody` (useradd(8)).
const NOBODY: u32 = 65_534;

#[test]
fn a_job_has_and_gains_no_privilege() {
    check("privileges", CLAIMS);
}
