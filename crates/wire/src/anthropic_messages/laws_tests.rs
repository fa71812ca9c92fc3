#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]
use super::decode_tests::{env, fold, own, read};
use super::events_tests::{blocks_of, head, written};
use super::*;
use placet_core::hosted::{CodeInterpreter, HostedOptions, HostedTool, RemoteMcp, WebFetch, WebSearch};
use placet_core::item::{HostedCall, Message, Reasoning};
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::turn::{
    CacheControl, CacheStrategy, CallDelta, Compaction, Controls, OutputFormat, ReasoningState, TextDelta,
    TurnFinished, TurnStarted, WholeItem,
};
use placet_core::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::sync::Arc;

fn some<T: std::fmt::Debug + Clone>(inner: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    proptest::option::weighted(0.3, inner)
}

fn words() -> impl Strategy<Value = String> {
    "[a-zA-Z äöü✓😀\n\"\\\\{}]{0,12}"
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON knows no others", |number| number.is_finite()).prop_map(Value::from),
        words().prop_map(Value::from),
        Just(json!([1, {"a": null}])),
    ];
    prop::collection::btree_map("[a-e]{1,3}", value, 0..4).prop_map(|map| map.into_iter().collect())
}

fn native(value: Value) -> Native {
    Native { provider: own(), value }
}

fn mark() -> impl Strategy<Value = Option<CacheMark>> {
    some(prop_oneof![
        Just(CacheMark { ttl: None }),
        Just(CacheMark { ttl: Some("5m".into()) }),
        Just(CacheMark { ttl: Some("1h".into()) })
    ])
}

fn text() -> impl Strategy<Value = Part> {
    let citations = some(Just(native(
        json!({"citations": [{"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": null, "start_char_index": 0, "end_char_index": 1}]}),
    )));
    (words(), mark(), citations).prop_map(|(text, cache, native)| Part::Text(Text { cache, native, ..Text::new(text) }))
}

fn plain_text() -> impl Strategy<Value = Part> {
    (words(), mark()).prop_map(|(text, cache)| Part::Text(Text { cache, ..Text::new(text) }))
}

fn picture() -> impl Strategy<Value = Part> {
    let source = prop_oneof![
        "[A-Za-z0-9+/]{4}"
            .prop_map(|base64| (MediaSource::Inline(Inline { base64: base64.into() }), Some("image/png".to_owned()))),
        Just((MediaSource::Url(Url { url: "https://example.com/a.png".into() }), None)),
        Just((MediaSource::ProviderFile(ProviderFile { provider: own(), id: "file_1".into() }), None)),
    ];
    (source, mark())
        .prop_map(|((source, mime_type), cache)| Part::Image(Media { mime_type, cache, ..Media::new(source) }))
}

fn document() -> impl Strategy<Value = Part> {
    let source = prop_oneof![
        Just((MediaSource::Inline(Inline { base64: "JVBERi0=".into() }), Some("application/pdf".to_owned()))),
        Just((MediaSource::Inline(Inline { base64: "R3LDvMOfZQ==".into() }), Some("text/plain".to_owned()))),
        Just((MediaSource::Url(Url { url: "https://example.com/a.pdf".into() }), None)),
    ];
    let native = some(Just(native(json!({"citations": {"enabled": true}}))));
    (source, some("[a-z]{1,5}"), native, mark()).prop_map(|((source, mime_type), name, native, cache)| {
        Part::File(Media { mime_type, name, native, cache, ..Media::new(source) })
    })
}

fn odd_part() -> impl Strategy<Value = Part> {
    object().prop_map(|mut fields| {
        fields.insert("type".into(), "container_upload".into());
        fields.insert("file_id".into(), "file_1".into());
        Part::Native(native(fields.into()))
    })
}

