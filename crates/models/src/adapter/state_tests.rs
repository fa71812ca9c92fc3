//! Conversations of several turns with tools, in each way in which a provider keeps state.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]
use super::vendor_tests::{anthropic_answer, gemini_answer, responses_answer, sse};
use super::*;
use crate::caches::CacheRequest;
use crate::vendor::vendor;
use futures_util::StreamExt;
use placet_core::turn::{Controls, StateMode};
use placet_core::{
    Accumulator, Effect, Env, Item, Origin, Outcome, Schema, Stage, Status, ToolDefinition, ToolResult, Turn,
};
use placet_net::{ClientOptions, ProxySettings};
use placet_testkit::upstream::{Answer, Upstream};
use serde_json::{Value, json};
use std::time::Duration;

/// A conversation with a mock: every call is answered, and everything goes back with the next turn.
struct Course {
    upstream: Upstream,
    adapter: Arc<Adapter>,
    request: TurnRequest,
    context: AskContext,
}

impl Course {
    async fn new(vendor_id: &str, model: &str, state: Option<StateMode>, answers: Vec<Answer>) -> Self {
        let env = Env::system();
        let upstream = Upstream::start(&env, answers).await.unwrap();
        let row = vendor(vendor_id).unwrap();
        let (place, key) = (row.base_url_variables[0], row.key_variables[0]);
        let url = upstream.url("v1");
        let lookup: Lookup = Arc::new(move |name| match name {
            name if name == place => Some(url.clone()),
            name if name == key => Some("k-123456789".to_owned()),
            _ => None,
        });
        let options = AdapterOptions::of_vendor(row, &lookup).unwrap();
        let client = Client::new(ClientOptions::new().proxies(ProxySettings::none()), env.clone()).unwrap();
        let schema = Schema::new(json!({"type": "object", "properties": {"id": {"type": "integer"}}}));
        let request = TurnRequest {
            model: model.into(),
            items: vec![Arc::new(Item::user(env.new_id(), "go"))],
            tools: vec![Arc::new(ToolDefinition::new("lookup", "looks", schema, Effect::Read))],
            controls: Controls { state, ..Controls::default() },
            ..TurnRequest::default()
        };
        Course { upstream, adapter: Adapter::new(options, client), request, context: AskContext::new(env) }
    }

    async fn turn(&mut self) -> Turn {
        let asked = self.adapter.ask(Arc::new(self.request.clone()), self.context.clone()).await.unwrap();
        let events: Vec<_> = asked.collect().await;
        let mut answer = Accumulator::new();
        events.iter().for_each(|event| answer.push(event));
        let turn = answer.finish(self.adapter.id(), &self.context.env).unwrap();
        self.request.items.extend(turn.items.iter().cloned());
        self.request.provider_state.clone_from(&turn.provider_state);
        for call in turn.calls() {
            let result = ToolResult::of(call, Outcome::new(Status::Completed, Stage::Execute, None, "found"));
            self.request.items.push(Arc::new(Item::new(
                self.context.env.new_id(),
                Origin::Tool("lookup".into()),
                result,
            )));
        }
        turn
    }

    /// Two turns that call, and one that answers; the bodies that were sent.
    async fn bodies(&mut self) -> Vec<Value> {
        assert_eq!(self.turn().await.calls().count(), 1);
        assert_eq!(self.turn().await.calls().count(), 1);
        assert_eq!(self.turn().await.text(), "done");
        self.upstream.received().iter().map(|received| received.json()).collect()
    }
}

fn responses_call(number: u32, is_stored: bool) -> Answer {
    let thought = json!({"type": "reasoning", "id": format!("rs_{number}"), "summary": [], "encrypted_content": format!("enc{number}")});
    let call = json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
        "name": "lookup", "arguments": "{\"id\":1}", "status": "completed"});
    let response = |status: &str, output: Value| {
        json!({"id": format!("resp_{number}"), "status": status, "model": "m", "output": output, "store": is_stored,
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}})
    };
    sse(&[
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": thought}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": call}),
        json!({"type": "response.completed", "response": response("completed", json!([thought, call]))}),
    ])
}

async fn responses_course(state: Option<StateMode>, is_stored: bool) -> Vec<Value> {
    let answers = vec![responses_call(1, is_stored), responses_call(2, is_stored), responses_answer("resp_3", "done")];
    Course::new("openai-responses", "gpt-5.4", state, answers).await.bodies().await
}

fn kinds(body: &Value) -> Vec<&str> {
    let input = body["input"].as_array().expect("a list of input");
    input.iter().map(|item| item["type"].as_str().unwrap_or("message")).collect()
}

