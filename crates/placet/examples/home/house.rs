//! A house that listens: who is asked to see to a wish, what is remembered, briefings, reminders and the doorbell.

use async_trait::async_trait;
use placet::core::turn::{TextDelta, TurnFinished, TurnStarted};
use placet::core::{ItemBody, ProviderError, ProviderId, Role, StopReason, Timestamp, TurnEvent, TurnRequest};
use placet::flows::{Agent, Caller, Checkpoint, Flow, FlowError, Flows, Model, Notify, Output, Trigger, WorkTime};
use placet::models::{AskContext, ModelListing, TurnStream};
use placet::store::{Batch, Condition, Key, SharedStore, StoreError, Tenant, Value as StoredValue};
use placet::{ModelProvider, Runtime};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The flows of the house: `home` for whoever speaks to it, `due` for reminders, and the doorbell. `brain` is the model that
/// says where a wish belongs; reminders that are due go to `tell`.
pub(crate) fn house(runtime: Runtime, brain: &str, tell: impl Notify + 'static) -> Result<Flows, FlowError> {
    let memory = Memory { store: runtime.store().clone(), tenant: runtime.tenant().clone() };
    let router = Agent::new()
        .model(brain)
        .role("Say who of the house sees to what the user wants.")
        .output_shape(Output::of::<Wish>().repairs(1))
        .exits(["reminder", "memory", "briefing"])
        .handler(route);
    let home = Flow::agent(router).next(Flow::select([
        Flow::agent(Agent::new().handler(remind)).with_id("reminder"),
        Flow::agent(Agent::new().handler(move |caller: Caller, _: Model| recall(memory.clone(), caller)))
            .with_id("memory"),
        briefing().with_id("briefing"),
    ]));
    let due = Flow::agent(Agent::new().handler(due)).next(Flow::notify(tell));
    let bell = Flow::trigger(Trigger::webhook("doorbell"))
        .next(Flow::agent(Agent::new().handler(rings)))
        .next(Flow::respond());
    Flows::builder(runtime).flow(home.named("home")).flow(due.named("due")).flow(bell.named("doorbell")).build()
}

/// What the model has to answer: nothing else passes.
#[derive(Deserialize, JsonSchema)]
struct Wish {
    to: Desk,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Desk {
    Reminder,
    Memory,
    Briefing,
}

async fn route(caller: Caller, mut model: Model) -> Result<(), FlowError> {
    let wish: Wish = model.ask_with(caller.messages()).await?.extract().await?;
    caller.select(match wish.to {
        Desk::Reminder => "reminder",
        Desk::Memory => "memory",
        Desk::Briefing => "briefing",
    });
    Ok(())
}

/// "Remind me at 2027-01-01T08:00:00Z to feed the cat".
async fn remind(caller: Caller, _: Model) -> Result<(), FlowError> {
    let said = caller.last_text();
    let wish = said.split_once(" at ").and_then(|(_, rest)| rest.split_once(" to "));
    let Some((at, what)) = wish.and_then(|(at, what)| Some((Timestamp::parse(at.trim())?, what.trim()))) else {
        caller.reply("Say when, and of what: \"Remind me at 2027-01-01T08:00:00Z to feed the cat\".");
        return Ok(());
    };
    let whom = caller.principal().as_str();
    caller.schedule(WorkTime::At(at), "due", json!({"whom": whom, "what": what}))?;
    caller.reply(format!("I will remind you at {at} to {what}."));
    Ok(())
}

async fn due(caller: Caller, _: Model) -> Result<(), FlowError> {
    let part = |name: &str| caller.payload().get(name).and_then(Value::as_str).unwrap_or("nobody").to_owned();
    caller.reply(format!("{}: {}", part("whom"), part("what")));
    Ok(())
}

/// "Memorise that …" keeps it; anything else tells what is kept.
async fn recall(memory: Memory, caller: Caller) -> Result<(), FlowError> {
    let (said, whom) = (caller.last_text(), caller.principal().as_str().to_owned());
    match said.split_once(" that ") {
        Some((_, what)) => {
            caller.once("keep", |_| memory.keep(&whom, what)).await?;
            caller.reply("Noted.");
        }
        None => {
            let notes = memory.notes(&whom).await?.0;
            caller.reply(if notes.is_empty() { "Nothing yet.".to_owned() } else { notes.join("; ") });
        }
    }
    Ok(())
}

/// Two who say what they know, and one who waits for both and puts it together.
fn briefing() -> Flow {
    let (weather, calendar) = (Checkpoint::new("weather"), Checkpoint::new("calendar"));
    let done = weather.clone();
    let knows_weather = Agent::new().handler(move |caller: Caller, _: Model| {
        let done = done.clone();
        async move {
            caller.reply("Weather: sunny.");
            caller.reached(&done);
            Ok(())
        }
    });
    let done = calendar.clone();
    let knows_calendar = Agent::new().handler(move |caller: Caller, _: Model| {
        let done = done.clone();
        async move {
            caller.reply(format!("Reminders to come: {}.", caller.scheduled().await?.len()));
            caller.reached(&done);
            Ok(())
        }
    });
    let host = Agent::new().handler(move |caller: Caller, _: Model| {
        let (weather, calendar) = (weather.clone(), calendar.clone());
        async move {
            caller.wait(&weather).await?;
            caller.wait(&calendar).await?;
            let heard = caller.messages().iter().filter(|item| is_said(&item.body)).count();
            caller.reply(format!("That is all, from {heard} of us."));
            Ok(())
        }
    });
    Flow::group([Flow::agent(knows_weather), Flow::agent(knows_calendar), Flow::agent(host)])
}

fn is_said(body: &ItemBody) -> bool {
    matches!(body, ItemBody::Message(message) if message.role == Role::Assistant)
}

async fn rings(caller: Caller, _: Model) -> Result<(), FlowError> {
    let who = caller.payload().get("who").and_then(Value::as_str).unwrap_or("somebody").to_owned();
    caller.reply(format!("{who} is at the door."));
    Ok(())
}

/// What each of the people in the house had it keep.
#[derive(Clone)]
struct Memory {
    store: SharedStore,
    tenant: Tenant,
}

impl Memory {
    fn key(&self, whom: &str) -> Key {
        Key::new(&self.tenant).text("home-memory").text(whom)
    }

