//! The vendors' own SDKs at the running program.
//!
//! `PLACET_SDK_PYTHON` names a Python that has `openai`, `anthropic` and `google-genai`; `PLACET_SDK_NODE` a folder whose
//! `node_modules` hold `openai`, `@anthropic-ai/sdk` and `@google/genai`. A test for which neither is there says that it is
//! skipped.

mod agents;
mod approval;
pub(crate) mod client;
mod flows;
pub(crate) mod house;
mod proxy;
mod trouble;

use serde_json::{Value, json};

/// The protocols by what the client scripts call them.
pub(crate) const APIS: [&str; 4] = ["chat", "responses", "messages", "gemini"];

/// Events of the Messages protocol, as a server streams them: some text, then calls.
pub(crate) fn messages_stream(text: &str, calls: &[(&str, &str, Value)]) -> Vec<String> {
    let event = |kind: &str, mut body: Value| {
        body["type"] = kind.into();
        format!("event: {kind}\ndata: {body}\n\n")
    };
    let delta = |index: usize, delta: Value| event("content_block_delta", json!({"index": index, "delta": delta}));
    let start = json!({"message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "mock", "content": [], "stop_reason": null,
        "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 1},
    }});
    let mut events = vec![event("message_start", start)];
    let mut index = 0;
    if !text.is_empty() {
        let block = json!({"index": 0, "content_block": {"type": "text", "text": ""}});
        events.push(event("content_block_start", block));
        events.push(delta(0, json!({"type": "text_delta", "text": text})));
        events.push(event("content_block_stop", json!({"index": 0})));
        index += 1;
    }
    for (id, name, arguments) in calls {
        let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        events.push(event("content_block_start", json!({"index": index, "content_block": block})));
        events.push(delta(index, json!({"type": "input_json_delta", "partial_json": arguments.to_string()})));
        events.push(event("content_block_stop", json!({"index": index})));
        index += 1;
    }
    let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let end = json!({"delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 5}});
    events.push(event("message_delta", end));
    events.push(event("message_stop", json!({})));
    events
}

/// The same as one body.
pub(crate) fn messages_body(text: &str, calls: &[(&str, &str, Value)]) -> Value {
    let mut content = Vec::new();
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    let block =
        |(id, name, input): &(&str, &str, Value)| json!({"type": "tool_use", "id": id, "name": name, "input": input});
    content.extend(calls.iter().map(block));
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "mock", "content": content,
        "stop_reason": if calls.is_empty() { "end_turn" } else { "tool_use" }, "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    })
}

/// A streamed Chat answer: some text, then calls.
pub(crate) fn chat_stream(text: &str, calls: &[(&str, &str, Value)]) -> Vec<String> {
    use placet_testkit::upstream::chat;
    let first = json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}],
    });
    let mut events = vec![chat::chunk(&first)];
    if !text.is_empty() {
        events.push(chat::text(text));
    }
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        events.push(chat::call(u32::try_from(index).unwrap(), id, name, arguments));
    }
    events.push(chat::finish(if calls.is_empty() { "stop" } else { "tool_calls" }));
    events.extend([chat::usage(10, 5), chat::done()]);
    events
}

/// The same as one body.
pub(crate) fn chat_body(text: &str, calls: &[(&str, &str, Value)]) -> Value {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
        })
        .collect();
    let mut message =
        json!({"role": "assistant", "content": Some(text).filter(|text| !text.is_empty()), "refusal": null});
    if !calls.is_empty() {
        message["tool_calls"] = calls.clone().into();
    }
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "mock",
        "choices": [{
            "index": 0, "message": message, "logprobs": null,
            "finish_reason": if calls.is_empty() { "stop" } else { "tool_calls" },
        }],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    })
}

/// A tool of a client's.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "parameters": {"type": "object", "properties": {"day": {"type": "string"}}}})
}
