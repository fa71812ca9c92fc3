//! Tools of ours and of clients: functions, custom tools, namespaces, and tools that come in the middle of a conversation.

use super::hosted;
use super::parts::{native, rest, word};
use super::write::{List, Object};
use super::{Dialect, decode};
use crate::encoded::Omissions;
use crate::names::{Names, alias};
use crate::request::RequestError;
use crate::schema::fits_strict;
use crate::tools::{ObjectSchema, object_schema};
use placet_core::hosted::HostedTool;
use placet_core::{Effect, ProviderError, ProviderId, Schema, ToolDefinition, ToolName, TurnRequest};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Where the native value of a tool says which item of the conversation brought it: the how-manieth of its kind.
pub(super) const ADDITIONAL: &str = "additional_tools";
/// The number of tools that an item of another kind brought, which is always written as it came.
pub(super) const HELD: usize = usize::MAX;
/// Where the native value of a tool holds the namespace it stands in: an object with `name` and what else it has.
const NAMESPACE: &str = "namespace";

/// The tools of a client's request.
#[derive(Default)]
pub(super) struct Tools {
    pub(super) functions: Vec<ToolDefinition>,
    pub(super) hosted: Vec<HostedTool>,
    /// What the functions are called.
    names: HashSet<String>,
}

impl Tools {
    /// Takes the tools of a list: of the request, or of the item of the conversation that `additional` numbers.
    pub(super) fn take(
        &mut self,
        list: &Value,
        place: &str,
        additional: Option<usize>,
        provider: &ProviderId,
    ) -> Result<(), RequestError> {
        let list = match list {
            Value::Null => return Ok(()),
            Value::Array(list) => list,
            _ => return Err(RequestError::field(place, "expected a list of tools")),
        };
        for (i, tool) in list.iter().enumerate() {
            self.take_one(tool, &format!("{place}[{i}]"), additional, provider)?;
        }
        Ok(())
    }

    /// Takes one tool of such a list.
    pub(super) fn take_one(
        &mut self,
        tool: &Value,
        place: &str,
        additional: Option<usize>,
        provider: &ProviderId,
    ) -> Result<(), RequestError> {
        let Some(map) = tool.as_object() else {
            return Err(RequestError::field(place, "expected a tool: an object with a `type`"));
        };
        match word(map, "type") {
            Some("function" | "custom") => self.function(map, place, None, additional, provider)?,
            Some("namespace") => {
                let Some(name) = word(map, "name") else {
                    return Err(RequestError::field(format!("{place}.name"), "expected the namespace's name"));
                };
                let space = rest(map, &["type", "tools"]);
                let inner = map.get("tools").and_then(Value::as_array).into_iter().flatten();
                for (j, tool) in inner.enumerate() {
                    let place = format!("{place}.tools[{j}]");
                    let Some(map) = tool.as_object() else {
                        return Err(RequestError::field(place, "expected a tool: an object with a `type`"));
                    };
                    self.function(map, &place, Some((name, &space)), additional, provider)?;
                }
            }
            _ => self.hosted.push(hosted::decode(map, additional, provider)),
        }
        Ok(())
    }

    fn function(
        &mut self,
        map: &Map<String, Value>,
        place: &str,
        space: Option<(&str, &Map<String, Value>)>,
        additional: Option<usize>,
        provider: &ProviderId,
    ) -> Result<(), RequestError> {
        // The older form, in which the chat protocol has them.
        let inner = map.get("function").and_then(Value::as_object);
        let said = inner.unwrap_or(map);
        let Some(bare) = word(said, "name") else {
            return Err(RequestError::field(format!("{place}.name"), "expected the tool's name"));
        };
        let is_custom = word(map, "type") == Some("custom");
        let mut value =
            rest(said, &["type", "name", "description", "parameters", "strict", NAMESPACE, ADDITIONAL, "function"]);
        let schema = if is_custom {
            value.insert("type".into(), "custom".into());
            json!({
                "type": "object",
                "properties": {"input": {"type": "string", "description": "The whole input, as free text."}},
                "required": ["input"],
                "additionalProperties": false,
            })
        } else {
            let parameters = said.get("parameters").filter(|schema| schema.is_object()).cloned();
            parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}))
        };
        let mut name = bare.to_owned();
        let full = space.map_or_else(|| bare.to_owned(), |(space, _)| format!("{space}__{bare}"));
        // What was found twice is one tool.
        if additional == Some(HELD) && self.names.contains(&full) {
            return Ok(());
        }
        if let Some((space_name, space)) = space {
            name = free_name(space_name, bare, |name| self.names.contains(name));
            value.insert(NAMESPACE.into(), Value::Object(space.clone()));
            value.insert("name".into(), bare.into());
        }
        if let Some(number) = additional {
            value.insert(ADDITIONAL.into(), number.into());
        }
        let description = word(said, "description").unwrap_or_default();
        let mut tool = ToolDefinition::new(name, description, Schema::new(schema), Effect::Once);
        tool.strict = said.get("strict").and_then(Value::as_bool).or(strict_unsaid(&tool).filter(|_| !is_custom));
        tool.native = native(provider, value);
        self.push(tool);
        Ok(())
    }

    pub(super) fn push(&mut self, tool: ToolDefinition) {
        self.names.insert(tool.name.as_str().to_owned());
        self.functions.push(tool);
    }
}

