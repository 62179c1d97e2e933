//! How the C library reports that a call failed.
//!
//! Nothing else does: `rustix` returns its errors. Source: errno(3).

use std::io;

/// Turns what `libc` returned, where -1 means failure, into a `Result`; callable after `vfork`.
///
/// # Errors
/// What the calling thread's `errno` says, so it has to be called before anything that sets it.
pub(super) fn checked(returned: libc::c_long) -> io::Result<libc::c_long> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}
