//! A tool definition as plain JSON, in the form of each protocol that takes one.
//!
//! A form is a pure function of the definition, so its bytes are the same from turn to turn. Names are written as they
//! are: a provider that takes fewer characters is served by the aliases of [`crate::names`], which the encoders apply.
//!
//! | form | singular | plural: what stands in the protocol's `tools` field |
//! |---|---|---|
//! | Anthropic Messages | `{name, description, input_schema}` | an array of them |
//! | OpenAI Responses | `{type: function, name, description, parameters, strict}` | an array of them |
//! | OpenAI Chat | `{type: function, function: {name, description, parameters}}` | an array of them |
//! | Gemini | `{name, description, parametersJsonSchema}` | `[{functionDeclarations: […]}]` |
//! | MCP | `{name, description, inputSchema, annotations}` | an array of them |

use crate::json::{self, Fields, Node};
use placet_core::{Effect, Schema, ToolDefinition};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

/// A tool for the Anthropic Messages protocol.
#[must_use]
pub fn anthropic(tool: &ToolDefinition) -> Value {
    let mut form = named(tool, tool.name.as_str());
    form.insert("input_schema".into(), object_schema(&tool.schema));
    if let Some(strict) = tool.strict {
        form.insert("strict".into(), strict.into());
    }
    Value::Object(form)
}

/// Tools for the Anthropic Messages protocol, in their order.
pub fn anthropic_all<'a>(tools: impl IntoIterator<Item = &'a ToolDefinition>) -> Value {
    tools.into_iter().map(anthropic).collect()
}

/// A tool for the OpenAI Responses protocol.
///
/// `strict` is always written, because this protocol takes an absent one for `true`.
#[must_use]
pub fn openai_responses(tool: &ToolDefinition) -> Value {
    let mut form = Map::new();
    form.insert("type".into(), "function".into());
    form.extend(named(tool, tool.name.as_str()));
    form.insert("parameters".into(), object_schema(&tool.schema));
    form.insert("strict".into(), tool.strict.unwrap_or(false).into());
    Value::Object(form)
}

/// Tools for the OpenAI Responses protocol, in their order.
pub fn openai_responses_all<'a>(tools: impl IntoIterator<Item = &'a ToolDefinition>) -> Value {
    tools.into_iter().map(openai_responses).collect()
}

/// A tool for the OpenAI Chat protocol.
#[must_use]
pub fn openai_chat(tool: &ToolDefinition) -> Value {
    openai_chat_as(tool, tool.name.as_str(), tool.strict)
}

/// Tools for the OpenAI Chat protocol, in their order.
pub fn openai_chat_all<'a>(tools: impl IntoIterator<Item = &'a ToolDefinition>) -> Value {
    tools.into_iter().map(openai_chat).collect()
}

/// The chat form under another name and with another strictness.
pub(crate) fn openai_chat_as(tool: &ToolDefinition, name: &str, strict: Option<bool>) -> Value {
    let mut function = named(tool, name);
    function.insert("parameters".into(), object_schema(&tool.schema));
    if let Some(strict) = strict {
        function.insert("strict".into(), strict.into());
    }
    json!({"type": "function", "function": function})
}

/// A function declaration for Gemini. The schema stands in `parametersJsonSchema`, which takes JSON Schema as it is;
/// the older `parameters` knows a subset and refuses the whole request for one keyword beyond it.
#[must_use]
pub fn gemini(tool: &ToolDefinition) -> Value {
    let mut form = named(tool, tool.name.as_str());
    form.insert("parametersJsonSchema".into(), object_schema(&tool.schema));
    Value::Object(form)
}

/// The `tools` of a Gemini request: one entry that holds all declarations in their order, or none without tools.
pub fn gemini_all<'a>(tools: impl IntoIterator<Item = &'a ToolDefinition>) -> Value {
    let declarations: Vec<Value> = tools.into_iter().map(gemini).collect();
    if declarations.is_empty() { json!([]) } else { json!([{ "functionDeclarations": declarations }]) }
}

