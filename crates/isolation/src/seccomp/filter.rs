//! The filter of every payload, as data of this program.
//!
//! It is the same for every job and holds from then on for the process and its children. Source:
//! seccomp(2).

use std::io;

use super::compile::{self, Program};
use super::table::TABLE;
use crate::sys;

/// [`TABLE`], compiled.
pub(super) static PROGRAM: Program = compile::compile(TABLE);

/// Puts the calling thread and its future children under the filter, for ever; callable after
/// `vfork`.
///
/// # Errors
/// EACCES when neither `no_new_privs` is set nor `CAP_SYS_ADMIN` held. Then no filter is in place.
pub(crate) fn install() -> io::Result<()> {
    sys::seccomp::set_filter(PROGRAM.instructions())
}
