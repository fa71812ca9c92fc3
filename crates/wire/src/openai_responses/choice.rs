//! Which tools a client lets a model call.

use super::hosted;
use super::parts::word;
use super::request::Fields;
use super::tools::ClientTools;
use crate::request::RequestError;
use placet_core::turn::AllowedTools;
use placet_core::{ToolChoice, ToolName, TurnRequest};
use serde_json::{Map, Value};
use std::sync::Arc;

impl Fields<'_> {
    /// A choice that has no form of ours is kept as it came.
    pub(super) fn tool_choice(
        &self,
        request: &TurnRequest,
        declared: &ClientTools,
        beyond: &mut Map<String, Value>,
    ) -> Result<ToolChoice, RequestError> {
        let Some(choice) = self.given("tool_choice") else { return Ok(ToolChoice::Auto) };
        // A name on the wire, and the tool that goes by it.
        let tool = |form: &Value| -> Option<ToolName> {
            let form = form.as_object()?;
            if !matches!(word(form, "type"), Some("function" | "custom")) {
                return None;
            }
            let said = form.get("function").and_then(Value::as_object).unwrap_or(form);
            let name = word(said, "name")?;
            let is_bare = |tool: &&Arc<placet_core::ToolDefinition>| {
                tool.native.as_ref().is_some_and(|native| native.value.get("name").is_some_and(|bare| bare == name))
            };
            let in_space = || request.tools.iter().find(is_bare).map(|tool| tool.name.clone());
            let declared = declared.find(word(said, "namespace"), name).map(|(name, _)| name);
            let plain = request.tools.iter().find(|tool| tool.name.as_str() == name).map(|tool| tool.name.clone());
            Some(declared.or(plain).or_else(in_space).unwrap_or_else(|| ToolName::new(name)))
        };
        Ok(match choice {
            Value::String(word) if word == "auto" => ToolChoice::Auto,
            Value::String(word) if word == "none" => ToolChoice::None,
            Value::String(word) if word == "required" => ToolChoice::Required,
            Value::Object(form) => {
                let allowed = form.get("tools").and_then(Value::as_array);
                let allowed = allowed.filter(|_| word(form, "type") == Some("allowed_tools"));
                let required = word(form, "mode") == Some("required");
                match (allowed.and_then(|list| self.allowed(list, required, request, tool)), tool(choice)) {
                    (Some(allowed), _) => ToolChoice::Allowed(allowed),
                    (None, Some(name)) => ToolChoice::Tool(name),
                    (None, None) => {
                        beyond.insert("tool_choice".into(), choice.clone());
                        ToolChoice::Auto
                    }
                }
            }
            _ => return Err(RequestError::field("tool_choice", "expected auto, none, required or an object")),
        })
    }

    /// A choice of some of the tools, as far as it has a form of ours: of those that the provider runs itself all are allowed, or
    /// none.
    fn allowed(
        &self,
        list: &[Value],
        required: bool,
        request: &TurnRequest,
        tool: impl Fn(&Value) -> Option<ToolName>,
    ) -> Option<AllowedTools> {
        let mut names = Vec::new();
        let mut used = vec![false; request.hosted.len()];
        for entry in list {
            match tool(entry) {
                Some(name) => names.push(name),
                None => {
                    let found = request.hosted.iter().position(|hosted| hosted::is_chosen(entry, hosted))?;
                    used[found] = true;
                }
            }
        }
        let hosted = used.contains(&true);
        let is_plain = !hosted || (!required && !used.contains(&false));
        is_plain.then_some(AllowedTools { names, required, hosted })
    }
}
