#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::Encoded;
use placet_core::item::{Message, Reasoning};
use placet_core::part::{Inline, Media, MediaSource, Native, Url};
use placet_core::turn::{Controls, OutputFormat};
use placet_core::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn dialect() -> Dialect {
    Dialect::new(ProviderId::new("test"))
}

fn item(body: impl Into<ItemBody>) -> Arc<Item> {
    Arc::new(Item::new(ItemId::parse("item_1").unwrap(), Origins::none(), body))
}

fn said(role: Role, text: &str) -> Arc<Item> {
    item(Message { role, parts: vec![Part::text(text)], native: None })
}

fn call(id: &str, provider_id: Option<&str>, name: &str, arguments: &str) -> Arc<Item> {
    item(ToolCall {
        id: CallId::parse(id).unwrap(),
        provider_id: provider_id.map(str::to_owned),
        name: name.into(),
        arguments: Arguments::from_text(arguments),
        native: None,
    })
}

fn result(id: &str, text: &str) -> Arc<Item> {
    item(ToolResult {
        call: CallId::parse(id).unwrap(),
        provider_id: None,
        tool: "f".into(),
        capability: None,
        outcome: Outcome::new(Status::Completed, Stage::Execute, None, text),
        native: None,
    })
}

fn request(items: Vec<Arc<Item>>) -> TurnRequest {
    TurnRequest { model: "m".into(), items, ..TurnRequest::default() }
}

fn tool(name: &str) -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: name.into(),
        description: "d".into(),
        schema: Schema::empty_object(),
        effect: Effect::Read,
        revision_argument: None,
        strict: Some(true),
        cache: None,
        native: None,
    })
}

fn encode(request: &TurnRequest, dialect: &Dialect) -> (Value, Encoded) {
    let encoded = encode_request(request, dialect).unwrap_or_else(|error| panic!("{error}"));
    (serde_json::from_slice(&encoded.body).unwrap(), encoded)
}

fn messages(request: &TurnRequest) -> Value {
    encode(request, &dialect()).0["messages"].clone()
}

fn refusal(request: &TurnRequest, dialect: &Dialect) -> ProviderError {
    encode_request(request, dialect).expect_err("a refusal")
}

#[test]
fn a_plain_question() {
    let mut request = request(vec![said(Role::User, "Hello")]);
    request.instructions = Some("Be brief.".into());
    let encoded = encode_request(&request, &dialect()).unwrap();
    assert_eq!(
        String::from_utf8_lossy(&encoded.body),
        "{\"model\":\"m\",\"stream\":true,\"stream_options\":{\"include_usage\":true},\"messages\":[\
         {\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Hello\"}]}"
    );
    assert!(encoded.omitted.is_empty() && encoded.names.is_empty());
    let openai = Dialect { operator: OperatorRole::Developer, stream: false, ..dialect() };
    let (body, _) = encode(&request, &openai);
    assert_eq!(body["messages"][0]["role"], "developer");
    assert_eq!(body.get("stream"), None);
}

#[test]
fn a_round_is_one_message_and_its_results_in_the_order_of_the_calls() {
    let wanted = json!([
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "Looking.", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": "two"},
        {"role": "user", "content": "and now?"}
    ]);
    let (go, text, now) = (said(Role::User, "go"), said(Role::Assistant, "Looking."), said(Role::User, "and now?"));
    let (f, g) = (call("call_1", Some("a"), "f", "{\"x\":1}"), call("call_2", None, "g", ""));
    let (one, two) = (result("call_1", "one"), result("call_2", "two"));
    for order in [
        vec![&go, &text, &f, &g, &one, &two, &now],
        vec![&go, &text, &f, &g, &two, &one, &now],
        vec![&go, &f, &text, &g, &two, &one, &now],
        vec![&go, &text, &f, &g, &now, &one, &two],
    ] {
        let request = request(order.into_iter().cloned().collect());
        assert_eq!(messages(&request), wanted);
    }
}

#[test]
fn ids_are_unique_within_the_conversation() {
    let long = "x".repeat(60);
    let mut items = vec![said(Role::User, "go")];
    for (ours, theirs) in [("call_1", "same"), ("call_2", "same"), ("call_3", ""), ("call_4", long.as_str())] {
        items.push(call(ours, Some(theirs), "f", "null"));
        items.push(result(ours, "ok"));
    }
    let messages = messages(&request(items));
    let ids: Vec<&str> = messages.as_array().unwrap().iter().filter_map(|form| form["tool_call_id"].as_str()).collect();
    assert_eq!(ids, ["same", "call_2", "call_3", "call_4"]);
}

