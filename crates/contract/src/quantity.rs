//! Quantities as people type them: `512MiB`, `1.5`, `5m`.
//!
//! Zero, negative, non-finite and overflowing quantities are errors here, so that no limit can mean
//! "unlimited" by accident; which quantity a flag takes is decided by the flag. Units follow IEC 80000-13
//! for `KiB`… and SI for `kB`….
use alloc::string::{String, ToString};

/// The largest quantity: what SQLite, `rlimit` and `off_t` can all hold.
pub const QUANTITY_MAX: u64 = i64::MAX as u64;

/// The longest wall clock, in milliseconds: 2³¹−1 seconds, about 68 years.
pub const WALL_CLOCK_MS_MAX: u64 = 2_147_483_647_000;

/// The smallest share of a core, in thousandths: 1 ms of quota in a period of 100 ms
/// (Documentation/scheduler/sched-bwc.rst).
pub const CPU_MILLI_MIN: u64 = 10;

/// The most processes and threads: the kernel counts up to `PID_MAX_LIMIT`, 2²² (include/linux/threads.h), and the first
/// process of a sandbox is counted beside those of a job.
pub const PIDS_MAX: u64 = (1 << 22) - 1;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// It is not a decimal number.
    #[error("`{text}` is not a number")]
    NotANumber {
        /// What was given, shortened and made printable.
        text: String,
    },
    /// The suffix is no unit that this quantity has.
    #[error("`{unit}` is not a unit here; use {known}")]
    UnknownUnit {
        /// The suffix, shortened and made printable.
        unit: String,
        /// The units that are accepted.
        known: &'static str,
    },
    /// Zero or less.
    #[error("it must be greater than zero")]
    NotPositive,
    /// A count with a fraction, or a size that is no whole number of bytes.
    #[error("it must be a whole number")]
    NotWhole,
    /// Below the smallest value that can be enforced.
    #[error("it is below the least value, {least}")]
    TooSmall {
        /// The least accepted value.
        least: &'static str,
    },
    /// Beyond the greatest value that can be represented.
    #[error("it is beyond the greatest value, {greatest}")]
    TooLarge {
        /// The greatest accepted value.
        greatest: &'static str,
    },
}

const BYTE_UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("kB", 1_000),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];
const TIME_UNITS: &[(&str, u64)] =
    &[("", 1_000), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const COUNT_UNITS: &[(&str, u64)] = &[("", 1)];
const CORE_UNITS: &[(&str, u64)] = &[("", 1_000)];

/// Parses a number of bytes: `1073741824`, `512MiB`, `1.5GiB`, `2GB`.
///
/// # Errors
/// [`QuantityError`]; nothing is rounded.
pub fn bytes(text: &str) -> Result<u64, QuantityError> {
    let value = scaled(text, BYTE_UNITS, "B, KiB, MiB, GiB, TiB, kB, MB, GB or TB")?;
    at_most(value, QUANTITY_MAX, "9223372036854775807")
}

/// Parses a duration into milliseconds: `300`, `1.5`, `250ms`, `5m`, `1h`; a bare number is seconds.
///
/// # Errors
/// [`QuantityError`]; nothing is rounded.
pub fn millis(text: &str) -> Result<u64, QuantityError> {
    let value = scaled(text, TIME_UNITS, "ms, s, m, h or d")?;
    at_most(value, WALL_CLOCK_MS_MAX, "2147483647 seconds")
}

/// Parses a count: `128`.
///
/// # Errors
/// [`QuantityError`]; nothing is rounded.
pub fn count(text: &str) -> Result<u64, QuantityError> {
    at_most(scaled(text, COUNT_UNITS, "none")?, QUANTITY_MAX, "9223372036854775807")
}

/// Parses a number of processes and threads: `128`.
///
/// # Errors
/// [`QuantityError`]; nothing is rounded.
pub fn pids(text: &str) -> Result<u64, QuantityError> {
    at_most(scaled(text, COUNT_UNITS, "none")?, PIDS_MAX, "4194303")
}

/// Parses a number of cores into thousandths: `1`, `0.5`, `1.25`.
///
/// # Errors
/// [`QuantityError`]; nothing is rounded.
pub fn cpu_milli(text: &str) -> Result<u64, QuantityError> {
    let value = scaled(text, CORE_UNITS, "none")?;
    if value < CPU_MILLI_MIN {
        return Err(QuantityError::TooSmall { least: "0.01" });
    }
    at_most(value, 1_000_000_000, "1000000")
}

const fn at_most(value: u64, limit: u64, greatest: &'static str) -> Result<u64, QuantityError> {
    if value > limit { Err(QuantityError::TooLarge { greatest }) } else { Ok(value) }
}

fn scaled(text: &str, units: &[(&str, u64)], known: &'static str) -> Result<u64, QuantityError> {
    let text = text.trim();
    let not_a_number = || QuantityError::NotANumber { text: shown(text) };
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(not_a_number());
    }
    if negative {
        return Err(QuantityError::NotPositive);
    }
    let unit = unit.trim_start();
    let Some((_, scale)) = units.iter().find(|known| known.0 == unit) else {
        return Err(QuantityError::UnknownUnit { unit: shown(unit), known });
    };
    exact(whole, fraction.trim_end_matches('0'), *scale)
}

