//! Tools that a provider defines and its client runs, and tools over what a provider holds, on their way to another provider.
//!
//! A provider's own tool is not another one's, even of the same name: the other would run it itself, or on things that it does not have.
//! Where the calls of such a tool are calls like those of any other, it becomes a plain tool of the client's, which runs it as ever.
//! All others are refused by name.

use super::Carrier;
use crate::options::{self, Words};
use crate::protocol::Protocol;
use placet_core::hosted::HostedTool;
use placet_core::part::Native;
use placet_core::{Effect, ProviderError, Schema, ToolDefinition, TurnRequest};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::sync::Arc;

/// A tool in its provider's words, as far as it is known.
struct Known {
    /// Whose words.
    protocol: Protocol,
    /// Its place in the table of fields, after `hosted.`
    field: &'static str,
    /// Whether it is of one provider alone, because something that the provider holds belongs to it.
    is_held: bool,
    why: &'static str,
}

const RUN_HERE: &str = "its calls have a form of their own, which the provider does not know";
const HELD: &str = "what it works on is held by another provider";

fn known(value: &Map<String, Value>) -> Option<Known> {
    let known = |protocol, field, why| Some(Known { protocol, field, is_held: why == HELD, why });
    let anthropic = |field| known(Protocol::AnthropicMessages, field, RUN_HERE);
    let responses = |field, why| known(Protocol::OpenaiResponses, field, why);
    match value.get("type").and_then(Value::as_str) {
        Some(kind) if kind.starts_with("bash_2") => anthropic("shell"),
        Some(kind) if kind.starts_with("text_editor_2") => anthropic("text_editor"),
        Some(kind) if kind.starts_with("memory_2") => anthropic("memory"),
        Some(kind) if kind.starts_with("computer_2") || kind.starts_with("computer_toolset_2") => {
            anthropic("computer_use")
        }
        Some("computer" | "computer_use_preview") => responses("computer_use", RUN_HERE),
        Some("local_shell") => responses("shell", RUN_HERE),
        Some("shell") => {
            let environment = value.get("environment").and_then(|environment| environment.get("type")?.as_str());
            let is_held = environment.is_some_and(|kind| kind.starts_with("container"));
            responses("shell", if is_held { HELD } else { RUN_HERE })
        }
        Some("apply_patch") => responses("apply_patch", RUN_HERE),
        Some("tool_search") => responses("tool_search", "the client itself searches, in a form of its own"),
        Some("file_search") => responses("file_search", HELD),
        Some("code_interpreter") => responses("code_interpreter", HELD),
        Some(_) => None,
        None if value.contains_key("fileSearch") => known(Protocol::Gemini, "file_search", HELD),
        None if value.contains_key("computerUse") => known(Protocol::Gemini, "computer_use", RUN_HERE),
        None => None,
    }
}

impl Carrier<'_> {
    /// Carries over the tools that stand among the provider's own in another provider's words. What is not known is left to be refused.
    pub(super) fn offered(&mut self, request: &mut Cow<'_, TurnRequest>) -> Result<(), ProviderError> {
        let is_foreign = |tool: &HostedTool| matches!(tool, HostedTool::Raw(native) if self.is_foreign(native));
        if !request.hosted.iter().any(is_foreign) {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(request.hosted.len());
        let mut tools = Vec::new();
        for tool in &request.hosted {
            let native = match tool {
                HostedTool::Raw(native) if self.is_foreign(native) => native,
                tool => {
                    kept.push(tool.clone());
                    continue;
                }
            };
            if let Some(tool) = self.older(native)? {
                kept.push(tool);
                continue;
            }
            let known = native.value.as_object().and_then(|value| Some((value, known(value)?)));
            let Some((value, known)) = known else {
                kept.push(tool.clone());
                continue;
            };
            if known.protocol == self.protocol && !known.is_held {
                kept.push(HostedTool::Raw(Native { provider: self.provider.clone(), value: native.value.clone() }));
                continue;
            }
            let field = format!("hosted.{}", known.field);
            let restriction = value.iter().find(|(key, value)| options::keeps_from(key, value));
            if let Some((key, _)) = restriction.filter(|_| !known.is_held) {
                return Err(self.refuse(&format!("{field}.{key}"), "the provider cannot hold the tool to it"));
            }
            let Some(tool) = as_plain(value) else { return Err(self.refuse(&field, known.why)) };
            self.tell(&field, &native.value, &["type", "name"]);
            tools.push(Arc::new(tool));
        }
        let request = request.to_mut();
        request.hosted = kept;
        request.tools.extend(tools);
        Ok(())
    }
}