#[test]
fn broken_rounds_are_refused() {
    let lonely = request(vec![said(Role::User, "go"), call("call_1", None, "f", "{}")]);
    let error = refusal(&lonely, &dialect());
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("call_1"), "{error}");
    let orphan = request(vec![said(Role::User, "go"), result("call_9", "x")]);
    assert!(refusal(&orphan, &dialect()).message.contains("call_9"));
}

#[test]
fn tools_stand_before_the_messages_and_adding_one_appends() {
    let mut request = request(vec![said(Role::User, "go")]);
    request.tools = vec![tool("crm.lookup"), tool("read")];
    let (body, encoded) = encode(&request, &dialect());
    let sent = body["tools"][0]["function"]["name"].as_str().unwrap();
    assert_eq!(encoded.names.original(sent).as_str(), "crm.lookup");
    assert_eq!(body["tools"][1]["function"]["name"], "read");
    request.tools.push(tool("crm_lookup"));
    let more = encode(&request, &dialect()).1;
    let end = encoded.body.windows(2).position(|pair| pair == b"}]").unwrap();
    assert_eq!(encoded.body[..end], more.body[..end]);
    assert_eq!(encode(&request, &dialect()).1.body, more.body);
}

#[test]
fn a_choice_is_expressed_or_refused() {
    let mut request = request(vec![said(Role::User, "go")]);
    request.tools = vec![tool("a.b")];
    let careless = Dialect { forced_choice: false, parallel_calls: false, strict_tools: false, ..dialect() };
    for (choice, sent) in [
        (ToolChoice::Auto, json!(null)),
        (ToolChoice::Required, json!("required")),
        (ToolChoice::None, json!("none")),
        (ToolChoice::Tool("a.b".into()), json!({"type": "function", "function": {"name": crate::names::alias("a.b")}})),
    ] {
        request.tool_choice = choice.clone();
        assert_eq!(encode(&request, &dialect()).0.get("tool_choice").cloned().unwrap_or_default(), sent);
        if choice.is_forced() {
            assert_eq!(refusal(&request, &careless).kind, ErrorKind::Unsupported);
        } else {
            let (body, encoded) = encode(&request, &careless);
            assert_eq!(body.get("tools").is_some(), choice == ToolChoice::Auto);
            assert_eq!(encoded.omitted.len(), usize::from(choice == ToolChoice::Auto), "strict is reported");
        }
    }
    request.tool_choice = ToolChoice::Tool("c".into());
    assert_eq!(refusal(&request, &dialect()).kind, ErrorKind::InvalidRequest);
    request.tool_choice = ToolChoice::Auto;
    request.controls.parallel_tool_calls = Some(false);
    assert_eq!(encode(&request, &dialect()).0["parallel_tool_calls"], false);
    assert_eq!(refusal(&request, &careless).kind, ErrorKind::Unsupported);
    request.tools.clear();
    request.tool_choice = ToolChoice::Required;
    assert_eq!(refusal(&request, &dialect()).kind, ErrorKind::InvalidRequest);
}

#[test]
fn hints_are_left_out_and_told_constraints_are_kept() {
    let mut request = request(vec![said(Role::User, "go")]);
    request.controls = Controls {
        temperature: Some(0.5),
        top_p: Some(0.9),
        max_output_tokens: Some(10),
        stop: vec!["END".into()],
        parallel_tool_calls: None,
        reasoning_effort: Some("low".into()),
        seed: Some(1),
        ..Controls::default()
    };
    let (body, encoded) = encode(&request, &dialect());
    assert!(encoded.omitted.is_empty());
    assert_eq!(body["temperature"], 0.5);
    assert_eq!((&body["max_tokens"], &body["stop"]), (&json!(10), &json!(["END"])));
    let small = Dialect {
        sampling: false,
        seed: false,
        reasoning_effort: false,
        output_limit: OutputLimit::MaxCompletionTokens,
        ..dialect()
    };
    let (body, encoded) = encode(&request, &small);
    let told: Vec<&str> = encoded.omitted.iter().map(|omission| omission.what.as_str()).collect();
    assert_eq!(told, ["temperature", "top_p", "seed", "reasoning_effort"]);
    assert!(told.iter().all(|field| body.get(field).is_none()));
    assert_eq!((&body["max_completion_tokens"], &body["stop"]), (&json!(10), &json!(["END"])));
}

