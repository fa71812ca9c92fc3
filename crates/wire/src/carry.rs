//! A client's request on its way to a provider that is not its own, before it is written in that provider's protocol.
//!
//! What a client said in its own protocol's words, and that has no name of ours, stands in the request as state of the client's provider.
//! State may be left out; what the client itself said, asked for or forbade may not. So that is put into words that the other protocol
//! has, or refused by name, here and in one place for all protocols:
//!
//! | in the words of one protocol | becomes |
//! |---|---|
//! | a search result, a document made of blocks (Anthropic) | their texts, under a line that names title and source |
//! | a summary that stands for what came before (`compaction` with a text) | a text of the model |
//! | the context of a document | a text before it |
//! | which piece of a video is meant | refused |
//! | what a model said as a sound that its provider keeps | refused |
//! | the grammar of a tool that takes a text | the same grammar, where the server has such tools; else it is told in the description |
//! | a tool that its provider defines and its client runs, by plain calls (Anthropic) | a tool of the client's |
//! | any other such tool, or one over what a provider holds | refused |
//! | how many answers are wanted (`n`, `candidateCount`) | the other word for it; refused where there is none |
//! | calls held to their schemas (`VALIDATED`) | strict tools, where their schemas are fit for that; else refused |
//! | any other part, item or result that the client wrote | refused |
//! | a field that constrains, restricts or stands for content | refused |
//! | any other field | left out, and each named |
//!
//! What a model said in its provider's words is that provider's state, and is left out and told.

mod blocks;
mod client_run;

use self::blocks::{document, search_result};
use crate::encoded::Omissions;
use crate::foreign::{self, says_something, unsupported};
use crate::protocol::Protocol;
use crate::schema::{fits_strict, lost_reference, without_google};
use crate::tools;
use placet_core::item::Message;
use placet_core::part::{CacheMark, Inline, Media, MediaSource, Native};
use placet_core::{
    Item, ItemBody, Origin, Part, ProviderError, ProviderId, Role, Schema, ToolDefinition, ToolName, ToolResult,
    TurnRequest,
};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

const FOREIGN: &str = "it belongs to another provider";
/// What is said of a grammar where nobody keeps to it but the model itself.
pub(crate) const UNHELD: &str = "the model is not held to it; the tool's description tells it";

/// What a server takes, as far as it matters here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Takes {
    /// It goes on from answers that it kept.
    pub(crate) kept_answers: bool,
    /// It has tools that take a text, and holds a model to a grammar.
    pub(crate) custom_tools: bool,
}

/// A request in which nothing of others is left but state that may be left out, and each field of others' is told.
///
/// # Errors
/// [`ProviderError`] of kind *unsupported* that names what can neither be said nor be left out.
pub(crate) fn carry<'r>(
    request: &'r TurnRequest,
    provider: &ProviderId,
    protocol: Protocol,
    takes: Takes,
    omitted: &mut Omissions,
) -> Result<Cow<'r, TurnRequest>, ProviderError> {
    foreign::refuse(request, provider, takes.kept_answers)?;
    let mut carrier = Carrier { provider, protocol, takes, omitted };
    let mut carried = Cow::Borrowed(request);
    carrier.offered(&mut carried)?;
    let custom = carrier.tools(&mut carried)?;
    carrier.items(&mut carried, &custom)?;
    carrier.output(&mut carried)?;
    carrier.fields(&mut carried)?;
    Ok(carried)
}

mod media;

struct Carrier<'c> {
    provider: &'c ProviderId,
    protocol: Protocol,
    takes: Takes,
    omitted: &'c mut Omissions,
}

/// What an answer must be like, in Google's words.
const ANSWER: [&str; 5] = ["responseMimeType", "responseSchema", "responseFormat", "speechConfig", "imageConfig"];

/// Parts that take the place of one.
type Parts = Vec<Part>;

