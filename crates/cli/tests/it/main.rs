//! The program as a person and a script use it: real processes, a folder of its own for each test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "these tests start the program and wait for it")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

mod bench;
mod boards;
mod damage;
mod grants;
mod killed;
mod models;
mod offline;
mod runs;
mod sdk;
mod served;
mod shapes;
mod wire;
