#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::ListedModel;
use crate::answer::events_of;
use crate::fields::examples::PNG;
use crate::request::AnswerHead;
use placet_core::env::ManualClock;
use placet_core::hosted::{CodeInterpreter, HostedTool, WebSearch};
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::turn::{
    AllowedTools, CacheControl, CacheStrategy, OutputFormat, StateMode, TurnFinished, TurnStarted,
};
use placet_core::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

fn own() -> ProviderId {
    ProviderId::new("own")
}

fn env() -> Env {
    Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 3)
}

fn native(value: Value) -> Native {
    Native { provider: own(), value }
}

fn dialect() -> Dialect {
    Dialect { replay_reasoning: ReplayReasoning::Always, ..Dialect::new(own()) }
}

fn head() -> AnswerHead {
    AnswerHead {
        id: "chatcmpl-1".into(),
        model: "m".into(),
        created: 7,
        provider: own(),
        stream_usage: true,
        request: None,
    }
}

/// Decisions of a generator, out of what the property test gives.
struct Source<'a>(std::slice::Iter<'a, u16>);

impl Source<'_> {
    fn below(&mut self, n: u16) -> u16 {
        self.0.next().copied().unwrap_or(0) % n
    }
    fn one_in(&mut self, n: u16) -> bool {
        self.below(n) == n - 1
    }
    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.one_in(4) { Some(make(self)) } else { None }
    }
    fn text(&mut self) -> String {
        const TEXTS: [&str; 7] = ["a", "Hello", "two\nlines", "größe ☃", "\"quoted\" \\", "data: x", "\u{1}tab\t"];
        TEXTS[usize::from(self.below(7))].to_owned()
    }
    fn mark(&mut self) -> Option<CacheMark> {
        self.maybe(|source| CacheMark { ttl: source.maybe(|_| "30m".to_owned()) })
    }
}

fn media(source: MediaSource, mime: Option<&str>) -> Media {
    Media { mime_type: mime.map(str::to_owned), ..Media::new(source) }
}

fn user_part(source: &mut Source<'_>) -> Part {
    let inline = |text: &str| MediaSource::Inline(Inline { base64: text.into() });
    match source.below(8) {
        0 => Part::Image(Media {
            detail: source.maybe(|_| "low".into()),
            cache: source.mark(),
            ..media(inline(PNG), Some("image/png"))
        }),
        1 => Part::Image(media(MediaSource::Url(Url { url: "https://example.com/a.png".into() }), None)),
        2 => Part::Audio(media(inline("UklGRg=="), Some("audio/wav"))),
        3 => Part::File(Media { name: Some("a.pdf".into()), ..media(inline("JVBERi0="), Some("application/pdf")) }),
        4 => Part::File(media(MediaSource::ProviderFile(ProviderFile { provider: own(), id: "file_1".into() }), None)),
        5 => Part::Native(native(json!({"type": "odd", "x": 1}))),
        _ => Part::Text(Text {
            cache: source.mark(),
            native: source.maybe(|_| native(json!({"odd": 1}))),
            ..Text::new(source.text())
        }),
    }
}

