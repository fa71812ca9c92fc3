//! The commands, each in a file of its own.

pub(crate) mod audit;
pub(crate) mod board;
pub(crate) mod check;
pub(crate) mod doctor;
pub(crate) mod keys;
pub(crate) mod models;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod tools;
pub(crate) mod wire;
