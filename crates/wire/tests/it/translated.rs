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

/// The addresses that a client is told, each with its title and the text that is from it.
fn cited(protocol: Protocol, values: &[Value], text: &str) -> Vec<(String, String, String)> {
    let word = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let number = |value: &Value, key: &str| usize::try_from(value[key].as_u64().unwrap_or_default()).unwrap();
    let letters = |from: usize, to: usize| text.chars().take(to).skip(from).collect::<String>();
    let mut cited = Vec::new();
    match protocol {
        Protocol::OpenaiChat | Protocol::OpenaiResponses => {
            let key = if protocol == Protocol::OpenaiChat { "url_citation" } else { "annotation" };
            for form in found(values, key) {
                let said = letters(number(form, "start_index"), number(form, "end_index"));
                cited.push((word(form, "url"), word(form, "title"), said));
            }
        }
        Protocol::AnthropicMessages => {
            for form in found(values, "citation").into_iter().filter(|form| form.is_object()) {
                assert_eq!(form["type"], "web_search_result_location");
                assert!(form["cited_text"].is_string() && form["encrypted_index"].is_string());
                cited.push((word(form, "url"), word(form, "title"), text.to_owned()));
            }
        }
        Protocol::Gemini => {
            for form in found(values, "groundingMetadata") {
                for support in form["groundingSupports"].as_array().unwrap() {
                    let at = support["groundingChunkIndices"][0].as_u64().unwrap();
                    let chunk = &form["groundingChunks"][usize::try_from(at).unwrap()]["web"];
                    let (from, to) =
                        (number(&support["segment"], "startIndex"), number(&support["segment"], "endIndex"));
                    let said = text[from..to].to_owned();
                    cited.push((word(chunk, "uri"), word(chunk, "title"), said));
                }
            }
        }
    }
    cited
}

/// A streamed answer with one address, for the second sentence or, where the protocol knows no less, for all of it.
fn citing(protocol: Protocol) -> Vec<TurnEvent> {
    let (url, title) = ("https://example.com/bern", "Bern");
    let stream = match protocol {
        Protocol::OpenaiChat => sse(&[
            chat_chunk(json!({"role": "assistant", "content": "Grüezi. "}), Value::Null),
            chat_chunk(json!({"content": "Bern is it."}), Value::Null),
            chat_chunk(
                json!({"annotations": [{"type": "url_citation",
                    "url_citation": {"url": url, "title": title, "start_index": 8, "end_index": 19}}]}),
                Value::Null,
            ),
            chat_chunk(json!({}), json!("stop")),
        ]),
        Protocol::OpenaiResponses => {
            let annotation =
                json!({"type": "url_citation", "url": url, "title": title, "start_index": 8, "end_index": 19});
            let item = |content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content});
            let part = json!({"type": "output_text", "text": "Grüezi. Bern is it.", "annotations": [annotation]});
            sse(&[
                json!({"type": "response.created", "response": {"id": "resp_1", "model": "m"}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": item(json!([]))}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Grüezi. "}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Bern is it."}),
                json!({"type": "response.output_text.annotation.added", "output_index": 0, "content_index": 0, "annotation_index": 0, "annotation": annotation}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": item(json!([part]))}),
                json!({"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}),
            ])
        }
        Protocol::AnthropicMessages => sse(&[
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "content": []}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": null}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüezi. Bern is it."}}),
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {
                "type": "web_search_result_location", "url": url, "title": title, "cited_text": "It is.", "encrypted_index": "eA=="}}}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
            json!({"type": "message_stop"}),
        ]),
        Protocol::Gemini => {
            let grounding = json!({"groundingChunks": [{"web": {"uri": url, "title": title}}], "groundingSupports": [
                {"segment": {"startIndex": 9, "endIndex": 20, "text": "Bern is it."}, "groundingChunkIndices": [0]}]});
            let text = |text: &str| json!({"role": "model", "parts": [{"text": text}]});
            sse(&[
                json!({"candidates": [{"content": text("Grüezi. ")}]}),
                json!({"candidates": [{"content": text("Bern is it.")}]}),
                json!({"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": "c2ln"}]},
                    "finishReason": "STOP", "groundingMetadata": grounding}]}),
            ])
        }
    };
    read(protocol, &stream)
}

