//! Tool definitions, calls and their arguments.

use crate::id::{CallId, ProviderId, ToolName};
use crate::json_text::SharedText;
use crate::part::{CacheMark, Native};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What running a tool twice would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It changes nothing outside; it may be run again at will.
    Read,
    /// It changes something, but a repetition with the same idempotency key changes nothing more.
    Idempotent,
    /// It must happen at most once. An interrupted one is never run again by itself.
    Once,
}

impl Effect {
    /// Whether the intent of a call must be on disk before its handler starts.
    #[must_use]
    pub fn needs_intent(self) -> bool {
        self != Effect::Read
    }
}

/// A JSON Schema, as it is offered to models: field order is kept, the text is the same from turn to turn.
#[derive(Clone)]
pub struct Schema(Arc<SchemaForm>);

/// One of both is there from the beginning; the value is made of the text for the first who asks.
struct SchemaForm {
    text: Option<Box<RawValue>>,
    value: OnceLock<Value>,
}

impl Schema {
    /// A schema. Whether it is a valid one is checked where tools are put together.
    #[must_use]
    pub fn new(schema: Value) -> Self {
        Schema(Arc::new(SchemaForm { text: None, value: schema.into() }))
    }

    /// A schema that came as a text and mostly goes on as one: an object that has the fields `type` and `properties`. It is not read
    /// before somebody asks for its value.
    #[must_use]
    pub fn from_text(text: Box<RawValue>) -> Self {
        Schema(Arc::new(SchemaForm { text: Some(text), value: OnceLock::new() }))
    }

    /// The text, where the schema was made of one.
    #[must_use]
    pub fn as_text(&self) -> Option<&RawValue> {
        self.0.text.as_deref()
    }

    /// The schema of an object without fields.
    #[must_use]
    pub fn empty_object() -> Self {
        Schema::new(serde_json::json!({"type": "object", "properties": {}, "additionalProperties": false}))
    }

    /// The schema as JSON.
    #[must_use]
    pub fn as_value(&self) -> &Value {
        let read = || self.as_text().and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default();
        self.0.value.get_or_init(read)
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.as_value() == other.as_value()
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Schema::new)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_value())
    }
}

/// What a model is told of a tool. A definition cannot act: a handler is bound to it elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The name that the model calls it by.
    pub name: ToolName,
    /// What it does, when to use it, what it returns: for the model.
    pub description: String,
    /// The JSON Schema of its arguments: an object.
    pub schema: Schema,
    /// What running it twice would do.
    pub effect: Effect,
    /// The argument that names the revision which the caller's decision rests on, where the tool has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision_argument: Option<String>,
    /// Whether a provider may hold the model to the schema while it writes (a hint).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict: Option<bool>,
    /// Set where a provider's prompt cache may end its prefix after this tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheMark>,
    /// What only one provider understands of it: deferred loading, allowed callers, a grammar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<Native>,
}

impl ToolDefinition {
    /// A definition without what only some tools have: a revision, strictness, a cache mark, native fields.
    pub fn new(name: impl Into<ToolName>, description: impl Into<String>, schema: Schema, effect: Effect) -> Self {
        ToolDefinition {
            name: name.into(),
            description: description.into(),
            schema,
            effect,
            revision_argument: None,
            strict: None,
            cache: None,
            native: None,
        }
    }
}

/// A model's or a client's request to run a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Our own id, unique everywhere.
    pub id: CallId,
    /// The provider's id, to answer it with. May be missing, and may be used again by another call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Which tool.
    pub name: ToolName,
    /// With what.
    pub arguments: Arguments,
    /// What only the provider understands of it (a thought signature, for instance), to be sent back with it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "native_or_bare")]
    pub native: Option<Native>,
}

/// Journals of old hold the value alone. Whose it is they do not say, so that it goes back to nobody.
fn native_or_bare<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Native>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.map(|value| match serde_json::from_value(value.clone()) {
        Ok(native) => native,
        Err(_) => Native { provider: ProviderId::new("unknown"), value },
    }))
}

/// The arguments of a call, exactly as they were written.
///
/// Models write an empty text or `null` where they mean "no arguments", some gateways send an object instead of a text,
/// and a cut turn leaves half of one: so the text is kept as it came, and [`Arguments::parse`] says what it means.
#[derive(Clone, PartialEq, Eq)]
pub struct Arguments(SharedText);

impl Arguments {
    /// Arguments with this text.
    pub fn from_text(text: impl Into<SharedText>) -> Self {
        Arguments(text.into())
    }

