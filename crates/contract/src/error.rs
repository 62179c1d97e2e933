//! What a refused or broken request looks like to its caller.
//!
//! Libraries keep their own enums, one per operation; [`Failure`] is the form in which they leave the engine.
//! The exit codes are those of docs/exit-codes.md; `reason` is the stable name of the case.
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::Serialize;

/// The exit codes of every verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExitCode {
    /// The verb completed.
    Success = 0,
    /// Bad flag, missing argument, unknown id: the caller's to mend.
    UserError = 1,
    /// A local set-up or tooling problem.
    EnvironmentError = 2,
    /// The policy could not be satisfied; nothing ran.
    PolicyDenied = 3,
    /// The wall clock ended the job.
    Timeout = 4,
    /// The caller asked for the end.
    Cancelled = 5,
    /// The job ran and failed.
    ComputationFailed = 6,
    /// The provider broke.
    InfrastructureFailure = 7,
    /// The job went over a limit and was killed for it.
    ResourceExhausted = 8,
}

impl ExitCode {
    /// All of them, in order.
    pub const ALL: [Self; 9] = [
        Self::Success,
        Self::UserError,
        Self::EnvironmentError,
        Self::PolicyDenied,
        Self::Timeout,
        Self::Cancelled,
        Self::ComputationFailed,
        Self::InfrastructureFailure,
        Self::ResourceExhausted,
    ];

    /// Returns the number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the category word.
    #[must_use]
    pub const fn category(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::UserError => "user_error",
            Self::EnvironmentError => "environment_error",
            Self::PolicyDenied => "policy_denied",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::ComputationFailed => "computation_failed",
            Self::InfrastructureFailure => "infrastructure_failure",
            Self::ResourceExhausted => "resource_exhausted",
        }
    }
}

/// A request that did not lead to a result package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub code: ExitCode,
    /// The stable name of the case, such as `unknown_workspace`.
    pub reason: &'static str,
    /// What was tried, on what, and why it did not work.
    pub message: String,
    /// What to do next.
    pub remediation: Cow<'static, str>,
    /// Whether the same request may work later, unchanged.
    pub retryable: bool,
    /// What was settled on the way, although the request failed: an earlier, killed verb had left it.
    pub notes: Vec<String>,
}

impl Failure {
    /// A failure that retrying will not help.
    pub fn new(
        code: ExitCode,
        reason: &'static str,
        message: impl Into<String>,
        remediation: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (message, remediation) = (message.into(), remediation.into());
        Self { code, reason, message, remediation, retryable: false, notes: Vec::new() }
    }

    /// The caller's to mend.
    pub fn user(
        reason: &'static str,
        message: impl Into<String>,
        remediation: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ExitCode::UserError, reason, message, remediation)
    }

    /// The machine's owner's to mend.
    pub fn environment(
        reason: &'static str,
        message: impl Into<String>,
        remediation: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(ExitCode::EnvironmentError, reason, message, remediation)
    }

    /// The same, where the unchanged request may work later.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }

    /// The same, which also says what was settled before it.
    #[must_use]
    pub fn noting(mut self, notes: &[String]) -> Self {
        self.notes.splice(0..0, notes.iter().cloned());
        self
    }

    /// Returns the form that goes out as JSON.
    #[must_use]
    pub fn to_wire(&self) -> FailureWire<'_> {
        FailureWire {
            code: self.code.code(),
            message: &self.message,
            remediation: &self.remediation,
            category: self.code.category(),
            reason: self.reason,
            retryable: self.retryable,
            notes: &self.notes,
        }
    }
}

/// The JSON form of a [`Failure`]: what every error carries.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureWire<'a> {
    /// The exit code.
    pub code: u8,
    /// What was tried, on what, and why it did not work.
    pub message: &'a str,
    /// What to do next.
    pub remediation: &'a str,
    /// The category word of the exit code.
    pub category: &'a str,
    /// The stable name of the case.
    pub reason: &'a str,
    /// Whether the same request may work later, unchanged.
    pub retryable: bool,
    /// What was settled on the way, although the request failed; absent where there was nothing.
    #[serde(skip_serializing_if = "is_empty")]
    #[cfg_attr(feature = "schema", schemars(default))]
    pub notes: &'a [String],
}

const fn is_empty(notes: &&[String]) -> bool {
    notes.is_empty()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Failure {}
