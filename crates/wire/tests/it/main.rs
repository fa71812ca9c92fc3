//! One binary for the tests of this crate from outside.

mod cassettes;
