//! Calls of webhooks.

use crate::conduct::Start;
use crate::error::{FlowError, Result};
use crate::exchange::{Exchange, Principal};
use crate::flow::Flow;
use crate::flows::{HookAnswer, Shared, find_hook, hook_key};
use crate::kept::{Binding, derived_run, read};
use crate::memo::Memo;
use crate::serve::{Come, Part};
use crate::suspend::expiry;
use crate::work::{WORK, Work};
use crate::worker::KNOWN;
use indexmap::IndexMap;
use placet_core::{Digest, Timestamp, TurnRequest};
use placet_runtime::schedule::Job;
use placet_store::{Batch, Condition, StoreError};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl Shared {
    /// The flow that a webhook stands in.
    pub(crate) fn hooked(&self, id: &str) -> Option<&str> {
        let mut served = self.served.iter();
        served.find(|(_, served)| find_hook(&served.flow, id, &mut Vec::new()).is_some()).map(|(name, _)| name.as_str())
    }

    pub(crate) async fn hook(
        self: Arc<Self>,
        id: &str,
        principal: Principal,
        payload: Value,
        metadata: IndexMap<String, String>,
    ) -> Result<HookAnswer> {
        let found = self.served.iter().find_map(|(name, served)| {
            let (trigger, frame) = find_hook(&served.flow, id, &mut Vec::new())?;
            Some((name.clone(), served, trigger, frame))
        });
        let Some((name, served, trigger, frame)) = found else {
            return Err(FlowError::UnknownHook { id: id.to_owned() });
        };
        let captured: Option<Work> = match self.runtime.store().cell(&hook_key(&self.runtime, id)).await? {
            Some(cell) => Some(read(&self.runtime, &cell.value).await?),
            None => None,
        };
        let mut work = match captured.filter(|work: &Work| work.signature == served.signature) {
            Some(work) => work,
            None => Work {
                flow: name.clone(),
                signature: served.signature.clone(),
                frames: vec![frame.clone()],
                chat: Vec::new(),
                selection: None,
                request: TurnRequest::default(),
                payload: Value::Null,
                metadata: IndexMap::new(),
                principal: principal.as_str().to_owned(),
                depth: 1,
            },
        };
        let key = metadata.get(trigger.key_header()).filter(|key| !key.trim().is_empty());
        let keyed = key.map(|key| {
            let same = Digest::of(format!("{}\n{id}\n{}", principal.as_str(), key.trim()).as_bytes());
            let binding = Binding {
                principal: principal.as_str().to_owned(),
                flow: name.clone(),
                signature: served.signature.clone(),
                request: Digest::of(payload.to_string().as_bytes()).to_hex(),
            };
            (format!("hook-{}", same.to_hex()), binding)
        });
        work.payload = payload;
        work.metadata.extend(metadata);
        let env = self.runtime.env();
        let run = keyed.as_ref().map_or_else(|| env.new_id(), |(kept, _)| derived_run(kept, "", 0));
        let known_until = env.now().plus(served.durable.map_or(KNOWN, |durable| durable.ttl));
        let answers =
            crate::conduct::steps_at(&served.flow, &frame).is_some_and(|steps| steps.iter().any(Flow::responds));
        if !answers {
            let job_id = format!("hook:{id}:{run}");
            let value = serde_json::to_value(&work).map_err(|error| FlowError::internal(error.to_string()))?;
            let job = Job::new(&job_id, WORK, value).owned_by(&work.principal).tried(8);
            match &keyed {
                Some((kept, binding)) => self.accept_once(id, kept, binding, job, known_until).await?,
                None => self.scheduler.put(job).await?,
            }
            return Ok(HookAnswer::Accepted(job_id));
        }
        let exchange = Exchange {
            request: Arc::new(work.request.clone()),
            principal: Principal::new(work.principal.as_str()),
            run: Some(run.clone()),
            stream: false,
            metadata: work.metadata.clone(),
            cancel: CancellationToken::new(),
        };
        let mut part = Part { payload: work.payload, depth: work.depth, ..Part::plain(exchange.cancel.child_token()) };
        let mut claim = None;
        if let Some((kept_id, binding)) = keyed {
            match self.come(&kept_id, &binding, &exchange.cancel).await? {
                Come::Answer(answer) => return Ok(HookAnswer::Answer(answer)),
                Come::Differs("request") => return Err(FlowError::HookConflict { id: id.to_owned() }),
                Come::Differs(what) => return Err(FlowError::RunConflict { run, what }),
                Come::Ours(kept, steps) => {
                    if steps.is_empty() {
                        self.scheduler.put(expiry(&kept_id, known_until)).await?;
                    }
                    part.memo = Memo::new(steps, Some(kept.clone()));
                    claim = Some((kept_id, binding, kept));
                }
            }
        }
        let cx = self.cx(&exchange, &name, work.request, run, part);
        let start = Start::Frames { frames: work.frames, chat: work.chat, selection: work.selection };
        Ok(HookAnswer::Answer(self.conduct(cx, start, claim, None)))
    }

    /// Puts a webhook's job in, unless it was called with the same key before.
    async fn accept_once(
        &self,
        id: &str,
        kept: &str,
        binding: &Binding,
        job: Job,
        known_until: Timestamp,
    ) -> Result<()> {
        let mark = crate::kept::key_of(&self.runtime, kept);
        let mut batch = Batch::new();
        batch.require(Condition::absent(mark.clone()));
        batch.put(mark, crate::kept::form(&self.runtime, binding).await?);
        self.scheduler.add(&mut batch, job)?;
        self.scheduler.add(&mut batch, expiry(kept, known_until))?;
        match self.runtime.store().commit(batch).await {
            Ok(_) => {
                self.scheduler.poke();
                Ok(())
            }
            Err(StoreError::Condition { .. }) => match self.bound_to(kept).await? {
                Some(known) if known.request != binding.request => Err(FlowError::HookConflict { id: id.to_owned() }),
                _ => Ok(()),
            },
            Err(error) => Err(error.into()),
        }
    }
}
