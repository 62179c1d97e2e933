//! The native provider for real: every test starts sandboxes on this host.

mod native;
