//! An agent's request of about 63 KB, read in one protocol and written in another, beside a tree of the same bytes.
//!
//! The request has what the operator says, forty turns of which each calls a tool and is answered, and twenty tools; its texts hold
//! quotes, line breaks and letters beyond ASCII. For each ordered pair of protocols: reading the client's body, writing it for the
//! provider, both one after the other; "tree" reads the client's body into a `serde_json::Value` and writes it. Each is run often
//! and its fastest run counts. Nothing is judged.
//!
//! With arguments `FROM TO COUNT` (`openai_chat anthropic_messages 20`) it runs that pair alone, so many times and without a clock, for
//! a tool that counts instructions: those within `measured_decode` and `measured_encode` are the ones.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a measurement fails by panicking")]
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement tells what it measured, by the clock"
)]

#[path = "../tests/it/counting.rs"]
mod counting;

use counting::counted;
use placet_core::{Env, ProviderId, TurnRequest};
use placet_wire::protocol::Protocol;
use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

const TURNS: usize = 40;
const TOOLS: usize = 20;
const RUNS: usize = 200;

/// What a turn says, `times` over.
fn said(times: usize) -> String {
    "The tool returned 42 rows; each row had a \"name\", an id and a value.\nSome lines have café and \\ escapes. "
        .repeat(times)
}

fn tool(number: usize) -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "what to find"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
        "additionalProperties": false,
    });
    let description = format!("Looks up something in store {number} and returns rows");
    json!({"type": "function", "function": {"name": format!("tool_{number}"), "description": description, "parameters": parameters}})
}

/// The body of a Chat Completions request.
fn chat_body() -> Vec<u8> {
    let mut messages = vec![
        json!({"role": "system", "content": "You are a careful assistant. Answer briefly and cite the tool you used."}),
    ];
    for turn in 0..TURNS {
        let arguments = json!({"query": format!("rows of \"{turn}\""), "limit": 10, "tags": ["a", "b"]}).to_string();
        let call = json!({"id": format!("call_{turn}"), "type": "function", "function": {"name": format!("tool_{}", turn % TOOLS), "arguments": arguments}});
        messages.push(json!({"role": "user", "content": format!("turn {turn}: {}", said(4))}));
        messages.push(json!({"role": "assistant", "content": said(1), "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{turn}"), "content": said(6)}));
    }
    let tools: Vec<Value> = (0..TOOLS).map(tool).collect();
    json!({"model": "m", "messages": messages, "max_tokens": 1000, "temperature": 0.5, "tools": tools})
        .to_string()
        .into_bytes()
}

fn provider(protocol: Protocol) -> ProviderId {
    ProviderId::new(protocol.as_str())
}

/// The same request as a client of `protocol` sends it.
fn body(protocol: Protocol, env: &Env) -> Vec<u8> {
    let chat = Protocol::OpenaiChat;
    let request = chat.decode_request(&chat_body(), &provider(protocol), env).expect("a request").request;
    protocol.encode_request(&request, &provider(protocol), false).expect("it is written").body.to_vec()
}

#[inline(never)]
fn measured_decode(from: Protocol, body: &[u8], provider: &ProviderId, env: &Env) -> TurnRequest {
    let mut request = from.decode_request(body, provider, env).expect("a request").request;
    "m".clone_into(&mut request.model);
    request
}

#[inline(never)]
fn measured_encode(to: Protocol, request: &TurnRequest, provider: &ProviderId) -> usize {
    to.encode_request(request, provider, true).expect("it is written").body.len()
}

fn through_a_tree(body: &[u8]) -> usize {
    let value: Value = serde_json::from_slice(body).expect("JSON");
    serde_json::to_vec(&value).expect("it is written").len()
}

fn fastest(mut work: impl FnMut()) -> (Duration, u64) {
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed());
    }
    (best, counted(work).0)
}

fn table(env: &Env) {
    println!(
        "{:<40} {:>6} {:>10} {:>10} {:>8} {:>8} {:>8} {:>6} {:>8}",
        "from -> to", "KiB", "decode µs", "encode µs", "both µs", "allocs", "tree µs", "ratio", "tree"
    );
    for from in Protocol::ALL {
        let body = body(from, env);
        let (tree, tree_allocations) = fastest(|| _ = black_box(through_a_tree(&body)));
        for to in Protocol::ALL {
            let (client, server) = (provider(from), provider(to));
            let request = measured_decode(from, &body, &client, env);
            let (decode, _) = fastest(|| _ = black_box(measured_decode(from, &body, &client, env)));
            let (encode, _) = fastest(|| _ = black_box(measured_encode(to, &request, &server)));
            let (both, allocations) = fastest(|| {
                let request = measured_decode(from, &body, &client, env);
                black_box(measured_encode(to, &request, &server));
            });
            let ratio = both.as_secs_f64() / tree.as_secs_f64();
            println!(
                "{:<40} {:>6} {:>10} {:>10} {:>8} {allocations:>8} {:>8} {ratio:>6.2} {tree_allocations:>8}",
                format!("{from} -> {to}"),
                body.len() / 1024,
                decode.as_micros(),
                encode.as_micros(),
                both.as_micros(),
                tree.as_micros(),
            );
        }
    }
}

fn main() {
    let env = Env::system();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [from, to, count] = arguments.as_slice() else { return table(&env) };
    let protocol = |word: &str| Protocol::parse(word).expect("a protocol");
    let (from, to) = (protocol(from), protocol(to));
    let body = body(from, &env);
    for _ in 0..count.parse().expect("a number") {
        let request = measured_decode(from, &body, &provider(from), &env);
        black_box(measured_encode(to, &request, &provider(to)));
    }
}
