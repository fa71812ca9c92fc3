#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::answer_whole::state_first;
use super::*;
use crate::events_of;
use crate::fields::examples::PNG;
use placet_core::env::ManualClock;
use placet_core::hosted::{CodeInterpreter, HostedOptions, HostedTool, RemoteMcp, WebFetch, WebSearch};
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::turn::{AllowedTools, CacheControl, CacheStrategy, Compaction, OutputFormat};
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

fn object(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
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

fn inline(text: &str) -> MediaSource {
    MediaSource::Inline(Inline { base64: text.into() })
}

fn user_part(s: &mut Source<'_>) -> Part {
    let held = || MediaSource::ProviderFile(ProviderFile { provider: own(), id: "file_1".into() });
    match s.below(9) {
        0 => Part::Image(Media {
            detail: s.maybe(|_| "low".into()),
            cache: s.mark(),
            native: s.maybe(|_| native(json!({"odd": 1}))),
            ..media(inline(PNG), Some("image/png"))
        }),
        1 => Part::Image(media(MediaSource::Url(Url { url: "https://example.com/a.png".into() }), None)),
        2 => Part::Image(media(held(), None)),
        3 => Part::Image(media(inline(PNG), Some("image/png"))),
        4 => Part::File(Media {
            name: s.maybe(|_| "a.pdf".into()),
            ..media(inline("JVBERi0="), Some("application/pdf"))
        }),
        5 => Part::File(media(MediaSource::Url(Url { url: "https://example.com/a.pdf".into() }), None)),
        6 => Part::Native(native(json!({"type": "odd", "x": 1}))),
        _ => {
            Part::Text(Text { cache: s.mark(), native: s.maybe(|_| native(json!({"odd": 1}))), ..Text::new(s.text()) })
        }
    }
}

fn function(name: String, s: &mut Source<'_>) -> ToolDefinition {
    let schema = Schema::new(json!({"type": "object", "properties": {"p": {"type": "string"}}}));
    let mut tool = ToolDefinition::new(name, s.text(), schema, Effect::Once);
    tool.strict = Some(s.one_in(2));
    tool.native = s.maybe(|_| native(json!({"defer_loading": true})));
    tool
}

fn custom(name: String, s: &mut Source<'_>) -> ToolDefinition {
    let schema = json!({
        "type": "object", "properties": {"input": {"type": "string", "description": "The whole input, as free text."}},
        "required": ["input"], "additionalProperties": false,
    });
    let mut tool = ToolDefinition::new(name, s.text(), Schema::new(schema), Effect::Once);
    tool.native = Some(native(json!({"type": "custom", "format": {"type": "text"}})));
    tool
}

fn hosted_tool(s: &mut Source<'_>) -> HostedTool {
    let options =
        |s: &mut Source<'_>| HostedOptions { extra: s.maybe(|_| object(json!({"odd": 1}))).unwrap_or_default() };
    match s.below(11) {
        0 => HostedTool::WebSearch(WebSearch {
            allowed_domains: s.maybe(|_| vec!["example.com".into()]).unwrap_or_default(),
            context_size: s.maybe(|_| "low".into()),
            user_location: s.maybe(|_| json!({"type": "approximate", "country": "CH"})),
            extra: s.maybe(|_| object(json!({"external_web_access": true}))).unwrap_or_default(),
            ..WebSearch::default()
        }),
        // What the client runs, and what works on things that the provider holds, stays in the provider's words.
        1 => {
            HostedTool::Raw(native(json!({"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 3})))
        }
        2 => HostedTool::Raw(native(json!({"type": "code_interpreter", "container": "cntr_1"}))),
        3 => HostedTool::CodeInterpreter(CodeInterpreter::default()),
        4 => HostedTool::Raw(native(json!({"type": "computer"}))),
        5 => HostedTool::RemoteMcp(RemoteMcp {
            label: "crm".into(),
            url: Some("https://mcp.example".into()),
            authorization: s.maybe(|s| s.text()),
            allowed_tools: s.maybe(|_| vec!["a".into()]).unwrap_or_default(),
            require_approval: s.maybe(|_| json!("never")),
            extra: s.maybe(|_| object(json!({"server_description": "x"}))).unwrap_or_default(),
            ..RemoteMcp::default()
        }),
        6 => HostedTool::Raw(native(json!({"type": "shell", "environment": {"type": "local"}}))),
        7 => HostedTool::Raw(native(json!({"type": "apply_patch"}))),
        8 => HostedTool::ImageGeneration(options(s)),
        9 => HostedTool::ToolSearch(options(s)),
        _ => HostedTool::Raw(native(json!({"type": "x_search", "n": 1}))),
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
        let name = format!("tool_{n}");
        let tool = if s.one_in(5) { custom(name, s) } else { function(name, s) };
        request.tools.push(Arc::new(tool));
    }
    if s.one_in(5) {
        for n in 0..2 {
            let mut tool = function(format!("space__tool_{n}"), s);
            let mut value = tool.native.map(|native| object(native.value)).unwrap_or_default();
            value.insert("namespace".into(), json!({"name": "space", "description": "Some."}));
            value.insert("name".into(), format!("tool_{n}").into());
            tool.native = Some(native(value.into()));
            request.tools.push(Arc::new(tool));
        }
    }
    let first = request.tools.first().map(|tool| (tool.name.clone(), tool.strict.is_none()));
    if let Some((first, _)) = first.clone() {
        request.tool_choice = match s.below(6) {
            0 => ToolChoice::Required,
            1 => ToolChoice::None,
            2 => ToolChoice::Tool(first),
            3 => ToolChoice::Allowed(AllowedTools { names: vec![first], required: s.one_in(2), hosted: false }),
            _ => ToolChoice::Auto,
        };
        request.controls.parallel_tool_calls = s.maybe(|s| s.one_in(2));
    }
    let (called, is_custom) = first.unwrap_or_else(|| ("gone".into(), false));
    for round in 0..=s.below(4) {
        let parts: Vec<Part> = (0..=s.below(3)).map(|_| user_part(s)).collect();
        let name = s.maybe(|_| native(json!({"name": "bob"})));
        request.items.push(item(Message { role: Role::User, parts, native: name }.into()));
        if s.one_in(6) {
            let parts = vec![Part::text(s.text())];
            request.items.push(item(Message { role: Role::System, parts, native: None }.into()));
        }
        if s.one_in(6) {
            let value = json!({"type": "web_search_call", "id": format!("ws_{round}"), "status": "completed"});
            let call = HostedCall { provider: own(), kind: "web_search_call".into(), value };
            request.items.push(item(call.into()));
        }
        if s.one_in(6) {
            let reference = json!({"type": "item_reference", "id": format!("msg_{round}")});
            request.items.push(item(native(reference).into()));
        }
        // Thinking leads to something: alone it does not go out.
        let thinks = s.one_in(3);
        if thinks {
            let text = s.text();
            let mut state = json!({"type": "reasoning", "id": format!("rs_{round}"), "summary": []});
            let place = if s.one_in(2) { ("content", "reasoning_text") } else { ("summary", "summary_text") };
            state[place.0] = json!([{"type": place.1, "text": text}]);
            if s.one_in(2) {
                state["encrypted_content"] = "gAAA".into();
            }
            request.items.push(item(Reasoning { text, native: Some(native(state)) }.into()));
        }
        if s.one_in(2) || thinks {
            let state = s.maybe(|s| match s.below(3) {
                0 => json!({"type": "refusal"}),
                1 => json!({"annotations": [{"type": "url_citation", "url": "x"}]}),
                _ => json!({"message": {"id": format!("msg_a{round}"), "phase": "final_answer"}}),
            });
            let parts = vec![Part::Text(Text { native: state.map(native), ..Text::new(s.text()) })];
            request.items.push(item(Message { role: Role::Assistant, parts, native: None }.into()));
        }
        let calls: Vec<ToolCall> = (0..s.below(3))
            .map(|n| {
                let arguments = if is_custom { json!({"input": s.text()}) } else { json!({"p": s.text(), "n": 1.5}) };
                ToolCall {
                    id: env.new_id(),
                    provider_id: Some(format!("call_{round}_{n}")),
                    name: called.clone(),
                    arguments: Arguments::from_text(arguments.to_string()),
                    native: s.maybe(|_| native(json!({"id": "fc_1", "caller": {"type": "direct"}}))),
                }
            })
            .collect();
        request.items.extend(calls.iter().cloned().map(|call| item(call.into())));
        for call in calls {
            let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, s.text());
            if s.one_in(4) {
                outcome.content = (0..=s.below(3)).map(|_| user_part(s)).collect();
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
    c.max_output_tokens = s.maybe(|s| s.below(900).into());
    c.max_hosted_calls = s.maybe(|s| s.below(9).into());
    c.include = s.maybe(|_| vec!["file_search_call.results".into()]).unwrap_or_default();
    c.top_logprobs = s.maybe(|s| s.below(4).into());
    c.reasoning_effort = s.maybe(|_| "low".into());
    c.reasoning_summary = s.maybe(|_| "auto".into());
    c.verbosity = s.maybe(|_| "high".into());
    c.service_tier = s.maybe(|_| "flex".into());
    c.store = s.maybe(|s| s.one_in(2));
    // Where nothing is kept, ids are left out: they would find nothing.
    if c.store == Some(false) {
        c.store = None;
    }
    c.background = s.maybe(|s| s.one_in(2));
    c.user = s.maybe(|s| s.text());
    c.metadata = s.maybe(|s| Map::from_iter([("k".to_owned(), Value::from(s.text()))])).unwrap_or_default();
    c.safety = s.maybe(|_| vec![native(json!({"moderation": {"model": "m"}}))]).unwrap_or_default();
    c.cache = s.maybe(|s| CacheControl {
        strategy: s.maybe(|s| if s.one_in(2) { CacheStrategy::Auto } else { CacheStrategy::Explicit }),
        key: Some(s.text()),
        ttl: s.maybe(|s| ["30m", "12h", "24h"][usize::from(s.below(3))].to_owned()),
        content: None,
    });
    c.compaction = s.maybe(|s| Compaction {
        strategy: Some(if s.one_in(2) { "auto" } else { "disabled" }.to_owned()),
        max_context_tokens: s.maybe(|_| 50_000),
        preserve_recent_turns: None,
    });
    request.output = s.maybe(|s| {
        let (strict, is_any) = (s.one_in(2), s.one_in(3));
        let schema = if is_any { json!({"type": "object"}) } else { json!({"type": "object", "properties": {}}) };
        let is_plain = is_any && !strict;
        OutputFormat {
            name: if is_plain { "output" } else { "answer" }.into(),
            description: if is_plain { None } else { s.maybe(|s| s.text()) },
            schema: Schema::new(schema),
            strict,
        }
    });
    for _ in 0..s.below(3) {
        request.hosted.push(hosted_tool(s));
    }
    let state = json!({"previous_response_id": "resp_0", crate::foreign::FOLLOWS: true});
    request.provider_state = s.maybe(|_| ProviderState { provider: own(), value: state });
    request.native = s.maybe(|_| {
        native(json!({"client_metadata": {"a": 1}, "reasoning": {"context": "all_turns"}, "text": {"odd": 1}}))
    });
    if s.one_in(60) {
        request.hosted.push(HostedTool::WebFetch(WebFetch::default()));
    }
    if s.one_in(60) {
        request.controls.stop = vec!["END".into()];
    }
    request
}

/// What is not carried: ids of ours and origins.
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
    request
}

fn choices() -> impl Strategy<Value = Vec<u16>> {
    prop::collection::vec(any::<u16>(), 0..200)
}

#[test]
fn a_request_comes_back_as_it_went() {
    let (accepted, all) = (Cell::new(0u32), Cell::new(0u32));
    let dialect = Dialect::new(own());
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&choices(), |choices| {
        let request = generate(&choices);
        all.set(all.get() + 1);
        let Ok(encoded) = encode_request(&request, &dialect) else { return Ok(()) };
        accepted.set(accepted.get() + 1);
        prop_assert_eq!(&encoded.omitted, &Vec::new());
        let decoded = decode_request(&encoded.body, &own(), &env()).unwrap();
        prop_assert!(decoded.stream && decoded.stream_usage);
        let (back, there) = (folded(&decoded.request), folded(&request));
        for (back, there) in back.items.iter().zip(&there.items) {
            prop_assert_eq!(back, there);
        }
        prop_assert_eq!(&back.tools, &there.tools);
        prop_assert_eq!(&back.controls, &there.controls);
        prop_assert_eq!((&back.tool_choice, &back.output), (&there.tool_choice, &there.output));
        prop_assert_eq!((&back.hosted, &back.native), (&there.hosted, &there.native));
        prop_assert_eq!(back, there, "{}", String::from_utf8_lossy(&encoded.body));
        // The client's body is left alone by an encoder that changes nothing.
        let same = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &dialect).unwrap();
        prop_assert_eq!(serde_json::from_slice::<Value>(&same.body).unwrap(), Value::clone(&decoded.body));
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let (accepted, all) = (accepted.get(), all.get());
    eprintln!("responses requests: {accepted} of {all} accepted");
    assert!(accepted * 100 >= all * 95, "{accepted} of {all}");
}

fn head() -> AnswerHead {
    AnswerHead {
        id: "resp_1".into(),
        model: "m".into(),
        created: 7,
        provider: own(),
        stream_usage: true,
        request: None,
    }
}

/// A turn in the form that decoding gives.
fn turn(choices: &[u16]) -> Turn {
    let env = env();
    let mut source = Source(choices.iter());
    let s = &mut source;
    let mut items: Vec<ItemBody> = Vec::new();
    let mut stop = match s.below(6) {
        0 => StopReason::MaxTokens,
        1 => StopReason::ContentFilter,
        2 => StopReason::Refusal,
        3 => StopReason::Other("steered".into()),
        _ => StopReason::End,
    };
    for n in 0..s.below(5) {
        match s.below(5) {
            0 => {
                let text = s.text();
                let mut state = json!({"type": "reasoning", "id": format!("rs_{n}"), "summary": []});
                let place = if s.one_in(2) { ("content", "reasoning_text") } else { ("summary", "summary_text") };
                state[place.0] = json!([{"type": place.1, "text": text}]);
                if s.one_in(2) {
                    state["encrypted_content"] = "gAAA".into();
                }
                items.push(Reasoning { text, native: Some(native(state)) }.into());
            }
            1 => {
                let value =
                    json!({"type": "file_search_call", "id": format!("fs_{n}"), "queries": [], "status": "completed"});
                items.push(HostedCall { provider: own(), kind: "file_search_call".into(), value }.into());
            }
            2 => items
                .push(native(json!({"type": "compaction", "id": format!("cmp_{n}"), "encrypted_content": "e"})).into()),
            3 => {
                let state = s.maybe(|s| {
                    let message = json!({"id": format!("msg_{n}"), "phase": "commentary"});
                    if s.one_in(2) {
                        json!({"message": message})
                    } else {
                        json!({"message": message, "annotations": [{"type": "url_citation", "url": "x"}]})
                    }
                });
                let parts = vec![Part::Text(Text { native: state.map(native), ..Text::new(s.text()) })];
                items.push(Message { role: Role::Assistant, parts, native: None }.into());
            }
            _ if stop == StopReason::Refusal => {}
            _ => {
                let is_custom = s.one_in(3);
                let mut state = Map::new();
                if s.one_in(2) {
                    state.insert("id".into(), format!("fc_{n}").into());
                }
                if is_custom {
                    state.insert("type".into(), "custom_tool_call".into());
                }
                let arguments = if is_custom { json!({"input": s.text()}) } else { json!({"p": s.text()}) };
                items.push(
                    ToolCall {
                        id: env.new_id(),
                        provider_id: Some(format!("call_{n}")),
                        name: "tool_0".into(),
                        arguments: Arguments::from_text(arguments.to_string()),
                        native: (!state.is_empty()).then(|| native(state.into())),
                    }
                    .into(),
                );
                if stop == StopReason::End {
                    stop = StopReason::ToolCalls;
                }
            }
        }
    }
    if stop == StopReason::Refusal {
        items.retain(|item| !matches!(item, ItemBody::Message(_)));
        items.push(Message { role: Role::Assistant, parts: vec![Part::text(s.text())], native: None }.into());
    }
    let usage = Usage {
        input: 10 + u64::from(s.below(90)),
        cache_read: s.below(9).into(),
        cache_write: s.below(9).into(),
        output: 20,
        reasoning: s.below(9).into(),
        input_audio: s.below(2).into(),
        ..Usage::default()
    };
    Turn {
        id: env.new_id(),
        model: Some("m".into()),
        response_id: Some("resp_1".into()),
        items: items.into_iter().map(|body| Arc::new(Item::new(env.new_id(), Origins::none(), body))).collect(),
        stop,
        usage: Some(usage),
        provider_state: Some(ProviderState { provider: own(), value: json!({"previous_response_id": "resp_1"}) }),
        service_tier: s.maybe(|_| "flex".into()),
        native: s.maybe(|_| native(json!({"moderation": {"flagged": false}, "usage": {"cost": 0.5}}))),
    }
}

fn encoded_stream(head: &AnswerHead, turn: &Turn) -> Vec<u8> {
    let mut encoder = encode_events(head.clone());
    let mut bytes = Vec::new();
    state_first(events_of(turn)).iter().for_each(|event| encoder.push(event, &mut bytes));
    encoder.end(&mut bytes);
    bytes
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
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&choices(), |choices| {
        let turn = turn(&choices);
        let bytes = encoded_stream(&head(), &turn);
        let mut decoder = decode_events(&Dialect::new(own()), Names::default());
        let mut events = Vec::new();
        decoder.push(&bytes, &mut events);
        decoder.end(&mut events);
        prop_assert_eq!(plain(&fold(&events)), plain(&turn), "{}", String::from_utf8_lossy(&bytes));
        let body = encode_response(&head(), &turn);
        let events = decode_response(&own(), Names::default(), body.to_string().as_bytes()).unwrap();
        prop_assert_eq!(plain(&fold(&events)), plain(&turn), "{}", body);
        // The stream ends with the very body.
        let text = String::from_utf8(bytes).unwrap();
        let last = text.trim_end().rsplit("\ndata: ").next().unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        prop_assert_eq!(&last["response"], &body);
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_body_is_taken_or_refused(
        text in "[\\[\\]{}\",:a-z0-9 ]{0,80}",
        bytes in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let _ = decode_request(text.as_bytes(), &own(), &env());
        let _ = decode_request(&bytes, &own(), &env());
        let _ = decode_response(&own(), Names::default(), text.as_bytes());
        let _ = pending(&bytes);
    }

    #[test]
    fn any_fields_of_a_request_are_taken_or_refused(key in "(input|tools|tool_choice|reasoning|text|include|metadata|user|store|prompt_cache_options|context_management|conversation)", value in json_value()) {
        let mut body = json!({"model": "m", "input": []});
        body[key] = value;
        if let Ok(decoded) = decode_request(body.to_string().as_bytes(), &own(), &env()) {
            // What is taken comes back as it was.
            if let Ok(same) = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &Dialect::new(own())) {
                prop_assert_eq!(serde_json::from_slice::<Value>(&same.body).unwrap(), { let mut body = body; body["stream"] = true.into(); body });
            }
        }
    }

    #[test]
    fn any_stream_is_read_without_a_fault(events in prop::collection::vec((0usize..14, json_value()), 0..12)) {
        const KINDS: [&str; 14] = [
            "response.created", "response.output_item.added", "response.output_item.done", "response.output_text.delta",
            "response.function_call_arguments.delta", "response.custom_tool_call_input.delta", "response.completed",
            "response.reasoning_text.delta", "response.reasoning_summary_text.delta", "error", "response.refusal.done",
            "response.output_text.done", "response.incomplete", "odd",
        ];
        let mut text = String::new();
        for (kind, value) in events {
            let mut event = json!({"output_index": 0, "delta": "é", "text": "ü", "item": value, "response": value});
            event["type"] = KINDS[kind].into();
            text.push_str(&format!("data: {event}\n\n"));
        }
        let mut decoder = decode_events(&Dialect::new(own()), Names::default());
        let mut out = Vec::new();
        decoder.push(text.as_bytes(), &mut out);
        decoder.end(&mut out);
        let ends = out.iter().filter(|event| matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_))).count();
        prop_assert_eq!(ends, 1);
        // And what it means can be written again.
        let mut encoder = encode_events(head());
        let mut bytes = Vec::new();
        out.iter().for_each(|event| encoder.push(event, &mut bytes));
        encoder.end(&mut bytes);
        prop_assert!(bytes.ends_with(b"\n\n"));
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0i64..4).prop_map(Value::from),
        prop::sample::select(vec![
            "message",
            "function_call",
            "custom_tool_call",
            "reasoning",
            "output_text",
            "user",
            "assistant",
            "auto",
            "additional_tools",
            "",
            "é"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(
                prop::sample::select(vec![
                    "type",
                    "role",
                    "content",
                    "call_id",
                    "name",
                    "arguments",
                    "text",
                    "id",
                    "input",
                    "output",
                    "summary",
                    "tools",
                    "namespace"
                ]),
                inner,
                0..5
            )
            .prop_map(|map| Value::Object(map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())),
        ]
    })
}
