//! `doctor`: whether jobs can run here, and what is missing.
//!
//! It works where nothing else does: each check stands for itself, and what cannot be looked at is a check that failed.
use crate::app::App;
use crate::args::BaseArgs;
use crate::identity::{self, Found, shown};
use crate::output::Outcome;
use bailiwick_contract::enforcement::{Capabilities, Enforcement, Label, Lack};
use bailiwick_contract::error::{ExitCode, Failure};
use bailiwick_contract::provider::{ProviderError, ProviderName};
use bailiwick_contract::store::{Store, StorePort};
use bailiwick_engine::list::{OpenWork, Reconciled};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Settle what killed verbs left open, in every workspace of the provider
    #[arg(long)]
    reconcile: bool,
    #[command(flatten)]
    base: BaseArgs,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick doctor
  bailiwick doctor --reconcile
  bailiwick doctor --json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.base.json
    }
}

/// The answer of `doctor`.
#[derive(Debug, Serialize)]
struct Health {
    healthy: bool,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    id: String,
    passed: bool,
    severity: Severity,
    message: String,
    remediation: String,
}

/// What it means that a check failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Severity {
    /// Nothing can run.
    Error,
    /// Something is weaker.
    Warning,
    /// Worth knowing.
    Info,
}

impl Check {
    fn good(id: &str, message: impl Into<String>) -> Self {
        let (message, remediation) = (message.into(), String::new());
        Self { id: id.into(), passed: true, severity: Severity::Info, message, remediation }
    }

    fn bad(id: &str, message: impl Into<String>, remediation: impl Into<String>) -> Self {
        let (message, remediation) = (message.into(), remediation.into());
        Self { id: id.into(), passed: false, severity: Severity::Error, message, remediation }
    }

    fn of_failure(id: &str, failure: &Failure) -> Self {
        Self::bad(id, failure.message.clone(), failure.remediation.clone())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "every verb looks the same")]
pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let mut checks = Vec::new();
    match app.settings.home() {
        Ok(home) => checks.push(home_check(&home)),
        Err(failure) => checks.push(Check::of_failure("home", &failure)),
    }
    checks.push(store_check(app));
    checks.extend(intent_checks(&args, app));
    checks.extend(leftover_checks(&args.base, app));
    host_checks(&args.base, app, &mut checks);
    checks.extend(identity_checks(&identity::here(app.settings.user_home())));
    let healthy = checks.iter().all(|check| check.passed || check.severity != Severity::Error);
    let health = Health { healthy, checks };
    let exit = if healthy { ExitCode::Success } else { ExitCode::UserError };
    let outcome =
        if args.base.json { Outcome::json(&health) } else { Outcome::text(text(&health)) };
    Ok(outcome.with_exit(exit))
}

