//! From a request of ours to the body of a `generateContent` request.

use super::parts::wire_name;
use super::write::{Body, Declaration};
use super::{Dialect, OutputSupport, SchemaForm, Thinking, hosted};
use crate::carry::{Takes, carry};
use crate::encoded::{Encoded, Omission, Omissions, room_for};
use crate::json;
use crate::names::Names;
use crate::protocol::Protocol;
use crate::schema::{SchemaError, bare_refs, from_openapi, object_root, to_openapi};
use crate::tiers;
use placet_core::id::ItemId;
use placet_core::turn::{CacheStrategy, OutputFormat, StateMode};
use placet_core::{ErrorKind, ProviderError, Schema, ToolChoice, ToolDefinition, TurnRequest};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The name of an output format whose schema has no title.
pub(super) const OUTPUT: &str = "output";

/// The body of a request. The operator's words and the tools stand before the contents, so that what stays the same from turn
/// to turn comes first. The model is no part of it: it stands in the path.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* for content, a constraint or a restriction that this server or protocol cannot
/// express, which it names; of kind *invalid request* for a conversation that no server takes (a call without its result).
/// Nothing is to be sent then.
pub fn encode_request(request: &TurnRequest, dialect: &Dialect) -> Result<Encoded, ProviderError> {
    let mut omitted = Omissions::default();
    let carried = carry(request, &dialect.provider, Protocol::Gemini, Takes::default(), &mut omitted)?;
    let (body, omitted) = written(&carried, dialect, None, omitted)?;
    let names = Names::of(carried.tools.iter().map(|tool| &tool.name));
    let body = json::to_vec_within(room_for(request), &body).map_err(unwritable)?;
    Ok(Encoded { body: body.into(), omitted, names })
}

/// The items that came from a client's body, and those that begin one of its contents.
#[derive(Default)]
pub(super) struct Places {
    pub(super) known: HashSet<ItemId>,
    pub(super) first: HashSet<ItemId>,
    /// Words for the user's role other than the usual one: `function`.
    pub(super) words: HashMap<ItemId, String>,
}

/// The body as a tree.
pub(super) fn encode(
    request: &TurnRequest,
    dialect: &Dialect,
    places: Option<&Places>,
) -> Result<(Map<String, Value>, Vec<Omission>), ProviderError> {
    let mut omitted = Omissions::default();
    let carried = carry(request, &dialect.provider, Protocol::Gemini, Takes::default(), &mut omitted)?;
    let (body, omitted) = written(&carried, dialect, places, omitted)?;
    match serde_json::to_value(&body) {
        Ok(Value::Object(fields)) => Ok((fields, omitted)),
        Ok(_) | Err(_) => Err(unwritable("it is no object")),
    }
}

fn unwritable(problem: impl std::fmt::Display) -> ProviderError {
    let problem = format!("the request cannot be written as JSON: {problem}");
    ProviderError::new(ErrorKind::Internal, "placet".into(), problem)
}

fn written<'a>(
    request: &'a TurnRequest,
    dialect: &'a Dialect,
    places: Option<&'a Places>,
    omitted: Omissions,
) -> Result<(Body<'a>, Vec<Omission>), ProviderError> {
    let mut encoder = Encoder { dialect, omitted, places };
    let mut native = match encoder.beside(request.native.as_ref(), "native") {
        Some(map) => map,
        None => Map::new(),
    };
    let mut body = Map::new();
    let (system, contents) = encoder.conversation(request)?;
    if let Some(content) = request.controls.cache.as_ref().and_then(|cache| cache.content.as_ref()) {
        body.insert("cachedContent".to_owned(), content.as_str().into());
    }
    if !system.is_empty() {
        body.insert("systemInstruction".to_owned(), Value::Null);
    }
    let declarations = encoder.tools(request, &mut body)?;
    encoder.restrictions(request, &mut body)?;
    let mut config = Map::new();
    encoder.controls(request, &mut config, &mut body)?;
    encoder.output(request, &mut config, &mut native)?;
    if !config.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(config));
    }
    if request.provider_state.is_some() {
        encoder.omitted.add("provider_state", "the whole conversation is sent; the server keeps nothing");
    }
    body.insert("contents".to_owned(), Value::Null);
    // What somebody else adds to is made a tree.
    let is_open = |key: &str| native.contains_key(key) || request.extra.contains_key(key);
    let keys = ["systemInstruction", "contents", "tools"];
    let mut body = Body { fields: body, system, contents, declarations };
    if keys.into_iter().any(is_open) {
        let Ok(Value::Object(fields)) = serde_json::to_value(&body) else { return Err(unwritable("it is no object")) };
        body.fields = fields;
    }
    merge_under(&mut body.fields, native);
    merge_over(&mut body.fields, &request.extra);
    Ok((body, encoder.omitted.0))
}

