//! Where client and provider speak one protocol, the bytes are handed on.

use crate::support::{provider, serve, serve_in_lanes};
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHAT: &str = "\"openai_chat\"";

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

#[tokio::test]
async fn only_the_model_and_the_credential_change_on_the_way() {
    let reply = json!({"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}], "usage": {"prompt_tokens": 9, "completion_tokens": 4}});
    let upstream =
        upstream([Answer::json(200, &reply).header("x-request-id", "up-1").header("set-cookie", "a=b")]).await;
    let models = "[models.house]\ntarget = \"mine:real\"\nprice = { input = \"1000000\", output = \"0\" }\n";
    let served = serve(&provider(&upstream.url("v1"), CHAT, models)).await;
    let body = r#"{ "model":"house" ,"messages":[{"role":"user","content":"é\u00e9"}], "x_unknown" : 1.50 }"#;
    let headers = "authorization: Bearer client-key\r\nopenai-beta: b1\r\naccept-encoding: gzip\r\ncookie: c\r\n\
                   traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nx-forwarded-for: 1.2.3.4\r\n";
    let answer = served.post_with("/v1/chat/completions", headers, body).await;
    assert_eq!((answer.status, answer.text()), (200, reply.to_string()));
    assert_eq!(answer.header("x-request-id"), Some("up-1"));
    assert_eq!((answer.header("x-placet-route"), answer.header("x-placet-provider")), (Some("house"), Some("mine")));
    assert!(answer.header("x-placet-request-id").unwrap().starts_with("req_"));
    assert_eq!(answer.header("set-cookie"), None);
    let received = upstream.received();
    let sent = &received[0];
    assert_eq!(String::from_utf8_lossy(&sent.body), body.replace("\"house\"", "\"real\""));
    assert_eq!(sent.header("authorization"), Some("Bearer sk-very-secret-value"));
    assert_eq!(sent.header("openai-beta"), Some("b1"));
    for absent in ["accept-encoding", "cookie", "x-forwarded-for"] {
        assert_eq!(sent.header(absent), None, "{absent}");
    }
    let trace = sent.header("traceparent").unwrap();
    assert!(
        trace.starts_with("00-0af7651916cd43dd8448eb211c80319c-") && !trace.contains("b7ad6b7169203331"),
        "{trace}"
    );
    let ledger = served.ledger().await;
    assert_eq!(ledger.len(), 1);
    let line = &ledger[0];
    assert_eq!((&*line.model, &*line.provider, &*line.provider_model, &*line.key), ("house", "mine", "real", "local"));
    assert_eq!((line.status, &*line.outcome, line.usage.unwrap().output), (200, "whole", 4));
    assert_eq!(line.cost.unwrap().to_string(), "$9");
    assert_eq!(line.trace, "0af7651916cd43dd8448eb211c80319c");
}

#[tokio::test]
async fn a_stream_is_the_same_bytes_and_usage_that_nobody_asked_for_is_taken_out() {
    let events = chat::answer("hello");
    let upstream = upstream([Answer::stream(events.clone()), Answer::stream(events.clone())]).await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let asked = r#"{"model":"real","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    let answer = served.post("/v1/chat/completions", asked).await;
    assert_eq!((answer.status, answer.text(), answer.is_whole), (200, events.concat(), true));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let answer = served.post("/v1/chat/completions", r#"{"model":"real","stream":true,"messages":[]}"#).await;
    let kept: String = events.iter().filter(|event| !event.contains("\"choices\":[]")).cloned().collect();
    assert_eq!(answer.text(), kept);
    let received = upstream.received();
    assert_eq!(String::from_utf8_lossy(&received[0].body), asked);
    assert_eq!(received[1].json()["stream_options"]["include_usage"], true);
    let ledger = served.ledger().await;
    assert!(ledger.iter().all(|line| line.usage.unwrap().output == 5 && line.outcome == "whole"), "{ledger:?}");
}

#[tokio::test]
async fn messages_and_gemini_have_their_own_paths_and_credentials() {
    let reply = json!({"type": "message", "usage": {"input_tokens": 3, "output_tokens": 2}});
    let google = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2}});
    let upstream = upstream([Answer::json(200, &reply), Answer::json(200, &json!({"input_tokens": 7}))]).await;
    let other = self::upstream([Answer::json(200, &google)]).await;
    let config = format!(
        "{}\n[providers.g]\nbase_url = \"{}\"\nprotocols = [\"gemini\"]\nkey_env = \"SECRET\"\n[models.gem]\ntarget = \"g:gemini-4\"\n[models.cl]\ntarget = \"mine:claude\"\n",
        provider(&upstream.url("v1"), "\"anthropic_messages\"", ""),
        other.url("v1beta")
    );
    let served = serve(&config).await;
    let headers = "anthropic-version: 2026-10-21\r\nanthropic-beta: b1,b2\r\nauthorization: Bearer client\r\n";
    let answer = served.post_with("/v1/messages?beta=true", headers, r#"{"model":"cl","messages":[]}"#).await;
    assert_eq!((answer.status, answer.json()), (200, reply));
    let answer = served.post("/v1/messages/count_tokens", r#"{"model":"cl","messages":[]}"#).await;
    assert_eq!(answer.json(), json!({"input_tokens": 7}));
    let answer = served.post("/v1beta/models/gem:generateContent?key=client&alt=json", r#"{"contents":[]}"#).await;
    assert_eq!((answer.status, answer.json()), (200, google));
    let received = upstream.received();
    assert_eq!(received[0].path, "/v1/messages?beta=true");
    assert_eq!(
        (received[0].header("x-api-key"), received[0].header("authorization")),
        (Some("sk-very-secret-value"), None)
    );
    assert_eq!(received[0].header("anthropic-version"), Some("2026-10-21"));
    assert_eq!(received[0].header("anthropic-beta"), Some("b1,b2"));
    assert_eq!(received[1].path, "/v1/messages/count_tokens");
    let received = other.received();
    assert_eq!(received[0].path, "/v1beta/models/gemini-4:generateContent?alt=json");
    assert_eq!(received[0].header("x-goog-api-key"), Some("sk-very-secret-value"));
    let ledger = served.ledger().await;
    assert_eq!(ledger.iter().filter(|line| line.usage.is_some_and(|usage| usage.output == 2)).count(), 2);
}

#[tokio::test]
async fn a_provider_of_several_protocols_is_sent_its_credential_as_each_wants_it() {
    let upstream = upstream([(); 3].map(|()| Answer::json(200, &json!({"usage": {}})))).await;
    let protocols = "\"openai_chat\", \"anthropic_messages\", \"gemini\"";
    let served = serve(&provider(&upstream.url("v1"), protocols, "[models.m]\ntarget = \"mine:real\"\n")).await;
    for (path, body) in [
        ("/v1/messages", r#"{"model":"m","messages":[]}"#),
        ("/v1beta/models/m:generateContent", r#"{"contents":[]}"#),
        ("/v1/chat/completions", r#"{"model":"m","messages":[]}"#),
    ] {
        let answer = served.post(path, body).await;
        assert_eq!(answer.status, 200, "{path} {}", answer.text());
    }
    let names = ["x-api-key", "x-goog-api-key", "authorization"];
    for (at, request) in upstream.received().iter().enumerate() {
        let sent = names.map(|name| request.header(name).is_some_and(|value| value.contains("sk-very-secret-value")));
        assert_eq!(sent, [at == 0, at == 1, at == 2], "{request:?}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_ends_with_the_error_of_its_protocol() {
    let half = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"par";
    let upstream = upstream([
        Answer::stream([chat::text("a")]).then_break(),
        Answer::stream([chat::text("a"), half.to_owned()]).then_break(),
        Answer::stream([chat::text("a")]),
        Answer::bytes(200, "application/json", "{\"half\":").then_break(),
    ])
    .await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let asked = r#"{"model":"real","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    for _ in 0..3 {
        let answer = served.post("/v1/chat/completions", asked).await;
        let text = answer.text();
        let last = text.trim_end().rsplit("\n\n").next().unwrap();
        let error: serde_json::Value = serde_json::from_str(last.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(error["error"]["type"], "server_error", "{text}");
        assert!(
            text.starts_with(&chat::text("a")) && !answer.is_whole,
            "there are clients that read only that it broke"
        );
    }
    let answer = served.post("/v1/chat/completions", r#"{"model":"real","messages":[]}"#).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["type"]),
        (502, &json!("server_error")),
        "nothing had been sent yet"
    );
    let ledger = served.ledger().await;
    let outcomes: Vec<&str> = ledger.iter().map(|line| &*line.outcome).collect();
    assert_eq!(outcomes, ["cut", "cut", "cut", "failed"]);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_providers_work() {
    let upstream = upstream([Answer::stream([chat::text("a")]).then_silence()]).await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let body = r#"{"model":"real","stream":true,"messages":[]}"#;
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut buffer = [0; 4096];
    assert!(stream.read(&mut buffer).await.unwrap() > 0);
    drop(stream);
    upstream.hung_up(1).await;
    let ledger = served.ledger().await;
    assert_eq!((ledger.len(), &*ledger[0].outcome), (1, "cancelled"));
}

#[tokio::test]
async fn what_a_provider_refuses_is_told_without_a_secret() {
    let upstream = upstream([
        Answer::json(
            400,
            &json!({"error": {"message": "bad sk-very-secret-value here", "type": "invalid_request_error"}}),
        ),
        Answer::json(401, &json!({"error": {"message": "Incorrect API key: sk-ve****alue"}})),
        Answer::json(429, &json!({"error": {"message": "slow"}})).header("retry-after", "7"),
        Answer::bytes(502, "text/html", "<html>sk-very-secret-value</html>"),
        Answer::refused(),
    ])
    .await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let ask = || served.post("/v1/chat/completions", r#"{"model":"real","messages":[]}"#);
    let answer = ask().await;
    assert_eq!((answer.status, answer.json()["error"]["message"].as_str().unwrap()), (400, "bad [redacted] here"));
    let answer = ask().await;
    assert_eq!(answer.status, 401);
    assert!(!answer.text().contains("alue") && answer.text().contains("mine"), "{}", answer.text());
    let answer = ask().await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")));
    let answer = ask().await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (502, &json!("server_error")));
    assert!(!answer.text().contains("secret"));
    let answer = ask().await;
    assert_eq!(answer.status, 502);
}

#[tokio::test]
async fn a_long_body_that_breaks_off_after_its_beginning_was_sent_is_broken_off() {
    let long = format!("{{\"half\": \"{}", "x".repeat(200 << 10));
    let upstream = upstream([Answer::bytes(200, "application/json", long).then_break()]).await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let answer = served.post("/v1/chat/completions", r#"{"model":"real","messages":[]}"#).await;
    assert!(answer.status == 200 && !answer.is_whole);
    assert_eq!(served.ledger().await[0].outcome, "cut");
}

#[tokio::test]
async fn tools_are_named_in_the_ledger() {
    let upstream = upstream([Answer::stream(chat::answer("hello"))]).await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let tools = json!([{"type": "function", "function": {"name": "look"}}, {"type": "web_search"}]);
    let body = json!({"model": "real", "stream": true, "messages": [], "tools": tools}).to_string();
    served.post("/v1/chat/completions", &body).await;
    assert_eq!(served.ledger().await[0].tools, ["look", "web_search"]);
}

#[tokio::test]
async fn stopping_lets_an_answer_end() {
    let upstream = upstream([Answer::stream([chat::text("a"), chat::text("b"), chat::done()])]).await;
    let served = serve(&provider(&upstream.url("v1"), CHAT, "")).await;
    let (answer, ()) =
        tokio::join!(served.post("/v1/chat/completions", r#"{"model":"real","stream":true,"messages":[]}"#), async {
            while upstream.received().is_empty() {
                tokio::task::yield_now().await;
            }
            served.stop();
        });
    assert!(answer.is_whole && answer.text().ends_with("[DONE]\n\n"), "{answer:?}");
    assert_eq!(served.ledger().await.len(), 1);
}

#[tokio::test]
async fn lanes_serve_streams_and_end_with_the_gateway() {
    let events = chat::answer("hello");
    let upstream = upstream((0..6).map(|_| Answer::stream(events.clone()))).await;
    let served = serve_in_lanes(&provider(&upstream.url("v1"), CHAT, ""), 2).await;
    let asked = r#"{"model":"real","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    let answers = (0..6).map(|_| served.post("/v1/chat/completions", asked));
    for answer in futures_util::future::join_all(answers).await {
        assert_eq!((answer.status, answer.text(), answer.is_whole), (200, events.concat(), true));
    }
    let ledger = served.ledger().await;
    assert_eq!(ledger.iter().filter(|line| line.outcome == "whole").count(), 6, "{ledger:?}");
}

#[tokio::test]
async fn a_long_body_changes_where_it_must_and_nowhere_else() {
    let reply = json!({"choices": []});
    let upstream = upstream([Answer::json(200, &reply)]).await;
    let models = "[models.house]\ntarget = \"mine:real\"\n";
    let served = serve(&provider(&upstream.url("v1"), CHAT, models)).await;
    let said = "\\\"}] é ".repeat(4000);
    let body =
        |model: &str| format!(r#"{{"messages":[{{"role":"user","content":"{said}"}}],"model":"{model}" , "n":1}}"#);
    assert_eq!(served.post("/v1/chat/completions", &body("house")).await.status, 200);
    assert_eq!(String::from_utf8_lossy(&upstream.received()[0].body), body("real"));
}

#[tokio::test]
async fn a_broken_answer_of_responses_is_ended_under_its_own_name() {
    let created = "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_theirs\",\"model\":\"real-7\",\"status\":\"in_progress\"}}\n\n";
    let delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"delta\":\"a\"}\n\n";
    let upstream = upstream([Answer::stream([created, delta, "event: resp"]).then_break()]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_responses\"", "")).await;
    let answer = served.post("/v1/responses", r#"{"model":"real","stream":true,"store":false,"input":"hi"}"#).await;
    let text = answer.text();
    let last = text.strip_prefix(&format!("{created}{delta}event: response.failed\ndata: ")).unwrap();
    let event: serde_json::Value = serde_json::from_str(last.trim_end()).unwrap();
    assert_eq!(event["sequence_number"], 5, "{text}");
    assert_eq!((&event["response"]["id"], &event["response"]["model"]), (&json!("resp_theirs"), &json!("real-7")));
    assert_eq!(
        (&event["response"]["status"], &event["response"]["error"]["code"]),
        (&json!("failed"), &json!("server_error"))
    );
}