fn body(role: Role, part: impl Strategy<Value = Part>) -> impl Strategy<Value = ItemBody> {
    (prop::collection::vec(part, 1..4), some(Just(native(json!({"output_config": {"effort": "low"}})))))
        .prop_map(move |(parts, native)| Message { role: role.clone(), parts, native }.into())
}

/// What the model says: items that go together into one message.
fn said() -> impl Strategy<Value = ItemBody> {
    prop_oneof![
        4 => text().prop_map(|part| Message { role: Role::Assistant, parts: vec![part], native: None }.into()),
        2 => (words(), "[A-Za-z0-9]{1,8}").prop_map(|(text, signature)| {
            Reasoning { text, native: Some(native(json!({"signature": signature}))) }.into()
        }),
        1 => "[A-Za-z0-9]{1,8}".prop_map(|data| {
            let native = Some(native(json!({"type": "redacted_thinking", "data": data})));
            Reasoning { text: String::new(), native }.into()
        }),
        1 => object().prop_map(|input| {
            let value = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": input});
            HostedCall { provider: own(), kind: "server_tool_use".into(), value }.into()
        }),
        1 => object().prop_map(|mut fields| {
            fields.insert("type".into(), "compaction".into());
            native(fields.into()).into()
        }),
    ]
}

/// A round: calls and their results.
fn round() -> impl Strategy<Value = Vec<ItemBody>> {
    let result = (
        prop::collection::vec(prop_oneof![4 => text(), 1 => picture(), 1 => document()], 0..3),
        any::<bool>(),
        any::<bool>(),
    );
    prop::collection::vec((object(), "[a-z:.]{1,8}", result, any::<bool>()), 1..4).prop_map(|calls| {
        let env = Env::system();
        let mut items = Vec::new();
        let mut results = Vec::new();
        for (input, name, (content, failed, marked), called) in calls {
            let id: CallId = env.new_id();
            let wire_id = Some(format!("toolu_{id}"));
            items.push(ItemBody::ToolCall(ToolCall {
                id: id.clone(),
                provider_id: wire_id.clone(),
                name: name.as_str().into(),
                arguments: Arguments::from_text(Value::Object(input).to_string()),
                native: called.then(|| native(json!({"caller": {"type": "direct"}}))),
            }));
            let (status, reason) =
                if failed { (Status::Failed, Some(Reason::ToolError)) } else { (Status::Completed, None) };
            results.push(ItemBody::from(ToolResult {
                call: id,
                provider_id: wire_id,
                tool: name.as_str().into(),
                capability: None,
                outcome: Outcome { content, ..Outcome::new(status, Stage::Execute, reason, "") },
                native: marked.then(|| native(json!({"cache_control": {"type": "ephemeral"}}))),
            }));
        }
        items.extend(results);
        items
    })
}

fn conversation() -> impl Strategy<Value = Vec<Arc<Item>>> {
    let user = body(Role::User, prop_oneof![6 => text(), 1 => picture(), 1 => document(), 1 => odd_part()]);
    let exchange =
        (user, prop::collection::vec(said(), 0..4), prop::option::of(round()), some(body(Role::System, plain_text())));
    (some(body(Role::System, plain_text())), prop::collection::vec(exchange, 1..4)).prop_map(|(system, exchanges)| {
        let mut bodies: Vec<ItemBody> = Vec::new();
        if let Some(ItemBody::Message(system)) = system {
            bodies.push(Message { native: None, ..system }.into());
        }
        for (user, said, round, system) in exchanges {
            bodies.push(user);
            bodies.extend(said);
            bodies.extend(round.into_iter().flatten());
            bodies.extend(system);
        }
        let env = Env::system();
        bodies.into_iter().map(|body| Arc::new(Item::new(env.new_id(), Origins::none(), body))).collect()
    })
}

