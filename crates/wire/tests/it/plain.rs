//! Messages and tools in which nothing stands but what has a name of ours are read by readers of their own. What those read is what
//! the readers of everything read: a body, and the same body with a field that nobody knows in each of its entries, are equal but for
//! that field.

use placet_core::env::ManualClock;
use placet_core::{Env, Item, ItemBody, Part, ProviderId, SharedText, Timestamp, ToolDefinition, TurnRequest};
use placet_wire::protocol::Protocol;
use serde_json::{Value, json};
use std::sync::Arc;

fn read(protocol: Protocol, body: &Value) -> TurnRequest {
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3);
    let read = protocol.decode_request(body.to_string().as_bytes(), &ProviderId::new("p"), &env);
    read.unwrap_or_else(|error| panic!("{error}: {body}")).request
}

/// A request without what only its provider understands.
fn bare(mut request: TurnRequest) -> TurnRequest {
    let text = |part: &mut Part| {
        if let Part::Text(text) = part {
            text.native = None;
        }
    };
    for item in &mut request.items {
        let mut item_ = Item::clone(item);
        match &mut item_.body {
            ItemBody::Message(message) => {
                message.native = None;
                message.parts.iter_mut().for_each(text);
            }
            ItemBody::ToolCall(call) => call.native = None,
            ItemBody::ToolResult(result) => {
                result.native = None;
                result.outcome.content.iter_mut().for_each(text);
            }
            _ => {}
        }
        *item = Arc::new(item_);
    }
    for tool in &mut request.tools {
        *tool = Arc::new(ToolDefinition { native: None, ..ToolDefinition::clone(tool) });
    }
    request.native = None;
    request
}

/// Puts a field that nobody knows at these places of each entry of a list: the first place that an entry has.
fn odd(list: &mut Value, places: &[&str]) {
    for entry in list.as_array_mut().into_iter().flatten() {
        let place = places.iter().find(|place| entry.pointer(place).is_some_and(Value::is_object));
        if let Some(Value::Object(fields)) = place.and_then(|place| entry.pointer_mut(place)) {
            fields.insert("odd".into(), json!({"a": 1}));
        }
    }
}

fn agree(protocol: Protocol, body: &Value, entries: (&str, &[&str]), tools: &[&str]) {
    let mut with_odd = body.clone();
    odd(&mut with_odd[entries.0], entries.1);
    odd(&mut with_odd["tools"], tools);
    let (plain, whole) = (read(protocol, body), read(protocol, &with_odd));
    assert!(plain == bare(plain.clone()), "{protocol}: nothing is only the provider's");
    assert_eq!(plain, bare(whole.clone()), "{protocol}");
    assert_ne!(plain, whole, "{protocol}: the field is kept");
}

fn schemas() -> [Value; 4] {
    [
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "\"é\n"}}, "required": ["a"]}),
        json!({"properties": {}, "type": "object", "additionalProperties": false}),
        json!({"type": "object"}),
        json!({}),
    ]
}

const TEXT: &str = "a \"quoted\" text\nwith \\ and é";

#[test]
fn chat_messages_are_read_alike() {
    let call = |id: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
    let text = |text: &str| json!([{"type": "text", "text": text}, {"type": "text", "text": ""}]);
    let tools = schemas().map(|schema| json!({"type": "function", "function": {"name": "f", "description": TEXT, "parameters": schema, "strict": true}}));
    let body = json!({
        "model": "m", "odd": 1,
        "messages": [
            {"role": "developer", "content": text(TEXT)},
            {"role": "system", "content": TEXT},
            {"role": "user", "content": TEXT, "name": null},
            {"role": "user", "content": text("x")},
            {"role": "user", "content": ""},
            {"role": "assistant", "content": null, "tool_calls": [call("1", "{\"a\": \"\\n\"}"), call("2", "")]},
            {"role": "tool", "tool_call_id": "2", "content": text(TEXT)},
            {"role": "tool", "tool_call_id": "1", "content": TEXT},
            {"role": "assistant", "content": TEXT, "refusal": null, "tool_calls": [call("1", "null")]},
            {"role": "tool", "tool_call_id": "1", "content": ""},
            {"role": "tool", "tool_call_id": "unknown", "content": "x"},
            {"role": "assistant", "content": "", "tool_calls": null},
            {"role": "assistant", "content": text("y")},
        ],
        "tools": tools,
    });
    let mut plain = body.clone();
    plain.as_object_mut().unwrap().shift_remove("odd");
    agree(Protocol::OpenaiChat, &plain, ("messages", &["/tool_calls/0", ""]), &["/function"]);
    // What the operator says first is the instructions, unless more than one text or field stands there.
    let first = json!({"model": "m", "messages": [{"role": "system", "content": TEXT}]});
    assert_eq!(read(Protocol::OpenaiChat, &first).instructions.as_deref(), Some(TEXT));
}

