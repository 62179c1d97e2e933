//! Wall-clock instants, as numbers.
//!
//! Reading a clock is the caller's business ([`crate::context::Clock`]); here is only the form. The text is
//! RFC 3339 as Python's `datetime.isoformat` writes it, which is what packages carry.
use alloc::format;
use alloc::string::String;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Microseconds since 1970-01-01T00:00:00Z.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Timestamp(u64);

const MICROS: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;

impl Timestamp {
    /// Takes microseconds since the epoch.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Returns microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the milliseconds from `earlier` to this instant, 0 where the clock went back.
    #[must_use]
    pub const fn millis_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000
    }

    /// Returns `2026-11-30T17:41:38.785206+00:00`; the fraction is left out where it is zero.
    #[must_use]
    pub fn to_iso(self) -> String {
        let seconds = self.0 / MICROS;
        let (year, month, day) = civil(seconds / SECONDS_PER_DAY);
        let of_day = seconds % SECONDS_PER_DAY;
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        let date = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        match self.0 % MICROS {
            0 => format!("{date}+00:00"),
            micros => format!("{date}.{micros:06}+00:00"),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_iso())
    }
}

/// Returns (year, month, day) of a day number since 1970-01-01.
///
/// Source: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
const fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_as_python_writes_them() {
        let cases = [
            (0, "1970-01-01T00:00:00+00:00"),
            (951_782_400_000_000, "2000-02-29T00:00:00+00:00"),
            (1_796_060_498_785_206, "2026-11-30T17:41:38.785206+00:00"),
            (4_102_444_799_000_001, "2099-12-31T23:59:59.000001+00:00"),
        ];
        for (micros, text) in cases {
            assert_eq!(Timestamp::from_micros(micros).to_iso(), text);
        }
    }
}