/// What is meant where nothing is said of strictness: the protocol holds a model to the schema of a tool that it can be held to.
pub(super) fn strict_unsaid(tool: &ToolDefinition) -> Option<bool> {
    const CLOSES: &[u8] = b"\"additionalProperties\"";
    let may_fit =
        tool.schema.as_text().is_none_or(|text| memchr::memmem::find(text.get().as_bytes(), CLOSES).is_some());
    (may_fit && fits_strict(tool.schema.as_value())).then_some(true)
}

/// The name of a tool of a namespace: `namespace__tool`, unless a tool of that name stands there already.
fn free_name(space: &str, bare: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let name = format!("{space}__{bare}");
    if is_taken(&name) { format!("{space}.{bare}") } else { name }
}

/// How a tool goes by on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireName<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Cow<'a, str>,
    pub(super) is_custom: bool,
}

/// What only this provider understands of a tool.
fn own<'a>(tool: &'a ToolDefinition, provider: &ProviderId) -> Option<&'a Map<String, Value>> {
    tool.native.as_ref().filter(|native| native.provider == *provider)?.value.as_object()
}

fn wire_name<'a>(tool: &'a ToolDefinition, provider: &ProviderId, dialect: &Dialect) -> WireName<'a> {
    let own = own(tool, provider);
    let namespace = own
        .and_then(|own| own.get(NAMESPACE)?.as_object())
        .and_then(|space| word(space, "name"))
        .filter(|_| dialect.namespaces);
    let bare = own.and_then(|own| word(own, "name")).filter(|_| namespace.is_some());
    WireName {
        namespace,
        name: alias(bare.unwrap_or(tool.name.as_str())),
        is_custom: dialect.custom_tools && own.and_then(|own| word(own, "type")) == Some("custom"),
    }
}

/// How the tools of a request go by on the wire.
pub(super) fn wire_names<'a>(request: &'a TurnRequest, dialect: &Dialect) -> HashMap<&'a str, WireName<'a>> {
    let names = request.tools.iter().map(|tool| (tool.name.as_str(), wire_name(tool, &dialect.provider, dialect)));
    names.collect()
}

/// The names that an answer is to be read with.
pub(super) fn names(request: &TurnRequest, dialect: &Dialect) -> Names {
    let mut names = Names::of(request.tools.iter().map(|tool| &tool.name));
    for tool in &request.tools {
        let wire = wire_name(tool, &dialect.provider, dialect);
        if let Some(namespace) = wire.namespace {
            names.note_in(namespace, &wire.name, tool.name.clone());
        }
    }
    names
}

/// Writes the tools of a request: those that stand in no item of the conversation, or those of one such item.
pub(super) fn write_tools(
    request: &TurnRequest,
    additional: Option<u64>,
    dialect: &Dialect,
    omitted: &mut Omissions,
    list: &mut List<'_>,
) -> Result<(), ProviderError> {
    let number = |tool: &ToolDefinition| own(tool, &dialect.provider).and_then(|own| own.get(ADDITIONAL)?.as_u64());
    let tools = request.tools.iter().filter(|tool| number(tool) == additional);
    let mut tools = tools.peekable();
    let space = |tool: &ToolDefinition| {
        let space = own(tool, &dialect.provider)?.get(NAMESPACE)?.as_object()?.clone();
        dialect.namespaces.then_some(space)
    };
    while let Some(tool) = tools.next() {
        let Some(shared) = space(tool) else {
            write_function(tool, dialect, omitted, list.next())?;
            continue;
        };
        let mut object = Object::new(list.next());
        object.field("type", "namespace");
        object.merge(&shared, &[]);
        let mut inner = List::new(object.key("tools"));
        write_function(tool, dialect, omitted, inner.next())?;
        while let Some(tool) = tools.next_if(|tool| space(tool).as_ref() == Some(&shared)) {
            write_function(tool, dialect, omitted, inner.next())?;
        }
        inner.end();
        object.end();
    }
    Ok(())
}