/// Multiplies a decimal by `scale` without rounding.
fn exact(whole: &str, fraction: &str, scale: u64) -> Result<u64, QuantityError> {
    const TOO_LARGE: QuantityError = QuantityError::TooLarge { greatest: "9223372036854775807" };
    let whole: u128 = match whole {
        "" => 0,
        digits => digits.parse().map_err(|_| TOO_LARGE)?,
    };
    let digits = u32::try_from(fraction.len()).map_err(|_| QuantityError::NotWhole)?;
    if digits > 18 {
        return Err(QuantityError::NotWhole);
    }
    let denominator = 10_u128.pow(digits);
    let numerator: u128 = match fraction {
        "" => 0,
        text => text.parse().map_err(|_| QuantityError::NotWhole)?,
    };
    let total = whole
        .checked_mul(denominator)
        .and_then(|value| value.checked_add(numerator))
        .and_then(|value| value.checked_mul(u128::from(scale)))
        .ok_or(TOO_LARGE)?;
    if total == 0 {
        return Err(QuantityError::NotPositive);
    }
    if total % denominator != 0 {
        return Err(QuantityError::NotWhole);
    }
    u64::try_from(total / denominator).map_err(|_| TOO_LARGE)
}

fn shown(text: &str) -> String {
    text.chars().take(32).flat_map(char::escape_debug).collect::<String>().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_exactly() {
        let cases =
            [("1", 1), ("512MiB", 536_870_912), ("1.5GiB", 1_610_612_736), ("2 GB", 2_000_000_000)];
        for (text, value) in cases {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        assert_eq!(millis("0.25"), Ok(250));
        assert_eq!(millis("5m"), Ok(300_000));
        assert_eq!(cpu_milli("1.5"), Ok(1_500));
    }

    #[test]
    fn what_cannot_be_a_limit_is_refused() {
        for text in ["0", "0.0", "-1", "-0.5", "00"] {
            assert_eq!(bytes(text), Err(QuantityError::NotPositive), "{text}");
        }
        for text in ["", "NaN", "inf", "-inf", ".", "1e9", "0x10", "1.2.3", "one", "\u{661}"] {
            assert!(bytes(text).is_err(), "{text}");
            assert!(cpu_milli(text).is_err(), "{text}");
        }
        let huge = "9".repeat(60);
        for text in ["9223372036854775808", "16777216TiB", &huge] {
            assert!(matches!(bytes(text), Err(QuantityError::TooLarge { .. })), "{text}");
        }
        assert_eq!(pids("4194303"), Ok(PIDS_MAX));
        for text in ["4194304", "9223372036854775807"] {
            assert_eq!(pids(text), Err(QuantityError::TooLarge { greatest: "4194303" }), "{text}");
        }
        assert_eq!(bytes("1.0000001"), Err(QuantityError::NotWhole));
        assert_eq!(count("1.5"), Err(QuantityError::NotWhole));
        assert!(matches!(bytes("5 parsecs"), Err(QuantityError::UnknownUnit { .. })));
        assert!(matches!(cpu_milli("0.001"), Err(QuantityError::TooSmall { .. })));
    }
}