fn tool() -> impl Strategy<Value = Arc<ToolDefinition>> {
    ("[a-z]{1,6}", words(), any::<bool>(), mark(), any::<bool>()).prop_map(
        |(name, description, strict, cache, deferred)| {
            let schema =
                Schema::new(json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                "additionalProperties": false}));
            Arc::new(ToolDefinition {
                strict: strict.then_some(true),
                cache,
                native: deferred.then(|| native(json!({"defer_loading": true}))),
                ..ToolDefinition::new(name, description, schema, Effect::Once)
            })
        },
    )
}

fn hosted() -> impl Strategy<Value = Vec<HostedTool>> {
    let names = || prop::collection::vec("[a-z]{1,5}", 0..3);
    let search = (some(1u64..9), names(), names(), any::<bool>()).prop_map(
        |(max_uses, allowed_domains, blocked_domains, at)| {
            let user_location = at.then(|| json!({"type": "approximate", "country": "CH"}));
            HostedTool::WebSearch(WebSearch {
                max_uses,
                allowed_domains,
                blocked_domains,
                user_location,
                ..WebSearch::default()
            })
        },
    );
    let fetch = (some(1u64..9), names()).prop_map(|(max_uses, allowed_domains)| {
        HostedTool::WebFetch(WebFetch { max_uses, allowed_domains, ..WebFetch::default() })
    });
    let mcp = (names(), any::<bool>(), some("[a-z]{1,5}")).prop_map(|(mut tools, deny, authorization)| {
        tools.sort();
        tools.dedup();
        let mut mcp = RemoteMcp {
            label: "crm".into(),
            url: Some("https://mcp.example".into()),
            authorization,
            ..RemoteMcp::default()
        };
        *(if deny { &mut mcp.denied_tools } else { &mut mcp.allowed_tools }) = tools;
        HostedTool::RemoteMcp(mcp)
    });
    // What the client runs stays in its provider's words.
    let screen =
        json!({"type": "computer_20250124", "name": "computer", "display_width_px": 10, "display_height_px": 20});
    let screen = Just(HostedTool::Raw(native(screen)));
    let options = HostedOptions::default;
    let all = (some(search), some(fetch), some(mcp), some(screen), prop::collection::vec(any::<bool>(), 5));
    all.prop_map(move |(search, fetch, mcp, screen, flags)| {
        let mut hosted: Vec<HostedTool> = [search, fetch, mcp, screen].into_iter().flatten().collect();
        let plain = [
            HostedTool::CodeInterpreter(CodeInterpreter::default()),
            HostedTool::Raw(native(json!({"type": "bash_20250124", "name": "bash"}))),
            HostedTool::Raw(native(json!({"type": "memory_20250818", "name": "memory", "defer_loading": true}))),
            HostedTool::ToolSearch(options()),
            HostedTool::Raw(native(json!({"type": "advisor_20260301", "name": "advisor", "model": "claude-opus-5"}))),
        ];
        hosted.extend(plain.into_iter().zip(flags).filter(|(_, flag)| *flag).map(|(tool, _)| tool));
        hosted
    })
}

fn controls() -> impl Strategy<Value = Controls> {
    let sampling = (some(0.0f64..=1.0), some(0.0f64..1.0), some(1u64..99));
    let effort = some(
        prop_oneof![Just("none"), Just("low"), Just("medium"), Just("high"), Just("xhigh"), Just("max")]
            .prop_map(str::to_owned),
    );
    let thinking =
        (effort, some(1024u64..20_000), some(prop_oneof![Just("auto"), Just("none")].prop_map(str::to_owned)));
    let cache = some((
        prop_oneof![Just(CacheStrategy::Auto), Just(CacheStrategy::Explicit), Just(CacheStrategy::Bypass)],
        some(prop_oneof![Just("5m"), Just("1h")]),
    ));
    let compaction = some(some(50_000u64..90_000));
    let limits = (some(1u64..40_000), prop::collection::vec("[a-z]{1,4}", 0..3), some(any::<bool>()));
    let rest = (
        some("[a-z]{1,5}"),
        some(prop_oneof![Just("auto"), Just("default")].prop_map(str::to_owned)),
        some(any::<bool>()),
    );
    (sampling, thinking, cache, compaction, limits, rest).prop_map(
        |(sampling, thinking, cache, compaction, limits, rest)| Controls {
            temperature: sampling.0,
            top_p: sampling.1,
            top_k: sampling.2,
            reasoning_effort: thinking.0,
            reasoning_budget: thinking.1,
            reasoning_summary: thinking.2,
            cache: cache.map(|(strategy, ttl)| CacheControl {
                strategy: Some(strategy),
                ttl: ttl.map(str::to_owned),
                ..CacheControl::default()
            }),
            compaction: compaction.map(|max_context_tokens| Compaction {
                strategy: Some("auto".into()),
                max_context_tokens,
                preserve_recent_turns: None,
            }),
            max_output_tokens: limits.0,
            stop: limits.1,
            parallel_tool_calls: limits.2,
            user: rest.0,
            service_tier: rest.1,
            store: rest.2,
            ..Controls::default()
        },
    )
}

