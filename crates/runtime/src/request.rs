//! What a run is started with.

use crate::error::{Problems, Result, RuntimeError};
use crate::handle::RunHandle;
use crate::launch::{self, FirstTurn};
use crate::output::{Output, Shaping};
use crate::runtime::Runtime;
use futures_util::FutureExt;
use placet_core::event::{RunStarted, TurnCompleted};
use placet_core::hosted::HostedTool;
use placet_core::turn::Controls;
use placet_core::{
    Billing, BoxFuture, Event, Item, Limits, ModelPrice, Price, ProviderState, RunId, SharedText, ToolChoice,
    ToolDefinition, ToolName, Turn, TurnRequest,
};
use placet_models::SharedProvider;
use placet_observe::RunResult;
use placet_tools::{Approver, Grant, Policy, Private, Registry};
use schemars::JsonSchema;
use serde_json::{Map, Value};
use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Which model is asked.
#[derive(Clone, Debug)]
pub enum ModelChoice {
    /// A provider of the runtime and its model, as in `openai:gpt-5.4`.
    Reference(String),
    /// This provider, and the name of its model.
    Given(SharedProvider, String),
}

impl From<&str> for ModelChoice {
    fn from(reference: &str) -> Self {
        ModelChoice::Reference(reference.to_owned())
    }
}

impl From<String> for ModelChoice {
    fn from(reference: String) -> Self {
        ModelChoice::Reference(reference)
    }
}

impl<M: Into<String>> From<(SharedProvider, M)> for ModelChoice {
    fn from((provider, model): (SharedProvider, M)) -> Self {
        ModelChoice::Given(provider, model.into())
    }
}

/// Watches the events of a run.
pub(crate) type Observer = Box<dyn FnMut(&Event) + Send>;

/// A run that is not started yet. Nothing here can fail; everything that is wrong is told at the start, all at once, and
/// then nothing was sent and nothing was recorded.
///
/// `.await` starts it and waits for its result; [`RunBuilder::start`] gives a handle while it goes on.
#[must_use = "a run does nothing until it is started"]
pub struct RunBuilder {
    pub(crate) runtime: Runtime,
    pub(crate) model: ModelChoice,
    pub(crate) id: Option<RunId>,
    pub(crate) instructions: Option<String>,
    pub(crate) input: Vec<Arc<Item>>,
    pub(crate) provider_state: Option<ProviderState>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) declared: Vec<Arc<ToolDefinition>>,
    pub(crate) tool_choice: ToolChoice,
    pub(crate) controls: Controls,
    pub(crate) output: Option<Output>,
    pub(crate) limits: Limits,
    pub(crate) price: Option<Price>,
    pub(crate) rates: Option<Arc<ModelPrice>>,
    pub(crate) billing: Option<Billing>,
    pub(crate) launch: Map<String, Value>,
    pub(crate) unredacted: bool,
    pub(crate) extras: Extras,
}

/// What a run is handed that no record holds: a resumed run is handed it again.
#[derive(Default)]
pub(crate) struct Extras {
    pub(crate) private: Private,
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) approver: Option<Arc<dyn Approver>>,
    pub(crate) observers: Vec<Observer>,
    /// The trace that its requests are a part of, as the header `traceparent` says it.
    pub(crate) trace: Option<String>,
    pub(crate) cancel: CancellationToken,
    pub(crate) leave: CancellationToken,
    pub(crate) leave_now: CancellationToken,
    /// Whether the run ends once the calls of its first turn are answered.
    pub(crate) round_only: bool,
    /// The provider's own tools, whose configuration may hold credentials.
    pub(crate) hosted: Vec<HostedTool>,
}

impl Extras {
    /// The provider's own tools as a record has them.
    pub(crate) fn hosted_names(&self) -> Vec<String> {
        let name = |tool: &HostedTool| match tool {
            HostedTool::RemoteMcp(server) => format!("{}:{}", tool.kind(), server.label),
            _ => tool.kind().to_owned(),
        };
        self.hosted.iter().map(name).collect()
    }
}