#[test]
fn anthropic_messages_are_read_alike() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let call = |id: &str, input: Value| json!({"type": "tool_use", "id": id, "name": "f", "input": input});
    let result = |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content, "is_error": id == "2"});
    let tools =
        schemas().map(|schema| json!({"name": "f", "description": TEXT, "input_schema": schema, "strict": false}));
    let body = json!({
        "model": "m", "max_tokens": 1, "system": TEXT,
        "messages": [
            {"role": "user", "content": TEXT},
            {"role": "user", "content": [text(TEXT), text("")]},
            {"role": "assistant", "content": [text(""), text(TEXT), call("1", json!({"a": 1.5, "b": "\n"})), call("2", json!({}))]},
            {"role": "user", "content": [result("2", json!([text("x"), text(TEXT)])), result("1", TEXT.into()), text("y")]},
            {"role": "assistant", "content": [call("1", json!({}))]},
            {"role": "user", "content": [result("1", Value::Null)]},
            {"role": "user", "content": [result("unknown", json!([]))]},
        ],
        "tools": tools,
    });
    agree(Protocol::AnthropicMessages, &body, ("messages", &["/content/0", ""]), &[""]);
    let said = json!({"model": "m", "max_tokens": 1, "messages": [{"role": "assistant", "content": TEXT}, {"role": "user", "content": []}]});
    let items = read(Protocol::AnthropicMessages, &said).items;
    assert!(matches!(&items[0].body, ItemBody::Message(message) if message.text() == TEXT));
    assert!(matches!(&items[1].body, ItemBody::Message(message) if message.parts.is_empty()));
}

#[test]
fn responses_items_are_read_alike() {
    let text = |kind: &str| json!({"type": kind, "text": TEXT, "annotations": []});
    let tools = schemas().map(
        |schema| json!({"type": "function", "name": "f", "description": TEXT, "parameters": schema, "strict": null}),
    );
    let body = json!({
        "model": "m", "instructions": TEXT,
        "input": [
            {"role": "user", "content": TEXT},
            {"type": "message", "role": "developer", "content": [text("input_text")]},
            {"type": "message", "role": "user", "content": [text("input_text"), text("text")]},
            {"type": "message", "role": "assistant", "content": [text("output_text")], "status": "completed"},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"a\": \"\\n\"}", "status": "completed"},
            {"type": "function_call", "call_id": "1", "name": "g", "arguments": ""},
            {"type": "function_call_output", "call_id": "1", "output": TEXT},
            {"type": "function_call_output", "call_id": "1", "output": [text("input_text")]},
            {"type": "function_call_output", "call_id": "unknown", "output": ""},
        ],
        "tools": tools,
    });
    agree(Protocol::OpenaiResponses, &body, ("input", &["/content/0", ""]), &[""]);
}