fn request() -> impl Strategy<Value = TurnRequest> {
    let tools = prop::collection::vec(tool(), 0..3).prop_map(|mut tools| {
        tools.dedup_by(|a, b| a.name == b.name);
        tools
    });
    let output = some(any::<bool>().prop_map(|strict| OutputFormat {
        name: "answer".into(),
        description: None,
        schema: Schema::new(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
                "additionalProperties": false})),
        strict,
    }));
    let native = some(object().prop_map(|fields| {
        native(fields.into_iter().map(|(key, value)| (format!("odd_{key}"), value)).collect::<Map<_, _>>().into())
    }));
    let rest = (some(words()), output, native, 0usize..5, some("[a-z]{1,5}"));
    (conversation(), tools, hosted(), controls(), rest).prop_map(|(items, tools, hosted, controls, rest)| {
        let (instructions, output, native, choice, container) = rest;
        let tool_choice = match (choice, tools.first()) {
            (0, Some(_)) => ToolChoice::Required,
            (1, Some(tool)) => ToolChoice::Tool(tool.name.clone()),
            (2, Some(_)) => ToolChoice::None,
            _ => ToolChoice::Auto,
        };
        TurnRequest {
            model: "claude-x".into(),
            instructions: instructions.map(Into::into),
            items,
            tools,
            tool_choice,
            controls,
            output,
            hosted,
            native,
            provider_state: container.map(|id| ProviderState { provider: own(), value: json!({"container": id}) }),
            ..TurnRequest::default()
        }
    })
}

