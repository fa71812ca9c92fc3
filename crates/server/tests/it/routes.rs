//! Several targets behind one name, and configurations that change.

use crate::support::serve;
use placet_core::Env;
use placet_server::Config;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

fn good(text: &str) -> Answer {
    Answer::json(200, &json!({"said": text, "usage": {"prompt_tokens": 1, "completion_tokens": 1}}))
}

fn two(a: &Upstream, b: &Upstream, more: &str) -> String {
    format!(
        "[providers.a]\nbase_url = \"{}\"\n[providers.b]\nbase_url = \"{}\"\n[routes.safe]\ntargets = [\"a:one\", \"b:two\"]\n{more}\n",
        a.url("v1"),
        b.url("v1")
    )
}

const ASKED: &str = r#"{"model":"safe","messages":[{"role":"user","content":"hi"}]}"#;
const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_next_target_answers_where_the_first_one_cannot() {
    let a = upstream([
        Answer::json(529, &json!({"error": {"message": "full"}})),
        Answer::refused(),
        Answer::json(400, &json!({"error": {"message": "no"}})),
    ])
    .await;
    let b = upstream([good("b"), good("b")]).await;
    let served = serve(&two(&a, &b, "pin = \"0s\"")).await;
    for _ in 0..2 {
        let answer = served.post(CHAT, ASKED).await;
        assert_eq!((answer.status, answer.json()["said"].as_str()), (200, Some("b")));
        assert_eq!(answer.header("x-placet-provider"), Some("b"));
    }
    assert_eq!(served.post(CHAT, ASKED).await.status, 400, "what the client got wrong is nobody else's to answer");
    assert_eq!(b.received()[0].json()["model"], "two");
    let ledger = served.ledger().await;
    let seen: Vec<(u32, &str)> = ledger.iter().map(|line| (line.fallbacks, &*line.provider)).collect();
    assert_eq!(seen, [(1, "b"), (1, "b"), (0, "a")]);
}

#[tokio::test]
async fn only_the_named_kinds_of_errors_lead_on() {
    let a = upstream([Answer::json(500, &json!({"error": {"message": "oh"}}))]).await;
    let b = upstream([]).await;
    let served = serve(&two(&a, &b, "on = [\"rate_limited\"]")).await;
    assert_eq!(served.post(CHAT, ASKED).await.status, 500);
    assert!(b.received().is_empty());
}

#[tokio::test]
async fn a_conversation_stays_with_its_target() {
    let a = upstream([Answer::json(503, &json!({})), good("a")]).await;
    let b = upstream([good("b"), good("b")]).await;
    let served = serve(&two(&a, &b, "")).await;
    for _ in 0..2 {
        assert_eq!(served.post(CHAT, ASKED).await.json()["said"], "b", "where it went, it stays");
    }
    let other = ASKED.replace("hi", "another beginning");
    assert_eq!(served.post(CHAT, &other).await.json()["said"], "a");
}

#[tokio::test]
async fn a_target_that_fails_again_and_again_is_left_alone() {
    let a = upstream((0..5).map(|_| Answer::json(500, &json!({})))).await;
    let b = upstream((0..7).map(|_| good("b"))).await;
    let served = serve(&two(&a, &b, "pin = \"0s\"")).await;
    for _ in 0..7 {
        assert_eq!(served.post(CHAT, ASKED).await.json()["said"], "b");
    }
    assert_eq!(a.received().len(), 5);
}

#[tokio::test]
async fn a_new_configuration_is_put_in_force_whole() {
    let a = upstream([good("a")]).await;
    let b = upstream([good("b")]).await;
    let served = serve(&two(&a, &b, "")).await;
    assert_eq!(served.post(CHAT, ASKED).await.json()["said"], "a");
    let text = format!("[providers.b]\nbase_url = \"{}\"\n[models.safe]\ntarget = \"b:new\"\n", b.url("v1"));
    let lookup: placet_models::Lookup = Arc::new(|_: &str| None);
    let notes = served.gateway.reload(Config::parse(&text, "test", Path::new("."), &lookup).unwrap()).unwrap();
    assert!(notes.iter().any(|note| note.contains("server.listen")), "{notes:?}");
    assert_eq!(served.post(CHAT, ASKED).await.json()["said"], "b");
    assert_eq!(b.received()[0].json()["model"], "new");
}

