//! Knobs of a request in the protocol's form.

use super::Thinking;
use super::encode::Encoder;
use super::knobs::OUTPUT_NAME;
use crate::schema::to_anthropic;
use crate::tiers;
use placet_core::turn::{Controls, StateMode};
use placet_core::{ProviderError, TurnRequest};
use serde_json::{Map, Value, json};

/// The least that a model can be told to think.
const LEAST_BUDGET: u64 = 1024;
/// What a budget leaves for the answer itself where nobody set a limit.
const LEAST_ANSWER: u64 = 1024;
/// What the thinking of a list of models may be told to cost, by the word for the effort.
const BUDGETS: [(&str, u64); 6] =
    [("minimal", 1024), ("low", 1024), ("medium", 4096), ("high", 8192), ("xhigh", 16384), ("max", 16384)];

impl Encoder<'_> {
    /// What must not be left out and has no form here.
    pub(super) fn refuse(&self, controls: &Controls) -> Result<(), ProviderError> {
        let refusal = self.refusal();
        let no = |is_given: bool, field: &str, why: &str| if is_given { Err(refusal.of(field, why)) } else { Ok(()) };
        no(controls.top_logprobs.is_some(), "top_logprobs", "it tells no probabilities")?;
        no(controls.max_hosted_calls.is_some(), "max_hosted_calls", "only each tool has a limit, `max_uses`")?;
        let too_warm = self.dialect.takes_sampling() && controls.temperature.is_some_and(|warmth| warmth > 1.0);
        no(too_warm, "temperature", "it takes 0 to 1")?;
        no(controls.background == Some(true), "background", "it answers at once only")?;
        // Thinking that can go back is always there: it is signed.
        let odd = controls.include.iter().any(|what| what != "reasoning.encrypted_content");
        no(odd, "include", "it has no such additions to an answer")?;
        no(controls.modalities.iter().any(|mode| mode != "text"), "modalities", "it answers with text only")?;
        no(!controls.safety.is_empty(), "safety", "it has no such settings")?;
        let cached = controls.cache.as_ref().is_some_and(|cache| cache.content.is_some());
        no(cached, "cache.content", "it holds no content under a name")?;
        // The protocol keeps no conversation: every other way is the only way here.
        no(controls.state == Some(StateMode::Stateful), "state.stateful", "it keeps no conversation")?;
        match &controls.state {
            Some(StateMode::Other(word)) => Err(refusal.of("state", &format!("it knows no `{word}`"))),
            _ => Ok(()),
        }
    }

    pub(super) fn output(
        &mut self,
        request: &TurnRequest,
        fields: &mut Map<String, Value>,
    ) -> Result<(), ProviderError> {
        let Some(output) = &request.output else { return Ok(()) };
        let schema = output.schema.as_value();
        let says_nothing = schema.as_object().is_some_and(|schema| schema.keys().all(|key| key == "type"));
        let field = if output.strict { "output.strict" } else { "output.loose" };
        // An answer that is to be JSON is more than a hint, whatever its schema is.
        if !output.strict && says_nothing {
            let why = "the provider takes a whole schema only, and has no word for any object";
            return Err(self.refusal().of("output.any_object", why));
        }
        if !self.dialect.structured_output {
            return Err(self.refusal().of(field, "this model is held to no schema"));
        }
        let (schema, dropped) =
            to_anthropic(schema, !output.strict).map_err(|error| self.refusal().of(field, &error.to_string()))?;
        for word in dropped {
            self.omitted.add(format!("output.loose.{word}"), "the provider does not hold a model to it");
        }
        if output.name != OUTPUT_NAME {
            self.omitted.add("output.name", "this protocol has no word for it");
        }
        if output.description.is_some() {
            self.omitted.add("output.description", "this protocol has no word for it");
        }
        fields.insert("output_config".into(), json!({"format": {"type": "json_schema", "schema": schema}}));
        Ok(())
    }

    pub(super) fn thinking(&mut self, request: &TurnRequest, fields: &mut Map<String, Value>) {
        let (controls, dialect) = (&request.controls, self.dialect);
        let limit = controls.max_output_tokens;
        let max_tokens = |fields: &mut Map<String, Value>, tokens: u64| {
            fields.insert("max_tokens".into(), tokens.into());
        };
        max_tokens(fields, limit.unwrap_or(dialect.max_tokens));
        let effort = controls.reasoning_effort.as_deref();
        let wanted = effort.filter(|effort| *effort != "none");
        if let Some(effort) = wanted.filter(|_| dialect.effort) {
            let is_least = effort == "minimal";
            if is_least {
                self.omitted.add("reasoning_effort.minimal", "the least that it knows is `low`");
            }
            let effort = if is_least { "low" } else { effort };
            let config = fields.entry("output_config").or_insert_with(|| json!({}));
            config["effort"] = effort.into();
        }
        let budget = controls.reasoning_budget;
        let summary = controls.reasoning_summary.as_deref();
        let wants_summary = summary.is_some_and(|summary| summary != "none");
        if effort == Some("none") && budget.is_none() {
            if dialect.thinking != Thinking::None {
                fields.insert("thinking".into(), json!({"type": "disabled"}));
            }
            return;
        }
        // The client's own word for it stands, where it has one.
        let own_type = self.native.and_then(|native| native.get("thinking")?.get("type")).is_some();
        if wanted.is_none() && budget.is_none() && !wants_summary && !own_type {
            return;
        }
        let mut form = match self.thinking_form(request, own_type) {
            Ok(form) => form,
            Err(why) => {
                let reported = [
                    ("reasoning_effort", wanted.is_some() && !dialect.effort),
                    ("reasoning_budget", budget.is_some()),
                    ("reasoning_summary", wants_summary),
                ];
                for (field, _) in reported.into_iter().filter(|(_, is_left_out)| *is_left_out) {
                    self.omitted.add(field, why);
                }
                return;
            }
        };
        if let Some(budget) = form.get("budget_tokens").and_then(Value::as_u64)
            && limit.is_none()
        {
            max_tokens(fields, dialect.max_tokens.max(budget.saturating_add(LEAST_ANSWER)));
        }
        match summary {
            Some(_) if !dialect.thinking_display => {
                self.omitted.add("reasoning_summary", "this model shows its thinking as it will");
            }
            Some("none") => form["display"] = "omitted".into(),
            Some(summary) => {
                if matches!(summary, "concise" | "detailed") {
                    self.omitted.add(format!("reasoning_summary.{summary}"), "it sums thinking up in one way only");
                }
                form["display"] = "summarized".into();
            }
            None => {}
        }
        fields.insert("thinking".into(), form);
    }

    /// The thinking that is asked for, or why there can be none.
    fn thinking_form(&mut self, request: &TurnRequest, own_type: bool) -> Result<Value, &'static str> {
        let controls = &request.controls;
        if own_type && controls.reasoning_budget.is_none() {
            return Ok(json!({}));
        }
        if request.tool_choice.is_forced() {
            return Err("a model that is made to call a tool does not think");
        }
        let named = controls.reasoning_effort.as_deref();
        let of_effort =
            named.and_then(|effort| BUDGETS.iter().find(|(word, _)| *word == effort)).map(|(_, budget)| *budget);
        let (field, budget) = match (self.dialect.thinking, controls.reasoning_budget) {
            (Thinking::None, _) => return Err("this model does not think"),
            (Thinking::Any | Thinking::Budget, Some(budget)) => ("reasoning_budget", budget),
            (Thinking::Adaptive, Some(_)) => {
                self.omitted.add("reasoning_budget", "this model decides itself how much it thinks");
                return Ok(json!({"type": "adaptive"}));
            }
            (Thinking::Any | Thinking::Adaptive, None) => return Ok(json!({"type": "adaptive"})),
            (Thinking::Budget, None) => match of_effort {
                Some(budget) => ("reasoning_effort", budget),
                None => return Err("this model has to be told how much to think"),
            },
        };
        let budget = budget.max(LEAST_BUDGET);
        match controls.max_output_tokens {
            Some(limit) if limit <= budget => {
                let lowered = limit / 2;
                if lowered < LEAST_BUDGET {
                    return Err("`max_output_tokens` leaves no room to think");
                }
                self.omitted.add(format!("{field}.part"), "`max_output_tokens` leaves room for a part of it only");
                Ok(json!({"type": "enabled", "budget_tokens": lowered}))
            }
            _ => Ok(json!({"type": "enabled", "budget_tokens": budget})),
        }
    }

    pub(super) fn controls(&mut self, request: &TurnRequest, fields: &mut Map<String, Value>) {
        let controls = &request.controls;
        if !controls.stop.is_empty() {
            fields.insert("stop_sequences".into(), controls.stop.as_slice().into());
        }
        let mut no_word = |is_given: bool, field: &str| {
            if is_given {
                self.omitted.add(field, "this protocol has no word for it");
            }
        };
        no_word(controls.seed.is_some(), "seed");
        no_word(controls.frequency_penalty.is_some(), "frequency_penalty");
        no_word(controls.presence_penalty.is_some(), "presence_penalty");
        no_word(controls.verbosity.is_some(), "verbosity");
        no_word(controls.store == Some(true), "store.true");
        no_word(!controls.metadata.is_empty(), "metadata");
        no_word(controls.cache.as_ref().is_some_and(|cache| cache.key.is_some()), "cache.key");
        match controls.service_tier.as_deref().map(tiers::anthropic) {
            None => {}
            Some(Some(tier)) => drop(fields.insert("service_tier".into(), tier.into())),
            Some(None) => no_word(true, "service_tier"),
        }
        if let Some(user) = &controls.user {
            fields.insert("metadata".into(), json!({"user_id": user}));
        }
        if let Some(compaction) = &controls.compaction {
            no_word(compaction.preserve_recent_turns.is_some(), "compaction.preserve_recent_turns");
            match compaction.strategy.as_deref() {
                // What happens if nobody says anything.
                Some("disabled") => {}
                _ if !self.dialect.compaction => {
                    self.omitted.add("compaction", "this model does not shorten a conversation");
                }
                _ => {
                    let mut edit = json!({"type": "compact_20260112"});
                    if let Some(tokens) = compaction.max_context_tokens {
                        edit["trigger"] = json!({"type": "input_tokens", "value": tokens});
                    }
                    fields.insert("context_management".into(), json!({"edits": [edit]}));
                }
            }
        }
    }

    pub(super) fn sampling(&mut self, controls: &Controls, fields: &mut Map<String, Value>) {
        let thinks = fields
            .get("thinking")
            .and_then(|thinking| thinking.get("type")?.as_str())
            .is_some_and(|kind| kind != "disabled");
        let mut hint = |name: &'static str, value: Option<Value>, is_taken: bool| match value {
            Some(value) if self.dialect.takes_sampling() && (is_taken || !thinks) => {
                fields.insert(name.into(), value);
            }
            Some(_) if self.dialect.takes_sampling() => {
                self.omitted.add(name, "a model that thinks does not take it");
            }
            Some(_) => self.omitted.add(name, "this model does not take it"),
            None => {}
        };
        let (temperature, top_p) = (controls.temperature, controls.top_p);
        hint("temperature", temperature.map(Value::from), temperature == Some(1.0));
        hint("top_p", top_p.map(Value::from), top_p.is_some_and(|share| share >= 0.95));
        hint("top_k", controls.top_k.map(Value::from), false);
    }
}
