//! What the vendors' own SDKs make of what we write.
//!
//! Each scene is written as a stream and as a whole, served on loopback, and read by the official SDK of its protocol, whose
//! accumulator must give the same text, thinking, calls, end and usage as our own reading of the same bytes. What the SDKs send is
//! read as requests, too. The tests need a Python that has the packages `openai`, `anthropic` and `google-genai`, named by
//! `PLACET_TEST_SDK_PYTHON`; without it they are skipped.

use placet_core::env::ManualClock;
use placet_core::part::Native;
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted};
use placet_core::{
    Accumulator, Env, ErrorKind, ProviderError, ProviderId, StopReason, Timestamp, Turn, TurnEvent, Usage,
};
use placet_wire::AnswerHead;
use placet_wire::names::Names;
use placet_wire::protocol::Protocol;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

fn text(text: &str) -> TurnEvent {
    TurnEvent::Text(TextDelta { index: 1, text: text.into() })
}

fn thought(text: &str) -> TurnEvent {
    TurnEvent::Reasoning(TextDelta { index: 0, text: text.into() })
}

fn refusal(text: &str) -> TurnEvent {
    TurnEvent::Refusal(TextDelta { index: 1, text: text.into() })
}

fn call(index: u32, id: &str, name: &str, arguments: &str) -> TurnEvent {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    TurnEvent::Call(CallDelta {
        index,
        provider_id: given(id),
        name: given(name),
        arguments: arguments.into(),
        native: None,
    })
}

fn state(index: u32, provider: &str, value: Value) -> TurnEvent {
    TurnEvent::ReasoningState(ReasoningState { index, native: Native { provider: provider.into(), value } })
}

fn used() -> TurnEvent {
    TurnEvent::Usage(Usage { input: 11, output: 7, ..Usage::default() })
}

fn end(stop: StopReason) -> TurnEvent {
    TurnEvent::Finished(TurnFinished::new(stop))
}

/// What a model may say: each stream has a name.
fn scenes() -> BTreeMap<&'static str, Vec<TurnEvent>> {
    let failed = |kind, message: &str| TurnEvent::Failed(Box::new(ProviderError::new(kind, "p".into(), message)));
    let all_counted = Usage {
        input: 100,
        cache_read: 40,
        cache_write: 20,
        cache_write_long: 5,
        output: 60,
        reasoning: 25,
        ..Usage::default()
    };
    let sealed = json!({"signature": "c2lnbmF0dXJl", "type": "thinking"});
    let mut scenes = BTreeMap::from([
        ("text", vec![text("Hel"), text("lo, größe ☃"), text(" 🐦\u{200d}⬛."), used(), end(StopReason::End)]),
        (
            "escapes",
            vec![text("a\nb\r\n\t\"c\" \\ </x>\u{7f}\u{2028}"), text("data: x\n\n"), used(), end(StopReason::End)],
        ),
        ("nothing", vec![used(), end(StopReason::End)]),
        (
            "arguments",
            vec![
                call(2, "call_1", "look", "{\"pa"),
                call(2, "", "", "th\": \"größe \\\"x\\\"\", \"n\""),
                call(2, "", "", ": [1, 2.5, null, {\"a\": true}]}"),
                used(),
                end(StopReason::ToolCalls),
            ],
        ),
        ("no_arguments", vec![call(2, "call_1", "look", ""), used(), end(StopReason::ToolCalls)]),
        (
            "parallel",
            vec![
                text("Let me look."),
                call(2, "call_1", "look", "{\"at\": 1}"),
                call(3, "call_2", "look", "{\"at\": 2}"),
                call(4, "call_3", "list", "{}"),
                used(),
                end(StopReason::ToolCalls),
            ],
        ),
        (
            "interleaved",
            vec![
                call(2, "call_1", "look", "{\"at\""),
                call(3, "call_2", "list", "{\"of\": "),
                call(2, "", "", ": 1}"),
                call(3, "", "", "\"b\"}"),
                used(),
                end(StopReason::ToolCalls),
            ],
        ),
        ("thinking", vec![thought("Let me "), thought("think."), text("Four."), used(), end(StopReason::End)]),
        (
            "foreign_state",
            vec![
                thought("Hm."),
                state(0, "elsewhere", sealed.clone()),
                text("Four."),
                call(2, "call_1", "look", "{\"at\": 1}"),
                used(),
                end(StopReason::ToolCalls),
            ],
        ),
        ("hidden_thinking", vec![state(0, "elsewhere", sealed), text("Four."), used(), end(StopReason::End)]),
        ("refusal", vec![refusal("I can"), refusal("not do that."), used(), end(StopReason::Refusal)]),
        ("refused_in_silence", vec![used(), end(StopReason::Refusal)]),
        ("length", vec![text("It was a dark and"), used(), end(StopReason::MaxTokens)]),
        ("length_in_call", vec![call(2, "call_1", "look", "{\"at\": \"ha"), used(), end(StopReason::MaxTokens)]),
        ("filtered", vec![text("It was"), used(), end(StopReason::ContentFilter)]),
        ("stop_text", vec![text("one, two, "), used(), end(StopReason::StopSequence)]),
        ("paused", vec![text("Searching."), used(), end(StopReason::Pause)]),
        ("unknown_end", vec![text("Well."), used(), end(StopReason::Other("moonset".into()))]),
        (
            "counted",
            vec![TurnEvent::Usage(all_counted), text("Four."), TurnEvent::Usage(all_counted), end(StopReason::End)],
        ),
        ("counted_late", vec![text("Four."), TurnEvent::Usage(all_counted), end(StopReason::End)]),
        ("error_in_stream", vec![text("It was"), failed(ErrorKind::Overloaded, "too busy, try later")]),
        ("error_in_call", vec![call(2, "call_1", "look", "{\"at\": "), failed(ErrorKind::Unavailable, "it fell over")]),
        ("error_at_once", vec![failed(ErrorKind::RateLimited, "too many requests")]),
        ("cut", vec![text("It was")]),
    ]);
    for events in scenes.values_mut() {
        let started = TurnStarted { model: Some("m".into()), response_id: Some("r".into()) };
        events.insert(0, TurnEvent::Started(started));
    }
    scenes
}

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