/// A request in the form that decoding gives; with a little that cannot be expressed.
fn generate(choices: &[u16]) -> TurnRequest {
    let env = env();
    let mut source = Source(choices.iter());
    let s = &mut source;
    let item = |body: ItemBody| Arc::new(Item::new(env.new_id(), Origins::none(), body));
    let mut request = TurnRequest { model: "m-1".into(), ..TurnRequest::default() };
    request.instructions = s.maybe(|s| s.text().into());
    for n in 0..s.below(3) {
        let strict = s.maybe(|s| s.one_in(2));
        let mut tool = ToolDefinition::new(
            format!("tool_{n}"),
            s.text(),
            Schema::new(json!({"type": "object", "properties": {"p": {"type": "string"}}})),
            Effect::Once,
        );
        tool.strict = strict;
        tool.native = s.maybe(|_| native(json!({"odd": true})));
        if s.one_in(5) {
            let schema = json!({
                "type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
                "additionalProperties": false,
            });
            tool.schema = Schema::new(schema);
            tool.strict = None;
            tool.native = Some(native(json!({"type": "custom", "custom": {"format": {"type": "text"}}})));
        }
        request.tools.push(Arc::new(tool));
    }
    if let Some(first) = request.tools.first().map(|tool| tool.name.clone()) {
        request.tool_choice = match s.below(6) {
            0 => ToolChoice::Required,
            1 => ToolChoice::None,
            2 => ToolChoice::Tool(first),
            3 => ToolChoice::Allowed(AllowedTools { names: vec![first], required: s.one_in(2), hosted: false }),
            _ => ToolChoice::Auto,
        };
        request.controls.parallel_tool_calls = s.maybe(|s| s.one_in(2));
    }
    for round in 0..=s.below(4) {
        let parts: Vec<Part> = (0..=s.below(3)).map(|_| user_part(s)).collect();
        let name = s.maybe(|_| native(json!({"name": "bob"})));
        request.items.push(item(Message { role: Role::User, parts, native: name }.into()));
        if s.one_in(6) {
            let parts = vec![Part::text(s.text())];
            request.items.push(item(Message { role: Role::System, parts, native: None }.into()));
        }
        if s.one_in(3) {
            let state = if s.one_in(2) {
                json!({"field": "reasoning_content"})
            } else {
                json!({"field": "reasoning", "details": [{"type": "reasoning.text", "text": "x", "signature": "s"}]})
            };
            request.items.push(item(Reasoning { text: s.text(), native: Some(native(state)) }.into()));
        }
        if s.one_in(2) {
            let refusal = s.maybe(|_| native(json!({"refusal": "field"})));
            let parts = vec![Part::Text(Text { native: refusal, ..Text::new(s.text()) })];
            request.items.push(item(Message { role: Role::Assistant, parts, native: None }.into()));
        }
        let calls: Vec<ToolCall> = (0..s.below(3))
            .map(|n| {
                let custom = s.maybe(|_| native(json!({"type": "custom"})));
                let arguments =
                    if custom.is_some() { json!({"input": s.text()}) } else { json!({"p": s.text(), "n": 1.5}) };
                ToolCall {
                    id: env.new_id(),
                    provider_id: Some(format!("call_{round}_{n}")),
                    name: "tool_0".into(),
                    arguments: Arguments::from_text(arguments.to_string()),
                    native: custom.or_else(|| s.maybe(|_| native(json!({"extra_content": {"google": 1}})))),
                }
            })
            .collect();
        request.items.extend(calls.iter().cloned().map(|call| item(call.into())));
        for call in calls {
            let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, s.text());
            if s.one_in(4) {
                outcome.content =
                    vec![Part::Text(Text { cache: Some(CacheMark { ttl: None }), ..Text::new(s.text()) })];
            }
            request.items.push(item(
                ToolResult {
                    call: call.id,
                    provider_id: call.provider_id,
                    tool: call.name,
                    capability: None,
                    outcome,
                    native: s.maybe(|_| native(json!({"odd": 1}))),
                }
                .into(),
            ));
        }
    }
    let c = &mut request.controls;
    c.temperature = s.maybe(|s| f64::from(s.below(20)) / 10.0);
    c.top_p = s.maybe(|_| 0.25);
    c.top_k = s.maybe(|_| 40);
    c.seed = s.maybe(|s| s.below(900).into());
    c.max_output_tokens = s.maybe(|s| s.below(900).into());
    c.stop = s.maybe(|s| vec![s.text(), "END".into()]).unwrap_or_default();
    c.frequency_penalty = s.maybe(|_| -0.5);
    c.presence_penalty = s.maybe(|_| 0.5);
    c.top_logprobs = s.maybe(|s| s.below(4).into());
    c.reasoning_effort = s.maybe(|_| "low".into());
    c.verbosity = s.maybe(|_| "high".into());
    c.service_tier = s.maybe(|_| "flex".into());
    c.store = s.maybe(|s| s.one_in(2));
    c.modalities = s.maybe(|_| vec!["text".into(), "audio".into()]).unwrap_or_default();
    c.user = s.maybe(|s| s.text());
    c.metadata = s.maybe(|s| Map::from_iter([("k".to_owned(), Value::from(s.text()))])).unwrap_or_default();
    c.safety = s.maybe(|_| vec![native(json!({"moderation": {"model": "m"}}))]).unwrap_or_default();
    c.cache = s.maybe(|s| CacheControl {
        strategy: s.maybe(|s| if s.one_in(2) { CacheStrategy::Auto } else { CacheStrategy::Explicit }),
        key: Some(s.text()),
        ttl: s.maybe(|s| if s.one_in(2) { "24h".into() } else { "30m".into() }),
        content: None,
    });
    request.output = s.maybe(|s| {
        let (strict, is_any) = (s.one_in(2), s.one_in(3));
        let schema = if is_any { json!({"type": "object"}) } else { json!({"type": "object", "properties": {}}) };
        OutputFormat {
            name: "answer".into(),
            description: if is_any && !strict { None } else { s.maybe(|s| s.text()) },
            schema: Schema::new(schema),
            strict,
        }
    });
    if s.one_in(6) {
        request.hosted.push(HostedTool::WebSearch(WebSearch {
            context_size: s.maybe(|_| "low".into()),
            user_location: s.maybe(|_| json!({"type": "approximate", "country": "CH"})),
            ..WebSearch::default()
        }));
        // A choice of tools is none of the search.
        match &mut request.tool_choice {
            ToolChoice::Allowed(allowed) => allowed.hosted = true,
            choice @ ToolChoice::None => {
                *choice = ToolChoice::Allowed(AllowedTools { hosted: true, ..AllowedTools::default() });
            }
            _ => {}
        }
    }
    if s.one_in(6) {
        request.hosted.push(HostedTool::Raw(native(json!({"type": "own:search", "n": 1}))));
    }
    request.native =
        s.maybe(|_| native(json!({"logit_bias": {"1": 2}, "stream_options": {"include_obfuscation": false}})));
    // One that may not be used is not asked for.
    if s.one_in(60) && request.tool_choice.admits_hosted() {
        request.hosted.push(HostedTool::CodeInterpreter(CodeInterpreter::default()));
    }
    request
}

