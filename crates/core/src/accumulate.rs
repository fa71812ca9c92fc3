//! The one fold from turn events to a finished turn.

use crate::env::Env;
use crate::error::{ErrorKind, ProviderError};
use crate::id::{ProviderId, ToolName, TurnId};
use crate::item::{Item, ItemBody, Message, Reasoning, Role};
use crate::origin::Origin;
use crate::part::{Native, Part, Text};
use crate::tool::{Arguments, ToolCall};
use crate::turn::{CallDelta, StopReason, TextDelta, Turn, TurnEvent};
use crate::usage::Usage;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Folds the events of one answer into a [`Turn`].
///
/// Places (`index`) order the answer; what comes for a place is put together there. Text and thinking at one index are
/// different places, as are a call and a text. An answer that ends without [`TurnEvent::Finished`] is an interrupted
/// one, never a normal end, and its calls are gone.
#[derive(Debug, Default)]
pub struct Accumulator {
    places: BTreeMap<(u32, Slot), Place>,
    model: Option<String>,
    response_id: Option<String>,
    usage: Option<Usage>,
    end: Option<End>,
}

/// The order of what shares an index: thinking comes before what it led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Slot {
    Reasoning,
    Text,
    Refusal,
    Call,
    Whole,
}

#[derive(Debug)]
enum Place {
    Reasoning { text: String, native: Option<Native> },
    Text { text: String, native: Option<Native> },
    Refusal(String),
    Call(CallDelta),
    Whole(Box<ItemBody>),
}

#[derive(Debug)]
enum End {
    Finished(Box<crate::turn::TurnFinished>),
    Failed(Box<ProviderError>),
}

