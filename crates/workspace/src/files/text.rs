//! Text told from binary, and read in bounded pieces.

use std::io::{self, BufRead};

/// How much of a file's beginning is looked at.
pub(crate) const SNIFFED: usize = 8 * 1024;

/// Whether bytes from the beginning of a file are binary: they hold a NUL, or more than a tenth of them is no UTF-8.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    if bytes.contains(&0) {
        return true;
    }
    // A character may be cut at the end of what was looked at.
    let whole = bytes.len().saturating_sub(3);
    let wrong: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    let wrong = if std::str::from_utf8(&bytes[..whole]).is_ok() { 0 } else { wrong };
    wrong * 10 > bytes.len()
}

/// A range of lines of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The bytes of the lines that were kept, line ends included.
    pub(crate) bytes: Vec<u8>,
    /// How many lines were kept, a last one that was cut included.
    pub(crate) kept: u64,
    /// How many lines there are, as far as was counted.
    pub(crate) total: u64,
    /// Whether the last kept line is cut.
    pub(crate) line_cut: bool,
    /// Whether counting ended before the file did.
    pub(crate) uncounted: bool,
}

/// Reads lines from `offset` (from 1), at most `limit` of them and at most `most` bytes, and counts the others. After
/// `scanned` bytes it stops counting.
pub(crate) fn lines(
    reader: &mut impl BufRead,
    offset: u64,
    limit: u64,
    most: usize,
    scanned: u64,
    stop: &dyn Fn() -> bool,
) -> io::Result<Lines> {
    let mut found = Lines::default();
    let last = offset.saturating_add(limit);
    let (mut line, mut seen, mut in_line, mut full) = (1_u64, 0_u64, false, false);
    loop {
        if stop() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "stopped"));
        }
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        let length = chunk.len();
        let mut rest = chunk;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (piece, after) = rest.split_at(end);
            if line >= offset && line < last && !full {
                if !in_line {
                    found.kept += 1;
                }
                let room = most - found.bytes.len();
                found.bytes.extend_from_slice(&piece[..piece.len().min(room)]);
                if piece.len() > room {
                    full = true;
                    found.line_cut = true;
                }
            }
            in_line = !piece.ends_with(b"\n");
            if !in_line {
                line += 1;
            }
            // A full buffer is never begun with an empty line piece.
            if found.bytes.len() == most && !in_line {
                full = true;
            }
            rest = after;
        }
        reader.consume(length);
        seen += length as u64;
        if seen >= scanned {
            found.uncounted = true;
            break;
        }
    }
    found.total = line - u64::from(!in_line);
    Ok(found)
}

/// `text` cut at a character before `most` bytes.
pub(crate) fn clip(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn read(text: &[u8], offset: u64, limit: u64, most: usize) -> Lines {
        lines(&mut BufReader::with_capacity(3, text), offset, limit, most, u64::MAX, &|| false).expect("reads")
    }

    #[test]
    fn text_is_told_from_binary() {
        assert!(!is_binary(b""));
        assert!(!is_binary("größe\n".as_bytes()));
        assert!(!is_binary(&"größe".as_bytes()[..3]), "cut in a character");
        assert!(!is_binary(b"caf\xe9 au lait is Latin-1 and still a text"));
        assert!(is_binary(b"a\0b"));
        assert!(is_binary(&[0xff, 0xfe, 0x80, 0x81, 0x90, 0xff, 0xfe, 0x80]));
    }

    #[test]
    fn lines_are_counted_and_cut() {
        assert_eq!(read(b"", 1, 9, 99), Lines::default());
        let found = read(b"a\nbb\nccc\n", 2, 1, 99);
        assert_eq!((found.bytes.as_slice(), found.kept, found.total), (&b"bb\n"[..], 1, 3));
        let found = read(b"a\nbb\nccc", 3, 9, 99);
        assert_eq!((found.bytes.as_slice(), found.kept, found.total), (&b"ccc"[..], 1, 3));
        let found = read(b"a\nbbbbb\nc\n", 2, 9, 3);
        assert_eq!((found.bytes.as_slice(), found.line_cut, found.total), (&b"bbb"[..], true, 3));
        assert_eq!(read(b"\n\n", 1, 9, 99).total, 2);
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_a_plain_split_keeps(text in "[ab\n]{0,40}", offset in 1_u64..8, limit in 1_u64..8) {
            let all: Vec<&str> = text.split_inclusive('\n').collect();
            let wanted: String = all.iter().skip(offset as usize - 1).take(limit as usize).copied().collect();
            let found = read(text.as_bytes(), offset, limit, 1000);
            prop_assert_eq!(found.total, all.len() as u64);
            prop_assert_eq!(String::from_utf8(found.bytes).unwrap(), wanted);
            prop_assert!(!found.line_cut);
        }

        #[test]
        fn never_more_bytes_than_allowed(text in "[ab\n]{0,40}", most in 0_usize..20) {
            let found = read(text.as_bytes(), 1, 100, most);
            prop_assert!(found.bytes.len() <= most);
            prop_assert_eq!(&text.as_bytes()[..found.bytes.len()], found.bytes.as_slice());
            prop_assert_eq!(found.total, text.split_inclusive('\n').count() as u64);
        }
    }
}
