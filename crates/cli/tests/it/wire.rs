//! What went over the wire, read and translated.

use crate::bench::{Bench, Said, said};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

const CHAT: &str = r#"{"model":"gpt-5.4","stream":true,"seed":7,"messages":[{"role":"user","content":"Hello"}],
 "tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}]}"#;

/// A stream of Anthropic's: thinking, a text, a call.
const MESSAGES: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmF0dXJl"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"look","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"at\": 1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":20}}

event: message_stop
data: {"type":"message_stop"}

"#;

fn with_input(bench: &Bench, args: &[&str], input: &str) -> Said {
    let mut program = bench.program(args).stdin(Stdio::piped()).spawn().unwrap();
    program.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    said(program.wait_with_output().unwrap())
}

#[test]
fn a_request_is_shown_in_our_words_from_a_file_and_from_standard_input() {
    let bench = Bench::new();
    bench.file("request.json", CHAT);
    let from_file = bench.placet(&["wire", "decode", "--protocol", "openai_chat", "request.json"]).done();
    let value: Value = serde_json::from_str(&from_file.out).unwrap();
    assert_eq!(value["request"]["model"], "gpt-5.4");
    assert_eq!(value["request"]["tools"][0]["name"], "look");
    assert_eq!(value["stream"], true);
    assert!(!bench.home().exists(), "looking at a file leaves nothing behind");
    for args in [&["wire", "decode", "-p", "chat", "--request", "-", "--json"][..], &["wire", "decode", "-p", "chat"]] {
        let again = with_input(&bench, args, CHAT).done();
        assert_eq!(serde_json::from_str::<Value>(&again.out).unwrap(), value, "{args:?}");
    }
}

#[test]
fn a_stream_is_shown_as_a_turn_or_as_events_with_their_places() {
    let bench = Bench::new();
    bench.file("answer.sse", MESSAGES);
    let shown = &bench.placet(&["wire", "decode", "-p", "anthropic", "answer.sse", "--json"]).done().json()[0];
    let turn = &shown["turn"];
    assert_eq!(turn["stop"], "tool_calls");
    assert_eq!((&turn["usage"]["input"], &turn["usage"]["output"]), (&json!(9), &json!(20)));
    assert_eq!(turn["items"].as_array().map(Vec::len), Some(2));
    assert!(turn.to_string().contains("c2lnbmF0dXJl"), "state is shown: {turn}");
    let events = bench.placet(&["wire", "decode", "-p", "anthropic", "--sse", "--events", "answer.sse"]).done().json();
    let thought = events.iter().find(|line| line["event"].to_string().contains("Hm.")).expect("thinking");
    let offset = usize::try_from(thought["offset"].as_u64().unwrap()).unwrap();
    assert!(MESSAGES[offset..].starts_with("event: content_block_delta"));
}

#[test]
fn an_error_that_was_told_is_shown_and_is_no_failure_of_ours() {
    let bench = Bench::new();
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;
    let shown = &with_input(&bench, &["wire", "decode", "-p", "anthropic", "--json"], error).done().json()[0];
    assert_eq!(shown["error"]["kind"], "overloaded");
    let told = with_input(&bench, &["wire", "translate", "--from", "anthropic", "--to", "gemini"], error).done();
    let body: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(body["error"]["status"], "UNAVAILABLE");
    assert!(told.err.contains("503"), "{told:#?}");
}

#[test]
fn a_request_is_translated_and_what_was_left_out_is_told() {
    let bench = Bench::new();
    let args = ["wire", "translate", "--from", "chat", "--to", "anthropic_messages"];
    let told = with_input(&bench, &args, CHAT).done();
    let body: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!(body["tools"][0]["name"], "look");
    assert_eq!(body["messages"][0]["role"], "user");
    assert!(told.err.contains("left out: seed"), "{told:#?}");
    let told = with_input(&bench, &["wire", "translate", "--from", "chat", "--to", "gemini", "--json"], CHAT).done();
    assert!(serde_json::from_str::<Value>(&told.out).unwrap()["contents"].is_array());
    let gemini = r#"{"contents":[{"role":"user","parts":[{"text":"Hello"}]}]}"#;
    let args = ["wire", "translate", "--from", "gemini", "--to", "responses"];
    let told = with_input(&bench, &args, gemini).done();
    assert!(told.err.contains("--model"), "{told:#?}");
    let told = with_input(&bench, &[&args[..], &["--model", "gpt-5.4", "--stream"]].concat(), gemini).done();
    let body: Value = serde_json::from_str(&told.out).unwrap();
    assert_eq!((&body["model"], &body["stream"]), (&json!("gpt-5.4"), &json!(true)));
    assert_eq!(told.err, "");
    // A constraint that the other protocol cannot express is refused, and named.
    let several = CHAT.replace("\"seed\":7", "\"logprobs\":true,\"top_logprobs\":3");
    let refused = with_input(&bench, &["wire", "translate", "--from", "chat", "--to", "anthropic"], &several);
    assert!(refused.code != Some(0) && refused.err.contains("top_logprobs"), "{refused:#?}");
}