impl Accumulator {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Accumulator::default()
    }

    /// Takes in one event. What comes after the end is ignored, but for usage, which some providers send last.
    pub fn push(&mut self, event: &TurnEvent) {
        if self.end.is_some() && !matches!(event, TurnEvent::Usage(_)) {
            return;
        }
        match event {
            TurnEvent::Started(started) => {
                self.model = started.model.clone().or(self.model.take());
                self.response_id = started.response_id.clone().or(self.response_id.take());
            }
            TurnEvent::Text(delta) => self.append(Slot::Text, delta),
            TurnEvent::Refusal(delta) => self.append(Slot::Refusal, delta),
            TurnEvent::Reasoning(delta) => self.append(Slot::Reasoning, delta),
            TurnEvent::TextState(state) => {
                let place = self
                    .places
                    .entry((state.index, Slot::Text))
                    .or_insert_with(|| Place::Text { text: String::new(), native: None });
                if let Place::Text { native, .. } = place {
                    *native = Some(state.native.clone());
                }
            }
            TurnEvent::ReasoningState(state) => {
                let place = self
                    .places
                    .entry((state.index, Slot::Reasoning))
                    .or_insert_with(|| Place::Reasoning { text: String::new(), native: None });
                if let Place::Reasoning { native, .. } = place {
                    *native = Some(state.native.clone());
                }
            }
            TurnEvent::Call(delta) => self.append_call(delta),
            TurnEvent::Whole(whole) => {
                self.places.insert((whole.index, Slot::Whole), Place::Whole(Box::new(whole.body.clone())));
            }
            TurnEvent::Usage(usage) => self.usage = Some(*usage),
            TurnEvent::Finished(finished) => self.end = Some(End::Finished(Box::new(finished.clone()))),
            TurnEvent::Failed(error) => self.end = Some(End::Failed(error.clone())),
            TurnEvent::Unknown(_) => {}
        }
    }

    fn append(&mut self, slot: Slot, delta: &TextDelta) {
        let place = self.places.entry((delta.index, slot)).or_insert_with(|| match slot {
            Slot::Reasoning => Place::Reasoning { text: String::new(), native: None },
            Slot::Refusal => Place::Refusal(String::new()),
            _ => Place::Text { text: String::new(), native: None },
        });
        match place {
            Place::Reasoning { text, .. } | Place::Text { text, .. } | Place::Refusal(text) => {
                text.push_str(&delta.text)
            }
            Place::Call(_) | Place::Whole(_) => {}
        }
    }

    fn append_call(&mut self, delta: &CallDelta) {
        let given = |text: &Option<String>| text.as_ref().filter(|text| !text.is_empty()).cloned();
        let place = self
            .places
            .entry((delta.index, Slot::Call))
            .or_insert_with(|| Place::Call(CallDelta { index: delta.index, ..CallDelta::default() }));
        if let Place::Call(call) = place {
            call.provider_id = given(&delta.provider_id).or(call.provider_id.take());
            call.name = given(&delta.name).or(call.name.take());
            call.arguments.push_str(&delta.arguments);
            call.native = delta.native.clone().or(call.native.take());
        }
    }

    /// The text so far, without thinking: what may be shown of an answer that broke off.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.places.values().filter_map(|place| match place {
            Place::Text { text, .. } | Place::Refusal(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// What has been used so far, as far as the provider said.
    #[must_use]
    pub fn usage(&self) -> Option<Usage> {
        self.usage
    }

    /// The finished turn, with ids of ours for the turn, its items and its calls. A call without a name is one of the tool
    /// `unnamed`: the model is told that there is no such tool, and the run goes on.
    ///
    /// # Errors
    /// The [`ProviderError`] that broke the answer off, or one of kind *interrupted* where it ended without its end.
    pub fn finish(self, provider: &ProviderId, env: &Env) -> Result<Turn, ProviderError> {
        let finished = match self.end {
            Some(End::Finished(finished)) => *finished,
            Some(End::Failed(error)) => return Err(*error),
            None => {
                return Err(ProviderError::new(
                    ErrorKind::Interrupted,
                    provider.clone(),
                    "the answer ended before its end marker; what arrived is partial",
                ));
            }
        };
        let mut items = Vec::with_capacity(self.places.len());
        let mut refused = false;
        let mut calls = 0usize;
        for place in self.places.into_values() {
            let body = match place {
                Place::Reasoning { text, native } => ItemBody::Reasoning(Reasoning { text, native }),
                Place::Text { text, native: None } if text.is_empty() => continue,
                Place::Text { text, native } => said(Text { native, ..Text::new(text) }),
                Place::Refusal(text) => {
                    refused = true;
                    said(Text::new(text))
                }
                Place::Call(call) => {
                    calls += 1;
                    ItemBody::ToolCall(ToolCall {
                        id: env.new_id(),
                        provider_id: call.provider_id,
                        name: ToolName::from(call.name.unwrap_or_else(|| UNNAMED.to_owned())),
                        arguments: Arguments::from_text(call.arguments),
                        native: call.native,
                    })
                }
                Place::Whole(body) => *body,
            };
            items.push(Arc::new(Item::new(env.new_id(), Origin::Model, body)));
        }
        // Some providers say "end" of an answer that asks for tools, and "tool_calls" of one that asks for none.
        let stop = match finished.stop {
            StopReason::End if refused && calls == 0 => StopReason::Refusal,
            StopReason::End if calls > 0 => StopReason::ToolCalls,
            StopReason::ToolCalls if calls == 0 => StopReason::End,
            stop => stop,
        };
        Ok(Turn {
            id: env.new_id::<TurnId>(),
            model: self.model,
            response_id: self.response_id,
            items,
            stop,
            usage: self.usage,
            provider_state: finished.provider_state,
            service_tier: finished.service_tier,
            native: finished.native,
        })
    }
}

/// What a call without a name is called. No tool has this name, so that the model hears of its mistake as of any unknown
/// tool; and unlike an empty one it can be sent back to every provider.
const UNNAMED: &str = "unnamed";

