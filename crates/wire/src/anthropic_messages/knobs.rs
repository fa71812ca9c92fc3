//! The knobs of a client's body in our words.

use super::request::{Reader, beyond, cache_mark, text_at};
use crate::request::RequestError;
use crate::schema::fits_strict;
use placet_core::turn::{CacheControl, CacheStrategy, Compaction, OutputFormat};
use placet_core::{ProviderState, Schema};
use serde_json::{Map, Value, json};

impl Reader<'_> {
    pub(super) fn controls(&mut self, fields: &Map<String, Value>) -> Result<(), RequestError> {
        let number = |key: &'static str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_f64() {
                Some(number) => Ok(Some(number)),
                None => Err(RequestError::field(key, "expected a number")),
            },
        };
        let whole = |key: &'static str| match fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(RequestError::field(key, "expected a whole number")),
            },
        };
        let controls = &mut self.request.controls;
        controls.max_output_tokens = whole("max_tokens")?;
        controls.temperature = number("temperature")?;
        controls.top_p = number("top_p")?;
        controls.top_k = whole("top_k")?;
        controls.stop = match fields.get("stop_sequences") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(stops)) if stops.iter().all(Value::is_string) => {
                stops.iter().filter_map(Value::as_str).map(str::to_owned).collect()
            }
            Some(_) => return Err(RequestError::field("stop_sequences", "expected a list of texts")),
        };
        controls.service_tier = text_at(fields, "service_tier")
            .map(|tier| if tier == "standard_only" { "default" } else { tier }.to_owned());
        if let Some(Value::Object(metadata)) = fields.get("metadata") {
            controls.user = text_at(metadata, "user_id").map(str::to_owned);
            let beyond = beyond(metadata, &["user_id"]);
            if !beyond.is_empty() {
                self.native.insert("metadata".into(), beyond.into());
            }
        }
        if fields.get("cache_control").is_some_and(Value::is_object) {
            let (mark, whole) = cache_mark(fields);
            let ttl = mark.and_then(|mark| mark.ttl);
            let strategy = Some(CacheStrategy::Auto);
            controls.cache = Some(CacheControl { strategy, ttl, ..CacheControl::default() });
            self.native.extend(whole.map(|whole| ("cache_control".to_owned(), whole)));
        }
        if let Some(management) = fields.get("context_management").filter(|value| !value.is_null()) {
            match compaction(management) {
                Some(compaction) => controls.compaction = Some(compaction),
                None => {
                    self.native.insert("context_management".into(), management.clone());
                }
            }
        }
        match fields.get("container") {
            None | Some(Value::Null) => {}
            Some(Value::String(id)) => {
                let value = json!({"container": id});
                self.request.provider_state = Some(ProviderState { provider: self.provider.clone(), value });
            }
            Some(other) => {
                self.native.insert("container".into(), other.clone());
            }
        }
        self.output(fields);
        self.thinking(fields);
        Ok(())
    }

    fn output(&mut self, fields: &Map<String, Value>) {
        let none = Map::new();
        let config = fields.get("output_config").and_then(Value::as_object).unwrap_or(&none);
        self.request.controls.reasoning_effort = text_at(config, "effort").map(str::to_owned);
        let mut left = beyond(config, &["effort", "format"]);
        let format = config.get("format").filter(|format| !format.is_null());
        let older = fields.get("output_format").filter(|format| !format.is_null());
        match format.or(older).map(output_format) {
            Some(Some(output)) => self.request.output = Some(output),
            Some(None) => match format {
                Some(format) => {
                    left.insert("format".into(), format.clone());
                }
                None => self.native.extend(older.map(|older| ("output_format".to_owned(), older.clone()))),
            },
            None => {}
        }
        if !left.is_empty() {
            self.native.insert("output_config".into(), left.into());
        }
    }

    /// Thinking in our words, as far as they go; the rest is native. A null there says that none was asked for, where our
    /// words alone would.
    fn thinking(&mut self, fields: &Map<String, Value>) {
        let controls = &mut self.request.controls;
        let Some(Value::Object(thinking)) = fields.get("thinking") else {
            if controls.reasoning_effort.is_some() {
                self.native.insert("thinking".into(), Value::Null);
            }
            return;
        };
        let mut left = beyond(thinking, &["type", "budget_tokens", "display"]);
        match text_at(thinking, "display") {
            Some("summarized") => controls.reasoning_summary = Some("auto".to_owned()),
            Some("omitted") => controls.reasoning_summary = Some("none".to_owned()),
            Some(other) => {
                left.insert("display".into(), other.into());
            }
            None => {}
        }
        let budget = thinking.get("budget_tokens").and_then(Value::as_u64);
        match (text_at(thinking, "type"), budget) {
            (Some("enabled"), Some(budget)) => controls.reasoning_budget = Some(budget),
            (Some("adaptive"), _)
                if controls.reasoning_effort.is_some() || controls.reasoning_summary.as_deref() == Some("auto") => {}
            (Some("disabled"), _) if controls.reasoning_effort.is_none() => {
                controls.reasoning_effort = Some("none".to_owned());
            }
            (kind, budget) => {
                left.extend(kind.map(|kind| ("type".to_owned(), kind.into())));
                left.extend(budget.map(|budget| ("budget_tokens".to_owned(), budget.into())));
            }
        }
        if !left.is_empty() {
            self.native.insert("thinking".into(), left.into());
        }
    }
}

/// The protocol has no name for a schema, so it gets one.
pub(super) const OUTPUT_NAME: &str = "output";

fn output_format(format: &Value) -> Option<OutputFormat> {
    let format = format.as_object()?;
    let is_known = text_at(format, "type") == Some("json_schema") && beyond(format, &["type", "schema"]).is_empty();
    let schema = format.get("schema").filter(|schema| is_known && schema.is_object())?;
    // Others hold a model to closed schemas only. Here it is held to any.
    let strict = fits_strict(schema);
    Some(OutputFormat { name: OUTPUT_NAME.to_owned(), description: None, schema: Schema::new(schema.clone()), strict })
}

/// The one edit that has a name of ours, where there is no other.
fn compaction(management: &Value) -> Option<Compaction> {
    let management = management.as_object().filter(|management| beyond(management, &["edits"]).is_empty())?;
    let [Value::Object(edit)] = management.get("edits")?.as_array()?.as_slice() else { return None };
    if text_at(edit, "type") != Some("compact_20260112") || !beyond(edit, &["type", "trigger"]).is_empty() {
        return None;
    }
    let max_context_tokens = match edit.get("trigger").filter(|trigger| !trigger.is_null()) {
        None => None,
        Some(trigger) => {
            let trigger = trigger.as_object().filter(|trigger| text_at(trigger, "type") == Some("input_tokens"))?;
            Some(trigger.get("value")?.as_u64()?)
        }
    };
    Some(Compaction { strategy: Some("auto".to_owned()), max_context_tokens, preserve_recent_turns: None })
}