fn provider(protocol: Protocol) -> ProviderId {
    protocol.as_str().into()
}

fn head(protocol: Protocol) -> AnswerHead {
    AnswerHead {
        id: "resp_1".into(),
        model: "m".into(),
        created: 1_790_000_000,
        provider: provider(protocol),
        stream_usage: true,
        request: None,
    }
}

fn fold(events: &[TurnEvent], provider: &ProviderId) -> (String, Option<Usage>, Result<Turn, ProviderError>) {
    let mut fold = Accumulator::new();
    events.iter().for_each(|event| fold.push(event));
    (fold.text(), fold.usage(), fold.finish(provider, &env()))
}

/// The stream of a scene.
fn stream(protocol: Protocol, events: &[TurnEvent]) -> Vec<u8> {
    let mut encoder = protocol.encode_events(head(protocol));
    let mut bytes = Vec::new();
    events.iter().for_each(|event| encoder.push(event, &mut bytes));
    encoder.end(&mut bytes);
    bytes
}

/// The scene as a whole body, with its status.
fn whole(protocol: Protocol, events: &[TurnEvent]) -> (u16, Vec<u8>) {
    let (status, body) = match fold(events, &provider(protocol)).2 {
        Ok(turn) => (200, protocol.encode_response(&head(protocol), &turn)),
        Err(error) => protocol.encode_error(&error),
    };
    (status, body.to_string().into_bytes())
}

/// What we read of an answer ourselves.
fn ours(protocol: Protocol, mode: &str, events: &[TurnEvent]) -> (String, Option<Usage>, Result<Turn, ProviderError>) {
    let provider = provider(protocol);
    if mode == "stream" {
        let mut decoder = protocol.decode_events(&provider, Names::default());
        let mut read = Vec::new();
        decoder.push(&stream(protocol, events), &mut read);
        decoder.end(&mut read);
        return fold(&read, &provider);
    }
    match whole(protocol, events) {
        (200, body) => match protocol.decode_response(&provider, Names::default(), &body) {
            Ok(read) => fold(&read, &provider),
            Err(error) => (String::new(), None, Err(error)),
        },
        (status, body) => {
            let error = protocol.decode_error(&provider, status, &http::HeaderMap::new(), &body);
            (String::new(), None, Err(error))
        }
    }
}

/// Reads one HTTP request: its path and body.
fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut seen = Vec::new();
    let mut piece = [0; 8192];
    loop {
        if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&seen[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
            });
            if seen.len() >= end + 4 + length.unwrap_or(0) {
                let path = head.split(' ').nth(1)?.to_owned();
                return Some((path, seen[end + 4..].to_vec()));
            }
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return None,
            Ok(read) => seen.extend_from_slice(&piece[..read]),
        }
    }
}

