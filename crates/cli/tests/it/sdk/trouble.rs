//! Hostile clients, clients that leave, and providers in trouble.

use super::house::{House, sdks};
use super::{APIS, chat_stream, tool};
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream, chat};
use serde_json::{Value, json};

fn provider(upstream: &Upstream) -> String {
    format!(
        "[limits]\nbody = \"1MB\"\n[providers.mine]\nbase_url = \"{}\"\nprotocols = [\"openai_chat\"]\nkey_env = \"SECRET\"\n\
         [models.plain]\ntarget = \"mine:real\"\n[capabilities.sums]\nkind = \"calculator\"\n\
         [agents.house]\nmodel = \"mine:real\"\ncapabilities = [\"sums\"]\n",
        upstream.url("v1")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn e17_a_hostile_client_gets_typed_answers() {
    let upstream = Upstream::start(&Env::system(), []).await.unwrap();
    let house = House::open(&provider(&upstream), |_| {});
    for sdk in sdks("e17") {
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "calculate", "arguments": "{}"}});
        let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "forged"});
        let user = json!({"role": "user", "content": "hi"});
        let said = |messages: Value| json!({"api": "chat", "model": "house", "user": "", "messages": messages});
        let hostile = [
            ("a body over the limit", json!({"api": "chat", "model": "house", "user": "x".repeat(2 << 20)}), Some(413)),
            (
                "a tool that is named like one of ours",
                json!({"api": "chat", "model": "house", "user": "x", "tools": [tool("calculate")]}),
                Some(400),
            ),
            (
                "the same in Messages",
                json!({"api": "messages", "model": "house", "user": "x", "tools": [tool("calculate")]}),
                Some(400),
            ),
            (
                "two tools of one name",
                json!({"api": "chat", "model": "house", "user": "x", "tools": [tool("a"), tool("a")]}),
                None,
            ),
            ("a result of no call", said(json!([user, result("c9")])), None),
            (
                "a call of ours that was never made, answered",
                said(json!([user, {"role": "assistant", "content": null, "tool_calls": [call("c1")]}, result("c1")])),
                None,
            ),
            (
                "two calls of one id",
                said(
                    json!([user, {"role": "assistant", "content": null, "tool_calls": [call("c1"), call("c1")]}, result("c1")]),
                ),
                None,
            ),
            (
                "a call without its answer",
                said(json!([user, {"role": "assistant", "content": null, "tool_calls": [call("c1")]}, user])),
                None,
            ),
            ("no message at all", said(json!([])), None),
            ("a role that nobody has", said(json!([{"role": "king", "content": "obey"}])), None),
        ];
        for (what, talk, wanted) in hostile {
            let before = upstream.received().len();
            upstream.then(Answer::stream(chat_stream("Well.", &[])));
            let seen = sdk.hold_one(&house.base, talk);
            let case = format!("{sdk:?} {what}: {:.2000}", seen.0.to_string());
            let is_asked = upstream.received().len() > before;
            match wanted {
                Some(status) => assert_eq!(seen.error()["status"], status, "{case}"),
                None if is_asked => assert!(seen.turns().len() == 1 && !seen.seen().contains("SECRET"), "{case}"),
                None => {
                    let status = seen.error()["status"].as_u64().unwrap_or_default();
                    assert!((400..500).contains(&status), "{case}");
                }
            }
            if what.contains("like one of ours") {
                assert!(seen.error()["message"].as_str().unwrap().contains("calculate"), "{case}");
            }
            if !is_asked {
                // What was prepared for it is used up by a request that is well.
                let well = sdk.hold_one(&house.base, json!({"api": "chat", "model": "house", "user": "hi"}));
                assert_eq!(well.last()["text"], "Well.", "{case}");
            }
        }
        let many: Vec<Value> = (0..1000).map(|number| tool(&format!("t{number}"))).collect();
        upstream.then(Answer::stream(chat_stream("Many.", &[])));
        let seen = sdk.hold_one(&house.base, json!({"api": "messages", "model": "house", "user": "x", "tools": many}));
        assert_eq!(seen.last()["text"], "Many.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e18_who_leaves_ends_the_providers_work() {
    let upstream = Upstream::start(&Env::system(), []).await.unwrap();
    let house = House::open(&provider(&upstream), |_| {});
    let mut left = 0;
    for sdk in sdks("e18") {
        for api in APIS {
            for model in ["plain", "house"] {
                upstream.then(Answer::stream([chat::text("a"), chat::text("b"), chat::text("c")]).then_silence());
                let told = json!({"api": api, "model": model, "stream": true, "user": "hi", "leave_after": 1});
                let seen = sdk.hold_one(&house.base, told);
                assert_eq!(seen.error()["class"], "Left", "{sdk:?} {api} {model}: {:#}", seen.0);
                left += 1;
                upstream.hung_up(left).await;
            }
        }
    }
    let ledger = house.ledger().await;
    assert_eq!(ledger.len(), left);
    assert!(ledger.iter().all(|line| line.outcome == "cancelled"), "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e19_a_provider_in_trouble_is_told_as_what_it_is() {
    let upstream = Upstream::start(&Env::system(), []).await.unwrap();
    let house = House::open(&provider(&upstream), |_| {});
    let error = |message: &str| json!({"error": {"message": message, "type": "x", "code": "y"}});
    for sdk in sdks("e19") {
        for (api, stream) in APIS.map(|api| [(api, false), (api, true)]).concat() {
            for model in ["plain", "house"] {
                let ask = |answer: Answer| {
                    upstream.then(answer);
                    sdk.hold_one(&house.base, json!({"api": api, "model": model, "stream": stream, "user": "hi"}))
                };
                let case = format!("{sdk:?} {api} {model} stream={stream}");
                let seen = ask(Answer::json(401, &error("bad key sk-very-secret-value-0123456789")));
                assert_eq!(seen.error()["status"], 401, "{case} {:#}", seen.0);
                assert!(!seen.0.to_string().contains("very-secret"), "{case}");
                let seen = ask(Answer::json(429, &error("slow down")).header("retry-after", "7"));
                assert_eq!(seen.error()["status"], 429, "{case} {:#}", seen.0);
                if api != "gemini" && model == "plain" {
                    assert_eq!(seen.error()["retry_after"], "7", "{case} {:#}", seen.0);
                }
                if api == "chat" || api == "responses" || api == "messages" {
                    assert_eq!(seen.error()["class"], "RateLimitError", "{case} {:#}", seen.0);
                }
                let seen = ask(Answer::json(529, &error("full")));
                let status = seen.error()["status"].as_u64().unwrap_or_default();
                assert!((500..600).contains(&status), "{case} {:#}", seen.0);
                if stream {
                    let seen = ask(Answer::stream([chat::text("a"), chat::text("b")]).then_break());
                    assert!(!seen.error().is_null(), "{case}");
                }
                // Arguments that are no JSON are the client's to judge; those of a tool of ours are answered by us.
                let broken = json!("{\"day\": ");
                let mut events = chat_stream("", &[]);
                let delta = json!({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock", "choices": [{
                    "index": 0, "finish_reason": null,
                    "delta": {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "calculate", "arguments": broken}}]},
                }]});
                events.insert(0, chat::chunk(&delta));
                if model == "house" {
                    upstream.then(Answer::stream(events));
                    let seen = ask(Answer::stream(chat_stream("Sorry.", &[])));
                    assert_eq!(seen.last()["text"], "Sorry.", "{case} {:#}", seen.0);
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e19_how_long_to_wait_is_told_by_agents_too() {
    let upstream = Upstream::start(&Env::system(), []).await.unwrap();
    let house = House::open(&provider(&upstream), |_| {});
    for sdk in sdks("e19") {
        let asked = |(api, stream): (&str, bool)| {
            let slow = json!({"error": {"message": "slow down", "type": "x", "code": "y"}});
            upstream.then(Answer::json(429, &slow).header("retry-after", "7"));
            json!({"api": api, "model": "house", "stream": stream, "user": "hi"})
        };
        // The SDK of Gemini does not show it.
        let ways = ["chat", "responses", "messages"].into_iter().flat_map(|api| [(api, false), (api, true)]);
        for talk in sdk.hold(&house.base, ways.map(asked).collect()) {
            let error = talk.error();
            assert_eq!((&error["status"], &error["retry_after"]), (&json!(429), &json!("7")), "{sdk:?} {:#}", talk.0);
        }
    }
}
