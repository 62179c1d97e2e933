//! SIGINT and SIGTERM as a cancel token, for the command's process; never used inside a sandbox.
//!
//! The handler sets one flag, needs no thread, and stands for the first signal only: with `SA_RESETHAND` a second one
//! has its default action (sigaction(2)). Calls that wait are not restarted, so that whoever waits sees the token.
use bailiwick_contract::context::CancelToken;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;

static TOKEN: CancelToken = CancelToken::new();
static INSTALLED: Once = Once::new();

/// Returns the token that the first SIGINT or SIGTERM cancels; the first call is what makes them catchable.
///
/// A signal that the caller of this process ignored stays ignored (a background job of a shell without job control).
pub fn token() -> &'static CancelToken {
    INSTALLED.call_once(|| [libc::SIGINT, libc::SIGTERM].into_iter().for_each(install));
    &TOKEN
}

extern "C" fn cancel(_signal: c_int) {
    TOKEN.cancel();
}

fn install(signal: c_int) {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, sigaction only writes the present one to `before`.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), before.as_mut_ptr()) };
    // SAFETY: a `sigaction` of zeroes is one with the default action, whether the call filled it or not.
    let before = unsafe { before.assume_init() };
    if asked != 0 || before.sa_sigaction == libc::SIG_IGN {
        return;
    }
    let handler: extern "C" fn(c_int) = cancel;
    let action = libc::sigaction {
        sa_sigaction: handler as libc::sighandler_t,
        sa_flags: libc::SA_RESETHAND,
        ..before
    };
    // SAFETY: `action` is whole and lives through the call; `cancel` stores to an atomic and does nothing else, which
    // is async-signal-safe (signal-safety(7)).
    let installed = unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    debug_assert_eq!(installed, 0, "SIGINT and SIGTERM can be caught");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_cancels_and_the_handler_is_gone() {
        let token = token();
        assert!(!token.is_cancelled());
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
            .expect("a process may signal itself");
        assert!(token.is_cancelled());
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: without a new action, sigaction only writes the present one to `now`.
        unsafe { libc::sigaction(libc::SIGTERM, ptr::null(), now.as_mut_ptr()) };
        // SAFETY: the call above filled it, and zeroes would be a valid value too.
        assert_eq!(unsafe { now.assume_init() }.sa_sigaction, libc::SIG_DFL);
    }
}
