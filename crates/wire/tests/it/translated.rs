//! What becomes of an answer or a request on its way from one protocol into each other.

use placet_core::env::ManualClock;
use placet_core::{Accumulator, Env, ProviderError, ProviderId, StopReason, Timestamp, Turn, TurnEvent};
use placet_wire::AnswerHead;
use placet_wire::names::Names;
use placet_wire::protocol::Protocol;
use serde_json::{Value, json};

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1)
}

fn owner(protocol: Protocol) -> ProviderId {
    protocol.as_str().into()
}

fn fold(events: &[TurnEvent]) -> Result<Turn, ProviderError> {
    let mut fold = Accumulator::new();
    events.iter().for_each(|event| fold.push(event));
    fold.finish(&"p".into(), &env())
}

fn read(protocol: Protocol, stream: &str) -> Vec<TurnEvent> {
    let mut decoder = protocol.decode_events(&owner(protocol), Names::default());
    let mut events = Vec::new();
    decoder.push(stream.as_bytes(), &mut events);
    decoder.end(&mut events);
    events
}

/// A stream of these chunks.
fn sse(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect()
}

fn head(protocol: Protocol) -> AnswerHead {
    AnswerHead {
        id: "a_1".into(),
        model: "m".into(),
        created: 0,
        provider: owner(protocol),
        stream_usage: false,
        request: None,
    }
}

fn written(protocol: Protocol, events: &[TurnEvent]) -> String {
    let mut encoder = protocol.encode_events(head(protocol));
    let mut bytes = Vec::new();
    events.iter().for_each(|event| encoder.push(event, &mut bytes));
    encoder.end(&mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// The data of the events of a stream.
fn data(stream: &str) -> Vec<Value> {
    let lines = stream.lines().filter_map(|line| line.strip_prefix("data: "));
    lines.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// What stands under this name, wherever it is.
fn all<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Array(list) => list.iter().for_each(|inner| all(inner, key, found)),
        Value::Object(fields) => {
            for (name, inner) in fields {
                if name == key {
                    found.push(inner);
                }
                all(inner, key, found);
            }
        }
        _ => {}
    }
}

fn found<'v>(values: &'v [Value], key: &str) -> Vec<&'v Value> {
    let mut found = Vec::new();
    values.iter().for_each(|value| all(value, key, &mut found));
    found
}

fn chat_chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

/// A chat stream with one call of these arguments that claims to be whole.
fn call_stream(arguments: &str, finish: &str) -> Vec<TurnEvent> {
    let call = json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": "send", "arguments": arguments}}]);
    read(
        Protocol::OpenaiChat,
        &sse(&[chat_chunk(json!({"tool_calls": call}), Value::Null), chat_chunk(json!({}), json!(finish))]),
    )
}

