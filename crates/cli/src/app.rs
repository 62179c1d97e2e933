//! What a verb is given: settings, time, randomness, store and provider, each made when it is first needed.
//!
//! A verb that needs nothing pays for nothing: `version` opens no file.
use crate::args::BaseArgs;
use crate::compose;
use crate::settings::Settings;
use bailiwick_contract::context::{CancelToken, Clock, Entropy, OpCx};
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::{JobId, WorkspaceId};
use bailiwick_contract::provider::{Provider, ProviderName};
use bailiwick_contract::store::{Store, StoreError, StorePort};
use bailiwick_contract::time::Timestamp;
use bailiwick_engine::Engine;
use std::cell::OnceCell;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The provider where nobody names one.
const PROVIDER_DEFAULT: ProviderName = ProviderName::Native;

/// The parts that verbs work with.
pub(crate) struct App {
    /// What the process was started with.
    pub(crate) settings: Settings,
    /// The time.
    pub(crate) clock: SystemClock,
    /// Randomness for ids.
    pub(crate) entropy: SystemEntropy,
    provider: OnceCell<Box<dyn Provider>>,
    /// The one that a workspace's record names, where nobody chose and it is not the default.
    recorded: OnceCell<Box<dyn Provider>>,
    store: OnceCell<LazyStore>,
}

impl App {
    /// Makes the parts that cost nothing.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            clock: SystemClock::new(),
            entropy: SystemEntropy,
            provider: OnceCell::new(),
            recorded: OnceCell::new(),
            store: OnceCell::new(),
        }
    }

    /// Returns the provider that flag, variable or default names.
    ///
    /// # Errors
    /// An unknown name, or a provider that cannot be made here.
    pub(crate) fn provider(&self, base: &BaseArgs) -> Result<&dyn Provider, Failure> {
        if let Some(provider) = self.provider.get() {
            return Ok(provider.as_ref());
        }
        let made = compose::provider(self.provider_name(base)?, &self.settings)?;
        Ok(self.provider.get_or_init(|| made).as_ref())
    }

    /// Lets the provider begin what a job will need; whatever stands against it is said when the job is asked for.
    pub(crate) fn expect_job(&self) {
        let base = BaseArgs { provider: None, json: false };
        if let Ok(provider) = self.provider(&base) {
            provider.expect_job();
        }
    }

    /// Returns the engine over this app's parts.
    ///
    /// # Errors
    /// As [`App::provider`] and [`App::store`].
    pub(crate) fn engine(&self, base: &BaseArgs) -> Result<Engine<'_>, Failure> {
        self.engine_over(self.provider(base)?)
    }

    /// Returns the engine for a verb on something that is there, a workspace or a job: where nobody names a provider, the
    /// one that holds it.
    ///
    /// # Errors
    /// As [`App::engine`].
    pub(crate) fn engine_for(&self, base: &BaseArgs, handle: &str) -> Result<Engine<'_>, Failure> {
        let is_chosen = base.provider.is_some() || self.settings.provider.is_some();
        let holder = if is_chosen { None } else { self.holder_of(handle)? };
        match holder {
            None | Some(PROVIDER_DEFAULT) => self.engine(base),
            Some(name) => {
                let made = compose::provider(name, &self.settings)?;
                self.engine_over(self.recorded.get_or_init(|| made).as_ref())
            }
        }
    }

    /// Returns whose a workspace or a job is; what is not on record, or cannot be looked up, is for the verb to tell.
    fn holder_of(&self, handle: &str) -> Result<Option<ProviderName>, Failure> {
        // A home that is not there holds nothing, and is not made for a look.
        if !self.settings.home()?.is_dir() {
            return Ok(None);
        }
        let Ok(store) = self.store()?.open() else { return Ok(None) };
        let workspace = |id: &WorkspaceId| store.workspace(id).ok().flatten();
        let found = WorkspaceId::parse(handle).ok().and_then(|id| workspace(&id)).or_else(|| {
            let job = store.job(&JobId::parse(handle).ok()?).ok().flatten()?;
            workspace(&job.workspace)
        });
        Ok(found.map(|record| record.provider))
    }

    fn engine_over<'a>(&'a self, provider: &'a dyn Provider) -> Result<Engine<'a>, Failure> {
        Ok(Engine {
            provider,
            store: self.store()?,
            clock: &self.clock,
            entropy: &self.entropy,
            cancel: self.cancel(),
            program: "bailiwick",
        })
    }

    fn provider_name(&self, base: &BaseArgs) -> Result<ProviderName, Failure> {
        if let Some(name) = base.provider {
            return Ok(name);
        }
        let Some(name) = &self.settings.provider else { return Ok(PROVIDER_DEFAULT) };
        let known = name.to_str().and_then(ProviderName::from_name);
        known.ok_or_else(|| {
            let name = name.to_string_lossy();
            let message =
                format!("BAILIWICK_PROVIDER names an unknown provider: `{}`", name.escape_debug());
            let advice = format!("there are {}", crate::args::provider_names());
            Failure::user("unknown_provider", message, advice)
        })
    }

    /// Returns the store, which opens when it is first used.
    ///
    /// # Errors
    /// `no_home` where there is no place for one.
    pub(crate) fn store(&self) -> Result<&dyn StorePort, Failure> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let home = self.settings.home()?;
        Ok(self.store.get_or_init(|| LazyStore {
            home,
            clock: SystemClock::new(),
            opened: OnceLock::new(),
        }))
    }

    /// Returns the token that an interrupt cancels; asking for it is what makes interrupts catchable.
    pub(crate) fn cancel(&self) -> &'static CancelToken {
        compose::cancel_token()
    }

    /// Returns the context of an operation that nothing but an interrupt or a limit of its own ends.
    pub(crate) fn cx(&self) -> OpCx<'_> {
        OpCx { cancel: self.cancel(), deadline: None, budget_bytes: u64::MAX, clock: &self.clock }
    }
}

/// Opens the store once.
struct LazyStore {
    home: PathBuf,
    clock: SystemClock,
    opened: OnceLock<Box<dyn Store>>,
}

impl StorePort for LazyStore {
    fn open(&self) -> Result<&dyn Store, StoreError> {
        if let Some(store) = self.opened.get() {
            return Ok(store.as_ref());
        }
        let store = compose::store(&self.home, self.clock.now())?;
        Ok(self.opened.get_or_init(|| store).as_ref())
    }
}

/// The host's clock.
#[derive(Debug)]
pub(crate) struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Makes one whose monotonic time begins now.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the Clock that everything else is given"
    )]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The kernel's random numbers.
#[derive(Debug)]
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the kernel has had getrandom(2) since 3.17");
    }
}