#[test]
fn sources_of_a_text_are_told_in_every_protocol() {
    for from in Protocol::ALL {
        let events = citing(from);
        let turn = fold(&events).unwrap();
        let text = turn.text();
        assert_eq!(text, "Grüezi. Bern is it.");
        for to in Protocol::ALL {
            let stream = data(&written(to, &events));
            let is_of_all = from == Protocol::AnthropicMessages || to == Protocol::AnthropicMessages;
            let said = if is_of_all { text.as_str() } else { "Bern is it." };
            let wanted = [("https://example.com/bern".to_owned(), "Bern".to_owned(), said.to_owned())];
            assert_eq!(cited(to, &stream, &text), wanted, "{from} to {to}: {stream:?}");
            // The whole answer says the same as its stream.
            let whole = to.encode_response(&head(to), &turn);
            let lists = match to {
                Protocol::OpenaiResponses => found(std::slice::from_ref(&whole), "annotations"),
                Protocol::AnthropicMessages => found(std::slice::from_ref(&whole), "citations"),
                _ => Vec::new(),
            };
            let key = if to == Protocol::AnthropicMessages { "citation" } else { "annotation" };
            let lists = lists.into_iter().filter_map(Value::as_array).flatten();
            let mut forms: Vec<Value> = lists.map(|form| json!({ key: form })).collect();
            if forms.is_empty() {
                forms = vec![whole.clone()];
            }
            assert_eq!(cited(to, &forms, &text), wanted, "{from} to {to}: {whole}");
            // Its own provider gets its own words back.
            let client = to.encode_response(&AnswerHead { provider: "client".into(), ..head(to) }, &turn);
            assert!(client.to_string().contains("https://example.com/bern"), "{from} to {to}: {client}");
        }
    }
}

#[test]
fn sources_that_a_client_sends_back_stay_those_of_their_provider() {
    let turn = fold(&citing(Protocol::Gemini)).unwrap();
    let answer = |to: Protocol| to.encode_response(&AnswerHead { provider: "client".into(), ..head(to) }, &turn);
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "a"},
        answer(Protocol::OpenaiChat)["choices"][0]["message"], {"role": "user", "content": "b"}]});
    let mut input = vec![json!({"role": "user", "content": "a"})];
    input.extend(answer(Protocol::OpenaiResponses)["output"].as_array().unwrap().iter().cloned());
    let responses = json!({"model": "m", "input": input});
    let anthropic = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "a"},
        {"role": "assistant", "content": answer(Protocol::AnthropicMessages)["content"]}, {"role": "user", "content": "b"}]});
    for (from, body) in
        [(Protocol::OpenaiChat, chat), (Protocol::OpenaiResponses, responses), (Protocol::AnthropicMessages, anthropic)]
    {
        let read = from.decode_request(body.to_string().as_bytes(), &"client".into(), &env()).unwrap().request;
        let sent = Protocol::Gemini.encode_request(&read, &owner(Protocol::Gemini), false).unwrap();
        assert_eq!(sent.omitted, [], "{from}");
        let sent = String::from_utf8(sent.body.to_vec()).unwrap();
        assert!(sent.contains("c2ln") && !sent.contains("example.com"), "{from}: {sent}");
    }
}

/// What a Responses stream of these events becomes in each protocol: what is read of it there, and how many items of a sort there are.
fn interleaved(events: &[Value], check: impl Fn(Protocol, &[TurnEvent], &[Value])) {
    let read_here = read(Protocol::OpenaiResponses, &sse(events));
    for to in Protocol::ALL {
        let stream = written(to, &read_here);
        check(to, &read(to, &stream), &data(&stream));
    }
}

fn texts(turn: &Turn) -> Vec<String> {
    let said = turn.items.iter().filter_map(|item| match &item.body {
        placet_core::ItemBody::Message(message) => Some(message.text()),
        // What was sealed is thinking without a text.
        placet_core::ItemBody::Reasoning(reasoning) if reasoning.text.is_empty() => None,
        placet_core::ItemBody::Reasoning(reasoning) => Some(format!("({})", reasoning.text)),
        placet_core::ItemBody::ToolCall(call) => Some(format!("{}{}", call.name, call.arguments.as_text())),
        _ => None,
    });
    said.collect()
}