/// The same request for everybody who reads it:
///
/// - ids, origins and effects are ours alone; a call goes by its provider's id, a result by its call's;
/// - empty texts and those of spaces alone are none, and what holds nothing is not there;
/// - a message of the model holds one part, and fields of its messages stand in front of all that it says in a row;
/// - instructions and what the operator says before everything else are one thing;
/// - what the user says after results is said with them, and results stand in front;
/// - hints that cannot be said, and words that mean the same, are left out.
fn folded(request: &TurnRequest, omitted: &[String], is_bypassed: bool) -> Value {
    let mut bodies: Vec<Value> = Vec::new();
    let mut system: Vec<Value> = Vec::new();
    if let Some(text) = request.instructions.as_deref().filter(|text| !text.trim().is_empty()) {
        system.push(serde_json::to_value(Part::text(text)).unwrap());
    }
    let mut at_start = true;
    for item in &request.items {
        match &item.body {
            ItemBody::Message(message) => {
                let parts: Vec<&Part> = message.parts.iter().filter(|part| !is_blank(part)).collect();
                if message.role == Role::System && at_start && message.native.is_none() {
                    system.extend(parts.into_iter().map(|part| serde_json::to_value(part).unwrap()));
                    continue;
                }
                if message.role == Role::Assistant {
                    bodies.extend(parts.into_iter().map(|part| json!({"assistant": part})));
                } else if !parts.is_empty() || message.native.is_some() {
                    bodies.push(json!({"role": message.role.as_str(), "parts": parts, "native": message.native}));
                }
                at_start &= parts_are_none(message);
            }
            ItemBody::ToolCall(call) => {
                at_start = false;
                bodies.push(json!({"call": call.provider_id, "name": crate::names::alias_within(128, call.name.as_str()), "arguments": call.arguments.parse().unwrap(), "native": call.native}));
            }
            ItemBody::ToolResult(result) => {
                at_start = false;
                let content = result.outcome.content.iter().filter(|part| !is_blank(part));
                let content: Vec<&Part> = content.collect();
                bodies.push(json!({"result": result.provider_id, "status": result.outcome.status.as_str(), "content": content, "native": result.native}));
            }
            other => {
                at_start = false;
                bodies.push(serde_json::to_value(other).unwrap());
            }
        }
    }
    let mut controls = request.controls.clone();
    controls.store = None;
    for what in omitted {
        match what.as_str() {
            "temperature" => controls.temperature = None,
            "top_p" => controls.top_p = None,
            "top_k" => controls.top_k = None,
            "reasoning_budget" => controls.reasoning_budget = None,
            "reasoning_summary" => controls.reasoning_summary = None,
            _ => {}
        }
    }
    controls.max_output_tokens = None;
    if omitted.iter().any(|what| what.ends_with(".part")) {
        controls.reasoning_budget = request.controls.max_output_tokens.map(|limit| limit / 2);
    }
    if request.tools.is_empty() && request.hosted.is_empty() || request.tool_choice == ToolChoice::None {
        controls.parallel_tool_calls = None;
    }
    if let Some(cache) = &mut controls.cache
        && cache.strategy != Some(CacheStrategy::Auto)
    {
        controls.cache = None;
    }
    // Nothing is hidden where there is no thinking, and thinking that is off cannot be shown.
    let thinks = controls.reasoning_budget.is_some()
        || controls.reasoning_effort.as_deref().is_some_and(|effort| effort != "none")
        || controls.reasoning_summary.as_deref() == Some("auto") && controls.reasoning_effort.is_none();
    let is_off = controls.reasoning_effort.as_deref() == Some("none") && controls.reasoning_budget.is_none();
    let is_left_out = omitted.iter().any(|what| what == "reasoning_budget");
    if !thinks || is_off || is_left_out || request.tool_choice.is_forced() {
        controls.reasoning_summary = None;
    }
    // A budget says that there is thinking.
    if request.controls.reasoning_budget.is_some() && controls.reasoning_effort.as_deref() == Some("none") {
        controls.reasoning_effort = None;
    }
    let tool = |tool: &Arc<ToolDefinition>| {
        let mut value = serde_json::to_value(&**tool).unwrap();
        without(&mut value, &["effect"]);
        value
    };
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    let mut value = json!({
        "model": request.model, "system": system, "bodies": bodies, "tools": tools, "choice": request.tool_choice, "controls": controls,
        "output": request.output.as_ref().map(|output| output.schema.as_value()), "hosted": request.hosted, "state": request.provider_state,
    });
    without(&mut value, if is_bypassed { &["cache", "cache_control"] } else { &[] });
    value
}

fn parts_are_none(message: &Message) -> bool {
    message.native.is_none() && message.parts.iter().all(is_blank)
}

fn is_blank(part: &Part) -> bool {
    part.as_text().is_some_and(|text| text.trim().is_empty())
}

fn without(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(map) => {
            keys.iter().for_each(|key| {
                map.shift_remove(*key);
            });
            map.values_mut().for_each(|value| without(value, keys));
            map.retain(|key, value| key != "native" || !is_empty_native(value));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| without(value, keys)),
        _ => {}
    }
}

fn is_empty_native(value: &Value) -> bool {
    value.is_null() || value.get("value").is_some_and(|value| value.as_object().is_some_and(Map::is_empty))
}

