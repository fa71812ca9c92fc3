//! Each vendor against a mock: where it is asked, with which headers, how its key is sent, and one of its quirks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::*;
use crate::vendor::{VENDORS, vendor};
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
    options.protocol = row.protocol;
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
    let question = Question::new(adapter.options(), &request)?;
    let omitted = question.omitted;
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
    for row in
        VENDORS.iter().filter(|row| row.protocol == Protocol::OpenaiChat && row.place == crate::vendor::Place::Fixed)
    {
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
    let body: Value = serde_json::from_slice(&Question::new(&options, &request).unwrap().body).unwrap();
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