/// Puts fields into an object, where it has none of the name. Objects are put together.
fn merge_under(body: &mut Map<String, Value>, more: Map<String, Value>) {
    for (key, value) in more {
        match (body.get_mut(&key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge_under(known, more),
            (Some(_), _) => {}
            (None, value) => {
                body.insert(key, value);
            }
        }
    }
}

/// Puts fields into an object, in place of what it has. Objects are put together.
fn merge_over(body: &mut Map<String, Value>, more: &Map<String, Value>) {
    for (key, value) in more {
        match (body.get_mut(key), value) {
            (Some(Value::Object(known)), Value::Object(more)) => merge_over(known, more),
            _ => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

pub(super) struct Encoder<'a> {
    pub(super) dialect: &'a Dialect,
    pub(super) omitted: Omissions,
    pub(super) places: Option<&'a Places>,
}

impl<'a> Encoder<'a> {
    pub(super) fn unsupported(&self, field: &str, why: impl AsRef<str>) -> ProviderError {
        let message = format!("it cannot take `{field}`: {}", why.as_ref());
        ProviderError::new(ErrorKind::Unsupported, self.dialect.provider.clone(), message)
            .with_hint("nothing was sent; leave it out, or use a model that can take it")
    }

    pub(super) fn invalid(&self, problem: String) -> ProviderError {
        ProviderError::new(ErrorKind::InvalidRequest, self.dialect.provider.clone(), problem)
    }

    /// Puts down the tools, but for the declarations, which stand beside the body.
    fn tools(
        &mut self,
        request: &'a TurnRequest,
        body: &mut Map<String, Value>,
    ) -> Result<Vec<Declaration<'a>>, ProviderError> {
        let choice = &request.tool_choice;
        if request.tools.is_empty() && request.hosted.is_empty() && choice.is_forced() {
            return Err(self.invalid("a tool call is demanded, but no tool is offered".to_owned()));
        }
        let mut forms = Vec::new();
        let mut declarations = Vec::with_capacity(request.tools.len());
        for tool in &request.tools {
            declarations.push(self.declaration(tool)?);
        }
        if !declarations.is_empty() {
            forms.push(json!({"functionDeclarations": null}));
        }
        // The choice of this protocol is one of functions: what may not be used besides is not offered.
        let hosted = if choice.admits_hosted() { request.hosted.as_slice() } else { &[] };
        let is_mixed = !request.tools.is_empty() && !hosted.is_empty();
        if is_mixed && !self.dialect.mixed_tools {
            return Err(self.unsupported("hosted", "this model takes either tools of the provider or others"));
        }
        hosted::encode(self, hosted, &mut forms)?;
        if !forms.is_empty() {
            body.insert("tools".to_owned(), Value::Array(forms));
        }
        // It may ask for several at once anyway.
        if request.controls.parallel_tool_calls == Some(false) {
            let why = "it asks for as many calls at a time as it likes";
            return Err(self.unsupported("parallel_tool_calls.false", why));
        }
        let mut config = Map::new();
        let names = |names: &[placet_core::ToolName]| -> Vec<Value> {
            names.iter().map(|name| Value::from(wire_name(name.as_str()))).collect()
        };
        let offered = |name: &placet_core::ToolName| request.tools.iter().any(|tool| tool.name == *name);
        match choice {
            ToolChoice::Auto => {}
            ToolChoice::None => drop(config.insert("mode".to_owned(), "NONE".into())),
            ToolChoice::Allowed(allowed) if allowed.is_none() => drop(config.insert("mode".to_owned(), "NONE".into())),
            ToolChoice::Required => drop(config.insert("mode".to_owned(), "ANY".into())),
            ToolChoice::Tool(name) => {
                if !offered(name) && self.places.is_none() {
                    return Err(self.invalid(format!("a call of `{name}` is demanded, but no such tool is offered")));
                }
                config.insert("mode".to_owned(), "ANY".into());
                config.insert("allowedFunctionNames".to_owned(), names(std::slice::from_ref(name)).into());
            }
            ToolChoice::Allowed(allowed) => {
                if !allowed.required && !self.dialect.allowed_tools {
                    return Err(
                        self.unsupported("tool_choice.allowed", "it knows such a choice only where a call is demanded")
                    );
                }
                config.insert("mode".to_owned(), if allowed.required { "ANY" } else { "VALIDATED" }.into());
                config.insert("allowedFunctionNames".to_owned(), names(&allowed.names).into());
            }
        }
        let mut tool_config = Map::new();
        if !config.is_empty() {
            tool_config.insert("functionCallingConfig".to_owned(), Value::Object(config));
        }
        // Without it such a request is refused.
        if is_mixed && self.dialect.show_invocations {
            tool_config.insert("includeServerSideToolInvocations".to_owned(), true.into());
        }
        if !tool_config.is_empty() {
            body.insert("toolConfig".to_owned(), Value::Object(tool_config));
        }
        Ok(declarations)
    }

    fn declaration(&mut self, tool: &'a ToolDefinition) -> Result<Declaration<'a>, ProviderError> {
        if tool.strict == Some(true) {
            self.omitted.add("tool.strict", "the server does not hold a model to one tool's schema");
        }
        if tool.cache.is_some() {
            self.omitted.add("tool.cache", "the server finds shared beginnings itself");
        }
        let mut beside = self.beside(tool.native.as_ref(), "tool.native").unwrap_or_default();
        if beside.is_empty()
            && self.dialect.schemas == SchemaForm::Json
            // It has its type and its fields; where no word of it begins as a reference does, it goes out as it came.
            && let Some(schema) = tool.schema.as_text().filter(|schema| !schema.get().contains("\"$"))
        {
            let name = wire_name(tool.name.as_str());
            return Ok(Declaration::Plain { name, description: &tool.description, schema });
        }
        let mut form = Map::new();
        form.insert("name".to_owned(), wire_name(tool.name.as_str()).into());
        form.insert("description".to_owned(), tool.description.as_str().into());
        // What came in the older words goes out in them, unless somebody changed it since.
        match beside.shift_remove("parameters") {
            Some(known) if from_openapi(&known) == *tool.schema.as_value() => {
                form.insert("parameters".to_owned(), known);
            }
            _ => {
                let schema = match self.dialect.schemas {
                    SchemaForm::Json => arguments_schema(&tool.schema),
                    SchemaForm::OpenApi => object_root(tool.schema.as_value()).and_then(|root| to_openapi(&root)),
                };
                let schema = schema
                    .map_err(|error| self.unsupported("tool", format!("the arguments of `{}`: {error}", tool.name)))?;
                let key = match self.dialect.schemas {
                    SchemaForm::Json => "parametersJsonSchema",
                    SchemaForm::OpenApi => "parameters",
                };
                form.insert(key.to_owned(), schema);
            }
        }
        for (key, value) in beside {
            form.entry(key).or_insert(value);
        }
        Ok(Declaration::Made(Value::Object(form)))
    }

    fn restrictions(&mut self, request: &TurnRequest, body: &mut Map<String, Value>) -> Result<(), ProviderError> {
        let controls = &request.controls;
        let mut settings = Vec::with_capacity(controls.safety.len());
        for setting in &controls.safety {
            if setting.provider != self.dialect.provider {
                return Err(self.unsupported("safety", format!("the setting is one of `{}`", setting.provider)));
            }
            settings.push(setting.value.clone());
        }
        if !settings.is_empty() {
            body.insert("safetySettings".to_owned(), Value::Array(settings));
        }
        match &controls.state {
            None | Some(StateMode::Replay) => {}
            Some(StateMode::Stateful) => {
                return Err(self.unsupported("state.stateful", "it keeps no conversation; the whole of it is sent"));
            }
            Some(StateMode::ZeroRetention) => {
                return Err(self.unsupported("state.zdr", "what it keeps is agreed with the provider, not asked for"));
            }
            Some(other) => {
                let field = format!("state.{other}");
                return Err(self.unsupported(&field, "what it keeps is agreed with the provider, not asked for"));
            }
        }
        match controls.store {
            Some(store) if self.dialect.store => drop(body.insert("store".to_owned(), store.into())),
            Some(false) => {
                return Err(self.unsupported("store.false", "what it keeps is agreed with the provider, not asked for"));
            }
            Some(true) => self.omitted.add("store.true", "the server keeps no answers"),
            None => {}
        }
        if controls.background == Some(true) {
            return Err(self.unsupported("background", "it answers at once or not at all"));
        }
        // Thinking that can go back always comes along.
        if controls.include.iter().any(|what| what != "reasoning.encrypted_content") {
            return Err(self.unsupported("include", "its answers hold what they hold"));
        }
        if controls.max_hosted_calls.is_some() {
            return Err(self.unsupported("max_hosted_calls", "it knows no such limit"));
        }
        if let Some(cache) = &controls.cache {
            match &cache.strategy {
                Some(CacheStrategy::Bypass) => {
                    return Err(self.unsupported("cache.bypass", "its cache cannot be switched off"));
                }
                Some(CacheStrategy::Explicit) => {
                    self.omitted.add("cache.explicit", "the server finds shared beginnings itself");
                }
                // It does so anyway.
                Some(_) | None => {}
            }
            if cache.key.is_some() {
                self.omitted.add("cache.key", "the server finds shared beginnings itself");
            }
            if cache.ttl.is_some() {
                self.omitted.add("cache.ttl", "how long content is held is said where it is made");
            }
        }
        Ok(())
    }

    fn controls(
        &mut self,
        request: &TurnRequest,
        config: &mut Map<String, Value>,
        body: &mut Map<String, Value>,
    ) -> Result<(), ProviderError> {
        const UNTAKEN: &str = "this model does not take it";
        let (controls, dialect) = (&request.controls, self.dialect);
        let mut hint = |field: &'static str, key: &str, value: Option<Value>, taken: bool| match value {
            Some(value) if taken => drop(config.insert(key.to_owned(), value)),
            Some(_) => self.omitted.add(field, UNTAKEN),
            None => {}
        };
        hint("temperature", "temperature", controls.temperature.map(Value::from), dialect.sampling);
        hint("top_p", "topP", controls.top_p.map(Value::from), dialect.sampling);
        hint("top_k", "topK", controls.top_k.map(Value::from), dialect.sampling);
        hint("seed", "seed", controls.seed.map(Value::from), true);
        hint("frequency_penalty", "frequencyPenalty", controls.frequency_penalty.map(Value::from), dialect.penalties);
        hint("presence_penalty", "presencePenalty", controls.presence_penalty.map(Value::from), dialect.penalties);
        if let Some(limit) = controls.max_output_tokens {
            config.insert("maxOutputTokens".to_owned(), limit.into());
        }
        if !controls.stop.is_empty() {
            config.insert("stopSequences".to_owned(), json!(controls.stop));
        }
        if let Some(count) = controls.top_logprobs {
            config.insert("responseLogprobs".to_owned(), true.into());
            if count > 0 {
                config.insert("logprobs".to_owned(), count.into());
            }
        }
        if !controls.modalities.is_empty() {
            let words: Vec<Value> =
                controls.modalities.iter().map(|word| Value::from(word.to_ascii_uppercase())).collect();
            config.insert("responseModalities".to_owned(), words.into());
        }
        self.thinking(request, config);
        if controls.verbosity.is_some() {
            self.omitted.add("verbosity", "the protocol has no word for it");
        }
        if controls.compaction.is_some() {
            self.omitted.add("compaction", "the server does not shorten conversations");
        }
        if controls.user.is_some() {
            self.omitted.add("user", "the protocol has no word for it");
        }
        if !controls.metadata.is_empty() {
            let is_plain = controls.metadata.values().all(Value::is_string);
            if dialect.labels && is_plain {
                body.insert("labels".to_owned(), Value::Object(controls.metadata.clone()));
            } else {
                self.omitted.add("metadata", "the server takes texts as labels, or none at all");
            }
        }
        if let Some(tier) = &controls.service_tier {
            match tiers::gemini(tier) {
                Some(word) if dialect.service_tier => drop(body.insert("serviceTier".to_owned(), word.into())),
                Some(_) => self.omitted.add("service_tier", UNTAKEN),
                None => self.omitted.add("service_tier", "the protocol has no word for it"),
            }
        }
        Ok(())
    }

    /// How much to think, in one of the two measures; a request with both is refused by servers.
    fn thinking(&mut self, request: &TurnRequest, config: &mut Map<String, Value>) {
        let controls = &request.controls;
        let mut thinking = Map::new();
        let effort = controls.reasoning_effort.as_deref();
        let summary = controls.reasoning_summary.as_deref();
        if self.dialect.thinking == Thinking::None {
            for (field, is_set) in [
                ("reasoning_effort", effort.is_some()),
                ("reasoning_budget", controls.reasoning_budget.is_some()),
                ("reasoning_summary", summary.is_some()),
            ] {
                if is_set {
                    self.omitted.add(field, "this model does not think aloud, or not on demand");
                }
            }
            return;
        }
        let by_budget = self.dialect.thinking == Thinking::Budgets;
        match (effort, controls.reasoning_budget) {
            (Some(effort), None) if by_budget => match budget(effort) {
                Some(budget) => drop(thinking.insert("thinkingBudget".to_owned(), budget.into())),
                None => self.omitted.add("reasoning_effort", "the protocol has no measure for it"),
            },
            (Some(effort), budget) if !by_budget => {
                let word = match effort {
                    "none" => {
                        self.omitted.add("reasoning_effort", "thinking cannot be switched off; the least is asked for");
                        "minimal"
                    }
                    "max" => {
                        self.omitted.add("reasoning_effort", "the next lower level is the highest that there is");
                        "xhigh"
                    }
                    other => other,
                };
                thinking.insert("thinkingLevel".to_owned(), word.to_ascii_uppercase().into());
                if budget.is_some() {
                    self.omitted.add("reasoning_budget", "the level says how much to think");
                }
            }
            (effort, Some(budget)) => {
                thinking.insert("thinkingBudget".to_owned(), budget.into());
                if effort.is_some() {
                    self.omitted.add("reasoning_effort", "the budget says how much to think");
                }
            }
            (_, None) => {}
        }
        match summary {
            Some("none") => drop(thinking.insert("includeThoughts".to_owned(), false.into())),
            Some(word) => {
                if word != "auto" {
                    self.omitted.add("reasoning_summary", "the server decides how long its thoughts are");
                }
                thinking.insert("includeThoughts".to_owned(), true.into());
            }
            None => {}
        }
        if !thinking.is_empty() {
            config.insert("thinkingConfig".to_owned(), Value::Object(thinking));
        }
    }

    fn output(
        &mut self,
        request: &TurnRequest,
        config: &mut Map<String, Value>,
        native: &mut Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let known = native
            .get_mut("generationConfig")
            .and_then(Value::as_object_mut)
            .and_then(|native| native.shift_remove("responseSchema"));
        let Some(output) = &request.output else { return Ok(()) };
        let is_any = !output.strict && *output.schema.as_value() == json!({"type": "object"});
        let field = if output.strict { "output.strict" } else { "output.loose" };
        let with_tools = !request.tools.is_empty() || !request.hosted.is_empty();
        let support = match self.dialect.output {
            _ if with_tools && !self.dialect.output_with_tools => OutputSupport::None,
            support => support,
        };
        if support != OutputSupport::Schema && output.strict {
            return Err(self.unsupported(field, "this model is not held to a schema"));
        }
        // An answer that is to be JSON is more than a hint, whatever its schema is.
        if support == OutputSupport::None {
            let field = if is_any { "output.any_object" } else { field };
            return Err(self.unsupported(field, "this model is not held to any form"));
        }
        if support == OutputSupport::Object && !is_any {
            self.omitted.add(field, "this model takes no schema; it is only told to answer with JSON");
        }
        config.insert("responseMimeType".to_owned(), "application/json".into());
        if is_any || support == OutputSupport::Object {
            if output.description.is_some() {
                self.omitted.add("output.description", "it is told with a schema only");
            }
            return Ok(());
        }
        if let Some(known) = known.filter(|known| from_openapi(known) == *output.schema.as_value()) {
            config.insert("responseSchema".to_owned(), known);
            return Ok(());
        }
        let titled = titled(output);
        let (key, schema) = match self.dialect.schemas {
            SchemaForm::Json => ("responseJsonSchema", bare_refs(&titled).map(Cow::into_owned)),
            SchemaForm::OpenApi => ("responseSchema", to_openapi(&titled)),
        };
        match schema {
            Ok(schema) => drop(config.insert(key.to_owned(), schema)),
            Err(error) if output.strict => return Err(self.unsupported(field, error.to_string())),
            Err(_) => self.omitted.add(field, "the protocol cannot say the schema; only JSON is asked for"),
        }
        Ok(())
    }
}

/// The schema of an output format, which holds its name and description as notes.
fn titled(output: &OutputFormat) -> Value {
    let mut schema = output.schema.as_value().clone();
    if let Value::Object(root) = &mut schema {
        if output.name != OUTPUT && !root.contains_key("title") {
            root.insert("title".to_owned(), output.name.as_str().into());
        }
        if let Some(description) = &output.description
            && !root.contains_key("description")
        {
            root.insert("description".to_owned(), description.as_str().into());
        }
    }
    schema
}

/// The schema of a tool's arguments as JSON Schema.
fn arguments_schema(schema: &Schema) -> Result<Value, SchemaError> {
    let bare = bare_refs(schema.as_value())?;
    object_root(&bare)
}

/// How many tokens an effort is, where it is told by a budget.
fn budget(effort: &str) -> Option<u64> {
    Some(match effort {
        "none" => 0,
        "minimal" | "low" => 1024,
        "medium" => 4096,
        "high" => 8192,
        "xhigh" => 16_384,
        "max" => 24_576,
        _ => return None,
    })
}
