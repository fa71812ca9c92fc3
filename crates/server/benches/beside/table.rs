//! What is measured, and how it is told.

use crate::Failure;
use crate::client::{Figures, connect, count_events, exchange};
use crate::parts::{KEY, Part};
use serde_json::{Value, json};

/// Events of a stream.
pub(crate) const EVENTS: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Chat,
    Responses,
    Messages,
    Gemini,
}

impl Protocol {
    pub(crate) const ALL: [Protocol; 4] = [Protocol::Chat, Protocol::Responses, Protocol::Messages, Protocol::Gemini];

    pub(crate) fn short(self) -> &'static str {
        match self {
            Protocol::Chat => "chat",
            Protocol::Responses => "responses",
            Protocol::Messages => "messages",
            Protocol::Gemini => "gemini",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Chat => "openai_chat",
            Protocol::Responses => "openai_responses",
            Protocol::Messages => "anthropic_messages",
            Protocol::Gemini => "gemini",
        }
    }

    /// What its paths hold.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Protocol::Chat => "/chat/completions",
            Protocol::Responses => "/responses",
            Protocol::Messages => "/messages",
            Protocol::Gemini => "enerateContent",
        }
    }

    fn path(self, model: &str, stream: bool) -> String {
        match self {
            Protocol::Gemini if stream => format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"),
            Protocol::Gemini => format!("/v1beta/models/{model}:generateContent"),
            _ => format!("/v1{}", self.word()),
        }
    }

    /// A question: a short one, or one as agents ask it, of about 63 KB with 20 tools.
    pub(crate) fn question(self, model: &str, stream: bool, is_long: bool) -> Vec<u8> {
        let turns = if is_long { 39 } else { 1 };
        let said = "What did the survey of the northern district find, and which of its tables says so? ";
        let said = if is_long { said.repeat(8) } else { said.to_owned() };
        let turn = |number: usize| if number.is_multiple_of(2) { "user" } else { "assistant" };
        let messages: Vec<Value> =
            (0..2 * turns - 1).map(|number| json!({"role": turn(number), "content": said})).collect();
        let tools = |form: &dyn Fn(String, Value) -> Value| -> Vec<Value> {
            let schema = json!({"type": "object", "properties": {
                "query": {"type": "string", "description": "what to find"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100}}, "required": ["query"]});
            (0..if is_long { 20 } else { 0 }).map(|number| form(format!("look_{number}"), schema.clone())).collect()
        };
        let about = "Looks something up and gives rows";
        let mut body = match self {
            Protocol::Chat => json!({"model": model, "messages": messages, "tools": tools(&|name, schema| {
                json!({"type": "function", "function": {"name": name, "description": about, "parameters": schema}})
            })}),
            Protocol::Responses => json!({"model": model, "input": messages, "tools": tools(&|name, schema| {
                json!({"type": "function", "name": name, "description": about, "parameters": schema})
            })}),
            Protocol::Messages => json!({"model": model, "max_tokens": 64, "messages": messages,
            "tools": tools(&|name, schema| {
                json!({"name": name, "description": about, "input_schema": schema})
            })}),
            Protocol::Gemini => {
                let contents: Vec<Value> = (0..2 * turns - 1)
                    .map(|number| {
                        let role = if number.is_multiple_of(2) { "user" } else { "model" };
                        json!({"role": role, "parts": [{"text": said}]})
                    })
                    .collect();
                json!({"contents": contents})
            }
        };
        if let Some(object) = body.as_object_mut() {
            object.retain(|key, value| key != "tools" || value.as_array().is_some_and(|tools| !tools.is_empty()));
            if stream && self != Protocol::Gemini {
                object.insert("stream".to_owned(), true.into());
            }
        }
        body.to_string().into_bytes()
    }

    /// A whole answer.
    pub(crate) fn answer(self) -> Value {
        let text = "The quick brown fox jumps over the lazy dog. ".repeat(6);
        match self {
            Protocol::Chat => json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000,
                "model": "model-of-chat", "choices": [{"index": 0, "finish_reason": "stop", "logprobs": null,
                    "message": {"role": "assistant", "content": text, "refusal": null}}],
                "usage": {"prompt_tokens": 24, "completion_tokens": 50, "total_tokens": 74}}),
            Protocol::Responses => json!({"id": "resp_1", "object": "response", "created_at": 1_790_000_000,
                "status": "completed", "model": "model-of-responses", "output": [{"type": "message", "id": "msg_1",
                    "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": text, "annotations": []}]}],
                "usage": {"input_tokens": 24, "output_tokens": 50, "total_tokens": 74}}),
            Protocol::Messages => json!({"id": "msg_1", "type": "message", "role": "assistant",
                "model": "model-of-messages", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
                "stop_sequence": null, "usage": {"input_tokens": 24, "output_tokens": 50}}),
            Protocol::Gemini => json!({"candidates": [{"content": {"parts": [{"text": text}], "role": "model"},
                "finishReason": "STOP", "index": 0}], "modelVersion": "model-of-gemini",
                "usageMetadata": {"promptTokenCount": 24, "candidatesTokenCount": 50, "totalTokenCount": 74}}),
        }
    }

    /// The events of an answer that comes as a stream.
    pub(crate) fn events(self, count: usize) -> Vec<String> {
        let plain = |value: Value| format!("data: {value}\n\n");
        let named = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap_or_default());
        let token = |number: usize| format!(" token {number}");
        match self {
            Protocol::Chat => {
                let chunk = |delta: Value, end: Value| {
                    plain(json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000,
                        "model": "model-of-chat", "system_fingerprint": "fp_1",
                        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": end}]}))
                };
                let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), Value::Null)];
                events.extend((3..count).map(|number| chunk(json!({"content": token(number)}), Value::Null)));
                events.extend([chunk(json!({}), "stop".into()), "data: [DONE]\n\n".to_owned()]);
                events
            }
            Protocol::Responses => {
                let response = self.answer();
                let mut begun = response.clone();
                (begun["status"], begun["output"], begun["usage"]) = ("in_progress".into(), json!([]), Value::Null);
                let item = &response["output"][0];
                let part = &item["content"][0];
                let mut events = vec![
                    json!({"type": "response.created", "response": begun}),
                    json!({"type": "response.output_item.added", "output_index": 0, "item":
                        {"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant", "content": []}}),
                    json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
                        "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
                ];
                events.extend((7..count).map(|number| {
                    json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                        "content_index": 0, "delta": token(number)})
                }));
                events.extend([
                    json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0,
                        "content_index": 0, "text": part["text"]}),
                    json!({"type": "response.content_part.done", "item_id": "msg_1", "output_index": 0,
                        "content_index": 0, "part": part}),
                    json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
                    json!({"type": "response.completed", "response": response}),
                ]);
                let number = |(number, mut event): (usize, Value)| {
                    event["sequence_number"] = number.into();
                    named(event)
                };
                events.into_iter().enumerate().map(number).collect()
            }
            Protocol::Messages => {
                let mut message = self.answer();
                (message["content"], message["stop_reason"]) = (json!([]), Value::Null);
                let mut events = vec![
                    json!({"type": "message_start", "message": message}),
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                ];
                events.extend((5..count).map(|number| {
                    json!({"type": "content_block_delta", "index": 0,
                        "delta": {"type": "text_delta", "text": token(number)}})
                }));
                events.extend([
                    json!({"type": "content_block_stop", "index": 0}),
                    json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                        "usage": {"output_tokens": 50}}),
                    json!({"type": "message_stop"}),
                ]);
                events.into_iter().map(named).collect()
            }
            Protocol::Gemini => {
                let event = |number: usize| {
                    let mut candidate =
                        json!({"content": {"parts": [{"text": token(number)}], "role": "model"}, "index": 0});
                    if number + 1 == count {
                        candidate["finishReason"] = "STOP".into();
                    }
                    plain(json!({"candidates": [candidate], "modelVersion": "model-of-gemini",
                        "usageMetadata": self.answer()["usageMetadata"]}))
                };
                (0..count).map(event).collect()
            }
        }
    }
}

