//! Why a recipe stopped.
//!
//! One sentence and no kinds: nothing catches it but `main`, and only a person reads it.

use std::fmt;

/// Why a recipe stopped, in one sentence for the person who ran it.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    /// Returns a failure that says `sentence`.
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// Returns a function that puts what was tried in front of its cause, for `map_err`.
    pub(crate) fn at<E: fmt::Display>(tried: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |cause| Self(format!("{tried}: {cause}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