fn said(text: Text) -> ItemBody {
    ItemBody::Message(Message { role: Role::Assistant, parts: vec![Part::Text(text)], native: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::ManualClock;
    use crate::time::Timestamp;
    use crate::turn::{TurnFinished, WholeItem};

    fn env() -> Env {
        Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1)
    }

    fn fold(events: &[TurnEvent]) -> Result<Turn, ProviderError> {
        let mut accumulator = Accumulator::new();
        for event in events {
            accumulator.push(event);
        }
        accumulator.finish(&ProviderId::new("test"), &env())
    }

    fn text(index: u32, text: &str) -> TurnEvent {
        TurnEvent::Text(TextDelta { index, text: text.into() })
    }

    fn call(index: u32, id: &str, name: &str, arguments: &str) -> TurnEvent {
        TurnEvent::Call(CallDelta {
            index,
            provider_id: Some(id.into()),
            name: Some(name.into()),
            arguments: arguments.into(),
            native: None,
        })
    }

    fn finished(stop: StopReason) -> TurnEvent {
        TurnEvent::Finished(TurnFinished::new(stop))
    }

    #[test]
    fn interleaved_pieces_are_put_together_by_place() {
        let turn = fold(&[
            text(0, "Let me "),
            call(1, "a", "read", "{\"p\":"),
            call(2, "b", "list", ""),
            text(0, "look."),
            call(1, "", "", "1}"),
            call(2, "", "", "{}"),
            finished(StopReason::End),
        ])
        .expect("a whole answer");
        assert_eq!(turn.text(), "Let me look.");
        let calls: Vec<_> = turn
            .calls()
            .map(|call| (call.provider_id.as_deref(), call.name.as_str(), call.arguments.as_text()))
            .collect();
        assert_eq!(calls, [(Some("a"), "read", "{\"p\":1}"), (Some("b"), "list", "{}")]);
        assert_eq!(turn.stop, StopReason::ToolCalls, "an answer that asks for tools is a tool turn, whatever it says");
        let ids: std::collections::HashSet<_> = turn.calls().map(|call| &call.id).collect();
        assert_eq!(ids.len(), 2);
    }

    #[test]
    fn a_call_without_a_name_is_a_call_all_the_same() {
        let nameless = CallDelta { index: 0, arguments: "{}".into(), ..CallDelta::default() };
        let events = [TurnEvent::Call(nameless), call(1, "b", "list", "{}"), finished(StopReason::End)];
        let turn = fold(&events).expect("a whole answer");
        let names: Vec<_> = turn.calls().map(|call| call.name.as_str()).collect();
        assert_eq!(names, ["unnamed", "list"]);
        assert_eq!(turn.stop, StopReason::ToolCalls);
    }

    #[test]
    fn an_answer_without_its_end_is_interrupted() {
        let error = fold(&[text(0, "half")]).expect_err("no end");
        assert_eq!(error.kind, ErrorKind::Interrupted);
    }

    #[test]
    fn a_cut_stays_a_cut_though_there_are_calls() {
        let turn = fold(&[call(0, "a", "read", "{\"p\": \"ha"), finished(StopReason::MaxTokens)]).expect("an answer");
        assert!(turn.stop.is_cut());
    }

    #[test]
    fn usage_is_replaced_never_added_and_may_come_after_the_end() {
        let usage = |input| TurnEvent::Usage(Usage { input, ..Usage::default() });
        let turn =
            fold(&[usage(5), usage(7), finished(StopReason::End), usage(9), text(0, "late")]).expect("an answer");
        assert_eq!(turn.usage.map(|usage| usage.input), Some(9));
        assert_eq!(turn.text(), "");
    }

    #[test]
    fn whole_items_keep_their_place() {
        let native = ItemBody::Native(Native { provider: ProviderId::new("test"), value: serde_json::json!({"x": 1}) });
        let turn = fold(&[
            text(0, "a"),
            TurnEvent::Whole(Box::new(WholeItem { index: 1, body: native.clone() })),
            text(2, "b"),
            finished(StopReason::End),
        ])
        .expect("an answer");
        assert_eq!(turn.items[1].body, native);
        assert_eq!(turn.text(), "ab");
    }
}
