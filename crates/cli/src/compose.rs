//! Where the concrete parts meet: which provider, which store, which cancel token.
//!
//! Nothing else in the workspace names a concrete provider.
use crate::app::{SystemClock, SystemEntropy};
#[cfg(feature = "faults")]
use crate::faults::{FaultyProvider, FaultyStore};
use crate::settings::Settings;
use bailiwick_contract::context::{CancelToken, Entropy};
use bailiwick_contract::error::Failure;
use bailiwick_contract::provider::{Provider, ProviderName};
use bailiwick_contract::store::{Store, StoreError};
use bailiwick_contract::time::Timestamp;
use bailiwick_isolation::wire::WIRE_VERSION;
use bailiwick_providers::fake::{Fake, FakeOptions};
use bailiwick_providers::native::{Native, NativeOptions};
use bailiwick_store::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Makes the provider that `name` means.
///
/// # Errors
/// Where its program is not beside this one, or the home has no place.
pub(crate) fn provider(
    name: ProviderName,
    settings: &Settings,
) -> Result<Box<dyn Provider>, Failure> {
    let home = settings.home()?;
    let provider = match name {
        ProviderName::Native => native(&home),
        ProviderName::Fake => Ok(fake(&home, settings)),
    };
    #[cfg(feature = "faults")]
    let provider = provider.map(|inner| Box::new(FaultyProvider(inner)) as Box<dyn Provider>);
    provider
}

fn native(home: &Path) -> Result<Box<dyn Provider>, Failure> {
    let options = NativeOptions {
        home: home.to_owned(),
        supervisor: supervisor()?,
        seed: seed(),
        without_cgroups: false,
    };
    Ok(Box::new(Native::new(options)))
}

fn fake(home: &Path, settings: &Settings) -> Box<dyn Provider> {
    let script = settings.fake_script.clone();
    let clock = Arc::new(SystemClock::new());
    Box::new(Fake::new(FakeOptions { home: home.to_owned(), script, clock }))
}

/// Picks the outside id of a home that root uses for the first time.
fn seed() -> u32 {
    let mut bytes = [0; 4];
    SystemEntropy.fill(&mut bytes);
    u32::from_le_bytes(bytes)
}

/// The version of the database's schema that this build writes.
pub(crate) const STATE_SCHEMA: &str = bailiwick_store::SCHEMA;

/// Finds the supervisor's program, which lies beside this one.
///
/// # Errors
/// `no_supervisor` where it is not there; the hint names what builds it.
pub(crate) fn supervisor() -> Result<PathBuf, Failure> {
    let advice = "run `scripts/install`, which builds and installs both programs";
    let own = std::env::current_exe().map_err(|error| {
        Failure::environment(
            "no_supervisor",
            format!("the path of this program is not known: {error}"),
            advice,
        )
    })?;
    let path = own.with_file_name("bailiwick-supervisor");
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("there is no supervisor at `{}`", path.to_string_lossy().escape_debug());
    Err(Failure::environment("no_supervisor", message, advice))
}

/// Asks the supervisor's program for its version, which has to be ours.
///
/// # Errors
/// What is wrong with it, in one sentence.
pub(crate) fn supervisor_version(path: &Path) -> Result<(), String> {
    let shown = path.to_string_lossy().escape_debug().to_string();
    let wanted = format!("{} {WIRE_VERSION}", env!("CARGO_PKG_VERSION"));
    match bailiwick_isolation::spawn::ask(path, &["--version"]) {
        Ok(said) if said.trim() == wanted => Ok(()),
        Ok(_) => Err(format!("the supervisor `{shown}` is another version than this program")),
        Err(error) => Err(format!("the supervisor `{shown}` cannot be started: {error}")),
    }
}

/// Opens the store under `home`; `now` is for the record of a new one.
///
/// # Errors
/// [`StoreError`]; nothing was rewritten.
pub(crate) fn store(home: &Path, now: Timestamp) -> Result<Box<dyn Store>, StoreError> {
    let opened = Box::new(bailiwick_store::open(&OpenOptions { home: home.to_owned(), now })?);
    #[cfg(feature = "faults")]
    let opened = Box::new(FaultyStore(opened));
    Ok(opened)
}

/// Returns the token that the first SIGINT or SIGTERM cancels; a second one ends this process at once.
pub(crate) fn cancel_token() -> &'static CancelToken {
    bailiwick_isolation::interrupt::token()
}
