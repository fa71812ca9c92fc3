//! The pieces of a request as they are written. What is long stands in them as it came; a tree is made only of what is seldom.

use crate::json::Written;
use placet_core::SharedText;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The body of a request: fields, of which some are written from what stands beside them.
pub(super) struct Body<'a> {
    pub(super) fields: Map<String, Value>,
    /// What stands at `systemInstruction`, where the field says nothing.
    pub(super) system: Vec<PartForm<'a>>,
    /// What stands at `contents`, where the field says nothing.
    pub(super) contents: Vec<Content<'a>>,
    /// What stands at `functionDeclarations` in the first of the `tools`, where that says nothing.
    pub(super) declarations: Vec<Declaration<'a>>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in &self.fields {
            match (key.as_str(), value) {
                ("systemInstruction", Value::Null) => map.serialize_entry(key, &Parts(&self.system))?,
                ("contents", Value::Null) => map.serialize_entry(key, &self.contents)?,
                ("tools", Value::Array(tools)) => {
                    map.serialize_entry(key, &Tools { tools, declarations: &self.declarations })?;
                }
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

struct Parts<'p, 'a>(&'p [PartForm<'a>]);

impl Serialize for Parts<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("parts", self.0)?;
        map.end()
    }
}

struct Tools<'t, 'a> {
    tools: &'t [Value],
    declarations: &'t [Declaration<'a>],
}

impl Serialize for Tools<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct First<'t, 'a>(&'t Map<String, Value>, &'t [Declaration<'a>]);
        impl Serialize for First<'_, '_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in self.0 {
                    match (key.as_str(), value) {
                        ("functionDeclarations", Value::Null) => map.serialize_entry(key, self.1)?,
                        _ => map.serialize_entry(key, value)?,
                    }
                }
                map.end()
            }
        }
        match self.tools.split_first() {
            Some((Value::Object(first), rest)) => {
                use serde::ser::SerializeSeq;
                let mut list = serializer.serialize_seq(Some(self.tools.len()))?;
                list.serialize_element(&First(first, self.declarations))?;
                for tool in rest {
                    list.serialize_element(tool)?;
                }
                list.end()
            }
            _ => self.tools.serialize(serializer),
        }
    }
}

/// One content of the body.
pub(super) struct Content<'a> {
    /// `model` or `user`.
    pub(super) role: &'static str,
    /// Another word for the role, where the body that it came from has one.
    pub(super) word: Option<String>,
    pub(super) parts: Vec<PartForm<'a>>,
    pub(super) beside: Map<String, Value>,
    /// A content that nothing may be added to.
    pub(super) raw: Option<Value>,
    /// Holds results only, which a following message does not join.
    pub(super) results: bool,
}

impl Content<'_> {
    pub(super) fn new(role: &'static str) -> Self {
        Content { role, word: None, parts: Vec::new(), beside: Map::new(), raw: None, results: false }
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(raw) = &self.raw {
            return raw.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", self.word.as_deref().unwrap_or(self.role))?;
        map.serialize_entry("parts", &self.parts)?;
        for (key, value) in &self.beside {
            if !matches!(key.as_str(), "role" | "parts") {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

/// One part of a content.
pub(super) enum PartForm<'a> {
    Text(&'a SharedText),
    Call {
        id: Option<&'a str>,
        name: Cow<'a, str>,
        arguments: &'a RawValue,
        signature: Option<&'static str>,
    },
    /// A call with what stands beside it. Its arguments are written as they came, in place of those of the form.
    Signed {
        form: Map<String, Value>,
        arguments: &'a RawValue,
    },
    /// The result of a call, of which all is said by one text.
    Result {
        id: Option<&'a str>,
        name: Cow<'a, str>,
        /// `output` or `error`.
        key: &'static str,
        text: &'a SharedText,
    },
    Made(Value),
}

impl PartForm<'_> {
    pub(super) fn is_call(&self) -> bool {
        match self {
            PartForm::Call { .. } | PartForm::Signed { .. } => true,
            PartForm::Made(value) => value.get("functionCall").is_some(),
            PartForm::Text(_) | PartForm::Result { .. } => false,
        }
    }
}

impl Serialize for PartForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Inner<'i, T> {
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<&'i str>,
            name: &'i str,
            #[serde(skip_serializing_if = "Option::is_none")]
            args: Option<&'i RawValue>,
            #[serde(skip_serializing_if = "Option::is_none")]
            response: Option<T>,
        }
        if let PartForm::Made(value) = self {
            return value.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        match self {
            PartForm::Text(text) => map.serialize_entry("text", &Written(text))?,
            PartForm::Call { id, name, arguments, signature } => {
                let inner = Inner { id: *id, name, args: Some(arguments), response: None::<()> };
                map.serialize_entry("functionCall", &inner)?;
                if let Some(signature) = signature {
                    map.serialize_entry("thoughtSignature", signature)?;
                }
            }
            PartForm::Result { id, name, key, text } => {
                let response = Some(Only(key, text));
                map.serialize_entry("functionResponse", &Inner { id: *id, name, args: None, response })?;
            }
            PartForm::Signed { form, arguments } => {
                for (key, value) in form {
                    match value {
                        Value::Object(call) if key == "functionCall" => {
                            map.serialize_entry(key, &CallForm { call, arguments })?;
                        }
                        _ => map.serialize_entry(key, value)?,
                    }
                }
            }
            PartForm::Made(_) => {}
        }
        map.end()
    }
}

/// A call whose arguments stand beside it.
struct CallForm<'a> {
    call: &'a Map<String, Value>,
    arguments: &'a RawValue,
}

impl Serialize for CallForm<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.call.len()))?;
        for (key, value) in self.call {
            match key.as_str() {
                "args" => map.serialize_entry(key, self.arguments)?,
                _ => map.serialize_entry(key, value)?,
            }
        }
        map.end()
    }
}

/// An object of one text.
struct Only<'a>(&'static str, &'a SharedText);

impl Serialize for Only<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(self.0, &Written(self.1))?;
        map.end()
    }
}

/// What a tool is told as.
pub(super) enum Declaration<'a> {
    Plain { name: Cow<'a, str>, description: &'a str, schema: &'a RawValue },
    Made(Value),
}

impl Serialize for Declaration<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Declaration::Plain { name, description, schema } => {
                let mut map = serializer.serialize_map(Some(3))?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("description", description)?;
                map.serialize_entry("parametersJsonSchema", schema)?;
                map.end()
            }
            Declaration::Made(value) => value.serialize(serializer),
        }
    }
}
