//! Somebody is asked over HTTP before a tool runs.

use super::agents::{agents, results, upstream};
use super::house::{House, SECRET, sdks};
use super::{APIS, chat_stream};
use placet_testkit::upstream::{Answer, Upstream};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Notify;

/// An agent that may run commands and change notes once somebody has said yes.
fn house(upstream: &Upstream, hook: &Upstream, patience: &str) -> House {
    let own = format!(
        "[approval]\nurl = \"{}\"\ntimeout = \"{patience}\"\nkey_env = \"SECRET\"\n\
         [capabilities.shell]\nkind = \"command\"\nroot = \"work\"\n\
         [capabilities.notes]\nkind = \"files\"\nroot = \"work\"\nwritable = true\napprove = true\n\
         [agents.clerk]\nmodel = \"mine:real\"\ncapabilities = [\"shell\", \"notes\"]\n",
        hook.url("approve")
    );
    House::open(&agents(upstream, &own), |folder| std::fs::create_dir(folder.join("work")).unwrap())
}

fn asked(api: &str, stream: bool) -> Value {
    json!({"api": api, "model": "clerk", "stream": stream, "user": "Do it"})
}

/// What the model was told that a call came to, of the request at this place.
fn told(upstream: &Upstream, at: usize) -> String {
    results(&upstream.received()[at].json()).remove(0).1
}

