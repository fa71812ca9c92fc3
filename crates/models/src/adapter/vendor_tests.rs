//! Each vendor against a mock: where it is asked, with which headers, how its key is sent, and one of its quirks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::vendor::{Place, VENDORS, vendor};
use futures_util::StreamExt;
use placet_core::turn::{Controls, OutputFormat};
use placet_core::{Env, Item, Schema, ToolChoice, ToolDefinition, TurnEvent};
use placet_net::{ClientOptions, ProxySettings};
use placet_testkit::upstream::{Answer, Received, Upstream, chat};
use serde_json::{Value, json};

const KEY: &str = "key-of-the-vendor-77c1";

/// Asks a vendor that stands at a mock, and gives what the mock received.
pub(super) async fn asked(
    id: &str,
    path: &str,
    variables: &[(&'static str, &str)],
    answer: Answer,
    change: impl FnOnce(&mut TurnRequest),
) -> Result<(Received, Vec<String>), ProviderError> {
    let env = Env::system();
    let upstream = Upstream::start(&env, [answer]).await.unwrap();
    let row = vendor(id).expect("a vendor");
    let mut known: Vec<(String, String)> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    known.push((row.base_url_variables[0].to_owned(), upstream.url(path).trim_end_matches('/').to_owned()));
    known.push((row.key_variables[0].to_owned(), KEY.to_owned()));
    let lookup: Lookup =
        Arc::new(move |name| known.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()));
    let mut options = AdapterOptions::of_vendor(row, &lookup)?;
    if row.place == Place::Fixed {
        options.protocol = row.protocol;
    }
    let client = Client::new(ClientOptions::new().proxies(ProxySettings::none()), env.clone()).unwrap();
    let adapter = Adapter::new(options, client);
    assert_eq!(adapter.ready("m").await, Ok(()));
    let schema = Schema::new(json!({"type": "object", "properties": {"id": {"type": "integer"}}}));
    let mut tool = ToolDefinition::new("lookup", "looks", schema, placet_core::Effect::Read);
    tool.strict = Some(true);
    let mut request = TurnRequest {
        model: "m".into(),
        instructions: Some("be brief".into()),
        items: vec![Arc::new(Item::user(env.new_id(), "go"))],
        tools: vec![Arc::new(tool)],
        ..TurnRequest::default()
    };
    change(&mut request);
    let context = AskContext::new(env);
    let known = adapter.known(&request.model);
    let checked = known.profile.check(&request)?;
    let question = Question::new(adapter.options(), &checked.request, &known.profile, known.model.as_deref(), false)?;
    let omitted = checked.omitted.into_iter().chain(question.omitted).collect();
    let events: Vec<TurnEvent> = adapter.ask(Arc::new(request), context).await?.collect().await;
    assert!(matches!(events.last(), Some(TurnEvent::Finished(_) | TurnEvent::Usage(_))), "{events:?}");
    Ok((upstream.received()[0].clone(), omitted))
}

async fn chat_asked(id: &str, change: impl FnOnce(&mut TurnRequest)) -> (Received, Value, Vec<String>) {
    let (received, omitted) = asked(id, "prefix/v1", &[], Answer::stream(chat::answer("yes")), change).await.unwrap();
    let body = received.json();
    (received, body, omitted)
}

fn controls(controls: Controls) -> impl FnOnce(&mut TurnRequest) {
    move |request| request.controls = controls
}

fn most(tokens: u64) -> Controls {
    Controls { max_output_tokens: Some(tokens), ..Controls::default() }
}

/// Where every vendor is said to be by its own documentation.
#[test]
fn where_vendors_are() {
    let none: Lookup = Arc::new(|_| None);
    for (id, url) in [
        ("openrouter", "https://openrouter.ai/api/v1"),
        ("groq", "https://api.groq.com/openai/v1"),
        ("mistral", "https://api.mistral.ai/v1"),
        ("deepseek", "https://api.deepseek.com"),
        ("together", "https://api.together.xyz/v1"),
        ("fireworks", "https://api.fireworks.ai/inference/v1"),
        ("cerebras", "https://api.cerebras.ai/v1"),
        ("ollama", "http://127.0.0.1:11434/v1"),
        ("llamacpp", "http://127.0.0.1:8080/v1"),
        ("vllm", "http://127.0.0.1:8000/v1"),
        ("lmstudio", "http://127.0.0.1:1234/v1"),
        ("xai", "https://api.x.ai/v1"),
        ("perplexity", "https://api.perplexity.ai"),
        ("moonshot", "https://api.moonshot.ai/v1"),
    ] {
        assert_eq!(vendor_base_url(vendor(id).unwrap(), &none).0, url, "{id}");
    }
}

#[tokio::test]
async fn every_vendor_of_openai_chat_gets_its_key_and_nobody_elses_headers() {
    for row in VENDORS.iter().filter(|row| row.protocol == Protocol::OpenaiChat && row.place == Place::Fixed) {
        let (received, body, _) = chat_asked(row.id, |_| {}).await;
        assert_eq!(
            (received.method.as_str(), received.path.as_str()),
            ("POST", "/prefix/v1/chat/completions"),
            "{}",
            row.id
        );
        assert_eq!(received.header("authorization"), Some(format!("Bearer {KEY}").as_str()), "{}", row.id);
        assert_eq!(received.header("content-type"), Some("application/json"), "{}", row.id);
        assert!(received.header("api-key").is_none() && received.header("x-api-key").is_none(), "{}", row.id);
        assert_eq!((&body["model"], &body["stream"]), (&json!("m"), &json!(true)), "{}", row.id);
    }
}

#[tokio::test]
async fn openrouter_gets_all_thinking_back() {
    use placet_core::item::Reasoning;
    use placet_core::part::Native;
    let thought = |request: &mut TurnRequest| {
        let env = Env::system();
        let native = Native {
            provider: "openrouter".into(),
            value: json!({"field": "reasoning", "details": [{"type": "reasoning.text", "text": "hm"}]}),
        };
        let thinking = Reasoning { text: "hm".into(), native: Some(native) };
        let said = placet_core::Message {
            role: placet_core::Role::Assistant,
            parts: vec![placet_core::Part::text("so")],
            native: None,
        };
        request.items.push(Arc::new(Item::new(env.new_id(), placet_core::Origin::Model, thinking)));
        request.items.push(Arc::new(Item::new(env.new_id(), placet_core::Origin::Model, said)));
        request.items.push(Arc::new(Item::user(env.new_id(), "and?")));
    };
    let (_, body, _) = chat_asked("openrouter", thought).await;
    let said = body["messages"].as_array().unwrap().iter().find(|message| message["role"] == "assistant").unwrap();
    assert!(said["reasoning_details"].is_array(), "{said}");
}

#[tokio::test]
async fn groq_is_told_the_limit_by_its_newer_name_and_nothing_of_strictness() {
    let (_, body, omitted) = chat_asked("groq", controls(most(7))).await;
    assert_eq!(body["max_completion_tokens"].as_u64().or(body["max_tokens"].as_u64()), Some(7));
    assert!(body["tools"][0]["function"].get("strict").is_none(), "{body}");
    assert!(omitted.iter().any(|what| what.contains("strict")), "{omitted:?}");
}

#[tokio::test]
async fn mistral_takes_no_seed_and_no_effort() {
    let wanted = Controls { seed: Some(1), reasoning_effort: Some("low".into()), ..Controls::default() };
    let (_, body, omitted) = chat_asked("mistral", controls(wanted)).await;
    assert!(body.get("seed").is_none() && body.get("reasoning_effort").is_none(), "{body}");
    assert_eq!(omitted.len(), 2, "{omitted:?}");
}

#[tokio::test]
async fn deepseek_can_be_told_to_write_json_but_not_which() {
    let schema = Schema::new(json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let format = |strict| OutputFormat { name: "o".into(), description: None, schema: schema.clone(), strict };
    let refused = asked("deepseek", "v1", &[], Answer::refused(), |request| request.output = Some(format(true))).await;
    assert_eq!(refused.err().unwrap().kind, ErrorKind::Unsupported);
    let (_, body, _) = chat_asked("deepseek", |request| request.output = Some(format(false))).await;
    assert_eq!(body["response_format"], json!({"type": "json_object"}), "{body}");
}

#[tokio::test]
async fn local_servers_refuse_what_they_would_pass_over_in_silence() {
    for id in ["ollama"] {
        let forced =
            asked(id, "v1", &[], Answer::refused(), |request| request.tool_choice = ToolChoice::Required).await;
        assert_eq!(forced.err().unwrap().kind, ErrorKind::Unsupported, "{id}");
    }
    for id in ["together", "lmstudio", "fireworks", "llamacpp"] {
        let (_, body, omitted) = chat_asked(id, |_| {}).await;
        assert!(body["tools"][0]["function"].get("strict").is_none(), "{id}: {body}");
        assert!(omitted.iter().any(|what| what.contains("strict")), "{id}: {omitted:?}");
    }
    // vLLM holds the model to a schema where it is told to.
    let (_, body, _) = chat_asked("vllm", |_| {}).await;
    assert_eq!(body["tools"][0]["function"]["strict"], true, "{body}");
}

#[tokio::test]
async fn cerebras_is_told_the_limit_by_its_newer_name() {
    let options =
        AdapterOptions::of_vendor(vendor("cerebras").unwrap(), &(Arc::new(|_: &str| None) as Lookup)).unwrap();
    let request = TurnRequest { model: "m".into(), controls: most(9), ..TurnRequest::default() };
    let profile = options.profile("m");
    let body: Value =
        serde_json::from_slice(&Question::new(&options, &request, &profile, None, false).unwrap().body).unwrap();
    assert_eq!(body["max_completion_tokens"], 9, "{body}");
}

#[tokio::test]
async fn azure_has_a_header_of_its_own_and_two_ways_to_name_a_model() {
    let dated: &[(&'static str, &str)] = &[("AZURE_OPENAI_API_VERSION", "2025-04-01-preview")];
    let (received, _) = asked("azure", "", dated, Answer::stream(chat::answer("yes")), |request| {
        request.model = "my deployment".into();
    })
    .await
    .unwrap();
    assert_eq!(received.path, "/openai/deployments/my%20deployment/chat/completions?api-version=2025-04-01-preview");
    assert_eq!((received.header("api-key"), received.header("authorization")), (Some(KEY), None));
    let (received, _) = asked("azure", "", &[], Answer::stream(chat::answer("yes")), controls(most(5))).await.unwrap();
    assert_eq!(received.path, "/openai/v1/chat/completions");
    assert_eq!(received.json()["max_completion_tokens"], 5);
    // Without its place it cannot be asked, and says what is missing.
    let lookup: Lookup = Arc::new(|name| (name == "AZURE_OPENAI_API_KEY").then(|| KEY.to_owned()));
    let options = AdapterOptions::of_vendor(vendor("azure").unwrap(), &lookup).unwrap();
    let client = Client::new(ClientOptions::new(), Env::system()).unwrap();
    let error = Adapter::new(options, client).ready("m").await.unwrap_err();
    assert!(error.kind == ErrorKind::Wiring && error.message.contains("AZURE_OPENAI_ENDPOINT"), "{error}");
}

pub(super) fn sse(events: &[Value]) -> Answer {
    Answer::stream(events.iter().map(|event| match event["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
        None => format!("data: {event}\n\n"),
    }))
}

pub(super) fn responses_answer(id: &str, text: &str) -> Answer {
    let item = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]});
    sse(&[
        json!({"type": "response.created", "response": {"id": id, "status": "in_progress", "model": "m", "output": []}}),
        json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": text}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": {"id": id, "status": "completed", "model": "m", "output": [item],
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}}}),
    ])
}