#[tokio::test]
async fn a_stream_that_begins_with_an_error_is_a_refusal_and_the_next_target_answers() {
    let overloaded = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded at http://10.2.3.4/v1\"}}\n\n";
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_a\"}}\n\n";
    let good = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_b\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_a\"}}\n\n";
    let failed = "event: response.failed\ndata: {\"type\":\"response.failed\",\"sequence_number\":1,\"response\":{\"id\":\"resp_a\",\"error\":{\"code\":\"server_error\",\"message\":\"crashed\"}}}\n\n";
    let completed =
        "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_b\"}}\n\n";
    let limited = "data: {\"error\":{\"message\":\"slow down\",\"type\":\"rate_limit_error\",\"code\":429}}\n\n";
    let all = "protocols = [\"openai_chat\", \"openai_responses\", \"anthropic_messages\"]\n[routes.safe]";
    for (path, bad, fine, status) in [
        ("/v1/messages", vec![overloaded], good, 529),
        ("/v1/messages", vec![start, overloaded], good, 529),
        ("/v1/responses", vec![created, failed], completed, 503),
        (CHAT, vec![limited], "data: [DONE]\n\n", 429),
    ] {
        let a = upstream([Answer::stream(bad.clone()), Answer::stream(bad.clone())]).await;
        let b = upstream([Answer::stream([fine]), Answer::stream(bad)]).await;
        let served = serve(&two(&a, &b, "pin = \"0s\"").replace("[routes.safe]", all).replacen(
            "[providers.b]",
            "protocols = [\"openai_chat\", \"openai_responses\", \"anthropic_messages\"]\n[providers.b]",
            1,
        ))
        .await;
        let mut asked = json!({"model": "safe", "stream": true});
        match path {
            "/v1/responses" => (asked["store"], asked["input"]) = (json!(false), json!("hi")),
            _ => (asked["max_tokens"], asked["messages"]) = (json!(9), json!([{"role": "user", "content": "hi"}])),
        }
        let asked = asked.to_string();
        let asked = asked.as_str();
        let answer = served.post(path, asked).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, fine), "{path}");
        assert_eq!(answer.header("x-placet-provider"), Some("b"));
        // Where nobody answers, the client hears it as a status.
        let answer = served.post(path, asked).await;
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        assert_eq!((answer.status, kind.as_str()), (status, "application/json"), "{path}: {}", answer.text());
        assert!(
            answer.json()["error"]["message"].is_string() && !answer.text().contains("10.2.3.4"),
            "{}",
            answer.text()
        );
        let ledger = served.ledger().await;
        let seen: Vec<(u32, &str)> = ledger.iter().map(|line| (line.fallbacks, &*line.outcome)).collect();
        assert_eq!(seen, [(1, "whole"), (1, "failed")]);
    }
}

#[tokio::test]
async fn a_translated_stream_that_begins_with_an_error_is_a_refusal_too() {
    let limited = || Answer::stream([chat::chunk(&json!({"error": {"message": "slow down", "code": 429}}))]);
    let begun =
        chat::chunk(&json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}));
    let late = format!("{begun}data: {{\"error\":{{\"message\":\"slow down\",\"code\":429}}}}\n\n");
    let a = upstream([limited(), Answer::stream([late])]).await;
    let b = upstream([Answer::stream(chat::answer("from b")), Answer::stream(chat::answer("from b"))]).await;
    let served = serve(&two(&a, &b, "pin = \"0s\"\n[agents.house]\nmodel = \"safe\"")).await;
    let asked = r#"{"model":"safe","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    for model in ["safe", "house"] {
        let answer = served.post("/v1/messages", &asked.replace("safe", model)).await;
        assert!(answer.status == 200 && answer.text().contains("from b"), "{model}: {}", answer.text());
        assert!(!answer.text().contains("slow down"), "{model}: {}", answer.text());
    }
}
