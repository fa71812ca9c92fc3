//! Halves of letters.
//!
//! JSON escapes a letter beyond the first 65,536 as two halves, `\ud83d\ude00`. Servers that cut what a model says without looking
//! send one half at the end of a piece and the other at the beginning of the next; clients that cut texts keep one of them. A half by
//! itself stands for nothing, and readers of JSON refuse it. Here halves are put together again where they follow one another, and
//! else become the mark for what cannot be read, U+FFFD.

use std::ops::Range;

/// What stands for what cannot be read.
const MARK: &str = "\\ufffd";

/// A half by itself.
struct Half {
    /// Where its escape stands.
    at: Range<usize>,
    is_first: bool,
    /// It begins its string.
    begins: bool,
    /// It ends its string.
    ends: bool,
}

/// The four digits after `\u` at a place.
fn unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..)?.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

/// The halves by themselves in a text of JSON.
fn halves(text: &str) -> Vec<Half> {
    const FIRST: Range<u32> = 0xD800..0xDC00;
    const SECOND: Range<u32> = 0xDC00..0xE000;
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    // Backslashes stand in strings only. Where the last escape ended, so that its quote is not taken for that of a string.
    let (mut at, mut escaped_to) = (0, 0);
    while let Some(next) = memchr::memchr(b'\\', bytes.get(at..).unwrap_or_default()) {
        at += next;
        let length = match unit(bytes, at) {
            Some(first) if FIRST.contains(&first) && unit(bytes, at + 6).is_some_and(|unit| SECOND.contains(&unit)) => {
                12
            }
            Some(half) if (FIRST.start..SECOND.end).contains(&half) => {
                found.push(Half {
                    at: at..at + 6,
                    is_first: FIRST.contains(&half),
                    begins: at > escaped_to && bytes.get(at - 1) == Some(&b'"'),
                    ends: bytes.get(at + 6) == Some(&b'"'),
                });
                6
            }
            Some(_) => 6,
            None => 2,
        };
        at += length;
        escaped_to = at;
    }
    found
}

/// A text of JSON with a mark in place of each half; `None` where it has none.
pub(crate) fn repaired(text: &str) -> Option<String> {
    let halves = halves(text);
    if halves.is_empty() {
        return None;
    }
    let mut repaired = text.to_owned();
    for half in halves {
        repaired.replace_range(half.at, MARK);
    }
    Some(repaired)
}

/// Whether a string in a text of JSON ends with a first half, so that the other may come with the next piece.
pub(crate) fn is_open(text: &str) -> bool {
    halves(text).iter().any(|half| half.is_first && half.ends)
}

/// Two texts of JSON that follow one another, with the letters whole that were cut between them: they stand in the second.
pub(crate) fn joined(first: &str, second: &str) -> (String, String) {
    let firsts: Vec<Half> = halves(first).into_iter().filter(|half| half.is_first && half.ends).collect();
    let seconds: Vec<Half> = halves(second).into_iter().filter(|half| !half.is_first && half.begins).collect();
    let (mut before, mut after) = (first.to_owned(), second.to_owned());
    for (high, low) in firsts.into_iter().zip(seconds).rev() {
        after.insert_str(low.at.start, &first[high.at.clone()]);
        before.replace_range(high.at, "");
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_told_from_whole_letters() {
        for whole in [r#""a""#, r#""\ud83d\ude00""#, r#""\\ud83d""#, r#""\u00e9\n\\""#, "", "\\"] {
            assert_eq!(repaired(whole), None, "{whole}");
        }
        for (text, wanted) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#"["\uDE00","a\ud83d\ud83d\ude00"]"#, r#"["\ufffd","a\ufffd\ud83d\ude00"]"#),
            (r#""\ud83d\n\\\ude00""#, r#""\ufffd\n\\\ufffd""#),
        ] {
            assert_eq!(repaired(text).as_deref(), Some(wanted));
        }
        assert!(is_open(r#"{"a":"x\ud83d"}"#));
        assert!(!is_open(r#"{"a":"\ud83dx"}"#) && !is_open(r#"{"a":"x\ude00"}"#));
    }

    #[test]
    fn halves_that_follow_one_another_are_one_letter() {
        let join = |first: &str, second: &str| joined(first, second);
        let (first, second) = join(r#"{"a":"x\ud83d","b":1}"#, r#"{"b":2,"a":"\ude00y"}"#);
        assert_eq!((first.as_str(), second.as_str()), (r#"{"a":"x","b":1}"#, r#"{"b":2,"a":"\ud83d\ude00y"}"#));
        // A quote that is escaped begins no string.
        let apart = (r#"{"a":"\ud83d"}"#, r#"{"a":"\"\ude00"}"#);
        assert_eq!(join(apart.0, apart.1), (apart.0.to_owned(), apart.1.to_owned()));
    }
}
