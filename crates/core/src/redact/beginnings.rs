//! Where a text ends in the middle of something.

/// A sorted set of byte strings that answers whether one of them could continue the end of a text.
pub(super) struct Beginnings {
    /// Sorted, without repetitions or empty strings.
    pub(super) patterns: Vec<Vec<u8>>,
    longest: usize,
    first: [bool; 256],
}

impl Beginnings {
    pub(super) fn new(patterns: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut patterns: Vec<Vec<u8>> = patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect();
        patterns.sort_unstable();
        patterns.dedup();
        let mut first = [false; 256];
        for pattern in &patterns {
            first[usize::from(pattern[0])] = true;
        }
        Beginnings { longest: patterns.iter().map(Vec::len).max().unwrap_or(0), patterns, first }
    }

    /// Where the longest end of `bytes` begins, at `from` or later, that a pattern could continue; the length of `bytes` when
    /// there is none. A whole pattern is no such end, unless a longer one begins with it.
    pub(super) fn open_end(&self, bytes: &[u8], from: usize) -> usize {
        let from = from.max((bytes.len() + 1).saturating_sub(self.longest));
        (from..bytes.len()).find(|&at| self.may_continue(&bytes[at..])).unwrap_or(bytes.len())
    }

    fn may_continue(&self, end: &[u8]) -> bool {
        // Strings that begin with `end` stand right after it in the order.
        self.first[usize::from(end[0])] && {
            let at = self.patterns.partition_point(|pattern| pattern.as_slice() <= end);
            self.patterns.get(at).is_some_and(|pattern| pattern.starts_with(end))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_end_is_the_longest_beginning() {
        let needles = Beginnings::new(["secretvalue", "cretin", "val", "", "val"].map(|p| p.as_bytes().to_vec()));
        for (text, open) in [
            ("xx", 2),
            ("xxs", 2),
            ("xxsecret", 2),
            ("xxsecreti", 4),
            ("xxsecretx", 9),
            ("xxsecretvalue", 13),
            ("xxval", 5),
            ("xxva", 2),
            ("", 0),
        ] {
            assert_eq!(needles.open_end(text.as_bytes(), 0), open, "{text}");
        }
        let nested = Beginnings::new(["abcdefgh", "abcdefghij"].map(|p| p.as_bytes().to_vec()));
        assert_eq!(nested.open_end(b"--abcdefgh", 0), 2, "a whole pattern that is the beginning of another");
        assert_eq!(nested.open_end(b"--abcdefgh", 3), 10, "nothing before the start is looked at");
        assert_eq!(Beginnings::new([]).open_end(b"abc", 0), 3);
    }
}
