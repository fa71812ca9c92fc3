//! The library as its users have it.
#![cfg(all(feature = "workspace", unix))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test that cannot run says so")]
#![allow(clippy::disallowed_methods, reason = "these tests make a folder of their own")]

// The frame of the tests with vendors' clients is where the program's are.
#[cfg(feature = "server")]
#[path = "../../../cli/tests/it/sdk/client.rs"]
#[allow(dead_code, reason = "the tests of the program use more of it")]
mod client;
#[cfg(feature = "server")]
mod home;
mod offline;
