//! What a client sends as the history of its conversation: calls and results are linked, rounds of ours put back.

use crate::error::{FlowError, Result};
use crate::exchange::content;
use crate::suspend::{Settled, Suspended, SuspensionId, cancelled};
use placet_core::{CallId, Digest, Env, Item, ItemBody, Role, ToolCall, ToolResult};
use placet_runtime::Runtime;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// What is done about calls in the history that have no results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unanswered {
    /// The model is told that they were cancelled.
    #[default]
    Cancel,
    /// The request is refused.
    Refuse,
}

/// Links calls and results: by their round, then by the client's ids, then by their order. Calls whose ids came before get
/// new ones, and so do their results.
///
/// # Errors
/// [`FlowError::UnknownResult`] and [`FlowError::RepeatedResult`]; [`FlowError::UnansweredCalls`] where the policy refuses.
pub(crate) fn link(env: &Env, items: &[Arc<Item>], policy: Unanswered) -> Result<Vec<Arc<Item>>> {
    let mut linked = Linking {
        env,
        policy,
        out: Vec::with_capacity(items.len()),
        seen: HashSet::new(),
        round: Vec::new(),
        written: HashMap::new(),
        original: HashMap::new(),
        first_open: 0,
        over: false,
    };
    for (at, item) in items.iter().enumerate() {
        match &item.body {
            ItemBody::ToolCall(call) => {
                linked.end_round(true)?;
                linked.call(at, item, call);
            }
            ItemBody::ToolResult(result) => linked.result(item, result)?,
            ItemBody::Message(message) if message.role != Role::Assistant => {
                linked.over = true;
                linked.out.push(item.clone());
            }
            _ => {
                linked.end_round(true)?;
                linked.out.push(item.clone());
            }
        }
    }
    linked.end_round(false)?;
    Ok(linked.out)
}

struct Linking<'a> {
    env: &'a Env,
    policy: Unanswered,
    out: Vec<Arc<Item>>,
    /// The clients' ids that were used so far.
    seen: HashSet<String>,
    round: Vec<RoundCall>,
    /// The places of the round's calls, by the ids that the client wrote and by those that they were read with: a client may
    /// send very many.
    written: HashMap<String, VecDeque<usize>>,
    original: HashMap<CallId, usize>,
    /// All calls before this place are answered.
    first_open: usize,
    /// Whether what comes from the client has begun after the round's calls.
    over: bool,
}

struct RoundCall {
    /// The id as the client wrote it.
    written: Option<String>,
    call: ToolCall,
    answered: bool,
}