/// A tool as an MCP server lists it. The annotations follow from the effect; a tool that changes something is called
/// destructive, because nothing here says that it is not.
#[must_use]
pub fn mcp(tool: &ToolDefinition) -> Value {
    let mut form = named(tool, tool.name.as_str());
    form.insert("inputSchema".into(), object_schema(&tool.schema));
    let is_read = tool.effect == Effect::Read;
    form.insert(
        "annotations".into(),
        json!({
            "readOnlyHint": is_read,
            "destructiveHint": !is_read,
            "idempotentHint": tool.effect != Effect::Once,
        }),
    );
    Value::Object(form)
}

/// Tools as an MCP server lists them, in their order.
pub fn mcp_all<'a>(tools: impl IntoIterator<Item = &'a ToolDefinition>) -> Value {
    tools.into_iter().map(mcp).collect()
}

fn named(tool: &ToolDefinition, name: &str) -> Map<String, Value> {
    let mut form = Map::new();
    form.insert("name".into(), name.into());
    form.insert("description".into(), tool.description.as_str().into());
    form
}

/// The schema with `type` and `properties` at its root, which providers insist on even for a tool without arguments.
pub(crate) fn object_schema(schema: &Schema) -> Value {
    let root = match schema.as_value() {
        Value::Object(root) => root,
        // Arguments are an object, so that a schema that takes everything takes every object.
        Value::Bool(true) => &Map::new(),
        other => return other.clone(),
    };
    let mut root = root.clone();
    if !root.contains_key("type") {
        root.insert("type".into(), "object".into());
    }
    if !root.contains_key("properties") && root.get("type").and_then(Value::as_str) == Some("object") {
        root.insert("properties".into(), json!({}));
    }
    Value::Object(root)
}

/// A client's tool of which nothing is said but its name, what it does, its schema and whether that is to be kept to strictly;
/// nothing where one of these is not as it should be.
pub(crate) fn client_tool(fields: &Fields<'_>, schema: &Node<'_>) -> Option<ToolDefinition> {
    let name = fields.text("name").filter(|name| !name.is_empty())?;
    let description = match fields.given("description") {
        Some(description) => description.as_str()?,
        None => "",
    };
    let mut definition = ToolDefinition::new(name, description, client_schema(schema), Effect::Once);
    definition.strict = match fields.given("strict") {
        Some(Node::Bool(strict)) => Some(*strict),
        Some(_) => return None,
        None => None,
    };
    Some(definition)
}

/// A schema of a client's. One that says its `type` and `properties` is kept as the text that it is.
fn client_schema(schema: &Node<'_>) -> Schema {
    let text = || match schema {
        Node::Schema(schema) => json::verbatim(Some(schema.text).filter(|_| schema.is_typed)?),
        Node::Object(fields) if fields.get("type").is_some() && fields.get("properties").is_some() => {
            json::verbatim(std::str::from_utf8(&json::to_vec(schema).ok()?).ok()?)
        }
        _ => None,
    };
    text().map_or_else(|| Schema::new(schema.to_value()), Schema::from_text)
}

/// Tells a grammar at the end of a description.
pub(crate) fn tell_grammar(description: &mut String, grammar: &Value) {
    let word = |key: &str| grammar.get(key).and_then(Value::as_str);
    let Some(definition) = word("definition") else { return };
    let syntax = word("syntax").map_or(String::new(), |syntax| format!(" {syntax}"));
    let space = if description.is_empty() { "" } else { "\n\n" };
    description.push_str(&format!("{space}What it is called with has to match this{syntax} grammar:\n{definition}"));
}

/// Writes what [`object_schema`] is.
pub(crate) struct ObjectSchema<'a>(pub(crate) &'a Schema);

