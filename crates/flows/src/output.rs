//! Structured output: the schema goes to the model, and the answer is held to it.

use crate::error::FlowError;
use placet_core::turn::OutputFormat;
use placet_core::{Item, Schema};
use placet_tools::{Problem, Validator};
use schemars::JsonSchema;
use serde_json::Value;
use std::sync::Arc;

/// The shape that an agent's answers must have.
#[derive(Clone, Debug)]
pub struct Output {
    format: OutputFormat,
    validator: Result<Arc<Validator>, String>,
    repairs: u32,
}

impl Output {
    /// The shape of a type.
    #[must_use]
    pub fn of<T: JsonSchema>() -> Self {
        let schema = schemars::schema_for!(T).to_value();
        let name: String = T::schema_name().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        Output::new(if name.is_empty() { "answer".to_owned() } else { name }, schema)
    }

    /// The shape of a JSON Schema, under a name of letters, digits, `_` and `-`.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        let schema = Schema::new(schema);
        let validator = Validator::compile(schema.as_value()).map(Arc::new).map_err(|error| error.to_string());
        let format = OutputFormat { name: name.into(), description: None, schema, strict: true };
        Output { format, validator, repairs: 1 }
    }

    /// How often a model that missed the shape is told so and asked again: once without it.
    #[must_use]
    pub fn repairs(mut self, repairs: u32) -> Self {
        self.repairs = repairs;
        self
    }

    pub(crate) fn most_repairs(&self) -> u32 {
        self.repairs
    }

    pub(crate) fn format(&self) -> &OutputFormat {
        &self.format
    }

    /// What is wrong with the schema itself.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.validator.as_ref().err().map(String::as_str)
    }

    /// What models are told that cannot be held to a schema while they call tools.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "Your last answer must be one JSON value, and nothing else, of this JSON Schema:\n{}",
            self.format.schema.as_value()
        )
    }

    /// Holds an answer to the shape.
    pub(crate) fn check(&self, text: &str) -> Result<Value, Vec<String>> {
        let value = json_in(text)
            .ok_or_else(|| vec!["it is not JSON; answer with one JSON value and nothing else".to_owned()])?;
        let Ok(validator) = &self.validator else { return Ok(value) };
        let problems: Vec<String> = validator.problems(&value).iter().map(said).collect();
        if problems.is_empty() { Ok(value) } else { Err(problems) }
    }

    /// What a model is told that missed the shape.
    pub(crate) fn complaint(&self, id: placet_core::ItemId, problems: &[String]) -> Arc<Item> {
        let text = format!(
            "Your answer does not have the wanted shape:\n- {}\nAnswer again, with one JSON value of the schema and nothing else.",
            problems.join("\n- ")
        );
        let mut item = Item::user(id, text);
        item.origin = placet_core::Origin::Operator.into();
        Arc::new(item)
    }

    pub(crate) fn error(problems: Vec<String>) -> FlowError {
        FlowError::Output { problems }
    }
}

fn said(problem: &Problem) -> String {
    if problem.path.is_empty() { problem.problem.clone() } else { format!("{}: {}", problem.path, problem.problem) }
}

/// The JSON in a text: all of it, or what stands in a fence or between the first and the last bracket.
pub(crate) fn json_in(text: &str) -> Option<Value> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    let fenced = text.split("```").nth(1).map(|block| block.trim_start_matches("json").trim());
    if let Some(value) = fenced.and_then(|block| serde_json::from_str(block).ok()) {
        return Some(value);
    }
    [('{', '}'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let (start, end) = (text.find(open)?, text.rfind(close)?);
        serde_json::from_str(text.get(start..=end)?).ok()
    })
}