#[test]
fn a_stream_is_translated_into_every_protocol_and_says_the_same() {
    let bench = Bench::new();
    bench.file("answer.sse", MESSAGES);
    for to in ["openai_chat", "openai_responses", "anthropic_messages", "gemini"] {
        let told = bench.placet(&["wire", "translate", "--from", "anthropic", "--to", to, "answer.sse"]).done();
        bench.file("other.sse", &told.out);
        let shown = &bench.placet(&["wire", "decode", "-p", to, "--json", "other.sse"]).done().json()[0];
        let call = shown["turn"]["items"].as_array().unwrap().iter().find(|item| item["body"]["type"] == "tool_call");
        let call = call.unwrap_or_else(|| panic!("{to}: {shown}"));
        assert_eq!(call["body"]["name"], "look", "{to}");
        assert_eq!(shown["turn"]["stop"], "tool_calls", "{to}");
        assert_eq!(shown["turn"]["usage"]["output"], 20, "{to}");
        // As it is, in an envelope, or in one that is base64 once more.
        let is_whole = ["c2lnbmF0dXJl", "placet1.", "cGxhY2V0MS"].iter().any(|mark| told.out.contains(mark));
        assert!(is_whole, "{to}: the signature travels on: {}", told.out);
    }
}

#[test]
fn what_is_left_out_of_an_answer_is_told() {
    let bench = Bench::new();
    let stopped = MESSAGES.replace(
        r#""stop_reason":"tool_use","stop_sequence":null"#,
        r#""stop_reason":"refusal","stop_details":{"category":"cyber"}"#,
    );
    let told = with_input(&bench, &["wire", "translate", "--from", "anthropic", "--to", "chat"], &stopped).done();
    assert!(told.err.contains("left out: native.stop_details"), "{told:#?}");
}

#[test]
fn bad_input_is_told_with_its_place_and_reason() {
    let bench = Bench::new();
    let cut = &MESSAGES[..MESSAGES.find("event: message_delta").unwrap()];
    let told = with_input(&bench, &["wire", "decode", "-p", "anthropic"], cut).ended_with(1);
    assert!(told.err.contains(&format!("at byte {}", cut.len())), "{told:#?}");
    assert_eq!(told.out, "");
    let broken = MESSAGES.replace("\"thinking\":\"Hm.\"", "\"thinking\":Hm.");
    let place = broken.find("Hm.").unwrap();
    for args in
        [&["wire", "decode", "-p", "anthropic"][..], &["wire", "translate", "--from", "anthropic", "--to", "chat"]]
    {
        let told = with_input(&bench, args, &broken).ended_with(1);
        assert!(told.err.contains(&format!("at byte {place}")), "{told:#?}");
    }
    let told =
        with_input(&bench, &["wire", "decode", "-p", "chat"], "{\"model\": \"m\", \"messages\": 5}").ended_with(1);
    assert!(told.err.contains("at byte 27") && told.err.contains("messages"), "{told:#?}");
    let told = with_input(&bench, &["wire", "decode", "-p", "chat"], "").ended_with(1);
    assert!(told.err.contains("at byte 0"), "{told:#?}");
    bench.placet(&["wire", "decode", "-p", "chat", "nowhere.json"]).ended_with(4);
    bench.placet(&["wire", "decode", "-p", "smoke"]).ended_with(2);
    bench.placet(&["wire", "decode", "-p", "chat", "--request", "--sse"]).ended_with(2);
}
