//! One way to a shape: what the model is sent, and what its answer is worth.

use super::{Output, form, json_in};
use crate::answers;
use crate::error::{Problems, Result, RuntimeError};
use placet_core::output::{OutputRejected, OutputSpec};
use placet_core::turn::OutputFormat;
use placet_core::{
    Effect, Env, ErrorKind, FINAL_TOOL, Item, ItemId, Origin, Outcome, OutputStrategy, ProviderError, Reason, Schema,
    Stage, Status, StopReason, ToolCall, ToolChoice, ToolDefinition, ToolName, ToolResult, Turn, TurnRequest,
};
use placet_models::ModelProvider;
use placet_models::profile::{FeatureStatus, Profile};
use placet_tools::{Problem, Validator};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// What a turn is worth, of which an answer in a shape is wanted.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// It answers, and has the shape.
    Fits(Value),
    /// It answers, and does not have it.
    Misses(Vec<Problem>),
    /// It asks for tools, or goes on: there is no answer yet.
    Unfinished,
    /// It was cut before it was whole.
    Cut,
    /// The model refused.
    Refused,
}

/// A wanted shape together with what the model at hand can.
#[derive(Clone)]
pub struct Shaping(Arc<Inner>);

struct Inner {
    spec: OutputSpec,
    validator: Arc<Validator>,
    /// The shape as an object: itself, or wrapped.
    object: Value,
    wrapped: bool,
    /// The form that a provider holds a model to, or why there is none.
    strict: Result<Schema, String>,
    profile: Option<Arc<Profile>>,
}

impl Shaping {
    /// The way to a shape with a model, for a request as it would be without one, whose first `own` tools are the agent's.
    ///
    /// # Errors
    /// [`RuntimeError::Wiring`] where the schema is none, or a tool has the name of the one that answers come by;
    /// [`RuntimeError::Provider`] of kind *unsupported* where the model cannot be brought to the shape in the way that was
    /// chosen.
    pub fn plan(output: &Output, provider: &dyn ModelProvider, request: &TurnRequest, own: usize) -> Result<Self> {
        let spec = |strategy| OutputSpec {
            format: output.format.clone(),
            strategy,
            fallback: None,
            repairs: output.most_repairs(),
        };
        let profile = provider.profile(&request.model);
        let chosen = output.strategy.unwrap_or(OutputStrategy::PosthocParseWithRetry);
        let validator = output.validator.clone().map_err(|problem| RuntimeError::Wiring {
            problems: Problems(vec![format!("the schema of its output cannot be used: {problem}")]),
        })?;
        let mut planned = Shaping::with(spec(chosen), validator, profile);
        if let Some(strategy) = output.strategy {
            if let Err(why) = planned.can(strategy, request, own) {
                let message =
                    format!("the model `{}` cannot be brought to a shape by {strategy}: {why}", request.model);
                let error = ProviderError::new(ErrorKind::Unsupported, provider.id().clone(), message);
                return Err(error.with_hint("without a choice, the surest way is taken that the model can").into());
            }
            return Ok(planned);
        }
        let mut ways = planned.ways().into_iter().filter(|way| planned.can(*way, request, own).is_ok());
        let strategy = ways.next().unwrap_or(OutputStrategy::PosthocParseWithRetry);
        let fallback = ways.next();
        if let Some(inner) = Arc::get_mut(&mut planned.0) {
            (inner.spec.strategy, inner.spec.fallback) = (strategy, fallback);
        }
        Ok(planned)
    }

    /// The way that a run was started with.
    pub(crate) fn of_record(spec: &OutputSpec, provider: &dyn ModelProvider, model: &str) -> Result<Self> {
        let problem = |problem| RuntimeError::internal(format!("the recorded schema of the output: {problem}"));
        let validator = Validator::compile(spec.format.schema.as_value()).map_err(problem)?;
        Ok(Shaping::with(spec.clone(), Arc::new(validator), provider.profile(model)))
    }

    fn with(spec: OutputSpec, validator: Arc<Validator>, profile: Option<Arc<Profile>>) -> Self {
        let schema = spec.format.schema.as_value();
        let wrapped = !form::is_object(schema);
        let object = if wrapped { form::wrapped(schema) } else { schema.clone() };
        let strict = form::strict(&object).map(Schema::new);
        Shaping(Arc::new(Inner { spec, validator, object, wrapped, strict, profile }))
    }

    /// The shape and the way to it.
    #[must_use]
    pub fn spec(&self) -> &OutputSpec {
        &self.0.spec
    }

