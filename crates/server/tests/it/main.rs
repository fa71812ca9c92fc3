//! The gateway on a port of this machine, with clients that write every byte themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod accounts;
mod boards;
mod door;
mod flows;
mod hostile;
mod leaks;
mod passing;
mod routes;
mod state;
mod stopping;
mod support;
mod translated;
