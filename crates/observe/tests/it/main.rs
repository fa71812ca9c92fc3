//! Journals, read from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

mod audit;
mod reading;
mod story;