#[test]
fn texts_that_come_by_turns_each_come_out_whole() {
    let added = |at: u64, id: &str| {
        json!({"type": "response.output_item.added", "output_index": at, "item":
        {"type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": []}})
    };
    let piece = |at: u64, part: u64, text: &str| json!({"type": "response.output_text.delta", "output_index": at, "content_index": part, "delta": text});
    let text = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let done = |at: u64, item: Value| json!({"type": "response.output_item.done", "output_index": at, "item": item});
    let message = |id: &str, parts: Value| json!({"type": "message", "id": id, "role": "assistant", "status": "completed", "content": parts});
    let (first, second) =
        (message("m_0", json!([text("Hello there"), text("One two")])), message("m_1", json!([text("Good bye")])));
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{\"a\":1}", "status": "completed"});
    let mut opening = call.clone();
    opening["arguments"] = "".into();
    let events = [
        json!({"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress"}}),
        added(0, "m_0"),
        piece(0, 0, "Hel"),
        added(1, "m_1"),
        piece(1, 0, "Good"),
        piece(0, 0, "lo "),
        json!({"type": "response.output_item.added", "output_index": 2, "item": opening}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"a\":"}),
        piece(0, 1, "One "),
        piece(1, 0, " bye"),
        piece(0, 0, "there"),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "1}"}),
        json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0, "part": text("Hello there")}),
        done(1, second.clone()),
        done(2, call.clone()),
        piece(0, 1, "two"),
        done(0, first.clone()),
        json!({"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed", "output": [first, second, call]}}),
    ];
    interleaved(&events, |to, events, data| {
        let turn = fold(events).unwrap();
        match to {
            Protocol::OpenaiChat => assert_eq!(texts(&turn), ["Hello thereOne twoGood bye", "f{\"a\":1}"]),
            Protocol::Gemini => assert_eq!(texts(&turn).concat(), "Hello thereOne twoGood byef{\"a\":1}"),
            _ => assert_eq!(texts(&turn), ["Hello there", "One two", "Good bye", "f{\"a\":1}"], "{to}"),
        }
        if to == Protocol::OpenaiResponses {
            let kinds: Vec<_> = data.last().unwrap()["response"]["output"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| &item["type"])
                .collect();
            assert_eq!(kinds, ["message", "message", "message", "function_call"]);
            let ends = data.iter().filter(|event| event["type"] == "response.output_item.done").count();
            assert_eq!(ends, 4);
        }
    });
    // What breaks off is told as far as it came.
    let broken = read(Protocol::OpenaiResponses, &sse(&events[..11]));
    let mut fold = Accumulator::new();
    broken.iter().for_each(|event| fold.push(event));
    assert_eq!(fold.text(), "Hello thereOne Good bye");
}