/// The native fields of a request that are about thinking say what its words alone do not; both say the same.
fn thinking_aside(native: Option<&Native>) -> Value {
    let mut value = native.map_or(Value::Null, |native| native.value.clone());
    if let Value::Object(fields) = &mut value {
        fields.shift_remove("thinking");
        if fields.is_empty() {
            value = Value::Null;
        }
    }
    value
}

#[test]
fn a_request_comes_back_as_it_went_and_nearly_every_one_is_taken() {
    let (made, taken) = (Cell::new(0usize), Cell::new(0usize));
    let dialect = Dialect::new(own());
    let mut runner = TestRunner::new(ProptestConfig::with_cases(256));
    let result = runner.run(&request(), |request| {
        let encoded = encode_request(&request, &dialect);
        // A conversation in which nothing is said is none that could be taken.
        if encoded.as_ref().is_err_and(|error| error.message.contains("`message.user`")) {
            return Ok(());
        }
        made.set(made.get() + 1);
        if let Ok(encoded) = encoded {
            taken.set(taken.get() + 1);
            let omitted: Vec<String> = encoded.omitted.iter().map(|omission| omission.what.clone()).collect();
            let decoded = decode_request(&encoded.body, &own(), &env()).unwrap();
            let is_bypassed =
                request.controls.cache.as_ref().is_some_and(|cache| cache.strategy == Some(CacheStrategy::Bypass));
            prop_assert_eq!(folded(&decoded.request, &[], is_bypassed), folded(&request, &omitted, is_bypassed));
            prop_assert_eq!(thinking_aside(decoded.request.native.as_ref()), thinking_aside(request.native.as_ref()));
            // What was read says the same again.
            let again = encode_request(&decoded.request, &dialect).unwrap();
            let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
            prop_assert_eq!(read(&again.body), read(&encoded.body));
            prop_assert!(again.omitted.is_empty(), "{:?}", again.omitted);
            // And onto its own body nothing changes.
            let same = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &dialect).unwrap();
            prop_assert_eq!(read(&same.body), Value::clone(&decoded.body));
        }
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
    let (made, taken) = (made.get(), taken.get());
    eprintln!("{taken} of {made} requests are taken ({:.1} %)", taken as f64 * 100.0 / made as f64);
    assert!(taken * 100 >= made * 95, "{taken} of {made}");
}

/// The events of an answer, place after place.
fn answer() -> impl Strategy<Value = Vec<TurnEvent>> {
    let pieces = || prop::collection::vec("[a-z äöü😀\"\n]{1,6}", 1..4);
    let block = prop_oneof![
        3 => (pieces(), any::<bool>()).prop_map(|(pieces, cited)| (0, pieces, cited, Map::new())),
        2 => (pieces(), any::<bool>()).prop_map(|(pieces, signed)| (1, pieces, signed, Map::new())),
        1 => Just((2, vec![], false, Map::new())),
        3 => (object(), any::<bool>()).prop_map(|(input, called)| (3, vec![], called, input)),
        1 => object().prop_map(|input| (4, vec![], false, input)),
        1 => object().prop_map(|fields| (5, vec![], false, fields)),
    ];
    let stop = prop_oneof![
        Just(StopReason::End),
        Just(StopReason::MaxTokens),
        Just(StopReason::StopSequence),
        Just(StopReason::Refusal),
        Just(StopReason::Pause),
        Just(StopReason::Other("bored".into())),
    ];
    let usage = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>(), any::<u32>(), 0u64..5).prop_map(
        |(input, read, short, long, output, searches)| Usage {
            input: input.into(),
            cache_read: read.into(),
            cache_write: short.into(),
            cache_write_long: long.into(),
            output: u64::from(output) + 1,
            reasoning: u64::from(output) / 2,
            searches,
            ..Usage::default()
        },
    );
    (prop::collection::vec(block, 0..6), stop, usage, any::<bool>()).prop_map(|(blocks, stop, usage, tier)| {
        let mut events = vec![TurnEvent::Started(TurnStarted { model: Some("claude-x".into()), response_id: Some("msg_1".into()) })];
        for (place, (kind, pieces, flag, fields)) in blocks.into_iter().enumerate() {
            let index = u32::try_from(place).unwrap();
            let deltas = pieces.into_iter().map(|text| TextDelta { index, text });
            match kind {
                0 => {
                    events.extend(deltas.map(TurnEvent::Text));
                    if flag {
                        let native = native(json!({"citations": [{"type": "page_location", "cited_text": "x", "document_index": 0, "document_title": null, "start_page_number": 1, "end_page_number": 2, "file_id": null}, {"type": "web_search_result_location", "cited_text": "x", "encrypted_index": "e", "title": null, "url": "https://a.example"}]}));
                        events.push(TurnEvent::TextState(ReasoningState { index, native }));
                    }
                }
                1 => {
                    events.extend(deltas.map(TurnEvent::Reasoning));
                    if flag {
                        let native = native(json!({"signature": "c2ln"}));
                        events.push(TurnEvent::ReasoningState(ReasoningState { index, native }));
                    }
                }
                2 => {
                    let native = native(json!({"type": "redacted_thinking", "data": "eA=="}));
                    events.push(TurnEvent::ReasoningState(ReasoningState { index, native }));
                }
                3 => {
                    let arguments = Value::Object(fields).to_string();
                    let cut = arguments.floor_char_boundary(arguments.len() / 2);
                    let native = flag.then(|| native(json!({"caller": {"type": "direct"}})));
                    let first = CallDelta { index, provider_id: Some(format!("toolu_{place}")), name: Some("f".into()), arguments: arguments[..cut].into(), native };
                    events.push(TurnEvent::Call(first));
                    events.push(TurnEvent::Call(CallDelta { index, arguments: arguments[cut..].into(), ..CallDelta::default() }));
                }
                4 => {
                    let value = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": fields});
                    let body = HostedCall { provider: own(), kind: "server_tool_use".into(), value }.into();
                    events.push(TurnEvent::Whole(Box::new(WholeItem { index, body })));
                }
                _ => {
                    let mut fields = fields;
                    fields.insert("type".into(), "hologram".into());
                    let body = native(fields.into()).into();
                    events.push(TurnEvent::Whole(Box::new(WholeItem { index, body })));
                }
            }
        }
        events.push(TurnEvent::Usage(usage));
        let mut finished = TurnFinished::new(stop);
        finished.service_tier = Some(if tier { "priority" } else { "standard" }.into());
        if tier {
            finished.native = Some(native(json!({"stop_sequence": "END", "container": {"id": "c_1", "expires_at": "2026-07-30T18:54:08Z"}, "context_management": {"applied_edits": []}, "usage": {"inference_geo": "eu"}})));
            finished.provider_state = Some(ProviderState { provider: own(), value: json!({"container": "c_1"}) });
        }
        events.push(TurnEvent::Finished(finished));
        events
    })
}

