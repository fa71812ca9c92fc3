//! Items that have become whole.

use super::answer::{EventEncoder, Sort};
use super::answer_forms::{annotations, part};
use super::parts::is_reasoning;
use super::request::ATTACHED;
use super::tools::custom_input;
use super::write::{List, Object};
use crate::citations::{self, Cursor, Place};
use crate::envelope;
use crate::probabilities::{in_full, length, of_text};
use crate::stopped::is_cut_short;
use placet_core::part::Native;
use placet_core::{Arguments, ProviderId};
use serde_json::{Value, json};
use std::borrow::Cow;

impl EventEncoder {
    pub(super) fn close(&mut self, at: usize, status: &str, out: &mut Vec<u8>) {
        match self.items[at].sort {
            Sort::Reasoning => self.close_reasoning(at, out),
            Sort::Text | Sort::Refusal => self.close_message(at, status, out),
            Sort::Call => self.close_call(at, status, out),
            Sort::Whole => {}
        }
    }

    pub(super) fn done(&mut self, at: usize, item: Vec<u8>, out: &mut Vec<u8>) {
        self.event("response.output_item.done", out, |event| {
            event.field("output_index", &at);
            event.raw("item", &item);
        });
        self.items[at].done = Some(item);
    }

    /// Takes those of the pieces that stand for so much text.
    pub(super) fn pieces_of(&mut self, bytes: usize) -> Vec<Value> {
        let mut taken = 0;
        let is_wanted = |piece: &Value| {
            let is_wanted = taken < bytes;
            taken += length(piece);
            is_wanted
        };
        let count = self.pieces.iter().map(is_wanted).take_while(|is_wanted| *is_wanted).count();
        self.pieces.drain(..count).collect()
    }

    /// Puts what is told of the pieces of texts at the end into those that are closed already.
    pub(super) fn tell_pieces(&mut self) {
        for at in 0..self.items.len() {
            if self.pieces.is_empty() {
                return;
            }
            let done = self.items[at].done.as_deref().filter(|_| self.items[at].sort == Sort::Text);
            let Some(mut item) = done.and_then(|done| serde_json::from_slice::<Value>(done).ok()) else { continue };
            let Some(part) = item.pointer_mut("/content/0").filter(|part| part["type"] == "output_text") else {
                continue;
            };
            let pieces = self.pieces_of(part["text"].as_str().map_or(0, str::len));
            if part["logprobs"].as_array().is_none_or(Vec::is_empty) {
                part["logprobs"] = pieces.iter().map(in_full).collect();
                self.items[at].done = Some(item.to_string().into_bytes());
            }
        }
    }

    fn close_message(&mut self, at: usize, status: &str, out: &mut Vec<u8>) {
        self.begin(at, out);
        let (id, sort) = (self.items[at].id.clone(), self.items[at].sort);
        let text = std::mem::take(&mut self.items[at].text);
        let native = self.items[at].native.clone();
        let own = self.own(native.as_ref()).cloned();
        let foreign = native.as_ref().filter(|native| native.provider != self.head.provider && sort == Sort::Text);
        let place = Place { text: &text, before: self.said };
        let cited = foreign.map(|native| citations::of(&native.value)).unwrap_or_default();
        let mut cursor = Cursor::default();
        let cited = cited.iter().map(|citation| citation.annotation(place, &mut cursor).into());
        let cited: Vec<Value> = cited.collect();
        self.said += text.len();
        // Of another provider's state the addresses alone can be read here; the rest is attached.
        let mut pieces = foreign.map(|native| of_text(&native.value).to_vec()).unwrap_or_default();
        if sort == Sort::Text {
            pieces.extend(self.pieces_of(text.len()));
        }
        let pieces: Vec<Value> = pieces.iter().map(in_full).collect();
        let mut shown = own;
        for (key, list) in [("annotations", cited), ("logprobs", pieces)] {
            if !list.is_empty() && !shown.as_ref().is_some_and(|own| own.contains_key(key)) {
                shown.get_or_insert_default().insert(key.to_owned(), list.into());
            }
        }
        let annotations: Vec<Value> = annotations(shown.as_ref()).map(Cow::into_owned).collect();
        for (number, annotation) in annotations.iter().enumerate() {
            self.event("response.output_text.annotation.added", out, |event| {
                event.field("item_id", &id);
                event.field("output_index", &at);
                event.field("content_index", &0);
                event.field("annotation_index", &number);
                event.field("annotation", annotation);
            });
        }
        let (kind, key) = if sort == Sort::Refusal {
            ("response.refusal.done", "refusal")
        } else {
            ("response.output_text.done", "text")
        };
        let own = shown;
        let part = part(sort, &text, own.as_ref());
        self.event(kind, out, |event| {
            event.field("item_id", &id);
            event.field("output_index", &at);
            event.field("content_index", &0);
            event.field(key, &text);
            if sort == Sort::Text {
                match own.as_ref().and_then(|own| own.get("logprobs")) {
                    Some(logprobs) => event.field("logprobs", logprobs),
                    None => event.field("logprobs", &[(); 0]),
                }
            }
        });
        self.event("response.content_part.done", out, |event| {
            event.field("item_id", &id);
            event.field("output_index", &at);
            event.field("content_index", &0);
            event.raw("part", &part);
        });
        let mut item = Vec::new();
        let mut object = Object::new(&mut item);
        object.field("id", &id);
        object.field("type", "message");
        object.field("status", status);
        object.field("role", "assistant");
        if let Some(head) = own.as_ref().and_then(|own| own.get("message")?.as_object()) {
            object.merge(head, &["id", "type", "status", "role", "content"]);
        }
        let mut content = List::new(object.key("content"));
        content.next().extend_from_slice(&part);
        content.end();
        object.end();
        self.done(at, item, out);
        self.attach("text", native, out);
    }