#[test]
fn the_shape_of_the_answer_is_a_constraint_where_it_is_strict() {
    let mut request = request(vec![said(Role::User, "go")]);
    let schema = Schema::new(json!({"type": "object", "properties": {}}));
    for strict in [true, false] {
        request.output =
            Some(OutputFormat { name: "answer".into(), schema: schema.clone(), strict, description: None });
        let (body, _) = encode(&request, &dialect());
        assert_eq!(
            body["response_format"],
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {}}, "strict": strict}})
        );
        for output in [OutputSupport::Object, OutputSupport::None] {
            let dialect = Dialect { output, ..dialect() };
            if strict || output == OutputSupport::None {
                // That it is JSON is no hint either.
                assert_eq!(refusal(&request, &dialect).kind, ErrorKind::Unsupported);
            } else {
                let (body, encoded) = encode(&request, &dialect);
                assert_eq!(body["response_format"], json!({"type": "json_object"}));
                assert_eq!(encoded.omitted.len(), 1);
            }
        }
    }
}

fn media(source: MediaSource, mime: Option<&str>) -> Media {
    Media { source, mime_type: mime.map(str::to_owned), name: None, detail: None, cache: None, native: None }
}

fn user(parts: Vec<Part>) -> TurnRequest {
    request(vec![item(Message { role: Role::User, parts, native: None })])
}

#[test]
fn media_is_written_in_its_form() {
    let inline = || MediaSource::Inline(Inline { base64: "AAAA".into() });
    let link = MediaSource::Url(Url { url: "https://h/x.png".into() });
    let parts = vec![
        Part::text("see"),
        Part::Image(Media { detail: Some("low".into()), ..media(link, None) }),
        Part::Image(media(inline(), Some("image/png"))),
        Part::Audio(media(inline(), Some("audio/wav"))),
        Part::File(Media { name: Some("a.pdf".into()), ..media(inline(), Some("application/pdf")) }),
        Part::Native(Native { provider: "test".into(), value: json!({"type": "own"}) }),
    ];
    assert_eq!(
        messages(&user(parts))[0]["content"],
        json!([
            {"type": "text", "text": "see"},
            {"type": "image_url", "image_url": {"url": "https://h/x.png", "detail": "low"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}},
            {"type": "own"}
        ])
    );
}

#[test]
fn content_that_cannot_be_expressed_is_refused() {
    let inline = || MediaSource::Inline(Inline { base64: "AAAA".into() });
    let link = || MediaSource::Url(Url { url: "https://h/x".into() });
    let unknown: Part = serde_json::from_value(json!({"type": "hologram"})).unwrap();
    let blind = Dialect { images: false, audio: false, files: false, ..dialect() };
    for (part, dialect) in [
        (Part::Image(media(inline(), None)), dialect()),
        (Part::Audio(media(link(), Some("audio/wav"))), dialect()),
        (Part::Audio(media(inline(), Some("audio/flac"))), dialect()),
        (Part::File(media(link(), None)), dialect()),
        (unknown, dialect()),
        (Part::Image(media(link(), None)), blind.clone()),
        (Part::Audio(media(inline(), Some("audio/wav"))), blind.clone()),
        (Part::File(media(inline(), None)), blind),
    ] {
        let error = refusal(&user(vec![Part::text("x"), part]), &dialect);
        assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
    }
    let mut pictured = Outcome::new(Status::Completed, Stage::Execute, None, "a");
    pictured.content.push(Part::Image(media(link(), None)));
    let answer = ToolResult {
        call: CallId::parse("call_1").unwrap(),
        provider_id: None,
        tool: "f".into(),
        capability: None,
        outcome: pictured,
        native: None,
    };
    let request = request(vec![call("call_1", None, "f", "{}"), item(answer)]);
    assert!(refusal(&request, &dialect()).message.contains("image"));
}

fn thought(provider: &str, text: &str, value: Value) -> Arc<Item> {
    item(Reasoning { text: text.into(), native: Some(Native { provider: provider.into(), value }) })
}

