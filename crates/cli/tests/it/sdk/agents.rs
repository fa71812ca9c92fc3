//! Agents behind a model's name, with tools of their own.

use super::house::{House, SECRET, Sdk, sdks};
use super::{APIS, chat_stream, tool};
use base64::Engine as _;
use placet_core::Env;
use placet_testkit::upstream::{Answer, Upstream};
use serde_json::{Value, json};

pub(super) async fn upstream() -> Upstream {
    Upstream::start(&Env::system(), []).await.unwrap()
}

pub(super) fn agents(upstream: &Upstream, more: &str) -> String {
    format!(
        "{more}\n[providers.mine]\nbase_url = \"{}\"\nprotocols = [\"openai_chat\"]\nkey_env = \"SECRET\"\n\
         [capabilities.sums]\nkind = \"calculator\"\n",
        upstream.url("v1")
    )
}

const HOUSE: &str =
    "[agents.house]\nmodel = \"mine:real\"\ninstructions = \"Keep the house.\"\ncapabilities = [\"sums\"]\n";

fn sum(id: &'static str, expression: &str) -> (&'static str, &'static str, Value) {
    (id, "calculate", json!({"expression": expression}))
}

/// The results in a Chat request, in order.
pub(super) fn results(body: &Value) -> Vec<(String, String)> {
    let messages = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "tool");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    messages.map(|message| (text(&message["tool_call_id"]), text(&message["content"]))).collect()
}

pub(super) fn each(sdks: Vec<Sdk>) -> impl Iterator<Item = (Sdk, &'static str, bool)> {
    sdks.into_iter()
        .flat_map(|sdk| APIS.into_iter().flat_map(move |api| [false, true].map(|stream| (sdk.clone(), api, stream))))
}

