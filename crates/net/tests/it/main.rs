//! The client against real servers on this machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and its servers are not the project's own"
)]

mod body;
mod guard;
mod plain;
mod proxy;
mod retry;
mod support;
mod timeouts;
mod tls;
