//! A whole answer in the protocol's form.

use super::answer::usage_form;
use super::decode::INVALID_JSON;
use super::events::end_fields;
use super::sealed::{Owner, seal, seal_item};
use crate::citations::{self, Citation};
use crate::envelope;
use crate::request::AnswerHead;
use crate::shown;
use crate::stopped::{self, is_malformed};
use placet_core::item::Reasoning;
use placet_core::part::{Native, Text};
use placet_core::{ItemBody, Part, ProviderId, ToolCall, Turn};
use serde_json::{Value, json};

/// An answer as one message.
#[must_use]
pub fn encode_response(head: &AnswerHead, turn: &Turn) -> Value {
    let mut blocks = Blocks { own: &head.provider, out: Vec::with_capacity(turn.items.len()) };
    turn.items.iter().for_each(|item| blocks.item(&item.body));
    let own = turn.native.as_ref().filter(|native| native.provider == head.provider);
    let own = own.and_then(|native| native.value.as_object());
    let has_calls = turn.calls().next().is_some();
    let beyond = own.and_then(|own| own.get("usage")?.as_object());
    let usage = usage_form(&turn.usage.unwrap_or_default(), turn.service_tier.as_deref(), beyond);
    let mut message = json!({
        "id": head.id,
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": blocks.out,
        "usage": usage,
    });
    // The protocol knows arguments as an object only: what is none cannot be handed out as a call to be run.
    let has_malformed = turn.calls().any(|call| is_malformed(call.arguments.as_text()));
    let (fields, beside) = end_fields(stopped::told(&turn.stop, has_malformed), has_calls, own);
    for (key, value) in fields.into_iter().chain(beside) {
        message[key.as_str()] = value;
    }
    message
}

struct Blocks<'a> {
    own: &'a ProviderId,
    out: Vec<Value>,
}

impl Blocks<'_> {
    fn hidden(&mut self, data: String) {
        self.out.push(json!({"type": "redacted_thinking", "data": data}));
    }

    fn item(&mut self, body: &ItemBody) {
        match body {
            ItemBody::Message(message) => {
                for part in &message.parts {
                    match part {
                        Part::Text(text) => self.text(text),
                        Part::Native(native) if native.provider == *self.own => self.out.push(native.value.clone()),
                        Part::Native(native) => {
                            self.hidden(seal_item(&native.provider, &ItemBody::Native(native.clone())))
                        }
                        part => self.shown(part),
                    }
                }
            }
            ItemBody::Reasoning(reasoning) => self.reasoning(reasoning),
            ItemBody::ToolCall(call) => self.call(call),
            ItemBody::HostedCall(call) if call.provider == *self.own => self.out.push(call.value.clone()),
            ItemBody::Native(native) if native.provider == *self.own => self.out.push(native.value.clone()),
            ItemBody::HostedCall(call) => {
                self.hidden(seal_item(&call.provider, body));
                if let Some(media) = shown::made(call) {
                    self.shown(&Part::Image(media));
                }
            }
            ItemBody::Artifact(artifact) => self.shown(&shown::part_of(&artifact.media)),
            other => self.hidden(seal_item(self.own, other)),
        }
    }

    /// What is no text, as one: the protocol's answers hold no media.
    fn shown(&mut self, part: &Part) {
        if let Some(text) = shown::markdown(part) {
            if let Some(native) = shown::state(part).filter(|native| native.provider != *self.own) {
                self.hidden(seal(Owner::NextText, native));
            }
            self.out.push(json!({"type": "text", "text": text}));
        }
    }

    fn merge(block: &mut Value, native: &Native) {
        for (key, value) in native.value.as_object().into_iter().flatten() {
            block[key.as_str()] = value.clone();
        }
    }

    fn text(&mut self, text: &Text) {
        if text.text.is_empty() && text.native.is_none() {
            return;
        }
        let mut block = json!({"type": "text", "text": &*text.text});
        match &text.native {
            Some(native) if native.provider == *self.own => Blocks::merge(&mut block, native),
            _ => {}
        }
        if let Some(native) = text.native.as_ref().filter(|native| native.provider != *self.own) {
            self.hidden(seal(Owner::NextText, native));
            let cited: Vec<Value> = citations::of(&native.value).iter().map(Citation::citation).collect();
            if !cited.is_empty() && !text.text.is_empty() {
                block["citations"] = cited.into();
            }
        }
        self.out.push(block);
    }

    fn reasoning(&mut self, reasoning: &Reasoning) {
        let mut block = json!({"type": "thinking", "thinking": reasoning.text, "signature": ""});
        match &reasoning.native {
            Some(native) if native.provider != *self.own => block["signature"] = envelope::seal(native).into(),
            Some(native) if native.value.get("type").is_some() => block = native.value.clone(),
            Some(native) => Blocks::merge(&mut block, native),
            None => {}
        }
        self.out.push(block);
    }

    fn call(&mut self, call: &ToolCall) {
        if let Some(native) = call.native.as_ref().filter(|native| native.provider != *self.own) {
            self.hidden(seal(Owner::NextCall, native));
        }
        let id = call.provider_id.as_deref().filter(|id| !id.is_empty()).unwrap_or(call.id.as_str());
        let input = match call.arguments.parse() {
            Ok(object) => Value::Object(object),
            Err(_) => json!({ INVALID_JSON: call.arguments.as_text() }),
        };
        let mut block = json!({"type": "tool_use", "id": id, "name": call.name.as_str(), "input": input});
        if let Some(native) = call.native.as_ref().filter(|native| native.provider == *self.own) {
            Blocks::merge(&mut block, native);
        }
        self.out.push(block);
    }
}
