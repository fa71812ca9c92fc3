//! The laws, for whatever comes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::decode_tests::{fold, pieces, provider};
use super::events_tests::{head, turn_of, written};
use super::response::events_of;
use super::*;
use placet_core::hosted::{CodeInterpreter, HostedOptions, HostedTool, RemoteMcp, WebSearch};
use placet_core::item::{HostedCall, Reasoning};
use placet_core::part::{Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::turn::{AllowedTools, CacheControl, OutputFormat};
use placet_core::{
    Arguments, Effect, Env, Item, ItemBody, Message, Origin, Outcome, Part, Role, Schema, Stage, Status, StopReason,
    ToolCall, ToolChoice, ToolDefinition, ToolResult, Turn, TurnEvent, TurnRequest, Usage,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn own(value: Value) -> Option<Native> {
    Some(Native { provider: provider(), value })
}

fn item(origin: Origin, body: impl Into<ItemBody>) -> Arc<Item> {
    Arc::new(Item::new(Env::system().new_id(), origin, body))
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-zä€😀 \"\\\\\n{}]{0,12}", Just("{\"a\":1}".to_owned()), Just("{\"error\":\"x\"}".to_owned())]
}

fn state() -> impl Strategy<Value = Option<Native>> {
    prop_oneof![
        3 => Just(None),
        2 => "[A-Za-z0-9+/]{4,8}".prop_map(|signature| own(json!({"thoughtSignature": signature}))),
        1 => Just(own(json!({"partMetadata": {"x": 1}, "thoughtSignature": "c2ln"}))),
    ]
}

fn media() -> impl Strategy<Value = Part> {
    let source = prop_oneof![
        "[A-Za-z0-9]{4}".prop_map(|base64| MediaSource::Inline(Inline { base64: base64.into() })),
        Just(MediaSource::Url(Url { url: "https://example.com/a".into() })),
        Just(MediaSource::ProviderFile(ProviderFile {
            provider: provider(),
            id: "https://generativelanguage.googleapis.com/v1beta/files/a".into()
        })),
    ];
    let kind = prop_oneof![Just("image/png"), Just("audio/wav"), Just("application/pdf"), Just("video/mp4")];
    let detail = proptest::option::of(prop_oneof![Just("low".to_owned()), Just("high".to_owned())]);
    (source, kind, proptest::option::of("[a-z]{1,4}"), detail, state()).prop_map(
        |(source, kind, name, detail, native)| {
            let media = Media { mime_type: Some(kind.to_owned()), name, detail, native, ..Media::new(source) };
            match kind {
                "image/png" => Part::Image(media),
                "audio/wav" => Part::Audio(media),
                _ => Part::File(media),
            }
        },
    )
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        5 => (words(), state()).prop_map(|(text, native)| Part::Text(Text { native, ..Text::new(text) })),
        2 => media(),
        1 => Just(Part::Native(Native { provider: provider(), value: json!({"newPart": {"a": 1}}) })),
    ]
}

fn user() -> impl Strategy<Value = Vec<Arc<Item>>> {
    prop::collection::vec(part(), 1..3)
        .prop_map(|parts| vec![item(Origin::User, Message { role: Role::User, parts, native: None })])
}

/// What the model says, without calls.
fn said() -> impl Strategy<Value = ItemBody> {
    prop_oneof![
        3 => (words(), state()).prop_map(|(text, native)| Message { role: Role::Assistant, parts: vec![Part::Text(Text { native, ..Text::new(text) })], native: None }.into()),
        2 => (words(), state()).prop_map(|(text, native)| Reasoning { text, native: native.or(own(json!({}))) }.into()),
        1 => Just(ItemBody::HostedCall(HostedCall { provider: provider(), kind: "executableCode".into(), value: json!({"executableCode": {"code": "1", "language": "PYTHON"}, "thoughtSignature": "c2ln"}) })),
        1 => Just(ItemBody::Native(Native { provider: provider(), value: json!({"newPart": {"b": [1]}}) })),
        1 => media().prop_map(|part| Message { role: Role::Assistant, parts: vec![part], native: None }.into()),
    ]
}