/// Looks whether the home is ours, or can be made.
fn home_check(home: &Path) -> Check {
    let shown = shown(home);
    let advice = "set BAILIWICK_HOME to a directory that is yours and that you may write to";
    match fs::metadata(home) {
        Ok(found) if !found.is_dir() => {
            Check::bad("home", format!("`{shown}` is not a directory"), advice)
        }
        Ok(found) if found.uid() != rustix::process::geteuid().as_raw() => {
            Check::bad("home", format!("`{shown}` belongs to somebody else"), advice)
        }
        Ok(_) => match rustix::fs::access(home, writable()) {
            Ok(()) => Check::good("home", format!("`{shown}` can be used")),
            Err(error) => {
                Check::bad("home", format!("`{shown}` cannot be written to: {error}"), advice)
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => absent_home(home, &shown, advice),
        Err(error) => Check::bad("home", format!("`{shown}` cannot be looked at: {error}"), advice),
    }
}

fn absent_home(home: &Path, shown: &str, advice: &str) -> Check {
    let parent = home.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(home);
    match rustix::fs::access(parent, writable()) {
        Ok(()) => Check::good("home", format!("`{shown}` will be made when it is first used")),
        Err(error) => Check::bad("home", format!("`{shown}` cannot be made: {error}"), advice),
    }
}

fn writable() -> rustix::fs::Access {
    rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK
}

/// Opens the store only where there is one: looking makes nothing.
fn store_check(app: &App) -> Check {
    let advice = "see `home`; a state that a newer version wrote needs that version";
    let home = match app.settings.home() {
        Ok(home) => home,
        Err(failure) => return Check::of_failure("store", &failure),
    };
    if !home.join("state.db").exists() {
        return Check::good("store", "there is no state yet");
    }
    match app.store().map(StorePort::open) {
        Ok(Ok(store)) => sound_check(store, &home.join("state.db")),
        Ok(Err(error)) => Check::bad("store", error.to_string(), advice),
        Err(failure) => Check::of_failure("store", &failure),
    }
}

/// The largest database whose pages are all looked at: 256 MiB take 0.2 s from a warm cache.
const CHECKED_BYTES_MAX: u64 = 256 << 20;

/// Looks at every page of a state that was opened.
fn sound_check(store: &dyn Store, database: &Path) -> Check {
    let known = "the state has a schema that this version knows";
    let bytes = fs::metadata(database).map_or(0, |found| found.len());
    if bytes > CHECKED_BYTES_MAX {
        let size = format!("{known}; at {bytes} bytes its pages were not looked at");
        return Check::good("store", size);
    }
    match store.check() {
        Ok(()) => Check::good("store", format!("{known}, and no page of it is malformed")),
        Err(error) => Check::bad(
            "store",
            error.to_string(),
            "move the home aside, or restore a backup of `state.db`; nothing was rewritten",
        ),
    }
}

/// Says what is open, or settles it.
fn intent_checks(args: &Args, app: &App) -> Vec<Check> {
    let has_state = app.settings.home().is_ok_and(|home| home.join("state.db").exists());
    let Ok(engine) = app.engine(&args.base) else { return Vec::new() };
    if !has_state {
        return Vec::new();
    }
    if !args.reconcile {
        return vec![
            engine.open_work().map_or_else(|e| Check::of_failure("intents", &e), open_check),
        ];
    }
    match engine.reconcile_everything() {
        Ok(Reconciled { done, open }) => {
            let settled = done.into_iter().map(|line| Check::good("intents", line));
            settled.chain([open_check(open)]).collect()
        }
        Err(failure) => vec![Check::of_failure("intents", &failure)],
    }
}

fn open_check(work: Vec<OpenWork>) -> Check {
    let (alive, left): (Vec<OpenWork>, Vec<OpenWork>) =
        work.into_iter().partition(|open| open.alive);
    if left.is_empty() {
        return Check::good(
            "intents",
            match alive.len() {
                0 => "none is open".into(),
                count => format!("{count} open, each with somebody at work on it"),
            },
        );
    }
    let first = &left[0].what;
    let mut check = Check::bad(
        "intents",
        format!("{} left by killed verbs, such as {first}; {} in work", left.len(), alive.len()),
        "bailiwick doctor --reconcile settles them; so does the next verb on each workspace",
    );
    check.severity = Severity::Warning;
    check
}

/// Removes what killed verbs left on no record; without a state nothing is known, and nothing is touched.
fn leftover_checks(base: &BaseArgs, app: &App) -> Vec<Check> {
    let has_state = app.settings.home().is_ok_and(|home| home.join("state.db").exists());
    let Ok(engine) = app.engine(base) else { return Vec::new() };
    if !has_state {
        return Vec::new();
    }
    let lines = engine.remove_leftovers();
    if lines.is_empty() {
        return vec![Check::good("leftovers", "there are none")];
    }
    lines.into_iter().map(|line| Check::good("leftovers", line)).collect()
}

/// Asks the provider what this host can hold.
fn host_checks(base: &BaseArgs, app: &App, checks: &mut Vec<Check>) {
    let made = app.provider(base);
    // Only native jobs have a supervisor; where no provider can be made, that is usually what is missing.
    if made.as_ref().map_or(true, |provider| provider.name() == ProviderName::Native) {
        checks.push(supervisor_check());
    }
    let provider = match made {
        Ok(provider) => provider,
        Err(failure) => return checks.push(Check::of_failure("provider", &failure)),
    };
    match provider.capabilities(&app.cx()) {
        Ok(capabilities) => {
            checks.push(provider_check(provider.name(), &capabilities));
            checks.extend(limit_checks(&capabilities));
            checks.extend(capabilities.lacks.iter().map(lack_check));
        }
        Err(ProviderError::Unavailable { message, remediation, .. }) => {
            checks.push(Check::bad("provider", message, remediation));
        }
        Err(error @ ProviderError::Script { .. }) => {
            let advice = "correct the file that BAILIWICK_FAKE_SCRIPT names; docs/fake.md says what it may hold";
            checks.push(Check::bad("provider", error.to_string(), advice));
        }
        // It is there, but of another version: the provider asked it.
        Err(ProviderError::Supervisor { message }) => {
            checks.retain(|check| check.id != "supervisor");
            checks.push(Check::bad("supervisor", message, SUPERVISOR_ADVICE));
        }
        Err(error) => {
            checks.push(Check::bad("provider", error.to_string(), "see the other checks"));
        }
    }
}

const SUPERVISOR_ADVICE: &str = "run `scripts/install`, which builds and installs both programs";

fn supervisor_check() -> Check {
    match crate::compose::supervisor() {
        Ok(path) => match crate::compose::supervisor_version(&path) {
            Ok(()) => Check::good("supervisor", format!("it is `{}`", shown(&path))),
            Err(message) => Check::bad("supervisor", message, SUPERVISOR_ADVICE),
        },
        Err(failure) => Check::of_failure("supervisor", &failure),
    }
}

fn provider_check(name: ProviderName, capabilities: &Capabilities) -> Check {
    let name = name.name();
    if capabilities.lacks.iter().any(|lack| lack.fatal) {
        return Check::bad(
            "provider",
            format!("{name} cannot run jobs here"),
            "see what the host lacks",
        );
    }
    Check::good("provider", format!("{name} can run jobs here"))
}

fn limit_checks(capabilities: &Capabilities) -> Vec<Check> {
    let rows = [
        ("limit.network", capabilities.network_disabled),
        ("limit.filesystem", capabilities.filesystem),
        ("limit.memory", capabilities.memory),
        ("limit.cpu", capabilities.cpu_whole),
        ("limit.cpu-fraction", capabilities.cpu_fraction),
        ("limit.pids", capabilities.pids),
        ("limit.storage", capabilities.storage),
        ("limit.wall-clock", capabilities.wall_clock),
        ("limit.output", capabilities.output_bytes),
        ("limit.concurrency", capabilities.concurrency),
    ];
    rows.into_iter().map(|(id, held)| limit_check(id, held)).collect()
}

fn limit_check(id: &str, held: Option<Enforcement>) -> Check {
    let Some(Enforcement { label, mechanism }) = held else {
        let mut check =
            Check::bad(id, "this host can do nothing about it", "see what the host lacks");
        check.severity = Severity::Warning;
        return check;
    };
    let mechanism = serde_json::to_value(mechanism).expect("a mechanism is a word");
    let mechanism = mechanism.as_str().unwrap_or_default();
    match label {
        Label::Enforced => Check::good(id, format!("enforced by {mechanism}")),
        Label::Measured => Check {
            severity: Severity::Warning,
            ..Check::good(id, format!("measured only, by {mechanism}"))
        },
    }
}

fn lack_check(lack: &Lack) -> Check {
    let mut check = Check::bad(&lack.id, lack.message.clone(), lack.remediation.clone());
    check.severity = if lack.fatal { Severity::Error } else { Severity::Warning };
    check
}

/// Checks that the identity of this directory can be read and has the prompt of its backend.
fn identity_checks(found: &Found) -> [Check; 2] {
    let ids = ["prompt-file-present", "backend-consistency"];
    let (path, identity) = match found {
        Found::BuiltIn(_) => {
            let message = "not applicable: there is no culture.yaml here";
            return ids.map(|id| Check::good(id, message));
        }
        Found::Broken(path, error) => {
            let message = format!("`{}` holds no identity: {error}", shown(path));
            return ids.map(|id| Check::bad(id, message.clone(), identity::ADVICE));
        }
        Found::File(path, identity) => (path, identity),
    };
    let folder = path.parent().unwrap_or(path);
    let wanted = identity::prompt_name(&identity.backend);
    let prompts = identity::prompts(folder);
    let present = prompts.contains(&wanted);
    let [file, pair] = ids;
    [
        prompt_check(file, folder, &wanted, present),
        pair_check(pair, &identity.backend, &wanted, &prompts, present),
    ]
}

fn prompt_check(id: &str, folder: &Path, wanted: &str, present: bool) -> Check {
    let folder = shown(folder);
    if present {
        return Check::good(id, format!("`{wanted}` is in `{folder}`"));
    }
    let message = format!("`{wanted}` is not in `{folder}`, or is empty");
    Check::bad(id, message, format!("write the prompt to `{wanted}`, beside culture.yaml"))
}

/// A missing prompt is one thing; that there are only prompts of other backends says that the two files disagree.
fn pair_check(id: &str, backend: &str, wanted: &str, prompts: &[String], present: bool) -> Check {
    if present {
        return Check::good(id, format!("the backend `{backend}` has its prompt"));
    }
    if prompts.is_empty() {
        return Check::good(id, "there is no prompt of another backend");
    }
    let message = format!("the backend is `{backend}`, but the prompts are {}", prompts.join(", "));
    let advice = format!("name their backend in culture.yaml, or rename the prompt to `{wanted}`");
    Check::bad(id, message, advice)
}

fn text(health: &Health) -> String {
    let mut out = String::from(if health.healthy { "healthy\n" } else { "not healthy\n" });
    for check in &health.checks {
        let word = match (check.passed, check.severity) {
            (true, _) => "ok",
            (false, Severity::Error) => "error",
            (false, Severity::Warning | Severity::Info) => "warning",
        };
        writeln!(out, "{word:<8} {}: {}", check.id, check.message)
            .expect("a String takes any text");
        if !check.remediation.is_empty() {
            writeln!(out, "         hint: {}", check.remediation).expect("a String takes any text");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::enforcement::Mechanism;

    #[test]
    fn a_report_names_each_check_and_what_to_do() {
        let lack = Lack {
            id: "user-namespaces".into(),
            message: "an ordinary user cannot make a user namespace".into(),
            remediation: "sysctl -w kernel.unprivileged_userns_clone=1".into(),
            fatal: true,
        };
        let checks = vec![
            limit_check("limit.pids", Some(Enforcement::enforced(Mechanism::RlimitNproc))),
            limit_check("limit.memory", Some(Enforcement::measured(Mechanism::WatchMemory))),
            limit_check("limit.network", None),
            lack_check(&lack),
        ];
        expect_test::expect![[r"
            not healthy
            ok       limit.pids: enforced by rlimit-nproc
            ok       limit.memory: measured only, by watch-memory
            warning  limit.network: this host can do nothing about it
                     hint: see what the host lacks
            error    user-namespaces: an ordinary user cannot make a user namespace
                     hint: sysctl -w kernel.unprivileged_userns_clone=1
        "]]
        .assert_eq(&text(&Health { healthy: false, checks }));
    }

    #[test]
    fn what_is_open_is_counted_by_whether_somebody_is_at_work_on_it() {
        let open = |alive| OpenWork { what: "a put in workspace w".into(), alive };
        assert_eq!(open_check(Vec::new()).message, "none is open");
        assert!(open_check(vec![open(true)]).passed);
        let left = open_check(vec![open(true), open(false), open(false)]);
        assert!(!left.passed && left.severity == Severity::Warning, "{left:?}");
        let told = "2 left by killed verbs, such as a put in workspace w; 1 in work";
        assert_eq!(left.message, told);
    }

    #[test]
    fn a_home_that_can_be_made_is_good_and_a_file_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(home_check(folder.path()).passed);
        assert!(home_check(&folder.path().join("a/b")).passed);
        let file = folder.path().join("file");
        fs::write(&file, b"").expect("a file");
        assert!(!home_check(&file).passed);
        assert!(!home_check(&file.join("below")).passed);
    }
}