#[test]
fn a_call_that_was_cut_is_handed_to_nobody_as_whole() {
    for finish in ["tool_calls", "stop"] {
        for arguments in ["{\"to\": \"ann", "{\"to\": {\"name\": \"ann\"}"] {
            let events = call_stream(arguments, finish);
            let turn = fold(&events).unwrap();
            let chat = data(&written(Protocol::OpenaiChat, &events));
            assert_eq!(chat.last().unwrap()["choices"][0]["finish_reason"], "length");
            let whole = Protocol::OpenaiChat.encode_response(&head(Protocol::OpenaiChat), &turn);
            assert_eq!(whole["choices"][0]["finish_reason"], "length");
            assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"], arguments);

            let responses = data(&written(Protocol::OpenaiResponses, &events));
            let last = responses.last().unwrap();
            assert_eq!(last["type"], "response.incomplete");
            assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
            assert_eq!(last["response"]["output"][0]["status"], "incomplete");
            assert_eq!(last["response"]["output"][0]["arguments"], arguments);
            assert!(!responses.iter().any(|event| event["type"] == "response.completed"));

            let anthropic = data(&written(Protocol::AnthropicMessages, &events));
            assert_eq!(found(&anthropic, "delta").last().unwrap()["stop_reason"], "max_tokens");
            let whole = Protocol::AnthropicMessages.encode_response(&head(Protocol::AnthropicMessages), &turn);
            assert_eq!(whole["stop_reason"], "max_tokens");

            let gemini = data(&written(Protocol::Gemini, &events));
            assert_eq!(*found(&gemini, "finishReason").last().unwrap(), "MALFORMED_FUNCTION_CALL");
            assert!(found(&gemini, "functionCall").is_empty());
            for to in [Protocol::OpenaiChat, Protocol::OpenaiResponses, Protocol::AnthropicMessages] {
                let told: Vec<_> =
                    placet_wire::left_out(to, &head(to), &turn).into_iter().map(|omission| omission.what).collect();
                assert!(!told.iter().any(|what| what.contains("tool call")), "{to}: {told:?}");
            }
        }
    }
    // Whole ones are whole, also where they are none.
    for arguments in ["{\"to\": \"ann\"}", "", "null", "{}"] {
        let events = call_stream(arguments, "tool_calls");
        let chat = data(&written(Protocol::OpenaiChat, &events));
        assert_eq!(chat.last().unwrap()["choices"][0]["finish_reason"], "tool_calls", "{arguments}");
        let anthropic = data(&written(Protocol::AnthropicMessages, &events));
        assert_eq!(found(&anthropic, "delta").last().unwrap()["stop_reason"], "tool_use", "{arguments}");
        let responses = data(&written(Protocol::OpenaiResponses, &events));
        assert_eq!(responses.last().unwrap()["type"], "response.completed", "{arguments}");
        assert_eq!(fold(&events).unwrap().stop, StopReason::ToolCalls);
    }
}

#[test]
fn a_call_that_is_no_json_is_not_one_with_other_arguments() {
    let events = call_stream("{\"to\" \"ann\"}", "tool_calls");
    let anthropic = data(&written(Protocol::AnthropicMessages, &events));
    assert_eq!(found(&anthropic, "delta").last().unwrap()["stop_reason"], "max_tokens");
    let chat = data(&written(Protocol::OpenaiChat, &events));
    assert_eq!(
        chat.last().unwrap()["choices"][0]["finish_reason"],
        "tool_calls",
        "its clients are told what was written"
    );
    let gemini = data(&written(Protocol::Gemini, &events));
    assert!(found(&gemini, "functionCall").is_empty());
}

#[test]
fn no_digit_of_a_calls_arguments_is_lost() {
    const INPUT: &str =
        r#"{"id":123456789012345678901234567890,"part":[0.12345678901234567890123,-99999999999999999999]}"#;
    let bodies = [
        (
            Protocol::AnthropicMessages,
            format!(
                r#"{{"model":"m","max_tokens":9,"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":[
                {{"type":"thinking","thinking":"hm","signature":"c2ln"}},{{"type":"tool_use","id":"t_1","name":"f","input":{INPUT}}}]}},
                {{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t_1","content":"ok"}}]}}]}}"#
            ),
        ),
        (
            Protocol::Gemini,
            format!(
                r#"{{"contents":[{{"role":"user","parts":[{{"text":"a"}}]}},{{"role":"model","parts":[
                {{"functionCall":{{"name":"f","args":{INPUT}}},"thoughtSignature":"c2ln"}}]}},
                {{"role":"user","parts":[{{"functionResponse":{{"name":"f","response":{{"output":"ok"}}}}}}]}}]}}"#
            ),
        ),
        (
            Protocol::OpenaiChat,
            format!(
                r#"{{"model":"m","messages":[{{"role":"user","content":"a"}},{{"role":"assistant","tool_calls":[
                {{"id":"t_1","type":"function","function":{{"name":"f","arguments":{INPUT}}}}}]}},
                {{"role":"tool","tool_call_id":"t_1","content":"ok"}}]}}"#
            ),
        ),
    ];
    for (from, body) in bodies {
        let mut request = from.decode_request(body.as_bytes(), &owner(from), &env()).unwrap().request;
        request.model = "m".into();
        for to in Protocol::ALL {
            let sent = to.encode_request(&request, &owner(to), false).unwrap().body;
            let sent = std::str::from_utf8(&sent).unwrap();
            let exact = match to {
                Protocol::OpenaiChat | Protocol::OpenaiResponses => Value::from(INPUT).to_string(),
                Protocol::AnthropicMessages | Protocol::Gemini => INPUT.to_owned(),
            };
            assert!(sent.contains(&exact), "{from} to {to}: {sent}");
            serde_json::from_str::<Value>(sent).expect("JSON");
        }
    }
}

