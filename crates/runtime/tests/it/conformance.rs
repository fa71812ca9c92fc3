//! Whatever a model does and however tools end: every start has one end, answers come in the order of their calls, the
//! chain verifies, and the replay is the result.

use crate::support::{Say, scripted, world};
use placet_core::event::{Event, EventBody};
use placet_core::{Effect, ErrorKind, ItemBody, Limits, Status, StopReason, Usage};
use placet_models::{ScriptCall, ScriptTurn};
use placet_observe::{Ending, Journal};
use placet_tools::{ToolError, capability, tool};
use proptest::prelude::*;
use serde_json::json;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use tokio_util::sync::CancellationToken;

/// What one call of a random conversation does.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Answer,
    Fail,
    Refuse,
    Panic,
    BadArguments,
    NotJson,
    Unknown,
    /// The run is cancelled while the handler runs.
    CancelRun,
    /// Somebody else's tool.
    Outer,
}

#[derive(Clone, Debug)]
struct RandomTurn {
    pieces: usize,
    calls: Vec<(Deed, Effect)>,
    end: TurnEnd,
    usage: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum TurnEnd {
    Whole,
    Cut,
    Filtered,
    Pause,
    Fails,
    BreaksOff,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        12 => Just(Deed::Answer),
        2 => Just(Deed::Fail),
        2 => Just(Deed::Refuse),
        1 => Just(Deed::Panic),
        2 => Just(Deed::BadArguments),
        1 => Just(Deed::NotJson),
        2 => Just(Deed::Unknown),
        1 => Just(Deed::CancelRun),
        1 => Just(Deed::Outer),
    ]
}

fn effect() -> impl Strategy<Value = Effect> {
    prop_oneof![Just(Effect::Read), Just(Effect::Idempotent), Just(Effect::Once)]
}

fn turn() -> impl Strategy<Value = RandomTurn> {
    let end = prop_oneof![
        16 => Just(TurnEnd::Whole),
        2 => Just(TurnEnd::Cut),
        1 => Just(TurnEnd::Filtered),
        1 => Just(TurnEnd::Pause),
        1 => Just(TurnEnd::Fails),
        1 => Just(TurnEnd::BreaksOff),
    ];
    let calls = prop_oneof![1 => Just(Vec::new()), 4 => prop::collection::vec((deed(), effect()), 1..5)];
    (0usize..4, calls, end, prop::option::weighted(0.8, 1u64..50)).prop_map(|(pieces, calls, end, usage)| RandomTurn {
        pieces,
        calls,
        end,
        usage,
    })
}

fn script_turn(turn: &RandomTurn) -> ScriptTurn {
    let mut script = ScriptTurn { text: (0..turn.pieces).map(|n| format!("p{n} ")).collect(), ..ScriptTurn::default() };
    for (place, (deed, effect)) in turn.calls.iter().enumerate() {
        let name = match deed {
            Deed::Unknown => "nowhere",
            Deed::Outer => "outer",
            _ => match effect {
                Effect::Read => "look",
                Effect::Idempotent => "set",
                Effect::Once => "send",
            },
        };
        let arguments = match deed {
            Deed::BadArguments => json!({"wort": 1}),
            Deed::NotJson => json!("{\"word\": "),
            _ => json!({"word": format!("{deed:?}")}),
        };
        // Some providers give one id to several calls.
        let id = (place % 2 == 0).then(|| "call_same".to_owned());
        script.calls.push(ScriptCall { name: name.into(), arguments, id });
    }
    script.usage = turn.usage.map(|output| Usage { output, ..Usage::default() });
    match turn.end {
        TurnEnd::Whole => {}
        TurnEnd::Cut => script.stop = Some(StopReason::MaxTokens),
        TurnEnd::Filtered => script.stop = Some(StopReason::ContentFilter),
        TurnEnd::Pause => script.stop = Some(StopReason::Pause),
        TurnEnd::Fails => script.fail = ScriptTurn::fail(ErrorKind::Overloaded, "busy").fail,
        TurnEnd::BreaksOff => script.cut = true,
    }
    script
}

async fn act(say: Say, cancel: CancellationToken) -> Result<String, ToolError> {
    match say.word.as_str() {
        "Fail" => Err(ToolError::failed("it failed")),
        "Refuse" => Err(ToolError::refused("no")),
        "Panic" => panic!("a handler's own"),
        "CancelRun" => {
            cancel.cancel();
            tokio::task::yield_now().await;
            Ok("cancelled it".into())
        }
        word => {
            tokio::task::yield_now().await;
            Ok(word.to_owned())
        }
    }
}