/// What is not carried: ids of ours, origins. Hosted tools with a field of their own come after those in the list of tools.
fn folded(request: &TurnRequest) -> TurnRequest {
    let mut request = request.clone();
    let env = env();
    let zero: ItemId = env.new_id();
    let mut ids: HashMap<CallId, CallId> = HashMap::new();
    for item in &mut request.items {
        let mut plain = Item::clone(item);
        plain.id = zero.clone();
        plain.origin = Origins::none();
        match &mut plain.body {
            ItemBody::ToolCall(call) => call.id = ids.entry(call.id.clone()).or_insert_with(|| env.new_id()).clone(),
            ItemBody::ToolResult(result) => {
                result.call = ids.entry(result.call.clone()).or_insert_with(|| env.new_id()).clone();
                result.outcome.origin = Origins::none();
            }
            _ => {}
        }
        *item = Arc::new(plain);
    }
    request.hosted.sort_by_key(|hosted| hosted.kind().to_owned());
    request
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..160)
}

#[test]
fn a_request_comes_back_as_it_went() {
    let (accepted, all) = (Cell::new(0u32), Cell::new(0u32));
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&choices(), |choices| {
        let request = generate(&choices);
        all.set(all.get() + 1);
        let Ok(encoded) = encode_request(&request, &dialect()) else { return Ok(()) };
        accepted.set(accepted.get() + 1);
        prop_assert_eq!(&encoded.omitted, &Vec::new());
        let decoded = decode_request(&encoded.body, &own(), &env()).unwrap();
        prop_assert!(decoded.stream && decoded.stream_usage);
        prop_assert_eq!(folded(&decoded.request), folded(&request), "{}", String::from_utf8_lossy(&encoded.body));
        // The client's body is left alone by an encoder that changes nothing.
        let same = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &dialect()).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&same.body).unwrap(), Value::clone(&decoded.body));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let (accepted, all) = (accepted.get(), all.get());
    eprintln!("chat requests: {accepted} of {all} accepted");
    assert!(accepted * 100 >= all * 95, "{accepted} of {all}");
}

