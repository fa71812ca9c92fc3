//! One binary for the tests of this crate from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test run says what it counted")]
#![allow(clippy::disallowed_methods, reason = "some tests start a client of a vendor and serve it")]

mod allocations;
mod bodies;
mod counting;
mod fuzzed;
mod hosted;
mod named;
mod numbered;
mod pairs;
mod plain;
mod sdk;
mod sealed;
mod translated;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
