//! The serialised form is a promise: what is kept in journals and sent to readers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod fold;
mod form;
mod samples;
