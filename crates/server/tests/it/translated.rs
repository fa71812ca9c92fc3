//! Clients of one protocol at models of another, and at models of our own.

use crate::support::{provider, serve};
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::{Value, json};

async fn upstream(answers: impl IntoIterator<Item = Answer>) -> Upstream {
    Upstream::start(&Env::system(), answers).await.unwrap()
}

fn events(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
}

#[tokio::test]
async fn a_model_of_our_own_answers_in_chat_and_responses() {
    let served = serve("").await;
    let body = json!({"model": "echo", "messages": [{"role": "user", "content": "good morning"}]});
    let answer = served.post("/v1/chat/completions", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let json = answer.json();
    assert_eq!(json["object"], "chat.completion");
    assert!(json["choices"][0]["message"]["content"].as_str().unwrap().contains("good morning"), "{json}");
    assert_eq!(json["model"], "echo");
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let answer = served.post("/v1/chat/completions", &streamed.to_string()).await;
    assert!(answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    let body = json!({"model": "echo", "input": "good morning", "stream": true});
    let answer = served.post("/v1/responses", &body.to_string()).await;
    let events = events(&answer.text());
    assert_eq!(events.first().unwrap()["type"], "response.created");
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    let ledger = served.ledger().await;
    assert!(
        ledger.len() == 3 && ledger.iter().all(|line| line.outcome == "whole" && line.provider == "echo"),
        "{ledger:?}"
    );
}

#[tokio::test]
async fn a_responses_client_reaches_a_chat_server_and_hears_what_was_left_out() {
    let upstream = upstream([Answer::stream(chat::answer("hello"))]).await;
    let served = serve(&provider(
        &upstream.url("v1"),
        "\"openai_chat\"",
        "[models.house]\ntarget = \"mine:real\"\nprice = { input = \"1000000\", output = \"0\" }\n",
    ))
    .await;
    let body =
        json!({"model": "house", "input": "hi", "store": false, "truncation": "auto", "text": {"verbosity": "low"}});
    let answer = served.post("/v1/responses", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let json = answer.json();
    assert_eq!((&json["status"], &json["model"]), (&json!("completed"), &json!("house")));
    assert_eq!(json["output"][0]["content"][0]["text"], "hello");
    assert_eq!(json["usage"]["output_tokens"], 5);
    assert_eq!(answer.header("x-placet-cost"), Some("10"));
    assert_eq!(upstream.received()[0].json()["model"], "real");
    assert_eq!(upstream.received()[0].path, "/v1/chat/completions");
}

#[tokio::test]
async fn a_conversation_goes_on_from_an_answer_that_was_kept() {
    let upstream = upstream((0..3).map(|_| Answer::stream(chat::answer("four")))).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let first = served.post("/v1/responses", &json!({"model": "m", "input": "what is 2+2?"}).to_string()).await.json();
    let id = first["id"].as_str().unwrap().to_owned();
    // Keeping is not waited for by the answer.
    let mut kept = served.get(&format!("/v1/responses/{id}"), "").await;
    while kept.status == 404 {
        tokio::task::yield_now().await;
        kept = served.get(&format!("/v1/responses/{id}"), "").await;
    }
    assert_eq!(kept.json(), first);
    let next = json!({"model": "m", "input": "and 3+3?", "previous_response_id": id, "stream": true});
    assert_eq!(served.post("/v1/responses", &next.to_string()).await.status, 200);
    let messages = upstream.received()[1].json()["messages"].clone();
    let said: Vec<&str> = messages.as_array().unwrap().iter().map(|one| one["content"].as_str().unwrap()).collect();
    assert_eq!(said, ["what is 2+2?", "four", "and 3+3?"]);
    // An item is found by its id too.
    let item = first["output"][0]["id"].as_str().unwrap();
    let by_item = json!({"model": "m", "store": false, "input": [{"type": "item_reference", "id": item}, {"role": "user", "content": "so?"}]});
    assert_eq!(served.post("/v1/responses", &by_item.to_string()).await.status, 200);
    assert_eq!(upstream.received()[2].json()["messages"][0]["content"], "four");
    for (body, field) in [
        (json!({"model": "m", "input": "x", "previous_response_id": "resp_none"}), "previous_response_id"),
        (json!({"model": "m", "input": [{"type": "item_reference", "id": "msg_none"}]}), "input"),
    ] {
        let answer = served.post("/v1/responses", &body.to_string()).await;
        assert_eq!((answer.status, answer.json()["error"]["param"].as_str()), (400, Some(field)));
    }
    let delete = format!("DELETE /v1/responses/{id} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", served.address);
    assert_eq!(served.raw(delete.as_bytes()).await.json()["deleted"], true);
    assert_eq!(served.get(&format!("/v1/responses/{id}"), "").await.status, 404);
}

#[tokio::test]
async fn errors_before_and_after_the_first_byte() {
    let upstream = upstream([
        Answer::json(429, &json!({"error": {"message": "slow"}})).header("retry-after", "3"),
        Answer::json(401, &json!({"error": {"message": "bad key sk-very-secret-value"}})),
        Answer::stream([chat::text("a")]).then_break(),
    ])
    .await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let body = json!({"model": "m", "input": "hi", "stream": true}).to_string();
    let answer = served.post("/v1/responses", &body).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("3")));
    let answer = served.post("/v1/responses", &body).await;
    assert_eq!(answer.status, 401);
    assert!(!answer.text().contains("secret"));
    let answer = served.post("/v1/responses", &body).await;
    let events = events(&answer.text());
    assert_eq!((answer.status, &events.last().unwrap()["type"]), (200, &json!("response.failed")));
    let ledger = served.ledger().await;
    assert!(ledger.iter().all(|line| line.outcome == "failed"), "{ledger:?}");
}

#[tokio::test]
async fn a_client_that_goes_away_ends_a_translated_turn_too() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let upstream = upstream([Answer::stream([chat::text("a")]).then_silence()]).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let body = json!({"model": "m", "input": "hi", "stream": true}).to_string();
    let head = format!(
        "POST /v1/responses HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        served.address,
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(served.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    assert!(stream.read(&mut [0; 4096]).await.unwrap() > 0);
    drop(stream);
    upstream.hung_up(1).await;
    assert_eq!(served.ledger().await[0].outcome, "cancelled");
}

#[tokio::test]
async fn a_strict_route_refuses_what_it_would_leave_out() {
    let upstream = upstream([]).await;
    let more = "[models.m]\ntarget = \"mine:real\"\n[routes.careful]\ntargets = [\"m\"]\nstrict = true\n";
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", more)).await;
    let body = json!({"model": "careful", "input": "hi", "reasoning": {"summary": "detailed", "effort": "low"}, "truncation": "auto"});
    let answer = served.post("/v1/responses", &body.to_string()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.text().contains("strict"), "{}", answer.text());
    assert!(upstream.received().is_empty());
}

#[tokio::test]
async fn an_agent_answers_behind_a_models_name_and_keeps_its_tools_to_itself() {
    let sum =
        [chat::call(0, "c1", "calculate", &json!({"expression": "19 + 23"})), chat::finish("tool_calls"), chat::done()];
    let upstream = upstream([Answer::stream(sum), Answer::stream(chat::answer("It is 42."))]).await;
    let more = "[capabilities.sums]\nkind = \"calculator\"\n[agents.house]\nmodel = \"mine:real\"\ninstructions = \"Be kind.\"\ncapabilities = [\"sums\"]\n";
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", more)).await;
    let body = json!({"model": "house", "stream": true, "messages": [{"role": "user", "content": "19 + 23?"}]});
    let answer = served.post("/v1/chat/completions", &body.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("It is 42.") && !answer.text().contains("calculate"), "{}", answer.text());
    assert!(answer.header("x-run-id").unwrap().starts_with("run_"));
    let second = upstream.received()[1].json();
    let said = second["messages"].to_string();
    assert!(said.contains("42") && said.contains("Be kind."), "{said}");
    assert_eq!(served.get("/v1/models", "").await.json()["data"][0]["id"], "house");
    let ledger = served.ledger().await;
    assert_eq!((ledger.len(), &*ledger[0].model, &*ledger[0].outcome), (1, "house", "whole"));
}

#[tokio::test]
async fn clients_of_messages_and_gemini_reach_a_chat_server() {
    let call = [
        chat::call(0, "c1", "look", &json!({"at": "Zürich ✓"})),
        chat::finish("tool_calls"),
        chat::usage(10, 5),
        chat::done(),
    ];
    let upstream = upstream([
        Answer::stream(chat::answer("hello")),
        Answer::stream(call.clone()),
        Answer::stream(chat::answer("hello")),
        Answer::stream(chat::answer("hello")),
        Answer::stream([chat::text("a")]).then_break(),
    ])
    .await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let headers = "anthropic-version: 2023-06-01\r\nx-api-key: any\r\n";
    let ask =
        json!({"model": "m", "max_tokens": 9, "system": "Be kind.", "messages": [{"role": "user", "content": "hi"}]});
    let answer = served.post_with("/v1/messages", headers, &ask.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let json = answer.json();
    assert_eq!(
        (&json["type"], &json["content"][0]["text"], &json["stop_reason"]),
        (&json!("message"), &json!("hello"), &json!("end_turn"))
    );
    assert_eq!((&json["usage"]["input_tokens"], &json["usage"]["output_tokens"]), (&json!(10), &json!(5)));
    let mut streamed = ask.clone();
    streamed["stream"] = true.into();
    streamed["tools"] = json!([{"name": "look", "input_schema": {"type": "object"}}]);
    let answer = served.post_with("/v1/messages?beta=true", headers, &streamed.to_string()).await;
    let first = events(&answer.text()).remove(0);
    assert!(
        first["message"]["usage"]["input_tokens"].as_u64() > Some(20),
        "clients read from it how full the window is: {first}"
    );
    let kinds: Vec<Value> = events(&answer.text()).into_iter().map(|event| event["type"].clone()).collect();
    assert_eq!(
        (kinds.first(), kinds.last()),
        (Some(&json!("message_start")), Some(&json!("message_stop"))),
        "{}",
        answer.text()
    );
    assert!(answer.text().contains("input_json_delta") && answer.text().contains("\"tool_use\""), "{}", answer.text());
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).to_string();
    let answer = served.post("/v1beta/models/m:generateContent", &gemini).await;
    assert_eq!(answer.json()["candidates"][0]["content"]["parts"][0]["text"], "hello", "{}", answer.text());
    let answer = served.post("/v1beta/models/m:streamGenerateContent?alt=sse", &gemini).await;
    let last = events(&answer.text()).pop().unwrap();
    assert_eq!(last["candidates"][0]["finishReason"], "STOP", "{}", answer.text());
    assert!(answer.text().lines().all(|line| line.is_empty() || line.starts_with("data: ")));
    let answer = served.post_with("/v1/messages", headers, &streamed.to_string()).await;
    assert_eq!(events(&answer.text()).pop().unwrap()["type"], "error", "{}", answer.text());
    let ledger = served.ledger().await;
    assert!(ledger.iter().take(4).all(|line| line.usage.is_some_and(|usage| usage.output == 5)), "{ledger:?}");
}

#[tokio::test]
async fn what_was_sent_for_an_answer_is_listed_as_the_protocol_lists_it() {
    let upstream = upstream((0..2).map(|_| Answer::stream(chat::answer("four")))).await;
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", "")).await;
    let input = json!([
        {"role": "user", "content": "what is 2+2?"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "do you mean it?"}]},
        {"role": "user", "content": "yes"},
    ]);
    let first = served.post("/v1/responses", &json!({"model": "m", "input": input}).to_string()).await.json();
    let path = format!("/v1/responses/{}/input_items", first["id"].as_str().unwrap());
    let list = served.get(&path, "").await.json();
    let data = list["data"].as_array().unwrap().clone();
    assert_eq!((list["object"].as_str(), list["has_more"].as_bool(), data.len()), (Some("list"), Some(false), 3));
    assert_eq!(data[0]["content"], json!([{"type": "input_text", "text": "yes"}]), "the latest first");
    for item in &data {
        assert_eq!(item["type"], "message", "{item}");
        assert!(item["id"].as_str().unwrap().starts_with("msg_"), "{item}");
    }
    assert_eq!((&list["first_id"], &list["last_id"]), (&data[0]["id"], &data[2]["id"]));
    let page = served.get(&format!("{path}?order=asc&limit=2"), "").await.json();
    assert_eq!((page["has_more"].as_bool(), &page["data"][0]), (Some(true), &data[2]));
    let after = page["last_id"].as_str().unwrap();
    let rest = served.get(&format!("{path}?order=asc&after={after}"), "").await.json();
    assert_eq!((rest["has_more"].as_bool(), &rest["data"]), (Some(false), &json!([data[0]])));
    for query in ["limit=0", "limit=many", "order=up", "after=nobody"] {
        assert_eq!(served.get(&format!("{path}?{query}"), "").await.status, 400, "{query}");
    }
    // An item is found by the id that it was listed with.
    let by_id = json!({"model": "m", "store": false, "input": [{"type": "item_reference", "id": data[2]["id"]}]});
    assert_eq!(served.post("/v1/responses", &by_id.to_string()).await.status, 200);
    assert_eq!(upstream.received()[1].json()["messages"][0]["content"], "what is 2+2?");
    let head = format!(
        "DELETE {} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        &path[..path.len() - 12],
        served.address
    );
    assert_eq!(served.raw(head.as_bytes()).await.status, 200);
    assert_eq!(served.post("/v1/responses", &by_id.to_string()).await.status, 400, "it went with the answer");
}

#[tokio::test]
async fn what_only_a_provider_could_do_is_refused_by_name() {
    let upstream = upstream([]).await;
    let agent = "[agents.house]\nmodel = \"mine:real\"\n[models.real]\ntarget = \"mine:real\"\n";
    let served = serve(&provider(&upstream.url("v1"), "\"openai_chat\"", agent)).await;
    for model in ["house", "real"] {
        for (field, value) in
            [("conversation", json!("conv_1")), ("conversation", json!({"id": "conv_1"})), ("background", json!(true))]
        {
            let mut body = json!({"model": model, "input": "hi"});
            body[field] = value;
            let answer = served.post("/v1/responses", &body.to_string()).await;
            assert_eq!(answer.status, 400, "{model} {field} {}", answer.text());
            assert!(answer.json()["error"]["message"].as_str().unwrap().contains(field), "{}", answer.text());
        }
    }
    assert!(upstream.received().is_empty());
}
