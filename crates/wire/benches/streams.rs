//! Long streams, decoded and encoded again, beside a round trip of the same bytes through `serde_json::Value`.
//!
//! For each protocol a stream of text, of arguments of a tool and of thinking, in small pieces as servers send them. "Ours" reads
//! the stream in pieces of 8 KiB, gives the events to the encoder and writes the stream again; the other reads the data of
//! each event into a tree and writes the tree. Each is run often and its fastest run counts; allocations are those of
//! one run. The program fails where ours is slower.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement fails by panicking")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement tells what it measured, by the clock"
)]

#[path = "../tests/it/counting.rs"]
mod counting;

use counting::counted;
use placet_core::ProviderId;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished, TurnStarted};
use placet_core::{StopReason, TurnEvent, Usage};
use placet_wire::AnswerHead;
use placet_wire::names::Names;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

/// Pieces of a stream.
const PIECES: usize = 800;
const RUNS: usize = 300;

fn provider() -> ProviderId {
    ProviderId::new("bench")
}

fn head() -> AnswerHead {
    AnswerHead {
        id: "chatcmpl-BRmTHlrARTzAHK1na9s80xDlQGYPX".into(),
        model: "gpt-4.1-2025-04-14".into(),
        created: 1_745_960_879,
        provider: provider(),
        stream_usage: true,
        request: None,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Arguments,
    Thinking,
}

/// What a model says, in pieces of a few characters, with a line break or a quote now and then.
fn pieces() -> impl Iterator<Item = &'static str> {
    const WORDS: [&str; 8] = [" the", " model", " asks", ";", " your", " \"code\"", " decides", ".\n"];
    (0..PIECES).map(|n| WORDS[n % WORDS.len()])
}

fn events(kind: Kind) -> Vec<TurnEvent> {
    let mut events = vec![TurnEvent::Started(TurnStarted { model: Some("m".into()), response_id: Some("r".into()) })];
    if kind == Kind::Arguments {
        events.push(TurnEvent::Call(CallDelta {
            index: 0,
            provider_id: Some("call_1".into()),
            name: Some("write".into()),
            arguments: "{\"text\":\"".into(),
            native: None,
        }));
    }
    for piece in pieces() {
        events.push(match kind {
            Kind::Text => TurnEvent::Text(TextDelta { index: 0, text: piece.into() }),
            Kind::Thinking => TurnEvent::Reasoning(TextDelta { index: 0, text: piece.into() }),
            Kind::Arguments => {
                let arguments = piece.replace('"', "\\\"").replace('\n', "\\n");
                TurnEvent::Call(CallDelta { index: 0, arguments, ..CallDelta::default() })
            }
        });
    }
    if kind == Kind::Arguments {
        events.push(TurnEvent::Call(CallDelta { index: 0, arguments: "\"}".into(), ..CallDelta::default() }));
    }
    events.push(TurnEvent::Usage(Usage { input: 100, output: 4000, ..Usage::default() }));
    events.push(TurnEvent::Finished(TurnFinished::new(StopReason::End)));
    events
}

/// The stream of a protocol, and how it is read and written again.
struct Subject {
    name: &'static str,
    stream: fn(Kind) -> Vec<u8>,
    again: fn(&[u8], &mut Vec<u8>),
}

macro_rules! protocol {
    ($name:literal, $module:ident) => {
        Subject {
            name: $name,
            stream: |kind| {
                let mut encoder = placet_wire::$module::encode_events(head());
                let mut bytes = Vec::new();
                events(kind).iter().for_each(|event| encoder.push(event, &mut bytes));
                encoder.end(&mut bytes);
                bytes
            },
            again: |bytes, out| {
                use placet_wire::$module::{Dialect, decode_events, encode_events};
                let mut decoder = decode_events(&Dialect::new(provider()), Names::default());
                let mut encoder = encode_events(head());
                let mut events = Vec::new();
                for piece in bytes.chunks(8192) {
                    decoder.push(piece, &mut events);
                    events.drain(..).for_each(|event| encoder.push(&event, out));
                }
                decoder.end(&mut events);
                events.drain(..).for_each(|event| encoder.push(&event, out));
                encoder.end(out);
            },
        }
    };
}

/// Chat chunks with all that OpenAI puts into them.
fn full_chunks(kind: Kind) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |choices: Value| {
        let chunk = json!({
            "id": "chatcmpl-BRmTHlrARTzAHK1na9s80xDlQGYPX", "object": "chat.completion.chunk", "created": 1_745_960_879,
            "model": "gpt-4.1-2025-04-14", "service_tier": "default", "system_fingerprint": "fp_a6889ffe71",
            "choices": choices, "usage": null, "obfuscation": "WJ2sa0Z",
        });
        bytes.extend_from_slice(format!("data: {chunk}\n\n").as_bytes());
    };
    let choice =
        |delta: Value, reason: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]);
    if kind == Kind::Arguments {
        put(choice(
            json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}]}),
            Value::Null,
        ));
    }
    for piece in pieces() {
        let delta = match kind {
            Kind::Text => json!({ "content": piece }),
            Kind::Thinking => json!({ "reasoning_content": piece }),
            Kind::Arguments => json!({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}),
        };
        put(choice(delta, Value::Null));
    }
    put(choice(json!({}), json!("stop")));
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

/// The data of each event through a tree.
fn through_trees(bytes: &[u8], out: &mut Vec<u8>) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(data) = line.strip_prefix(b"data: ").filter(|data| data.starts_with(b"{")) else { continue };
        let value: Value = serde_json::from_slice(data).expect("JSON");
        out.extend_from_slice(b"data: ");
        serde_json::to_writer(&mut *out, &value).expect("it is written");
        out.extend_from_slice(b"\n\n");
    }
}

fn fastest(mut work: impl FnMut(&mut Vec<u8>)) -> (Duration, u64) {
    let mut out = Vec::new();
    work(&mut out);
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        out.clear();
        let start = Instant::now();
        work(&mut out);
        best = best.min(start.elapsed());
        black_box(&out);
    }
    out.clear();
    (best, counted(|| work(&mut out)).0)
}

fn main() {
    let subjects = [
        protocol!("chat", openai_chat),
        Subject { stream: full_chunks, ..protocol!("chat, as OpenAI sends it", openai_chat) },
        protocol!("responses", openai_responses),
        protocol!("anthropic", anthropic_messages),
        protocol!("gemini", gemini),
    ];
    let mut slower = Vec::new();
    println!(
        "{:<26} {:<10} {:>8} {:>10} {:>10} {:>6} {:>8} {:>8}",
        "protocol", "stream", "KiB", "ours µs", "tree µs", "ratio", "allocs", "tree"
    );
    for subject in subjects {
        for (kind, word) in [(Kind::Text, "text"), (Kind::Arguments, "arguments"), (Kind::Thinking, "thinking")] {
            let bytes = (subject.stream)(kind);
            let (ours, allocations) = fastest(|out| (subject.again)(&bytes, out));
            let (tree, tree_allocations) = fastest(|out| through_trees(&bytes, out));
            let ratio = ours.as_secs_f64() / tree.as_secs_f64();
            let (name, size) = (subject.name, bytes.len() / 1024);
            println!(
                "{name:<26} {word:<10} {size:>8} {:>10} {:>10} {ratio:>6.2} {allocations:>8} {tree_allocations:>8}",
                ours.as_micros(),
                tree.as_micros()
            );
            if ratio > 1.0 {
                slower.push(format!("{name}, {word}"));
            }
        }
    }
    assert!(slower.is_empty(), "slower than a tree: {}", slower.join("; "));
}
