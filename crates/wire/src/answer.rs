//! A finished turn as the events that it is the fold of.

use placet_core::turn::{CallDelta, ReasoningState, TextDelta, TurnFinished, TurnStarted, WholeItem};
use placet_core::{ItemBody, Part, Role, StopReason, Turn, TurnEvent};

/// The events of a turn, one place an item. Folded, they give the turn again, but for ids of ours.
#[must_use]
pub fn events_of(turn: &Turn) -> Vec<TurnEvent> {
    let started = TurnStarted { model: turn.model.clone(), response_id: turn.response_id.clone() };
    let mut events = vec![TurnEvent::Started(started)];
    for (index, item) in (0u32..).zip(&turn.items) {
        match &item.body {
            ItemBody::Message(message) if message.role == Role::Assistant && message.native.is_none() => {
                match message.parts.as_slice() {
                    [Part::Text(text)] if text.cache.is_none() => {
                        let delta = TextDelta { index, text: text.text.to_string() };
                        let is_refusal = turn.stop == StopReason::Refusal && text.native.is_none();
                        events.push(if is_refusal { TurnEvent::Refusal(delta) } else { TurnEvent::Text(delta) });
                        if let Some(native) = text.native.clone() {
                            events.push(TurnEvent::TextState(ReasoningState { index, native }));
                        }
                    }
                    _ => events.push(whole(index, &item.body)),
                }
            }
            ItemBody::Reasoning(reasoning) => {
                events.push(TurnEvent::Reasoning(TextDelta { index, text: reasoning.text.clone() }));
                if let Some(native) = reasoning.native.clone() {
                    events.push(TurnEvent::ReasoningState(ReasoningState { index, native }));
                }
            }
            ItemBody::ToolCall(call) => events.push(TurnEvent::Call(CallDelta {
                index,
                provider_id: call.provider_id.clone(),
                name: Some(call.name.as_str().to_owned()),
                arguments: call.arguments.as_text().to_owned(),
                native: call.native.clone(),
            })),
            body => events.push(whole(index, body)),
        }
    }
    events.extend(turn.usage.map(TurnEvent::Usage));
    events.push(TurnEvent::Finished(TurnFinished {
        stop: turn.stop.clone(),
        provider_state: turn.provider_state.clone(),
        service_tier: turn.service_tier.clone(),
        native: turn.native.clone(),
    }));
    events
}

fn whole(index: u32, body: &ItemBody) -> TurnEvent {
    TurnEvent::Whole(Box::new(WholeItem { index, body: body.clone() }))
}