/// A turn in the form that decoding gives.
fn turn(choices: &[u16]) -> Turn {
    let env = env();
    let mut source = Source(choices.iter());
    let s = &mut source;
    let mut items: Vec<ItemBody> = Vec::new();
    if s.one_in(3) {
        let mut state = json!({"field": "reasoning_content"});
        if s.one_in(2) {
            state["details"] = json!([{"type": "reasoning.text", "text": "x", "signature": "s"}]);
        }
        items.push(Reasoning { text: s.text(), native: Some(native(state)) }.into());
    }
    let mut stop = match s.below(6) {
        0 => StopReason::MaxTokens,
        1 => StopReason::ContentFilter,
        2 => StopReason::Refusal,
        _ => StopReason::End,
    };
    if s.one_in(2) || stop == StopReason::Refusal {
        let state = s.maybe(|_| native(json!({"annotations": [{"type": "url_citation"}]})));
        let state = state.filter(|_| stop != StopReason::Refusal);
        let parts = vec![Part::Text(Text { native: state, ..Text::new(s.text()) })];
        items.push(Message { role: Role::Assistant, parts, native: None }.into());
    }
    if stop != StopReason::Refusal {
        for n in 0..s.below(4) {
            let custom = s.maybe(|_| native(json!({"type": "custom"})));
            let arguments = if custom.is_some() { json!({"input": s.text()}) } else { json!({"p": s.text()}) };
            items.push(
                ToolCall {
                    id: env.new_id(),
                    provider_id: Some(format!("call_{n}")),
                    name: "tool_0".into(),
                    arguments: Arguments::from_text(arguments.to_string()),
                    native: custom.or_else(|| s.maybe(|_| native(json!({"extra_content": 1})))),
                }
                .into(),
            );
            if stop == StopReason::End {
                stop = StopReason::ToolCalls;
            }
        }
        if s.one_in(8) {
            let parts = vec![
                Part::text("said"),
                Part::Audio(Media::new(MediaSource::Inline(Inline { base64: "AAAA".into() }))),
                Part::Image(media(MediaSource::Inline(Inline { base64: PNG.into() }), Some("image/png"))),
            ];
            let url = format!("data:image/png;base64,{PNG}");
            let state = json!({
                "audio": {"id": "audio_1", "expires_at": 9},
                "images": [{"type": "image_url", "image_url": {"url": url}}],
            });
            items.push(Message { role: Role::Assistant, parts, native: Some(native(state)) }.into());
        }
        if s.one_in(8) {
            let other = json!({"finish_reason": "stop", "message": {"content": "also"}, "choice": 1});
            items.push(native(other).into());
        }
    }
    let usage = Usage {
        input: 10 + u64::from(s.below(90)),
        cache_read: s.below(9).into(),
        cache_write: s.below(9).into(),
        output: 20,
        reasoning: s.below(9).into(),
        ..Usage::default()
    };
    Turn {
        id: env.new_id(),
        model: Some("m".into()),
        response_id: Some("chatcmpl-1".into()),
        items: items.into_iter().map(|body| Arc::new(Item::new(env.new_id(), Origins::none(), body))).collect(),
        stop,
        usage: Some(usage),
        provider_state: None,
        service_tier: s.maybe(|_| "flex".into()),
        native: s.maybe(|_| {
            native(json!({
                "system_fingerprint": "fp",
                "choices": [{"odd": 1, "logprobs": {"content": [{"token": "a", "logprob": -0.5}]}, "message": {"odd": 2}}],
                "usage": {"cost": 0.5},
            }))
        }),
    }
}

