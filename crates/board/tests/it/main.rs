//! What is promised of boards, on every store; what is left of a process that is killed; and that the defects of an earlier system
//! are not ours.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "figures are printed, and children talk to their parent")]

mod busy;
mod child;
mod defects;
mod hostile;
mod http;
mod kit;
mod live;
mod model;
mod notifications;
mod processes;
mod rules;
mod runs;
mod sweeping;
mod tools;
mod world;
mod writes;
