//! Suspended exchanges: what is kept of them, and the ids under which clients answer.
//!
//! | what | place | written |
//! |---|---|---|
//! | all that is needed to go on | cell `flow-suspended`, id | when an answer ends with calls to the client's tools |
//! | what our own tools answered | cell `flow-suspended`, id, `settled` | when it has gone on |

use crate::error::Result;
use crate::kept;
use placet_core::{
    CallId, Env, Item, ItemBody, Outcome, ProviderState, Reason, Stage, Status, Timestamp, ToolCall, ToolName,
    ToolResult,
};
use placet_runtime::Runtime;
use placet_runtime::schedule::{Job, JobTime, Scheduler};
use placet_store::{Batch, Key};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The kind of the jobs that remove what is kept.
pub(crate) const EXPIRY: &str = "flow-expiry";

/// A round of a model that holds calls of the client's tools, and where its conversation is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct OpenRound {
    /// The place of the resolve.
    pub(crate) place: String,
    /// What was added to the conversation, the open turn included.
    pub(crate) items: Vec<Arc<Item>>,
    /// From where on that was done in the exchange that was suspended last.
    pub(crate) since: usize,
    /// All calls of the round, in order.
    pub(crate) calls: Vec<ToolCall>,
    /// Which of them are ours to run.
    pub(crate) inner: Vec<CallId>,
    /// How many rounds have run.
    pub(crate) rounds: u32,
    pub(crate) provider_state: Option<ProviderState>,
    /// What the reply has told so far.
    pub(crate) text: String,
    /// The agent's own tools in this resolve, and whether any of them changes something.
    pub(crate) tools: Vec<ToolName>,
    pub(crate) changes: bool,
}

/// An open round with the client's results.
#[derive(Debug)]
pub(crate) struct ArrivedRound {
    pub(crate) open: OpenRound,
    pub(crate) results: Vec<ToolResult>,
    /// What the client says besides.
    pub(crate) trailing: Vec<Arc<Item>>,
}

/// A call that the client was handed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandedCall {
    /// The id that the client knows it by.
    pub(crate) id: String,
    pub(crate) call: ToolCall,
}

/// A suspended exchange.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Suspended {
    pub(crate) principal: String,
    pub(crate) flow: String,
    pub(crate) signature: String,
    /// The first suspension of this exchange.
    pub(crate) root: String,
    /// What its steps did.
    pub(crate) steps: BTreeMap<String, Value>,
    pub(crate) opens: Vec<OpenRound>,
    pub(crate) handed: Vec<HandedCall>,
    /// What the client was told.
    pub(crate) told: String,
    pub(crate) payload: Value,
    pub(crate) depth: u32,
    /// The rounds to be put back, where the flow has ended and nothing waits in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Vec<Arc<Item>>>,
}

/// What our own tools answered once the exchange went on.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Settled {
    pub(crate) inner: BTreeMap<String, Vec<ToolResult>>,
}

/// The id of a suspension, as it stands in the ids of its calls: 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SuspensionId {
    pub(crate) hex: String,
    /// Whether tools that change something are a part of the exchange.
    pub(crate) changes: bool,
}

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The most calls that one suspension hands out.
pub(crate) const MOST_CALLS: usize = 36 * 36;

impl SuspensionId {
    pub(crate) fn new(env: &Env, changes: bool) -> Self {
        let mut bytes = [0; 16];
        env.random().fill(&mut bytes);
        let hex = bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        SuspensionId { hex: hex.map(char::from).collect(), changes }
    }

    /// The id of one of its calls: 40 letters and digits, which every provider takes.
    pub(crate) fn call(&self, place: usize) -> String {
        let digit = |at: usize| char::from(DIGITS[at % 36]);
        let flag = if self.changes { 'w' } else { 'r' };
        format!("call_{}{flag}{}{}", self.hex, digit(place / 36), digit(place))
    }

    /// The suspension that a call's id names, if it has the form of one of ours.
    pub(crate) fn of_call(id: &str) -> Option<Self> {
        let body = id.strip_prefix("call_").filter(|body| body.len() == 35 && body.is_ascii())?;
        let (hex, rest) = body.split_at(32);
        let (flag, place) = rest.split_at(1);
        let right =
            hex.bytes().all(|byte| DIGITS[..16].contains(&byte)) && place.bytes().all(|byte| DIGITS.contains(&byte));
        match flag {
            "w" | "r" if right => Some(SuspensionId { hex: hex.to_owned(), changes: flag == "w" }),
            _ => None,
        }
    }
}

fn key(runtime: &Runtime, hex: &str) -> Key {
    Key::new(runtime.tenant()).text("flow-suspended").text(hex)
}

