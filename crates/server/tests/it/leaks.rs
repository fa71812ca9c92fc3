//! What a client hears of what is behind the gateway: a provider's name and a plain reason.

use crate::support::{Served, provider, serve};
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::{Value, json};

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

fn ask(model: &str) -> String {
    json!({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}).to_string()
}

/// Asks in the provider's own protocol, and in another one.
async fn both(served: &Served, model: &str) -> [crate::support::Answer; 2] {
    [served.post(CHAT, &ask(model)).await, served.post(MESSAGES, &ask(model)).await]
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named_and_its_place_is_not() {
    // A port that nobody listens on, and a name that nobody has.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    for url in [format!("http://127.0.0.1:{port}/base/v1"), "http://llm-7.models.invalid:8443/base/v1".to_owned()] {
        let served = serve(&provider(&url, "\"openai_chat\"", "[models.house]\ntarget = \"mine:real\"\n")).await;
        for answer in both(&served, "house").await {
            let text = answer.text();
            assert!(answer.status == 502 && text.contains("the provider mine"), "{} {text}", answer.status);
            for place in ["127.0.0.1", &port.to_string(), "llm-7", "invalid", "8443", "base"] {
                assert!(!text.contains(place), "{place} in {text}");
            }
        }
        let ledger = served.ledger().await;
        assert!(ledger.iter().all(|line| line.outcome == "failed" && !line.problem.is_empty()), "{ledger:?}");
    }
}

#[tokio::test]
async fn what_a_server_says_of_its_own_house_stays_inside() {
    let inside = "dial tcp 10.2.3.4:8000: no route; see http:\\/\\/vllm-1.svc.cluster.local/v1?key=abc";
    let error = format!("{{\"error\":{{\"message\":\"{inside}\",\"type\":\"server_error\"}}}}");
    let upstream = upstream((0..2).map(|_| Answer::bytes(500, "application/json", error.clone()))).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    for answer in both(&served, "m").await {
        let text = answer.text();
        assert_eq!(answer.status, 500);
        assert!(
            text.contains("the provider mine failed") && !text.contains("10.2.3.4") && !text.contains("vllm"),
            "{text}"
        );
    }
    // What is the client's to mend it still reads.
    let wrong =
        json!({"error": {"message": "max_tokens is too large, said 10.2.3.4:8000", "type": "invalid_request_error"}});
    upstream.then(Answer::json(400, &wrong));
    upstream.then(Answer::json(400, &wrong));
    for answer in both(&served, "m").await {
        let text = answer.text();
        assert!(answer.status == 400 && text.contains("max_tokens is too large, said [address]"), "{text}");
    }
    // Words without a place in them are handed on as they are.
    let plain = json!({"error": {"message": "we are full", "type": "server_error", "x": 1.50}});
    upstream.then(Answer::json(503, &plain));
    assert_eq!(served.post(CHAT, &ask("m")).await.text(), plain.to_string());
    let ledger = served.ledger().await;
    assert!(ledger[0].problem.contains("10.2.3.4") && ledger[1].problem.contains("10.2.3.4"), "the ledger keeps it");
}

#[tokio::test]
async fn an_error_in_the_midst_of_a_translated_answer_is_told_plainly_and_with_its_request() {
    let error = json!({"error": {"message": "worker at 10.2.3.4:8000 died", "type": "server_error"}});
    let upstream = upstream([Answer::stream([chat::text("a"), format!("data: {error}\n\n")])]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let body = json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let answer = served.post(MESSAGES, &body.to_string()).await;
    let text = answer.text();
    assert!(text.contains("event: error") && !text.contains("10.2.3.4") && !text.contains("message_stop"), "{text}");
    let id = answer.header("x-placet-request-id").unwrap().to_owned();
    let last: Value =
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).next_back().unwrap();
    assert_eq!(last["request_id"], id);
    assert!(served.ledger().await[0].problem.contains("10.2.3.4"));
}

