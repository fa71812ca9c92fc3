//! What the tests share: a runtime with a scripted model, a client that runs its own tools, tools that count.

use placet_core::env::{ManualClock, ManualHandle};
use placet_core::{
    Effect, Env, Item, ItemBody, ItemId, Message, Origin, Outcome, Part, Role, Schema, Stage, Status, Timestamp,
    ToolDefinition, ToolResult, Turn, TurnRequest,
};
use placet_flows::{Agent, Caller, Exchange, Flow, FlowError, Flows, FlowsBuilder, Model, Recent};
use placet_models::SharedProvider;
use placet_models::scripted::{Script, ScriptTurn, ScriptedModel};
use placet_runtime::Runtime;
use placet_store::{MemoryStore, SharedStore};
use placet_tools::{BoundTool, NoArguments, tool};
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) env: Env,
    pub(crate) store: SharedStore,
    pub(crate) seen: Arc<Recent>,
}

pub(crate) fn world() -> World {
    // 2026-11-30T09:00:00Z
    let clock = ManualClock::new(Timestamp::from_micros(1_796_029_200_000_000));
    let env = Env::deterministic(clock.clone(), 11);
    let store: SharedStore = Arc::new(MemoryStore::new(Arc::new(ManualHandle(clock.clone()))));
    World { clock, env, store, seen: Recent::new() }
}

/// A model that says what it is told to, and its name as `scripted:m`.
pub(crate) fn scripted(turns: impl IntoIterator<Item = ScriptTurn>) -> Arc<ScriptedModel> {
    ScriptedModel::new(Script::new(turns))
}

impl World {
    pub(crate) fn runtime(&self, model: &Arc<ScriptedModel>) -> Runtime {
        let model: SharedProvider = model.clone();
        Runtime::new(self.env.clone(), self.store.clone(), [model])
    }

    pub(crate) fn builder(&self, model: &Arc<ScriptedModel>) -> FlowsBuilder {
        Flows::builder(self.runtime(model)).observer(self.seen.clone())
    }

    /// One flow, named `house`.
    pub(crate) fn serve(&self, flow: impl Into<Flow>, model: &Arc<ScriptedModel>) -> Flows {
        self.builder(model).flow(flow.into().with_model("scripted:m").named("house")).build().unwrap()
    }

    pub(crate) fn item(&self, text: &str) -> Arc<Item> {
        Arc::new(Item::user(self.env.new_id(), text))
    }

    /// A client's first request.
    pub(crate) fn request(&self, text: &str) -> TurnRequest {
        TurnRequest { model: "house".into(), items: vec![self.item(text)], ..TurnRequest::default() }
    }

    /// A client's first request, which declares tools.
    pub(crate) fn request_with(&self, text: &str, tools: &[&str]) -> TurnRequest {
        TurnRequest { tools: tools.iter().map(|name| Arc::new(client_tool(name))).collect(), ..self.request(text) }
    }

    /// The client's next request: what it was answered, and the results of its tools by the ids it was given.
    pub(crate) fn next(&self, request: &TurnRequest, answer: &Turn, results: &[(&str, &str)]) -> TurnRequest {
        let mut next = request.clone();
        next.items.extend(answer.items.iter().cloned());
        next.items.extend(results.iter().map(|(id, text)| self.result(id, text)));
        next
    }

    pub(crate) fn result(&self, id: &str, text: &str) -> Arc<Item> {
        let result = ToolResult {
            call: self.env.new_id(),
            provider_id: Some(id.to_owned()),
            tool: "".into(),
            capability: None,
            outcome: Outcome::new(Status::Completed, Stage::Execute, None, text),
            native: None,
        };
        Arc::new(Item::new(self.env.new_id::<ItemId>(), Origin::User, result))
    }

    pub(crate) fn says(&self, role: Role, text: &str) -> Arc<Item> {
        let message = Message { role, parts: vec![Part::text(text)], native: None };
        Arc::new(Item::new(self.env.new_id::<ItemId>(), Origin::User, message))
    }
}

pub(crate) fn client_tool(name: &str) -> ToolDefinition {
    let schema = Schema::new(json!({"type": "object", "properties": {}}));
    ToolDefinition::new(name, "A tool of the client.", schema, Effect::Once)
}

/// Asks and waits for the whole answer.
pub(crate) async fn ask(flows: &Flows, request: TurnRequest) -> Result<Turn, FlowError> {
    flows.serve(Exchange::new(request)).await?.collect().await
}

/// Asks as a client that streams does, and gives the text and whether it ended well.
pub(crate) async fn stream(flows: &Flows, request: TurnRequest) -> Result<Turn, FlowError> {
    flows.serve(Exchange::new(request).streaming()).await?.collect().await
}

pub(crate) async fn text(flows: &Flows, request: TurnRequest) -> String {
    ask(flows, request).await.unwrap().text()
}

/// The ids and names of the calls that a client was handed.
pub(crate) fn handed(turn: &Turn) -> Vec<(String, String)> {
    turn.calls().map(|call| (call.provider_id.clone().unwrap(), call.name.to_string())).collect()
}

/// A tool that counts its calls and gives what it is told to.
pub(crate) fn counted(name: &str, gives: &str, effect: Effect) -> (BoundTool, Arc<AtomicUsize>) {
    let (ran, gives) = (Arc::new(AtomicUsize::new(0)), gives.to_owned());
    let counter = ran.clone();
    let tool = tool(name, "A tool of ours.", move |_: NoArguments, _| {
        let (counter, gives) = (counter.clone(), gives.clone());
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            gives
        }
    });
    (tool.effect(effect).build(), ran)
}

pub(crate) fn sensor() -> (BoundTool, Arc<AtomicUsize>) {
    counted("read_sensor", "21 degrees", Effect::Read)
}

pub(crate) fn count(counter: &Arc<AtomicUsize>) -> usize {
    counter.load(Ordering::SeqCst)
}

/// An agent that says something.
pub(crate) fn says(text: &'static str) -> Agent {
    Agent::new().handler(move |caller: Caller, _: Model| async move {
        caller.reply(text);
        Ok(())
    })
}

pub(crate) fn fails(text: &'static str) -> Agent {
    Agent::new().handler(move |_: Caller, _: Model| async move { Err(FlowError::handler(text)) })
}

/// An agent that selects a flow.
pub(crate) fn selects(id: &'static str) -> Agent {
    Agent::new().handler(move |caller: Caller, _: Model| async move {
        caller.select(id);
        Ok(())
    })
}

/// An agent that notes what it is told to.
pub(crate) fn notes(log: &Log, text: &'static str) -> Agent {
    let log = log.clone();
    Agent::new().handler(move |_: Caller, _: Model| {
        let log = log.clone();
        async move {
            log.note(text);
            Ok(())
        }
    })
}

#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, text: impl Into<String>) {
        self.0.lock().unwrap().push(text.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Waits, without a clock, until something holds.
pub(crate) async fn until(holds: impl Fn() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

/// What a request told a model, in short.
pub(crate) fn told(request: &TurnRequest) -> Vec<String> {
    request
        .items
        .iter()
        .map(|item| match &item.body {
            ItemBody::ToolCall(call) => format!("call {}", call.name),
            ItemBody::ToolResult(result) => format!("result {}: {}", result.tool, result.outcome.text()),
            ItemBody::Message(message) => format!("{}: {}", message.role.as_str(), message.text()),
            other => other.kind().to_owned(),
        })
        .collect()
}

pub(crate) fn tool_names(request: &TurnRequest) -> Vec<String> {
    request.tools.iter().map(|tool| tool.name.to_string()).collect()
}
