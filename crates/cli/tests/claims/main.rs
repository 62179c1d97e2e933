//! The claims of SECURITY.md: what a job cannot do, tried from inside through the command, as root and as an ordinary user.
//!
//! Each claim has a positive control: the same attempt, by the same program, has to succeed outside, so that a missing
//! program, a typing error or a host that lacks the thing cannot pass as a refusal. Each theme prints its table.

mod claim;
mod export;
mod files;
mod identity;
mod jobs;
mod kernel;
mod mounts;
mod network;
mod privileges;
mod processes;
mod scene;
mod secrets;
mod security_md;
mod table;
mod transfer;
