//! One sample of every kind of thing that is serialised.

use placet_core::error::ErrorKind;
use placet_core::event::*;
use placet_core::hosted::{HostedTool, WebSearch};
use placet_core::id::IdKind;
use placet_core::item::*;
use placet_core::outcome::RevisionChange;
use placet_core::output::{OutputFallback, OutputRejected};
use placet_core::part::*;
use placet_core::turn::*;
use placet_core::*;
use serde_json::{Map, json};
use std::sync::Arc;

pub(crate) fn id<I: IdKind>(number: u8) -> I {
    let mut bytes = [0; 16];
    bytes[15] = number;
    I::from_uuid(uuid::Uuid::from_bytes(bytes))
}

fn map(value: serde_json::Value) -> Map<String, serde_json::Value> {
    value.as_object().expect("an object").clone()
}

pub(crate) fn definition() -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: "pay".into(),
        description: "Pays an invoice.".into(),
        schema: Schema::new(
            json!({"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}}),
        ),
        effect: Effect::Once,
        revision_argument: Some("revision".into()),
        strict: Some(true),
        cache: None,
        native: None,
    })
}

pub(crate) fn call() -> ToolCall {
    ToolCall {
        id: id(3),
        provider_id: Some("call_0".into()),
        name: "pay".into(),
        arguments: Arguments::from_text("{ \"z\" : 1e2 }"),
        native: Some(Native { provider: "google".into(), value: json!({"signature": "abc"}) }),
    }
}

pub(crate) fn result() -> ToolResult {
    let mut outcome =
        Outcome::new(Status::Mistaken, Stage::Arguments, Some(Reason::InvalidArguments), "expected a string");
    outcome.payload = Some(json!({"kept": "for code"}));
    outcome.detail = Some(json!([{"path": "/z", "problem": "expected string, found number"}]));
    outcome.cause = Some("for the journal".into());
    outcome.revision = Some(RevisionChange { before: "4".into(), after: "5".into() });
    outcome.cut = Some(Cut { kept: 10, total: 90, unit: "bytes".into() });
    outcome.unredacted = true;
    outcome.origin = [Origin::Tool("pay".into()), Origin::File].into_iter().collect();
    outcome.repeated = true;
    outcome.facts = map(json!({"sandbox": "L1"}));
    ToolResult {
        call: id(3),
        provider_id: Some("call_0".into()),
        tool: "pay".into(),
        capability: Some("bank".into()),
        outcome,
        native: None,
    }
}

pub(crate) fn parts() -> Vec<Part> {
    let media = |source, mime: &str| Media { mime_type: Some(mime.into()), ..Media::new(source) };
    vec![
        Part::text("héllo"),
        Part::Image(Media {
            detail: Some("low".into()),
            name: Some("a.png".into()),
            ..media(MediaSource::Inline(Inline { base64: "aGk=".into() }), "image/png")
        }),
        Part::Audio(media(MediaSource::Url(Url { url: "https://example.org/a.wav".into() }), "audio/wav")),
        Part::File(media(MediaSource::Artifact(ArtifactSource { id: id(7) }), "application/pdf")),
        Part::File(media(
            MediaSource::ProviderFile(ProviderFile { provider: "openai".into(), id: "file-1".into() }),
            "text/plain",
        )),
        Part::Native(Native { provider: "openai".into(), value: json!({"anything": [1, null]}) }),
    ]
}

pub(crate) fn items() -> Vec<Arc<Item>> {
    let native = Native { provider: "anthropic".into(), value: json!({"signature": "s"}) };
    let bodies: Vec<(Origin, ItemBody)> = vec![
        (Origin::User, Message { role: Role::User, parts: parts(), native: None }.into()),
        (Origin::Model, Reasoning { text: "hm".into(), native: Some(native.clone()) }.into()),
        (Origin::Model, call().into()),
        (Origin::Tool("pay".into()), result().into()),
        (
            Origin::Web(Some("example.org".into())),
            HostedCall { provider: "openai".into(), kind: "web_search_call".into(), value: json!({"id": "ws_1"}) }
                .into(),
        ),
        (Origin::User, ApprovalItem { id: id(9), call: id(3), approved: Some(true) }.into()),
        (
            Origin::Model,
            Artifact {
                id: id(7),
                name: "report.pdf".into(),
                media: Media::new(MediaSource::Inline(Inline { base64: "aGk=".into() })),
            }
            .into(),
        ),
        (Origin::Model, native.into()),
    ];
    bodies
        .into_iter()
        .enumerate()
        .map(|(number, (origin, body))| Arc::new(Item::new(id(number as u8), origin, body)))
        .collect()
}

