//! What is promised, on every backend; what is promised of the file; and what is left of a process that is killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "figures are printed, and children talk to their parent")]

mod child;
mod conformance;
mod crash;
mod file;
mod model;
#[cfg(feature = "postgres")]
mod postgres;
mod processes;
