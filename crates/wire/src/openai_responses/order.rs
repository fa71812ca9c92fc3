//! One place after another: what comes for a second one while the first is open waits for it.
//!
//! A server may go on with several items at once, or with several parts of one. Whoever writes an answer on in a protocol whose
//! places follow one another could not go back to the first, so that its pieces are put in order here. Thinking holds nothing up:
//! some servers leave it open until the end of the answer, and the text that follows is not to wait for that.

use super::decode::{Answer, PARTS, place};
use super::parts::{text_native, word};
use placet_core::TurnEvent;
use placet_core::part::Native;
use placet_core::turn::ReasoningState;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

#[derive(Debug, Default)]
pub(super) struct Order {
    open: Option<Open>,
    waiting: BTreeMap<u32, Waiting>,
}

#[derive(Debug)]
struct Open {
    place: u32,
    is_ended: bool,
    is_thinking: bool,
}

impl Open {
    fn may_be_left(&self) -> bool {
        self.is_ended || self.is_thinking
    }
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<TurnEvent>,
    is_ended: bool,
}

impl Order {
    /// The place of thinking that these events leave before its end.
    pub(super) fn left(&self, events: &[TurnEvent]) -> Option<u32> {
        let open = self.open.as_ref().filter(|open| open.is_thinking && !open.is_ended)?;
        let leaves = |event: &TurnEvent| place_of(event).is_some_and(|place| place != open.place);
        events.iter().any(leaves).then_some(open.place)
    }

    /// Puts the events of `out` from `from` on in order; what has to wait is taken out.
    pub(super) fn pass(&mut self, from: usize, out: &mut Vec<TurnEvent>) {
        let open = self.open.as_ref().map(|open| open.place);
        let is_in_order = |event: &TurnEvent| place_of(event).is_none_or(|place| Some(place) == open);
        if self.waiting.is_empty() && out[from..].iter().all(is_in_order) {
            return;
        }
        for event in out.split_off(from) {
            self.take(event, out);
        }
    }

    fn take(&mut self, event: TurnEvent, out: &mut Vec<TurnEvent>) {
        let Some(place) = place_of(&event) else {
            if matches!(event, TurnEvent::Finished(_) | TurnEvent::Failed(_)) {
                self.settle(out);
            }
            return out.push(event);
        };
        match &self.open {
            Some(open) if open.place == place => out.push(event),
            Some(open) if !open.may_be_left() => self.waiting.entry(place).or_default().events.push(event),
            _ => {
                self.open = Some(Open { place, is_ended: is_whole(&event), is_thinking: is_thinking(&event) });
                out.push(event);
            }
        }
    }

    /// Nothing more comes for these places.
    pub(super) fn end(&mut self, places: RangeInclusive<u32>, out: &mut Vec<TurnEvent>) {
        for (_, waiting) in self.waiting.range_mut(places.clone()) {
            waiting.is_ended = true;
        }
        if let Some(open) = self.open.as_mut().filter(|open| places.contains(&open.place)) {
            open.is_ended = true;
        }
        while self.open.as_ref().is_none_or(Open::may_be_left)
            && let Some((place, waiting)) = self.waiting.pop_first()
        {
            let is_whole = waiting.is_ended || waiting.events.last().is_some_and(is_whole);
            let is_thinking = waiting.events.last().is_some_and(is_thinking);
            self.open = Some(Open { place, is_ended: is_whole, is_thinking });
            out.extend(waiting.events);
        }
    }

    /// Nothing more comes at all.
    fn settle(&mut self, out: &mut Vec<TurnEvent>) {
        out.extend(std::mem::take(&mut self.waiting).into_values().flat_map(|waiting| waiting.events));
    }
}

fn is_whole(event: &TurnEvent) -> bool {
    matches!(event, TurnEvent::Whole(_))
}

fn is_thinking(event: &TurnEvent) -> bool {
    matches!(event, TurnEvent::Reasoning(_) | TurnEvent::ReasoningState(_))
}

fn place_of(event: &TurnEvent) -> Option<u32> {
    match event {
        TurnEvent::Text(delta) | TurnEvent::Refusal(delta) | TurnEvent::Reasoning(delta) => Some(delta.index),
        TurnEvent::TextState(state) | TurnEvent::ReasoningState(state) => Some(state.index),
        TurnEvent::Call(delta) => Some(delta.index),
        TurnEvent::Whole(whole) => Some(whole.index),
        _ => None,
    }
}

impl Answer {
    /// A part of a message is whole.
    pub(super) fn part_done(&mut self, index: u64, part: u64, said: &Map<String, Value>, out: &mut Vec<TurnEvent>) {
        let Some("output_text" | "text") = word(said, "type") else { return };
        self.text_to(index, part, word(said, "text").unwrap_or_default(), out);
        if let Some(item) = self.items.get_mut(&index).filter(|item| item.said.contains_key(&part)) {
            let head = std::mem::take(&mut item.head);
            self.text_state(index, part, &head, said, out);
            self.items.entry(index).or_default().head = head;
        }
    }

    /// What the provider alone understands of a text, where that has not been told.
    pub(super) fn text_state(
        &mut self,
        index: u64,
        part: u64,
        head: &Map<String, Value>,
        map: &Map<String, Value>,
        out: &mut Vec<TurnEvent>,
    ) {
        let Some(native) = text_native(&self.provider, head, map) else { return };
        let said = self.items.entry(index).or_default().said.entry(part).or_default();
        if said.state.as_ref() != Some(&native) {
            said.state = Some(native.clone());
            out.push(TurnEvent::TextState(ReasoningState { index: place(index, part), native }));
        }
    }

    /// Thinking that something else follows although its end has not come, as far as it is known.
    pub(super) fn passed(&mut self, index: u64) -> Option<ReasoningState> {
        let item = self.items.get_mut(&index)?;
        let thought = item.thought.as_mut().filter(|thought| !thought.said.is_empty())?;
        let mut value = item.head.clone();
        word(&value, "id")?;
        let text = |text: &String| json!({"type": "reasoning_text", "text": text});
        value.insert("content".to_owned(), thought.said.iter().map(text).collect());
        let value = thought.told.insert(value.into()).clone();
        Some(ReasoningState { index: place(index, 0), native: Native { provider: self.provider.clone(), value } })
    }

    /// Puts what has come since in order.
    pub(super) fn arrange(&mut self, from: usize, out: &mut Vec<TurnEvent>) {
        if let Some(left) = self.order.left(&out[from..]) {
            let state = self.passed(u64::from(left) / PARTS);
            out.splice(from..from, state.map(TurnEvent::ReasoningState));
        }
        self.order.pass(from, out);
    }

    /// The places for which nothing more comes after an event.
    pub(super) fn ended(&self, kind: &str, map: &Map<String, Value>) -> Option<RangeInclusive<u32>> {
        let index = map.get("output_index").and_then(Value::as_u64).unwrap_or(self.last);
        match kind {
            "response.output_item.done" => Some(place(index, 0)..=place(index, PARTS - 1)),
            "response.content_part.done" => {
                let part = map.get("content_index").and_then(Value::as_u64).unwrap_or(0);
                Some(place(index, part)..=place(index, part))
            }
            _ => None,
        }
    }
}
