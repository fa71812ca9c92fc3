//! What has been asked and answered since the user spoke last, and what is to be asked next.
//!
//! Nothing is kept between turns: a plan runs from its beginning in every turn, asks for what it needs, and finds the
//! answers in the conversation. What has no answer yet is asked for, and the plan ends there until the next turn.

use super::results::told;
use super::roles::{Fitting, Role, fitting};
use placet_core::{CallId, ItemBody, Role as Speaker, ToolChoice, ToolName, ToolResult, TurnRequest};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The rounds that a run has by default. A plan never takes more.
pub(super) const ROUNDS: u64 = 8;

/// A call that is to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) tool: ToolName,
    pub(super) arguments: Map<String, Value>,
}

/// Why a plan does not go on.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stop {
    /// Calls are wanted first.
    Wanted,
    /// No tool of that kind was offered.
    Missing(Role),
    /// The answer is this.
    Say(String),
}

pub(super) struct Desk<'a> {
    tools: Vec<Fitting>,
    /// What was asked since the user spoke last, in order, with its result.
    asked: HashMap<(&'a str, String), Option<&'a ToolResult>>,
    /// How many rounds those were.
    rounds: u64,
    /// How many calls the conversation holds.
    pub(super) calls: usize,
    pub(super) choice: &'a ToolChoice,
    one_by_one: bool,
    pub(super) wanted: Vec<Wanted>,
}

impl<'a> Desk<'a> {
    /// The desk, and what the user said last.
    pub(super) fn of(request: &'a TurnRequest) -> (Self, String) {
        let user = request
            .items
            .iter()
            .rposition(|item| matches!(&item.body, ItemBody::Message(message) if message.role == Speaker::User));
        let said = match user.and_then(|at| request.items.get(at)).map(|item| &item.body) {
            Some(ItemBody::Message(message)) => message.text(),
            _ => String::new(),
        };
        let since = request.items.get(user.map_or(0, |at| at + 1)..).unwrap_or_default();
        let results: HashMap<&CallId, &ToolResult> = since
            .iter()
            .filter_map(|item| match &item.body {
                ItemBody::ToolResult(result) => Some((&result.call, &**result)),
                _ => None,
            })
            .collect();
        let (mut asked, mut rounds, mut in_round) = (HashMap::new(), 0, false);
        for item in since {
            if let ItemBody::ToolCall(call) = &item.body {
                rounds += u64::from(!in_round);
                let arguments = call.arguments.parse().map(Value::Object).unwrap_or_default();
                asked.insert((call.name.as_str(), ordered(&arguments)), results.get(&call.id).copied());
            }
            in_round = match &item.body {
                ItemBody::ToolCall(_) => true,
                ItemBody::ToolResult(_) => false,
                _ => in_round,
            };
        }
        let is_call = |body: &ItemBody| matches!(body, ItemBody::ToolCall(_));
        let desk = Desk {
            tools: request.tools.iter().filter_map(|tool| fitting(tool)).collect(),
            asked,
            rounds,
            calls: request.items.iter().filter(|item| is_call(&item.body)).count(),
            choice: &request.tool_choice,
            one_by_one: request.controls.parallel_tool_calls == Some(false),
            wanted: Vec::new(),
        };
        (desk, said)
    }

    /// The first offered tool of a kind.
    pub(super) fn tool(&self, role: Role) -> Option<&Fitting> {
        self.tools.iter().find(|tool| tool.role == role)
    }

    pub(super) fn has_asked(&self) -> bool {
        self.rounds > 0
    }

    /// Whether that tool's calls would be answered in another round.
    pub(super) fn may_ask(&self) -> bool {
        self.rounds < ROUNDS
    }

    /// How many calls go into one round, and how many can be made in the rounds that a run has after its first.
    pub(super) fn batch(&self, calls: usize) -> (usize, usize) {
        const LEAST: usize = 32;
        const MOST: usize = 128;
        // Rounds that many files are spread over, as long as a round does not become too large.
        const USUAL: usize = 4;
        let rounds = usize::try_from(ROUNDS - 1).unwrap_or(1);
        let batch = if self.one_by_one { 1 } else { calls.div_ceil(USUAL).clamp(LEAST, MOST) };
        (batch, batch * rounds)
    }

    /// The result of a call, which is put among the wanted ones where it was not made yet. `None` where it is wanted, or
    /// was made and has no result.
    pub(super) fn result(&mut self, role: Role, given: &[(&str, Value)]) -> Result<Option<&'a ToolResult>, Stop> {
        let tool = self.tool(role).ok_or(Stop::Missing(role))?;
        let (name, arguments) = (tool.name.clone(), tool.arguments(given));
        match self.asked.get(&(name.as_str(), ordered(&Value::Object(arguments.clone())))) {
            Some(result) => Ok(*result),
            None => {
                self.wanted.push(Wanted { tool: name, arguments });
                Ok(None)
            }
        }
    }

    /// The completed result of one call. Whatever else becomes of it ends the plan.
    pub(super) fn completed(&mut self, role: Role, given: &[(&str, Value)]) -> Result<&'a ToolResult, Stop> {
        let before = self.wanted.len();
        match self.result(role, given)? {
            Some(result) if result.outcome.status == placet_core::Status::Completed => Ok(result),
            Some(result) => Err(Stop::Say(format!("I could not do it. My call of `{}` {}", result.tool, told(result)))),
            None if self.wanted.len() > before => Err(Stop::Wanted),
            None => Err(Stop::Say("I could not do it: my call got no result.".to_owned())),
        }
    }
}

/// A value as text, with the fields of objects in order, so that equal ones are the same text.
fn ordered(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = map.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), ordered(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(ordered).collect::<Vec<_>>().join(",")),
        other => other.to_string(),
    }
}