/// Serves the scenes until the process ends; requests that could not be read are noted.
fn serve(protocol: Protocol, problems: Arc<Mutex<Vec<String>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port of loopback");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        let scenes = scenes();
        for connection in listener.incoming() {
            let Ok(mut connection) = connection else { continue };
            let Some((path, body)) = request(&mut connection) else { continue };
            if let Err(error) = protocol.decode_request(&body, &provider(protocol), &env()) {
                problems.lock().expect("no panic").push(format!("{path}: {error}"));
            }
            let scene = path.split('/').nth(1).unwrap_or_default();
            let events = &scenes[scene];
            let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
            let streams = asked["stream"] == true || path.contains(":streamGenerateContent");
            let (status, kind, bytes) = if streams {
                (200, "text/event-stream", stream(protocol, events))
            } else {
                let (status, bytes) = whole(protocol, events);
                (status, "application/json", bytes)
            };
            let head = format!(
                "HTTP/1.1 {status} Told\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                bytes.len()
            );
            let _ = connection.write_all(head.as_bytes());
            // In pieces that end anywhere.
            for piece in bytes.chunks(61) {
                let _ = connection.write_all(piece);
            }
        }
    });
    url
}

/// The word of a protocol for an end.
fn word(protocol: Protocol, turn: &Turn, told: &str) -> bool {
    let words: &[&str] = match (protocol, &turn.stop) {
        (Protocol::OpenaiChat, StopReason::ToolCalls) => &["tool_calls"],
        (Protocol::OpenaiChat, StopReason::MaxTokens) => &["length"],
        (Protocol::OpenaiChat, StopReason::ContentFilter) => &["content_filter"],
        (Protocol::OpenaiChat, _) => &["stop"],
        (Protocol::OpenaiResponses, StopReason::MaxTokens) => &["max_output_tokens"],
        (Protocol::OpenaiResponses, StopReason::ContentFilter) => &["content_filter"],
        (Protocol::OpenaiResponses, _) => &["completed"],
        (Protocol::AnthropicMessages, StopReason::ToolCalls) => &["tool_use"],
        (Protocol::AnthropicMessages, StopReason::MaxTokens) => &["max_tokens"],
        (Protocol::AnthropicMessages, StopReason::StopSequence) => &["stop_sequence"],
        (Protocol::AnthropicMessages, StopReason::Refusal | StopReason::ContentFilter) => &["refusal"],
        (Protocol::AnthropicMessages, StopReason::Pause) => &["pause_turn"],
        (Protocol::AnthropicMessages, StopReason::Other(word)) => return word == told,
        (Protocol::AnthropicMessages, _) => &["end_turn"],
        (Protocol::Gemini, StopReason::MaxTokens) => &["MAX_TOKENS"],
        (Protocol::Gemini, StopReason::ContentFilter) => &["SAFETY"],
        (Protocol::Gemini, StopReason::Other(word)) => return word == told,
        (Protocol::Gemini, _) => &["STOP"],
    };
    words.contains(&told)
}

/// Usage in the words of a protocol's SDK.
fn counted(protocol: Protocol, usage: &Usage) -> Vec<(&'static str, u64)> {
    let total_input = usage.total_input();
    match protocol {
        Protocol::OpenaiChat => vec![
            ("input", total_input),
            ("output", usage.output),
            ("total", usage.total()),
            ("cache_read", usage.cache_read),
            ("reasoning", usage.reasoning),
        ],
        Protocol::OpenaiResponses => vec![
            ("input", total_input),
            ("output", usage.output),
            ("total", usage.total()),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write + usage.cache_write_long),
            ("reasoning", usage.reasoning),
        ],
        // How long what was written lives, the SDK does not take over from the end of a stream.
        Protocol::AnthropicMessages => vec![
            ("input", usage.input),
            ("output", usage.output),
            ("cache_read", usage.cache_read),
            ("cache_write", usage.cache_write + usage.cache_write_long),
        ],
        Protocol::Gemini => vec![
            ("input", total_input),
            ("candidates", usage.output - usage.reasoning),
            ("reasoning", usage.reasoning),
            ("total", usage.total()),
            ("cache_read", usage.cache_read),
        ],
    }
}

