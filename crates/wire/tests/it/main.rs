//! One binary for the tests of this crate from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test run says what it counted")]

mod allocations;
mod counting;
mod numbered;
mod pairs;
mod sealed;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
