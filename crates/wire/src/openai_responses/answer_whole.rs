//! Items that come whole, and answers that go whole.

use super::answer::{EventEncoder, OpenItem, Sort};
use super::parts::is_item;
use super::write;
use crate::answer::events_of;
use crate::request::AnswerHead;
use crate::shown;
use placet_core::part::{Media, MediaSource};
use placet_core::turn::{CallDelta, ReasoningState, TextDelta, WholeItem};
use placet_core::{ItemBody, Part, ProviderId, Turn, TurnEvent};
use serde_json::{Value, json};

impl EventEncoder {
    /// An item that comes whole.
    pub(super) fn write_whole(&mut self, item: &Value, out: &mut Vec<u8>) {
        self.start(out);
        let at = self.items.len();
        let mut opening = item.clone();
        if let Some(opening) = opening.as_object_mut() {
            if let Some(status) = opening.get_mut("status") {
                *status = "in_progress".into();
            }
            if opening.get("type").is_some_and(|kind| kind == "reasoning") {
                opening.shift_remove("encrypted_content");
            }
        }
        let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.ids.insert(id.clone());
        self.items.push(OpenItem {
            id,
            sort: Sort::Whole,
            text: String::new(),
            native: None,
            call_id: String::new(),
            name: String::new(),
            written: 1,
            is_custom: false,
            done: None,
        });
        self.event("response.output_item.added", out, |event| {
            event.field("output_index", &at);
            event.field("item", &opening);
        });
        let mut bytes = Vec::new();
        write::value(&mut bytes, item);
        self.done(at, bytes, out);
    }

    pub(super) fn whole(&mut self, whole: &WholeItem, out: &mut Vec<u8>) {
        self.start(out);
        self.close_before(None, out);
        let own = |provider: &ProviderId| *provider == self.head.provider;
        match &whole.body {
            ItemBody::HostedCall(call) if own(&call.provider) && is_item(&call.value) => {
                self.write_whole(&call.value, out)
            }
            ItemBody::Native(native) if own(&native.provider) && is_item(&native.value) => {
                self.write_whole(&native.value, out);
            }
            ItemBody::HostedCall(call) => {
                self.seal("item", call.provider.clone(), json_of(&whole.body), out);
                if let Some(media) = shown::made(call) {
                    self.picture(whole.index, &media, out);
                }
            }
            ItemBody::Native(native) => self.seal("item", native.provider.clone(), json_of(&whole.body), out),
            ItemBody::Message(message) => {
                for part in &message.parts {
                    self.whole_part(whole.index, part, out);
                }
            }
            ItemBody::Reasoning(reasoning) => {
                let text = reasoning.text.clone();
                self.said(Sort::Reasoning, &TextDelta { index: whole.index, text }, out);
                if let Some(native) = reasoning.native.clone() {
                    self.state(Sort::Reasoning, &ReasoningState { index: whole.index, native }, out);
                }
                self.close_before(None, out);
            }
            ItemBody::ToolCall(call) => self.call(
                &CallDelta {
                    index: whole.index,
                    provider_id: call.provider_id.clone(),
                    name: Some(call.name.as_str().to_owned()),
                    arguments: call.arguments.as_text().to_owned(),
                    native: call.native.clone(),
                },
                out,
            ),
            ItemBody::Artifact(artifact) => self.whole_part(whole.index, &shown::part_of(&artifact.media), out),
            // Nothing that a model answers with.
            _ => {}
        }
    }

    fn whole_part(&mut self, index: u32, part: &Part, out: &mut Vec<u8>) {
        match part {
            Part::Text(text) => {
                self.said(Sort::Text, &TextDelta { index, text: text.text.to_string() }, out);
                if let Some(native) = text.native.clone() {
                    self.state(Sort::Text, &ReasoningState { index, native }, out);
                }
                self.close_before(None, out);
            }
            Part::Image(media) => self.picture(index, media, out),
            Part::Native(native) => {
                let body = ItemBody::Native(native.clone());
                self.seal("item", native.provider.clone(), json_of(&body), out);
            }
            part => self.shown(index, part, out),
        }
    }

    /// What has no place of its own in an answer, as a text.
    fn shown(&mut self, index: u32, part: &Part, out: &mut Vec<u8>) {
        let Some(text) = shown::markdown(part) else { return };
        self.said(Sort::Text, &TextDelta { index, text }, out);
        self.close_before(None, out);
    }

    /// A picture that a model made.
    fn picture(&mut self, index: u32, media: &Media, out: &mut Vec<u8>) {
        let MediaSource::Inline(inline) = &media.source else {
            return self.shown(index, &Part::Image(media.clone()), out);
        };
        let id = self.mint("ig");
        let mut item = json!({
            "id": id, "type": "image_generation_call", "status": "completed", "result": &*inline.base64,
        });
        let format = media.mime_type.as_deref().and_then(|mime| mime.strip_prefix("image/"));
        if let Some(format) = format.filter(|format| *format != "png") {
            item["output_format"] = format.into();
        }
        self.write_whole(&item, out);
    }
}

/// The answer as a whole body. It is what the events of the same turn end with.
#[must_use]
pub fn encode_response(head: &AnswerHead, turn: &Turn) -> Value {
    let mut encoder = EventEncoder::new(head.clone());
    let mut out = Vec::new();
    for event in state_first(events_of(turn)) {
        encoder.push(&event, &mut out);
        out.clear();
    }
    serde_json::from_slice(&encoder.last).unwrap_or_default()
}

/// The events of a turn with the state of a place before its text, so that ids are known when an item is announced.
pub(super) fn state_first(mut events: Vec<TurnEvent>) -> Vec<TurnEvent> {
    for at in 1..events.len() {
        let is_pair = match (&events[at - 1], &events[at]) {
            (TurnEvent::Text(delta), TurnEvent::TextState(state))
            | (TurnEvent::Reasoning(delta), TurnEvent::ReasoningState(state)) => delta.index == state.index,
            _ => false,
        };
        if is_pair {
            events.swap(at - 1, at);
        }
    }
    events
}

fn json_of(body: &ItemBody) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}