#[tokio::test(flavor = "multi_thread")]
async fn e1_inner_and_outer_tools_in_one_message() {
    let upstream = upstream().await;
    let house = House::open(&agents(&upstream, HOUSE), |_| {});
    for (sdk, api, stream) in each(sdks("e1")) {
        let before = upstream.received().len();
        let asked = [sum("c1", "19 + 23"), ("c2", "open_calendar", json!({"day": "friday"}))];
        upstream.then(Answer::stream(chat_stream("One moment.", &asked)));
        upstream.then(Answer::stream(chat_stream("All set.", &[])));
        let told = json!({
            "api": api, "model": "house", "stream": stream, "user": "Plan my friday", "tools": [tool("open_calendar")],
            "results": {"open_calendar": "free at nine"},
        });
        let talk = sdk.hold_one(&house.base, told);
        let case = format!("{sdk:?} {api} stream={stream}: {:#}", talk.0);
        assert_eq!(talk.turns().len(), 2, "{case}");
        assert_eq!(
            talk.turns()[0]["calls"],
            json!([{"name": "open_calendar", "arguments": {"day": "friday"}}]),
            "{case}"
        );
        assert_eq!(talk.last()["text"], "All set.", "{case}");
        assert!(!talk.seen().contains("calculate"), "{case}");
        let received = upstream.received();
        assert_eq!(received.len() - before, 2, "{case}");
        let body = received[before + 1].json();
        let results = results(&body);
        assert_eq!(results.len(), 2, "{case} {body:#}");
        assert!(results[0].1.contains("42") && results[1].1.contains("free at nine"), "{case} {body:#}");
        let rounds = body["messages"].as_array().unwrap().iter().filter(|message| message["role"] == "assistant");
        assert_eq!(rounds.count(), 1, "{case} {body:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_inner_tools_alone_are_not_seen() {
    let upstream = upstream().await;
    let house = House::open(&agents(&upstream, HOUSE), |_| {});
    for (sdk, api, stream) in each(sdks("e4")) {
        let before = upstream.received().len();
        upstream.then(Answer::stream(chat_stream("", &[sum("c1", "19 + 23"), sum("c2", "1 / 0")])));
        upstream.then(Answer::stream(chat_stream("The first is 42.", &[])));
        let told = json!({"api": api, "model": "house", "stream": stream, "user": "Count"});
        let talk = sdk.hold_one(&house.base, told);
        let case = format!("{sdk:?} {api} stream={stream}: {:#}", talk.0);
        let finish = match api {
            "chat" => "stop",
            "responses" => "completed",
            "messages" => "end_turn",
            _ => "STOP",
        };
        assert_eq!((talk.turns().len(), talk.last()["finish"].as_str()), (1, Some(finish)), "{case}");
        assert_eq!(talk.last()["text"], "The first is 42.", "{case}");
        assert!(!talk.seen().contains("calculate"), "{case}");
        let results = results(&upstream.received()[before + 1].json());
        assert!(results[0].1.contains("42") && results[1].1.contains("zero"), "{case} {results:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_model_that_never_ends_is_stopped() {
    let upstream = upstream().await;
    let limited = format!("{HOUSE}max_rounds = 2\n");
    let house = House::open(&agents(&upstream, &limited), |_| {});
    let mut asked = 0;
    for (sdk, api, stream) in each(sdks("e5")) {
        let before = upstream.received().len();
        for _ in 0..3 {
            upstream.then(Answer::stream(chat_stream("", &[sum("c1", "1 + 1")])));
        }
        let talk = sdk.hold_one(&house.base, json!({"api": api, "model": "house", "stream": stream, "user": "Go"}));
        let case = format!("{sdk:?} {api} stream={stream}: {:#}", talk.0);
        assert_eq!(upstream.received().len() - before, 3, "{case}");
        assert!(talk.error()["message"].as_str().unwrap().contains("limit"), "{case}");
        assert!(!talk.seen().contains("calculate"), "{case}");
        asked += 1;
    }
    let ledger = house.ledger().await;
    assert_eq!(ledger.len(), asked);
    // What was used is used, whether or not an answer came of it.
    assert!(ledger.iter().all(|line| line.usage.is_some_and(|usage| usage.output == 15)), "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_no_secret_leaves() {
    let upstream = upstream().await;
    let files = "[capabilities.notes]\nkind = \"files\"\nroot = \"notes\"\n\
                 [agents.house]\nmodel = \"mine:real\"\ncapabilities = [\"notes\"]\n";
    let packed = base64::engine::general_purpose::STANDARD.encode(SECRET);
    let shaped = ["ghp_", "Zx8Kq2LmN7vR4tYp9WbC3dFg6HjS1aUe0iQo"].concat();
    let text = format!("the key is {SECRET}, packed {packed}, and another {shaped}\n");
    let house = House::open(&agents(&upstream, files), |folder| {
        std::fs::create_dir(folder.join("notes")).unwrap();
        std::fs::write(folder.join("notes/keys.txt"), &text).unwrap();
    });
    for (sdk, api, stream) in each(sdks("e6")) {
        let before = upstream.received().len();
        upstream.then(Answer::stream(chat_stream("", &[("c1", "read", json!({"path": "keys.txt"}))])));
        upstream.then(Answer::stream(chat_stream("Read.", &[])));
        let talk =
            sdk.hold_one(&house.base, json!({"api": api, "model": "house", "stream": stream, "user": "Read it"}));
        let sent = String::from_utf8_lossy(&upstream.received()[before + 1].body).into_owned();
        assert!(sent.contains("the key is"), "the file was read: {sent}");
        for secret in [SECRET, &packed, &shaped] {
            assert!(!sent.contains(secret) && !talk.seen().contains(secret), "{sdk:?} {api}: {secret} in {sent}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_an_agent_can_do_what_it_was_handed_and_nothing_else() {
    let upstream = upstream().await;
    let files = "[capabilities.look]\nkind = \"files\"\nroot = \"notes\"\n\
                 [capabilities.keep]\nkind = \"files\"\nroot = \"notes\"\nwritable = true\n\
                 [agents.reader]\nmodel = \"mine:real\"\ncapabilities = [\"look\"]\n\
                 [agents.more]\nmodel = \"mine:real\"\ncapabilities = [\"look\", \"sums\"]\n\
                 [agents.writer]\nmodel = \"mine:real\"\ncapabilities = [\"keep\"]\n\
                 [agents.other]\nmodel = \"mine:real\"\ncapabilities = [\"sums\"]\n";
    let house = House::open(&agents(&upstream, files), |folder| {
        std::fs::create_dir(folder.join("notes")).unwrap();
        std::fs::write(folder.join("notes/a.txt"), "alpha").unwrap();
        std::fs::write(folder.join("outside.txt"), "not yours").unwrap();
        std::os::unix::fs::symlink("../outside.txt", folder.join("notes/link.txt")).unwrap();
    });
    let Some(sdk) = sdks("e7").into_iter().next() else { return };
    let tools = |agent: &str, calls: &[(&str, &str, Value)]| {
        let before = upstream.received().len();
        upstream.then(Answer::stream(chat_stream("", calls)));
        upstream.then(Answer::stream(chat_stream("Done.", &[])));
        let talk = sdk.hold_one(&house.base, json!({"api": "chat", "model": agent, "stream": true, "user": "Go"}));
        assert_eq!(talk.last()["text"], "Done.");
        let received = upstream.received();
        let offered = received[before].json()["tools"].clone();
        (offered, results(&received[before + 1].json()))
    };
    let write = |name| ("c1", name, json!({"path": "b.txt", "content": "beta"}));
    let (reader, refused) = tools("reader", &[write("write"), ("c2", "no_such_tool", json!({}))]);
    assert_eq!(refused[0].1.replace("write", "X"), refused[1].1.replace("no_such_tool", "X"), "one text for both");
    let (_, other) = tools("other", &[write("write"), ("c2", "read", json!({"path": "a.txt"}))]);
    assert_eq!(other[0].1, refused[0].1);
    assert!(!other[1].1.contains("alpha"), "{other:?}");
    assert!(!house.folder().join("notes/b.txt").exists());
    let outside = [
        ("c1", "read", json!({"path": "../outside.txt"})),
        ("c2", "read", json!({"path": "link.txt"})),
        ("c3", "read", json!({"path": "/etc/passwd"})),
        ("c4", "read", json!({"path": "a.txt"})),
    ];
    let (_, read) = tools("reader", &outside);
    assert!(read[..3].iter().all(|(_, text)| !text.contains("not yours") && !text.contains("root:")), "{read:?}");
    assert!(read[3].1.contains("alpha"), "{read:?}");
    let (more, _) = tools("more", &[sum("c1", "1 + 1")]);
    let (reader, more) = (reader.to_string(), more.to_string());
    assert!(more.starts_with(reader.trim_end_matches(']')), "what is added is added at the end");
    let names = |tools: &Value| tools.to_string();
    let (writer, _) = tools("writer", &[write("write")]);
    assert!(names(&writer).contains("\"write\"") && !reader.contains("\"write\""), "{writer}");
    assert_eq!(std::fs::read_to_string(house.folder().join("notes/b.txt")).unwrap(), "beta");
}

#[tokio::test(flavor = "multi_thread")]
async fn e11_two_agents_on_one_port() {
    let upstream = upstream().await;
    let two = |more: &str| {
        format!(
            "[server]\n{more}\n[agents.\"acme/coder\"]\nmodel = \"mine:one\"\ninstructions = \"Write code.\"\n\
             [agents.\"acme/math\"]\nmodel = \"mine:two\"\ncapabilities = [\"sums\"]\n"
        )
    };
    let house = House::open(&agents(&upstream, &two("default_model = \"acme/math\"")), |_| {});
    for (sdk, api, stream) in each(sdks("e11")) {
        for (asked, real) in [("acme/coder", "one"), ("acme/math", "two"), ("nobody", "two")] {
            let before = upstream.received().len();
            upstream.then(Answer::stream(chat_stream("Hello.", &[])));
            let talk = sdk.hold_one(&house.base, json!({"api": api, "model": asked, "stream": stream, "user": "Hi"}));
            assert_eq!(talk.last()["text"], "Hello.", "{sdk:?} {api} {asked}");
            assert_eq!(upstream.received()[before].json()["model"], real, "{sdk:?} {api} {asked}");
        }
    }
    for sdk in sdks("e11") {
        for api in ["chat", "messages", "gemini"] {
            let seen = sdk.hold_one(&house.base, json!({"api": api, "list": "acme/coder"}));
            let listed = seen.last()["models"].to_string();
            assert!(listed.contains("acme/coder") && listed.contains("acme/math"), "{sdk:?} {api}: {listed}");
            assert!(seen.last()["one"].as_str().unwrap().ends_with("acme/coder"), "{sdk:?} {api}");
        }
    }
    // Without a default an unknown name is one, and a key sees its own models alone.
    let key = "pk_of-ann";
    let hash = placet_core::record::Digest::of(key.as_bytes());
    let keys = format!("{}[keys.ann]\nsha256 = \"{hash}\"\nmodels = [\"acme/coder\"]\n", two(""));
    let house = House::open(&agents(&upstream, &keys), |_| {});
    for (sdk, api, stream) in each(sdks("e11")) {
        let ask = |model: &str, key: &str| {
            let told = json!({"api": api, "model": model, "stream": stream, "user": "Hi", "key": key});
            sdk.hold_one(&house.base, told).error()["status"].clone()
        };
        assert_eq!((ask("nobody", key), ask("acme/math", key)), (json!(404), json!(404)), "{sdk:?} {api}");
        assert_eq!(ask("acme/coder", "pk_of-nobody"), 401, "{sdk:?} {api}");
        upstream.then(Answer::stream(chat_stream("Hello.", &[])));
        let told = json!({"api": api, "model": "acme/coder", "stream": stream, "user": "Hi", "key": key});
        assert_eq!(sdk.hold_one(&house.base, told).last()["text"], "Hello.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e20_one_trace_from_request_to_ledger() {
    let upstream = upstream().await;
    let house = House::open(&agents(&upstream, HOUSE), |_| {});
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut used = 0;
    for (sdk, api, stream) in each(sdks("e20")) {
        let before = upstream.received().len();
        upstream.then(Answer::stream(chat_stream("", &[sum("c1", "19 + 23")])));
        upstream.then(Answer::stream(chat_stream("It is 42.", &[])));
        let headers = json!({"traceparent": format!("00-{trace}-b7ad6b7169203331-01")});
        let told = json!({"api": api, "model": "house", "stream": stream, "user": "19 + 23?", "headers": headers});
        let talk = sdk.hold_one(&house.base, told);
        let case = format!("{sdk:?} {api} stream={stream}: {:#}", talk.0);
        used += talk.last()["usage"][1].as_u64().unwrap_or_else(|| panic!("{case}"));
        let received = upstream.received().split_off(before);
        assert_eq!(received.len(), 2, "{case}");
        let goes_on = |parent: &str| parent.starts_with(&format!("00-{trace}-"));
        assert!(received.iter().all(|asked| asked.header("traceparent").is_some_and(goes_on)), "{case}");
    }
    let ledger = house.ledger().await;
    assert!(ledger.iter().all(|line| line.trace == trace && line.outcome == "whole"), "{ledger:?}");
    let written: u64 = ledger.iter().filter_map(|line| line.usage).map(|usage| usage.output).sum();
    assert_eq!(written, used, "what is written down is what clients were told");
}