    /// Arguments that came as a JSON value: a text is taken as the JSON it holds, anything else is written out.
    #[must_use]
    pub fn from_value(value: &Value) -> Self {
        match value {
            Value::String(text) => Arguments(text.as_str().into()),
            other => Arguments(other.to_string().into()),
        }
    }

    /// The text as it came.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.0
    }

    /// The text to replay to a provider as a JSON document had it, quotes included, where it came from one and there were some.
    #[must_use]
    pub fn replay_json(&self) -> Option<&str> {
        self.0.as_json().filter(|json| json.contains('{'))
    }

    /// The text to replay to a provider: `{}` where there were none.
    #[must_use]
    pub fn replay_text(&self) -> &str {
        if self.is_absent() { "{}" } else { &self.0 }
    }

    /// Whether the caller gave none: an empty text, `null`, or the text `"null"`.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self.0.trim(), "" | "null" | "\"null\"" | "\"\"")
    }

    /// The arguments as an object; absent ones are an empty object, and an object in a JSON string is unwrapped.
    ///
    /// # Errors
    /// [`MalformedArguments`] when the text is not JSON or not an object.
    pub fn parse(&self) -> Result<Map<String, Value>, MalformedArguments> {
        if self.is_absent() {
            return Ok(Map::new());
        }
        let value = match serde_json::from_str(&self.0) {
            Ok(Value::String(inner)) => serde_json::from_str(&inner),
            other => other,
        };
        match value {
            Ok(Value::Object(map)) => Ok(map),
            Ok(other) => Err(MalformedArguments::NotAnObject { found: json_kind(&other) }),
            Err(error) => Err(MalformedArguments::NotJson {
                problem: error.to_string(),
                incomplete: error.classify() == serde_json::error::Category::Eof,
            }),
        }
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Arguments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Arguments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Arguments(String::deserialize(deserializer)?.into()))
    }
}

/// The word JSON Schema uses for the type of a value.
#[must_use]
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Arguments that cannot be read as an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedArguments {
    /// The text is not JSON.
    #[error("the arguments are not valid JSON ({problem}); send one JSON object")]
    NotJson {
        /// What the parser said, with line and column.
        problem: String,
        /// Whether the text just ends too early, as in a turn that was cut.
        incomplete: bool,
    },
    /// The text is JSON, but no object.
    #[error("the arguments are of type {found}; send one JSON object")]
    NotAnObject {
        /// What arrived instead.
        found: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_a_text_is_the_schema_of_its_value() {
        let text = "{\"type\": \"object\", \"properties\": {\"a\": {\"maximum\": 1.50}}}";
        let value: Value = serde_json::from_str(text).expect("JSON");
        let schema = Schema::from_text(RawValue::from_string(text.to_owned()).expect("JSON"));
        assert_eq!(schema.as_text().map(RawValue::get), Some(text));
        assert_eq!(schema, Schema::new(value.clone()));
        assert_eq!(serde_json::to_value(&schema).expect("JSON"), value);
        assert_eq!(format!("{schema:?}"), value.to_string());
        assert_eq!(serde_json::from_value::<Schema>(value).expect("a schema"), schema);
    }

    #[test]
    fn every_way_of_saying_no_arguments_is_an_empty_object() {
        for text in ["", " ", "null", "\"null\"", "{}", " {} ", "\"\"", "\"{}\""] {
            assert_eq!(Arguments::from_text(text).parse(), Ok(Map::new()), "{text:?}");
        }
        assert_eq!(Arguments::from_value(&Value::Null).parse(), Ok(Map::new()));
        assert_eq!(Arguments::from_text("").replay_text(), "{}");
    }

    #[test]
    fn an_object_is_taken_as_a_text_or_as_it_is() {
        let wanted = serde_json::json!({"a": 1});
        for arguments in [
            Arguments::from_text("{\"a\":1}"),
            Arguments::from_value(&wanted),
            Arguments::from_value(&Value::String("{\"a\":1}".into())),
            Arguments::from_text("\"{\\\"a\\\":1}\""),
        ] {
            assert_eq!(arguments.parse().map(Value::Object), Ok(wanted.clone()));
        }
    }

    #[test]
    fn half_an_object_is_told_from_a_wrong_one() {
        let incomplete = |text: &str| match Arguments::from_text(text).parse() {
            Err(MalformedArguments::NotJson { incomplete, .. }) => Some(incomplete),
            _ => None,
        };
        assert_eq!(incomplete("{\"a\": \"hal"), Some(true));
        assert_eq!(incomplete("{\"a\": }"), Some(false));
        assert_eq!(Arguments::from_text("[1]").parse(), Err(MalformedArguments::NotAnObject { found: "array" }));
    }
}