#[test]
fn thinking_goes_back_to_where_it_came_from_and_nowhere_else() {
    let details = json!([{"type": "reasoning.encrypted", "data": "AA"}]);
    let value = json!({"field": "reasoning", "details": details});
    let round = |provider: &str| {
        request(vec![
            said(Role::User, "go"),
            thought(provider, "hm", value.clone()),
            call("call_1", None, "f", "{}"),
            result("call_1", "x"),
            thought(provider, "so", value.clone()),
            said(Role::Assistant, "done"),
            said(Role::User, "and?"),
        ])
    };
    let with = |replay| Dialect { replay_reasoning: replay, ..dialect() };
    let thoughts = |replay| {
        let (body, _) = encode(&round("test"), &with(replay));
        body["messages"].as_array().unwrap().iter().filter_map(|form| form["reasoning"].as_str()).collect::<String>()
    };
    assert_eq!(thoughts(ReplayReasoning::Always), "hmso");
    assert_eq!(thoughts(ReplayReasoning::ToolTurns), "hm");
    assert_eq!(thoughts(ReplayReasoning::Never), "");
    let (body, _) = encode(&round("test"), &dialect());
    assert_eq!(body["messages"][1]["reasoning_details"], details);
    let (body, encoded) = encode(&round("other"), &with(ReplayReasoning::Always));
    assert!(!body.to_string().contains("hm"));
    assert_eq!(encoded.omitted.len(), 1);
}

#[test]
fn state_of_a_call_goes_back_with_it() {
    for (provider, is_sent) in [("test", true), ("other", false)] {
        let native = Native { provider: provider.into(), value: json!({"extra_content": {"signature": "s"}}) };
        let signed = item(ToolCall {
            id: CallId::parse("call_1").unwrap(),
            provider_id: None,
            name: "f".into(),
            arguments: Arguments::from_text("{}"),
            native: Some(native),
        });
        let (body, encoded) = encode(&request(vec![signed, result("call_1", "x")]), &dialect());
        assert_eq!(body["messages"][0]["tool_calls"][0].get("extra_content").is_some(), is_sent);
        assert_eq!(encoded.omitted.is_empty(), is_sent);
    }
}

#[test]
fn fields_of_the_providers_own_are_merged_last() {
    let mut request = request(vec![said(Role::User, "go")]);
    request.extra.insert("model".into(), json!("other"));
    request.extra.insert("metadata".into(), json!({"a": 1}));
    let encoded = encode_request(&request, &dialect()).unwrap();
    let text = String::from_utf8(encoded.body.to_vec()).unwrap();
    assert_eq!(text.matches("\"model\"").count(), 1);
    let body: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&body["model"], &body["metadata"]), (&json!("other"), &json!({"a": 1})));
}

#[test]
fn state_of_another_provider_is_left_out_and_told() {
    let mut request = request(vec![
        said(Role::User, "go"),
        item(Native { provider: "other".into(), value: json!({"x": 1}) }),
        item(Native { provider: "test".into(), value: json!({"role": "assistant", "content": "own"}) }),
    ]);
    request.provider_state = Some(ProviderState { provider: "other".into(), value: json!(1) });
    let (body, encoded) = encode(&request, &dialect());
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "own"}));
    let told: Vec<&str> = encoded.omitted.iter().map(|omission| omission.what.as_str()).collect();
    assert_eq!(told, ["native_item", "provider_state"]);
}

#[test]
fn a_conversation_that_goes_on_keeps_its_beginning_byte_for_byte() {
    let mut request = request(vec![said(Role::User, "go")]);
    request.instructions = Some("Be brief.".into());
    request.tools = vec![tool("a.b"), tool("c")];
    let mut before = encode(&request, &dialect()).1.body;
    for round in 0..4 {
        let id = format!("call_{round}");
        // A provider that uses one id for all its calls changes nothing about it.
        request.items.extend([call(&id, Some("same"), "a.b", ""), result(&id, "x")]);
        if round == 2 {
            request.items.push(said(Role::User, "and?"));
        }
        let body = encode(&request, &dialect()).1.body;
        assert!(body.starts_with(before.strip_suffix(b"]}").unwrap()), "round {round}");
        before = body;
    }
}
