//! Non-streaming is the fold of streaming: however an answer is cut into pieces, the turn is the same.

use crate::samples;
use placet_core::env::ManualClock;
use placet_core::turn::{CallDelta, TextDelta, TurnFinished};
use placet_core::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Place {
    Text(String),
    Reasoning(String),
    Call { name: String, arguments: String },
}

fn arb_places() -> impl Strategy<Value = Vec<Place>> {
    let place = prop_oneof![
        ".{1,20}".prop_map(Place::Text),
        ".{1,20}".prop_map(Place::Reasoning),
        ("[a-z]{1,8}", ".{0,20}").prop_map(|(name, arguments)| Place::Call { name, arguments }),
    ];
    prop::collection::vec(place, 1..6)
}

fn pieces(text: &str, size: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(size.max(1)).map(|chunk| chunk.iter().collect()).collect()
}

/// The events of an answer, cut into pieces of `size` characters; `interleave` deals the places out in turns.
fn events(places: &[Place], size: usize, interleave: bool) -> Vec<TurnEvent> {
    let mut rows: Vec<Vec<TurnEvent>> = Vec::new();
    for (index, place) in places.iter().enumerate() {
        let index = index as u32;
        rows.push(match place {
            Place::Text(text) => {
                pieces(text, size).into_iter().map(|text| TurnEvent::Text(TextDelta { index, text })).collect()
            }
            Place::Reasoning(text) => {
                pieces(text, size).into_iter().map(|text| TurnEvent::Reasoning(TextDelta { index, text })).collect()
            }
            Place::Call { name, arguments } => {
                let head = CallDelta { index, name: Some(name.clone()), ..CallDelta::default() };
                let tail = pieces(arguments, size)
                    .into_iter()
                    .map(|arguments| TurnEvent::Call(CallDelta { index, arguments, ..CallDelta::default() }));
                std::iter::once(TurnEvent::Call(head)).chain(tail).collect()
            }
        });
    }
    let mut events = Vec::new();
    if interleave {
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0);
        for step in 0..longest {
            events.extend(rows.iter().filter_map(|row| row.get(step).cloned()));
        }
    } else {
        events.extend(rows.into_iter().flatten());
    }
    events.push(TurnEvent::Finished(TurnFinished::new(StopReason::End)));
    events
}

fn fold(events: &[TurnEvent]) -> Turn {
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
    let mut accumulator = Accumulator::new();
    events.iter().for_each(|event| accumulator.push(event));
    accumulator.finish(&ProviderId::new("test"), &env).expect("a whole answer")
}

proptest! {
    #[test]
    fn the_turn_does_not_depend_on_how_it_was_cut(places in arb_places(), size in 1usize..9) {
        let whole = fold(&events(&places, usize::MAX, false));
        prop_assert_eq!(&fold(&events(&places, size, false)), &whole);
        prop_assert_eq!(&fold(&events(&places, size, true)), &whole);
        prop_assert_eq!(whole.items.len(), places.len());
    }

    #[test]
    fn no_order_of_events_panics(order in prop::collection::vec(0usize..10, 0..20)) {
        let samples = samples::turn_events();
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
        let mut accumulator = Accumulator::new();
        for place in order {
            accumulator.push(&samples[place]);
        }
        let _ = accumulator.finish(&ProviderId::new("test"), &env);
    }
}
