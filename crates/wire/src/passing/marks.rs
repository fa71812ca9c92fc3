//! What stands in 64 bytes of JSON text, one bit for a byte: the way to step over a long body at about a byte and a half an
//! instruction, where looking at each byte takes five.

/// Bits of a block, the first byte's lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// `"`.
    pub(super) quotes: u64,
    /// `\\`.
    pub(super) slashes: u64,
    /// `{` and `[`.
    pub(super) opens: u64,
    /// `}` and `]`.
    pub(super) closes: u64,
}

/// How many bytes are looked at at once.
pub(super) const BLOCK: usize = 64;

impl Marks {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x, _mm_set1_epi8};
        let mut marks = Marks { quotes: 0, slashes: 0, opens: 0, closes: 0 };
        // Brackets of both kinds are one bit apart.
        let same = _mm_set1_epi8(0x20);
        let (quote, slash) = (_mm_set1_epi8(0x22), _mm_set1_epi8(0x5c));
        let (open, close) = (_mm_set1_epi8(0x7b), _mm_set1_epi8(0x7d));
        let (parts, _) = block.as_chunks::<8>();
        let (pairs, _) = parts.as_chunks::<2>();
        for (number, [low, high]) in pairs.iter().enumerate() {
            let bytes = _mm_set_epi64x(i64::from_le_bytes(*high), i64::from_le_bytes(*low));
            let folded = _mm_or_si128(bytes, same);
            let bits = |bytes: __m128i, wanted: __m128i| {
                u64::from(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, wanted)).cast_unsigned()) << (16 * number)
            };
            marks.quotes |= bits(bytes, quote);
            marks.slashes |= bits(bytes, slash);
            marks.opens |= bits(folded, open);
            marks.closes |= bits(folded, close);
        }
        marks
    }

    #[cfg(not(target_arch = "x86_64"))]
    pub(super) fn of(block: &[u8; BLOCK]) -> Self {
        Marks::byte_by_byte(block)
    }

    #[cfg(any(test, not(target_arch = "x86_64")))]
    fn byte_by_byte(block: &[u8; BLOCK]) -> Self {
        let bits = |is: fn(u8) -> bool| {
            block.iter().enumerate().fold(0, |bits, (at, byte)| bits | (u64::from(is(*byte)) << at))
        };
        Marks {
            quotes: bits(|byte| byte == b'"'),
            slashes: bits(|byte| byte == b'\\'),
            opens: bits(|byte| matches!(byte, b'{' | b'[')),
            closes: bits(|byte| matches!(byte, b'}' | b']')),
        }
    }

    /// Takes out the quotes that a backslash makes letters of a text. `carried` says whether the first byte stands behind such
    /// a backslash; what comes back says it of the next block.
    pub(super) fn unescape(&mut self, carried: bool) -> bool {
        let mut escaped = u64::from(carried);
        let mut slashes = self.slashes & !escaped;
        let mut carries = false;
        while slashes != 0 {
            let at = slashes.trailing_zeros();
            let behind = 2_u64.checked_shl(at).unwrap_or(0);
            carries = behind == 0;
            escaped |= behind;
            // The one itself, and one that it makes a letter.
            slashes &= !behind & (slashes - 1);
        }
        self.quotes &= !escaped;
        carries
    }

    /// Which bytes stand within texts, opening quotes included. `inside` says whether the block begins within one.
    pub(super) fn texts(&self, inside: bool) -> u64 {
        // Each bit becomes the parity of the quotes up to it.
        let mut parity = self.quotes;
        for step in [1, 2, 4, 8, 16, 32] {
            parity ^= parity << step;
        }
        if inside { !parity } else { parity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_bytes_of_a_block_are_told_apart(bytes in prop::collection::vec(any::<u8>(), BLOCK)) {
            let block: [u8; BLOCK] = std::array::from_fn(|at| bytes[at]);
            prop_assert_eq!(Marks::of(&block), Marks::byte_by_byte(&block));
        }

        #[test]
        fn quotes_behind_backslashes_are_letters(
            bytes in prop::collection::vec(prop::sample::select(&b"\"\\\\x{}"[..]), BLOCK),
            carried: bool,
            inside: bool,
        ) {
            let block: [u8; BLOCK] = std::array::from_fn(|at| bytes[at]);
            let mut marks = Marks::of(&block);
            let carries = marks.unescape(carried);
            let (mut is_escaped, mut is_inside) = (carried, inside);
            for (at, byte) in bytes.iter().enumerate() {
                let is_quote = *byte == b'"' && !is_escaped;
                is_inside ^= is_quote;
                prop_assert_eq!(marks.quotes >> at & 1 == 1, is_quote, "{}", at);
                prop_assert_eq!(marks.texts(inside) >> at & 1 == 1, is_inside, "{}", at);
                is_escaped = *byte == b'\\' && !is_escaped;
            }
            prop_assert_eq!(carries, is_escaped);
        }
    }
}
