//! The commands, each in a file of its own.

pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod tools;
