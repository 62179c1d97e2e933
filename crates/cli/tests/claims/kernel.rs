//! The kernel's other doors are shut.
use crate::claim::{Claim, Control, attempt};
use crate::table::check;

pub(crate) const CLAIMS: &[Claim] = &[
    Claim::tried(
        "keyring",
        "A job cannot use a kernel keyring.",
        attempt("./probe keyring", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "io-uring",
        "A job cannot make an io_uring.",
        attempt("./probe io-uring", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "bpf",
        "A job cannot make a bpf map.",
        attempt("./probe bpf", &["EPERM"], Control::Root),
    ),
    Claim::tried(
        "perf",
        "A job cannot open a performance counter.",
        attempt("./probe perf", &["EPERM"], Control::Plain).or_kernel_says("EACCES"),
    ),
    Claim::tried(
        "userfaultfd",
        "A job cannot make a userfaultfd.",
        attempt("./probe userfaultfd", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "module",
        "A job cannot load a kernel module.",
        attempt("./probe module", &["EPERM"], Control::Root).or_kernel_says("ENOSYS"),
    ),
    Claim::tried(
        "kexec",
        "A job cannot load another kernel.",
        attempt("./probe kexec", &["EPERM"], Control::Root).or_kernel_says("ENOSYS"),
    ),
    Claim::tried(
        "hostname",
        "A job cannot set the host name, not even its own.",
        attempt("./probe sethostname", &["EPERM"], Control::HostName),
    ),
    Claim::tried(
        "affinity",
        "A job cannot choose the processors that it runs on.",
        attempt("./probe affinity", &["EPERM"], Control::Plain),
    ),
    Claim::tried(
        "terminal-input",
        "A job cannot push a character into a terminal.",
        attempt("./probe tiocsti", &["EPERM"], Control::Plain).or_kernel_says("EIO"),
    ),
    Claim::tried(
        "terminal-input-high",
        "A high bit in the number of an ioctl does not get it past the filter.",
        attempt("./probe tiocsti-high", &["EPERM"], Control::Plain).or_kernel_says("EIO"),
    ),
    Claim::tried(
        "foreign-architecture",
        "A job that makes a system call of 32-bit x86 is killed.",
        attempt("./probe foreign-arch", &["SIGSYS"], Control::Plain),
    ),
];

#[test]
fn a_job_opens_no_other_door_of_the_kernel() {
    check("kernel interfaces", CLAIMS);
}