fn write_function(
    tool: &ToolDefinition,
    dialect: &Dialect,
    omitted: &mut Omissions,
    out: &mut Vec<u8>,
) -> Result<(), ProviderError> {
    if tool.cache.is_some() {
        omitted.add("tool.cache", "this protocol marks no tool");
    }
    let none = Map::new();
    let own = match &tool.native {
        Some(native) if native.provider != dialect.provider => {
            omitted.add("tool.native", "it belongs to another provider");
            &none
        }
        Some(native) => native.value.as_object().unwrap_or(&none),
        None => &none,
    };
    let wire = wire_name(tool, &dialect.provider, dialect);
    let mut object = Object::new(out);
    object.field("type", if wire.is_custom { "custom" } else { "function" });
    object.field("name", &wire.name);
    if !tool.description.is_empty() || !wire.is_custom {
        object.field("description", &tool.description);
    }
    let mut known = vec!["type", "name", "description", NAMESPACE, ADDITIONAL];
    if wire.is_custom {
        object.merge(own, &known);
        object.end();
        return Ok(());
    }
    if own.get("type").is_some_and(|kind| kind == "custom") {
        if own.get("format").is_some_and(|format| format["type"] != "text") {
            omitted.add("tool.grammar", "the model is not held to it");
        }
        known.push("format");
    }
    if dialect.closed_schemas {
        object.field("parameters", &ObjectSchema(&tool.schema));
    } else {
        let mut schema = object_schema(&tool.schema);
        open_schema(&mut schema);
        object.field("parameters", &schema);
    }
    // The protocol takes an absent one for `true`.
    if dialect.strict_tools {
        object.field("strict", &tool.strict.unwrap_or(false));
    } else if tool.strict == Some(true) {
        omitted.add("tool.strict", "the server does not hold a model to a tool's schema");
    }
    known.extend(["parameters", "strict"]);
    object.merge(own, &known);
    object.end();
    Ok(())
}

/// Takes `additionalProperties: false` out, at every depth.
fn open_schema(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if map.get("additionalProperties") == Some(&Value::Bool(false)) {
                map.shift_remove("additionalProperties");
            }
            map.values_mut().for_each(open_schema);
        }
        Value::Array(list) => list.iter_mut().for_each(open_schema),
        _ => {}
    }
}

/// Whether an item holds tools that the client found when the model searched for some: they are declared by it.
pub(super) fn is_found(item: &Value) -> bool {
    item["type"] == "tool_search_output" && item["execution"] == "client"
}

/// What a client calls the tools that it declared: for writing calls of them in its own words.
#[derive(Debug, Default)]
pub(super) struct ClientTools(HashMap<String, ClientTool>);

/// How a client calls one of its tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientTool {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) is_custom: bool,
}

impl ClientTools {
    /// The tools of a client's request, wherever they stand in it.
    pub(super) fn of(body: Option<&Value>) -> Self {
        let Some(body) = body else { return ClientTools::default() };
        let in_items = body.get("input").and_then(Value::as_array).into_iter().flatten();
        let lists = std::iter::once(body).chain(in_items.filter(|item| item["type"] == ADDITIONAL || is_found(item)));
        let (mut found, mut names) = (HashMap::new(), HashSet::new());
        for tool in lists.filter_map(|place| place.get("tools")?.as_array()).flatten().filter_map(Value::as_object) {
            let space = word(tool, "name").filter(|_| word(tool, "type") == Some("namespace"));
            let inner = tool.get("tools").and_then(Value::as_array).filter(|_| space.is_some());
            let inner = inner.map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_object).collect());
            for tool in if space.is_some() { inner } else { vec![tool] } {
                let said = tool.get("function").and_then(Value::as_object).unwrap_or(tool);
                let Some(bare) = word(said, "name") else { continue };
                let is_taken = |name: &str| {
                    let known: Option<&ClientTool> = found.get(name);
                    // The same tool again is no other one.
                    names.contains(name) && known.is_none_or(|known| known.namespace.as_deref() != space)
                };
                let name = space.map_or_else(|| bare.to_owned(), |space| free_name(space, bare, is_taken));
                let is_custom = word(tool, "type") == Some("custom");
                if space.is_some() || is_custom {
                    let namespace = space.map(str::to_owned);
                    found.insert(name.clone(), ClientTool { name: bare.to_owned(), namespace, is_custom });
                }
                names.insert(name);
            }
        }
        ClientTools(found)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, name: &str) -> Option<&ClientTool> {
        self.0.get(name)
    }

    /// The tool that a client calls so, and our name of it.
    pub(super) fn find(&self, namespace: Option<&str>, name: &str) -> Option<(ToolName, &ClientTool)> {
        let mut tools = self.0.iter();
        let found = tools.find(|(_, tool)| tool.name == name && tool.namespace.as_deref() == namespace);
        found.map(|(name, tool)| (ToolName::new(name), tool))
    }
}

/// The input of a custom tool, from the arguments that stand for it; arguments of another form are the input themselves.
pub(super) fn custom_input(arguments: &str) -> Cow<'_, str> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Input {
        input: String,
    }
    match serde_json::from_str::<Input>(arguments) {
        Ok(Input { input }) => Cow::Owned(input),
        Err(_) => Cow::Borrowed(arguments),
    }
}

/// The arguments that stand for the input of a custom tool.
pub(super) fn custom_arguments(input: &str) -> String {
    let mut out = decode::INPUT_OPENS.trim_end_matches('"').as_bytes().to_vec();
    super::write::value(&mut out, input);
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}