/// Every protocol, streamed and not.
fn ways() -> impl Iterator<Item = (&'static str, bool)> {
    APIS.into_iter().flat_map(|api| [false, true].map(|stream| (api, stream)))
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_somebody_is_asked_over_http() {
    let (upstream, hook) = (upstream().await, upstream().await);
    let house = house(&upstream, &hook, "5m");
    let commands = ["made", "denied", "closed", "broken", "unread", "unclear"];
    for sdk in sdks("e8") {
        let (mut before, mut questions) = (upstream.received().len(), hook.received().len());
        let mut talks = Vec::new();
        for (api, stream) in ways() {
            hook.then(Answer::json(200, &json!({"approve": true, "by": "ann"})));
            hook.then(Answer::json(200, &json!({"deny": "not on a friday"})));
            hook.then(Answer::refused());
            hook.then(Answer::json(500, &json!({"approve": true})));
            hook.then(Answer::bytes(200, "text/plain", "yes"));
            hook.then(Answer::json(200, &json!({"approve": "yes"})));
            for name in commands {
                let call = ("c1", "run_command", json!({"argv": ["touch", format!("{name}-{api}-{stream}")]}));
                upstream.then(Answer::stream(chat_stream("", &[call])));
                upstream.then(Answer::stream(chat_stream("Done.", &[])));
                talks.push(asked(api, stream));
            }
        }
        let talks = sdk.hold(&house.base, talks);
        for ((api, stream), talks) in ways().zip(talks.chunks(commands.len())) {
            let case = format!("{sdk:?} {api} stream={stream}: {talks:#?}");
            assert!(talks.iter().all(|talk| talk.last()["text"] == "Done."), "{case}");
            assert!(talks.iter().all(|talk| !talk.seen().contains("run_command")), "{case}");

            let read: Vec<String> = (0..commands.len()).map(|at| told(&upstream, before + 2 * at + 1)).collect();
            before += 2 * commands.len();
            assert!(read[0].contains("exit code 0"), "{case} {read:#?}");
            assert!(read[1].contains("not approved") && read[1].contains("not on a friday"), "{case} {read:#?}");
            assert!(read[2..].iter().all(|text| text.contains("not permitted")), "{case} {read:#?}");
            let made = |name: &str| house.folder().join("work").join(format!("{name}-{api}-{stream}"));
            let there: Vec<_> = commands.into_iter().filter(|name| made(name).exists()).collect();
            assert_eq!(there, ["made"], "{case}: what nobody allowed was not run");
            std::fs::remove_file(made("made")).unwrap();

            let own = hook.received()[questions..questions + commands.len()].to_vec();
            questions += commands.len();
            let first = own[0].json();
            assert_eq!((&first["tool"], &first["capability"]), (&json!("run_command"), &json!("command")), "{first:#}");
            let command = format!("made-{api}-{stream}");
            assert_eq!(first["arguments"], json!({"argv": ["touch", command]}));
            assert!(first["question"].as_str().unwrap().contains(&format!("touch {command}")), "{first:#}");
            assert_eq!(own[0].header("idempotency-key"), first["approval"].as_str());
            assert_eq!(own[0].header("authorization"), Some(&*format!("Bearer {SECRET}")));
            assert!(first["content_hash"].as_str().is_some_and(|hash| hash.len() == 64), "{first:#}");
            assert_ne!(first["approval"], own[1].json()["approval"]);
        }
        assert_eq!(hook.received().len(), questions, "{sdk:?}: nobody is asked twice");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_nobody_answers_in_time() {
    let (upstream, hook) = (upstream().await, upstream().await);
    let house = house(&upstream, &hook, "200ms");
    for sdk in sdks("e8") {
        let before = upstream.received().len();
        let mut talks = Vec::new();
        for (api, stream) in ways() {
            hook.then(Answer::never());
            let call = ("c1", "write", json!({"path": "made", "content": format!("with the key {SECRET}")}));
            upstream.then(Answer::stream(chat_stream("", &[call])));
            upstream.then(Answer::stream(chat_stream("Too late.", &[])));
            talks.push(asked(api, stream));
        }
        for (at, talk) in sdk.hold(&house.base, talks).into_iter().enumerate() {
            let case = format!("{sdk:?} {at}: {:#}", talk.0);
            assert_eq!(talk.last()["text"], "Too late.", "{case}");
            let read = told(&upstream, before + 2 * at + 1);
            assert!(read.contains("not approved") && read.contains("within 0.2 s"), "{case} {read}");
        }
        assert!(!house.folder().join("work/made").exists(), "{sdk:?}");
    }
    for question in hook.received() {
        let question = String::from_utf8_lossy(&question.body).into_owned();
        assert!(question.contains("with the key") && !question.contains(SECRET), "{question}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_what_was_asked_about_changes_meanwhile() {
    let (upstream, hook) = (upstream().await, upstream().await);
    let house = house(&upstream, &hook, "5m");
    let plan = house.folder().join("work/plan");
    let gate = Arc::new(Notify::new());
    for sdk in sdks("e8") {
        let (before, questions) = (upstream.received().len(), hook.received().len());
        let mut talks = Vec::new();
        std::fs::write(&plan, "as it was").unwrap();
        for (api, stream) in ways() {
            let write = ("c1", "write", json!({"path": "plan", "content": "as the model wants it"}));
            for text in ["I look again.", "Written."] {
                upstream.then(Answer::stream(chat_stream("", std::slice::from_ref(&write))));
                upstream.then(Answer::stream(chat_stream(text, &[])));
            }
            hook.then(Answer::json(200, &json!({"approve": true})).behind(&gate));
            hook.then(Answer::json(200, &json!({"approve": true})));
            talks.extend([asked(api, stream), asked(api, stream)]);
        }
        let (base, asks) = (house.base.clone(), sdk.clone());
        let asking = std::thread::spawn(move || asks.hold(&base, talks));
        for at in 0..ways().count() {
            hook.arrived(questions + 2 * at + 1).await;
            // While somebody thinks about it, somebody else changes it.
            std::fs::write(&plan, format!("as somebody else wants it {at}")).unwrap();
            gate.notify_one();
        }
        let talks = asking.join().unwrap();
        for (at, talks) in talks.chunks(2).enumerate() {
            let case = format!("{sdk:?} {at}: {talks:#?}");
            assert_eq!(talks[0].last()["text"], "I look again.", "{case}");
            let read = told(&upstream, before + 4 * at + 1);
            assert!(read.contains("was changed while") && read.contains("nothing was run"), "{case} {read}");
            // Asked again about what is there now, it is done.
            assert_eq!(talks[1].last()["text"], "Written.", "{case}");
            assert!(told(&upstream, before + 4 * at + 3).contains("replaced plan"), "{case}");
        }
        assert_eq!(std::fs::read_to_string(&plan).unwrap(), "as the model wants it", "{sdk:?}");
    }
}