pub(crate) fn turn() -> Turn {
    Turn {
        id: id(2),
        model: Some("gpt-5.4-2026-10".into()),
        response_id: Some("resp_1".into()),
        items: items(),
        stop: StopReason::ToolCalls,
        usage: Some(Usage {
            input: 1,
            cache_read: 2,
            cache_write: 3,
            cache_write_long: 4,
            output: 5,
            reasoning: 1,
            searches: 2,
            ..Usage::default()
        }),
        provider_state: Some(ProviderState { provider: "openai".into(), value: json!({"id": "resp_1"}) }),
        service_tier: Some("flex".into()),
        native: Some(Native { provider: "openai".into(), value: json!({"container": "c_1"}) }),
    }
}

pub(crate) fn request() -> TurnRequest {
    TurnRequest {
        model: "gpt-5.4".into(),
        instructions: Some("Be brief.".into()),
        items: items(),
        tools: vec![definition()],
        tool_choice: ToolChoice::Tool("pay".into()),
        controls: Controls {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_output_tokens: Some(100),
            stop: vec!["END".into()],
            parallel_tool_calls: Some(false),
            reasoning_effort: Some("low".into()),
            seed: Some(7),
            store: Some(false),
            ..Controls::default()
        },
        output: Some(OutputFormat {
            name: "answer".into(),
            description: None,
            schema: Schema::empty_object(),
            strict: true,
        }),
        provider_state: Some(ProviderState { provider: "openai".into(), value: json!({"id": "resp_0"}) }),
        hosted: vec![HostedTool::WebSearch(WebSearch { max_uses: Some(2), ..WebSearch::default() })],
        extra: map(json!({"service_tier": "flex"})),
        native: Some(Native { provider: "openai".into(), value: json!({"moderation": true}) }),
    }
}

pub(crate) fn error() -> ProviderError {
    ProviderError {
        status: Some(429),
        code: Some("rate_limit_exceeded".into()),
        request_id: Some("req_1".into()),
        retry_after_ms: Some(1500),
        raw: Some("{}".into()),
        ..ProviderError::new(ErrorKind::RateLimited, "openai".into(), "slow down").with_hint("wait")
    }
}

pub(crate) fn turn_events() -> Vec<TurnEvent> {
    let delta = || TextDelta { index: 0, text: "a".into() };
    vec![
        TurnEvent::Started(TurnStarted { model: Some("m".into()), response_id: Some("r".into()) }),
        TurnEvent::Text(delta()),
        TurnEvent::Refusal(delta()),
        TurnEvent::Reasoning(delta()),
        TurnEvent::ReasoningState(ReasoningState {
            index: 0,
            native: Native { provider: "p".into(), value: json!({"s": 1}) },
        }),
        TurnEvent::TextState(ReasoningState {
            index: 0,
            native: Native { provider: "p".into(), value: json!({"citations": []}) },
        }),
        TurnEvent::Call(CallDelta {
            index: 1,
            provider_id: Some("c".into()),
            name: Some("pay".into()),
            arguments: "{".into(),
            native: None,
        }),
        TurnEvent::Whole(Box::new(WholeItem { index: 2, body: items()[4].body.clone() })),
        TurnEvent::Usage(Usage { input: 3, ..Usage::default() }),
        TurnEvent::Finished(TurnFinished::new(StopReason::Other("weary".into()))),
        TurnEvent::Failed(Box::new(error())),
    ]
}