impl RunBuilder {
    pub(crate) fn new(runtime: Runtime, model: ModelChoice) -> Self {
        RunBuilder {
            runtime,
            model,
            id: None,
            instructions: None,
            input: Vec::new(),
            provider_state: None,
            grants: Vec::new(),
            declared: Vec::new(),
            tool_choice: ToolChoice::Auto,
            controls: Controls::default(),
            output: None,
            limits: Limits::default(),
            price: None,
            rates: None,
            billing: None,
            launch: Map::new(),
            unredacted: false,
            extras: Extras::default(),
        }
    }

    /// The id, for callers that bring their own. Without it, a new one.
    pub fn id(mut self, run: RunId) -> Self {
        self.id = Some(run);
        self
    }

    /// What the operator tells the model before everything else. The capabilities' own instructions come below it.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// Adds what the user says.
    pub fn input(mut self, text: impl Into<SharedText>) -> Self {
        let id = self.runtime.env().new_id();
        self.input.push(Arc::new(Item::user(id, text)));
        self
    }

    /// Adds items to the conversation, for instance those of an earlier run.
    pub fn items(mut self, items: impl IntoIterator<Item = Arc<Item>>) -> Self {
        self.input.extend(items);
        self
    }

    /// What the provider needs to go on with an earlier conversation.
    pub fn provider_state(mut self, state: Option<ProviderState>) -> Self {
        self.provider_state = state;
        self
    }

    /// Hands over a capability, a grant of one, or a single tool.
    pub fn grant(mut self, grant: impl Into<Grant>) -> Self {
        self.grants.push(grant.into());
        self
    }

    /// Hands over a single tool.
    pub fn tool(self, tool: impl Into<Grant>) -> Self {
        self.grant(tool)
    }

    /// Tells the model of a tool that somebody else answers. A round that calls one is handed back whole, unrun.
    pub fn declare(mut self, tool: impl Into<Arc<ToolDefinition>>) -> Self {
        self.declared.push(tool.into());
        self
    }

    /// Offers a tool that the provider runs itself. No record holds more of it than its kind, so a resumed run is handed it again.
    pub fn hosted(mut self, tool: HostedTool) -> Self {
        self.extras.hosted.push(tool);
        self
    }

