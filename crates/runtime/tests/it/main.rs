//! Runs, from outside.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "a test fails by panicking, and says what it skips"
)]

mod conformance;
mod crash;
mod flaky;
mod live;
mod loop_rules;
mod output;
mod output_crash;
mod price;
mod resume;
mod support;
