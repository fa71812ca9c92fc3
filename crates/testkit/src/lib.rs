//! What the tests of several crates need and users do not.
//!
//! # What it must never do
//!
//! Be a dependency of anything but tests.

pub mod ledger;
pub mod recording;
pub mod upstream;
