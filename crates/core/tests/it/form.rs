//! What is written stays readable: golden files, a kept journal, and unknown kinds that survive.

use crate::samples;
use placet_core::event::EventBody;
use placet_core::item::ItemBody;
use placet_core::part::MediaSource;
use placet_core::*;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::fmt::Debug;

fn reads_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).expect("serialises");
    assert_eq!(&serde_json::from_str::<T>(&text).expect("reads back"), value);
}

#[test]
fn every_kind_of_event_has_its_golden_form() {
    let events = samples::events();
    let mut kinds: Vec<_> = events.iter().map(EventBody::kind).collect();
    assert_eq!(kinds.len(), EventBody::KINDS.len(), "a kind of event has no sample");
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), EventBody::KINDS.len(), "two samples are of one kind");
    events.iter().for_each(reads_back);
    insta::assert_json_snapshot!("events", events);
}

#[test]
fn every_kind_of_item_and_part_has_its_golden_form() {
    let items = samples::items();
    assert_eq!(items.len(), ItemBody::KINDS.len(), "a kind of item has no sample");
    items.iter().for_each(|item| reads_back(&**item));
    let parts = samples::parts();
    let kinds: std::collections::BTreeSet<_> = parts.iter().map(Part::kind).collect();
    assert_eq!(kinds.len(), Part::KINDS.len(), "a kind of part has no sample");
    insta::assert_json_snapshot!("items", items);
}

#[test]
fn a_request_and_every_turn_event_have_their_golden_form() {
    reads_back(&samples::request());
    let events = samples::turn_events();
    assert_eq!(events.len(), TurnEvent::KINDS.len(), "a kind of turn event has no sample");
    events.iter().for_each(reads_back);
    insta::assert_json_snapshot!("turn", json!({"request": samples::request(), "events": events}));
}

/// A journal of version 1, written once and never again: every later version has to read it.
#[test]
fn a_journal_of_version_1_still_opens() {
    let mut chain = Chain::new();
    let mut kinds = std::collections::BTreeSet::new();
    for line in include_str!("journal_v1.jsonl").lines() {
        let (hash, text) = line.split_once(' ').expect("a hash, a space and a text");
        let sealed = Sealed { hash: Digest::parse(hash).expect("a hash"), text: text.to_owned() };
        let record = chain.check(&sealed).expect("fits the chain");
        kinds.insert(record.event.kind().to_owned());
    }
    let durable: std::collections::BTreeSet<_> =
        samples::events().iter().filter(|event| event.is_durable()).map(|event| event.kind().to_owned()).collect();
    // Kinds that were not there when it was written.
    let later = ["output.fallback", "output.rejected"].map(str::to_owned).into();
    assert_eq!(kinds, &durable - &later);
}

#[test]
fn a_known_kind_with_wrong_fields_is_an_error_and_not_an_unknown_one() {
    let error = serde_json::from_value::<Part>(json!({"type": "text", "text": 5})).expect_err("a number is no text");
    assert!(error.to_string().contains("expected"), "{error}");
    assert!(serde_json::from_value::<Part>(json!({"text": "a"})).is_err(), "no type at all");
}

fn arb_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(".{0,6}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn what_this_version_does_not_know_survives(kind in "[a-z]{3,8}\\.x", fields in prop::collection::btree_map("[a-z]{1,6}_", arb_json(), 0..6)) {
        let mut map: Map<String, Value> = fields.into_iter().collect();
        map.insert("type".into(), kind.into());
        let value = Value::Object(map);
        fn same<T: Serialize + DeserializeOwned>(value: &Value) -> Value {
            let read: T = serde_json::from_value(value.clone()).expect("reads");
            serde_json::to_value(read).expect("writes")
        }
        prop_assert_eq!(&same::<EventBody>(&value), &value);
        prop_assert_eq!(&same::<ItemBody>(&value), &value);
        prop_assert_eq!(&same::<Part>(&value), &value);
        prop_assert_eq!(&same::<MediaSource>(&value), &value);
        prop_assert_eq!(&same::<TurnEvent>(&value), &value);
    }

    #[test]
    fn an_unknown_word_survives(word in "[a-z_]{1,12}") {
        let json = Value::String(word);
        for read in [
            serde_json::to_value(serde_json::from_value::<Reason>(json.clone()).expect("reads")),
            serde_json::to_value(serde_json::from_value::<ErrorKind>(json.clone()).expect("reads")),
            serde_json::to_value(serde_json::from_value::<StopReason>(json.clone()).expect("reads")),
            serde_json::to_value(serde_json::from_value::<Role>(json.clone()).expect("reads")),
        ] {
            prop_assert_eq!(read.expect("writes"), json.clone());
        }
    }

    #[test]
    fn arguments_never_panic_and_keep_their_text(text in ".{0,60}") {
        let arguments = Arguments::from_text(text.clone());
        let _ = arguments.parse();
        prop_assert_eq!(arguments.as_text(), text);
        reads_back(&arguments);
    }
}