    /// The notes, and the version of what they are kept in.
    async fn notes(&self, whom: &str) -> Result<(Vec<String>, u64), FlowError> {
        Ok(match self.store.cell(&self.key(whom)).await? {
            Some(cell) => (cell.value.from_json(1)?, cell.version),
            None => (Vec::new(), 0),
        })
    }

    async fn keep(&self, whom: &str, what: &str) -> Result<(), FlowError> {
        loop {
            let (mut notes, version) = self.notes(whom).await?;
            notes.push(what.to_owned());
            let mut batch = Batch::new();
            batch.require(Condition::version(self.key(whom), version));
            batch.put(self.key(whom), StoredValue::json(1, &notes)?);
            match self.store.commit(batch).await {
                // Somebody else has kept something at the same time.
                Err(StoreError::Condition { .. }) => {}
                kept => return Ok(kept.map(drop)?),
            }
        }
    }
}

/// Stands for a model, so that the house needs neither key nor network. It guesses by the first word that the user said, and
/// keeps to the words that it may choose from only once it is told to.
#[derive(Debug)]
pub(crate) struct Brain {
    id: ProviderId,
    asked: AtomicUsize,
}

impl Brain {
    pub(crate) fn new() -> Self {
        Brain { id: ProviderId::new("brain"), asked: AtomicUsize::new(0) }
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn guess(request: &TurnRequest) -> String {
        let said = |wanted: Role| {
            request.items.iter().filter_map(move |item| match &item.body {
                ItemBody::Message(message) if message.role == wanted => Some(message.text()),
                _ => None,
            })
        };
        // The last answer that had not the wanted shape, if this is to be another try.
        let missed = said(Role::Assistant).next_back().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        if let Some(missed) = missed {
            let word = missed["to"].as_str().unwrap_or_default().to_owned();
            let choices = request.output.as_ref().map(|output| choices(output.schema.as_value())).unwrap_or_default();
            let alike =
                |choice: &String| choice.chars().zip(word.chars()).take_while(|(one, other)| one == other).count();
            return choices.into_iter().filter(|choice| alike(choice) > 2).max_by_key(alike).unwrap_or(word);
        }
        let last = said(Role::User).next_back().unwrap_or_default();
        last.split(|letter: char| !letter.is_alphabetic()).next().unwrap_or_default().to_lowercase()
    }
}

/// The words that a schema lets one choose from.
fn choices(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(map) => match map.get("enum").and_then(Value::as_array) {
            Some(words) => words.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            None => map.values().flat_map(choices).collect(),
        },
        Value::Array(all) => all.iter().flat_map(choices).collect(),
        _ => Vec::new(),
    }
}

#[async_trait]
impl ModelProvider for Brain {
    fn id(&self) -> &ProviderId {
        &self.id
    }

    async fn ask(&self, request: Arc<TurnRequest>, _: AskContext) -> Result<TurnStream, ProviderError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let text = json!({"to": Brain::guess(&request)}).to_string();
        let events = vec![
            TurnEvent::Started(TurnStarted { model: Some("brain".into()), response_id: None }),
            TurnEvent::Text(TextDelta { index: 0, text }),
            TurnEvent::Finished(TurnFinished::new(StopReason::End)),
        ];
        Ok(Box::pin(futures_util::stream::iter(events)))
    }

    async fn models(&self, _: AskContext) -> Result<Vec<ModelListing>, ProviderError> {
        Ok(vec![ModelListing { id: "brain".into(), description: None }])
    }
}
