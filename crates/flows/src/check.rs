//! What can be known to be wrong before anything is served; and the shape of a flow, by which savepoints are told apart.

use crate::flow::{Flow, Kind};
use crate::models::{ModelSpec, Models, ResolvedModel, Rung};
use crate::trigger::TriggerKind;
use placet_core::{Digest, ToolName};
use placet_runtime::Runtime;
use placet_tools::Registry;
use std::collections::HashSet;
use std::fmt::Write as _;

/// The shape of a flow in one line: kinds, ids, agents with their tools and outputs, triggers.
pub(crate) fn shape(flow: &Flow) -> String {
    let node = flow.node();
    let mut text = match &node.kind {
        Kind::Agents(agents) => {
            let agents = agents.iter().map(|agent| {
                let inner = agent.inner();
                let tools: Vec<String> = Registry::assemble(inner.grants.clone())
                    .map(|registry| {
                        registry.definitions().iter().map(|tool| format!("{}{:?}", tool.name, tool.schema)).collect()
                    })
                    .unwrap_or_default();
                let output = inner.output.as_ref().map(|output| output.format().schema.as_value().to_string());
                let acts = if inner.handler.is_some() { "handler" } else { "bare" };
                format!("{acts}({},{})", tools.join(";"), output.unwrap_or_default())
            });
            format!("agents[{}]", agents.collect::<Vec<_>>().join(","))
        }
        Kind::Sequence(_) => "sequence".to_owned(),
        Kind::Select(_) => "select".to_owned(),
        Kind::All(_) => "all".to_owned(),
        Kind::One(_) => "one".to_owned(),
        Kind::Group(_) => "group".to_owned(),
        Kind::Respond => "respond".to_owned(),
        Kind::Notify(_) => "notify".to_owned(),
        Kind::Trigger(trigger) => format!("trigger({trigger})"),
    };
    if let Some(id) = &node.id {
        let _ = write!(text, "#{id:?}");
    }
    if !flow.members().is_empty() {
        let members: Vec<String> = flow.members().iter().map(shape).collect();
        let _ = write!(text, "{{{}}}", members.join(" "));
    }
    text
}

/// What tells a flow from every changed one.
pub(crate) fn signature(flow: &Flow) -> Digest {
    Digest::of(shape(flow).as_bytes())
}

/// The names of all tools that agents of a flow were granted.
pub(crate) fn own_tools(flow: &Flow) -> HashSet<ToolName> {
    let mut tools: HashSet<ToolName> = flow.members().iter().flat_map(own_tools).collect();
    if let Kind::Agents(agents) = &flow.node().kind {
        for agent in agents {
            if let Ok(registry) = Registry::assemble(agent.inner().grants.clone()) {
                tools.extend(registry.definitions().iter().map(|tool| tool.name.clone()));
            }
        }
    }
    tools
}

/// Everything that is wrong with a flow.
pub(crate) struct Check<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) models: &'a Models,
    pub(crate) hooks: HashSet<String>,
    pub(crate) problems: Vec<String>,
}