/// One row: a question of a client to a model, by so many clients at once.
pub(crate) struct Row {
    pub(crate) name: String,
    client: Protocol,
    server: Protocol,
    is_stream: bool,
    is_long: bool,
    pub(crate) clients: usize,
    /// Events in each answer, where it is known.
    pub(crate) events: Option<usize>,
    pub(crate) proxy: Vec<Figures>,
    pub(crate) gateway: Vec<Figures>,
}

impl Row {
    fn new(client: Protocol, server: Protocol, is_stream: bool, is_long: bool, clients: usize) -> Self {
        let what = match (is_stream, is_long) {
            (true, _) => format!("{EVENTS} events"),
            (false, true) => "63 KB".to_owned(),
            (false, false) => "small".to_owned(),
        };
        let pair = if client == server {
            client.short().to_owned()
        } else {
            format!("{} to {}", client.short(), server.short())
        };
        let events = (is_stream && client == server).then_some(EVENTS);
        let name = format!("{pair}, {what}, {clients} clients");
        let (proxy, gateway) = (Vec::new(), Vec::new());
        Row { name, client, server, is_stream, is_long, clients, events, proxy, gateway }
    }

    fn body(&self) -> (String, Vec<u8>) {
        let model = format!("plain-{}", self.server.short());
        let body = self.client.question(&model, self.is_stream, self.is_long);
        (self.client.path(&model, self.is_stream), body)
    }

