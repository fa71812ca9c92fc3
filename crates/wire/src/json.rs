//! JSON of bodies: read into a tree that borrows, written in one go.
//!
//! A body is mostly long texts with quotes and line breaks in them. What `serde_json` costs there is the looking at every byte one by
//! one, a map with hashed keys for every object, and a copy of each text on the way. So a body is read into [`Node`]s, which take
//! their texts from the body and know no hashing, and only what has to be kept as JSON becomes a `Value`; and it is written by
//! [`append`], which puts texts down as they came where it can.
//!
//! Both mean what `serde_json` means: the same texts are JSON, of two fields of one name the last counts, and the same bytes are
//! written. Two things are read here alone: numbers keep all their digits, and half of a letter is a mark for what cannot be read.

mod read;
mod write;

pub(crate) use read::{Fields, Node, read};
pub(crate) use write::{Replayed, Written, append, to_vec, to_vec_within, verbatim};

#[cfg(test)]
mod tests;
