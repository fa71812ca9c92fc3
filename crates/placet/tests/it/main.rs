//! The library as its users have it.
#![cfg(all(feature = "workspace", unix))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these tests make a folder of their own")]

mod offline;