impl Suspended {
    /// Keeps it, and sees to it that it is removed after a time.
    pub(crate) async fn keep(
        &self,
        runtime: &Runtime,
        scheduler: Option<&Scheduler>,
        id: &SuspensionId,
        ttl: Duration,
    ) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(key(runtime, &id.hex), kept::form(runtime, self).await?);
        if let Some(scheduler) = scheduler {
            let until = runtime.env().now().plus(ttl);
            scheduler.add(&mut batch, expiry(&format!("suspended-{}", id.hex), until))?;
        }
        runtime.store().commit(batch).await?;
        Ok(())
    }

    pub(crate) async fn read(runtime: &Runtime, id: &SuspensionId) -> Result<Option<Self>> {
        match runtime.store().cell(&key(runtime, &id.hex)).await? {
            Some(cell) => Ok(Some(kept::read(runtime, &cell.value).await?)),
            None => Ok(None),
        }
    }

    /// The rounds of this exchange as the model saw them, with the client's results among them.
    pub(crate) fn rounds(&self, settled: &Settled, results: &HashMap<CallId, ToolResult>) -> Vec<Arc<Item>> {
        let answer = |call: &ToolCall, inner: Option<&Vec<ToolResult>>| {
            let ours = inner.and_then(|ours| ours.iter().find(|result| result.call == call.id)).cloned();
            let found = results.get(&call.id).cloned().or(ours);
            found.unwrap_or_else(|| cancelled(call)).into_item()
        };
        if let Some(items) = &self.ended {
            let made = crate::model::calls_in(items);
            let open = made.iter().filter(|call| self.handed.iter().any(|handed| handed.call.id == call.id));
            return items.iter().cloned().chain(open.map(|call| answer(call, None))).collect();
        }
        let mut rounds = Vec::new();
        for open in &self.opens {
            rounds.extend(open.items.iter().skip(open.since).cloned());
            rounds.extend(open.calls.iter().map(|call| answer(call, settled.inner.get(&open.place))));
        }
        rounds
    }
}

impl Settled {
    pub(crate) async fn keep(&self, runtime: &Runtime, id: &SuspensionId) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(key(runtime, &id.hex).text("settled"), kept::form(runtime, self).await?);
        runtime.store().commit(batch).await?;
        Ok(())
    }

    pub(crate) async fn read(runtime: &Runtime, id: &SuspensionId) -> Result<Option<Self>> {
        match runtime.store().cell(&key(runtime, &id.hex).text("settled")).await? {
            Some(cell) => Ok(Some(kept::read(runtime, &cell.value).await?)),
            None => Ok(None),
        }
    }
}

/// The answer to a call that whoever should have answered went on without.
pub(crate) fn cancelled(call: &ToolCall) -> ToolResult {
    let text = "not run: the user went on without it";
    ToolResult::of(call, Outcome::new(Status::Refused, Stage::Admit, Some(Reason::Cancelled), text))
}

/// The job that removes what is kept under an id.
pub(crate) fn expiry(id: &str, until: Timestamp) -> Job {
    Job::new(format!("expiry-{id}"), EXPIRY, json!({ "id": id })).at(JobTime::At(until))
}

/// Removes what is kept under an id.
pub(crate) async fn expire(runtime: &Runtime, id: &str) -> Result<()> {
    let mut batch = Batch::new();
    match id.strip_prefix("suspended-") {
        Some(hex) => {
            batch.delete_prefix(key(runtime, hex));
            kept::forget(&mut batch, runtime, &resumed(hex));
        }
        None => kept::forget(&mut batch, runtime, id),
    }
    runtime.store().commit(batch).await?;
    Ok(())
}

/// Under which id an exchange is kept that goes on after a suspension.
pub(crate) fn resumed(hex: &str) -> String {
    format!("resumed-{hex}")
}

/// Whether a round of ours stands among some items of a conversation.
pub(crate) fn holds_results(items: &[Arc<Item>]) -> bool {
    items.iter().any(|item| matches!(item.body, ItemBody::ToolResult(_)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use placet_core::env::ManualClock;

    #[test]
    fn the_id_of_a_call_names_its_suspension_and_fits_every_provider() {
        let env = Env::deterministic(ManualClock::new(Timestamp::EPOCH), 5);
        for (place, changes) in [(0, true), (35, false), (36, true), (MOST_CALLS - 1, false)] {
            let suspension = SuspensionId::new(&env, changes);
            let call = suspension.call(place);
            assert_eq!(call.len(), 40);
            assert_eq!(SuspensionId::of_call(&call), Some(suspension));
        }
        let id: CallId = env.new_id();
        for other in [id.as_str(), "call_0", "", "toolu_01A09q90qw90lq917835lq9", &format!("call_{}", "é".repeat(18))]
        {
            assert_eq!(SuspensionId::of_call(other), None, "{other}");
        }
    }
}
