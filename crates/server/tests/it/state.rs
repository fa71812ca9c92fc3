//! What providers keep, and what only they understand.

use crate::support::serve;
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::{Value, json};

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

fn two(a: &Upstream, b: &Upstream, protocol: &str, more: &str) -> String {
    let one = |name: &str, upstream: &Upstream| {
        format!("[providers.{name}]\nbase_url = \"{}\"\nprotocols = [\"{protocol}\"]\n", upstream.url("v1"))
    };
    format!("{more}\n{}{}[routes.safe]\ntargets = [\"a:one\", \"b:two\"]\n", one("a", a), one("b", b))
}

fn message(thinking: &str) -> Value {
    let thought = json!({"type": "thinking", "thinking": thinking, "signature": format!("sig-{thinking}")});
    json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "stop_sequence": null,
        "content": [thought, {"type": "text", "text": "Hello."}], "usage": {"input_tokens": 3, "output_tokens": 2},
    })
}

#[tokio::test]
async fn what_one_provider_thought_goes_to_no_other() {
    let full = || Answer::json(529, &json!({"error": {"message": "full"}}));
    let a = upstream([Answer::json(200, &message("first")), full(), Answer::json(200, &message("third"))]).await;
    let b = upstream([Answer::json(200, &message("second"))]).await;
    let served = serve(&two(&a, &b, "anthropic_messages", "")).await;
    let mut said = vec![json!({"role": "user", "content": "hi"})];
    let mut ask = async |text: &str| {
        let body = json!({"model": "safe", "max_tokens": 9, "messages": said});
        let answer = served.post("/v1/messages", &body.to_string()).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        said.push(json!({"role": "assistant", "content": answer.json()["content"]}));
        said.push(json!({"role": "user", "content": text}));
        answer
    };
    assert_eq!(ask("and?").await.json()["content"][0]["signature"], "sig-first");
    let second = ask("so?").await;
    assert_eq!(second.header("x-placet-provider"), Some("b"));
    let sent = String::from_utf8_lossy(&b.received()[0].body).into_owned();
    assert!(sent.contains("Hello.") && !sent.contains("sig-first"), "{sent}");
    assert!(second.header("x-placet-omitted").is_some(), "{}", second.head);
    // It stays where it went; each provider's thoughts are its own from now on.
    b.then(Answer::json(200, &message("third")));
    ask("well?").await;
    let sent = String::from_utf8_lossy(&b.received()[1].body).into_owned();
    assert!(!sent.contains("sig-first") && sent.contains("sig-second") && !sent.contains("placet1."), "{sent}");
}

