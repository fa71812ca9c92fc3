//! A conversation, turn by turn: [`Chat::ask`] runs nothing, [`Chat::resolve`] goes on until there is an answer.

use crate::answers;
use crate::error::Result;
use crate::launch::FirstTurn;
use crate::request::{ModelChoice, RunBuilder};
use crate::run_loop::millis;
use crate::runtime::Runtime;
use crate::turn::{self, TurnSize};
use futures_util::StreamExt;
use placet_core::event::TurnCompleted;
use placet_core::price;
use placet_core::{Accumulator, Item, ProviderState, SharedText, ToolResult, Turn};
use placet_models::AskContext;
use placet_observe::RunResult;
use std::sync::Arc;

/// A conversation with one model, held in memory.
///
/// Each ask names what the model may ask for anew: nothing is carried over from the one before.
#[derive(Debug)]
pub struct Chat {
    runtime: Runtime,
    model: ModelChoice,
    items: Vec<Arc<Item>>,
    provider_state: Option<ProviderState>,
    /// The last turn, where nothing came after it.
    asked: Option<FirstTurn>,
}

impl Runtime {
    /// A conversation with this model.
    pub fn chat(&self, model: impl Into<ModelChoice>) -> Chat {
        Chat { runtime: self.clone(), model: model.into(), items: Vec::new(), provider_state: None, asked: None }
    }
}

impl Chat {
    /// Adds what the user says. Calls that were asked for and not resolved are answered as not run.
    pub fn add(&mut self, text: impl Into<SharedText>) -> &mut Self {
        let id = self.runtime.env().new_id();
        self.add_item(Arc::new(Item::user(id, text)))
    }

    /// Adds an item.
    pub fn add_item(&mut self, item: Arc<Item>) -> &mut Self {
        self.settle();
        self.items.push(item);
        self
    }

    /// The conversation so far.
    #[must_use]
    pub fn items(&self) -> Vec<Arc<Item>> {
        let asked = self.asked.iter().flat_map(|asked| &asked.turn.items);
        self.items.iter().chain(asked).cloned().collect()
    }

    /// Asks for one turn and runs nothing: calls that the model asks for are in the turn. `with` says what the model is
    /// told, and what it may ask for, in this ask.
    ///
    /// # Errors
    /// [`RuntimeError::Wiring`](crate::RuntimeError::Wiring) with everything that is wrong,
    /// [`RuntimeError::Provider`](crate::RuntimeError::Provider) where the provider refuses or breaks off.
    pub async fn ask(&mut self, with: impl FnOnce(RunBuilder) -> RunBuilder) -> Result<Turn> {
        self.settle();
        let mut builder = with(self.builder());
        let plan = builder.plan()?;
        let env = self.runtime.env();
        let request = builder.request(&plan.model, &plan.registry);
        // Whether the answer has the shape is for a resolve to say, or for whoever asks.
        let request = match &plan.shape {
            Some(shape) => shape.shaped(request, plan.registry.definitions().len(), shape.spec().strategy, 0),
            None => request,
        };
        let began = env.clock().steady();
        let mut context = AskContext::new(env.clone());
        context.cancel = builder.extras.cancel;
        context.trace = builder.extras.trace;
        let mut answer = Accumulator::new();
        let mut events = plan.provider.ask(Arc::new(request), context).await?;
        let mut size = TurnSize::default();
        while let Some(event) = events.next().await {
            size.add(&event).map_err(|problem| turn::too_large(&*plan.provider, problem))?;
            answer.push(&event);
        }
        let turn = answer.finish(plan.provider.id(), env)?;
        let (tier, rates) = (turn.service_tier.as_deref(), builder.rates.as_deref());
        let cost = turn.usage.and_then(|usage| price::cost(builder.price.as_ref(), rates, &usage, tier));
        let took_ms = millis(env.clock().steady().saturating_sub(began));
        let asked = TurnCompleted { number: 1, turn: turn.clone(), cost, billed: None, omitted: Vec::new(), took_ms };
        self.asked = Some(Box::new(asked));
        Ok(turn)
    }

    /// Goes on in a run of its own until there is an answer, or another end. A turn that was asked before is the run's
    /// first one. `with` says what the run is handed.
    ///
    /// # Errors
    /// As [`RunBuilder::finish`].
    pub async fn resolve(&mut self, with: impl FnOnce(RunBuilder) -> RunBuilder) -> Result<RunResult> {
        let builder = with(self.builder());
        let handle = builder.start_with(self.asked.clone()).await?;
        let cancel = handle.cancellation().drop_guard();
        let result = handle.wait().await?;
        cancel.disarm();
        self.asked = None;
        self.items.extend(result.items.iter().cloned());
        self.provider_state.clone_from(&result.provider_state);
        Ok(result)
    }

    fn builder(&self) -> RunBuilder {
        RunBuilder::new(self.runtime.clone(), self.model.clone())
            .items(self.items.iter().cloned())
            .provider_state(self.provider_state.clone())
    }

    /// Makes the last turn a part of the conversation, its round whole.
    fn settle(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        self.provider_state.clone_from(&asked.turn.provider_state);
        self.items.extend(asked.turn.items.iter().cloned());
        for call in asked.turn.calls() {
            let outcome = answers::not_run("the conversation went on without it");
            self.items.push(ToolResult::of(call, outcome).into_item());
        }
    }
}