#[tokio::test]
async fn a_provider_that_keeps_the_conversation_is_sent_what_is_new() {
    for state in [Some(StateMode::Stateful), None] {
        let bodies = responses_course(state.clone(), true).await;
        assert!(bodies[0].get("previous_response_id").is_none());
        for (turn, previous) in [(1, "resp_1"), (2, "resp_2")] {
            assert_eq!(bodies[turn]["previous_response_id"], previous, "{state:?}");
            assert_eq!(kinds(&bodies[turn]), ["function_call_output"], "{state:?}: {}", bodies[turn]);
            assert_eq!(bodies[turn]["input"][0]["call_id"], format!("call_{turn}"));
        }
    }
}

#[tokio::test]
async fn a_replayed_conversation_goes_out_whole() {
    let bodies = responses_course(Some(StateMode::Replay), true).await;
    assert!(bodies.iter().all(|body| body.get("previous_response_id").is_none()));
    let last = kinds(&bodies[2]);
    assert_eq!(last.iter().filter(|kind| **kind == "function_call").count(), 2, "{last:?}");
    assert_eq!(last.iter().filter(|kind| **kind == "function_call_output").count(), 2, "{last:?}");
    assert_eq!(last[0], "message");
}

#[tokio::test]
async fn where_nothing_may_be_kept_nothing_is() {
    let bodies = responses_course(Some(StateMode::ZeroRetention), false).await;
    for body in &bodies {
        assert_eq!(body["store"], false, "{body}");
        assert!(body.get("previous_response_id").is_none(), "{body}");
    }
    // What was not kept cannot be named by its id.
    let input = bodies[2]["input"].to_string();
    assert!(!input.contains("\"rs_1\"") && !input.contains("item_reference"), "{input}");
    assert_eq!(kinds(&bodies[2]).iter().filter(|kind| **kind == "function_call_output").count(), 2);
}

#[tokio::test]
async fn thinking_comes_and_goes_encrypted_in_its_place() {
    let bodies = responses_course(Some(StateMode::EncryptedReasoning), false).await;
    for body in &bodies {
        assert_eq!(body["store"], false, "{body}");
        assert!(body["include"].to_string().contains("reasoning.encrypted_content"), "{body}");
    }
    assert_eq!(
        kinds(&bodies[2]),
        [
            "message",
            "reasoning",
            "function_call",
            "function_call_output",
            "reasoning",
            "function_call",
            "function_call_output"
        ]
    );
    let thoughts: Vec<&Value> =
        bodies[2]["input"].as_array().unwrap().iter().filter(|item| item["type"] == "reasoning").collect();
    assert_eq!(
        (&thoughts[0]["encrypted_content"], &thoughts[1]["encrypted_content"]),
        (&json!("enc1"), &json!("enc2"))
    );
    // A model that does not think is not asked for its thinking.
    let mut plain = Course::new(
        "openai-responses",
        "gpt-4.1",
        Some(StateMode::EncryptedReasoning),
        vec![responses_answer("resp_1", "done")],
    )
    .await;
    plain.turn().await;
    let body = plain.upstream.received()[0].json();
    assert!(body["store"] == false && !body.to_string().contains("encrypted_content"), "{body}");
}

#[tokio::test]
async fn anthropics_thinking_goes_back_with_its_signature() {
    let call = |number: u32| {
        let block =
            |index: u32, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
        let delta = |index: u32, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let stop = |index: u32| json!({"type": "content_block_stop", "index": index});
        sse(&[
            json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                "content": [], "stop_reason": null, "usage": {"input_tokens": 10, "output_tokens": 1}}}),
            block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
            delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
            delta(0, json!({"type": "signature_delta", "signature": format!("sig{number}")})),
            stop(0),
            block(1, json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "lookup", "input": {}})),
            delta(1, json!({"type": "input_json_delta", "partial_json": "{\"id\":1}"})),
            stop(1),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": null}, "usage": {"output_tokens": 5}}),
            json!({"type": "message_stop"}),
        ])
    };
    let answers = vec![call(1), call(2), anthropic_answer("done")];
    let bodies = Course::new("anthropic", "claude-opus-5-5", None, answers).await.bodies().await;
    let messages = bodies[2]["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5, "{}", bodies[2]);
    for (at, number) in [(1, 1), (3, 2)] {
        let content = &messages[at]["content"];
        assert_eq!(
            (&content[0]["type"], &content[0]["signature"]),
            (&json!("thinking"), &json!(format!("sig{number}")))
        );
        assert_eq!((&content[1]["type"], &content[1]["input"]), (&json!("tool_use"), &json!({"id": 1})));
        assert_eq!(messages[at + 1]["content"][0]["tool_use_id"], format!("toolu_{number}"));
    }
}