#[tokio::test]
async fn an_answer_that_a_provider_keeps_is_found_there_by_who_asked_for_it() {
    let response = |id: &str| json!({"id": id, "object": "response", "status": "completed", "output": []});
    let created = json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_b", "status": "in_progress"}});
    let done = json!({"type": "response.completed", "sequence_number": 1, "response": {"id": "resp_b", "status": "completed"}});
    let a = upstream([Answer::json(200, &response("resp_a")), Answer::json(503, &json!({}))]).await;
    let stream = [created, done].map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()));
    let b = upstream([Answer::stream(stream)]).await;
    let hash = |key: &str| placet_core::record::Digest::of(key.as_bytes());
    let keys = format!("[keys.ann]\nsha256 = \"{}\"\n[keys.bob]\nsha256 = \"{}\"\n", hash("ann"), hash("bob"));
    let served = serve(&two(&a, &b, "openai_responses", &keys)).await;
    let ann = "authorization: Bearer ann\r\n";
    let ask = json!({"model": "safe", "input": "hi"}).to_string();
    assert_eq!(served.post_with("/v1/responses", ann, &ask).await.json()["id"], "resp_a");
    let streamed = json!({"model": "safe", "input": "ho", "stream": true}).to_string();
    let answer = served.post_with("/v1/responses", ann, &streamed).await;
    assert_eq!(answer.header("x-placet-provider"), Some("b"), "{}", answer.text());
    // Each is asked for where it is.
    a.then(Answer::json(200, &response("resp_a")));
    let found = served.get("/v1/responses/resp_a?include=x", ann).await;
    assert_eq!((found.status, found.json()["id"].as_str()), (200, Some("resp_a")));
    assert_eq!(a.received().last().unwrap().path, "/v1/responses/resp_a?include=x");
    b.then(Answer::json(200, &response("resp_b")));
    let cancel = served.post_with("/v1/responses/resp_b/cancel", ann, "{}").await;
    assert_eq!((cancel.status, b.received().last().unwrap().path.as_str()), (200, "/v1/responses/resp_b/cancel"));
    // Who goes on from one goes where it is.
    b.then(Answer::json(200, &response("resp_c")));
    let next = json!({"model": "safe", "input": "and?", "previous_response_id": "resp_b"}).to_string();
    let answer = served.post_with("/v1/responses", ann, &next).await;
    assert_eq!((answer.status, answer.header("x-placet-provider")), (200, Some("b")));
    // Nobody else finds it, or goes on from it.
    let bob = "authorization: Bearer bob\r\n";
    let (before_a, before_b) = (a.received().len(), b.received().len());
    assert_eq!(served.get("/v1/responses/resp_a", bob).await.status, 404);
    let refused = served.post_with("/v1/responses", bob, &next).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (400, &json!("previous_response_not_found")));
    assert_eq!((a.received().len(), b.received().len()), (before_a, before_b));
    a.then(Answer::json(200, &json!({"id": "resp_a", "deleted": true})));
    let delete =
        format!("DELETE /v1/responses/resp_a HTTP/1.1\r\nhost: {}\r\n{ann}connection: close\r\n\r\n", served.address);
    assert_eq!(served.raw(delete.as_bytes()).await.json()["deleted"], true);
    assert_eq!(served.get("/v1/responses/resp_a", ann).await.status, 404);
}

#[tokio::test]
async fn embeddings_and_counts_are_translated() {
    let google = upstream([
        Answer::json(200, &json!({"embeddings": [{"values": [0.5, 1.0]}, {"values": [2.0, 3.0]}]})),
        Answer::json(200, &json!({"totalTokens": 17})),
    ])
    .await;
    let config = format!(
        "[providers.g]\nbase_url = \"{}\"\nprotocols = [\"gemini\"]\n[models.house]\ntarget = \"g:gemini-4\"\n",
        google.url("v1beta")
    );
    let served = serve(&config).await;
    let body = json!({"model": "house", "input": ["a", "b"], "dimensions": 2}).to_string();
    let answer = served.post("/v1/embeddings", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json()["data"][1]["embedding"], json!([2.0, 3.0]));
    assert_eq!((&answer.json()["model"], answer.header("x-placet-provider")), (&json!("house"), Some("g")));
    let sent = google.received()[0].json();
    assert_eq!(
        (&sent["requests"][1]["model"], &sent["requests"][1]["outputDimensionality"]),
        (&json!("models/gemini-4"), &json!(2))
    );
    let body = json!({"model": "house", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let answer = served.post("/v1/messages/count_tokens", &body).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"input_tokens": 17})), "{}", answer.text());
    assert_eq!(served.ledger().await.len(), 2);
}

#[tokio::test]
async fn an_agent_on_a_route_has_all_its_targets() {
    let a = upstream([Answer::json(503, &json!({"error": {"message": "full"}}))]).await;
    let b = upstream([Answer::stream(chat::answer("hello"))]).await;
    let agent = "[agents.house]\nmodel = \"safe\"\n";
    let served = serve(&two(&a, &b, "openai_chat", agent)).await;
    let body = json!({"model": "house", "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let answer = served.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.json()["choices"][0]["message"]["content"], "hello", "{}", answer.text());
    assert_eq!((a.received().len(), b.received()[0].json()["model"].as_str()), (1, Some("two")));
}