    /// The ways that come into question, the surest first. Of a model of which nothing is known, not that it calls tools.
    fn ways(&self) -> Vec<OutputStrategy> {
        use OutputStrategy::{FinalizerTool, PosthocParseWithRetry, ProviderNative};
        match &self.0.profile {
            _ if self.is_any_object() => vec![PosthocParseWithRetry],
            Some(_) => vec![ProviderNative, FinalizerTool, PosthocParseWithRetry],
            None => vec![ProviderNative, PosthocParseWithRetry],
        }
    }

    fn is_any_object(&self) -> bool {
        let format = &self.0.spec.format;
        !format.strict && *format.schema.as_value() == serde_json::json!({"type": "object"})
    }

    /// Whether the model can be brought to the shape in this way; why not, otherwise.
    fn can(&self, strategy: OutputStrategy, request: &TurnRequest, own: usize) -> Result<(), String> {
        if let Some(profile) = &self.0.profile {
            let feature = profile.output_strategy(strategy);
            if feature.status == FeatureStatus::Unsupported {
                return Err(feature.reason.unwrap_or_else(|| "it does not take it".to_owned()));
            }
        }
        match strategy {
            OutputStrategy::ProviderNative => {
                if let Err(why) = &self.0.strict {
                    return Err(format!("no provider holds a model to this schema: {why}"));
                }
            }
            OutputStrategy::FinalizerTool => {
                if request.tool_choice == ToolChoice::None {
                    return Err("it may call no tools".to_owned());
                }
                if request.tools.iter().any(|tool| tool.name.as_str() == FINAL_TOOL) {
                    return Err(format!("another tool has the name {FINAL_TOOL}; rename it"));
                }
            }
            OutputStrategy::PosthocParse | OutputStrategy::PosthocParseWithRetry => return Ok(()),
        }
        // What is wrong with the request anyway is told where it is asked.
        let Some(profile) = self.0.profile.as_ref().filter(|profile| profile.check(request).is_ok()) else {
            return Ok(());
        };
        for misses in [0, 1] {
            profile.check(&self.shaped(request.clone(), own, strategy, misses)).map_err(|error| error.message)?;
        }
        Ok(())
    }

    /// A request as it goes out, from what it would be without a shape, after so many answers that missed it.
    #[must_use]
    pub fn shaped(&self, mut request: TurnRequest, own: usize, strategy: OutputStrategy, misses: usize) -> TurnRequest {
        let mute = request.tools.is_empty() || request.tool_choice == ToolChoice::None;
        match strategy {
            OutputStrategy::ProviderNative => {
                if !mute || self.0.profile.is_none() {
                    instruct(&mut request, &self.instruction());
                }
                if mute || misses > 0 {
                    request.output = Some(self.native());
                    if !mute && self.takes(&with_choice(&request, ToolChoice::None)) {
                        request.tool_choice = ToolChoice::None;
                    }
                }
            }
            OutputStrategy::FinalizerTool => {
                let alone = request.tools.is_empty() && request.hosted.is_empty();
                instruct(&mut request, &final_instruction());
                request.tools.insert(own.min(request.tools.len()), Arc::new(self.final_tool()));
                let name = ToolName::from(FINAL_TOOL);
                match &mut request.tool_choice {
                    ToolChoice::Allowed(allowed) => allowed.names.push(name),
                    ToolChoice::Auto if alone || misses > 0 => {
                        let forced = with_choice(&request, ToolChoice::Tool(name));
                        if self.takes(&forced) {
                            request = forced;
                        }
                    }
                    _ => {}
                }
            }
            OutputStrategy::PosthocParse | OutputStrategy::PosthocParseWithRetry => {
                instruct(&mut request, &self.instruction());
                if mute || misses > 0 {
                    request.output = self.wish();
                }
            }
        }
        request
    }

    fn takes(&self, request: &TurnRequest) -> bool {
        self.0.profile.as_ref().is_none_or(|profile| profile.check(request).is_ok())
    }

    fn native(&self) -> OutputFormat {
        let format = &self.0.spec.format;
        match &self.0.strict {
            Ok(strict) => OutputFormat { schema: strict.clone(), strict: true, ..format.clone() },
            Err(_) => OutputFormat { strict: false, ..format.clone() },
        }
    }

    /// What a provider that holds its models to nothing may be sent as a hint.
    fn wish(&self) -> Option<OutputFormat> {
        let profile = self.0.profile.as_ref()?;
        let format = &self.0.spec.format;
        if self.0.wrapped {
            return None;
        }
        let any = || OutputFormat {
            name: format.name.clone(),
            description: None,
            schema: Schema::new(serde_json::json!({"type": "object"})),
            strict: false,
        };
        (profile.status("output.any_object") == FeatureStatus::Supported).then(any)
    }

