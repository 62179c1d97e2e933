//! The command as its callers see it: arguments in, exit code and text out.
//!
//! A test runs as everybody that can be had: root and an ordinary user for root, else the caller. `arguments` and `help`
//! need no sandbox; the other suites do, and fail where there is none.
#![expect(clippy::print_stderr, reason = "a failing test says for which user")]

mod arguments;
mod bad_input;
mod bound;
mod checks;
mod detach;
mod doctor;
mod dry_run;
mod exit_codes;
mod expiry;
mod export;
mod fake;
mod faults;
mod files;
mod help;
mod home;
mod inspect_full;
mod interrupt;
mod introspection;
mod kill;
mod limits;
mod logs;
mod lost;
mod metadata;
mod passing;
mod peer_faults;
mod prune;
mod put;
mod readme;
mod rubric;
mod schema;
mod seal;
mod secrets;
mod seed_script;
mod stdin;
mod stop_race;
mod stream;
mod support;
mod wait;
mod worked_example;
