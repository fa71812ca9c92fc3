//! For each field a smallest request that has it, beside the same one without it. The tests of every protocol go by these;
//! tests from outside include this file by its path.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "not every binary that includes this file uses all of it")]

use placet_core::env::ManualClock;
use placet_core::hosted::{
    CodeInterpreter, ComputerUse, FileSearch, HostedOptions, HostedTool, RemoteMcp, WebFetch, WebSearch,
};
use placet_core::item::{Artifact, HostedCall, Reasoning};
use placet_core::part::{ArtifactSource, CacheMark, Inline, Media, MediaSource, Native, ProviderFile, Text, Url};
use placet_core::turn::{AllowedTools, CacheControl, CacheStrategy, Compaction, OutputFormat, StateMode};
use placet_core::{
    Arguments, CallId, Effect, Env, Item, ItemBody, Message, Origin, Outcome, Part, ProviderId, ProviderState, Role,
    Schema, Stage, Status, Timestamp, ToolCall, ToolChoice, ToolDefinition, ToolResult, TurnRequest,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// A picture of one pixel.
pub(crate) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

fn map(value: Value) -> Map<String, Value> {
    value.as_object().cloned().expect("an object")
}

fn text() -> Part {
    Part::text("Hello")
}

/// The request without the field and the one with it. State in it is that of `own`.
pub(crate) fn example(field: &str, own: &ProviderId) -> (TurnRequest, TurnRequest) {
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 7);
    let item = |body: ItemBody| Arc::new(Item::new(env.new_id(), Origin::User, body));
    let message = |role: Role, parts: Vec<Part>| item(Message { role, parts, native: None }.into());
    let native = |value: Value| Native { provider: own.clone(), value };
    let foreign = |value: Value| Native { provider: "another".into(), value };
    let tool = || {
        ToolDefinition::new(
            "read",
            "Reads a file.",
            Schema::new(json!({"type": "object", "properties": {"path": {"type": "string"}}})),
            Effect::Read,
        )
    };
    let call = |id: &CallId| ToolCall {
        id: id.clone(),
        provider_id: Some("call_1".into()),
        name: "read".into(),
        arguments: Arguments::from_text(r#"{"path":"a"}"#),
        native: None,
    };
    let result = |id: &CallId| ToolResult {
        call: id.clone(),
        provider_id: Some("call_1".into()),
        tool: "read".into(),
        capability: None,
        outcome: Outcome::new(Status::Completed, Stage::Execute, None, "done"),
        native: None,
    };
    let media = |source: MediaSource, mime: &str| Media { mime_type: Some(mime.to_owned()), ..Media::new(source) };
    let inline = |base64: &str| MediaSource::Inline(Inline { base64: base64.into() });
    let url = |url: &str| MediaSource::Url(Url { url: url.to_owned() });
    let held = || MediaSource::ProviderFile(ProviderFile { provider: own.clone(), id: "file_1".into() });
    let id: CallId = env.new_id();
    let mark = || Some(CacheMark { ttl: None });

    let base = TurnRequest {
        model: "model-1".into(),
        items: vec![message(Role::User, vec![text()])],
        ..TurnRequest::default()
    };
    let mut without = base.clone();
    // The request whose last message has one more part.
    let with_part = |part: Part| {
        let mut with = base.clone();
        with.items = vec![message(Role::User, vec![text(), part])];
        with
    };
    let with_item = |body: ItemBody| {
        let mut with = base.clone();
        with.items.push(item(body));
        with
    };
    // A conversation with a call and its result.
    let with_call = |call: ToolCall, result: ToolResult| {
        let mut with = base.clone();
        with.tools = vec![Arc::new(tool())];
        with.items.push(item(call.into()));
        with.items.push(item(result.into()));
        with
    };
    let with_tool = |tool: ToolDefinition| TurnRequest { tools: vec![Arc::new(tool)], ..base.clone() };
    let with_hosted = |hosted: HostedTool| TurnRequest { hosted: vec![hosted], ..base.clone() };
    let with_choice = |choice: ToolChoice| TurnRequest { tool_choice: choice, ..with_tool(tool()) };
    let with_output = |description: Option<&str>, schema: Value, strict: bool| TurnRequest {
        output: Some(OutputFormat {
            name: "answer".into(),
            description: description.map(str::to_owned),
            schema: Schema::new(schema),
            strict,
        }),
        ..base.clone()
    };
    let schema = || json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false});
    let mut controls = base.clone();
    let knobs = &mut controls.controls;
    let search = || WebSearch::default();
    let fetch = || WebFetch::default();
    let mcp = || RemoteMcp { label: "crm".into(), url: Some("https://mcp.example/sse".into()), ..RemoteMcp::default() };

    let with = match field {
        "model" => TurnRequest { model: "model-2".into(), ..base.clone() },
        "instructions" => TurnRequest { instructions: Some("Be brief.".into()), ..base.clone() },
        "message.system" => {
            with_item(Message { role: Role::System, parts: vec![Part::text("Be kind.")], native: None }.into())
        }
        "message.user" => with_part(Part::text("More")),
        "message.prefill" => {
            with_item(Message { role: Role::Assistant, parts: vec![Part::text("The answer is")], native: None }.into())
        }
        "message.assistant" | "message.native" => {
            let said = |native| Message { role: Role::Assistant, parts: vec![Part::text("Hi.")], native };
            let mut with = with_item(said(None).into());
            if field == "message.native" {
                without = with;
                with = with_item(said(Some(native(json!({"odd": 1})))).into());
            }
            with.items.push(message(Role::User, vec![Part::text("Go on")]));
            if field == "message.native" {
                without.items.push(message(Role::User, vec![Part::text("Go on")]));
            }
            with
        }
        "reasoning" => {
            without = with_call(call(&id), result(&id));
            let mut with = without.clone();
            // Every protocol finds its own in it: a field of its body or item, a signature, encrypted content.
            let state = json!({
                "field": "reasoning_content", "type": "thinking", "thinking": "Hm.", "signature": "c2ln",
                "thoughtSignature": "c2ln", "text": "Hm.", "thought": true, "id": "rs_1", "encrypted_content": "ZW5j",
                "summary": [{"type": "summary_text", "text": "Hm."}],
            });
            with.items.insert(1, item(Reasoning { text: "Hm.".into(), native: Some(native(state)) }.into()));
            with
        }
        "tool_call" | "tool_result" => with_call(call(&id), result(&id)),
        "tool_call.native" => {
            without = with_call(call(&id), result(&id));
            with_call(
                ToolCall {
                    native: Some(native(json!({"thoughtSignature": "c2ln", "caller": {"type": "direct"}}))),
                    ..call(&id)
                },
                result(&id),
            )
        }
        "tool_result.failed" => {
            without = with_call(call(&id), result(&id));
            let mut failed = result(&id);
            failed.outcome.status = Status::Failed;
            with_call(call(&id), failed)
        }
        "tool_result.image" | "tool_result.file" => {
            without = with_call(call(&id), result(&id));
            let mut shown = result(&id);
            shown.outcome.content.push(match field {
                "tool_result.image" => Part::Image(media(inline(PNG), "image/png")),
                _ => Part::File(Media { name: Some("a.pdf".into()), ..media(inline("JVBERi0="), "application/pdf") }),
            });
            with_call(call(&id), shown)
        }
        "tool_result.native" => {
            without = with_call(call(&id), result(&id));
            with_call(
                call(&id),
                ToolResult {
                    native: Some(native(json!({"cache_control": {"type": "ephemeral"}, "odd": 1}))),
                    ..result(&id)
                },
            )
        }
        "hosted_call" => with_item(
            HostedCall {
                provider: own.clone(),
                kind: "web_search_call".into(),
                value: json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
            }
            .into(),
        ),
        "artifact" => with_item(
            Artifact { id: env.new_id(), name: "a.png".into(), media: media(inline(PNG), "image/png") }.into(),
        ),
        "native_item" => with_item(
            native(json!({"type": "odd", "role": "user", "content": "odd", "parts": [{"text": "odd"}]})).into(),
        ),
        "text.cache" => {
            without = with_part(Part::text("More"));
            with_part(Part::Text(Text { cache: mark(), ..Text::new("More") }))
        }
        "text.native" => {
            without = with_part(Part::text("More"));
            with_part(Part::Text(Text {
                native: Some(native(json!({"odd": 1, "citations": {"enabled": true}, "thoughtSignature": "c2ln"}))),
                ..Text::new("More")
            }))
        }
        "image.inline" => with_part(Part::Image(media(inline(PNG), "image/png"))),
        "image.url" => with_part(Part::Image(media(url("https://example.com/a.png"), "image/png"))),
        "image.provider_file" => with_part(Part::Image(media(held(), "image/png"))),
        "image.artifact" => {
            with_part(Part::Image(media(MediaSource::Artifact(ArtifactSource { id: env.new_id() }), "image/png")))
        }
        "image.detail" => {
            without = with_part(Part::Image(media(inline(PNG), "image/png")));
            with_part(Part::Image(Media { detail: Some("high".into()), ..media(inline(PNG), "image/png") }))
        }
        "image.cache" => {
            without = with_part(Part::Image(media(inline(PNG), "image/png")));
            with_part(Part::Image(Media { cache: mark(), ..media(inline(PNG), "image/png") }))
        }
        "image.native" => {
            without = with_part(Part::Image(media(inline(PNG), "image/png")));
            with_part(Part::Image(Media { native: Some(native(json!({"odd": 1}))), ..media(inline(PNG), "image/png") }))
        }
        "audio.inline" => with_part(Part::Audio(media(inline("UklGRg=="), "audio/wav"))),
        "audio.url" => with_part(Part::Audio(media(url("https://example.com/a.wav"), "audio/wav"))),
        "audio.provider_file" => with_part(Part::Audio(media(held(), "audio/wav"))),
        "file.inline" => {
            with_part(Part::File(Media { name: Some("a.pdf".into()), ..media(inline("JVBERi0="), "application/pdf") }))
        }
        "file.url" => with_part(Part::File(media(url("https://example.com/a.pdf"), "application/pdf"))),
        "file.provider_file" => with_part(Part::File(media(held(), "application/pdf"))),
        "file.name" => {
            without = with_part(Part::File(media(inline("JVBERi0="), "application/pdf")));
            with_part(Part::File(Media {
                name: Some("report.pdf".into()),
                ..media(inline("JVBERi0="), "application/pdf")
            }))
        }
        "file.video" => with_part(Part::File(media(url("https://example.com/a.mp4"), "video/mp4"))),
        "native_part.foreign" => with_part(Part::Native(foreign(json!({"type": "foreign", "odd": 1})))),
        "search_result" => with_part(Part::Native(foreign(json!({
            "type": "search_result", "source": "https://example.com", "title": "A page",
            "content": [{"type": "text", "text": "It is blue."}],
        })))),
        "document.blocks" => with_part(Part::Native(foreign(json!({
            "type": "document", "title": "A paper",
            "source": {"type": "content", "content": [{"type": "text", "text": "It is blue."}]},
        })))),
        "file.context" => {
            let file = Media { name: Some("a.pdf".into()), ..media(inline("JVBERi0="), "application/pdf") };
            without = with_part(Part::File(file.clone()));
            with_part(Part::File(Media { native: Some(foreign(json!({"context": "From 1990."}))), ..file }))
        }
        "file.video_metadata" => {
            let file = Media { name: Some("a.pdf".into()), ..media(inline("JVBERi0="), "application/pdf") };
            without = with_part(Part::File(file.clone()));
            let piece = json!({"videoMetadata": {"startOffset": "1s", "endOffset": "3s"}});
            with_part(Part::File(Media { native: Some(foreign(piece)), ..file }))
        }
        "message.audio" => {
            let sound = Some(foreign(json!({"audio": {"id": "audio_1"}})));
            with_item(Message { role: Role::Assistant, parts: Vec::new(), native: sound }.into())
        }
        "message.order" => {
            let said =
                || item(Message { role: Role::Assistant, parts: vec![Part::text("Done.")], native: None }.into());
            without = with_call(call(&id), result(&id));
            let mut with = without.clone();
            without.items.insert(1, said());
            with.items.insert(2, said());
            with
        }
        "native_item.foreign" => with_item(foreign(json!({"type": "foreign", "odd": 1})).into()),
        "native_item.summary" => {
            with_item(foreign(json!({"type": "compaction", "content": "They said hello."})).into())
        }
        "tool.grammar" => {
            let custom = |format: Value| {
                let kept = json!({"type": "custom", "custom": {"format": format.clone()}, "format": format});
                with_tool(ToolDefinition { native: Some(foreign(kept)), ..tool() })
            };
            without = custom(json!({"type": "text"}));
            custom(json!({"type": "grammar", "syntax": "lark", "definition": "start: \"a\""}))
        }
        "tool_choice.validated" => {
            without = with_tool(tool());
            let kept = json!({"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}});
            TurnRequest { native: Some(foreign(kept)), ..without.clone() }
        }
        "native.n" => TurnRequest { native: Some(foreign(json!({"n": 2}))), ..base.clone() },
        "native.audio" => {
            TurnRequest { native: Some(foreign(json!({"audio": {"voice": "alloy", "format": "mp3"}}))), ..base.clone() }
        }
        "native.response_format" => TurnRequest {
            native: Some(foreign(json!({"response_format": {"type": "grammar", "grammar": "start: a"}}))),
            ..base.clone()
        },
        "native.generationConfig.responseMimeType" => TurnRequest {
            native: Some(foreign(json!({"generationConfig": {"responseMimeType": "text/x.enum"}}))),
            ..base.clone()
        },
        "native_part" => with_part(Part::Native(native(json!({"type": "odd", "odd": 1})))),
        "tool" => with_tool(tool()),
        "tool.strict" => {
            without = with_tool(tool());
            with_tool(ToolDefinition { strict: Some(true), ..tool() })
        }
        "tool.cache" => {
            without = with_tool(tool());
            with_tool(ToolDefinition { cache: mark(), ..tool() })
        }
        "tool.native" => {
            without = with_tool(tool());
            with_tool(ToolDefinition { native: Some(native(json!({"defer_loading": true}))), ..tool() })
        }
        // What another provider knows who may call a tool, where the work is done and what its stored words are.
        "tool.allowed_callers" => {
            without = with_tool(tool());
            let native = Some(foreign(json!({"allowed_callers": ["code_execution_20260120"]})));
            with_tool(ToolDefinition { native, ..tool() })
        }
        "hosted.web_search.allowed_callers" => {
            without = with_hosted(HostedTool::WebSearch(search()));
            let kept = json!({"tools": {"web_search": {"allowed_callers": ["code_execution_20260120"]}}});
            TurnRequest { native: Some(foreign(kept)), ..without.clone() }
        }
        "native.inference_geo" | "native.modelArmorConfig" | "native.prompt" | "native.thread" => {
            let key = field.rsplit('.').next().unwrap_or_default();
            TurnRequest { native: Some(foreign(json!({key: "eu"}))), ..base.clone() }
        }
        "tool_choice.required" => {
            without = with_tool(tool());
            with_choice(ToolChoice::Required)
        }
        "tool_choice.none" => {
            without = with_tool(tool());
            with_choice(ToolChoice::None)
        }
        "tool_choice.tool" => {
            without = with_tool(tool());
            with_choice(ToolChoice::Tool("read".into()))
        }
        "tool_choice.allowed" | "tool_choice.allowed_required" => {
            without = with_tool(tool());
            with_choice(ToolChoice::Allowed(AllowedTools {
                names: vec!["read".into()],
                required: field.ends_with("required"),
                hosted: false,
            }))
        }
        "parallel_tool_calls.true" | "parallel_tool_calls.false" => {
            without = with_tool(tool());
            let mut with = without.clone();
            with.controls.parallel_tool_calls = Some(field.ends_with("true"));
            with
        }
        "output.strict" => with_output(None, schema(), true),
        "output.loose" => with_output(None, schema(), false),
        "output.any_object" => with_output(None, json!({"type": "object"}), false),
        "output.name" => {
            let named = with_output(None, schema(), true);
            without = named.clone();
            if let Some(output) = &mut without.output {
                output.name = "output".into();
            }
            named
        }
        "output.description" => {
            without = with_output(None, schema(), true);
            with_output(Some("The answer."), schema(), true)
        }
        "provider_state" => TurnRequest {
            provider_state: Some(ProviderState {
                provider: own.clone(),
                value: json!({"response_id": "resp_1", "previous_response_id": "resp_1"}),
            }),
            ..base.clone()
        },
        "provider_state.previous_response_id" | "provider_state.conversation" => {
            let key = field.rsplit('.').next().unwrap_or_default();
            let value = json!({key: "held_1", crate::foreign::FOLLOWS: true});
            TurnRequest { provider_state: Some(ProviderState { provider: own.clone(), value }), ..base.clone() }
        }
        "hosted.web_search" => with_hosted(HostedTool::WebSearch(search())),
        "hosted.web_search.max_uses"
        | "hosted.web_search.allowed_domains"
        | "hosted.web_search.blocked_domains"
        | "hosted.web_search.context_size"
        | "hosted.web_search.user_location" => {
            without = with_hosted(HostedTool::WebSearch(search()));
            with_hosted(HostedTool::WebSearch(match field.rsplit('.').next().unwrap_or_default() {
                "max_uses" => WebSearch { max_uses: Some(2), ..search() },
                "allowed_domains" => WebSearch { allowed_domains: vec!["example.com".into()], ..search() },
                "blocked_domains" => WebSearch { blocked_domains: vec!["example.org".into()], ..search() },
                "context_size" => WebSearch { context_size: Some("low".into()), ..search() },
                _ => WebSearch { user_location: Some(json!({"type": "approximate", "country": "CH"})), ..search() },
            }))
        }
        "hosted.web_fetch" => with_hosted(HostedTool::WebFetch(fetch())),
        "hosted.web_fetch.max_uses" | "hosted.web_fetch.allowed_domains" | "hosted.web_fetch.blocked_domains" => {
            without = with_hosted(HostedTool::WebFetch(fetch()));
            with_hosted(HostedTool::WebFetch(match field.rsplit('.').next().unwrap_or_default() {
                "max_uses" => WebFetch { max_uses: Some(2), ..fetch() },
                "allowed_domains" => WebFetch { allowed_domains: vec!["example.com".into()], ..fetch() },
                _ => WebFetch { blocked_domains: vec!["example.org".into()], ..fetch() },
            }))
        }
        "hosted.url_context" => with_hosted(HostedTool::UrlContext(HostedOptions::default())),
        "hosted.file_search" | "hosted.file_search.max_results" | "hosted.file_search.filters" => {
            let plain = FileSearch { stores: vec!["vs_1".into()], ..FileSearch::default() };
            let with = match field {
                "hosted.file_search" => plain.clone(),
                "hosted.file_search.max_results" => FileSearch { max_results: Some(3), ..plain.clone() },
                _ => FileSearch { filters: Some(json!({"type": "eq", "key": "a", "value": "b"})), ..plain.clone() },
            };
            if field != "hosted.file_search" {
                without = with_hosted(HostedTool::FileSearch(plain));
            }
            with_hosted(HostedTool::FileSearch(with))
        }
        "hosted.code_interpreter" => with_hosted(HostedTool::CodeInterpreter(CodeInterpreter::default())),
        "hosted.code_interpreter.container" => {
            without = with_hosted(HostedTool::CodeInterpreter(CodeInterpreter::default()));
            with_hosted(HostedTool::CodeInterpreter(CodeInterpreter {
                container: Some("cntr_1".into()),
                ..CodeInterpreter::default()
            }))
        }
        "hosted.code_interpreter.files" => {
            without = with_hosted(HostedTool::CodeInterpreter(CodeInterpreter::default()));
            with_hosted(HostedTool::CodeInterpreter(CodeInterpreter {
                files: vec!["file_1".into()],
                ..CodeInterpreter::default()
            }))
        }
        "hosted.shell" => with_hosted(HostedTool::Shell(HostedOptions::default())),
        "hosted.apply_patch" => with_hosted(HostedTool::ApplyPatch(HostedOptions::default())),
        "hosted.computer_use" => with_hosted(HostedTool::ComputerUse(ComputerUse {
            environment: Some("browser".into()),
            width: Some(1024),
            height: Some(768),
            ..ComputerUse::default()
        })),
        "hosted.text_editor" => with_hosted(HostedTool::TextEditor(HostedOptions::default())),
        "hosted.memory" => with_hosted(HostedTool::Memory(HostedOptions::default())),
        "hosted.image_generation" => with_hosted(HostedTool::ImageGeneration(HostedOptions::default())),
        "hosted.tool_search" => with_hosted(HostedTool::ToolSearch(HostedOptions::default())),
        "hosted.remote_mcp.url" => with_hosted(HostedTool::RemoteMcp(mcp())),
        "hosted.remote_mcp.connector" => with_hosted(HostedTool::RemoteMcp(RemoteMcp {
            url: None,
            connector: Some("connector_dropbox".into()),
            ..mcp()
        })),
        "hosted.remote_mcp.authorization"
        | "hosted.remote_mcp.allowed_tools"
        | "hosted.remote_mcp.denied_tools"
        | "hosted.remote_mcp.require_approval" => {
            without = with_hosted(HostedTool::RemoteMcp(mcp()));
            with_hosted(HostedTool::RemoteMcp(match field.rsplit('.').next().unwrap_or_default() {
                "authorization" => RemoteMcp { authorization: Some("token".into()), ..mcp() },
                "allowed_tools" => RemoteMcp { allowed_tools: vec!["lookup".into()], ..mcp() },
                "denied_tools" => RemoteMcp { denied_tools: vec!["delete".into()], ..mcp() },
                _ => RemoteMcp { require_approval: Some("always".into()), ..mcp() },
            }))
        }
        "hosted.raw" => with_hosted(HostedTool::Raw(native(json!({"type": "odd_tool", "odd": 1})))),
        "extra" => TurnRequest { extra: map(json!({"odd_extra": 1})), ..base.clone() },
        "native" => TurnRequest { native: Some(native(json!({"odd_field": 1}))), ..base.clone() },
        control => {
            match control {
                "temperature" => knobs.temperature = Some(0.5),
                "top_p" => knobs.top_p = Some(0.5),
                "top_k" => knobs.top_k = Some(5),
                "seed" => knobs.seed = Some(7),
                "frequency_penalty" => knobs.frequency_penalty = Some(0.5),
                "presence_penalty" => knobs.presence_penalty = Some(0.5),
                "max_output_tokens" => knobs.max_output_tokens = Some(2048),
                "stop" => knobs.stop = vec!["END".into()],
                "top_logprobs" => knobs.top_logprobs = Some(2),
                "reasoning_effort" => knobs.reasoning_effort = Some("low".into()),
                "reasoning_budget" => knobs.reasoning_budget = Some(1024),
                "reasoning_summary" => knobs.reasoning_summary = Some("auto".into()),
                "verbosity" => knobs.verbosity = Some("low".into()),
                "max_hosted_calls" => knobs.max_hosted_calls = Some(3),
                "service_tier" => knobs.service_tier = Some("priority".into()),
                "state.stateful" => knobs.state = Some(StateMode::Stateful),
                "state.replay" => knobs.state = Some(StateMode::Replay),
                "state.zdr" => knobs.state = Some(StateMode::ZeroRetention),
                "state.encrypted_reasoning" => knobs.state = Some(StateMode::EncryptedReasoning),
                "store.true" => knobs.store = Some(true),
                "store.false" => knobs.store = Some(false),
                "background" => knobs.background = Some(true),
                "include" => knobs.include = vec!["file_search_call.results".into()],
                "modalities" => knobs.modalities = vec!["text".into(), "audio".into()],
                "cache.auto" => {
                    knobs.cache = Some(CacheControl { strategy: Some(CacheStrategy::Auto), ..CacheControl::default() })
                }
                "cache.explicit" => {
                    knobs.cache =
                        Some(CacheControl { strategy: Some(CacheStrategy::Explicit), ..CacheControl::default() })
                }
                "cache.bypass" => {
                    knobs.cache =
                        Some(CacheControl { strategy: Some(CacheStrategy::Bypass), ..CacheControl::default() })
                }
                "cache.key" => knobs.cache = Some(CacheControl { key: Some("k".into()), ..CacheControl::default() }),
                "cache.ttl" => knobs.cache = Some(CacheControl { ttl: Some("1h".into()), ..CacheControl::default() }),
                "cache.content" => {
                    knobs.cache =
                        Some(CacheControl { content: Some("cachedContents/1".into()), ..CacheControl::default() })
                }
                "compaction" => {
                    knobs.compaction = Some(Compaction {
                        strategy: Some("auto".into()),
                        max_context_tokens: Some(50_000),
                        preserve_recent_turns: None,
                    })
                }
                "metadata" => knobs.metadata = map(json!({"team": "a"})),
                "user" => knobs.user = Some("u1".into()),
                "safety" => {
                    knobs.safety =
                        vec![native(json!({"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}))]
                }
                other => panic!("no example of the field {other}"),
            }
            controls
        }
    };
    (without, with)
}