    /// The request as the gateway gets it.
    pub(crate) fn asked(&self, part: &Part) -> Vec<u8> {
        let (path, body) = self.body();
        request(&part.address(), &path, KEY, &body)
    }

    /// The same without a key.
    pub(crate) fn plain(&self, part: &Part) -> Vec<u8> {
        let (path, body) = self.body();
        request(&part.address(), &path, "", &body)
    }
}

/// The bytes of a request.
pub(crate) fn request(host: &str, path: &str, key: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let key = if key.is_empty() { String::new() } else { format!("authorization: Bearer {key}\r\n") };
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\naccept: */*\r\n{key}content-length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for clients in [1, 16, 64] {
        rows.push(Row::new(Protocol::Chat, Protocol::Chat, false, false, clients));
        rows.push(Row::new(Protocol::Chat, Protocol::Chat, true, false, clients));
    }
    rows.push(Row::new(Protocol::Chat, Protocol::Chat, false, true, 16));
    rows.push(Row::new(Protocol::Chat, Protocol::Messages, false, true, 16));
    for client in Protocol::ALL {
        for server in Protocol::ALL {
            if (client, server) != (Protocol::Chat, Protocol::Chat) {
                rows.push(Row::new(client, server, true, false, 16));
            }
        }
    }
    rows
}

/// Holds an answer of the gateway against the model server's own: the same bytes where both speak one protocol.
pub(crate) async fn check(row: &Row, models: &Part, gateway: &Part) -> Result<(), Failure> {
    let (mut own, mut ours) = (Vec::new(), Vec::new());
    exchange(&mut connect(&models.address()).await?, &row.plain(models), &mut own).await?;
    exchange(&mut connect(&gateway.address()).await?, &row.asked(gateway), &mut ours).await?;
    if row.client == row.server && body_of(&own) != body_of(&ours) {
        return Err(format!("{}: the answer is not the server's, byte for byte", row.name).into());
    }
    let said = |answer: &[u8]| memchr::memmem::find_iter(answer, b" token ").count();
    if row.is_stream
        && row.client != row.server
        && (said(&ours) < EVENTS - 8 || count_events(&body_of(&ours)) < EVENTS - 8)
    {
        return Err(format!("{}: words of the answer are missing", row.name).into());
    }
    Ok(())
}

/// The body of an answer, out of its chunks, which may end within an event.
pub(crate) fn body_of(answer: &[u8]) -> Vec<u8> {
    let head = memchr::memmem::find(answer, b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let is_chunked = answer[..head].to_ascii_lowercase().windows(7).any(|word| word == b"chunked");
    let mut rest = &answer[head..];
    if !is_chunked {
        return rest.to_vec();
    }
    let mut body = Vec::new();
    while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size.filter(|size| *size > 0) else { break };
        body.extend_from_slice(rest.get(end + 2..end + 2 + size).unwrap_or_default());
        rest = rest.get(end + size + 4..).unwrap_or_default();
    }
    body
}

fn median(figures: &[Figures], of: impl Fn(&Figures) -> f64) -> f64 {
    let mut values: Vec<f64> = figures.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn print(rows: &[Row]) {
    println!(
        "\n| | processor µs a request: proxy | gateway | ratio | median µs: proxy | gateway | first byte µs: proxy \
         | gateway | requests a second: ratio |\n|---|---|---|---|---|---|---|---|---|"
    );
    for row in rows {
        let figures = |of: fn(&Figures) -> f64| (median(&row.proxy, of), median(&row.gateway, of));
        let (processor, ours) = figures(|figures| figures.processor);
        let (middle, our_middle) = figures(|figures| figures.median);
        let (first, our_first) = figures(|figures| figures.first);
        let (rate, our_rate) = figures(|figures| figures.per_second);
        println!(
            "| {} | {processor:.1} | {ours:.1} | {:.2} | {middle:.0} | {our_middle:.0} | {first:.0} | {our_first:.0} | {:.2} |",
            row.name,
            ours / processor,
            our_rate / rate
        );
    }
}
