//! A clock that moves when it is told to, or when somebody sleeps.
use bailiwick_contract::context::Clock;
use bailiwick_contract::time::Timestamp;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// 2026-11-30T17:41:38.785206Z: where a [`FakeClock`] begins.
const START_MICROS: u64 = 1_796_060_498_785_206;

/// A clock that moves when it is told to, or when somebody sleeps.
#[derive(Debug, Default)]
pub struct FakeClock {
    elapsed_micros: AtomicU64,
}

impl FakeClock {
    /// Makes a clock that stands at 2026-11-30T17:41:38.785206Z.
    #[must_use]
    pub const fn new() -> Self {
        Self { elapsed_micros: AtomicU64::new(0) }
    }

    /// Moves it.
    pub fn advance(&self, time: Duration) {
        let micros =
            u64::try_from(time.as_micros()).expect("a test lasts less than half a million years");
        self.elapsed_micros.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(START_MICROS + self.elapsed_micros.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.elapsed_micros.load(Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_moves_both_times() {
        let clock = FakeClock::new();
        let before = clock.now();
        clock.sleep(Duration::from_secs(2));
        assert_eq!(clock.now().millis_since(before), 2_000);
        assert_eq!(clock.monotonic(), Duration::from_secs(2));
    }
}