    fn final_tool(&self) -> ToolDefinition {
        let format = &self.0.spec.format;
        let mut text =
            "Submits your final answer and ends the work. Call it once, alone, when everything else is done."
                .to_owned();
        if let Some(description) = &format.description {
            text.push(' ');
            text.push_str(description);
        }
        let (schema, strict) = match &self.0.strict {
            Ok(strict) => (strict.clone(), Some(true)),
            Err(_) => (Schema::new(self.0.object.clone()), None),
        };
        ToolDefinition { strict, ..ToolDefinition::new(FINAL_TOOL, text, schema, Effect::Read) }
    }

    fn instruction(&self) -> String {
        format!(
            "Your last answer must be one JSON value, and nothing else, of this JSON Schema:\n{}",
            self.0.spec.format.schema.as_value()
        )
    }

    /// What a turn is worth.
    #[must_use]
    pub fn judge(&self, turn: &Turn, strategy: OutputStrategy) -> Judgement {
        if turn.stop.is_cut() {
            return Judgement::Cut;
        }
        let calls: Vec<&ToolCall> = turn.calls().collect();
        if let Some((_, judged)) = self.submission(&calls, strategy) {
            return judged.map_or_else(Judgement::Misses, Judgement::Fits);
        }
        match &turn.stop {
            StopReason::Refusal => Judgement::Refused,
            StopReason::Pause => Judgement::Unfinished,
            _ if !calls.is_empty() => Judgement::Unfinished,
            _ => self.judge_text(&turn.text(), strategy).map_or_else(Judgement::Misses, Judgement::Fits),
        }
    }

    /// What a text is worth as an answer: its value, or what is wrong with it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge_text(&self, text: &str, strategy: OutputStrategy) -> Result<Value, Vec<Problem>> {
        match json_in(text) {
            Some(value) => self.fit(value, strategy, false),
            None if strategy == OutputStrategy::FinalizerTool => {
                Err(whole(format!("it is a text; submit it by calling the tool {FINAL_TOOL}")))
            }
            None => Err(whole("it is not JSON; answer with one JSON value and nothing else".to_owned())),
        }
    }

    /// The one call of a round that submits an answer, and what it is worth: the first that fits, else the first.
    pub(crate) fn submission<'c>(
        &self,
        calls: &[&'c ToolCall],
        strategy: OutputStrategy,
    ) -> Option<(&'c ToolCall, Result<Value, Vec<Problem>>)> {
        if strategy != OutputStrategy::FinalizerTool {
            return None;
        }
        let submitted = calls.iter().filter(|call| call.name.as_str() == FINAL_TOOL);
        let mut judged = submitted.map(|call| {
            let arguments = serde_json::from_str::<Value>(call.arguments.as_text());
            let value = arguments.map_err(|error| whole(format!("it is not JSON: {error}")));
            (*call, value.and_then(|value| self.fit(value, strategy, true)))
        });
        let first = judged.next()?;
        match first.1 {
            Ok(_) => Some(first),
            Err(_) => judged.find(|(_, judged)| judged.is_ok()).or(Some(first)),
        }
    }

    /// The answers to all calls of a round in which an answer was submitted; nothing where none was.
    pub(crate) fn answers(&self, calls: &[&ToolCall], strategy: OutputStrategy) -> Option<Vec<Outcome>> {
        let (call, judged) = self.submission(calls, strategy)?;
        let outcome = |one: &&ToolCall| match &judged {
            _ if one.id != call.id => answers::not_run("an answer was submitted in the same message"),
            Ok(value) => {
                let mut taken = Outcome::new(Status::Completed, Stage::Execute, None, "the answer was taken");
                taken.payload = Some(value.clone());
                taken
            }
            Err(problems) => {
                let text = format!(
                    "the answer does not have the wanted shape:\n- {}\ncall {FINAL_TOOL} again, with the whole answer",
                    said(problems).join("\n- ")
                );
                let reason = Some(Reason::InvalidArguments);
                let mut mistaken = Outcome::new(Status::Mistaken, Stage::Arguments, reason, text);
                mistaken.detail = serde_json::to_value(problems).ok();
                mistaken
            }
        };
        Some(calls.iter().map(outcome).collect())
    }

    /// What follows a turn in the conversation that missed the shape, where the model is asked again.
    #[must_use]
    pub fn repair(&self, turn: &Turn, problems: &[Problem], strategy: OutputStrategy, env: &Env) -> Vec<Arc<Item>> {
        let calls: Vec<&ToolCall> = turn.calls().collect();
        let Some(outcomes) = self.answers(&calls, strategy) else {
            return vec![complaint(env.new_id(), &said(problems), strategy)];
        };
        let results = calls.iter().zip(outcomes).map(|(call, outcome)| ToolResult::of(call, outcome).into_item());
        results.collect()
    }

    /// The way that is taken from here on, where a provider refused a request with the shape for what may be the shape's sake.
    #[must_use]
    pub fn fallback(&self, strategy: OutputStrategy, error: &ProviderError) -> Option<OutputStrategy> {
        let refused = match error.kind {
            ErrorKind::InvalidRequest => true,
            // A model of which nothing else is known says for itself what it can.
            ErrorKind::Unsupported => self.0.profile.is_some(),
            _ => false,
        };
        self.0.spec.fallback.filter(|_| refused && strategy == self.0.spec.strategy)
    }

    /// An answer held to the schema. Fields that may be missing and came as null, for the provider's form of the schema has
    /// it so, are taken out.
    fn fit(&self, value: Value, strategy: OutputStrategy, called: bool) -> Result<Value, Vec<Problem>> {
        if !called && self.0.validator.is_valid(&value) {
            return Ok(value);
        }
        let inner = match &value {
            Value::Object(map) if self.0.wrapped && map.len() == 1 => map.get(form::FIELD),
            _ => None,
        };
        if let Some(inner) = inner {
            return self.fit_bare(inner.clone(), strategy);
        }
        if self.0.wrapped && called {
            return Err(whole(format!("expected one field {:?}, which has the answer", form::FIELD)));
        }
        self.fit_bare(value, strategy)
    }

    fn fit_bare(&self, mut value: Value, strategy: OutputStrategy) -> Result<Value, Vec<Problem>> {
        let is_held = matches!(strategy, OutputStrategy::ProviderNative | OutputStrategy::FinalizerTool);
        loop {
            let problems = self.0.validator.problems(&value);
            if problems.is_empty() {
                return Ok(value);
            }
            let nulls = problems.iter().filter(|problem| take_null(&mut value, &problem.path)).count();
            if nulls == 0 || !is_held || self.0.strict.is_err() {
                return Err(problems);
            }
        }
    }
}