/// Where what an SDK read is not what we read.
fn differences(protocol: Protocol, told: &Value, events: &[TurnEvent]) -> Vec<String> {
    let mode = told["mode"].as_str().unwrap_or_default();
    let (text, usage, read) = ours(protocol, mode, events);
    let mut found = Vec::new();
    let mut same = |what: &str, theirs: &Value, ours: Value| {
        if *theirs != ours {
            found.push(format!("{what}: the SDK has {theirs}, we have {ours}"));
        }
    };
    same("stumbled", told.get("stumbled").unwrap_or(&Value::Null), Value::Null);
    let turn = match read {
        Err(error) => {
            same("has an error", &told["error"].is_string().into(), true.into());
            let said = told["error"].as_str().unwrap_or_default();
            same("the error's message", &said.contains(&error.message).into(), true.into());
            if mode == "stream" {
                same("partial text", &told["text"], text.into());
            }
            return found;
        }
        Ok(turn) => turn,
    };
    same("error", &told["error"], Value::Null);
    // SDKs hold the text of a refusal in a field of its own, where their protocol has one.
    let said = format!("{}{}", told["text"].as_str().unwrap_or("?"), told["refusal"].as_str().unwrap_or("?"));
    same("text", &said.into(), turn.text().into());
    let thinking: String = turn
        .items
        .iter()
        .filter_map(|item| match &item.body {
            placet_core::ItemBody::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        })
        .collect();
    same("thinking", &told["thinking"], thinking.into());
    let calls: Vec<Value> = turn
        .calls()
        .map(|call| {
            let arguments = call.arguments.parse().map_or(Value::Null, Value::Object);
            json!([call.provider_id, call.name, arguments])
        })
        .collect();
    let theirs: Vec<Value> = told["calls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|call| {
            let arguments: Value = serde_json::from_str(call[2].as_str().unwrap_or_default()).unwrap_or_default();
            json!([call[0], call[1], arguments])
        })
        .collect();
    if turn.stop.is_cut() {
        // Some SDKs guess what half of the arguments mean. Nobody may run such a call.
        same("calls", &theirs.len().into(), calls.len().into());
    } else {
        same("calls", &theirs.into(), calls.into());
    }
    let stop = told["stop"].as_str().unwrap_or_default();
    same("stop", &json!([stop, word(protocol, &turn, stop)]), json!([stop, true]));
    for (name, count) in counted(protocol, &usage.unwrap_or_default()) {
        same(name, &told["usage"][name].as_u64().unwrap_or(0).into(), count.into());
    }
    found
}

fn read_by_the_sdk(name: &str, protocol: Protocol) {
    let Some(python) = std::env::var_os("PLACET_TEST_SDK_PYTHON") else {
        eprintln!("SKIPPED {name}: PLACET_TEST_SDK_PYTHON names no Python that has the SDK");
        return;
    };
    let problems = Arc::new(Mutex::new(Vec::new()));
    let url = serve(protocol, Arc::clone(&problems));
    let scenes = scenes();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sdk/client.py");
    let mut command = Command::new(python);
    command.arg(script).args([protocol.as_str(), &url]).args(scenes.keys());
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"] {
        command.env_remove(proxy);
    }
    let output = command.output().expect("Python starts");
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(3) {
        eprintln!("SKIPPED {name}: {}", complaint.trim());
        return;
    }
    assert!(output.status.success(), "{complaint}");
    let mut found = Vec::new();
    let mut count = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let told: Value = serde_json::from_str(line).expect("a line of JSON");
        let (scene, mode) = (told["scene"].as_str().expect("a scene"), told["mode"].as_str().expect("a mode"));
        count += 1;
        for problem in differences(protocol, &told, &scenes[scene]) {
            found.push(format!("{scene} ({mode}): {problem}"));
        }
    }
    eprintln!("the SDK of {protocol} read {count} answers");
    found.extend(problems.lock().expect("no panic").drain(..));
    assert!(found.is_empty(), "{}\n{complaint}", found.join("\n"));
    assert_eq!(count, scenes.len() * 2, "{complaint}");
}

#[test]
fn the_sdk_of_openai_reads_chat_completions_as_we_do() {
    read_by_the_sdk("the_sdk_of_openai_reads_chat_completions_as_we_do", Protocol::OpenaiChat);
}

#[test]
fn the_sdk_of_openai_reads_responses_as_we_do() {
    read_by_the_sdk("the_sdk_of_openai_reads_responses_as_we_do", Protocol::OpenaiResponses);
}

#[test]
fn the_sdk_of_anthropic_reads_messages_as_we_do() {
    read_by_the_sdk("the_sdk_of_anthropic_reads_messages_as_we_do", Protocol::AnthropicMessages);
}

#[test]
fn the_sdk_of_google_reads_gemini_as_we_do() {
    read_by_the_sdk("the_sdk_of_google_reads_gemini_as_we_do", Protocol::Gemini);
}
