//! The beginning and the end of an output, however long it is.

use std::collections::VecDeque;

/// Keeps a quarter of its room from the beginning and the rest from the end. Its memory does not grow with what is pushed.
#[derive(Debug)]
pub(crate) struct HeadTail {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    total: u64,
}

impl HeadTail {
    pub(crate) fn new(room: usize) -> Self {
        let head_room = room / 4;
        HeadTail { head: Vec::new(), tail: VecDeque::new(), head_room, tail_room: room - head_room, total: 0 }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_room)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_room);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// How many bytes were pushed.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The text, with a line in the middle that counts what was cut, and how many bytes of the output are in it.
    pub(crate) fn finish(mut self) -> (String, u64) {
        let kept = (self.head.len() + self.tail.len()) as u64;
        if kept == self.total {
            self.head.extend(self.tail);
            return (String::from_utf8_lossy(&self.head).into_owned(), kept);
        }
        // No half characters beside the cut.
        let head_end = self.head.len() - cut_at_end(&self.head);
        self.head.truncate(head_end);
        let tail: Vec<u8> = self.tail.into();
        let start = tail.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
        let tail = &tail[start..];
        let kept = (self.head.len() + tail.len()) as u64;
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{} bytes cut here]\n", self.total - kept));
        text.push_str(&String::from_utf8_lossy(tail));
        (text, kept)
    }
}

/// How many bytes at the end are the beginning of a character that is cut.
fn cut_at_end(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last() {
        Some(chunk) if !chunk.invalid().is_empty() => {
            let invalid = chunk.invalid();
            let awaited = match invalid[0] {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => 0,
            };
            if invalid.len() < awaited { invalid.len() } else { 0 }
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use proptest::prelude::*;

    fn kept(room: usize, text: &str, chunk: usize) -> (String, u64) {
        let mut output = HeadTail::new(room);
        for piece in text.as_bytes().chunks(chunk.max(1)) {
            output.push(piece);
        }
        output.finish()
    }

    #[test]
    fn a_long_output_keeps_its_beginning_and_its_end() {
        assert_eq!(kept(8, "12345678", 3), ("12345678".into(), 8));
        assert_eq!(kept(8, "123456789", 3), ("12\n[1 bytes cut here]\n456789".into(), 8));
        assert_eq!(kept(8, "", 3), (String::new(), 0));
        let (text, kept) = kept(16, "ääääääääääääääääää", 5);
        assert_eq!((text.as_str(), kept), ("ää\n[20 bytes cut here]\nääääää", 16));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_silently(text in "[a-zä€😀\n]{0,60}", room in 8_usize..60, chunk in 1_usize..20) {
            let mut output = HeadTail::new(room);
            for piece in text.as_bytes().chunks(chunk) {
                output.push(piece);
                prop_assert!(output.head.len() + output.tail.len() <= room);
            }
            let (shown, kept) = output.finish();
            prop_assert!(!shown.contains('\u{fffd}'), "{}", shown);
            if text.len() <= room {
                prop_assert_eq!(shown, text);
            } else {
                let remark = format!("[{} bytes cut here]\n", text.len() as u64 - kept);
                let (head, tail) = shown.split_once(&remark).expect("says what was cut");
                prop_assert!(text.starts_with(head.trim_end_matches('\n')) && text.ends_with(tail));
                prop_assert!(kept as usize + 12 >= room.min(text.len()));
            }
        }
    }
}
