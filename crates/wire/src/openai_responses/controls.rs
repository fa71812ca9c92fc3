//! The knobs of a request, onto the wire.

use super::UserField;
use super::encode::{Body, Encoder, FOREIGN};
use crate::foreign;
use crate::tiers;
use placet_core::ProviderError;
use placet_core::turn::{CacheStrategy, StateMode};
use serde_json::{Map, Value, json};
use std::collections::HashSet;

const NOT_TAKEN: &str = "this server does not take it";
/// What has to be asked for so that thinking comes encrypted.
const ENCRYPTED: &str = "reasoning.encrypted_content";
pub(super) const LOGPROBS: &str = "message.output_text.logprobs";

impl Encoder<'_> {
    fn hint(&mut self, body: &mut Body<'_>, field: &str, key: &str, value: Option<Value>, is_taken: bool) {
        match value {
            Some(value) if is_taken => body.put(key, value),
            Some(_) => self.omitted.add(field, NOT_TAKEN),
            None => {}
        }
    }

    pub(super) fn controls(&mut self, body: &mut Body<'_>) -> Result<(), ProviderError> {
        let (controls, dialect) = (&self.request.controls, self.dialect);
        if !controls.stop.is_empty() {
            return Err(self.unsupported("stop"));
        }
        if controls.modalities.iter().any(|modality| modality != "text") {
            return Err(self.unsupported("modalities"));
        }
        if let Some(limit) = controls.max_output_tokens {
            body.put("max_output_tokens", limit);
        }
        if let Some(limit) = controls.max_hosted_calls {
            body.put("max_tool_calls", limit);
        }
        match controls.background {
            Some(background) if dialect.background => body.put("background", background),
            Some(true) => return Err(self.unsupported("background")),
            Some(false) | None => {}
        }
        let number = |value: Option<f64>| value.map(Value::from);
        self.hint(body, "temperature", "temperature", number(controls.temperature), dialect.sampling);
        self.hint(body, "top_p", "top_p", number(controls.top_p), dialect.sampling);
        let left_out = [
            ("top_k", controls.top_k.is_some()),
            ("seed", controls.seed.is_some()),
            ("frequency_penalty", controls.frequency_penalty.is_some()),
            ("presence_penalty", controls.presence_penalty.is_some()),
            ("reasoning_budget", controls.reasoning_budget.is_some()),
        ];
        for (field, _) in left_out.into_iter().filter(|(_, is_set)| *is_set) {
            self.omitted.add(field, "this protocol has no place for it");
        }
        let nested = [
            ("reasoning_effort", "reasoning", "effort", &controls.reasoning_effort, dialect.reasoning_effort),
            ("reasoning_summary", "reasoning", "summary", &controls.reasoning_summary, dialect.reasoning_summary),
            ("verbosity", "text", "verbosity", &controls.verbosity, dialect.verbosity),
        ];
        for (field, key, inner, value, is_taken) in nested {
            match value {
                // The protocol's word for none at all is to say nothing.
                Some(word) if field == "reasoning_summary" && word == "none" => {}
                Some(word) if is_taken => body.put_in(key, inner, word.as_str()),
                Some(_) => self.omitted.add(field, NOT_TAKEN),
                None => {}
            }
        }
        let known = controls.service_tier.as_deref().map(|tier| tiers::openai(tier, false));
        if known == Some(None) {
            self.omitted.add("service_tier", "this protocol has no word for it");
        }
        let tier = known.flatten().map(Value::from);
        self.hint(body, "service_tier", "service_tier", tier, dialect.service_tier);
        if !controls.metadata.is_empty() {
            // Values are texts in this protocol.
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let metadata: Map<String, Value> =
                controls.metadata.iter().map(|(key, value)| (key.clone(), text(value).into())).collect();
            self.hint(body, "metadata", "metadata", Some(metadata.into()), dialect.metadata);
        }
        let user = controls.user.clone().map(Value::from);
        match dialect.user {
            UserField::SafetyIdentifier => self.hint(body, "user", "safety_identifier", user, true),
            UserField::User => self.hint(body, "user", "user", user, true),
            UserField::None => self.hint(body, "user", "user", user, false),
        }
        for safety in &controls.safety {
            let own = safety.value.as_object().filter(|_| safety.provider == dialect.provider);
            match own.and_then(|own| own.get("moderation").filter(|_| own.len() == 1)) {
                Some(moderation) => body.put("moderation", moderation.clone()),
                None => return Err(self.unsupported("safety")),
            }
        }
        self.cache(body)?;
        self.compaction(body);
        self.state(body)
    }

    fn cache(&mut self, body: &mut Body<'_>) -> Result<(), ProviderError> {
        let Some(cache) = &self.request.controls.cache else { return Ok(()) };
        let is_taken = self.dialect.cache;
        if cache.content.is_some() {
            return Err(self.unsupported("cache.content"));
        }
        let mode = match &cache.strategy {
            None => None,
            Some(CacheStrategy::Auto) => Some(("cache.auto", "implicit")),
            Some(CacheStrategy::Explicit) => Some(("cache.explicit", "explicit")),
            Some(CacheStrategy::Bypass) => return Err(self.unsupported("cache.bypass")),
            Some(other) => {
                self.omitted.add(format!("cache.{other}"), "this protocol has no such way of caching");
                None
            }
        };
        match mode {
            Some((_, mode)) if is_taken => body.put_in("prompt_cache_options", "mode", mode),
            Some((field, _)) => self.omitted.add(field, NOT_TAKEN),
            None => {}
        }
        let key = cache.key.clone().map(Value::from);
        self.hint(body, "cache.key", "prompt_cache_key", key, is_taken);
        // The shortest lifetime on offer that is not shorter.
        match cache.ttl.as_deref() {
            Some(_) if !is_taken => self.omitted.add("cache.ttl", NOT_TAKEN),
            Some("5m" | "30m") => body.put_in("prompt_cache_options", "ttl", "30m"),
            Some("1h" | "12h") => body.put_in("prompt_cache_options", "ttl", "12h"),
            Some(ttl @ ("24h" | "in_memory")) => body.put("prompt_cache_retention", ttl),
            Some(_) => self.omitted.add("cache.ttl", "the server offers no such lifetime"),
            None => {}
        }
        Ok(())
    }

    fn compaction(&mut self, body: &mut Body<'_>) {
        let Some(compaction) = &self.request.controls.compaction else { return };
        if !self.dialect.compaction {
            return self.omitted.add("compaction", NOT_TAKEN);
        }
        match compaction.strategy.as_deref() {
            Some(strategy @ ("auto" | "disabled")) => body.put("truncation", strategy),
            Some(_) => self.omitted.add("compaction", "the server has no such strategy"),
            None => {}
        }
        if let Some(threshold) = compaction.max_context_tokens {
            body.put("context_management", json!([{"type": "compaction", "compact_threshold": threshold}]));
        }
        if compaction.preserve_recent_turns.is_some() {
            self.omitted.add("compaction.preserve_recent_turns", "this protocol has no place for it");
        }
    }

    /// Whether the provider keeps the answer, what it is to go on from, and what the answer has to bring along.
    fn state(&mut self, body: &mut Body<'_>) -> Result<(), ProviderError> {
        let (request, dialect) = (self.request, self.dialect);
        let controls = &request.controls;
        let store = match (&controls.state, controls.store) {
            (Some(StateMode::ZeroRetention | StateMode::EncryptedReasoning), Some(true)) => {
                return Err(self.invalid("`store` says to keep the answer, and the state mode to keep nothing"));
            }
            (Some(StateMode::Stateful), Some(false)) => {
                return Err(self.invalid("the state mode needs the answer kept, and `store` says to keep nothing"));
            }
            (Some(StateMode::Stateful), _) if !dialect.stateful => return Err(self.unsupported("state.stateful")),
            (Some(StateMode::ZeroRetention | StateMode::EncryptedReasoning), _) => Some(false),
            (Some(StateMode::Stateful | StateMode::Replay), None) => Some(true).filter(|_| dialect.store),
            (_, store) => store,
        };
        match store {
            Some(store) if dialect.store => body.put("store", store),
            Some(true) => self.omitted.add("store.true", "the server keeps nothing"),
            Some(false) | None => {}
        }
        self.is_unstored = store == Some(false);
        let mut include: Vec<&str> = controls.include.iter().map(String::as_str).collect();
        if controls.state == Some(StateMode::EncryptedReasoning) {
            include.push(ENCRYPTED);
        }
        if let Some(logprobs) = controls.top_logprobs {
            if !dialect.logprobs {
                return Err(self.unsupported("top_logprobs"));
            }
            body.put("top_logprobs", logprobs);
            include.push(LOGPROBS);
        }
        let mut seen = HashSet::new();
        include.retain(|entry| seen.insert(*entry));
        if !dialect.encrypted_reasoning && include.contains(&ENCRYPTED) {
            include.retain(|entry| *entry != ENCRYPTED);
            self.omitted.add(format!("include {ENCRYPTED}"), "this model does not give its thinking encrypted");
        }
        if !include.is_empty() {
            body.put("include", include);
        }
        let Some(state) = &request.provider_state else { return Ok(()) };
        if state.provider != dialect.provider {
            self.omitted.add("provider_state", FOREIGN);
        } else if matches!(controls.state, None | Some(StateMode::Stateful)) || foreign::followed(request).is_some() {
            if !dialect.stateful {
                self.omitted.add("provider_state", "the server keeps no answers");
                return Ok(());
            }
            for key in ["previous_response_id", "conversation"] {
                if let Some(value) = state.value.get(key) {
                    body.put(key, value.clone());
                }
            }
        }
        Ok(())
    }
}
