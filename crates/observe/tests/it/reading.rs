//! Replay, diff, export, the list of runs.

use crate::story::{Story, store};
use placet_core::event::RunEnd;
use placet_core::{CallId, ItemBody, RunId};
use placet_observe::{
    Ending, Happening, Journal, ObserveError, RunStanding, diff, events_between, follow, list_runs, replay,
};
use placet_store::{Batch, SharedStore, Tenant, Value};

async fn journal(store: &SharedStore, story: &Story) -> Journal {
    story.write(store).await;
    Journal::read(&**store, &Tenant::new(""), &story.run).await.unwrap()
}

#[tokio::test]
async fn a_replay_tells_the_result_the_conversation_and_when_what_happened() {
    let store = store();
    let journal = journal(&store, &Story::ordinary(1, "Two.")).await;
    let replayed = replay(&journal);
    let result = replayed.result.unwrap();
    assert_eq!((result.text.as_str(), &result.end, result.turns, result.rounds), ("Two.", &Ending::Completed, 2, 1));
    assert_eq!((result.usage.input, result.usage.output), (6, 4));
    // Answers stand in the order of the calls, though they came in another one.
    let (calls, answers): (Vec<CallId>, Vec<CallId>) = (
        items(&replayed.items, |body| if let ItemBody::ToolCall(call) = body { Some(call.id.clone()) } else { None }),
        items(&replayed.items, |body| if let ItemBody::ToolResult(r) = body { Some(r.call.clone()) } else { None }),
    );
    assert_eq!((calls.len(), &calls), (2, &answers));
    assert_eq!(replayed.items.len(), result.items.len() + 1, "the input comes first");
    let kinds: Vec<&str> = replayed
        .timeline
        .iter()
        .map(|moment| match moment.what {
            Happening::Started { .. } => "started",
            Happening::Turn { .. } => "turn",
            Happening::Call { .. } => "call",
            Happening::Ended { .. } => "ended",
            _ => "other",
        })
        .collect();
    assert_eq!(kinds, ["started", "turn", "call", "call", "turn", "ended"]);
    assert_eq!((replayed.timeline[0].after_ms, replayed.timeline[1].after_ms), (0, 10));
    let json = serde_json::to_string(&replay(&journal)).unwrap();
    assert_eq!(serde_json::from_str::<placet_observe::Replay>(&json).unwrap(), replay(&journal));
}

fn items<T>(items: &[std::sync::Arc<placet_core::Item>], pick: impl Fn(&ItemBody) -> Option<T>) -> Vec<T> {
    items.iter().filter_map(|item| pick(&item.body)).collect()
}

#[tokio::test]
async fn two_runs_differ_where_they_differ_and_not_in_their_ids() {
    let store = store();
    let (one, same) =
        (journal(&store, &Story::ordinary(1, "Two.")).await, journal(&store, &Story::ordinary(2, "Two.")).await);
    assert_ne!(one.run(), same.run());
    let equal = diff(&one, &same);
    assert_eq!((equal.common, equal.divergence), (8, None));

    let other = journal(&store, &Story::ordinary(3, "Three.")).await;
    let divergence = diff(&one, &other).divergence.unwrap();
    assert_eq!((divergence.number, divergence.left_kind.as_deref()), (7, Some("model.completed")));
    assert_eq!(divergence.path, "/turn/items/0/body/parts/0/text");
    assert_eq!((divergence.left, divergence.right), (Some("Two.".into()), Some("Three.".into())));

    let mut shorter = Story::begin(4, "How many\n are there?");
    shorter.turn("None.", &[]);
    shorter.end(RunEnd::Completed);
    let mut shortest = Story::begin(5, "How many\n are there?");
    shortest.turn("None.", &[]);
    let found = diff(&journal(&store, &shorter).await, &journal(&store, &shortest).await);
    assert_eq!(found.common, 2);
    let divergence = found.divergence.unwrap();
    assert_eq!((divergence.left_kind.as_deref(), divergence.right_kind), (Some("run.completed"), None));
}

#[tokio::test]
async fn an_export_holds_the_stored_text_and_can_be_checked_without_a_store() {
    let store = store();
    let journal = journal(&store, &Story::ordinary(1, "Two \u{1F600} \"quoted\".")).await;
    let lines: Vec<String> = journal.export().collect();
    for (line, kept) in lines.iter().zip(journal.records()) {
        assert_eq!(*line, format!("{{\"hash\":\"{}\",\"record\":{}}}", kept.sealed.hash, kept.sealed.text));
    }
    let text = lines.join("\n");
    let imported = Journal::import(&text).unwrap();
    assert_eq!((imported.run(), imported.records()), (journal.run(), journal.records()));

    let refused = |text: &str| match Journal::import(text) {
        Err(ObserveError::Line { line, .. }) => line,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&text.replace("Two ", "Ten ")), 7);
    assert_eq!(refused(&lines[1..].join("\n")), 1);
    assert_eq!(refused(""), 1);
    assert_eq!(refused("{}"), 1);
    let unspaced = text.replace("\"number\":1,", "\"number\": 1,");
    assert_eq!(refused(&unspaced), 1, "another text of the same content is not what was hashed");
}