impl Linking<'_> {
    /// What the model says begins a new round, once anything of the client has come after the last one. The results of a round
    /// stand right after its calls, in their order; what the client said besides comes after them.
    fn end_round(&mut self, models: bool) -> Result<()> {
        if models && !self.over {
            return Ok(());
        }
        self.over = false;
        let round = std::mem::take(&mut self.round);
        (self.written, self.original, self.first_open) = (HashMap::new(), HashMap::new(), 0);
        if round.is_empty() {
            return Ok(());
        }
        let open = || round.iter().filter(|call| !call.answered);
        if self.policy == Unanswered::Refuse && open().any(|call| named(call).is_none()) {
            let calls = open().map(|call| call.written.clone().unwrap_or_else(|| call.call.name.to_string()));
            return Err(FlowError::UnansweredCalls { calls: calls.collect() });
        }
        let after = self.out.iter().rposition(|item| matches!(item.body, ItemBody::ToolCall(_))).map_or(0, |at| at + 1);
        let clients =
            self.out.iter().skip(after).position(|item| !is_models(item)).map_or(self.out.len(), |at| after + at);
        let (mut results, mut besides) = (HashMap::new(), Vec::new());
        for item in self.out.drain(clients..) {
            match &item.body {
                ItemBody::ToolResult(result) => {
                    results.insert(result.call.clone(), item);
                }
                _ => besides.push(item),
            }
        }
        for call in &round {
            let result = results.remove(&call.call.id).unwrap_or_else(|| cancelled(&call.call).into_item());
            self.out.push(result);
        }
        self.out.extend(besides);
        Ok(())
    }

    fn call(&mut self, at: usize, item: &Arc<Item>, call: &ToolCall) {
        let mut own = call.clone();
        let written = call.provider_id.clone().filter(|id| !id.is_empty());
        own.provider_id = match &written {
            Some(id) if self.seen.insert(id.clone()) => written.clone(),
            _ => {
                let text = format!("{at} {}", written.as_deref().unwrap_or_default());
                Some(format!("call_{}", &Digest::of(text.as_bytes()).to_hex()[..32]))
            }
        };
        own.id = self.env.new_id();
        let linked = Item { body: ItemBody::ToolCall(own.clone()), ..(**item).clone() };
        if let Some(id) = &written {
            self.written.entry(id.clone()).or_default().push_back(self.round.len());
        }
        self.original.entry(call.id.clone()).or_insert(self.round.len());
        self.round.push(RoundCall { written, call: own, answered: false });
        self.out.push(Arc::new(linked));
    }

    fn result(&mut self, item: &Arc<Item>, result: &ToolResult) -> Result<()> {
        self.over = true;
        let written = result.provider_id.as_deref().filter(|id| !id.is_empty());
        let name = || written.unwrap_or(result.call.as_str()).to_owned();
        let is_open = |round: &[RoundCall], place: usize| round.get(place).is_some_and(|call| !call.answered);
        let (found, is_known) = match written {
            Some(id) => match self.written.get_mut(id) {
                Some(places) => {
                    // Those that were answered by their order are passed over.
                    while places.front().is_some_and(|place| !is_open(&self.round, *place)) {
                        places.pop_front();
                    }
                    (places.pop_front(), true)
                }
                None => (None, false),
            },
            None => {
                while self.round.get(self.first_open).is_some_and(|call| call.answered) {
                    self.first_open += 1;
                }
                let own = self.original.get(&result.call).copied();
                let by_order = Some(self.first_open).filter(|place| is_open(&self.round, *place));
                (own.filter(|place| is_open(&self.round, *place)).or(by_order), own.is_some())
            }
        };
        let Some(place) = found else {
            return Err(match is_known {
                true => FlowError::RepeatedResult { call: name() },
                false => FlowError::UnknownResult { call: name() },
            });
        };
        let Some(call) = self.round.get_mut(place) else { return Err(FlowError::UnknownResult { call: name() }) };
        call.answered = true;
        let own = ToolResult {
            call: call.call.id.clone(),
            provider_id: call.call.provider_id.clone(),
            tool: call.call.name.clone(),
            ..result.clone()
        };
        self.out.push(Arc::new(Item { body: own.into(), ..(**item).clone() }));
        Ok(())
    }
}

/// The suspension that a call was handed out by.
fn named(call: &RoundCall) -> Option<SuspensionId> {
    SuspensionId::of_call(call.written.as_deref()?)
}

/// Whether an item is a model's.
fn is_models(item: &Item) -> bool {
    match &item.body {
        ItemBody::Message(message) => message.role == Role::Assistant,
        ItemBody::ToolResult(_) => false,
        _ => true,
    }
}

/// A transcript with the rounds of ours put back.
#[derive(Debug)]
pub(crate) struct Arranged {
    pub(crate) items: Vec<Arc<Item>>,
    /// Set where the client answers a suspended exchange with it.
    pub(crate) arrival: Option<Arrival>,
}

/// The client's answers to a suspended exchange.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) id: SuspensionId,
    pub(crate) suspended: Suspended,
    /// The client's results, by our ids of the calls.
    pub(crate) results: HashMap<CallId, ToolResult>,
    /// What it says besides.
    pub(crate) trailing: Vec<Arc<Item>>,
    /// The conversation that the exchange began with.
    pub(crate) before: Vec<Arc<Item>>,
}

impl Arrival {
    /// What the client's results say.
    pub(crate) fn results_hash(&self) -> String {
        let results = self.suspended.handed.iter().filter_map(|handed| self.results.get(&handed.call.id));
        let said: Vec<_> = results.map(|result| content(&ItemBody::ToolResult(Box::new(result.clone())))).collect();
        Digest::of(serde_json::Value::from(said).to_string().as_bytes()).to_hex()
    }

    /// What it says besides.
    pub(crate) fn trailing_hash(&self) -> String {
        let said: Vec<_> = self.trailing.iter().map(|item| content(&item.body)).collect();
        Digest::of(serde_json::Value::from(said).to_string().as_bytes()).to_hex()
    }
}

/// Who asks, and for what.
pub(crate) struct Asked<'a> {
    pub(crate) principal: &'a str,
    pub(crate) flow: &'a str,
    pub(crate) signature: &'a str,
}