#[test]
fn errors_name_their_place_wherever_it_is() {
    let message = |protocol: Protocol, body: &Value| {
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3);
        let read = protocol.decode_request(body.to_string().as_bytes(), &ProviderId::new("p"), &env);
        read.unwrap_err().field
    };
    let user = json!({"role": "user", "content": "a"});
    for (protocol, body, field) in [
        (
            Protocol::OpenaiChat,
            json!({"model": "m", "messages": [user, {"role": "user", "content": 5}]}),
            "messages[1].content",
        ),
        (Protocol::OpenaiChat, json!({"model": "m", "messages": [user, 5]}), "messages[1]"),
        (
            Protocol::OpenaiChat,
            json!({"model": "m", "messages": [user], "tools": [{"type": "function", "function": {"name": ""}}]}),
            "tools[0].function.name",
        ),
        (Protocol::OpenaiChat, json!({"model": "m", "messages": [user], "tools": 5}), "tools"),
        (Protocol::OpenaiChat, json!({"messages": [user]}), "model"),
        (
            Protocol::AnthropicMessages,
            json!({"model": "m", "messages": [user, {"role": "user", "content": [5]}]}),
            "messages[1].content[0]",
        ),
        (Protocol::AnthropicMessages, json!({"model": "m", "messages": [user], "tools": [5]}), "tools[0]"),
        (
            Protocol::AnthropicMessages,
            json!({"model": "m", "messages": [user], "tools": [{"name": ""}]}),
            "tools[0].name",
        ),
        (Protocol::OpenaiResponses, json!({"model": "m", "input": [user, 5]}), "input[1]"),
        (Protocol::OpenaiResponses, json!({"model": "m", "input": 5}), "input"),
        (
            Protocol::OpenaiResponses,
            json!({"model": "m", "input": [], "tools": [{"type": "function"}]}),
            "tools[0].name",
        ),
    ] {
        assert_eq!(message(protocol, &body).as_deref(), Some(field), "{protocol}: {body}");
    }
}

/// The texts of a conversation.
fn texts(request: &TurnRequest) -> Vec<&SharedText> {
    let parts = request.items.iter().flat_map(|item| match &item.body {
        ItemBody::Message(message) => message.parts.as_slice(),
        ItemBody::ToolResult(result) => result.outcome.content.as_slice(),
        _ => &[],
    });
    let parts = parts.filter_map(|part| if let Part::Text(text) = part { Some(&text.text) } else { None });
    request.instructions.iter().chain(parts).collect()
}

#[test]
fn texts_go_from_one_protocol_to_another_without_being_looked_at() {
    let said = |name: &str| format!("{name} said \"{}\"\nand \\ more", "é ".repeat(60));
    let [operator, user, model, tool] = ["operator", "user", "model", "tool"].map(said);
    let call = json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
    let chat = json!({"model": "m", "messages": [
        {"role": "system", "content": operator}, {"role": "user", "content": user},
        {"role": "assistant", "content": model, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": tool}]});
    let responses = json!({"model": "m", "instructions": operator, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": user}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": model}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}"},
        {"type": "function_call_output", "call_id": "c1", "output": tool}]});
    let messages = json!({"model": "m", "max_tokens": 9, "system": operator, "messages": [
        {"role": "user", "content": user},
        {"role": "assistant", "content": [{"type": "text", "text": model},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": tool}]}]});
    let bodies = [
        (Protocol::OpenaiChat, &chat),
        (Protocol::OpenaiResponses, &responses),
        (Protocol::AnthropicMessages, &messages),
    ];
    for (from, body) in bodies {
        for to in Protocol::ALL.into_iter().filter(|to| *to != from) {
            let mut request = read(from, body);
            request.model = "m".into();
            let written = to.encode_request(&request, &ProviderId::new("q"), false).unwrap();
            let made: Vec<&str> =
                texts(&request).into_iter().filter(|text| text.is_made()).map(|text| &**text).collect();
            // The operator's words stand apart in some protocols, and are read there.
            assert!(made.iter().all(|text| *text == operator), "{from} to {to}: {made:?}");
            // They have arrived all the same.
            let written: Value = serde_json::from_slice(&written.body).unwrap();
            let found = |text: &str| written.to_string().contains(&Value::from(text).to_string());
            assert!([&operator, &user, &model, &tool].into_iter().all(|text| found(text)), "{from} to {to}: {written}");
        }
    }
}
