//! Structured output: the shape that an answer must have, and the ways to it.
//!
//! | way | what the model is sent | what is its answer |
//! |---|---|---|
//! | `provider_native` | the schema, as its provider's protocol has it | its text |
//! | `finalizer_tool` | a tool of ours, [`FINAL_TOOL`](placet_core::FINAL_TOOL), whose arguments have the shape | a call of it |
//! | `posthoc_parse` | the schema in its instructions, and that JSON is wanted, where the provider takes that | its text |
//! | `posthoc_parse_with_retry` | the same | its text |
//!
//! Whatever the way, every answer is held to the schema here; one that misses it is told what is wrong and asked again, as
//! often as allowed (never with `posthoc_parse`). Without a choice, it is the first way of the table that the model can.
//!
//! A schema goes out only with turns in which no tool may be called, for many models that are held to a schema call no tools.
//! With tools, the instructions say the shape, and a model that missed it is held to it in the turn after.

mod form;
pub(crate) mod shaping;

pub use shaping::{Judgement, Shaping};

use placet_core::turn::OutputFormat;
use placet_core::{OutputStrategy, Schema};
use placet_tools::Validator;
use placet_tools::schema::schema_of;
use schemars::JsonSchema;
use serde_json::Value;
use std::sync::Arc;

/// The shape that an answer must have.
#[derive(Clone, Debug)]
pub struct Output {
    format: OutputFormat,
    validator: Result<Arc<Validator>, String>,
    strategy: Option<OutputStrategy>,
    repairs: u32,
}

impl Output {
    /// The shape of a type. It is sent without formats that only Rust knows, and closed to fields that the type does not have.
    #[must_use]
    pub fn of<T: JsonSchema>() -> Self {
        let name: String =
            T::schema_name().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(64).collect();
        let name = if name.is_empty() { "answer".to_owned() } else { name };
        Output::from_format(OutputFormat { name, description: None, schema: schema_of::<T>(), strict: true })
    }

    /// The shape of a JSON Schema, under a name of letters, digits, `_` and `-`.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        Output::from_format(OutputFormat {
            name: name.into(),
            description: None,
            schema: Schema::new(schema),
            strict: true,
        })
    }

    /// A shape as a request has it.
    #[must_use]
    pub fn from_format(format: OutputFormat) -> Self {
        let validator = Validator::compile(format.schema.as_value()).map(Arc::new).map_err(|error| error.to_string());
        Output { format, validator, strategy: None, repairs: 1 }
    }

    /// What it is for, told to the model.
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.format.description = Some(text.into());
        self
    }

    /// The way to it. Without it, the surest that the model can; and a way that the provider refuses is left for another then.
    #[must_use]
    pub fn strategy(mut self, strategy: OutputStrategy) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// How often a model that missed the shape is told so and asked again: once without it.
    #[must_use]
    pub fn repairs(mut self, repairs: u32) -> Self {
        self.repairs = repairs;
        self
    }

    /// How often a model that missed the shape is asked again.
    #[must_use]
    pub fn most_repairs(&self) -> u32 {
        if self.strategy == Some(OutputStrategy::PosthocParse) { 0 } else { self.repairs }
    }

    /// The shape.
    #[must_use]
    pub fn format(&self) -> &OutputFormat {
        &self.format
    }

    /// What is wrong with the schema itself.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.validator.as_ref().err().map(String::as_str)
    }
}

/// The JSON in a text: all of it, or what stands in a fence or between the first and the last bracket.
#[must_use]
pub fn json_in(text: &str) -> Option<Value> {
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
