//! The system call filter of a payload: one table, compiled into one BPF program when this crate is
//! built.
//!
//! It filters payloads only, never the supervisor or init, and it does not know policies: every job
//! gets the same filter. The idea is Docker's default profile (an allowlist), the shape is
//! libseccomp's binary tree (seccomp(2); `SECCOMP_RET_KILL_PROCESS` needs Linux 4.14).

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64")))]
compile_error!(
    "bailiwick-isolation has a system call table for 64-bit x86 Linux only; \
     another architecture needs its own rows in seccomp/table.rs and its own ARCHITECTURE in \
     seccomp/compile.rs"
);

mod compile;
mod filter;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use filter::install;
pub(crate) use table::{Errno, Group, TABLE, Verdict};
