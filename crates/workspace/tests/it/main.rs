//! Files, commands and expressions as somebody uses them from outside, with real processes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test starts itself again, as the program that it kills")]

mod command;
mod tools;
