//! Telling apart and putting together the calls of an answer.

use super::decode::{SAID, word};
use crate::names::Names;
use placet_core::part::Native;
use placet_core::turn::CallDelta;
use placet_core::{ProviderId, TurnEvent};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// A piece of a call, as it came.
#[derive(Debug)]
pub(super) struct Piece<'v> {
    pub(super) index: Option<u64>,
    pub(super) id: Option<&'v str>,
    pub(super) name: Option<&'v str>,
    pub(super) arguments: Cow<'v, str>,
    /// The arguments came as an object, not as the text of one.
    pub(super) is_object: bool,
    /// The tool takes a text, not JSON.
    pub(super) is_custom: bool,
    /// What has no name of ours.
    pub(super) beyond: Map<String, Value>,
}

impl<'v> Piece<'v> {
    pub(super) fn of(piece: &'v Value, index: Option<u64>) -> Self {
        let custom = piece.get("custom").filter(|custom| custom.is_object());
        let function = piece.get("function").filter(|function| function.is_object()).or(custom).unwrap_or(&Value::Null);
        let arguments = function.get("arguments").or_else(|| function.get("input"));
        let known = |key: &str| matches!(key, "index" | "id" | "type" | "function" | "custom");
        let beyond = piece.as_object().into_iter().flatten().filter(|(key, value)| !known(key) && !value.is_null());
        Piece {
            index,
            id: word(piece, "id"),
            name: word(function, "name"),
            arguments: match arguments {
                Some(Value::String(text)) => Cow::Borrowed(text),
                Some(Value::Null) | None => Cow::Borrowed(""),
                Some(value) => Cow::Owned(value.to_string()),
            },
            is_object: arguments.is_some_and(Value::is_object),
            is_custom: custom.is_some(),
            beyond: beyond.map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }
}

#[derive(Debug, Default)]
struct OpenCall {
    wire_index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
    is_custom: bool,
}

impl OpenCall {
    fn is_whole(&self) -> bool {
        !self.arguments.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }
}

/// The calls so far.
#[derive(Debug)]
pub(super) struct Calls {
    provider: ProviderId,
    names: Names,
    calls: Vec<OpenCall>,
}

impl Calls {
    pub(super) fn new(provider: ProviderId, names: Names) -> Self {
        Calls { provider, names, calls: Vec::new() }
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.calls.len()).unwrap_or(u32::MAX / 2)
    }

    /// Whether there are calls and all of them have whole arguments.
    pub(super) fn are_whole(&self) -> bool {
        !self.calls.is_empty() && self.calls.iter().all(|call| call.is_custom || call.is_whole())
    }

    /// Takes the piece at `position` of `siblings` that came together.
    pub(super) fn take(&mut self, piece: Piece<'_>, position: usize, siblings: usize, out: &mut Vec<TurnEvent>) {
        let Piece { index, id, name, arguments, is_object, is_custom, beyond } = piece;
        let found = match index {
            Some(index) => self.by_index(index, id, name, &arguments),
            None => self.by_identity(id, name, &arguments, position, siblings),
        };
        let is_new = found.is_none();
        let place = match found {
            Some(place) => place,
            None if id.is_none() && name.is_none() && arguments.is_empty() => return,
            None => {
                self.calls.push(OpenCall { wire_index: index, is_custom, ..OpenCall::default() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        let mut delta =
            CallDelta { index: SAID + 1 + u32::try_from(place).unwrap_or(u32::MAX - 1), ..CallDelta::default() };
        if let (None, Some(id)) = (&call.id, id) {
            call.id = Some(id.to_owned());
            delta.provider_id = Some(id.to_owned());
        }
        if let (None, Some(name)) = (&call.name, name) {
            call.name = Some(name.to_owned());
            delta.name = Some(self.names.original(name).as_str().to_owned());
        }
        let mut native = beyond;
        if call.is_custom {
            // A text of any kind, told as the JSON that everybody else takes: `{"input": "…"}`.
            call.arguments.push_str(&arguments);
            delta.arguments = escaped(&arguments);
            if is_new {
                delta.arguments.insert_str(0, CUSTOM_HEAD);
                native.insert("type".into(), "custom".into());
            }
        } else if !(is_object && call.arguments == arguments) {
            // A server that repeats the whole object adds nothing.
            call.arguments.push_str(&arguments);
            delta.arguments = arguments.into_owned();
        }
        if !native.is_empty() {
            let native = Native { provider: self.provider.clone(), value: Value::Object(native) };
            delta.native = Some(native);
        }
        out.push(TurnEvent::Call(delta));
    }

    /// No more pieces come.
    pub(super) fn close(&mut self, out: &mut Vec<TurnEvent>) {
        for (place, _) in self.calls.iter().enumerate().filter(|(_, call)| call.is_custom) {
            let index = SAID + 1 + u32::try_from(place).unwrap_or(u32::MAX - 1);
            out.push(TurnEvent::Call(CallDelta { index, arguments: CUSTOM_TAIL.to_owned(), ..CallDelta::default() }));
        }
    }

    /// The open call that a piece with this index goes on. The same index with another id and a name is a new call, as is
    /// one with a name after arguments that are whole.
    fn by_index(&self, index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Option<usize> {
        let place = self.calls.iter().rposition(|call| call.wire_index == Some(index))?;
        let call = &self.calls[place];
        let is_other = match (id, &call.id) {
            (Some(id), Some(known)) => id != known && name.is_some(),
            (Some(_), None) | (None, _) => {
                name.is_some() && call.name.is_some() && !arguments.is_empty() && call.is_whole()
            }
        };
        (!is_other).then_some(place)
    }

    /// The open call that a piece without an index goes on: the one with its id; without an id and a name the last one, or
    /// the one at the same position of several; a name opens a new call unless it only repeats that of an unfinished one.
    fn by_identity(
        &self,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
        position: usize,
        siblings: usize,
    ) -> Option<usize> {
        if let Some(id) = id {
            return self.calls.iter().rposition(|call| call.id.as_deref() == Some(id));
        }
        let last = self.calls.len().checked_sub(1)?;
        let place =
            if siblings > 1 && siblings <= self.calls.len() { self.calls.len() - siblings + position } else { last };
        match name {
            None => Some(place),
            Some(name) => {
                let call = &self.calls[place];
                let repeats = call.name.as_deref() == Some(name) && !call.is_whole() && !arguments.starts_with('{');
                repeats.then_some(place)
            }
        }
    }
}

const CUSTOM_HEAD: &str = "{\"input\":\"";
const CUSTOM_TAIL: &str = "\"}";

/// A text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