fn arguments() -> impl Strategy<Value = String> {
    prop::collection::btree_map(
        "[a-c]",
        prop_oneof![any::<i32>().prop_map(Value::from), words().prop_map(Value::from), Just(json!([null, {"x": 0.5}]))],
        0..3,
    )
    .prop_map(|map| Value::Object(map.into_iter().collect()).to_string())
}

fn call() -> impl Strategy<Value = ToolCall> {
    (arguments(), state(), "[a-z]{1,3}").prop_map(|(arguments, native, name)| ToolCall {
        id: Env::system().new_id(),
        provider_id: None,
        name: name.as_str().into(),
        arguments: Arguments::from_text(arguments),
        native,
    })
}

/// A round: the model's calls and all their results.
fn round() -> impl Strategy<Value = Vec<Arc<Item>>> {
    let result = (words(), any::<bool>(), proptest::option::of(media()), any::<bool>());
    (prop::collection::vec((call(), result), 1..4), any::<bool>()).prop_map(|(pairs, with_ids)| {
        let (mut calls, mut results) = (Vec::new(), Vec::new());
        for (i, (mut call, (text, failed, media, silent))) in pairs.into_iter().enumerate() {
            call.provider_id = with_ids.then(|| format!("call_{i}"));
            let status = if failed { Status::Failed } else { Status::Completed };
            let mut outcome = Outcome::new(status, Stage::Execute, None, text);
            outcome.content.extend(media);
            let result = ToolResult {
                call: call.id.clone(),
                provider_id: call.provider_id.clone(),
                tool: call.name.clone(),
                capability: None,
                outcome,
                native: silent.then(|| own(json!({"functionResponse": {"scheduling": "SILENT"}}))).flatten(),
            };
            calls.push(item(Origin::Model, call));
            results.push(item(Origin::Tool("t".into()), result));
        }
        calls.extend(results);
        calls
    })
}

fn tool() -> impl Strategy<Value = ToolDefinition> {
    ("[a-z][a-z.]{1,5}", words(), proptest::option::of(Just(json!({"behavior": "BLOCKING"})))).prop_map(|(name, description, native)| {
        let schema = json!({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "additionalProperties": false});
        ToolDefinition { native: native.and_then(own), ..ToolDefinition::new(name.as_str(), description, Schema::new(schema), Effect::Once) }
    })
}

fn hosted() -> impl Strategy<Value = HostedTool> {
    prop_oneof![
        Just(HostedTool::WebSearch(WebSearch { blocked_domains: vec!["a.com".into()], ..WebSearch::default() })),
        Just(HostedTool::UrlContext(HostedOptions::default())),
        Just(HostedTool::Raw(Native {
            provider: provider(),
            value: json!({"fileSearch": {"fileSearchStoreNames": ["s"], "topK": 3, "metadataFilter": "a=1"}}),
        })),
        Just(HostedTool::CodeInterpreter(CodeInterpreter::default())),
        Just(HostedTool::Raw(Native {
            provider: provider(),
            value: json!({"computerUse": {"environment": "ENVIRONMENT_BROWSER"}}),
        })),
        Just(HostedTool::RemoteMcp(RemoteMcp {
            label: "m".into(),
            url: Some("https://m".into()),
            authorization: Some("t".into()),
            ..RemoteMcp::default()
        })),
        Just(HostedTool::Raw(Native { provider: provider(), value: json!({"googleMaps": {"enableWidget": true}}) })),
    ]
}

