//! Everything that can be wrong with a journal is found, and nothing is found with a whole one.

use crate::story::{Story, store};
use placet_core::event::{EventBody, RunEnd, RunResumed};
use placet_core::record::{Digest, Sealed};
use placet_observe::{verify, verify_all};
use placet_store::{Batch, Tenant, Value};

async fn problems(story: &Story) -> Vec<String> {
    let store = store();
    story.write(&store).await;
    let one = verify(&*store, &Tenant::new(""), &story.run).await.unwrap();
    let all = verify_all(&*store, &Tenant::new("")).await.unwrap();
    assert_eq!(all.len(), 1);
    assert!(all[0].problems.starts_with(&one.problems));
    all[0].problems.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_whole_journal_has_no_problem_ended_or_not() {
    assert_eq!(problems(&Story::ordinary(1, "Two.")).await, [""; 0]);
    let mut open = Story::begin(1, "go");
    let calls = open.calls(1);
    open.turn("", &calls);
    open.request(&calls[0]);
    assert_eq!(problems(&open).await, [""; 0], "a run that goes on may have calls without an answer");
    let mut handed_back = Story::begin(1, "go");
    let calls = handed_back.calls(2);
    handed_back.turn("", &calls);
    handed_back.end(RunEnd::HandedBack);
    assert_eq!(problems(&handed_back).await, [""; 0], "calls that are handed back are answered elsewhere");
}

type Fault = (&'static str, fn(&mut Story), &'static str);

#[tokio::test]
async fn every_breach_of_starts_and_ends_is_found() {
    let faults: [Fault; 11] = [
        ("start", |story| story.record(EventBody::RunStarted(Box::new(started(story)))), "starts a second time"),
        (
            "end",
            |story| {
                story.end(RunEnd::Completed);
                story.end(RunEnd::Completed);
            },
            "comes after the end of the run",
        ),
        (
            "unanswered",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.request(&calls[0]);
                story.end(RunEnd::Completed);
            },
            "was requested and has no end",
        ),
        (
            "unrequested",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.end(RunEnd::Completed);
            },
            "was asked for and never requested",
        ),
        (
            "answered without a request",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.answer(&calls[0], "");
            },
            "has an end and was never requested",
        ),
        (
            "two answers",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.request(&calls[0]);
                story.answer(&calls[0], "a");
                story.answer(&calls[0], "b");
            },
            "has a second end",
        ),
        (
            "two requests",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.request(&calls[0]);
                story.request(&calls[0]);
            },
            "is requested a second time",
        ),
        (
            "a call from nowhere",
            |story| {
                let calls = story.calls(1);
                story.request(&calls[0]);
            },
            "no turn asked for",
        ),
        (
            "two decisions",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.request(&calls[0]);
                let asked = story.ask(&calls[0]);
                story.decide(&asked);
                story.decide(&asked);
            },
            "is decided a second time",
        ),
        (
            "a call that is asked for twice",
            |story| {
                let calls = story.calls(1);
                story.turn("", &[calls[0].clone(), calls[0].clone()]);
            },
            "is asked for a second time",
        ),
        (
            "a decision of nothing",
            |story| {
                let calls = story.calls(1);
                story.turn("", &calls);
                story.request(&calls[0]);
                let mut asked = story.ask(&calls[0]);
                asked.approval = story.env.new_id();
                story.decide(&asked);
            },
            "is decided and was never asked",
        ),
    ];
    for (name, fault, expected) in faults {
        let mut story = Story::begin(1, "go");
        fault(&mut story);
        let found = problems(&story).await;
        assert!(found.len() == 1 && found[0].contains(expected), "{name}: {found:?}");
    }
}

