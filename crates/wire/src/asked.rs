//! The calls of a conversation that is being read, and which of them a result answers.
//!
//! Conversations hold tens of thousands of calls, so that none is looked for one by one.

use placet_core::{CallId, ToolName};
use std::collections::{HashMap, VecDeque};

/// What a result says of its call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By<'a> {
    Id(&'a str),
    Tool(&'a str),
    Nothing,
}

/// The calls so far, in their order.
#[derive(Default)]
pub(crate) struct Asked {
    calls: Vec<Call>,
    by_id: HashMap<String, Places>,
    by_tool: HashMap<String, Places>,
    /// None before it waits.
    first: usize,
}

struct Call {
    id: CallId,
    tool: ToolName,
    is_answered: bool,
}

#[derive(Default)]
struct Places {
    /// Those that may still wait.
    open: VecDeque<usize>,
    last: usize,
}

impl Asked {
    /// Notes a call that goes by this id of the client's, where it has one.
    pub(crate) fn note(&mut self, wire_id: Option<&str>, id: CallId, tool: ToolName) {
        let place = self.calls.len();
        let of_id = wire_id.map(|wire_id| self.by_id.entry(wire_id.to_owned()).or_default());
        for places in [of_id, Some(self.by_tool.entry(tool.as_str().to_owned()).or_default())].into_iter().flatten() {
            places.open.push_back(place);
            places.last = place;
        }
        self.calls.push(Call { id, tool, is_answered: false });
    }

    /// The first call that fits and waits. It waits no longer.
    pub(crate) fn first(&mut self, by: By<'_>) -> Option<(CallId, ToolName)> {
        let is_answered = |calls: &[Call], at: usize| calls.get(at).is_some_and(|call| call.is_answered);
        let found = match by {
            By::Nothing => {
                while is_answered(&self.calls, self.first) {
                    self.first += 1;
                }
                Some(self.first)
            }
            _ => {
                let places = places(&mut self.by_id, &mut self.by_tool, by)?;
                while places.open.front().is_some_and(|at| is_answered(&self.calls, *at)) {
                    places.open.pop_front();
                }
                places.open.front().copied()
            }
        };
        self.answer(found?)
    }

    /// The last call that fits and waits, else the last that fits. It waits no longer.
    pub(crate) fn last(&mut self, by: By<'_>) -> Option<(CallId, ToolName)> {
        let places = places(&mut self.by_id, &mut self.by_tool, by)?;
        while places.open.back().is_some_and(|at| self.calls.get(*at).is_some_and(|call| call.is_answered)) {
            places.open.pop_back();
        }
        let found = places.open.back().copied().unwrap_or(places.last);
        self.answer(found)
    }

    fn answer(&mut self, place: usize) -> Option<(CallId, ToolName)> {
        let call = self.calls.get_mut(place)?;
        call.is_answered = true;
        Some((call.id.clone(), call.tool.clone()))
    }
}

fn places<'p>(
    by_id: &'p mut HashMap<String, Places>,
    by_tool: &'p mut HashMap<String, Places>,
    by: By<'_>,
) -> Option<&'p mut Places> {
    match by {
        By::Id(id) => by_id.get_mut(id),
        By::Tool(tool) => by_tool.get_mut(tool),
        By::Nothing => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use placet_core::env::ManualClock;
    use placet_core::{Env, Timestamp};

    #[test]
    fn a_result_finds_its_call_by_what_it_says_of_it() {
        let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
        let ids: Vec<CallId> = (0..4).map(|_| env.new_id()).collect();
        let mut asked = Asked::default();
        for (wire_id, id, tool) in [(Some("x"), 0, "f"), (Some("x"), 1, "g"), (None, 2, "f"), (Some("y"), 3, "f")] {
            asked.note(wire_id, ids[id].clone(), tool.into());
        }
        let id =
            |found: Option<(CallId, ToolName)>| ids.iter().position(|id| Some(id) == found.as_ref().map(|(id, _)| id));
        assert_eq!(id(asked.last(By::Id("x"))), Some(1));
        assert_eq!(id(asked.first(By::Id("x"))), Some(0));
        assert_eq!(id(asked.first(By::Id("x"))), None);
        assert_eq!(id(asked.last(By::Id("x"))), Some(1), "the last, although it is answered");
        assert_eq!(id(asked.first(By::Nothing)), Some(2));
        assert_eq!(id(asked.first(By::Tool("f"))), Some(3));
        assert_eq!((id(asked.first(By::Tool("f"))), id(asked.first(By::Nothing))), (None, None));
        assert_eq!(id(asked.last(By::Id("z"))), None);
    }
}
