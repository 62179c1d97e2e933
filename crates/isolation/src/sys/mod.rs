//! The system calls that `rustix` does not wrap safely, one family a file; all `unsafe` of the
//! project is here.
//!
//! Nothing here decides anything: a function makes its call, or the few calls that only make sense
//! together, and returns what the kernel said. What `rustix` offers is used directly by the callers
//! and is not repeated here. Sources are the manual pages named in each file; the kernel floor is
//! 5.19 (README.md).
//!
//! Whoever runs between [`clone::vfork_on`] and `execve` shares its memory with a suspended parent,
//! so it may use only what says "callable after `vfork`": such a function allocates nothing and
//! takes no lock.

pub(crate) mod clone;
pub(crate) mod creds;
mod errno;
pub(crate) mod landlock;
pub(crate) mod mount;
pub(crate) mod net;
pub(crate) mod process;
pub(crate) mod seccomp;
pub(crate) mod signal;

use errno::checked;