fn started(story: &Story) -> placet_core::event::RunStarted {
    match story.sealed[0].open().unwrap().event {
        EventBody::RunStarted(started) => *started,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_journal_that_was_changed_is_found_out_wherever_it_was() {
    let whole = Story::ordinary(1, "Two.");
    for place in 0..whole.sealed.len() {
        let mut altered = Story::ordinary(1, "Two.");
        let text = altered.sealed[place].text.replacen("run_", "run-", 1);
        altered.sealed[place].text = text;
        let found = problems(&altered).await;
        assert!(found[0].starts_with(&format!("record {}: the record was altered", place + 1)), "{found:?}");

        let mut left_out = Story::ordinary(1, "Two.");
        left_out.sealed.remove(place);
        let found = problems(&left_out).await;
        assert!(!found.is_empty(), "record {} is missing", place + 1);
    }

    // A whole chain put together anew differs from what the list of runs remembers.
    let mut forged = Story::ordinary(1, "Two.");
    let last = forged.sealed.len() - 1;
    let text = forged.sealed[last].text.replace("\"turns\":2", "\"turns\":1");
    forged.sealed[last] = Sealed { hash: Digest::of(text.as_bytes()), text };
    let store = store();
    whole.write(&store).await;
    let tenant = Tenant::new("");
    let log = placet_observe::layout::journal(&tenant, &whole.run);
    let mut batch = Batch::new();
    batch.delete_log(log.clone());
    for sealed in &forged.sealed {
        batch.append(&log, Value::new(placet_observe::RECORD_FORMAT, sealed.to_bytes()));
    }
    store.commit(batch).await.unwrap();
    // The chain alone cannot show it.
    assert!(placet_observe::Journal::read(&*store, &tenant, &whole.run).await.is_ok());
    let one = verify(&*store, &tenant, &whole.run).await.unwrap();
    assert!(one.problems[0].problem.contains("is not the one that the list of runs remembers"), "{one:?}");
    let all = verify_all(&*store, &tenant).await.unwrap();
    assert!(all[0].problems[0].problem.contains("is not the one that the list of runs remembers"), "{all:?}");
}

#[tokio::test]
async fn a_run_without_its_journal_and_a_journal_of_something_else_are_found() {
    let store = store();
    let tenant = Tenant::new("");
    let story = Story::ordinary(1, "Two.");
    story.write(&store).await;
    let mut batch = Batch::new();
    batch.delete_log(placet_observe::layout::journal(&tenant, &story.run));
    let other = placet_core::RunId::parse("run_other").unwrap();
    let log = placet_observe::layout::journal(&tenant, &other);
    batch.append(&log, Value::new(placet_observe::RECORD_FORMAT, story.sealed[0].to_bytes()));
    store.commit(batch).await.unwrap();
    let all = verify_all(&*store, &tenant).await.unwrap();
    let found: Vec<String> = all.iter().flat_map(|one| one.problems.iter().map(ToString::to_string)).collect();
    assert!(found[0].contains("it belongs to"), "{found:?}");
    assert!(found[1].contains("has no line of it") && found[2].contains("has no records"), "{found:?}");
    let nothing = verify(&*store, &tenant, &placet_core::RunId::parse("run_nothing").unwrap()).await.unwrap();
    assert_eq!(nothing.problems[0].problem, "it has no records");
}

#[tokio::test]
async fn a_tail_that_was_cut_off_is_found_by_the_list_of_runs() {
    let (store, tenant) = (store(), Tenant::new(""));
    let story = Story::ordinary(1, "Two.");
    story.write(&store).await;
    let log = placet_observe::layout::journal(&tenant, &story.run);
    let mut batch = Batch::new();
    batch.delete_log(log.clone());
    for sealed in &story.sealed[..story.sealed.len() - 1] {
        batch.append(&log, Value::new(placet_observe::RECORD_FORMAT, sealed.to_bytes()));
    }
    store.commit(batch).await.unwrap();
    let found = verify(&*store, &tenant, &story.run).await.unwrap();
    assert!(!found.ended && found.problems.len() == 1, "{found:?}");
    assert!(found.problems[0].problem.contains("records are missing at the end"), "{found:?}");
    assert_eq!(verify_all(&*store, &tenant).await.unwrap(), [found]);
    let journal = placet_observe::Journal::read(&*store, &tenant, &story.run).await.unwrap();
    let refused = journal.check_end(&*store, &tenant).await;
    let Err(placet_observe::ObserveError::NotTheEnd { found, expected, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((found, expected), (7, 8));
}

#[tokio::test]
async fn a_damaged_line_of_the_list_leaves_the_others_readable() {
    let (store, tenant) = (store(), Tenant::new(""));
    let stories = [Story::ordinary(1, "a"), Story::ordinary(2, "b"), Story::ordinary(3, "c")];
    for story in &stories {
        story.write(&store).await;
    }
    let entries = placet_observe::layout::entries(&tenant);
    let cells = store.cells(&entries, None, placet_store::Direction::Forward, 9).await.unwrap();
    let nowhere = entries.u64(7);
    let mut batch = Batch::new();
    batch.put(cells[1].key.clone(), Value::new(1, b"{".to_vec()));
    batch.put(nowhere.clone(), Value::new(1, b"{".to_vec()));
    store.commit(batch).await.unwrap();

    let listed = placet_observe::list_runs(&*store, &tenant, None, 2).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|run| &run.entry.run).collect();
    assert_eq!(listed, [&stories[2].run, &stories[0].run], "a page is filled past the damaged line");
    let damaged = placet_observe::damaged_lines(&*store, &tenant).await.unwrap();
    let runs: Vec<_> = damaged.iter().filter_map(|line| line.run.as_deref()).collect();
    assert_eq!((damaged.len(), runs), (2, vec![stories[1].run.as_str()]));

    let all = verify_all(&*store, &tenant).await.unwrap();
    let unsound: Vec<_> = all.iter().filter(|one| !one.is_sound()).collect();
    assert_eq!((all.len(), unsound.len()), (4, 2), "{all:?}");
    for one in unsound {
        let expected =
            if one.run == stories[1].run.as_str() { "cannot be read".to_owned() } else { nowhere.to_string() };
        assert!(one.problems[0].problem.contains(&expected), "{one:?}");
    }
}

#[tokio::test]
async fn a_run_that_was_resumed_is_whole() {
    let mut story = Story::begin(1, "go");
    let calls = story.calls(1);
    story.turn("", &calls);
    story.request(&calls[0]);
    story.record(EventBody::RunResumed(RunResumed { token: 2, interrupted: vec![calls[0].id.clone()] }));
    story.answer(&calls[0], "late");
    story.turn("done", &[]);
    story.end(RunEnd::Completed);
    assert_eq!(problems(&story).await, [""; 0]);
}