#[tokio::test]
async fn geminis_signatures_go_back_with_their_calls() {
    let call = |number: u32| {
        sse(&[json!({"candidates": [{"content": {"role": "model", "parts": [
            {"functionCall": {"name": "lookup", "args": {"id": 1}}, "thoughtSignature": format!("c2ln{number}===")}]},
            "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}})])
    };
    let answers = vec![call(1), call(2), gemini_answer("done")];
    let bodies = Course::new("google", "gemini-3.8-flash", None, answers).await.bodies().await;
    let contents = bodies[2]["contents"].as_array().unwrap();
    assert_eq!(contents.len(), 5, "{}", bodies[2]);
    for (at, number) in [(1, 1), (3, 2)] {
        assert_eq!(contents[at]["parts"][0]["thoughtSignature"], format!("c2ln{number}==="), "{}", contents[at]);
        assert_eq!(contents[at + 1]["parts"][0]["functionResponse"]["name"], "lookup");
    }
}

#[tokio::test]
async fn tokens_are_counted_where_the_provider_counts() {
    for (id, model, path, answer) in [
        (
            "openai-responses",
            "gpt-5.4",
            "/v1/responses/input_tokens",
            json!({"object": "response.input_tokens", "input_tokens": 42}),
        ),
        ("anthropic", "claude-opus-5-5", "/v1/messages/count_tokens", json!({"input_tokens": 42})),
        ("google", "gemini-3.8-flash", "/v1/models/gemini-3.8-flash:countTokens", json!({"totalTokens": 42})),
    ] {
        let course = Course::new(id, model, None, vec![Answer::json(200, &answer)]).await;
        let count = course.adapter.count_tokens(Arc::new(course.request.clone()), course.context.clone()).await;
        assert_eq!(count, Ok(42), "{id}");
        assert_eq!(course.upstream.received()[0].path, path);
    }
    let course = Course::new("groq", "m", None, Vec::new()).await;
    let error =
        course.adapter.count_tokens(Arc::new(course.request.clone()), course.context.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn gemini_keeps_contents_under_a_name_and_deletes_them() {
    let made = json!({"name": "cachedContents/abc", "model": "models/gemini-3.8-flash", "expireTime": "2030-01-02T03:04:05Z",
        "usageMetadata": {"totalTokenCount": 5000}});
    let answers = vec![
        Answer::json(200, &made),
        Answer::json(200, &json!({})),
        Answer::json(404, &json!({"error": {"code": 404, "message": "gone", "status": "NOT_FOUND"}})),
    ];
    let course = Course::new("google", "gemini-3.8-flash", None, answers).await;
    let request = CacheRequest { beginning: course.request.clone(), ttl: Some(Duration::from_secs(600)), name: None };
    let content = course.adapter.create_cache(request.clone(), course.context.clone()).await.unwrap();
    assert_eq!((content.id.as_str(), content.tokens), ("cachedContents/abc", Some(5000)));
    assert_eq!(
        content.expires.map(|expires| expires.to_string()[..19].to_owned()).as_deref(),
        Some("2030-01-02T03:04:05")
    );
    course.adapter.delete_cache(&content.id, course.context.clone()).await.unwrap();
    let error = course.adapter.delete_cache(&content.id, course.context.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotFound);
    let received = course.upstream.received();
    assert_eq!((received[0].method.as_str(), received[0].path.as_str()), ("POST", "/v1/cachedContents"));
    assert_eq!(
        (&received[0].json()["model"], &received[0].json()["ttl"]),
        (&json!("models/gemini-3.8-flash"), &json!("600s"))
    );
    assert_eq!((received[1].method.as_str(), received[1].path.as_str()), ("DELETE", "/v1/cachedContents/abc"));
    let other = Course::new("anthropic", "claude-opus-5-5", None, Vec::new()).await;
    let error = other.adapter.create_cache(request, other.context.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn gemini_makes_vectors_and_lists_models_in_its_own_way() {
    use placet_core::embedding::EmbeddingRequest;
    let vectors = json!({"embeddings": [{"values": [0.5, 1.0]}, {"values": [0.25, 0.0]}]});
    let models = json!({"models": [{"name": "models/gemini-3.8-flash", "displayName": "Flash"}]});
    let course = Course::new("google", "m", None, vec![Answer::json(200, &vectors), Answer::json(200, &models)]).await;
    let request = EmbeddingRequest {
        model: "gemini-embedding-2".into(),
        inputs: vec!["a".into(), "b".into()],
        ..Default::default()
    };
    let made = course.adapter.embed(request, course.context.clone()).await.unwrap();
    assert_eq!(made.vectors, [[0.5, 1.0], [0.25, 0.0]]);
    let listed = course.adapter.models(course.context.clone()).await.unwrap();
    assert!(listed[0].id.ends_with("gemini-3.8-flash"), "{listed:?}");
    let received = course.upstream.received();
    assert_eq!(received[0].path, "/v1/models/gemini-embedding-2:batchEmbedContents");
    assert_eq!(received[1].path, "/v1/models?pageSize=1000");
}
