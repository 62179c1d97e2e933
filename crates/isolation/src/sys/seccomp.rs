//! Attaching a system call filter to the calling thread.
//!
//! It neither builds nor checks the filter (`crate::seccomp` does) and does not synchronise other
//! threads: the caller has none. Source: seccomp(2), Linux 3.17.

use std::io;

/// Puts the calling thread and its future children under `filter`, for ever; callable after
/// `vfork`.
///
/// # Errors
/// EACCES when neither `no_new_privs` is set nor `CAP_SYS_ADMIN` held, EINVAL when the kernel
/// rejects the program. Then nothing has changed.
pub(crate) fn set_filter(filter: &[libc::sock_filter]) -> io::Result<()> {
    let Ok(len) = u16::try_from(filter.len()) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: seccomp reads one `sock_fprog`, which lives until the call returns, and through it
    // `len` instructions, which `filter` borrows; it copies both and writes to neither.
    let returned = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    super::checked(returned).map(drop)
}
