//! The pipeline and what stands around it, from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod approvals;
mod bounds;
mod execution;
mod properties;
mod redaction;
mod registry;
mod rounds;
mod sets;
mod stages;
mod support;