pub(crate) fn events() -> Vec<EventBody> {
    let price = Price {
        input: "2".parse().expect("decimal"),
        output: "10.50".parse().expect("decimal"),
        cache_read: Some("0.2".parse().expect("decimal")),
        cache_write: None,
        cache_write_long: None,
    };
    let capability = Some(CapabilityId::from("bank"));
    let cost = Some(Money::parse("0.0125").expect("money"));
    let usage = Usage { input: 10, output: 2, ..Usage::default() };
    let decided = |reason: Option<&str>| ApprovalDecided {
        approval: id(9),
        call: id(3),
        tool: "pay".into(),
        capability: capability.clone(),
        by: "terminal".into(),
        reason: reason.map(str::to_owned),
    };
    let ended = || CallEnded { turn: id(2), result: result(), took_ms: 12 };
    vec![
        EventBody::RunStarted(Box::new(RunStarted {
            version: "0.1.0".into(),
            provider: "openai".into(),
            model: "gpt-5.4".into(),
            instructions: Some("Be brief.".into()),
            input: vec![items()[0].clone()],
            provider_state: None,
            grants: vec![GrantRecord { capability: "bank".into(), tools: vec![definition()], unredacted: true }],
            declared: Vec::new(),
            hosted: vec!["web_search".into()],
            controls: request().controls,
            tool_choice: ToolChoice::Required,
            output: Some(Box::new(OutputSpec {
                format: OutputFormat {
                    name: "answer".into(),
                    description: None,
                    schema: Schema::empty_object(),
                    strict: true,
                },
                strategy: OutputStrategy::ProviderNative,
                fallback: Some(OutputStrategy::FinalizerTool),
                repairs: 1,
            })),
            limits: Limits { time_ms: Some(1000), tokens: Some(5), cost, ..Limits::default() },
            price: Some(price),
            rates: None,
            billing: Some(Billing::Markup(Markup { round_to: Some(2), ..Markup::default() })),
            launch: map(json!({"files": "."})),
            unredacted: true,
        })),
        EventBody::RunResumed(RunResumed { token: 2, interrupted: vec![id(3)] }),
        EventBody::RunSuspended(RunSuspended { reason: "waits for a human".into(), owed: vec![id(3)] }),
        EventBody::RunCompleted(RunCompleted {
            end: RunEnd::LimitReached,
            detail: Some("8 rounds".into()),
            usage,
            cost,
            billed: cost,
            output: Some(json!({"n": 1})),
            turns: 9,
            rounds: 8,
            partial: None,
        }),
        EventBody::RunFailed(RunFailed {
            kind: ErrorKind::Authentication,
            message: "no key".into(),
            hints: vec!["set OPENAI_API_KEY".into()],
            retry_after_ms: Some(7_000),
            usage,
            cost: None,
            billed: None,
            partial: None,
        }),
        EventBody::RequestStarted(RequestStarted { turn: 1, provider: "openai".into(), model: "gpt-5.4".into() }),
        EventBody::TextDelta(Delta { index: 0, delta: "a".into() }),
        EventBody::ReasoningDelta(Delta { index: 0, delta: "a".into() }),
        EventBody::ArgumentsDelta(Delta { index: 0, delta: "{".into() }),
        EventBody::TurnCompleted(Box::new(TurnCompleted {
            number: 1,
            turn: turn(),
            cost,
            billed: cost,
            omitted: vec!["seed".into()],
            took_ms: 900,
        })),
        EventBody::OutputRejected(OutputRejected {
            turn: 1,
            problems: vec!["/n: \"a\" is not of type \"integer\"".into()],
            item: Some(items()[0].clone()),
        }),
        EventBody::OutputFallback(OutputFallback {
            from: OutputStrategy::ProviderNative,
            to: OutputStrategy::FinalizerTool,
            because: "no such field".into(),
        }),
        EventBody::CallRequested(Box::new(CallRequested {
            turn: id(2),
            call: call(),
            capability: capability.clone(),
            idempotency_key: "key".into(),
        })),
        EventBody::CallStarted(CallStarted { call: id(3), tool: "pay".into(), capability: capability.clone() }),
        EventBody::CallProgress(CallProgress {
            call: id(3),
            capability: capability.clone(),
            done: 0.5,
            total: Some(1.0),
            message: Some("half".into()),
        }),
        EventBody::CallLog(CallLog { call: id(3), capability: capability.clone(), message: "paid".into() }),
        EventBody::CallCompleted(Box::new(CallEnded {
            result: ToolResult { outcome: Outcome::new(Status::Completed, Stage::Execute, None, "paid"), ..result() },
            ..ended()
        })),
        EventBody::CallFailed(Box::new(ended())),
        EventBody::ApprovalRequested(ApprovalRequested {
            approval: id(9),
            call: id(3),
            tool: "pay".into(),
            capability: capability.clone(),
            question: "Pay?".into(),
            content_hash: Digest::of(b"pay").to_hex(),
        }),
        EventBody::ApprovalApproved(decided(None)),
        EventBody::ApprovalDenied(decided(Some("too much"))),
        EventBody::RetryStarted(RetryStarted { attempt: 2, after_ms: 500, reason: "overloaded".into() }),
        EventBody::Snapshot(Snapshot { text: "so far".into(), missed: 4 }),
    ]
}