#[tokio::test]
async fn an_agents_error_in_a_stream_names_the_request() {
    let upstream = upstream([Answer::stream([chat::text("a")]).then_break()]).await;
    let agent = "[agents.house]\nmodel = \"mine:real\"\n";
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", agent)).await;
    let body =
        json!({"model": "house", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let answer = served.post(MESSAGES, &body.to_string()).await;
    let text = answer.text();
    let last: Value =
        text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).next_back().unwrap();
    assert_eq!(last["type"], "error", "{text}");
    assert_eq!(last["request_id"].as_str(), answer.header("x-placet-request-id"));
}

#[tokio::test]
async fn a_stream_that_is_no_stream_ends_with_the_error_of_its_protocol() {
    for pieces in [
        vec![chat::text("a"), "data: {not json\n\n".to_owned()],
        vec![chat::text("a"), "data: {\"choices\": 7}\n\n".to_owned(), "data: [DONE]\n\n".to_owned()],
        vec![chat::text("a"), "\u{1}\u{2}garbage without an end".to_owned()],
    ] {
        let upstream = upstream([Answer::stream(pieces.clone())]).await;
        let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
        let body =
            json!({"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
        let answer = served.post(MESSAGES, &body.to_string()).await;
        let text = answer.text();
        assert!(text.contains("event: error") && !text.contains("message_stop"), "{pieces:?}: {text}");
        assert!(!answer.is_whole, "there are clients that read only that it broke");
    }
}

#[tokio::test]
async fn redirects_are_followed_by_nobody() {
    let elsewhere = || Answer::json(307, &json!({})).header("location", "http://10.2.3.4/v1/steal");
    let upstream = upstream([elsewhere(), elsewhere()]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    for answer in both(&served, "m").await {
        assert!(answer.status == 502 && answer.text().contains("redirects"), "{} {}", answer.status, answer.text());
        assert!(!answer.head.contains("location") && !answer.text().contains("10.2.3.4"));
    }
    assert_eq!(upstream.received().len(), 2);
}

#[tokio::test]
async fn an_error_within_a_stream_that_is_handed_on_names_no_place() {
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"see http://vllm.internal:8000\"},\"finish_reason\":null}]}\n\n";
    let error = "data: {\"error\":{\"message\":\"late at http://vllm.internal:8000/v1, 10.2.3.4:3000\",\"type\":\"server_error\"}}\n\n";
    let upstream = upstream([Answer::bytes(200, "text/event-stream", format!("{said}{error}"))]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let asked = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]}).to_string();
    let answer = served.post(CHAT, &asked).await;
    let text = answer.text();
    // What the model says is nobody's to change.
    assert!(text.starts_with(said), "{text}");
    let told = &text[said.len()..];
    assert!(told.contains("late at [address]") && !told.contains("vllm") && !told.contains("10.2.3.4"), "{told}");
}

#[tokio::test]
async fn an_error_that_comes_in_pieces_names_no_place_either() {
    let said = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":null}]}\n\n";
    let error =
        "data: {\"error\":{\"message\":\"late at http://vllm.internal:8000/v1 with sk-very-secret-value\"}}\n\n";
    let asked = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
                       "messages": [{"role": "user", "content": "hi"}]});
    for cut in [3, 8, 12, 20, 40, 55, error.len() - 1] {
        let (head, rest) = error.split_at(cut);
        let upstream =
            upstream([Answer::stream([said, head, rest]), Answer::stream([format!("{said}{}", &head)]).then_break()])
                .await;
        let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
        let text = served.post(CHAT, &asked.to_string()).await.text();
        let told = text.strip_prefix(said).unwrap();
        assert!(told.contains("late at [address]"), "{cut}: {told}");
        assert!(!told.contains("vllm") && !told.contains("sk-very"), "{cut}: {told}");
        let text = served.post(CHAT, &asked.to_string()).await.text();
        let told = text.strip_prefix(said).unwrap();
        // With nothing but its last line's end missing it has been told.
        let words = if cut + 1 == error.len() { "late at [address]" } else { "broke before" };
        assert!(told.starts_with("data: {\"error\"") && told.contains(words), "{cut}: {told}");
        assert!(!told.contains("vllm") && !told.contains("sk-very"), "{cut}: {told}");
    }
}