impl fmt::Debug for Shaping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shaping").field("spec", &self.0.spec).finish_non_exhaustive()
    }
}

/// Takes a field of an object out that is null.
fn take_null(value: &mut Value, path: &str) -> bool {
    let Some((parent, name)) = path.rsplit_once('/') else { return false };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) if map.get(&name) == Some(&Value::Null) => map.shift_remove(&name).is_some(),
        _ => false,
    }
}

fn with_choice(request: &TurnRequest, choice: ToolChoice) -> TurnRequest {
    TurnRequest { tool_choice: choice, ..request.clone() }
}

fn instruct(request: &mut TurnRequest, text: &str) {
    request.instructions = Some(match request.instructions.as_deref().filter(|own| !own.trim().is_empty()) {
        Some(own) => [own, "\n\n", text].concat().into(),
        None => text.into(),
    });
}

fn final_instruction() -> String {
    format!("Give your final answer by calling the tool {FINAL_TOOL}, once and alone, and not as a text.")
}

fn whole(problem: String) -> Vec<Problem> {
    vec![Problem { path: String::new(), problem }]
}

/// Problems in words, each with its place.
pub(crate) fn said(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// What a model is told that missed the shape.
pub(crate) fn complaint(id: ItemId, problems: &[String], strategy: OutputStrategy) -> Arc<Item> {
    let again = match strategy {
        OutputStrategy::FinalizerTool => format!("Submit your answer by calling the tool {FINAL_TOOL}."),
        _ => "Answer again, with one JSON value of the schema and nothing else.".to_owned(),
    };
    let text = format!("Your answer does not have the wanted shape:\n- {}\n{again}", problems.join("\n- "));
    let mut item = Item::user(id, text);
    item.origin = Origin::Operator.into();
    Arc::new(item)
}

/// The record of an answer that missed the shape; with what the model is told, where it is asked again.
pub(crate) fn rejected(
    turn: u32,
    problems: Vec<String>,
    asked_again: Option<ItemId>,
    strategy: OutputStrategy,
) -> OutputRejected {
    let item = asked_again.map(|id| complaint(id, &problems, strategy));
    OutputRejected { turn, problems, item }
}

#[cfg(test)]
#[path = "shaping_tests.rs"]
mod tests;