/// Runs one random conversation and gives what readers saw, with the journal.
async fn converse(turns: &[RandomTurn], limits: Limits) -> Result<(), TestCaseError> {
    let world = world();
    let cancel = CancellationToken::new();
    let bound = |name: &str, effect| {
        let cancel = cancel.clone();
        tool(name, "Does what it is told.", move |say: Say, _| act(say, cancel.clone())).effect(effect)
    };
    let outer = placet_core::ToolDefinition {
        name: "outer".into(),
        description: "Somebody else's.".into(),
        schema: placet_core::Schema::empty_object(),
        effect: Effect::Read,
        revision_argument: None,
        strict: None,
        cache: None,
        native: None,
    };
    let lab = capability("lab")
        .tool(bound("look", Effect::Read))
        .tool(bound("set", Effect::Idempotent))
        .tool(bound("send", Effect::Once));
    let mut script: Vec<ScriptTurn> = turns.iter().map(script_turn).collect();
    script.push(ScriptTurn::text("the end"));
    let seen: Arc<Mutex<Vec<Event>>> = Arc::default();
    let sink = seen.clone();
    let model = scripted(script);
    let result = world
        .builder(model)
        .build()
        .run("scripted:m")
        .input("go")
        .grant(lab)
        .declare(outer)
        .limits(limits.clone())
        .cancelled_by(cancel)
        .observer(move |event| sink.lock().unwrap().push(event.clone()))
        .await
        .unwrap();
    world.check(&result).await;

    let journal = world.journal(&result.run).await;
    let recorded: Vec<Event> = journal.events().collect();
    let seen = seen.lock().unwrap().clone();
    let durable: Vec<Event> = seen.iter().filter(|event| event.body.is_durable()).cloned().collect();
    prop_assert_eq!(&durable, &recorded, "readers see the journal");
    prop_assert!(seen.windows(2).all(|pair| pair[0].cursor < pair[1].cursor));
    one_end_each(&recorded)?;
    answers_in_order(&journal)?;
    handlers_run_after_their_intents(&seen)?;
    prop_assert!(result.rounds <= limits.rounds);
    match result.end {
        Ending::Failed => prop_assert!(result.failure.is_some()),
        Ending::HandedBack => prop_assert!(!result.owed.is_empty()),
        _ => prop_assert!(result.owed.is_empty() && result.failure.is_none()),
    }
    let imported = Journal::import(&journal.export().collect::<Vec<_>>().join("\n")).unwrap();
    prop_assert_eq!(imported.records(), journal.records());
    Ok(())
}

fn one_end_each(recorded: &[Event]) -> Result<(), TestCaseError> {
    let mut ends: HashMap<String, usize> = HashMap::new();
    for event in recorded {
        match &event.body {
            EventBody::CallRequested(requested) => {
                prop_assert!(ends.insert(requested.call.id.to_string(), 0).is_none());
            }
            EventBody::CallCompleted(ended) | EventBody::CallFailed(ended) => {
                let completed = ended.result.outcome.status == Status::Completed;
                prop_assert_eq!(completed, matches!(event.body, EventBody::CallCompleted(_)));
                *ends.get_mut(ended.result.call.as_str()).unwrap() += 1;
            }
            _ => {}
        }
    }
    prop_assert!(ends.values().all(|count| *count == 1), "{:?}", ends);
    let run_ends = recorded.iter().filter(|event| event.body.is_end()).count();
    prop_assert_eq!((run_ends, recorded.last().is_some_and(|event| event.body.is_end())), (1, true));
    Ok(())
}

/// After the calls of a turn stand their answers, all of them, in their order.
fn answers_in_order(journal: &Journal) -> Result<(), TestCaseError> {
    let state = journal.state();
    let result = state.result().unwrap();
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for item in state.items() {
        match &item.body {
            ItemBody::ToolCall(call) => asked.push(call.id.clone()),
            ItemBody::ToolResult(result) => answered.push(result.call.clone()),
            _ => {}
        }
    }
    let owed: HashSet<_> = result.owed.iter().map(|call| &call.id).collect();
    asked.retain(|call| !owed.contains(call));
    prop_assert_eq!(asked, answered);
    Ok(())
}

fn handlers_run_after_their_intents(seen: &[Event]) -> Result<(), TestCaseError> {
    let mut requested = HashSet::new();
    let mut started = HashSet::new();
    for event in seen {
        match &event.body {
            EventBody::CallRequested(call) => {
                requested.insert(call.call.id.clone());
            }
            EventBody::CallStarted(call) => {
                prop_assert!(requested.contains(&call.call));
                prop_assert!(started.insert(call.call.clone()), "a handler runs once");
            }
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn every_start_has_one_end(
        turns in prop::collection::vec(turn(), 0..7),
        rounds in 0u32..6,
        tokens in prop::option::weighted(0.2, 1u64..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(converse(&turns, Limits { rounds, tokens, ..Limits::default() }))?;
    }
}