fn request() -> impl Strategy<Value = TurnRequest> {
    let blocks = prop::collection::vec(
        prop_oneof![
            3 => user(),
            2 => prop::collection::vec(said(), 1..4).prop_map(|bodies| bodies.into_iter().map(|body| item(Origin::Model, body)).collect::<Vec<_>>()),
            2 => round(),
        ],
        0..5,
    );
    let tools = (prop::collection::btree_map("[a-e]", tool(), 0..3), prop::collection::vec(hosted(), 0..3), 0u8..6);
    let knobs = (proptest::option::of(0.0..2.0f64), proptest::option::of(1u64..99), any::<[bool; 12]>());
    (proptest::option::of(words()), user(), blocks, tools, knobs, 0u32..100).prop_map(
        |(instructions, first, blocks, (tools, hosted, choice), (temperature, count, flags), odd)| {
            let mut request =
                TurnRequest { instructions: instructions.map(Into::into), hosted, ..TurnRequest::default() };
            if request.instructions.is_some() && flags[0] {
                request.items.push(item(
                    Origin::Operator,
                    Message { role: Role::System, parts: vec![Part::text("Be kind.")], native: None },
                ));
            }
            request.items.extend(first);
            request.items.extend(blocks.into_iter().flatten());
            request.tools = tools.into_values().map(Arc::new).collect();
            request.tools.dedup_by(|a, b| a.name == b.name);
            let names: Vec<_> = request.tools.iter().map(|tool| tool.name.clone()).collect();
            let hosted = !request.hosted.is_empty();
            request.tool_choice = match (choice, names.as_slice()) {
                (0, _) if hosted => ToolChoice::Allowed(AllowedTools { hosted, ..AllowedTools::default() }),
                (0, _) => ToolChoice::None,
                (1, [_, ..]) => ToolChoice::Required,
                (2, [name, ..]) => ToolChoice::Tool(name.clone()),
                (3, [_, _, ..]) => ToolChoice::Allowed(AllowedTools { names, required: true, hosted }),
                (4, [_, ..]) => ToolChoice::Allowed(AllowedTools { names, required: false, hosted }),
                _ => ToolChoice::Auto,
            };
            let controls = &mut request.controls;
            (controls.temperature, controls.top_p, controls.frequency_penalty, controls.presence_penalty) =
                (temperature, temperature, temperature, temperature);
            (controls.max_output_tokens, controls.top_k, controls.seed) = (count, count, count);
            controls.top_logprobs = flags[1].then(|| count.unwrap_or(0));
            controls.stop = if flags[2] { vec!["END".into()] } else { Vec::new() };
            controls.reasoning_effort = flags[3].then(|| "high".to_owned());
            controls.reasoning_budget = (!flags[3] && flags[4]).then_some(1024);
            controls.reasoning_summary = flags[5].then(|| if flags[6] { "auto" } else { "none" }.to_owned());
            controls.modalities = if flags[7] { vec!["text".into(), "image".into()] } else { Vec::new() };
            controls.service_tier = flags[8].then(|| if flags[9] { "default" } else { "flex" }.to_owned());
            controls.store = flags[10].then_some(flags[11]);
            controls.cache =
                flags[9].then(|| CacheControl { content: Some("cachedContents/1".into()), ..CacheControl::default() });
            if flags[6] {
                controls.metadata = Map::from_iter([("team".to_owned(), "a".into())]);
                controls.safety = own(json!({"category": "C", "threshold": "T"})).into_iter().collect();
                request.native =
                    own(json!({"generationConfig": {"mediaResolution": "M"}, "modelArmorConfig": {"a": 1}}));
            }
            request.output = match (flags[7], flags[10]) {
                (true, true) => Some(OutputFormat {
                    name: "answer".into(),
                    description: Some("It.".into()),
                    strict: true,
                    schema: Schema::new(json!({"type": "object", "properties": {"n": {"type": "integer"}}})),
                }),
                (true, false) => Some(OutputFormat {
                    name: "output".into(),
                    description: None,
                    strict: false,
                    schema: Schema::new(json!({"type": "object"})),
                }),
                _ => None,
            };
            // A few ask for what this protocol cannot do.
            if odd < 2 {
                request.controls.include = vec!["logprobs".into()];
            }
            request
        },
    )
}