/// A turn without the ids that are ours.
fn bare(turn: &Turn) -> Value {
    let mut value = serde_json::to_value(turn).unwrap();
    without(&mut value, &["id"]);
    // The provider's own ids of calls are kept under another name.
    value
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_answer_comes_back_as_it_went(events in answer()) {
        let turn = fold(&events).unwrap();
        let bytes = written(own(), &events);
        prop_assert_eq!(bare(&fold(&read(&bytes)).unwrap()), bare(&turn));
        // The whole message is what the stream adds up to.
        let whole = encode_response(&head(own()), &turn);
        prop_assert_eq!(&whole["content"], &json!(blocks_of(&bytes)));
        let back = decode_response(&own(), crate::names::Names::default(), whole.to_string().as_bytes()).unwrap();
        prop_assert_eq!(bare(&fold(&back).unwrap()), bare(&turn));
    }

    #[test]
    fn a_mixed_answer_loses_nothing(order in prop::collection::vec(0usize..4, 0..40)) {
        // Pieces of two calls, a text and thinking, in any order.
        let mut events = vec![TurnEvent::Started(TurnStarted::default())];
        let pieces = [["{\"a\"", ":1", "}"], ["{\"b\"", ":2", "}"]];
        let mut done = [0usize; 4];
        for place in order.into_iter().chain([0, 0, 0, 1, 1, 1]) {
            let index = u32::try_from(place).unwrap();
            let count = done[place];
            done[place] += 1;
            match (place, count) {
                (0 | 1, 0..=2) => events.push(TurnEvent::Call(CallDelta {
                    index,
                    provider_id: (count == 0).then(|| format!("toolu_{place}")),
                    name: (count == 0).then(|| "f".to_owned()),
                    arguments: pieces[place][count].into(),
                    native: None,
                })),
                (2, _) => events.push(TurnEvent::Text(TextDelta { index, text: format!("t{count}") })),
                (3, _) => events.push(TurnEvent::Reasoning(TextDelta { index, text: format!("r{count}") })),
                _ => {}
            }
        }
        events.push(TurnEvent::Finished(TurnFinished::new(StopReason::ToolCalls)));
        let bytes = written(own(), &events);
        blocks_of(&bytes);
        let (ours, theirs) = (fold(&events).unwrap(), fold(&read(&bytes)).unwrap());
        prop_assert_eq!(ours.text(), theirs.text());
        let calls = |turn: &Turn| {
            let mut calls: Vec<_> = turn.calls().map(|call| (call.provider_id.clone(), call.arguments.as_text().to_owned())).collect();
            calls.sort();
            calls
        };
        prop_assert_eq!(calls(&ours), calls(&theirs));
    }
}

