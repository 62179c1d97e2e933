//! Turns the first SIGINT or SIGTERM of a caller into a cancelled token.
//!
//! The second one has its default action again and ends the process; what a token's holder does is its own business. Sources:
//! sigaction(2) `SA_RESETHAND`, signal-safety(7).
use crate::sys::signal::{on_interrupt, undo_inherited};
use bailiwick_contract::context::CancelToken;
use std::sync::Once;

static TOKEN: CancelToken = CancelToken::new();
static INSTALLED: Once = Once::new();

/// Returns the token of this process; the first call makes interrupts cancel it.
pub fn token() -> &'static CancelToken {
    INSTALLED.call_once(|| on_interrupt(cancel));
    &TOKEN
}

extern "C" fn cancel(_: core::ffi::c_int) {
    TOKEN.cancel();
}

/// Gives this process the signal actions that it counts on, whatever its caller had; the first thing that a program does.
pub fn prepare() {
    undo_inherited();
}