impl Check<'_> {
    /// Checks a whole flow.
    pub(crate) fn flow(&mut self, name: &str, flow: &Flow) {
        self.node(name, flow, &[], false);
    }

    fn problem(&mut self, at: &str, problem: impl std::fmt::Display) {
        self.problems.push(format!("{at}: {problem}"));
    }

    fn node(&mut self, at: &str, flow: &Flow, around: &[&ModelSpec], beside: bool) {
        let node = flow.node();
        let at = &match &node.id {
            Some(id) => format!("{at} > {id}"),
            None => at.to_owned(),
        };
        let mut inside = around.to_vec();
        inside.extend(node.model.as_ref());
        match &node.kind {
            Kind::Agents(agents) => self.agents(at, agents, node.model.as_ref(), around.last().copied()),
            Kind::Sequence(steps) => {
                for (place, step) in steps.iter().enumerate() {
                    self.exits(at, step, steps.get(place + 1));
                    self.node(&format!("{at} > step {}", place + 1), step, &inside, beside);
                }
            }
            Kind::Select(members) => {
                let ids: Vec<&String> = members.iter().filter_map(|member| member.node().id.as_ref()).collect();
                for member in members {
                    if member.node().id.is_none() {
                        tracing::warn!(flow = %at, "a member of a selection has no id and can never be selected");
                    }
                    self.node(at, member, &inside, beside);
                }
                let mut seen = HashSet::new();
                if let Some(twice) = ids.iter().find(|id| !seen.insert(**id)) {
                    self.problem(at, format_args!("two members of one selection have the id {twice:?}"));
                }
            }
            Kind::All(members) | Kind::One(members) | Kind::Group(members) => {
                if members.is_empty() {
                    self.problem(at, "there is no member that could do anything");
                }
                for (place, member) in members.iter().enumerate() {
                    self.node(&format!("{at} > member {}", place + 1), member, &inside, true);
                }
            }
            Kind::Respond if beside => self.problem(
                at,
                "an answer cannot be delivered by one of several flows that run at the same time; put it behind them",
            ),
            Kind::Respond | Kind::Notify(_) => {}
            Kind::Trigger(trigger) => match &trigger.0 {
                TriggerKind::Every(Err(error)) => self.problem(at, error),
                TriggerKind::Webhook(id) => {
                    if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
                        self.problem(
                            at,
                            format_args!("{id:?} is no id of a webhook: take letters, digits, `-`, `_` and `.`"),
                        );
                    }
                    if !self.hooks.insert(id.clone()) {
                        self.problem(at, format_args!("there are two webhooks of the id {id:?}"));
                    }
                }
                TriggerKind::Startup | TriggerKind::Every(Ok(_)) | TriggerKind::At(_) | TriggerKind::After(_) => {}
            },
        }
    }

    fn agents(
        &mut self,
        at: &str,
        agents: &[crate::agent::Agent],
        own: Option<&ModelSpec>,
        around: Option<&ModelSpec>,
    ) {
        if agents.is_empty() {
            self.problem(at, "there is no agent");
        }
        for (place, agent) in agents.iter().enumerate() {
            let at = &if agents.len() > 1 { format!("{at} > agent {}", place + 1) } else { at.to_owned() };
            let inner = agent.inner();
            let rungs = [(Rung::Agent, inner.model.as_ref()), (Rung::Flow, own), (Rung::Enclosing, around)];
            let named = rungs.iter().any(|(_, model)| model.is_some());
            let found = self.models.climb(&rungs);
            let found = found.and_then(|(rung, spec)| ResolvedModel::find(self.runtime, rung, &spec));
            match found {
                // A handler need not ask anybody.
                Err(_) if inner.handler.is_some() && !named => {}
                Err(problem) => self.problem(at, problem),
                Ok(model) if model.model.trim().is_empty() => self.problem(at, "the name of its model is blank"),
                Ok(_) => {}
            }
            if let Err(errors) = Registry::assemble(inner.grants.clone()) {
                for error in errors.iter() {
                    self.problem(at, error);
                }
            }
            if let Some(problem) = inner.output.as_ref().and_then(|output| output.problem()) {
                self.problem(at, format_args!("the schema of its output cannot be used: {problem}"));
            }
            if inner.limits.concurrency == 0 {
                self.problem(at, "the limit of handlers at a time is 0, so no tool could ever run");
            }
        }
    }

    /// What an agent may select must be in the selection that follows at once.
    fn exits(&mut self, at: &str, step: &Flow, next: Option<&Flow>) {
        let Kind::Agents(agents) = &step.node().kind else { return };
        let members = match next.map(|next| &next.node().kind) {
            Some(Kind::Select(members)) => members.iter().filter_map(|member| member.node().id.as_deref()).collect(),
            _ => Vec::new(),
        };
        for exit in agents.iter().flat_map(|agent| &agent.inner().exits) {
            if !members.contains(&exit.as_str()) {
                self.problem(at, format_args!("an agent may select {exit:?}, which the step after it does not hold"));
            }
        }
    }
}