fn encoded_stream(head: &AnswerHead, turn: &Turn) -> Vec<u8> {
    let mut encoder = encode_events(head.clone());
    let mut bytes = Vec::new();
    events_of(turn).iter().for_each(|event| encoder.push(event, &mut bytes));
    encoder.end(&mut bytes);
    bytes
}

fn decoded_stream(bytes: &[u8]) -> Turn {
    let mut decoder = decode_events(&Dialect::new(own()), Names::default());
    let mut events = Vec::new();
    decoder.push(bytes, &mut events);
    decoder.end(&mut events);
    fold(&events)
}

fn fold(events: &[TurnEvent]) -> Turn {
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    accumulator.finish(&own(), &env()).unwrap_or_else(|error| panic!("{error:?}"))
}

fn plain(turn: &Turn) -> Value {
    let bodies: Vec<Value> = turn
        .items
        .iter()
        .map(|item| {
            let mut body = serde_json::to_value(&item.body).unwrap();
            if item.body.kind() == "tool_call" {
                body["id"] = Value::Null;
            }
            body
        })
        .collect();
    let mut turn = serde_json::to_value(turn).unwrap();
    (turn["id"], turn["items"]) = (Value::Null, bodies.into());
    turn
}

#[test]
fn an_answer_comes_back_as_it_went() {
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&choices(), |choices| {
        let turn = turn(&choices);
        let bytes = encoded_stream(&head(), &turn);
        prop_assert_eq!(plain(&decoded_stream(&bytes)), plain(&turn), "{}", String::from_utf8_lossy(&bytes));
        let body = encode_response(&head(), &turn);
        let events = decode_response(&own(), Names::default(), body.to_string().as_bytes()).unwrap();
        prop_assert_eq!(plain(&fold(&events)), plain(&turn), "{}", body);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn a_plain_chunk_means_the_same_as_a_tree() {
    let pieces = prop_oneof![
        any::<u8>().prop_map(|n| json!({"content": format!("{n} \"ü\"\n")})),
        any::<bool>()
            .prop_map(|deep| json!({"reasoning_content": "hm", "content": if deep { Value::Null } else { "".into() }})),
        Just(json!({"reasoning": "hm", "role": "assistant", "refusal": null})),
        (0u8..3, any::<bool>(), any::<bool>()).prop_map(|(index, named, ided)| {
            let id = if ided { json!(format!("c{index}")) } else { Value::Null };
            let function =
                if named { json!({"name": "f", "arguments": ""}) } else { json!({"arguments": "{\"a\":1}"}) };
            json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
        }),
    ];
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&prop::collection::vec(pieces, 0..8), |deltas| {
        let stream = |is_plain: bool| {
            let mut text = String::new();
            for (n, delta) in deltas.iter().enumerate() {
                let mut chunk = json!({
                    "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "usage": null,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": null}],
                });
                if n == 1 {
                    chunk["system_fingerprint"] = "fp".into();
                    chunk["service_tier"] = "flex".into();
                }
                if !is_plain {
                    // Says nothing, and makes it no plain one.
                    chunk["strange"] = Value::Null;
                }
                assert_eq!(serde_json::from_str::<chunk::PlainChunk<'_>>(&chunk.to_string()).is_ok(), is_plain);
                text.push_str(&format!("data: {chunk}\n\n"));
            }
            text.push_str("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n");
            let mut decoder = decode_events(&Dialect::new(own()), Names::default());
            let mut events = Vec::new();
            decoder.push(text.as_bytes(), &mut events);
            decoder.end(&mut events);
            events
        };
        prop_assert_eq!(stream(true), stream(false));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

/// An answer of another provider, with everything that this protocol has no field for.
fn foreign_turn() -> Turn {
    let env = env();
    let theirs = |value: Value| Native { provider: "other".into(), value };
    let items: Vec<ItemBody> = vec![
        Reasoning { text: "First.".into(), native: Some(theirs(json!({"signature": "c2lnMQ=="}))) }.into(),
        Message {
            role: Role::Assistant,
            parts: vec![Part::Text(Text { native: Some(theirs(json!({"citations": [1]}))), ..Text::new("Größe: ") })],
            native: None,
        }
        .into(),
        HostedCall { provider: "other".into(), kind: "search".into(), value: json!({"q": 1}) }.into(),
        Reasoning { text: String::new(), native: Some(theirs(json!({"redacted": "x"}))) }.into(),
        Message { role: Role::Assistant, parts: vec![Part::text("five.")], native: None }.into(),
        ToolCall {
            id: env.new_id(),
            provider_id: Some("toolu_1".into()),
            name: "f".into(),
            arguments: Arguments::from_text("{}"),
            native: Some(theirs(json!({"thoughtSignature": "c2lnMg=="}))),
        }
        .into(),
        theirs(json!({"type": "odd"})).into(),
    ];
    Turn {
        id: env.new_id(),
        model: Some("m".into()),
        response_id: Some("r".into()),
        items: items.into_iter().map(|body| Arc::new(Item::new(env.new_id(), Origins::none(), body))).collect(),
        stop: StopReason::ToolCalls,
        usage: None,
        provider_state: None,
        service_tier: None,
        native: None,
    }
}

/// The client sends back what it got, with the result of the call.
fn next_request(message: &Value) -> TurnRequest {
    let body = json!({"model": "m", "messages": [
        {"role": "user", "content": "go"}, message, {"role": "tool", "tool_call_id": "toolu_1", "content": "done"},
    ]});
    decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap().request
}

fn bodies(items: &[Arc<Item>]) -> Vec<Value> {
    let bodies = items.iter().map(|item| {
        let mut body = serde_json::to_value(&item.body).unwrap();
        if item.body.kind() == "tool_call" {
            body["id"] = Value::Null;
        }
        body
    });
    bodies.collect()
}

#[test]
fn state_of_another_provider_travels_through_a_client_and_keeps_its_place() {
    let turn = foreign_turn();
    let body = encode_response(&head(), &turn);
    let message = &body["choices"][0]["message"];
    assert_eq!(message["content"], "Größe: five.");
    assert_eq!(message["reasoning_content"], "First.");
    let request = next_request(message);
    assert_eq!(bodies(&request.items[1..8]), bodies(&turn.items));
    assert!(matches!(&request.items[8].body, ItemBody::ToolResult(result) if result.tool.as_str() == "f"));
    // Nobody else is sent any of it.
    let encoded = encode_request(&request, &dialect()).unwrap();
    assert!(!String::from_utf8_lossy(&encoded.body).contains("placet1."));
    let told: Vec<&str> = encoded.omitted.iter().map(|omission| omission.what.as_str()).collect();
    assert_eq!(told, ["hosted_call", "native_item", "reasoning", "text.native", "tool_call.native"]);
}

#[test]
fn a_text_that_the_client_changed_stays_whole_beside_the_state() {
    let body = encode_response(&head(), &foreign_turn());
    let mut message = body["choices"][0]["message"].clone();
    message["content"] = "Changed.".into();
    let request = next_request(&message);
    let kinds: Vec<&str> = request.items.iter().map(|item| item.body.kind()).collect();
    let wanted = ["message", "reasoning", "message", "hosted_call", "reasoning", "tool_call", "native", "tool_result"];
    assert_eq!(kinds, wanted);
    assert!(matches!(&request.items[2].body, ItemBody::Message(message) if message.text() == "Changed."));
}

#[test]
fn a_result_whose_call_is_missing_is_kept() {
    let body = json!({"model": "m", "messages": [{"role": "tool", "tool_call_id": "c9", "content": "x"}]});
    let decoded = decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap();
    let ItemBody::ToolResult(result) = &decoded.request.items[0].body else { panic!("a result") };
    assert_eq!((result.tool.as_str(), result.provider_id.as_deref()), ("c9", Some("c9")));
    let same = encode_request_onto(&body, &decoded.request, &decoded.request, &Dialect { stream: false, ..dialect() });
    assert_eq!(serde_json::from_slice::<Value>(&same.unwrap().body).unwrap(), body);
}

#[test]
fn functions_of_old_are_tools() {
    let body = json!({
        "model": "m", "functions": [{"name": "f", "parameters": {"type": "object", "properties": {}}}],
        "function_call": {"name": "f"},
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "x"},
        ],
    });
    let request = decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap().request;
    assert_eq!(request.tool_choice, ToolChoice::Tool("f".into()));
    let (ItemBody::ToolCall(call), ItemBody::ToolResult(result)) = (&request.items[1].body, &request.items[2].body)
    else {
        panic!("a call and its result")
    };
    assert_eq!(call.id, result.call);
}

#[test]
fn what_is_no_request_is_told_with_its_place() {
    let user = json!([{"role": "user", "content": "x"}]);
    for (body, field) in [
        (json!([]), None),
        (json!({"messages": user}), Some("model")),
        (json!({"model": "m"}), Some("messages")),
        (json!({"model": "m", "messages": [1]}), Some("messages[0]")),
        (json!({"model": "m", "messages": [{"role": "nobody"}]}), Some("messages[0].role")),
        (
            json!({"model": "m", "messages": [{"role": "user", "content": [{"text": "x"}]}]}),
            Some("messages[0].content[0].type"),
        ),
        (json!({"model": "m", "messages": user, "temperature": "hot"}), Some("temperature")),
        (json!({"model": "m", "messages": user, "tools": [{"type": "function"}]}), Some("tools[0].function")),
        (json!({"model": "m", "messages": user, "tool_choice": "perhaps"}), Some("tool_choice")),
    ] {
        let error = decode_request(body.to_string().as_bytes(), &own(), &env()).unwrap_err();
        assert_eq!((error.kind, error.field.as_deref()), (ErrorKind::InvalidRequest, field), "{body}");
    }
    let error = decode_request(b"{\"model\": ", &own(), &env()).unwrap_err();
    assert!(error.problem.contains("line 1"), "{}", error.problem);
}

proptest! {
    #[test]
    fn any_body_is_taken_or_refused(text in "[\\[\\]{}\",:a-z0-9 ]{0,80}", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let _ = decode_request(text.as_bytes(), &own(), &env());
        let _ = decode_request(&bytes, &own(), &env());
        let _ = decode_embedding_request(&bytes);
        let _ = decode_embeddings(&own(), &bytes);
    }
}

#[test]
fn errors_say_their_kind_again() {
    let words = [
        "invalid_request",
        "wiring",
        "authentication",
        "permission",
        "not_found",
        "conflict",
        "rate_limited",
        "quota_exhausted",
        "overloaded",
        "unavailable",
        "timeout",
        "network",
        "interrupted",
        "cancelled",
        "unsupported",
        "context_length",
        "content_filtered",
        "protocol",
        "limit_reached",
        "storage",
        "internal",
    ];
    for word in words {
        let kind = ErrorKind::from(word);
        assert!(!matches!(kind, ErrorKind::Other(_)), "{word}");
        let error = ProviderError::new(kind.clone(), own(), "it went wrong");
        let (status, body) = encode_error(&error);
        let read = decode_error(&own(), status, &http::HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!(read.message, "it went wrong");
        let mut bytes = Vec::new();
        encode_error_event(&error, &mut bytes);
        let mut decoder = decode_events(&Dialect::new(own()), Names::default());
        let mut events = Vec::new();
        decoder.push(&bytes, &mut events);
        let [TurnEvent::Failed(streamed)] = events.as_slice() else { panic!("{events:?}") };
        // What is a fault of ours, or of the way to the provider, is an unavailable server to a client.
        let ours = [
            ErrorKind::Network,
            ErrorKind::Interrupted,
            ErrorKind::Protocol,
            ErrorKind::Internal,
            ErrorKind::Storage,
            ErrorKind::Wiring,
        ];
        if ours.contains(&kind) {
            assert_eq!((&read.kind, &streamed.kind), (&ErrorKind::Unavailable, &ErrorKind::Unavailable), "{kind}");
        } else if !matches!(kind, ErrorKind::LimitReached | ErrorKind::Cancelled | ErrorKind::Conflict) {
            assert_eq!((&read.kind, &streamed.kind), (&kind, &kind), "{kind}");
        }
    }
}

#[test]
fn embeddings_come_back_in_both_forms() {
    use placet_core::embedding::{EmbeddingRequest, Embeddings};
    let embeddings = Embeddings {
        model: Some("e".into()),
        vectors: vec![vec![0.1, -2.5], vec![f32::MIN_POSITIVE, 3.0]],
        usage: Some(Usage { input: 4, ..Usage::default() }),
    };
    for base64 in [true, false] {
        let body = encode_embeddings(&embeddings, "e", base64);
        assert_eq!(decode_embeddings(&own(), body.to_string().as_bytes()).unwrap(), embeddings);
    }
    let request = EmbeddingRequest {
        model: "e".into(),
        inputs: vec!["a".into(), "b".into()],
        dimensions: Some(2),
        task: None,
        extra: Map::from_iter([("user".to_owned(), Value::from("u"))]),
    };
    let encoded = encode_embedding_request(&request).unwrap();
    let decoded = decode_embedding_request(&encoded.body).unwrap();
    assert_eq!((decoded.request, decoded.base64), (request.clone(), false));
    let told = encode_embedding_request(&EmbeddingRequest { task: Some("query".into()), ..request }).unwrap();
    assert_eq!(told.omitted.len(), 1);
    for tokens in [json!([1, 2]), json!([[1], [2]])] {
        let body = json!({"model": "e", "input": tokens}).to_string();
        assert_eq!(decode_embedding_request(body.as_bytes()).unwrap_err().kind, ErrorKind::Unsupported);
    }
}

#[test]
fn a_list_of_models_comes_back() {
    let models = vec![
        ListedModel { id: "a".into(), description: None },
        ListedModel { id: "b".into(), description: Some("Larger.".into()) },
    ];
    let body = encode_models(&models);
    assert_eq!(decode_models(&own(), body.to_string().as_bytes()).unwrap(), models);
    assert!(["id", "created", "object", "owned_by"].iter().all(|key| !body["data"][0][key].is_null()));
}

#[test]
fn an_answer_of_a_custom_tool_of_the_client_is_a_text_whoever_wrote_it() {
    let request = json!({"tools": [{"type": "custom", "custom": {"name": "shout"}}]});
    let head = AnswerHead { request: Some(Arc::new(request)), ..head() };
    let mut encoder = encode_events(head);
    let mut bytes = Vec::new();
    let call = |name: Option<&str>, arguments: &str| {
        TurnEvent::Call(turn::CallDelta {
            index: 1,
            name: name.map(str::to_owned),
            arguments: arguments.into(),
            ..turn::CallDelta::default()
        })
    };
    for event in [
        TurnEvent::Started(TurnStarted::default()),
        call(Some("shout"), "{\"inp"),
        call(None, "ut\":\"a \\\"b\\\"\"}"),
        TurnEvent::Finished(TurnFinished::new(StopReason::ToolCalls)),
    ] {
        encoder.push(&event, &mut bytes);
    }
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\"type\":\"custom\",\"custom\":{\"name\":\"shout\",\"input\":\"\"}"), "{text}");
    assert!(text.contains("\"custom\":{\"input\":\"a \\\"b\\\"\"}"), "{text}");
}

#[test]
fn the_state_mode_without_retention_says_so() {
    let mut request = TurnRequest { model: "m".into(), ..TurnRequest::default() };
    request.controls.state = Some(StateMode::ZeroRetention);
    request.controls.store = Some(true);
    let body: Value = serde_json::from_slice(&encode_request(&request, &dialect()).unwrap().body).unwrap();
    assert_eq!(body["store"], false);
}
