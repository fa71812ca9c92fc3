//! The messages of a client's body, as items.

use super::layout::{self, Place};
use super::media::read_media;
use super::request::{Reader, beyond, optional, text};
use crate::RequestError;
use crate::asked::By;
use placet_core::item::Reasoning;
use placet_core::part::{CacheMark, Media, Native, Text};
use placet_core::{
    Arguments, CallId, Message, Origin, Outcome, Part, Role, SharedText, Stage, Status, ToolCall, ToolName, ToolResult,
};
use serde_json::{Map, Value, json};

impl Reader<'_> {
    pub(super) fn message(&mut self, message: &Value, place: usize) -> Result<(), RequestError> {
        let field = format!("messages[{place}]");
        let object = message.as_object().ok_or_else(|| RequestError::field(&*field, "expected an object"))?;
        let role = object.get("role").and_then(Value::as_str);
        let content = object.get("content").unwrap_or(&Value::Null);
        match role {
            Some("system" | "developer") => {
                let parts = self.parts(content, &format!("{field}.content"))?;
                let native = self.native(beyond(object, &["role", "content"]));
                if let ([Part::Text(Text { text, cache: None, native: None })], None, 0) = (&*parts, &native, place) {
                    self.request.instructions = Some(text.clone());
                } else {
                    self.push(Origin::Operator, Message { role: Role::System, parts, native });
                }
            }
            Some("user") => {
                let parts = self.parts(content, &format!("{field}.content"))?;
                let native = self.native(beyond(object, &["role", "content"]));
                self.push(Origin::User, Message { role: Role::User, parts, native });
            }
            Some("assistant") => self.said(object, &field)?,
            Some("tool" | "function") => {
                // Functions knew no ids: a result belongs to the last call of its name.
                let wire_id = object.get("tool_call_id").or_else(|| object.get("name")).and_then(Value::as_str);
                let wire_id = wire_id.ok_or_else(|| {
                    RequestError::field(format!("{field}.tool_call_id"), "expected the id of the call it answers")
                })?;
                let is_legacy = !object.contains_key("tool_call_id");
                let content = self.parts(content, &format!("{field}.content"))?;
                let native = self.native(beyond(object, &["role", "content", "tool_call_id"]));
                self.result(wire_id, is_legacy, content, native);
            }
            Some(other) => {
                let problem =
                    format!("`{other}` is no role; expected `developer`, `system`, `user`, `assistant` or `tool`");
                return Err(RequestError::field(format!("{field}.role"), problem));
            }
            None => return Err(RequestError::field(format!("{field}.role"), "expected the role of who speaks")),
        }
        Ok(())
    }

    /// The result of the call that goes by this id, or of the last one of this tool.
    pub(super) fn result(&mut self, wire_id: &str, is_legacy: bool, content: Vec<Part>, native: Option<Native>) {
        let found = self.calls.last(if is_legacy { By::Tool(wire_id) } else { By::Id(wire_id) });
        let (call, tool) = found.unwrap_or_else(|| (self.env.new_id(), ToolName::new(wire_id)));
        let origin = Origin::Tool(tool.as_str().to_owned());
        let mut outcome = Outcome::new(Status::Completed, Stage::Execute, None, "");
        outcome.content = content;
        outcome.origin = origin.clone().into();
        let provider_id = (!is_legacy).then(|| wire_id.to_owned());
        self.push(origin, ToolResult { call, provider_id, tool, capability: None, outcome, native });
    }

    /// Content: nothing, a text, or a list of parts. Empty texts are none.
    fn parts(&self, content: &Value, field: &str) -> Result<Vec<Part>, RequestError> {
        let list = match content {
            Value::Null => return Ok(Vec::new()),
            Value::String(text) if text.is_empty() => return Ok(Vec::new()),
            Value::String(text) => return Ok(vec![Part::text(text.as_str())]),
            Value::Array(list) => list,
            _ => return Err(RequestError::field(field, "expected a text or a list of parts")),
        };
        let mut parts = Vec::with_capacity(list.len());
        for (place, part) in list.iter().enumerate() {
            let field = || format!("{field}[{place}]");
            parts.push(match part {
                Value::String(text) => Part::text(text.as_str()),
                Value::Object(part) => self.part(part, &field())?,
                _ => return Err(RequestError::field(field(), "expected an object with a `type`")),
            });
        }
        Ok(parts)
    }

    fn part(&self, part: &Map<String, Value>, field: &str) -> Result<Part, RequestError> {
        let cache = ["cache_control", "prompt_cache_breakpoint"].into_iter().find_map(|key| part.get(key));
        let cache = cache.filter(|mark| mark.is_object());
        let cache = cache.map(|mark| CacheMark { ttl: mark.get("ttl").and_then(text) });
        let said = |key: &str| part.get(key).and_then(Value::as_str).map(SharedText::from);
        let kind = part.get("type").and_then(Value::as_str);
        match kind {
            Some("text") => {
                let text =
                    said("text").ok_or_else(|| RequestError::field(format!("{field}.text"), "expected a text"))?;
                let known = ["type", "text", "cache_control", "prompt_cache_breakpoint"];
                Ok(Part::Text(Text { text, cache, native: self.native(beyond(part, &known)) }))
            }
            Some("refusal") => {
                let text = said("refusal");
                let text = text.ok_or_else(|| RequestError::field(format!("{field}.refusal"), "expected a text"))?;
                let native = Native { provider: self.provider.clone(), value: json!({"refusal": "part"}) };
                Ok(Part::Text(Text { text, cache, native: Some(native) }))
            }
            Some(_) => Ok(match read_media(part, self.provider) {
                Some((mut read, rest)) => {
                    if let Part::Image(media) | Part::Audio(media) | Part::File(media) = &mut read {
                        *media = Media { cache, native: self.native(rest), ..media.clone() };
                    }
                    read
                }
                None => Part::Native(Native { provider: self.provider.clone(), value: part.clone().into() }),
            }),
            None => Err(RequestError::field(format!("{field}.type"), "expected the type of the part")),
        }
    }

    /// A message of the model: thinking, text, refusal, calls, in this order unless a sealed text tells another.
    fn said(&mut self, object: &Map<String, Value>, field: &str) -> Result<(), RequestError> {
        let mut parts = self.parts(object.get("content").unwrap_or(&Value::Null), &format!("{field}.content"))?;
        if let Some(text) = object.get("refusal").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            let native = Native { provider: self.provider.clone(), value: json!({"refusal": "field"}) };
            parts.push(Part::Text(Text { native: Some(native), ..Text::new(text) }));
        }
        let details = object.get("reasoning_details").and_then(Value::as_array);
        let mut places = None;
        let mut own = Vec::new();
        for detail in details.into_iter().flatten() {
            match layout::opened(detail) {
                Some(opened) => places = Some(opened),
                // An envelope that cannot be opened is nobody's state.
                None if detail["data"].as_str().is_some_and(crate::envelope::is_sealed) => {}
                None => own.push(detail.clone()),
            }
        }
        let thought = ["reasoning_content", "reasoning"]
            .into_iter()
            .find_map(|key| Some((key, object.get(key)?.as_str().filter(|text| !text.is_empty())?)));
        let reasoning = (thought.is_some() || !own.is_empty()).then(|| {
            let mut state = Map::new();
            if let Some((key, _)) = thought {
                state.insert("field".into(), key.into());
            }
            if !own.is_empty() {
                state.insert("details".into(), own.into());
            }
            let text = thought.map(|(_, text)| text.to_owned()).unwrap_or_default();
            Reasoning { text, native: self.native(state) }
        });
        let mut calls = Vec::new();
        let list =
            optional(object.get("tool_calls").unwrap_or(&Value::Null), field, "a list of calls", Value::as_array)?;
        for (place, call) in list.into_iter().flatten().enumerate() {
            calls.push(self.call(call, &format!("{field}.tool_calls[{place}]"))?);
        }
        // The ancestor of tool calls.
        if let Some(function) = object.get("function_call").filter(|call| call.is_object()) {
            calls.push(self.call(&json!({ "function": function }), &format!("{field}.function_call"))?);
        }
        let known = [
            "role",
            "content",
            "refusal",
            "tool_calls",
            "function_call",
            "reasoning_content",
            "reasoning",
            "reasoning_details",
        ];
        let mut native = beyond(object, &known);
        if places.is_some() {
            // Whoever gave them has them in what we sealed.
            native.shift_remove("annotations");
        }
        let native = self.native(native);
        match places {
            Some(places) => self.placed(places, parts, native, calls),
            None => {
                let has_more = !calls.is_empty() || reasoning.is_some();
                if let Some(reasoning) = reasoning {
                    self.push(Origin::Model, reasoning);
                }
                if !parts.is_empty() || native.is_some() || !has_more {
                    self.push(Origin::Model, Message { role: Role::Assistant, parts, native });
                }
                for call in calls {
                    self.push(Origin::Model, call);
                }
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, field: &str) -> Result<ToolCall, RequestError> {
        let object = call.as_object().ok_or_else(|| RequestError::field(field, "expected an object"))?;
        let kind = if object.contains_key("custom") { "custom" } else { "function" };
        let inner = object.get(kind).and_then(Value::as_object);
        let inner = inner.ok_or_else(|| RequestError::field(format!("{field}.{kind}"), "expected an object"))?;
        let name = inner.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| RequestError::field(format!("{field}.{kind}.name"), "expected a name"))?;
        let name = ToolName::new(name);
        let mut native = beyond(object, &["id", "type", "index", kind]);
        let arguments = if kind == "custom" {
            native.insert("type".into(), kind.into());
            Arguments::from_text(json!({"input": inner.get("input").unwrap_or(&Value::Null)}).to_string())
        } else {
            Arguments::from_value(inner.get("arguments").unwrap_or(&Value::Null))
        };
        let wire_id = object.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
        let id: CallId = self.env.new_id();
        self.calls.note(Some(wire_id.as_deref().unwrap_or(name.as_str())), id.clone(), name.clone());
        Ok(ToolCall { id, provider_id: wire_id, name, arguments, native: self.native(native) })
    }

    /// A message whose places are told by what we sealed when we sent it.
    fn placed(&mut self, places: Vec<Place>, parts: Vec<Part>, native: Option<Native>, mut calls: Vec<ToolCall>) {
        let said: String = parts.iter().filter_map(Part::as_text).collect();
        let mut end = 0usize;
        let mut is_cuttable = true;
        for place in &places {
            if let Place::Text(length, _) | Place::Refusal(length) = place {
                end = end.saturating_add(*length);
                is_cuttable &= said.is_char_boundary(end);
            }
        }
        // Somebody changed the text: it stays whole, at its first place.
        let is_whole = !is_cuttable || end != said.len() || parts.iter().any(|part| part.as_text().is_none());
        let (mut at, mut parts) = (0, Some(parts));
        let mut native = native;
        for place in places {
            match place {
                Place::Reasoning(text, native) => self.push(Origin::Model, Reasoning { text, native }),
                Place::Text(..) | Place::Refusal(_) if is_whole => {
                    if let Some(parts) = parts.take() {
                        self.push(Origin::Model, Message { role: Role::Assistant, parts, native: native.take() });
                    }
                }
                Place::Text(length, state) => {
                    let text = said.get(at..at + length).unwrap_or_default();
                    at += length;
                    let part = Part::Text(Text { native: state, ..Text::new(text) });
                    self.push(
                        Origin::Model,
                        Message { role: Role::Assistant, parts: vec![part], native: native.take() },
                    );
                }
                Place::Refusal(length) => {
                    let text = said.get(at..at + length).unwrap_or_default();
                    at += length;
                    self.push(
                        Origin::Model,
                        Message { role: Role::Assistant, parts: vec![Part::text(text)], native: native.take() },
                    );
                }
                Place::Call(id, state) => {
                    if let Some(found) = calls.iter().position(|call| call.provider_id.as_deref() == Some(&id)) {
                        let mut call = calls.remove(found);
                        call.native = state.or(call.native);
                        self.push(Origin::Model, call);
                    }
                }
                Place::Whole(body) => self.push(Origin::Model, *body),
            }
        }
        if let Some(parts) = parts.take().filter(|parts| is_whole && !parts.is_empty()) {
            self.push(Origin::Model, Message { role: Role::Assistant, parts, native });
        }
        for call in calls {
            self.push(Origin::Model, call);
        }
    }
}
