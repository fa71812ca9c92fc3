//! One binary for the tests of this crate from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "the live suites find their keys in the environment")]

mod live;