#[test]
fn half_a_letter_ends_no_stream_and_halves_are_put_together() {
    let text = |first: &str, second: &str| {
        [
            (
                Protocol::OpenaiChat,
                format!(
                    "data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{first}\"}}}}]}}\n\n\
                     data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{second}\"}}}}]}}\n\n\
                     data: {{\"id\":\"c\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
                ),
            ),
            (
                Protocol::OpenaiResponses,
                format!(
                    "data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"{first}\"}}\n\n\
                     data: {{\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"{second}\"}}\n\n\
                     data: {{\"type\":\"response.completed\",\"response\":{{\"id\":\"r\",\"status\":\"completed\",\"output\":[]}}}}\n\n"
                ),
            ),
            (
                Protocol::AnthropicMessages,
                format!(
                    "data: {{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n\
                     data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{first}\"}}}}\n\n\
                     data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{second}\"}}}}\n\n\
                     data: {{\"type\":\"message_stop\"}}\n\n"
                ),
            ),
            (
                Protocol::Gemini,
                format!(
                    "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{first}\"}}]}}}}]}}\n\n\
                     data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{second}\"}}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
                ),
            ),
        ]
    };
    for (protocol, stream) in text("Hi \\ud83d", "\\ude00!") {
        assert_eq!(fold(&read(protocol, &stream)).unwrap().text(), "Hi 😀!", "{protocol}");
        // However it is cut into bytes.
        for cut in 0..stream.len() {
            let mut decoder = protocol.decode_events(&owner(protocol), Names::default());
            let mut events = Vec::new();
            decoder.push(&stream.as_bytes()[..cut], &mut events);
            decoder.push(&stream.as_bytes()[cut..], &mut events);
            decoder.end(&mut events);
            assert_eq!(fold(&events).unwrap().text(), "Hi 😀!", "{protocol} {cut}");
        }
    }
    for (protocol, stream) in text("Hi \\ud83d", "there\\ude00.") {
        assert_eq!(fold(&read(protocol, &stream)).unwrap().text(), "Hi \u{fffd}there\u{fffd}.", "{protocol}");
    }
    for (protocol, stream) in text("\\ud83d", "\\ud83d") {
        assert_eq!(fold(&read(protocol, &stream)).unwrap().text(), "\u{fffd}\u{fffd}", "{protocol}");
    }
    let whole = r#"{"id":"c","choices":[{"index":0,"message":{"content":"Hi \ud83d"},"finish_reason":"stop"}]}"#;
    let events = Protocol::OpenaiChat.decode_response(&"p".into(), Names::default(), whole.as_bytes()).unwrap();
    assert_eq!(fold(&events).unwrap().text(), "Hi \u{fffd}");
    let whole = r#"{"candidates":[{"content":{"parts":[{"text":"Hi \ud83d"}]},"finishReason":"STOP"}]}"#;
    let events = Protocol::Gemini.decode_response(&"p".into(), Names::default(), whole.as_bytes()).unwrap();
    assert_eq!(fold(&events).unwrap().text(), "Hi \u{fffd}");
}

#[test]
fn half_a_letter_in_a_request_is_a_mark() {
    for (protocol, body) in [
        (Protocol::OpenaiChat, r#"{"model":"m","messages":[{"role":"user","content":"Hi \ud83d"}]}"#),
        (Protocol::OpenaiResponses, r#"{"model":"m","input":"Hi \ud83d"}"#),
        (
            Protocol::AnthropicMessages,
            r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"Hi \ud83d"}]}"#,
        ),
        (Protocol::Gemini, r#"{"contents":[{"parts":[{"text":"Hi \ud83d"}]}]}"#),
    ] {
        let read = protocol.decode_request(body.as_bytes(), &owner(protocol), &env()).unwrap();
        assert!(serde_json::to_string(&read.request).unwrap().contains("Hi \u{fffd}"), "{protocol}");
        assert!(read.body.is_object(), "{protocol}");
    }
}
