//! State of one provider on its way through a client of each protocol.

use placet_core::env::ManualClock;
use placet_core::item::Reasoning;
use placet_core::part::{Native, Text};
use placet_core::{
    Accumulator, Arguments, Env, Item, ItemBody, Message, Origins, Part, ProviderId, Role, StopReason, Timestamp,
    ToolCall, Turn, TurnRequest, Usage,
};
use placet_wire::names::Names;
use placet_wire::protocol::Protocol;
use placet_wire::{AnswerHead, events_of};
use serde_json::{Value, json};
use std::sync::Arc;

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

/// An answer with thinking before a text and before a call, all with state of its provider.
fn answer(provider: &ProviderId) -> Turn {
    let env = env();
    let native = |value: Value| Some(Native { provider: provider.clone(), value });
    let said = |text: Text| Message { role: Role::Assistant, parts: vec![Part::Text(text)], native: None };
    let bodies: Vec<ItemBody> = vec![
        Reasoning { text: "First.".into(), native: native(json!({"signature": "c2lnMQ==", "ü": [1, null]})) }.into(),
        said(Text { native: native(json!({"citations": [{"url": "u"}]})), ..Text::new("Größe?") }).into(),
        Reasoning { text: String::new(), native: native(json!({"encrypted": "ZW5j"})) }.into(),
        ToolCall {
            id: env.new_id(),
            provider_id: Some("call_1".into()),
            name: "measure".into(),
            arguments: Arguments::from_text(r#"{"of":"it"}"#),
            native: native(json!({"thoughtSignature": "c2lnMg=="})),
        }
        .into(),
    ];
    Turn {
        id: env.new_id(),
        model: Some("m".into()),
        response_id: Some("r".into()),
        items: bodies.into_iter().map(|body| Arc::new(Item::new(env.new_id(), Origins::none(), body))).collect(),
        stop: StopReason::ToolCalls,
        usage: Some(Usage { input: 3, output: 4, ..Usage::default() }),
        provider_state: None,
        service_tier: None,
        native: None,
    }
}

fn head(provider: ProviderId) -> AnswerHead {
    AnswerHead { id: "answer-1".into(), model: "m".into(), created: 7, provider, stream_usage: true, request: None }
}

/// What a client of a protocol sends next: what it got, as it got it, and the result of the call.
fn next(protocol: Protocol, answer: &Value) -> Value {
    match protocol {
        Protocol::OpenaiChat => {
            let message = &answer["choices"][0]["message"];
            let id = &message["tool_calls"][0]["id"];
            json!({"model": "m", "messages": [
                {"role": "user", "content": "go"}, message, {"role": "tool", "tool_call_id": id, "content": "5"},
            ]})
        }
        Protocol::OpenaiResponses => {
            let mut input = vec![json!({"role": "user", "content": "go"})];
            let output = answer["output"].as_array().cloned().unwrap_or_default();
            let call = output.iter().find(|item| item["type"] == "function_call").expect("a call").clone();
            input.extend(output);
            input.push(json!({"type": "function_call_output", "call_id": call["call_id"], "output": "5"}));
            json!({"model": "m", "input": input, "store": false})
        }
        Protocol::AnthropicMessages => {
            let content = answer["content"].as_array().cloned().unwrap_or_default();
            let call = content.iter().find(|block| block["type"] == "tool_use").expect("a call").clone();
            json!({"model": "m", "max_tokens": 100, "messages": [
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": content},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "5"}]},
            ]})
        }
        Protocol::Gemini => {
            let content = &answer["candidates"][0]["content"];
            let parts = content["parts"].as_array().cloned().unwrap_or_default();
            let call = parts.iter().find(|part| part.get("functionCall").is_some()).expect("a call").clone();
            let mut result = json!({"name": "measure", "response": {"result": "5"}});
            if let Some(id) = call["functionCall"].get("id") {
                result["id"] = id.clone();
            }
            json!({"contents": [
                {"role": "user", "parts": [{"text": "go"}]}, content,
                {"role": "user", "parts": [{"functionResponse": result}]},
            ]})
        }
    }
}

/// Thinking, texts and calls with their state, in order.
fn told(items: &[Arc<Item>]) -> Vec<(String, Option<Native>)> {
    let mut told: Vec<(String, Option<Native>)> = Vec::new();
    for item in items {
        match &item.body {
            ItemBody::Reasoning(reasoning) => told.push((reasoning.text.clone(), reasoning.native.clone())),
            ItemBody::ToolCall(call) => told.push((call.name.as_str().to_owned(), call.native.clone())),
            ItemBody::Message(message) if message.role == Role::Assistant => {
                for part in &message.parts {
                    if let Part::Text(text) = part {
                        told.push((text.text.to_string(), text.native.clone()));
                    }
                }
            }
            _ => {}
        }
    }
    told
}

#[test]
fn state_survives_a_client_of_every_protocol_and_goes_to_its_own_provider_alone() {
    let theirs = ProviderId::new("theirs");
    let turn = answer(&theirs);
    let mut faults = Vec::new();
    for protocol in Protocol::ALL {
        let own = ProviderId::new(protocol.as_str());
        let whole = protocol.encode_response(&head(own.clone()), &turn);
        // The stream says the same.
        let mut encoder = protocol.encode_events(head(own.clone()));
        let mut bytes = Vec::new();
        events_of(&turn).iter().for_each(|event| encoder.push(event, &mut bytes));
        encoder.end(&mut bytes);
        let mut decoder = protocol.decode_events(&own, Names::default());
        let mut events = Vec::new();
        decoder.push(&bytes, &mut events);
        decoder.end(&mut events);
        let mut accumulator = Accumulator::new();
        events.iter().for_each(|event| accumulator.push(event));
        let streamed = accumulator.finish(&own, &env()).expect("a whole answer");
        assert_eq!((streamed.text().as_str(), streamed.calls().count()), ("Größe?", 1), "{protocol}");

        let body = next(protocol, &whole).to_string();
        let request: TurnRequest = match protocol.decode_request(body.as_bytes(), &own, &env()) {
            Ok(decoded) => decoded.request,
            Err(error) => panic!("{protocol}: {error}: {body}"),
        };
        let (found, wanted) = (told(&request.items), told(&turn.items));
        if found != wanted {
            faults.push(format!("{protocol}: {found:?}\n    is not {wanted:?}\n    in {body}"));
            continue;
        }
        let ItemBody::ToolResult(result) = &request.items.last().expect("items").body else {
            panic!("{protocol}: the last is no result");
        };
        assert!(
            request.items.iter().any(|item| matches!(&item.body, ItemBody::ToolCall(call) if call.id == result.call)),
            "{protocol}: the result finds its call"
        );
        // Nobody else is sent it, sealed or open.
        for other in Protocol::ALL {
            let encoded = other.encode_request(&request, &ProviderId::new("others"), true);
            let encoded = encoded.unwrap_or_else(|error| panic!("{protocol} to {other}: {error}"));
            let text = String::from_utf8_lossy(&encoded.body);
            for secret in ["placet1.", "c2lnMQ==", "ZW5j", "c2lnMg=="] {
                assert!(!text.contains(secret), "{protocol} to {other}: {text}");
            }
            assert!(!encoded.omitted.is_empty(), "{protocol} to {other}: what is left out is told");
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