/// Samples of what is written, to be held against the vendor's own schemas and clients, where `PLACET_EMIT` names a folder for
/// them.
#[test]
#[expect(clippy::disallowed_methods, reason = "an extra test run is pointed at a folder by a variable")]
fn samples_are_written_out() {
    use proptest::strategy::ValueTree;
    let Some(folder) = std::env::var_os("PLACET_EMIT").map(std::path::PathBuf::from) else {
        eprintln!("SKIPPED samples_are_written_out: PLACET_EMIT names no folder");
        return;
    };
    let write = |name: String, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    let mut runner = TestRunner::deterministic();
    for sample in 0..200 {
        let request = request().new_tree(&mut runner).unwrap().current();
        // What is nobody's name is no field of the vendor's either.
        let request = TurnRequest { native: None, ..request };
        let encoded = encode_request(&request, &Dialect::new(own())).unwrap();
        write(format!("request_{sample}.json"), &encoded.body);
        let count = encode_count_request(&request, &Dialect::new(own())).unwrap();
        write(format!("count_{sample}.json"), &count.body);
        let events = answer().new_tree(&mut runner).unwrap().current();
        write(format!("stream_{sample}.sse"), &written(own(), &events));
        write(format!("foreign_{sample}.sse"), &written(ProviderId::new("other"), &events));
        let turn = fold(&events).unwrap();
        write(format!("message_{sample}.json"), encode_response(&head(own()), &turn).to_string().as_bytes());
    }
    let kinds = [
        "invalid_request",
        "authentication",
        "quota_exhausted",
        "permission",
        "not_found",
        "rate_limited",
        "overloaded",
        "timeout",
        "internal",
    ];
    for kind in kinds {
        let error = ProviderError::new(ErrorKind::from(kind), own(), "m");
        write(format!("error_{kind}.json"), encode_error(&error).1.to_string().as_bytes());
    }
    let models = [crate::ListedModel { id: "claude-x".into(), description: None }];
    write("models.json".into(), encode_models(&models).to_string().as_bytes());
    write("tokens.json".into(), encode_count(5).to_string().as_bytes());
}