#[tokio::test]
async fn the_list_shows_the_newest_first_page_by_page() {
    let store = store();
    let mut open = Story::begin(9, &"x".repeat(300));
    open.turn("", &[]);
    for story in [Story::ordinary(1, "a"), Story::ordinary(2, "b"), Story::ordinary(3, "c"), open] {
        story.write(&store).await;
    }
    let tenant = Tenant::new("");
    let first = list_runs(&*store, &tenant, None, 3).await.unwrap();
    let rest = list_runs(&*store, &tenant, Some(&first[2].entry), 3).await.unwrap();
    assert_eq!((first.len(), rest.len()), (3, 1));
    assert_eq!(first[0].standing, RunStanding::Interrupted, "nobody holds it");
    assert_eq!(first[0].entry.title.chars().count(), 201);
    assert_eq!(rest[0].standing, RunStanding::Ended { end: Ending::Completed });
    assert_eq!((rest[0].entry.title.as_str(), rest[0].entry.turns), ("How many are there?", 2));
    assert!(list_runs(&*store, &Tenant::new("other"), None, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_follower_gets_what_comes_and_ends_with_the_run() {
    let store = store();
    let story = Story::ordinary(1, "Two.");
    let tenant = Tenant::new("");
    let log = placet_observe::layout::journal(&tenant, &story.run);
    let following = async {
        let mut events = Box::pin(follow(store.clone(), &tenant, &story.run, 2));
        let mut numbers = Vec::new();
        while let Some(event) = futures_util::StreamExt::next(&mut events).await {
            numbers.push(event.unwrap().cursor.durable);
        }
        numbers
    };
    let writing = async {
        for sealed in &story.sealed {
            let mut batch = Batch::new();
            batch.append(&log, Value::new(placet_observe::RECORD_FORMAT, sealed.to_bytes()));
            store.commit(batch).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let (numbers, ()) = tokio::join!(following, writing);
    assert_eq!(numbers, [3, 4, 5, 6, 7, 8]);
    let between = events_between(&*store, &tenant, &story.run, 2, 5).await.unwrap();
    assert_eq!(between.iter().map(|event| event.cursor.durable).collect::<Vec<_>>(), [3, 4, 5]);
}

#[tokio::test]
async fn a_run_that_is_not_there_and_one_that_was_altered_are_told_apart() {
    let store = store();
    let unknown = RunId::parse("run_nowhere").unwrap();
    let found = Journal::read(&*store, &Tenant::new(""), &unknown).await;
    assert!(matches!(found, Err(ObserveError::NotFound { run }) if run == unknown));
    let mut altered = Story::ordinary(1, "Two.");
    altered.sealed[2].text.push(' ');
    altered.write(&store).await;
    let found = Journal::read(&*store, &Tenant::new(""), &altered.run).await;
    assert!(matches!(found, Err(ObserveError::Record { number: 3, .. })), "{found:?}");
}

#[tokio::test]
async fn records_of_another_run_are_refused() {
    let (store, tenant) = (store(), Tenant::new(""));
    let story = Story::ordinary(1, "Two.");
    let other = RunId::parse("run_other").unwrap();
    let log = placet_observe::layout::journal(&tenant, &other);
    let mut batch = Batch::new();
    for sealed in &story.sealed {
        batch.append(&log, Value::new(placet_observe::RECORD_FORMAT, sealed.to_bytes()));
    }
    store.commit(batch).await.unwrap();
    let read = Journal::read(&*store, &tenant, &other).await;
    let followed = events_between(&*store, &tenant, &other, 0, 9).await;
    for error in [read.unwrap_err(), followed.unwrap_err()] {
        assert!(matches!(&error, ObserveError::OtherRun { number: 1, found, .. } if *found == story.run), "{error:?}");
    }
}

#[tokio::test]
async fn a_follower_beyond_the_end_of_an_ended_run_ends_at_once() {
    let (store, tenant) = (store(), Tenant::new(""));
    let story = Story::ordinary(1, "Two.");
    story.write(&store).await;
    for after in [8, 20] {
        let mut events = Box::pin(follow(store.clone(), &tenant, &story.run, after));
        // Polled once: it has not to wait for anything.
        let next = futures_util::FutureExt::now_or_never(futures_util::StreamExt::next(&mut events));
        assert!(matches!(next, Some(None)), "after {after}: {next:?}");
    }
}
