//! The fuzzer's trials over a small corpus, and over mutations of it that are the same in every run.
//!
//! `PLACET_TEST_MUTATIONS` tries so many of each file, which are others than those that are always tried: a fuzzer for where there
//! is no other.

use crate::bodies;
use placet_wire::protocol::Protocol;
use std::path::Path;

/// Mutations of each file.
const MUTATIONS: usize = 120;

/// A small generator of numbers: the same seed gives the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).expect("it is below a usize")
    }
}

/// Pieces that mean something to a reader of JSON or of events.
const PIECES: [&[u8]; 24] = [
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"0",
    b"-1",
    b"1e400",
    b"18446744073709551616",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b"\\",
    b"\\ud800",
    b",",
    b":",
    b"\n\n",
    b"\r",
    b"data: ",
    b"\xEF\xBB\xBF",
    b"\0",
    b"\xC3",
];

/// Changes some bytes: turned, taken out, doubled, replaced, cut, or continued with those of another file.
fn mutated(numbers: &mut Numbers, bytes: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        if bytes.len() < 2 {
            break;
        }
        // The first byte says what it is.
        let at = 1 + numbers.below(bytes.len() - 1);
        let end = (at + numbers.below(24)).min(bytes.len());
        match numbers.below(7) {
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let doubled = bytes[at..end].to_vec();
                bytes.splice(at..at, doubled);
            }
            3 => drop(bytes.splice(at..end, PIECES[numbers.below(PIECES.len())].iter().copied())),
            4 => drop(bytes.splice(at..at, PIECES[numbers.below(PIECES.len())].iter().copied())),
            5 => bytes.truncate(at),
            _ => {
                let from = numbers.below(other.len());
                let to = (from + numbers.below(200)).min(other.len());
                bytes.splice(at..end, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

fn run(name: &str, trial: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let mut paths: Vec<_> =
        std::fs::read_dir(&folder).expect("a corpus").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let files: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).expect("a file")).collect();
    assert!(files.len() > 2, "{} holds too little", folder.display());
    let more = std::env::var("PLACET_TEST_MUTATIONS").ok().and_then(|count| count.parse::<usize>().ok());
    let mutations = more.unwrap_or(MUTATIONS);
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15 ^ more.map_or(0, |count| count as u64));
    for (path, file) in paths.iter().zip(&files) {
        trial(file);
        for round in 0..mutations {
            let other = &files[numbers.below(files.len())];
            let input = mutated(&mut numbers, file, other);
            let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trial(&input)));
            assert!(tried.is_ok(), "{}, mutation {round}: {}", path.display(), input.escape_ascii());
        }
    }
    eprintln!("{name}: {} files, {} mutations", files.len(), files.len() * mutations);
}

#[test]
fn nothing_makes_chat_completions_stumble() {
    run("openai_chat", |bytes| bodies::protocol(Protocol::OpenaiChat, bytes));
}

#[test]
fn nothing_makes_responses_stumble() {
    run("openai_responses", |bytes| bodies::protocol(Protocol::OpenaiResponses, bytes));
}

#[test]
fn nothing_makes_messages_stumble() {
    run("anthropic_messages", |bytes| bodies::protocol(Protocol::AnthropicMessages, bytes));
}

#[test]
fn nothing_makes_gemini_stumble() {
    run("gemini", |bytes| bodies::protocol(Protocol::Gemini, bytes));
}

#[test]
fn nothing_makes_server_sent_events_stumble() {
    run("sse", bodies::events);
}

#[test]
fn nothing_makes_what_passes_stumble() {
    run("passing", bodies::passing);
}
