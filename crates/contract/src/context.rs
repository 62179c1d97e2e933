//! What every operation is given: a clock, a way to be cancelled, a deadline and a byte budget.
//!
//! They arrive as parameters, so that tests own time and randomness. The deadline is of the operation itself
//! (a copy, an inspection), not of a job: a job's wall clock is in its policy.
use crate::time::Timestamp;
use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time.
    fn now(&self) -> Timestamp;

    /// Returns the time since some fixed instant of this process; it never goes back.
    fn monotonic(&self) -> Duration;

    /// Waits.
    fn sleep(&self, time: Duration);
}

/// Gives random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `buffer`.
    fn fill(&self, buffer: &mut [u8]);
}

/// Says that the caller wants no more of an operation.
#[derive(Debug, Default)]
pub struct CancelToken(AtomicBool);

impl CancelToken {
    /// Makes a token that is not cancelled.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Cancels; async-signal-safe.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The context of one operation.
#[derive(Clone, Copy)]
pub struct OpCx<'a> {
    /// Checked between steps and while waiting.
    pub cancel: &'a CancelToken,
    /// When the operation has to be over, by [`Clock::monotonic`]; `None` where the job's wall clock bounds it.
    pub deadline: Option<Duration>,
    /// The most bytes that the operation may move.
    pub budget_bytes: u64,
    /// The time.
    pub clock: &'a dyn Clock,
}

impl fmt::Debug for OpCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpCx")
            .field("cancel", self.cancel)
            .field("deadline", &self.deadline)
            .field("budget_bytes", &self.budget_bytes)
            .finish_non_exhaustive()
    }
}

impl OpCx<'_> {
    /// Returns why the operation has to stop now, if it has to.
    #[must_use]
    pub fn interrupted(&self) -> Option<Interrupted> {
        if self.cancel.is_cancelled() {
            return Some(Interrupted::Cancelled);
        }
        let late = self.deadline.is_some_and(|deadline| self.clock.monotonic() >= deadline);
        late.then_some(Interrupted::DeadlinePassed)
    }
}

/// Why an operation stopped before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Interrupted {
    /// The caller cancelled it.
    #[error("the caller cancelled the operation")]
    Cancelled,
    /// Its deadline passed.
    #[error("the operation's deadline passed")]
    DeadlinePassed,
}
