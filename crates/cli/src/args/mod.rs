//! Flags that several verbs share, and the values that flags take.
//!
//! A value is parsed where clap meets it, so that the error names the flag; whatever could hold a secret (`--env`) or
//! need not be text (argv, paths, names) stays an `OsString` until a verb's own parser takes it, which never echoes it.
mod about;
mod host_path;
mod job;
mod policy;

pub(crate) use about::{AboutArgs, wanted_label};
pub(crate) use host_path::check_destination;
pub(crate) use job::JobArgs;
pub(crate) use policy::PolicyArgs;

use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::provider::ProviderName;
use bailiwick_contract::quantity::{self, QuantityError};
use bailiwick_engine::render::{FLOOR, Sections};
use bailiwick_engine::requests::{BOUND_BYTES_DEFAULT, Bound};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

// Without doc comments: clap would show them in the place of the verb's own.
#[derive(Debug, Args)]
pub(crate) struct BaseArgs {
    /// The back end that holds the workspace [default: $BAILIWICK_PROVIDER, else that of the workspace, else native]
    #[arg(long, value_name = "NAME", value_parser = parse_provider)]
    pub(crate) provider: Option<ProviderName>,
    /// Print the result as one line of JSON, and an error likewise
    #[arg(long)]
    pub(crate) json: bool,
}

// What every verb takes that answers with a package.
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    #[command(flatten)]
    pub(crate) base: BaseArgs,
    /// The most bytes that the result may have; at least 2048; units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB
    #[arg(long, value_name = "N", value_parser = parse_bound, default_value_t = Size(BOUND_BYTES_DEFAULT),
          allow_hyphen_values = true)]
    max_result_bytes: Size,
    /// `nine` leaves out the tenth section, `facts`
    #[arg(long, value_name = "FORM", value_parser = ["nine"])]
    package: Option<String>,
}

impl CommonArgs {
    /// Returns the bound of the result.
    pub(crate) const fn bound(&self) -> Bound {
        Bound { max_bytes: self.max_result_bytes.0, nine: self.package.is_some() }
    }

    /// Returns which sections of the result are wanted.
    pub(crate) const fn sections(&self) -> Sections {
        if self.package.is_some() { Sections::Nine } else { Sections::All }
    }
}

/// A number of bytes that fits this machine.
#[derive(Debug, Clone, Copy)]
struct Size(usize);

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

fn parse_bound(text: &str) -> Result<Size, QuantityError> {
    let bytes = usize::try_from(quantity::bytes(text)?).unwrap_or(usize::MAX);
    if bytes < FLOOR {
        return Err(QuantityError::TooSmall { least: "2048" });
    }
    Ok(Size(bytes))
}

fn parse_provider(text: &str) -> Result<ProviderName, String> {
    ProviderName::from_name(text)
        .ok_or_else(|| format!("there is no such provider; there are {}", provider_names()))
}

/// Returns the names of all providers, for a message.
pub(crate) fn provider_names() -> String {
    let names = ProviderName::ALL.map(|provider| format!("`{}`", provider.name()));
    names.join(" and ")
}

/// Parses a duration that may be zero.
///
/// # Errors
/// [`QuantityError`], also for what is negative.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    match quantity::millis(text) {
        Ok(millis) => Ok(Duration::from_millis(millis)),
        Err(QuantityError::NotPositive) if !text.trim_start().starts_with('-') => {
            Ok(Duration::ZERO)
        }
        Err(error) => Err(error),
    }
}

/// Parses `A:B`, two offsets of which either may be left out.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub(crate) fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let offset = |text: &str, default| match text {
        "" => Some(default),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        _ => None,
    };
    let ends = text
        .split_once(':')
        .and_then(|(start, end)| Some((offset(start, 0)?, offset(end, u64::MAX)?)));
    match ends {
        Some((start, end)) if start <= end => Ok((start, end)),
        Some(_) => Err("it ends before it begins".into()),
        None => Err("it takes A:B, two numbers of bytes, either of which may be left out".into()),
    }
}

/// Returns the bytes of an argument.
pub(crate) fn bytes(argument: OsString) -> ByteString {
    argument.into_vec().into()
}

/// Takes a workspace's id from an argument that clap leaves alone.
///
/// # Errors
/// `bad_id`.
pub(crate) fn workspace_id(argument: &OsString) -> Result<WorkspaceId, Failure> {
    let parsed = argument.to_str().unwrap_or_default();
    WorkspaceId::parse(parsed).map_err(|error| {
        let message = format!("`WORKSPACE` is not an id: {error}");
        Failure::user("bad_id", message, "`bailiwick list` shows the workspaces that there are")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends_that_may_be_left_out() {
        assert_eq!(parse_range("3:7"), Ok((3, 7)));
        assert_eq!(parse_range(":7"), Ok((0, 7)));
        assert_eq!(parse_range("3:"), Ok((3, u64::MAX)));
        assert_eq!(parse_range(":"), Ok((0, u64::MAX)));
        for bad in ["", "3", "7:3", "a:b", "-1:2", "1:2:3", "+1:2", "99999999999999999999:"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_duration_may_be_zero_but_not_less() {
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for bad in ["-1", "-0", "", "NaN", "1y"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}
