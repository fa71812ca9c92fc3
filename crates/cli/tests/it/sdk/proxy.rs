//! Where nothing of an agent's own happens: the gateway as the model behind it.

use super::house::{House, sdks};
use super::{chat_body, chat_stream, messages_body, messages_stream, tool};
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream};
use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn provider(upstream: &Upstream, protocol: &str) -> String {
    format!(
        "[providers.mine]\nbase_url = \"{}\"\nprotocols = [\"{protocol}\"]\nkey_env = \"SECRET\"\n\
         [models.house]\ntarget = \"mine:real\"\n",
        upstream.url("v1")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_a_name_in_front_of_a_model_changes_nothing() {
    for (api, protocol) in [("chat", "openai_chat"), ("messages", "anthropic_messages")] {
        let upstream = Upstream::start(&Env::system(), []).await.unwrap();
        let house = House::open(&provider(&upstream, protocol), |_| {});
        let direct = upstream.url("").trim_end_matches('/').to_owned();
        for sdk in sdks("e2") {
            for stream in [false, true] {
                let calls = [
                    ("toolu_1", "look_up", json!({"day": "Zürich ✓ \"\\\n😀"})),
                    ("toolu_2", "open_calendar", json!({"day": "friday"})),
                ];
                let say = |text: &str, calls: &[(&str, &str, Value)]| match (api, stream) {
                    ("chat", true) => Answer::stream(chat_stream(text, calls)),
                    ("chat", false) => Answer::json(200, &chat_body(text, calls)),
                    (_, true) => Answer::stream(messages_stream(text, calls)),
                    (_, false) => Answer::json(200, &messages_body(text, calls)),
                };
                let before = upstream.received().len();
                for _ in 0..2 {
                    upstream.then(say("Let me look.", &calls));
                    upstream.then(say("All done, ✓ 你好.", &[]));
                }
                let told = |base: &str, model: &str| {
                    json!({
                        "api": api, "base": base, "model": model, "stream": stream, "system": "Be brief.", "user": "Look",
                        "image": true, "tools": [tool("look_up"), tool("open_calendar")],
                        "results": {"look_up": "sunny ✓", "open_calendar": "free"},
                    })
                };
                let talks = sdk.hold("", vec![told(&direct, "real"), told(&house.base, "house")]);
                let case = format!("{sdk:?} {api} stream={stream}");
                assert_eq!(talks[0].turns().len(), 2, "{case}");
                assert_eq!(talks[0].turns(), talks[1].turns(), "{case}");
                assert_eq!(talks[0].seen(), talks[1].seen(), "{case}");
                let received: Vec<Value> = upstream.received()[before..].iter().map(|one| one.json()).collect();
                assert_eq!((&received[0], &received[1]), (&received[2], &received[3]), "{case}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_a_client_of_one_protocol_at_a_model_of_another() {
    for protocol in ["openai_chat", "anthropic_messages"] {
        let upstream = Upstream::start(&Env::system(), []).await.unwrap();
        let house = House::open(&provider(&upstream, protocol), |_| {});
        for sdk in sdks("e3") {
            for (api, stream) in
                ["chat", "responses", "messages", "gemini"].map(|api| [(api, false), (api, true)]).concat()
            {
                if (api, protocol) == ("chat", "openai_chat") || (api, protocol) == ("messages", "anthropic_messages") {
                    continue;
                }
                let calls = [
                    ("toolu_1", "look_up", json!({"day": "today"})),
                    ("toolu_2", "open_calendar", json!({"day": "friday"})),
                ];
                let say = |text: &str, calls: &[(&str, &str, Value)]| match protocol {
                    "openai_chat" => Answer::stream(chat_stream(text, calls)),
                    _ => Answer::stream(messages_stream(text, calls)),
                };
                let before = upstream.received().len();
                upstream.then(say("Let me look.", &calls));
                upstream.then(say("Done.", &[]));
                let told = json!({
                    "api": api, "model": "house", "stream": stream, "system": "Be brief.", "user": "Look",
                    "tools": [tool("look_up"), tool("open_calendar")], "results": {"look_up": "sunny ✓"},
                    "errors": {"open_calendar": "the calendar is locked"}, "beside": "And hurry.",
                    "headers": {"traceparent": format!("00-{TRACE}-b7ad6b7169203331-01")},
                });
                let talk = sdk.hold_one(&house.base, told);
                let case = format!("{sdk:?} {api} -> {protocol} stream={stream}: {:#}", talk.0);
                assert_eq!(talk.turns().len(), 2, "{case}");
                let wanted: Vec<Value> =
                    calls.iter().map(|(_, name, arguments)| json!({"name": name, "arguments": arguments})).collect();
                assert_eq!(talk.turns()[0]["calls"], Value::from(wanted), "{case}");
                assert_eq!(
                    (&talk.turns()[0]["text"], &talk.last()["text"]),
                    (&json!("Let me look."), &json!("Done.")),
                    "{case}"
                );
                assert_eq!(talk.last()["usage"], json!([10, 5]), "{case}");
                let sent = upstream.received()[before + 1].header("traceparent").map(str::to_owned);
                assert!(sent.is_some_and(|sent| sent.contains(TRACE) && !sent.contains("b7ad6b7169203331")), "{case}");
                let body = upstream.received()[before + 1].json();
                let said = body.to_string();
                for text in ["Be brief.", "Let me look.", "sunny ✓", "the calendar is locked"] {
                    assert_eq!(said.matches(text).count(), 1, "{case}: {text} in {body:#}");
                }
                if api == "messages" {
                    assert_eq!(said.matches("And hurry.").count(), 1, "{case} {body:#}");
                }
                if protocol == "anthropic_messages" && api == "messages" {
                    assert!(said.contains("\"is_error\":true"), "{case} {body:#}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_kept_where_the_model_behind_keeps_none() {
    let upstream = Upstream::start(&Env::system(), []).await.unwrap();
    let house = House::open(&provider(&upstream, "anthropic_messages"), |_| {});
    for sdk in sdks("answers_are_kept") {
        for stream in [false, true] {
            let before = upstream.received().len();
            upstream.then(Answer::stream(messages_stream("", &[("toolu_1", "look_up", json!({"day": "today"}))])));
            upstream.then(Answer::stream(messages_stream("Done.", &[])));
            let told = json!({
                "api": "responses", "model": "house", "stream": stream, "user": "Look", "store": true,
                "tools": [tool("look_up")], "results": {"look_up": "sunny"},
            });
            let talk = sdk.hold_one(&house.base, told);
            assert!(talk.turns().iter().all(|turn| turn["kept"] == true), "{:#}", talk.0);
            assert_eq!(talk.last()["text"], "Done.");
            assert_eq!(upstream.received()[before + 1].json()["messages"].as_array().unwrap().len(), 3);
        }
    }
}