impl Serialize for ObjectSchema<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = self.0.as_text() {
            return text.serialize(serializer);
        }
        let none = Map::new();
        let root = match self.0.as_value() {
            Value::Object(root) => root,
            Value::Bool(true) => &none,
            other => return other.serialize(serializer),
        };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in root {
            map.serialize_entry(key, value)?;
        }
        let kind = root.get("type");
        if kind.is_none() {
            map.serialize_entry("type", "object")?;
        }
        if !root.contains_key("properties") && kind.is_none_or(|kind| kind == "object") {
            map.serialize_entry("properties", &Map::new())?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::value::RawValue;

    fn tool(effect: Effect) -> ToolDefinition {
        ToolDefinition {
            name: "read".into(),
            description: "Reads a file.".to_owned(),
            schema: Schema::new(
                json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
            ),
            effect,
            revision_argument: None,
            strict: None,
            cache: None,
            native: None,
        }
    }

    #[test]
    fn each_protocol_has_its_form() {
        let tool = tool(Effect::Read);
        let schema = tool.schema.as_value();
        assert_eq!(anthropic(&tool), json!({"name": "read", "description": "Reads a file.", "input_schema": schema}));
        assert_eq!(
            openai_responses(&tool),
            json!({
                "type": "function", "name": "read", "description": "Reads a file.", "parameters": schema, "strict": false
            })
        );
        assert_eq!(
            openai_chat(&tool),
            json!({"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": schema}})
        );
        assert_eq!(
            gemini(&tool),
            json!({"name": "read", "description": "Reads a file.", "parametersJsonSchema": schema})
        );
        assert_eq!(gemini_all([&tool]), json!([{"functionDeclarations": [gemini(&tool)]}]));
        assert_eq!(gemini_all([]), json!([]));
        assert_eq!(mcp_all([&tool, &tool]), json!([mcp(&tool), mcp(&tool)]));
    }

    #[test]
    fn strictness_is_written_where_it_was_asked_for() {
        let tool = ToolDefinition { strict: Some(true), ..tool(Effect::Read) };
        assert_eq!(anthropic(&tool)["strict"], json!(true));
        assert_eq!(openai_chat(&tool)["function"]["strict"], json!(true));
        assert_eq!(openai_responses(&tool)["strict"], json!(true));
    }

    #[test]
    fn annotations_follow_from_the_effect() {
        let hints = |effect| {
            let form = mcp(&tool(effect));
            ["readOnlyHint", "destructiveHint", "idempotentHint"].map(|hint| form["annotations"][hint] == json!(true))
        };
        assert_eq!(hints(Effect::Read), [true, false, true]);
        assert_eq!(hints(Effect::Idempotent), [false, true, true]);
        assert_eq!(hints(Effect::Once), [false, true, false]);
    }

    #[test]
    fn a_schema_is_written_as_the_form_of_it() {
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "string"}),
            json!({"$ref": "#/a"}),
            json!({"properties": {}, "type": "object"}),
        ] {
            let schema = Schema::new(schema);
            assert_eq!(json!(ObjectSchema(&schema)).to_string(), object_schema(&schema).to_string());
        }
    }

    #[test]
    fn a_clients_schema_stays_the_text_that_it_was() {
        let read = |text: &str| client_schema(&json::read(&text.into()).expect("JSON"));
        for (text, kept) in [
            (r#"{"type":"object","properties":{"a":{"maximum":1.50}}}"#, true),
            (r#"{"properties" : {}, "type": "object"}"#, true),
            (r#"{"type":"object"}"#, false),
            ("true", false),
        ] {
            let schema = read(text);
            assert_eq!(*schema.as_value(), serde_json::from_str::<Value>(text).expect("JSON"));
            assert_eq!(schema.as_text().is_some(), kept, "{text}");
            assert_eq!(json!(ObjectSchema(&schema)), object_schema(&schema));
        }
        let compact = read(r#"{"properties" : {}, "type": "object"}"#);
        assert_eq!(compact.as_text().map(RawValue::get), Some(r#"{"properties":{},"type":"object"}"#));
    }

    #[test]
    fn a_schema_without_fields_still_says_that_it_is_an_object() {
        let tool = ToolDefinition { schema: Schema::new(json!({})), ..tool(Effect::Read) };
        assert_eq!(anthropic(&tool)["input_schema"], json!({"type": "object", "properties": {}}));
    }
}