impl Carrier<'_> {
    /// A tool of the provider's that others have too, without what is so new about it that it has no name of ours.
    fn older(&mut self, native: &Native) -> Result<Option<HostedTool>, ProviderError> {
        let Some(value) = native.value.as_object() else { return Ok(None) };
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_any =
            value.get("container").is_none_or(|container| container.is_null() || *container == json!({"type": "auto"}));
        let is_search = kind.starts_with("web_search") && !value.contains_key("name");
        let is_openai = is_search || kind == "code_interpreter" && is_any;
        let google =
            ["googleSearch", "codeExecution"].into_iter().find_map(|key| Some((key, value.get(key)?.as_object()?)));
        let (protocol, words, field, options) = match google {
            _ if is_openai => {
                let field = if is_search { "hosted.web_search" } else { "hosted.code_interpreter" };
                (Protocol::OpenaiResponses, Words::Openai, field, value)
            }
            Some((key, options)) if kind.is_empty() => {
                let field = if key == "googleSearch" { "hosted.web_search" } else { "hosted.code_interpreter" };
                (Protocol::Gemini, Words::Google, field, options)
            }
            _ => return Ok(None),
        };
        if protocol == self.protocol {
            let value = native.value.clone();
            return Ok(Some(HostedTool::Raw(Native { provider: self.provider.clone(), value })));
        }
        let mut left = options.clone();
        for (key, value) in options.iter().filter(|(key, _)| !options::is_known(words, key)) {
            left.shift_remove(key);
            if value.is_null() {
                continue;
            }
            let field = format!("{field}.{key}");
            if options::restricts(key, value) {
                return Err(self.refuse(&field, "the provider's tool cannot be restricted so"));
            }
            self.omitted.add(field, "the provider's tool has no such option");
        }
        let read = match google {
            Some((key, _)) if protocol == Protocol::Gemini => {
                let mut tools = Vec::new();
                let entry = Map::from_iter([(key.to_owned(), Value::Object(left))]);
                crate::gemini::decode_hosted(entry, &native.provider, &mut tools);
                tools.pop()
            }
            _ => Some(crate::openai_responses::decode_hosted(&left, None, &native.provider)),
        };
        match read {
            Some(HostedTool::Raw(_)) | None => Err(self.refuse(field, "it is in another protocol's words")),
            tool => Ok(tool),
        }
    }
}

/// A tool of Anthropic's that its client runs, as one of the client's own: it is called by a plain call, whose arguments are these.
fn as_plain(value: &Map<String, Value>) -> Option<ToolDefinition> {
    let kind = value.get("type")?.as_str()?;
    let text = |what: &str| json!({"type": "string", "description": what});
    let number = |what: &str| json!({"type": "integer", "description": what});
    let path = || text("The absolute path of the file or folder.");
    let (usual, description, properties, required) = match kind {
        kind if kind.starts_with("bash_2") => (
            "bash",
            "Runs a command in a bash shell that stays open from one call to the next: its folder, its variables and what it \
             started are still there. Give `restart` alone to begin with a new shell.",
            json!({
                "command": text("The command to run. Required unless the shell is restarted."),
                "restart": {"type": "boolean", "description": "Whether to start the shell anew."},
            }),
            json!([]),
        ),
        kind if kind.starts_with("text_editor_2") => {
            let is_older = kind < "text_editor_20250429";
            let mut commands = vec!["view", "create", "str_replace", "insert"];
            commands.extend(is_older.then_some("undo_edit"));
            (
                if is_older { "str_replace_editor" } else { "str_replace_based_edit_tool" },
                "Shows, makes and changes text files. `view` shows a file with the numbers of its lines, or what a folder holds. \
                 `create` writes a whole file. `str_replace` replaces a text, which must stand in the file exactly once. `insert` \
                 puts a text after a line.",
                json!({
                    "command": {"type": "string", "enum": commands, "description": "What to do."},
                    "path": path(),
                    "file_text": text("For `create`: all that the file is to hold."),
                    "old_str": text("For `str_replace`: the text to replace, with its white space."),
                    "new_str": text("For `str_replace`: what to put in its place. For `insert`: the text to put in."),
                    "insert_line": number("For `insert`: the number of the line after which it is put; 0 is the beginning."),
                    "view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
                        "description": "For `view` of a file: the first and the last line, from 1; -1 is the end."},
                }),
                json!(["command", "path"]),
            )
        }
        kind if kind.starts_with("memory_2") => (
            "memory",
            "Keeps notes in files under `/memories`, which are still there in later conversations. Look there before you begin. \
             `view` shows a file or what a folder holds, `create` writes a whole file, `str_replace` replaces a text, `insert` puts a \
             text after a line, `delete` removes a file or folder, `rename` moves it.",
            json!({
                "command": {"type": "string", "enum": ["view", "create", "str_replace", "insert", "delete", "rename"],
                    "description": "What to do."},
                "path": text("The path, under `/memories`. For all but `rename`."),
                "view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
                    "description": "For `view` of a file: the first and the last line, from 1; -1 is the end."},
                "file_text": text("For `create`: all that the file is to hold."),
                "old_str": text("For `str_replace`: the text to replace."),
                "new_str": text("For `str_replace`: what to put in its place."),
                "insert_line": number("For `insert`: the number of the line after which it is put; 0 is the beginning."),
                "insert_text": text("For `insert`: the text to put in."),
                "old_path": text("For `rename`: the path as it is."),
                "new_path": text("For `rename`: the path as it is to be."),
            }),
            json!(["command"]),
        ),
        _ => return None,
    };
    let name = value.get("name").and_then(Value::as_str).unwrap_or(usual);
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Some(ToolDefinition::new(name, description, Schema::new(schema), Effect::Once))
}
