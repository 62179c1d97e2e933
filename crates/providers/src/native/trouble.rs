//! Turns what the kernel said into a [`ProviderError`] that says what was tried.
//!
//! Only what a caller can act on gets a variant of its own; the rest names the step.
use bailiwick_contract::provider::ProviderError;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Makes the error of a step on a path; the step reads as `read the disk`.
pub(crate) fn on(step: &str, path: &Path) -> impl FnOnce(io::Error) -> ProviderError {
    let step = format!("could not {step} `{}`", printable(path));
    move |source| named(step, source)
}

/// Makes the error of a step; a full disk is always told as such, and so is a caller that may write no larger file.
pub(crate) fn named(step: String, source: io::Error) -> ProviderError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            ProviderError::NoSpace { what: step }
        }
        _ => ProviderError::Host { step, source: Box::new(source) },
    }
}

/// Reads bytes as a path.
pub(super) fn os(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Shows a path on one line.
pub(crate) fn printable(path: &Path) -> String {
    path.to_string_lossy().escape_debug().to_string()
}
