//! JSON of bodies: read into a tree that borrows, written in one go.
//!
//! A body is mostly long texts with quotes and line breaks in them. What `serde_json` costs there is the looking at every byte one by
//! one, a map with hashed keys for every object, and a copy of each text on the way. So a body is read into [`Node`]s, which take
//! their texts from the body and know no hashing, and only what has to be kept as JSON becomes a `Value`; and it is written by
//! [`append`], which looks at eight bytes at a time.
//!
//! Both mean exactly what `serde_json` means: the same texts are JSON, of two fields of one name the last counts, and the same bytes
//! are written.

mod read;
mod write;

pub(crate) use read::{Fields, Node, read};
pub(crate) use write::{append, to_vec, verbatim};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// How many bytes of a block stand before the first one that has a meaning within a JSON text: a quote, a backslash, a control
/// character. 8 where there is none.
#[inline]
fn plain_in(block: [u8; 8]) -> usize {
    let word = u64::from_le_bytes(block);
    let (quotes, slashes) = (word ^ (ONES * u64::from(b'"')), word ^ (ONES * u64::from(b'\\')));
    // The highest bit of each byte that is zero; below 0x20 respectively. A borrow only reaches bytes behind a true one.
    let found = (quotes.wrapping_sub(ONES) & !quotes)
        | (slashes.wrapping_sub(ONES) & !slashes)
        | (word.wrapping_sub(ONES * 0x20) & !word);
    (found & HIGHS).trailing_zeros() as usize / 8
}

/// Whether a byte has a meaning within a JSON text.
#[inline]
fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The place of the first byte from `at` on that has a meaning within a JSON text, or the length of all.
fn next_special(bytes: &[u8], mut at: usize) -> usize {
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let plain = plain_in(*block);
        at += plain;
        if plain < 8 {
            return at;
        }
    }
    while bytes.get(at).is_some_and(|byte| !is_special(*byte)) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests;