#[test]
fn thinking_that_stays_open_until_the_end_is_told_once_and_in_its_place() {
    let thought = |content: Value| {
        let mut item = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        if !content.is_null() {
            item["content"] = content;
        }
        item
    };
    let whole = thought(json!([{"type": "reasoning_text", "text": "Two and two."}]));
    let said = json!({"type": "message", "id": "m_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "4 it is", "annotations": []}]});
    let mut opening = said.clone();
    opening["content"] = json!([]);
    let events = [
        json!({"type": "response.created", "response": {"id": "r", "model": "m", "status": "in_progress"}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": thought(Value::Null)}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "Two and"}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": " two."}),
        json!({"type": "response.output_item.added", "output_index": 1, "item": opening}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "4 "}),
        json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "it is"}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": said}),
        json!({"type": "response.reasoning_text.done", "output_index": 0, "content_index": 0, "text": "Two and two."}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": whole}),
        json!({"type": "response.completed", "response": {"id": "r", "model": "m", "status": "completed", "output": [whole, said]}}),
    ];
    interleaved(&events, |to, events, data| {
        assert_eq!(texts(&fold(events).unwrap()).concat(), "(Two and two.)4 it is", "{to}");
        if to == Protocol::OpenaiResponses {
            let output = data.last().unwrap()["response"]["output"].as_array().unwrap();
            let kinds: Vec<_> = output.iter().map(|item| &item["type"]).collect();
            assert_eq!(kinds, ["reasoning", "message"]);
        }
    });
    // The text does not wait for the end of the thinking.
    let soon = read(Protocol::OpenaiResponses, &sse(&events[..7]));
    assert!(soon.iter().any(|event| matches!(event, TurnEvent::Text(delta) if delta.text == "it is")));
    // State that was not known by then is sealed behind, once, and found again.
    let mut later = events.clone();
    later[9]["item"]["encrypted_content"] = "c2VhbGVk".into();
    let stream = written(Protocol::OpenaiResponses, &read(Protocol::OpenaiResponses, &sse(&later)));
    let output = data(&stream).last().unwrap()["response"]["output"].clone();
    assert_eq!(output.as_array().unwrap().len(), 3, "{output}");
    let mut input = output.as_array().unwrap().clone();
    input.push(json!({"role": "user", "content": "And?"}));
    let back = json!({"model": "m", "input": input});
    let own = owner(Protocol::OpenaiResponses);
    let back = Protocol::OpenaiResponses.decode_request(back.to_string().as_bytes(), &own, &env()).unwrap().request;
    let sent = Protocol::OpenaiResponses.encode_request(&back, &own, false).unwrap();
    let sent: Value = serde_json::from_slice(&sent.body).unwrap();
    let thinking: Vec<_> =
        sent["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning").collect();
    assert_eq!(thinking.len(), 1, "{sent}");
    assert_eq!(thinking[0]["encrypted_content"], "c2VhbGVk");
}

#[test]
fn a_request_that_was_blocked_is_a_refusal_in_every_protocol() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"});
    let events = read(Protocol::Gemini, &sse(std::slice::from_ref(&blocked)));
    let turn = fold(&events).unwrap();
    let whole = |to: Protocol| to.encode_response(&head(to), &turn);
    assert_eq!(whole(Protocol::AnthropicMessages)["stop_reason"], "refusal");
    assert_eq!(whole(Protocol::OpenaiChat)["choices"][0]["finish_reason"], "content_filter");
    assert_eq!(whole(Protocol::OpenaiResponses)["incomplete_details"]["reason"], "content_filter");
    let own = whole(Protocol::Gemini);
    assert_eq!((&own["promptFeedback"], own.get("candidates")), (&blocked["promptFeedback"], None));
    for to in Protocol::ALL {
        let again = fold(&read(to, &written(to, &events))).unwrap();
        assert!(matches!(again.stop, StopReason::Refusal | StopReason::ContentFilter), "{to}: {}", again.stop);
    }
}

#[test]
fn what_no_client_knows_is_told_in_words_that_it_knows() {
    let odd = json!({"candidates": [{"content": {"parts": [], "role": "model"}, "finishReason": "UNEXPECTED_TOOL_CALL"}], "modelVersion": "m"});
    let events = read(Protocol::Gemini, &sse(&[odd]));
    let turn = fold(&events).unwrap();
    let told = Protocol::AnthropicMessages.encode_response(&head(Protocol::AnthropicMessages), &turn);
    assert_eq!(told["stop_reason"], "end_turn");
    let told = Protocol::OpenaiChat.encode_response(&head(Protocol::OpenaiChat), &turn);
    assert_eq!(told["choices"][0]["finish_reason"], "stop");
    let left_out = placet_wire::left_out(Protocol::AnthropicMessages, &head(Protocol::AnthropicMessages), &turn);
    assert!(left_out.iter().any(|left| left.what.contains("UNEXPECTED_TOOL_CALL")), "{left_out:?}");
    // Nobody counted, and whoever is told of a count hears of that.
    assert!(left_out.iter().any(|left| left.what == "usage"), "{left_out:?}");
}

#[test]
fn an_answer_that_failed_says_so_in_words_of_its_protocol() {
    use placet_core::ErrorKind;
    let known = [
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "context_length_exceeded",
        "insufficient_quota",
        "server_is_overloaded",
    ];
    for kind in [
        ErrorKind::Unsupported,
        ErrorKind::Authentication,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::LimitReached,
        ErrorKind::Timeout,
        ErrorKind::ContentFiltered,
        ErrorKind::ContextLength,
        ErrorKind::QuotaExhausted,
        ErrorKind::Overloaded,
    ] {
        let failed = TurnEvent::Failed(Box::new(ProviderError::new(kind.clone(), "p".into(), "no")));
        let told = data(&written(Protocol::OpenaiResponses, &[failed]));
        let code = told.last().unwrap()["response"]["error"]["code"].as_str().unwrap().to_owned();
        assert!(known.contains(&code.as_str()), "{kind}: {code}");
    }
}
