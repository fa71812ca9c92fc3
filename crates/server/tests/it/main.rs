//! The gateway on a port of this machine, with clients that write every byte themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod boards;
mod door;
mod flows;
mod hostile;
mod passing;
mod routes;
mod state;
mod support;
mod translated;