impl Carrier<'_> {
    fn is_foreign(&self, native: &Native) -> bool {
        native.provider != *self.provider
    }

    fn own(&self, value: Value) -> Native {
        Native { provider: self.provider.clone(), value }
    }

    fn refuse(&self, field: &str, why: &str) -> ProviderError {
        unsupported(self.provider, field, why)
    }

    /// Tells each field of some state under its own name.
    fn tell(&mut self, of: &str, value: &Value, but: &[&str]) {
        let Value::Object(fields) = value else { return self.omitted.add(of, FOREIGN) };
        let told = fields.iter().filter(|(key, value)| !value.is_null() && !but.contains(&key.as_str()));
        for (key, _) in told {
            self.omitted.add(format!("{of}.{key}"), FOREIGN);
        }
    }

    /// Carries the tools over. Gives those that take a text here as they did there.
    fn tools(&mut self, request: &mut Cow<'_, TurnRequest>) -> Result<Vec<ToolName>, ProviderError> {
        let mut custom = Vec::new();
        for at in 0..request.tools.len() {
            let tool = &request.tools[at];
            if let Some(lost) = refers(&tool.schema).and_then(lost_reference) {
                let why = format!("in the arguments of `{}` the reference `{lost}` leads to nothing", tool.name);
                return Err(self.refuse("tool", &why));
            }
            let schema = Some(&tool.schema).filter(|_| self.protocol != Protocol::Gemini).and_then(plain);
            let native = tool.native.as_ref().filter(|native| self.is_foreign(native)).cloned();
            if schema.is_none() && native.is_none() {
                continue;
            }
            let mut changed = ToolDefinition::clone(tool);
            changed.schema = schema.unwrap_or(changed.schema);
            if let Some(native) = native {
                changed.native = self.tool(&mut changed, &native.value)?;
                custom.extend(changed.native.is_some().then(|| changed.name.clone()));
            }
            request.to_mut().tools[at] = Arc::new(changed);
        }
        Ok(custom)
    }

    /// What becomes of another provider's words for a tool. A tool that takes a text is one in both of OpenAI's protocols; elsewhere it is
    /// one with a single text as its argument.
    fn tool(&mut self, tool: &mut ToolDefinition, value: &Value) -> Result<Option<Native>, ProviderError> {
        let is_custom = value["type"] == "custom";
        let inner = value.get("custom").and_then(Value::as_object);
        let format = inner.and_then(|inner| inner.get("format")).or_else(|| value.get("format").filter(|_| is_custom));
        let format = format.filter(|format| !format.is_null() && format["type"] != "text");
        if value.get("strict") == Some(&Value::Bool(true)) {
            match self.protocol {
                Protocol::AnthropicMessages => tool.strict = Some(true),
                _ => self.omitted.add("tool.strict", "the schema is none that the provider holds a model to"),
            }
        }
        // The older words of Google's for the schema say nothing more.
        self.tell("tool.native", value, &["type", "custom", "format", "function", "parameters", "name", "strict"]);
        for (key, inner) in [("custom", inner), ("function", value.get("function").and_then(Value::as_object))] {
            for key in inner.into_iter().flat_map(Map::keys).filter(|inner| key != "custom" || *inner != "format") {
                self.omitted.add(format!("tool.native.{key}"), FOREIGN);
            }
        }
        if !is_custom {
            return Ok(None);
        }
        let format = format.map(|format| match format.get("grammar").and_then(Value::as_object) {
            Some(grammar) => {
                let mut flat = Map::from_iter([("type".to_owned(), json!("grammar"))]);
                flat.extend(grammar.clone());
                Value::Object(flat)
            }
            None => format.clone(),
        });
        let is_known = format.as_ref().is_none_or(|format| format["type"] == "grammar");
        if !self.takes.custom_tools && is_known {
            if let Some(grammar) = format {
                self.omitted.add("tool.grammar", UNHELD);
                tools::tell_grammar(&mut tool.description, &grammar);
            }
            return Ok(None);
        }
        let value = match (self.protocol, format) {
            (Protocol::OpenaiResponses, None) => json!({"type": "custom"}),
            (Protocol::OpenaiResponses, Some(format)) if is_known => json!({"type": "custom", "format": format}),
            (Protocol::OpenaiChat, None) => json!({"type": "custom", "custom": {}}),
            (Protocol::OpenaiChat, Some(Value::Object(mut grammar))) if is_known => {
                grammar.shift_remove("type");
                json!({"type": "custom", "custom": {"format": {"type": "grammar", "grammar": grammar}}})
            }
            (_, None) => return Ok(None),
            _ => {
                let why = format!("what `{}` takes cannot be held to a grammar", tool.name);
                return Err(self.refuse("tool.grammar", &why));
            }
        };
        Ok(Some(self.own(value)))
    }

    fn items(&mut self, request: &mut Cow<'_, TurnRequest>, custom: &[ToolName]) -> Result<(), ProviderError> {
        let mut at = 0;
        while at < request.items.len() {
            let item = &request.items[at];
            let changed = match &item.body {
                ItemBody::Message(message) => self.message(message)?,
                ItemBody::ToolResult(result) => self.result(result)?,
                ItemBody::Native(native) if self.is_foreign(native) => self.native_item(native, item)?,
                ItemBody::HostedCall(call) if call.provider != *self.provider => {
                    self.hosted(&call.kind, &call.value)?
                }
                ItemBody::ToolCall(call) if self.protocol == Protocol::OpenaiChat && custom.contains(&call.name) => {
                    let is_told = call.native.as_ref().is_some_and(|native| !self.is_foreign(native));
                    let native = Some(self.own(json!({"type": "custom"})));
                    (!is_told).then(|| placet_core::ToolCall { native, ..call.clone() }.into())
                }
                _ => None,
            };
            if let Some(body) = changed {
                let item = Item { body, ..Item::clone(item) };
                request.to_mut().items[at] = Arc::new(item);
            }
            at += 1;
        }
        Ok(())
    }

    /// A message without others' parts; none where it had none.
    fn message(&mut self, message: &Message) -> Result<Option<ItemBody>, ProviderError> {
        let native = message.native.as_ref().filter(|native| self.is_foreign(native));
        let is_said = message.role != Role::Assistant;
        if native.is_none() && !(is_said && self.has_foreign(&message.parts)) {
            return Ok(None);
        }
        let mut changed = message.clone();
        if is_said {
            changed.parts = self.parts(&message.parts)?;
        }
        if let Some(native) = native {
            // Pictures that a model made are content where a model may say them.
            let images = native.value.get("images").and_then(Value::as_array);
            let is_taken = self.protocol == Protocol::Gemini && images.is_some();
            // What it said stands nowhere else.
            if native.value.get("audio").is_some_and(says_something) && changed.parts.is_empty() {
                return Err(self.refuse("message.audio", "the sound is kept by its own provider"));
            }
            if is_taken && !changed.parts.iter().any(|part| matches!(part, Part::Image(_))) {
                let images = images.into_iter().flatten().filter_map(|image| image["image_url"]["url"].as_str());
                changed.parts.extend(images.map(|url| Part::Image(crate::openai_chat::media_of(url))));
            }
            self.tell("message.native", &native.value, if is_taken { &["images"] } else { &[] });
            changed.native = None;
        }
        Ok(Some(changed.into()))
    }

    fn result(&mut self, result: &ToolResult) -> Result<Option<ItemBody>, ProviderError> {
        if !self.has_foreign(&result.outcome.content) {
            return Ok(None);
        }
        let mut changed = result.clone();
        changed.outcome.content = self.parts(&result.outcome.content)?;
        Ok(Some(changed.into()))
    }

    /// Whether some part has something of others that must not be left out.
    fn has_foreign(&self, parts: &[Part]) -> bool {
        parts.iter().any(|part| match part {
            Part::Native(native) => self.is_foreign(native),
            Part::Image(media) | Part::Audio(media) | Part::File(media) => self.is_foreign_medium(media),
            _ => false,
        })
    }

    fn parts(&mut self, parts: &[Part]) -> Result<Parts, ProviderError> {
        let mut out = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Part::Native(native) if self.is_foreign(native) => out.extend(self.part(native)?),
                part => {
                    let mut part = part.clone();
                    out.extend(self.medium(&mut part)?);
                    out.push(part);
                }
            }
        }
        Ok(out)
    }

    /// What a user or a tool said in another protocol's words, in words of ours.
    fn part(&mut self, native: &Native) -> Result<Parts, ProviderError> {
        let value = &native.value;
        if value.as_object().is_some_and(Map::is_empty) {
            return Ok(Vec::new());
        }
        let kind = value.get("type").and_then(Value::as_str);
        let is_content = kind == Some("document") && value["source"]["type"] == "content";
        if self.protocol == Protocol::AnthropicMessages && (kind == Some("search_result") || is_content) {
            return Ok(vec![Part::Native(self.own(value.clone()))]);
        }
        let read = match kind {
            Some("search_result") => search_result(value),
            Some("document") if is_content => document(value),
            Some("input_text" | "output_text") => value["text"].as_str().map(|text| vec![Part::text(text)]),
            _ => None,
        };
        let Some(mut parts) = read else {
            let kind = kind.or_else(|| value.as_object()?.keys().next().map(String::as_str)).unwrap_or("value");
            return Err(self.refuse(&format!("native_part.{kind}"), "it is in another protocol's words"));
        };
        let kind = kind.unwrap_or_default();
        let read = ["type", "title", "source", "content", "context", "text", "cache_control"];
        self.tell(kind, value, &read);
        if let (Some(Value::Object(mark)), Some(Part::Text(last))) = (value.get("cache_control"), parts.last_mut()) {
            last.cache = Some(CacheMark { ttl: mark.get("ttl").and_then(Value::as_str).map(str::to_owned) });
        }
        Ok(parts)
    }

    /// An item in another protocol's words. What is only a provider's state is left to be left out.
    fn native_item(&mut self, native: &Native, item: &Item) -> Result<Option<ItemBody>, ProviderError> {
        let value = &native.value;
        let kind = value.get("type").and_then(Value::as_str);
        let is_given = |key: &str| value.get(key).is_some_and(says_something);
        match kind {
            Some("compaction") => {
                if let Some(summary) = value.get("content").and_then(Value::as_str).filter(|text| !text.is_empty()) {
                    let parts = vec![Part::text(summary)];
                    return Ok(Some(Message { role: Role::Assistant, parts, native: None }.into()));
                }
                if is_given("encrypted_content") {
                    let why = "it stands for what was said before, and only its own provider can read it";
                    return Err(self.refuse("native_item.compaction", why));
                }
                return Ok(None);
            }
            // Its tools stand among the others.
            Some("additional_tools" | "compaction_trigger") => return Ok(None),
            _ => {}
        }
        let is_said = item.origin.contains(&Origin::User) || item.origin.contains(&Origin::Operator);
        // A reference says nothing but its id.
        let is_reference = kind == Some("item_reference") || kind.is_none() && is_given("id");
        if is_said || is_reference {
            let kind = if is_reference { "item_reference" } else { kind.unwrap_or("value") };
            let kind = value.get("role").and_then(Value::as_str).unwrap_or(kind);
            return Err(self.refuse(&format!("native_item.{kind}"), "it is in another protocol's words"));
        }
        Ok(None)
    }

    /// A call of a tool that its provider ran, or what the caller answered to one.
    fn hosted(&mut self, kind: &str, value: &Value) -> Result<Option<ItemBody>, ProviderError> {
        let is_callers = matches!(
            kind,
            "computer_call_output" | "local_shell_call_output" | "shell_call_output" | "apply_patch_call_output"
        );
        if is_callers {
            let why = "it answers a tool that only its own provider has";
            return Err(self.refuse(&format!("hosted_call.{kind}"), why));
        }
        let picture = value.get("result").and_then(Value::as_str).filter(|_| kind == "image_generation_call");
        if let (Some(picture), Protocol::Gemini) = (picture, self.protocol) {
            let format = value.get("output_format").and_then(Value::as_str).unwrap_or("png");
            let media = Media {
                mime_type: Some(format!("image/{format}")),
                ..Media::new(MediaSource::Inline(Inline { base64: picture.into() }))
            };
            return Ok(Some(Message { role: Role::Assistant, parts: vec![Part::Image(media)], native: None }.into()));
        }
        Ok(None)
    }

    fn output(&mut self, request: &mut Cow<'_, TurnRequest>) -> Result<(), ProviderError> {
        let Some(output) = &request.output else { return Ok(()) };
        if let Some(lost) = refers(&output.schema).and_then(lost_reference) {
            let field = if output.strict { "output.strict" } else { "output.loose" };
            return Err(self.refuse(field, &format!("the reference `{lost}` leads to nothing in the schema")));
        }
        let schema = Some(&output.schema).filter(|_| self.protocol != Protocol::Gemini).and_then(plain);
        if let (Some(schema), Some(output)) = (schema, &mut request.to_mut().output) {
            output.schema = schema;
        }
        Ok(())
    }

    /// The fields of the request itself.
    fn fields(&mut self, request: &mut Cow<'_, TurnRequest>) -> Result<(), ProviderError> {
        let Some(native) = request.native.as_ref().filter(|native| self.is_foreign(native)) else { return Ok(()) };
        let Value::Object(fields) = native.value.clone() else {
            self.omitted.add("native", FOREIGN);
            request.to_mut().native = None;
            return Ok(());
        };
        let mut own = Map::new();
        let config = fields.get("generationConfig");
        let kind = config.and_then(|config| config.get("responseMimeType")).filter(|kind| *kind != "text/plain");
        if self.protocol != Protocol::Gemini && kind.is_some() {
            let why = "what the answer must be like cannot be said";
            return Err(self.refuse("native.generationConfig.responseMimeType", why));
        }
        for (key, value) in &fields {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                ("n", Value::Number(count)) => self.several(count.as_u64(), &mut own)?,
                ("generationConfig", Value::Object(config)) => {
                    for (key, value) in config {
                        match key.as_str() {
                            "candidateCount" => self.several(value.as_u64(), &mut own)?,
                            // It is the shape of the answer in older words.
                            "responseSchema" if request.output.is_some() => {}
                            "responseMimeType" if value == "text/plain" => {}
                            key if ANSWER.contains(&key) && self.protocol == Protocol::Gemini => {
                                let known = own.entry("generationConfig").or_insert_with(|| json!({}));
                                known[key] = value.clone();
                            }
                            key if ANSWER.contains(&key) => {
                                let field = format!("native.generationConfig.{key}");
                                return Err(self.refuse(&field, "what the answer must be like cannot be said"));
                            }
                            key => self.omitted.add(format!("native.generationConfig.{key}"), FOREIGN),
                        }
                    }
                }
                ("toolConfig", Value::Object(config)) => {
                    for (key, value) in config {
                        if key == "functionCallingConfig" {
                            self.calling(value, request, &mut own)?;
                        } else {
                            self.omitted.add(format!("native.toolConfig.{key}"), FOREIGN);
                        }
                    }
                }
                // What an answer must be like, in Chat's words.
                (key @ ("audio" | "response_format"), value) => {
                    if self.protocol != Protocol::OpenaiChat {
                        return Err(
                            self.refuse(&format!("native.{key}"), "what the answer must be like cannot be said")
                        );
                    }
                    own.insert(key.to_owned(), value.clone());
                }
                ("tools", Value::Object(kinds)) => {
                    for (kind, kept) in kinds {
                        self.tell(&format!("hosted.{kind}"), kept, &[]);
                    }
                }
                (group @ ("text" | "output_config"), Value::Object(inner)) => {
                    if inner.get("format").is_some_and(says_something) {
                        let why = "the shape of the answer is in another protocol's words";
                        return Err(self.refuse(&format!("native.{group}.format"), why));
                    }
                    self.tell(&format!("native.{group}"), value, &["format"]);
                }
                (
                    group @ ("reasoning" | "thinking" | "stream_options" | "prompt_cache_options" | "metadata"),
                    Value::Object(_),
                ) => self.tell(&format!("native.{group}"), value, &[]),
                (key, _) => self.omitted.add(format!("native.{key}"), FOREIGN),
            }
        }
        request.to_mut().native = (!own.is_empty()).then(|| self.own(own.into()));
        Ok(())
    }

    /// More than one answer to one request.
    fn several(&mut self, count: Option<u64>, own: &mut Map<String, Value>) -> Result<(), ProviderError> {
        let Some(count) = count.filter(|count| *count > 1) else { return Ok(()) };
        match self.protocol {
            Protocol::OpenaiChat => drop(own.insert("n".to_owned(), count.into())),
            Protocol::Gemini => {
                own.entry("generationConfig").or_insert_with(|| json!({}))["candidateCount"] = count.into();
            }
            _ => return Err(self.refuse("native.n", "it answers once")),
        }
        Ok(())
    }

    /// A choice of tools in Google's words beyond ours.
    fn calling(
        &mut self,
        value: &Value,
        request: &mut Cow<'_, TurnRequest>,
        own: &mut Map<String, Value>,
    ) -> Result<(), ProviderError> {
        if self.protocol == Protocol::Gemini {
            own.insert("toolConfig".to_owned(), json!({"functionCallingConfig": value}));
            return Ok(());
        }
        if value.get("allowedFunctionNames").is_some_and(says_something) {
            return Err(self.refuse("tool_choice.allowed", "the choice is in another protocol's words"));
        }
        let mode = value.get("mode").and_then(Value::as_str).unwrap_or_default();
        self.tell("native.toolConfig.functionCallingConfig", value, &["mode", "allowedFunctionNames"]);
        match mode {
            "" | "AUTO" | "MODE_UNSPECIFIED" => {}
            "VALIDATED" => {
                if let Some(tool) = request.tools.iter().find(|tool| !fits_strict(tool.schema.as_value())) {
                    let why = format!("calls of `{}` cannot be held to its schema", tool.name);
                    return Err(self.refuse("tool_choice.validated", &why));
                }
                for tool in &mut request.to_mut().tools {
                    Arc::make_mut(tool).strict = Some(true);
                }
            }
            mode => {
                let why = format!("`{mode}` is in another protocol's words");
                return Err(self.refuse("tool_choice", &why));
            }
        }
        Ok(())
    }
}

/// The schema, where a reference may stand in it.
fn refers(schema: &Schema) -> Option<&Value> {
    let has = match schema.as_text() {
        Some(text) => memchr::memmem::find(text.get().as_bytes(), b"\"$ref\"").is_some(),
        None => crate::schema::has_key(schema.as_value(), &["$ref"]),
    };
    has.then(|| schema.as_value())
}

/// The schema without Google's own words, where it has any.
fn plain(schema: &Schema) -> Option<Schema> {
    if let Some(text) = schema.as_text() {
        let has = |word: &[u8]| memchr::memmem::find(text.get().as_bytes(), word).is_some();
        let may_have = has(b"\"propertyOrdering\"") || has(b"\"format\"") && has(b"\"enum\"");
        if !may_have {
            return None;
        }
    }
    without_google(schema.as_value()).map(Schema::new)
}

#[cfg(test)]
mod tests;
