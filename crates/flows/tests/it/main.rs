//! Flows from outside: what a client sees, what a model is asked, what handlers did.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agents;
mod algebra;
mod asks;
mod crash;
mod defects;
mod durable;
mod inner_outer;
mod laws;
mod shapes;
mod stages;
mod support;
mod triggers;