    /// Whether and what the model must call at first; after the first round it is free.
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = choice;
        self
    }

    /// Knobs of its turns.
    pub fn controls(mut self, controls: Controls) -> Self {
        self.controls = controls;
        self
    }

    /// The type that its answer must have: see [`RunResult::parse`].
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_shape(Output::of::<T>())
    }

    /// The shape that its answer must have: the run goes on until the model gives one, and fails where it does not, once told
    /// what is wrong as often as allowed. The answer is [`RunResult::output`]. What is streamed meanwhile may be rejected yet.
    pub fn output_shape(mut self, output: impl Into<Option<Output>>) -> Self {
        self.output = output.into();
        self
    }

    /// How much it may use.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// What tokens cost. Without it and without [`RunBuilder::rates`], the cost is unknown, and there can be no limit on it.
    pub fn price(mut self, price: impl Into<Option<Price>>) -> Self {
        self.price = price.into();
        self
    }

    /// What everything costs that a model charges for, where no [`RunBuilder::price`] is given: from a catalog, say.
    pub fn rates(mut self, rates: impl Into<Option<Arc<ModelPrice>>>) -> Self {
        self.rates = rates.into();
        self
    }

    /// How the amount is reckoned that is billed for it. It is recorded at the end, beside what the run costs.
    pub fn billing(mut self, billing: impl Into<Option<Billing>>) -> Self {
        self.billing = billing.into();
        self
    }

    /// What the program was started with, so that it can build the grants again when the run is resumed.
    pub fn launch(mut self, launch: Map<String, Value>) -> Self {
        self.launch = launch;
        self
    }

    /// Switches redaction off for the whole run. Journal and console show it.
    pub fn unredacted(mut self) -> Self {
        self.unredacted = true;
        self
    }

    /// A value for handlers, found by its type. The model never sees it, and no record holds it.
    pub fn private<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.extras.private = self.extras.private.with(value);
        self
    }

    /// What judges each call, in place of the runtime's.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.extras.policy = Some(policy);
        self
    }

    /// Who is asked for approvals, in place of the runtime's.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.extras.approver = Some(approver);
        self
    }

    /// Calls a function with every event, in order, beside the run: it cannot hold it up. [`RunHandle::wait`] waits until
    /// it has seen the last one.
    pub fn observer(mut self, observer: impl FnMut(&Event) + Send + 'static) -> Self {
        self.extras.observers.push(Box::new(observer));
        self
    }

    /// The trace that the run is a part of, as the header `traceparent` says it: sent on with every request to the provider. No
    /// record holds it.
    pub fn trace(mut self, trace: Option<String>) -> Self {
        self.extras.trace = trace;
        self
    }

    /// What cancels the run.
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.extras.cancel = token;
        self
    }

    /// Starts it; it goes on in the background. Its start is recorded when this returns.
    ///
    /// # Errors
    /// [`RuntimeError::Wiring`] with everything that is wrong, [`RuntimeError::Provider`] where it can be told without
    /// asking that the provider cannot answer (no key, no such script), or not in the wanted shape, [`RuntimeError::Start`] where a capability cannot get
    /// ready, [`RuntimeError::Exists`] for an id that is taken, [`RuntimeError::Store`] where the start cannot be recorded.
    pub async fn start(self) -> Result<RunHandle> {
        launch::start(self, None).await
    }

    /// Runs the calls of a turn that was asked elsewhere, all of them as in any run, and ends when they are answered: no
    /// model is asked. To go on with such a run after a crash, see [`ResumeBuilder::round_only`](crate::ResumeBuilder::round_only).
    ///
    /// # Errors
    /// As [`RunBuilder::start`].
    pub async fn start_round(mut self, turn: Turn) -> Result<RunHandle> {
        self.extras.round_only = true;
        let first = TurnCompleted { number: 1, turn, cost: None, billed: None, omitted: Vec::new(), took_ms: 0 };
        launch::start(self, Some(Box::new(first))).await
    }

    /// Starts it with a turn that was asked already.
    pub(crate) async fn start_with(self, first: Option<FirstTurn>) -> Result<RunHandle> {
        launch::start(self, first).await
    }

    /// Starts it and waits for its end. Dropping this future cancels the run.
    ///
    /// # Errors
    /// As [`RunBuilder::start`] and [`RunHandle::wait`]. A run that fails by itself is a result.
    pub async fn finish(self) -> Result<RunResult> {
        let handle = self.start().await?;
        let cancel = handle.cancellation().drop_guard();
        let result = handle.wait().await;
        cancel.disarm();
        result
    }

    /// Checks everything that can be known to be wrong before anything is sent.
    pub(crate) fn plan(&mut self) -> Result<Plan> {
        let mut problems = Vec::new();
        let target = self.target().map_err(|problem| problems.push(problem)).ok();
        let registry = match Registry::assemble(std::mem::take(&mut self.grants)) {
            Ok(registry) => registry,
            Err(errors) => {
                problems.extend(errors.iter().map(ToString::to_string));
                Registry::empty()
            }
        };
        self.check(&registry, &mut problems);
        match target {
            Some((provider, model)) if problems.is_empty() => {
                let shape = self.output.as_ref().map(|output| {
                    let request = self.request(&model, &registry);
                    Shaping::plan(output, &*provider, &request, registry.definitions().len())
                });
                Ok(Plan { provider, model, registry, shape: shape.transpose()?, resumed: false })
            }
            _ => Err(RuntimeError::Wiring { problems: Problems(problems) }),
        }
    }

    /// The request for the first turn, without the shape that the answer must have.
    pub(crate) fn request(&self, model: &str, registry: &Registry) -> TurnRequest {
        TurnRequest {
            model: model.to_owned(),
            instructions: registry.instruct(self.instructions.as_deref()),
            items: self.input.clone(),
            tools: registry.definitions().iter().chain(&self.declared).cloned().collect(),
            hosted: self.extras.hosted.clone(),
            tool_choice: self.tool_choice.clone(),
            controls: self.controls.clone(),
            provider_state: self.provider_state.clone(),
            ..TurnRequest::default()
        }
    }

    fn target(&self) -> Result<(SharedProvider, String), String> {
        let (provider, model) = match &self.model {
            ModelChoice::Given(provider, model) => (provider.clone(), model.as_str()),
            ModelChoice::Reference(reference) => {
                let Some((id, model)) = reference.split_once(':') else {
                    return Err(format!(
                        "{reference:?} is no model reference: expected a provider, a colon and its model, as in openai:gpt-5.4"
                    ));
                };
                let Some(provider) = self.runtime.0.providers.get(&placet_core::ProviderId::new(id)) else {
                    let known: Vec<&str> = self.runtime.0.providers.keys().map(|id| id.as_str()).collect();
                    return Err(match known.as_slice() {
                        [] => format!("there is no provider {id:?}; the runtime was given none"),
                        known => format!("there is no provider {id:?}; there are {}", known.join(", ")),
                    });
                };
                (provider.clone(), model)
            }
        };
        if model.trim().is_empty() {
            return Err(format!("the model of the provider {} is blank", provider.id()));
        }
        Ok((provider, model.to_owned()))
    }

    fn check(&self, registry: &Registry, problems: &mut Vec<String>) {
        if self.input.is_empty() {
            problems.push("nothing was asked: give the run an input".to_owned());
        }
        let mut names: HashSet<&ToolName> = registry.definitions().iter().map(|tool| &tool.name).collect();
        for tool in &self.declared {
            if !names.insert(&tool.name) {
                problems.push(format!("the declared tool {:?} has the name of another one; rename it", tool.name));
            }
        }
        match &self.tool_choice {
            ToolChoice::Tool(name) if !names.contains(name) => {
                problems.push(format!("the model must call {name:?} first, but there is no such tool"));
            }
            ToolChoice::Required if names.is_empty() && self.extras.hosted.is_empty() => {
                problems.push("the model must call a tool first, but there is none".to_owned());
            }
            _ => {}
        }
        if let Some(problem) = self.output.as_ref().and_then(Output::problem) {
            problems.push(format!("the schema of its output cannot be used: {problem}"));
        }
        if self.limits.concurrency == 0 {
            problems.push("the limit of handlers at a time is 0, so no tool could ever run".to_owned());
        }
        if self.limits.cost.is_some() && self.price.is_none() && self.rates.is_none() {
            problems.push("there is a limit on the cost, but no price to reckon it with; give a price".to_owned());
        }
    }

    /// The start record.
    pub(crate) fn started(&self, plan: &Plan) -> RunStarted {
        RunStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            provider: plan.provider.id().clone(),
            model: plan.model.clone(),
            instructions: plan.registry.instruct(self.instructions.as_deref()),
            input: self.input.clone(),
            provider_state: self.provider_state.clone(),
            grants: plan.registry.grant_records(),
            declared: self.declared.clone(),
            hosted: self.extras.hosted_names(),
            controls: self.controls.clone(),
            tool_choice: self.tool_choice.clone(),
            output: plan.shape.as_ref().map(|shape| Box::new(shape.spec().clone())),
            limits: self.limits.clone(),
            price: self.price,
            rates: self.rates.clone(),
            billing: self.billing.clone(),
            launch: self.launch.clone(),
            unredacted: self.unredacted,
        }
    }
}

/// What a checked run is made of.
pub(crate) struct Plan {
    pub(crate) provider: SharedProvider,
    pub(crate) model: String,
    pub(crate) registry: Registry,
    /// The shape that its answer must have, and the way to it.
    pub(crate) shape: Option<Shaping>,
    /// Whether it goes on with a run that another process began.
    pub(crate) resumed: bool,
}

impl IntoFuture for RunBuilder {
    type Output = Result<RunResult>;
    type IntoFuture = BoxFuture<'static, Result<RunResult>>;

    fn into_future(self) -> Self::IntoFuture {
        self.finish().boxed()
    }
}

impl fmt::Debug for RunBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunBuilder").field("model", &self.model).field("limits", &self.limits).finish_non_exhaustive()
    }
}