    fn close_reasoning(&mut self, at: usize, out: &mut Vec<u8>) {
        let text = std::mem::take(&mut self.items[at].text);
        let (id, native) = (self.items[at].id.clone(), self.items[at].native.clone());
        let own = self.own(native.as_ref().filter(|native| is_reasoning(&native.value))).cloned();
        if self.items[at].written > 0 {
            self.event("response.reasoning_summary_text.done", out, |event| {
                event.field("item_id", &id);
                event.field("output_index", &at);
                event.field("summary_index", &0);
                event.field("text", &text);
            });
            self.event("response.reasoning_summary_part.done", out, |event| {
                event.field("item_id", &id);
                event.field("output_index", &at);
                event.field("summary_index", &0);
                event.raw("part", &part(Sort::Reasoning, &text, None));
            });
        } else {
            self.items[at].written = 1;
            self.event("response.output_item.added", out, |event| {
                event.field("output_index", &at);
                let mut item = Object::new(event.key("item"));
                item.field("id", &id);
                item.field("type", "reasoning");
                item.field("summary", &[(); 0]);
                item.end();
            });
        }
        let mut item = Vec::new();
        let mut object = Object::new(&mut item);
        object.field("id", &id);
        object.field("type", "reasoning");
        // The id that the stream announced has to be the one that it ends with. Where the provider's is another, its item goes
        // whole into the envelope, id and all.
        let is_verbatim = own.as_ref().is_some_and(|own| own.get("id").is_none_or(|own| own.as_str() == Some(&*id)));
        match own.filter(|_| is_verbatim) {
            Some(own) => {
                object.merge(&own, &["id", "type", "status"]);
                if !own.contains_key("summary") {
                    object.field("summary", &[(); 0]);
                }
            }
            None => {
                let mut summary = List::new(object.key("summary"));
                if !text.is_empty() {
                    summary.next().extend_from_slice(&part(Sort::Reasoning, &text, None));
                }
                summary.end();
                if let Some(native) = &native {
                    object.field("encrypted_content", &envelope::seal(native));
                }
            }
        }
        object.end();
        self.done(at, item, out);
    }

    fn close_call(&mut self, at: usize, status: &str, out: &mut Vec<u8>) {
        self.write_arguments(at, true, out);
        let text = self.items[at].text.as_str();
        let is_cut = is_cut_short(text) || (status == "incomplete" && Arguments::from_text(text).parse().is_err());
        let status = if is_cut { "incomplete" } else { "completed" };
        let is_custom = self.items[at].is_custom;
        let (id, text) = (self.items[at].id.clone(), self.items[at].text.clone());
        let kind =
            if is_custom { "response.custom_tool_call_input.done" } else { "response.function_call_arguments.done" };
        self.event(kind, out, |event| {
            event.field("item_id", &id);
            event.field("output_index", &at);
            if is_custom {
                event.field("input", &custom_input(&text));
            } else {
                event.field("arguments", &text);
            }
        });
        let item = self.call_item(at, status, false);
        let native = self.items[at].native.take();
        self.done(at, item, out);
        self.attach("call", native, out);
    }

    /// Another provider's state of the text or call that was just written: sealed, in an item of its own.
    pub(super) fn attach(&mut self, of: &str, native: Option<Native>, out: &mut Vec<u8>) {
        let Some(native) = native.filter(|native| native.provider != self.head.provider) else { return };
        self.seal(of, native.provider, native.value, out);
    }

    pub(super) fn seal(&mut self, of: &str, provider: ProviderId, value: Value, out: &mut Vec<u8>) {
        let sealed = envelope::seal(&Native { provider, value: json!({ATTACHED: of, "value": value}) });
        let id = self.mint("rs");
        let item = json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": sealed});
        self.write_whole(&item, out);
    }
}