pub(super) fn anthropic_answer(text: &str) -> Answer {
    sse(&[
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": [], "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ])
}

pub(super) fn gemini_answer(text: &str) -> Answer {
    sse(&[
        json!({"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}, "modelVersion": "m"}),
    ])
}

#[tokio::test]
async fn openai_is_asked_by_responses_and_its_lookalikes_by_chat() {
    let (received, _) = asked("openai-responses", "v1", &[], responses_answer("resp_1", "yes"), |request| {
        request.model = "gpt-5.4".into();
        request.controls = Controls { reasoning_effort: Some("low".into()), ..most(50) };
    })
    .await
    .unwrap();
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/v1/responses"));
    assert_eq!(received.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let body = received.json();
    assert_eq!((&body["reasoning"]["effort"], &body["max_output_tokens"]), (&json!("low"), &json!(50)));
    assert_eq!(body["tools"][0]["strict"], true, "{body}");
    let protocol = |base: Option<&'static str>| {
        let lookup: Lookup = Arc::new(move |name| base.filter(|_| name == "OPENAI_BASE_URL").map(str::to_owned));
        AdapterOptions::of_vendor(vendor("openai").unwrap(), &lookup).unwrap().protocol
    };
    assert_eq!((protocol(None), protocol(Some("http://h/v1"))), (Protocol::OpenaiResponses, Protocol::OpenaiChat));
    let (received, _) = asked("openai-chat", "v1", &[], Answer::stream(chat::answer("yes")), |_| {}).await.unwrap();
    assert_eq!(received.path, "/v1/chat/completions");
}

#[tokio::test]
async fn xai_is_told_neither_of_strictness_nor_of_closed_objects_and_its_operator_speaks_first() {
    let (received, omitted) = asked("xai", "v1", &[], responses_answer("r", "yes"), |request| {
        request.model = "grok-4.7".into();
        let closed = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let mut tool = (*request.tools[0]).clone();
        tool.schema = Schema::new(closed);
        request.tools = vec![Arc::new(tool)];
    })
    .await
    .unwrap();
    assert_eq!(received.path, "/v1/responses");
    let body = received.json();
    assert!(body.get("instructions").is_none() && body["input"][0]["role"] == "system", "{body}");
    assert!(body["tools"][0].get("strict").is_none(), "{body}");
    assert!(body["tools"][0]["parameters"].get("additionalProperties").is_none(), "{body}");
    assert!(omitted.iter().any(|what| what.contains("strict")), "{omitted:?}");
}

#[tokio::test]
async fn anthropic_is_asked_in_both_versions_of_its_api() {
    let warm = controls(Controls { temperature: Some(0.5), ..Controls::default() });
    let (received, omitted) = asked("anthropic", "", &[], anthropic_answer("yes"), |request| {
        warm(request);
        request.model = "claude-haiku-4-5".into();
    })
    .await
    .unwrap();
    assert_eq!((received.method.as_str(), received.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!((received.header("x-api-key"), received.header("authorization")), (Some(KEY), None));
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
    let body = received.json();
    assert_eq!(body["temperature"], 0.5, "{body}");
    assert!(body["max_tokens"].as_u64().is_some_and(|most| most >= 8192), "the protocol insists on a limit: {body}");
    assert!(omitted.is_empty(), "{omitted:?}");

    let newer: &[(&'static str, &str)] = &[("ANTHROPIC_VERSION", "2026-10-21")];
    let warm = controls(Controls { temperature: Some(0.5), ..Controls::default() });
    let (received, omitted) = asked("anthropic", "", newer, anthropic_answer("yes"), |request| {
        warm(request);
        request.model = "claude-haiku-4-5".into();
    })
    .await
    .unwrap();
    assert_eq!(received.header("anthropic-version"), Some("2026-10-21"));
    assert!(received.json().get("temperature").is_none());
    assert!(omitted.iter().any(|what| what.starts_with("temperature")), "{omitted:?}");
}

#[tokio::test]
async fn anthropic_is_told_which_betas_a_request_uses() {
    use placet_core::hosted::{HostedTool, RemoteMcp};
    let server = RemoteMcp { label: "crm".into(), url: Some("https://mcp.example/sse".into()), ..RemoteMcp::default() };
    let (received, _) = asked("anthropic", "", &[], anthropic_answer("yes"), |request| {
        request.hosted = vec![HostedTool::RemoteMcp(server)];
    })
    .await
    .unwrap();
    assert!(received.header("anthropic-beta").is_some_and(|betas| betas.contains("mcp-client")), "{received:?}");
}

#[tokio::test]
async fn gemini_has_the_model_in_its_path_and_its_key_in_a_header() {
    let (received, _) = asked("google", "", &[], gemini_answer("yes"), |request| {
        request.model = "gemini-3.8-flash".into();
        request.controls = most(9);
    })
    .await
    .unwrap();
    assert_eq!(received.path, "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse");
    assert_eq!((received.header("x-goog-api-key"), received.header("authorization")), (Some(KEY), None));
    let body = received.json();
    assert_eq!(body["generationConfig"]["maxOutputTokens"], 9, "{body}");
    assert!(body.get("model").is_none(), "{body}");
    // Tuned models stand elsewhere, and no name leaves its place.
    for (model, path) in [
        ("tunedModels/mine", "/v1beta/tunedModels/mine:streamGenerateContent?alt=sse"),
        ("../x?y", "/v1beta/models/..%2Fx%3Fy:streamGenerateContent?alt=sse"),
    ] {
        let (received, _) =
            asked("google", "", &[], gemini_answer("yes"), |request| request.model = model.into()).await.unwrap();
        assert_eq!(received.path, path);
    }
}

#[tokio::test]
async fn vertex_has_project_and_location_in_its_path_and_the_token_of_an_account() {
    let place: &[(&'static str, &str)] = &[("GOOGLE_CLOUD_PROJECT", "acme"), ("GOOGLE_CLOUD_LOCATION", "europe-west4")];
    let (received, _) = asked("vertex", "v1", place, gemini_answer("yes"), |request| {
        request.model = "gemini-3.8-flash".into();
    })
    .await
    .unwrap();
    let below = "/v1/projects/acme/locations/europe-west4/publishers/google/models/gemini-3.8-flash";
    assert_eq!(received.path, format!("{below}:streamGenerateContent?alt=sse"));
    assert_eq!(received.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let lookup = |location: Option<&'static str>| -> Lookup {
        Arc::new(move |name| match name {
            "GOOGLE_CLOUD_PROJECT" => Some("acme".into()),
            "GOOGLE_CLOUD_LOCATION" => location.map(str::to_owned),
            _ => None,
        })
    };
    let row = vendor("vertex").unwrap();
    assert_eq!(
        vendor_base_url(row, &lookup(None)).0,
        "https://aiplatform.googleapis.com/v1/projects/acme/locations/global/publishers/google"
    );
    assert_eq!(
        vendor_base_url(row, &lookup(Some("us-east5"))).0,
        "https://us-east5-aiplatform.googleapis.com/v1/projects/acme/locations/us-east5/publishers/google"
    );
    let none: Lookup = Arc::new(|_| None);
    let client = Client::new(ClientOptions::new(), Env::system()).unwrap();
    let error = Adapter::new(AdapterOptions::of_vendor(row, &none).unwrap(), client).ready("m").await.unwrap_err();
    assert!(error.message.contains("GOOGLE_CLOUD_PROJECT"), "{error}");
}
