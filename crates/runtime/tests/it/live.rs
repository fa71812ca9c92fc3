//! Events, live and from the store, to readers of every sort.

use crate::support::{echo_tool, kinds, scripted, text_of, world};
use placet_core::event::{Event, EventBody};
use placet_core::{Cursor, Effect};
use placet_models::ScriptTurn;
use placet_runtime::EventStream;
use placet_tools::tool;
use serde_json::json;
use std::sync::Arc;

async fn all(mut events: EventStream) -> Vec<Arc<Event>> {
    let mut got = Vec::new();
    while let Some(event) = events.next().await {
        got.push(event.unwrap());
    }
    got
}

fn script() -> Vec<ScriptTurn> {
    let mut first = ScriptTurn::call("echo", json!({"word": "x"}));
    first.text = vec!["Let me ".into(), "look.".into()];
    vec![first, ScriptTurn { text: vec!["It is ".into(), "x.".into()], ..ScriptTurn::default() }]
}

#[tokio::test]
async fn every_reader_gets_the_same_durable_events_from_any_place() {
    let world = world();
    let (echo, _) = echo_tool("echo");
    let runtime = world.runtime(script());
    let handle = runtime.run("scripted:m").input("go").tool(echo).start().await.unwrap();
    let run = handle.id().clone();
    // One follows in this process, one as another process would: through the store alone.
    let here = tokio::join!(all(handle.events(Cursor::START)), all(runtime.follow(&run, Cursor::START)), {
        let (store, run) = (world.store.clone(), run.clone());
        async move {
            let follower = placet_observe::follow(store, &placet_store::Tenant::new(""), &run, 0);
            let mut follower = std::pin::pin!(follower);
            let mut got = Vec::new();
            while let Some(event) = futures_util::StreamExt::next(&mut follower).await {
                got.push(event.unwrap());
            }
            got
        }
    });
    let (ours, same, elsewhere) = here;
    assert_eq!(ours, same);
    assert_eq!(text_of(&ours), "Let me look.It is x.");
    let durable = |events: &[Arc<Event>]| events.iter().filter(|e| e.body.is_durable()).cloned().collect::<Vec<_>>();
    assert_eq!(durable(&ours), elsewhere);
    assert_eq!(
        kinds(&elsewhere),
        [
            "run.started",
            "model.completed",
            "tool.call.requested",
            "tool.call.completed",
            "model.completed",
            "run.completed"
        ]
    );

    // Whoever comes later, with a cursor, gets what comes after it.
    for from in 0..6 {
        let later = all(handle.events(Cursor::record(from))).await;
        assert_eq!(durable(&later), elsewhere[usize::try_from(from).unwrap()..]);
        let ended = all(runtime.follow(&run, Cursor::record(from))).await;
        assert_eq!(durable(&ended), elsewhere[usize::try_from(from).unwrap()..]);
    }
    handle.wait().await.unwrap();
}

#[tokio::test]
async fn a_call_is_seen_to_start_after_its_intent_and_its_answer_before_the_next_turn() {
    let world = world();
    let (echo, _) = echo_tool("echo");
    let handle = world.runtime(script()).run("scripted:m").input("go").tool(echo).start().await.unwrap();
    let events = all(handle.events(Cursor::START)).await;
    let place = |kind: &str| kinds(&events).iter().position(|found| *found == kind).unwrap();
    assert!(place("tool.call.requested") < place("tool.call.started"));
    let second_turn = kinds(&events).iter().rposition(|kind| *kind == "model.request.started").unwrap();
    assert!(place("tool.call.completed") < second_turn);
    assert!(events.windows(2).all(|pair| pair[0].cursor < pair[1].cursor));
}

#[tokio::test]
async fn progress_and_log_lines_of_handlers_are_live() {
    let world = world();
    let busy = tool("busy", "Works.", |_: crate::support::Say, cx| async move {
        cx.progress(1.0, Some(2.0), Some("half"));
        cx.log("working");
        "done"
    })
    .effect(Effect::Once);
    let turns = vec![ScriptTurn::call("busy", json!({"word": ""})), ScriptTurn::text("done")];
    let handle = world.runtime(turns).run("scripted:m").input("go").tool(busy).start().await.unwrap();
    let events = all(handle.events(Cursor::START)).await;
    let kinds = kinds(&events);
    for kind in ["tool.call.progress", "tool.call.log"] {
        assert_eq!(kinds.iter().filter(|found| **found == kind).count(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_nothing_up_and_gets_a_snapshot() {
    let world = world();
    let pieces: Vec<String> = (0..5000).map(|piece| format!("{piece} ")).collect();
    let text = pieces.concat();
    let model = scripted(vec![ScriptTurn { text: pieces, ..ScriptTurn::default() }]);
    let handle = world.builder(model).build().run("scripted:m").input("go").start().await.unwrap();
    let mut slow = handle.events(Cursor::START);
    let first = slow.next().await.unwrap().unwrap();
    assert_eq!(first.body.kind(), "run.started");
    let fast = handle.events(Cursor::START);
    let result = handle.wait().await.unwrap();
    assert_eq!(result.text, text);

    // All is over: what left the ring is told by records alone, for both.
    let slow = all(slow).await;
    assert_eq!(slow.last().map(|event| event.body.kind()), Some("run.completed"));
    let told = slow.iter().find_map(|event| match &event.body {
        EventBody::TurnCompleted(completed) => Some(completed.turn.text()),
        _ => None,
    });
    assert_eq!(told, Some(text));
    assert!(all(fast).await.len() < 1100);
}

#[tokio::test]
async fn a_reader_that_paces_the_run_misses_nothing() {
    let world = world();
    let pieces: Vec<String> = (0..5000).map(|piece| format!("{piece} ")).collect();
    let text = pieces.concat();
    let model = scripted(vec![ScriptTurn { text: pieces, ..ScriptTurn::default() }]);
    let handle = world.builder(model).build().run("scripted:m").input("go").start().await.unwrap();
    let events = all(handle.paced_events(Cursor::START)).await;
    assert!(!events.iter().any(|event| event.body.kind() == "stream.snapshot"));
    assert_eq!(text_of(&events), text);
    assert_eq!(handle.wait().await.unwrap().text, text);
}