/// A request without what does not cross the wire, in the form that it has after it crossed.
fn folded(request: &TurnRequest) -> Value {
    let mut request = request.clone();
    request.model.clear();
    // The protocol always holds a model to a schema; whether others can is told by the schema.
    if let Some(output) = &mut request.output {
        output.strict = crate::schema::fits_strict(output.schema.as_value());
    }
    let mut ids: Vec<String> = Vec::new();
    let mut number = |id: &str| -> String {
        let at = ids.iter().position(|known| known == id).unwrap_or_else(|| {
            ids.push(id.to_owned());
            ids.len() - 1
        });
        format!("call_{at}")
    };
    let items: Vec<Value> = request
        .items
        .iter()
        .map(|item| match &item.body {
            ItemBody::ToolCall(call) => json!({"id": number(call.id.as_str()), "wire": call.provider_id, "name": call.name, "arguments": call.arguments.replay_text(), "native": call.native}),
            ItemBody::ToolResult(result) => json!({"id": number(result.call.as_str()), "wire": result.provider_id, "tool": result.tool, "failed": result.outcome.is_error(), "content": result.outcome.content, "native": result.native}),
            body => serde_json::to_value(body).unwrap(),
        })
        .collect();
    // Neighbouring messages of the model that are only text are one.
    let mut joined: Vec<Value> = Vec::with_capacity(items.len());
    let is_plain = |item: &Value| {
        let parts = item["parts"].as_array();
        item["role"] == "assistant"
            && parts.is_some_and(|parts| parts.iter().all(|part| part["type"] == "text" && part["native"].is_null()))
    };
    for item in items {
        match joined.last_mut().filter(|last| is_plain(last) && is_plain(&item)) {
            Some(last) => {
                last["parts"].as_array_mut().unwrap().extend(item["parts"].as_array().unwrap().iter().cloned())
            }
            None => joined.push(item),
        }
    }
    // Empty texts are none, and a message of nothing else is not there.
    for item in &mut joined {
        if let Some(parts) = item.get_mut("parts").and_then(Value::as_array_mut) {
            parts.retain(|part| !(part["type"] == "text" && part["text"] == "" && part["native"].is_null()));
        }
    }
    joined.retain(|item| !(item["parts"].as_array().is_some_and(Vec::is_empty) && item["native"].is_null()));
    request.items.clear();
    for tool in &mut request.tools {
        *tool = Arc::new(ToolDefinition { effect: Effect::Once, ..ToolDefinition::clone(tool) });
    }
    if let Some(output) = &mut request.output {
        let mut schema = output.schema.as_value().clone();
        schema.as_object_mut().unwrap().retain(|key, _| key != "title" && key != "description");
        output.schema = Schema::new(schema);
    }
    json!({"request": serde_json::to_value(&request).unwrap(), "items": joined})
}

static OFFERED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_request_comes_back_as_it_went(request in request()) {
        let offered = OFFERED.fetch_add(1, Ordering::Relaxed) + 1;
        if let Ok(encoded) = encode_request(&request, &Dialect::new(provider())) {
            TAKEN.fetch_add(1, Ordering::Relaxed);
            prop_assert!(encoded.omitted.is_empty(), "{:?}", encoded.omitted);
            let decoded = decode_request(&encoded.body, &provider(), &Env::system()).unwrap();
            prop_assert_eq!(folded(&decoded.request), folded(&request));
            // And its body is its own.
            let onto = encode_request_onto(&decoded.body, &decoded.request, &decoded.request, &Dialect::new(provider())).unwrap();
            prop_assert_eq!(serde_json::from_slice::<Value>(&onto.body).unwrap(), Value::clone(&decoded.body));
        }
        if offered.is_multiple_of(128) {
            let taken = TAKEN.load(Ordering::Relaxed);
            eprintln!("gemini takes {taken} of {offered} generated requests ({:.1} %)", 100.0 * taken as f64 / offered as f64);
            prop_assert!(taken * 100 >= offered * 95, "{taken} of {offered}");
        }
    }

    #[test]
    fn an_answer_comes_back_as_it_went(turn in turn()) {
        let wanted = folded_turn(&turn);
        let first = events_of(&turn);
        // As a decoder gives it: state after its text.
        let mut later = Vec::new();
        let mut events = first.clone().into_iter().peekable();
        while let Some(event) = events.next() {
            let is_state = matches!(event, TurnEvent::ReasoningState(_) | TurnEvent::TextState(_));
            if is_state && matches!(events.peek(), Some(TurnEvent::Text(_) | TurnEvent::Reasoning(_))) {
                later.extend(events.next());
            }
            later.push(event);
        }
        let whole = encode_response(&head(), &turn).to_string();
        for text in [written(&first, false), written(&first, true), written(&later, false), whole] {
            let events = match text.starts_with('{') {
                true => decode_response(&provider(), Names::default(), text.as_bytes()).unwrap(),
                false => pieces([text.as_bytes()]),
            };
            let found = fold(&events).unwrap();
            prop_assert_eq!(folded_turn(&found), wanted.clone(), "{}", text);
        }
    }
}

