//! One call at a time, of a server that has no word for it.
//!
//! Such a server may ask for several calls at once. The first goes on. The others are held in its own state, which whoever asked
//! brings back with its result; then the next one is handed out, without asking the server again. So nothing is kept here, and any
//! process can go on. Where something else was said in between, or the state was lost, they are dropped: the model then asks for what
//! it still wants.

use crate::provider::TurnStream;
use futures_util::{StreamExt as _, stream};
use placet_core::part::Native;
use placet_core::turn::{CallDelta, TurnFinished, TurnStarted};
use placet_core::{Item, ItemBody, ProviderId, StopReason, ToolCall, TurnEvent, TurnRequest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Where a call's state holds the calls that wait for it.
const HELD: &str = "placet_held";

/// A call that waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Held {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider_id: Option<String>,
    name: String,
    arguments: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    native: Option<Native>,
}

/// Hands on the first call of an answer, which holds those after it.
pub(super) fn first_call(answer: TurnStream, provider: ProviderId) -> TurnStream {
    let mut first: Option<(u32, Option<Native>)> = None;
    let mut others: BTreeMap<u32, CallDelta> = BTreeMap::new();
    let events = answer.map(move |event| {
        let mut out = Vec::with_capacity(2);
        match event {
            TurnEvent::Call(piece) if first.as_ref().is_some_and(|(index, _)| *index != piece.index) => {
                let call = others.entry(piece.index).or_default();
                call.provider_id = piece.provider_id.or(call.provider_id.take());
                call.name = piece.name.or(call.name.take());
                call.arguments.push_str(&piece.arguments);
                call.native = piece.native.or(call.native.take());
            }
            TurnEvent::Call(piece) => {
                let (_, native) = first.get_or_insert((piece.index, None));
                if piece.native.is_some() {
                    native.clone_from(&piece.native);
                }
                out.push(TurnEvent::Call(piece));
            }
            TurnEvent::Finished(finished) => {
                let held: Vec<Held> = std::mem::take(&mut others).into_values().filter_map(held).collect();
                if let (Some((index, native)), false) = (&first, held.is_empty()) {
                    let native = Some(holding(native.as_ref(), &provider, &held));
                    out.push(TurnEvent::Call(CallDelta { index: *index, native, ..CallDelta::default() }));
                }
                out.push(TurnEvent::Finished(finished));
            }
            other => out.push(other),
        }
        stream::iter(out)
    });
    events.flatten().boxed()
}

fn held(call: CallDelta) -> Option<Held> {
    let CallDelta { provider_id, name, arguments, native, .. } = call;
    Some(Held { provider_id, name: name?, arguments, native })
}

/// A call's own state with the calls that wait for it.
fn holding(own: Option<&Native>, provider: &ProviderId, held: &[Held]) -> Native {
    let mut fields = match own.map(|native| &native.value) {
        Some(Value::Object(fields)) => fields.clone(),
        _ => Map::new(),
    };
    fields.insert(HELD.to_owned(), json!(held));
    Native { provider: own.map_or(provider, |native| &native.provider).clone(), value: Value::Object(fields) }
}

/// What was held of a call of this provider.
fn held_by(call: &ToolCall, provider: &ProviderId) -> Option<Vec<Held>> {
    let native = call.native.as_ref().filter(|native| native.provider == *provider)?;
    Vec::deserialize(native.value.get(HELD)?).ok()
}

/// The request as the provider may see it, and the calls that are due instead of asking it.
pub(super) fn due<'r>(request: &'r TurnRequest, provider: &ProviderId) -> (Cow<'r, TurnRequest>, Option<TurnStream>) {
    let holds = |item: &Arc<Item>| match &item.body {
        ItemBody::ToolCall(call) => call.native.as_ref().is_some_and(|native| native.value.get(HELD).is_some()),
        _ => false,
    };
    let Some(last) = request.items.iter().rposition(holds) else { return (Cow::Borrowed(request), None) };
    let due = calls_due(request, last, provider).map(handed_out);
    let mut bare = request.clone();
    for item in bare.items.iter_mut().filter(|item| holds(item)) {
        let mut without = Item::clone(item);
        if let ItemBody::ToolCall(call) = &mut without.body {
            if let Some(Value::Object(fields)) = call.native.as_mut().map(|native| &mut native.value) {
                fields.shift_remove(HELD);
            }
            call.native.take_if(|native| native.value.as_object().is_some_and(Map::is_empty));
        }
        *item = Arc::new(without);
    }
    (Cow::Owned(bare), due)
}

/// The calls that wait for the one at `place`, once all that were handed out since have their results and nothing else was said.
fn calls_due(request: &TurnRequest, place: usize, provider: &ProviderId) -> Option<Vec<Held>> {
    let mut waiting: HashSet<_> = HashSet::new();
    let mut held = None;
    let mut handed_out = 0;
    for item in request.items.get(place..)? {
        match &item.body {
            ItemBody::ToolCall(call) => {
                waiting.insert(&call.id);
                match held {
                    None => held = Some(held_by(call, provider)?),
                    Some(_) => handed_out += 1,
                }
            }
            ItemBody::ToolResult(result) => drop(waiting.remove(&result.call)),
            _ => return None,
        }
    }
    let mut rest: Vec<Held> = held?.into_iter().skip(handed_out).collect();
    if !waiting.is_empty() || rest.is_empty() {
        return None;
    }
    if request.controls.parallel_tool_calls == Some(false) {
        rest.truncate(1);
    }
    Some(rest)
}

/// An answer of these calls, for which nobody was asked.
fn handed_out(calls: Vec<Held>) -> TurnStream {
    let calls = calls.into_iter().zip(0..).map(|(Held { provider_id, name, arguments, native }, index)| {
        TurnEvent::Call(CallDelta { index, provider_id, name: Some(name), arguments, native })
    });
    let events = std::iter::once(TurnEvent::Started(TurnStarted::default()))
        .chain(calls)
        .chain([TurnEvent::Usage(placet_core::Usage::default())])
        .chain([TurnEvent::Finished(TurnFinished::new(StopReason::ToolCalls))]);
    stream::iter(events.collect::<Vec<_>>()).boxed()
}