/// Puts back the rounds of suspended exchanges that a linked transcript names.
///
/// # Errors
/// [`FlowError::ForeignCall`], [`FlowError::MissingResults`], [`FlowError::Expired`] and [`FlowError::FlowChanged`].
pub(crate) async fn arrange(runtime: &Runtime, items: Vec<Arc<Item>>, asked: &Asked<'_>) -> Result<Arranged> {
    let mut out: Vec<Arc<Item>> = Vec::with_capacity(items.len());
    // Where the first stretch of each exchange begins in `out`.
    let mut begins: HashMap<String, usize> = HashMap::new();
    let mut arrival = None;
    let mut at = 0;
    while at < items.len() {
        let stretch = items[at..].iter().take_while(|item| is_models(item)).count();
        let theirs = items[at + stretch..].iter().take_while(|item| !is_models(item)).count();
        let (models, clients) = (&items[at..at + stretch], &items[at + stretch..at + stretch + theirs]);
        at += stretch + theirs;
        let Some((id, name)) = models.iter().find_map(suspension) else {
            out.extend(models.iter().chain(clients).cloned());
            continue;
        };
        let Some(suspended) = Suspended::read(runtime, &id).await? else {
            if id.changes {
                return Err(FlowError::Expired { call: name });
            }
            out.extend(models.iter().chain(clients).cloned());
            continue;
        };
        if suspended.principal != asked.principal {
            return Err(FlowError::ForeignCall { call: name });
        }
        let last = at == items.len();
        let (results, given, trailing) = sort(&suspended, models, clients);
        if suspended.flow != asked.flow {
            if last && !given.is_empty() {
                return Err(FlowError::ForeignCall { call: name });
            }
            out.extend(models.iter().chain(clients).cloned());
            continue;
        }
        let missing: Vec<String> = suspended
            .handed
            .iter()
            .filter(|handed| !given.contains(&handed.id))
            .map(|handed| handed.id.clone())
            .collect();
        if !given.is_empty() && !missing.is_empty() {
            return Err(FlowError::MissingResults { calls: missing });
        }
        begins.entry(suspended.root.clone()).or_insert(out.len());
        let settled = Settled::read(runtime, &id).await?;
        if last && !given.is_empty() && suspended.ended.is_none() {
            if suspended.signature != asked.signature {
                return Err(FlowError::FlowChanged);
            }
            let before = begins.get(&suspended.root).map_or_else(|| out.clone(), |begin| out[..*begin].to_vec());
            arrival = Some(Arrival {
                id,
                results: results.clone(),
                trailing: trailing.clone(),
                before,
                suspended: suspended.clone(),
            });
        }
        out.extend(suspended.rounds(&settled.unwrap_or_default(), &results));
        out.extend(trailing);
    }
    Ok(Arranged { items: out, arrival })
}

/// The suspension that an item names, and the id that names it.
fn suspension(item: &Arc<Item>) -> Option<(SuspensionId, String)> {
    let ItemBody::ToolCall(call) = &item.body else { return None };
    let name = call.provider_id.as_ref()?;
    Some((SuspensionId::of_call(name)?, name.clone()))
}

/// What a client sent after a stretch: results by our ids of the calls, the ids it gave results for, and what else it said.
fn sort(
    suspended: &Suspended,
    models: &[Arc<Item>],
    clients: &[Arc<Item>],
) -> (HashMap<CallId, ToolResult>, HashSet<String>, Vec<Arc<Item>>) {
    let (mut results, mut given, mut trailing) = (HashMap::new(), HashSet::new(), Vec::new());
    let present: HashSet<String> = models.iter().filter_map(suspension).map(|(_, name)| name).collect();
    for item in clients {
        let ItemBody::ToolResult(result) = &item.body else {
            trailing.push(item.clone());
            continue;
        };
        let handed = suspended.handed.iter().find(|handed| Some(&handed.id) == result.provider_id.as_ref());
        let Some(handed) = handed.filter(|handed| present.contains(&handed.id)) else { continue };
        // What was left open was answered as cancelled when the transcript was linked.
        if result.outcome.reason == Some(placet_core::Reason::Cancelled) {
            continue;
        }
        given.insert(handed.id.clone());
        let own = ToolResult {
            call: handed.call.id.clone(),
            provider_id: handed.call.provider_id.clone(),
            tool: handed.call.name.clone(),
            ..(**result).clone()
        };
        results.insert(handed.call.id.clone(), own);
    }
    (results, given, trailing)
}

#[cfg(test)]
#[path = "transcript_tests.rs"]
mod tests;