fn turn() -> impl Strategy<Value = Turn> {
    let bodies = prop::collection::vec(prop_oneof![4 => said(), 2 => call().prop_map(ItemBody::from)], 0..6);
    let usage = proptest::option::of((0u64..99, 0u64..99, 0u64..99, 0u64..99));
    let stop = prop_oneof![
        Just(StopReason::End),
        Just(StopReason::MaxTokens),
        Just(StopReason::ContentFilter),
        Just(StopReason::Other("OTHER".into()))
    ];
    (bodies, usage, stop, any::<bool>()).prop_map(|(bodies, usage, stop, extra)| {
        let mut turn = turn_of(bodies);
        turn.stop = if stop == StopReason::End && turn.calls().next().is_some() { StopReason::ToolCalls } else { stop };
        turn.usage = usage.map(|(input, cache_read, text, reasoning)| Usage { input, cache_read, output: text + reasoning, reasoning, ..Usage::default() });
        if extra {
            turn.service_tier = Some("flex".into());
            turn.native = own(json!({"candidate": {"avgLogprobs": -0.5}, "response": {"createTime": "t"}, "usage": {"trafficType": "x"}}));
        }
        turn
    })
}

/// The items of a turn with what is one on the wire put together: adjacent texts without state, and a text with the state in
/// the empty part after it.
fn folded_turn(turn: &Turn) -> Value {
    let mut items: Vec<Value> = Vec::new();
    for item in &turn.items {
        let next = match &item.body {
            ItemBody::ToolCall(call) => {
                json!({"call": call.name, "arguments": call.arguments.replay_text(), "native": call.native})
            }
            ItemBody::Message(message) => match message.parts.as_slice() {
                [Part::Text(text)] => json!({"text": text.text, "native": text.native}),
                _ => serde_json::to_value(&item.body).unwrap(),
            },
            ItemBody::Reasoning(reasoning) => {
                let native = reasoning.native.clone().filter(|native| native.value != json!({}));
                json!({"thought": reasoning.text, "native": native})
            }
            body => serde_json::to_value(body).unwrap(),
        };
        for key in ["text", "thought"] {
            if next[key] == "" && next["native"].is_null() {
                continue;
            }
        }
        let key = ["text", "thought"].into_iter().find(|key| next.get(*key).is_some());
        if key.is_some_and(|key| next[key] == "" && next["native"].is_null()) {
            continue;
        }
        if let (Some(key), Some(last)) = (key, items.last_mut())
            && last.get(key).is_some()
            && last["native"].is_null()
            && (next["native"].is_null() || next[key] == "")
        {
            let joined = format!("{}{}", last[key].as_str().unwrap(), next[key].as_str().unwrap());
            last[key] = joined.into();
            last["native"] = next["native"].clone();
            continue;
        }
        items.push(next);
    }
    // What came unsigned before a signed text may have been put to it.
    let mut folded: Vec<Value> = Vec::new();
    for next in items {
        let key = ["text", "thought"].into_iter().find(|key| next.get(*key).is_some());
        if let (Some(key), Some(last)) = (key, folded.last_mut())
            && last.get(key).is_some()
            && last["native"].is_null()
        {
            last[key] = format!("{}{}", last[key].as_str().unwrap(), next[key].as_str().unwrap()).into();
            last["native"] = next["native"].clone();
            continue;
        }
        folded.push(next);
    }
    json!({
        "items": folded, "stop": turn.stop, "usage": turn.usage, "tier": turn.service_tier,
        "native": turn.native.as_ref().map(|native| &native.value)
    })
}
