//! Work for later: what follows an answer, what a trigger sets off, what a handler has scheduled.

use crate::cx::Cx;
use crate::error::{FlowError, Result};
use crate::state::FlowState;
use crate::trigger::TriggerKind;
use indexmap::IndexMap;
use placet_core::{Env, Item, Timestamp, TurnRequest};
use placet_runtime::schedule::{Cron, Job, JobTime};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The kind of the jobs that carry on flows.
pub(crate) const WORK: &str = "flow";

/// How many triggers may set off one another.
pub(crate) const DEEPEST: u32 = 8;

/// How often a job is tried.
const TRIES: u32 = 8;

/// When work is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WorkTime {
    /// As soon as possible.
    Now,
    /// At an instant.
    At(Timestamp),
    /// So long after the exchange.
    After(Duration),
    /// Again and again.
    Every(Cron),
}

impl WorkTime {
    pub(crate) fn at(&self, now: Timestamp) -> JobTime {
        match self {
            WorkTime::Now => JobTime::Now,
            WorkTime::At(at) => JobTime::At(*at),
            WorkTime::After(span) => JobTime::At(now.plus(*span)),
            WorkTime::Every(cron) => JobTime::Every(cron.clone()),
        }
    }
}

/// Some of the steps of a sequence: its place, and where to begin in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frame {
    pub(crate) path: Vec<usize>,
    pub(crate) from: usize,
}

/// Everything that work needs to know of the exchange that it comes from.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Work {
    pub(crate) flow: String,
    /// What the flow looked like; empty for a whole flow that is named only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) signature: String,
    pub(crate) frames: Vec<Frame>,
    pub(crate) chat: Vec<Arc<Item>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) selection: Option<String>,
    /// What the client asked for, without its conversation.
    pub(crate) request: TurnRequest,
    pub(crate) payload: Value,
    pub(crate) metadata: IndexMap<String, String>,
    pub(crate) principal: String,
    pub(crate) depth: u32,
}

/// Work that an exchange leaves behind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Later {
    pub(crate) id: String,
    pub(crate) time: WorkTime,
    /// The webhook that sets it off, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hook: Option<String>,
    pub(crate) work: Work,
}

impl Later {
    fn new(cx: &Cx, id: String, time: WorkTime, mut work: Work) -> Result<Self> {
        work.depth = cx.depth + 1;
        if work.depth > DEEPEST {
            return Err(FlowError::TooDeep { depth: cx.depth });
        }
        Ok(Later { id, time, hook: None, work })
    }

    fn work(cx: &Cx, flow: &str, chat: Vec<Arc<Item>>) -> Work {
        Work {
            flow: flow.to_owned(),
            signature: String::new(),
            frames: vec![Frame { path: Vec::new(), from: 0 }],
            chat,
            selection: None,
            request: TurnRequest { items: Vec::new(), ..(*cx.request).clone() },
            payload: cx.payload.clone(),
            metadata: cx.metadata.clone(),
            principal: cx.principal.as_str().to_owned(),
            depth: cx.depth,
        }
    }

    /// A flow by its name.
    pub(crate) fn of_flow(
        cx: &Cx,
        id: String,
        time: WorkTime,
        flow: String,
        chat: Vec<Arc<Item>>,
        payload: Value,
    ) -> Result<Self> {
        let work = Work { payload, ..Later::work(cx, &flow, chat) };
        Later::new(cx, id, time, work)
    }

    /// What follows a trigger in its sequence.
    pub(crate) fn of_trigger(cx: &Cx, trigger: &TriggerKind, frame: Frame, state: &FlowState) -> Result<Option<Self>> {
        let place: Vec<String> = frame.path.iter().chain([&frame.from]).map(ToString::to_string).collect();
        let place = place.join(".");
        let work = Work {
            frames: vec![frame],
            selection: state.selection.clone(),
            ..Later::work(cx, &cx.flow, state.chat.clone())
        };
        // What repeats stands once for each principal; what happens once, once for each exchange.
        let own = |what: &str| format!("{what}:{}:{place}:{}", cx.flow, cx.base);
        let (id, time) = match trigger {
            TriggerKind::Startup => return Ok(None),
            TriggerKind::Every(Ok(cron)) => {
                (format!("every:{}:{place}:{}", cx.flow, cx.principal.as_str()), WorkTime::Every(cron.clone()))
            }
            TriggerKind::Every(Err(error)) => return Err(FlowError::handler(error.clone())),
            TriggerKind::At(at) => (own("once"), WorkTime::At(*at)),
            TriggerKind::After(span) => (own("after"), WorkTime::After(*span)),
            TriggerKind::Webhook(id) => {
                let later = Later::new(cx, own("hook"), WorkTime::Now, work)?;
                return Ok(Some(Later { hook: Some(id.clone()), ..later }));
            }
        };
        Later::new(cx, id, time, work).map(Some)
    }

    /// What follows the last answer.
    pub(crate) fn follow_up(cx: &Cx, frames: Vec<Frame>, state: &FlowState) -> Self {
        let work = Work { frames, selection: state.selection.clone(), ..Later::work(cx, &cx.flow, state.chat.clone()) };
        Later { id: format!("follow-up:{}", cx.base), time: WorkTime::Now, hook: None, work }
    }

    /// The job that does it.
    pub(crate) fn job(&self, env: &Env, signature: &str) -> Result<Job> {
        let mut work = self.work.clone();
        if !work.frames.iter().all(|frame| frame.path.is_empty() && frame.from == 0) {
            signature.clone_into(&mut work.signature);
        }
        let payload = serde_json::to_value(&work)
            .map_err(|error| FlowError::internal(format!("what is to be done later has no stored form: {error}")))?;
        Ok(Job::new(&self.id, WORK, payload).at(self.time.at(env.now())).owned_by(&work.principal).tried(TRIES))
    }
}
