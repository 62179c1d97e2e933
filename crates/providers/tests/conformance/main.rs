//! The conformance suite over every provider: one test a check and a provider, `native::peer::write_lands`.
//!
//! Root runs the native half a second time as an ordinary user, as one test. What is tried is in `bailiwick_testkit::conformance`.
use bailiwick_contract::provider::{Provider, ProviderName};
use bailiwick_providers::fake::{Fake, FakeOptions};
use bailiwick_providers::native::{Native, NativeOptions};
use bailiwick_testkit::User;
use bailiwick_testkit::conformance::{self, Case, HostClock, Place};
use libtest_mimic::{Arguments, Failed, Trial};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Tells a copy of this program where the supervisor is.
const SUPERVISOR: &str = "BAILIWICK_TEST_SUPERVISOR";

struct NativeCase;

impl NativeCase {
    fn make(place: &Place, supervisor: PathBuf) -> Box<dyn Provider> {
        let home = place.home.clone();
        Box::new(Native::new(NativeOptions { home, supervisor, seed: 1, without_cgroups: false }))
    }
}

impl Case for NativeCase {
    fn name(&self) -> ProviderName {
        ProviderName::Native
    }

    fn provider(&self, place: &Place) -> Box<dyn Provider> {
        Self::make(place, supervisor())
    }

    fn broken(&self, place: &Place) -> Box<dyn Provider> {
        Self::make(place, place.nonsense.clone())
    }

    fn tree(&self, place: &Place, id: &str) -> PathBuf {
        place.home.join("disks").join(id).join("tree")
    }
}

struct FakeCase;

impl FakeCase {
    fn make(place: &Place, script: &Path) -> Box<dyn Provider> {
        let (home, script) = (place.home.clone(), Some(script.to_owned()));
        Box::new(Fake::new(FakeOptions { home, script, clock: HostClock::shared() }))
    }
}

impl Case for FakeCase {
    fn name(&self) -> ProviderName {
        ProviderName::Fake
    }

    fn provider(&self, place: &Place) -> Box<dyn Provider> {
        Self::make(place, &place.script)
    }

    fn broken(&self, place: &Place) -> Box<dyn Provider> {
        Self::make(place, &place.nonsense)
    }

    fn tree(&self, place: &Place, id: &str) -> PathBuf {
        place.home.join("fake/disks").join(id).join("tree")
    }
}

const CASES: [&(dyn Case + Sync); 2] = [&NativeCase, &FakeCase];

/// The supervisor that cargo built beside this test, or the copy that an ordinary user can run.
fn supervisor() -> PathBuf {
    #[expect(clippy::disallowed_methods, reason = "tests have their own variables")]
    let told = std::env::var_os(SUPERVISOR).map(PathBuf::from);
    let own = std::env::current_exe().expect("this test has a path");
    let profile = own.parent().and_then(Path::parent).expect("target/<profile>/deps");
    let supervisor = told.unwrap_or_else(|| profile.join("bailiwick-supervisor"));
    assert!(supervisor.is_file(), "build it first: cargo build -p bailiwick-supervisor");
    supervisor
}

fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for case in CASES {
        for check in conformance::all() {
            let name = format!("{}::{check:?}", case.name().name());
            trials.push(Trial::test(name, move || check.run(case).map_err(Failed::from)));
        }
    }
    if rustix::process::geteuid().is_root() {
        trials.push(Trial::test("native::as_an_ordinary_user", || {
            as_an_ordinary_user().map_err(Failed::from)
        }));
    }
    trials
}

/// Runs the native half in a copy of this program.
fn as_an_ordinary_user() -> Result<(), String> {
    let folder = tempfile::Builder::new().prefix("bailiwick-conf-").tempdir().expect("a folder");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own file");
    };
    mode(folder.path(), 0o755);
    let own = std::env::current_exe().expect("this test has a path");
    let (program, helper) =
        (folder.path().join("conf"), folder.path().join("bailiwick-supervisor"));
    for (from, to) in [(&own, &program), (&supervisor(), &helper)] {
        fs::copy(from, to).expect("a copy");
        mode(to, 0o755);
    }
    let temporary = folder.path().join("tmp");
    fs::create_dir(&temporary).expect("a folder");
    mode(&temporary, 0o1777);
    let mut command = User::Ordinary.command(&program);
    command.args(["--test-threads", "2", "native::"]).current_dir(&temporary);
    let output = command.env(SUPERVISOR, &helper).env("TMPDIR", &temporary).output();
    let output = output.expect("setpriv is there");
    if output.status.success() {
        return Ok(());
    }
    Err(format!("as an ordinary user:\n{}", String::from_utf8_lossy(&output.stdout)))
}

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}
