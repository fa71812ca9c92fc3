//! The forms of the calls, and the calls to a store.

use super::{Called, PAGE, Raised};
use placet_board::{
    Agent, BoardId, Boards, Bounds, Change, ClosedAs, Content, Contribution, Outcome, Page, Record, Region, RegionKind,
    WriteResult,
};
use placet_core::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Deserialize)]
pub(super) struct RegionForm {
    name: String,
    kind: RegionKind,
    batch_window_s: Option<f64>,
}

impl RegionForm {
    pub(super) fn region(&self) -> Result<Region, Raised> {
        let region = match self.kind {
            RegionKind::Level => Region::level(self.name.as_str()),
            RegionKind::Premise => Region::premise(self.name.as_str()),
        };
        Ok(region.window(seconds(self.batch_window_s.unwrap_or_default())?))
    }
}

#[derive(Deserialize)]
pub(super) struct AgentForm {
    pub(super) name: String,
    pub(super) subscribes_to: Option<BTreeSet<String>>,
    pub(super) writes_to: Option<BTreeSet<String>>,
    pub(super) address: Option<String>,
    pub(super) callback_url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct LimitsForm {
    pub(super) wall_clock_s: f64,
    pub(super) idle_s: f64,
}

#[derive(Deserialize)]
pub(super) struct RunCall {
    pub(super) board_id: BoardId,
    #[serde(default)]
    pub(super) regions: Vec<RegionForm>,
    pub(super) premises: Option<BTreeMap<String, Content>>,
    #[serde(default)]
    pub(super) agents: Vec<AgentForm>,
    pub(super) limits: LimitsForm,
    pub(super) admission_url: Option<String>,
    pub(super) predicate_url: Option<String>,
    pub(super) reach_url: Option<String>,
    pub(super) open_url: Option<String>,
    pub(super) closed_url: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct HandleCall {
    pub(super) board_id: BoardId,
    #[serde(default)]
    pub(super) handle: String,
    pub(super) seconds: Option<f64>,
    pub(super) timeout_s: Option<f64>,
    pub(super) reason: Option<String>,
    pub(super) region: Option<RegionForm>,
    pub(super) agent: Option<AgentForm>,
}

#[derive(Deserialize)]
pub(super) struct StoreCall {
    method: String,
    args: StoreArgs,
}

/// The arguments of every call to a store; each takes some.
#[derive(Default, Deserialize)]
#[serde(default)]
struct StoreArgs {
    board_id: String,
    region: Option<RegionForm>,
    level: String,
    premise: String,
    content: Option<Content>,
    #[serde(deserialize_with = "given")]
    value: Option<Content>,
    expected_version: i64,
    idempotency_key: Option<String>,
    writer: Option<String>,
    notify: Option<Vec<String>>,
    from_sequence: i64,
    limit: Option<i64>,
    wall_clock: f64,
    idle: f64,
    closed_as: Option<ClosedAs>,
    reason: Option<String>,
    unfinished: Option<BTreeSet<String>>,
    agent: String,
    through: i64,
    subscribes_to: Option<BTreeSet<String>>,
    writes_to: Option<BTreeSet<String>>,
    address: Option<String>,
}

fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Content>, D::Error> {
    Content::deserialize(deserializer).map(Some)
}

impl StoreArgs {
    fn record(&self, boards: &Boards) -> Result<Record, Raised> {
        Ok(boards.record(&BoardId::new(&self.board_id)?))
    }

    fn notify(&self) -> &[String] {
        self.notify.as_deref().unwrap_or_default()
    }

    fn limit(&self) -> usize {
        self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0))
    }

    fn through(&self) -> u64 {
        u64::try_from(self.through).unwrap_or(0)
    }
}

pub(super) async fn store_call(boards: &Boards, call: StoreCall) -> Called {
    let args = call.args;
    match call.method.as_str() {
        "runs_past_deadline" => {
            let found = boards.past_deadline(args.limit()).await?;
            return Ok(json!(found.iter().map(|control| control.board_id()).collect::<Vec<_>>()));
        }
        "unsent" => {
            let owed = boards.unsent(args.limit()).await?;
            let row =
                |row: &placet_board::Unsent| json!({"board_id": row.board, "agent": row.agent, "through": row.through});
            return Ok(owed.iter().map(row).collect());
        }
        _ => {}
    }
    let record = args.record(boards)?;
    match call.method.as_str() {
        "declare" => {
            record.declare(&args.region.as_ref().ok_or_else(|| missing("region"))?.region()?).await?;
        }
        "append" => {
            let null = Content::NULL;
            let content = args.content.as_ref().unwrap_or(&null);
            let (key, writer) = (args.idempotency_key.as_deref(), args.writer.as_deref());
            return Ok(written(&record.append(&args.level, content, key, writer, args.notify()).await?));
        }
        "set" => {
            let null = Content::NULL;
            let value = args.value.as_ref().unwrap_or(&null);
            let (key, writer) = (args.idempotency_key.as_deref(), args.writer.as_deref());
            // A version that no premise has conflicts with every one.
            let expected = u64::try_from(args.expected_version).unwrap_or(u64::MAX);
            return Ok(written(&record.set(&args.premise, value, expected, key, writer, args.notify()).await?));
        }
        "read_level" => return read_level(&record, &args).await,
        "read_board" => return read_board(&record, &args).await,
        "read_premise" => {
            let state = record.reader().read_premise(&args.premise).await?;
            return Ok(json!({
                "value": state.value, "version": state.version, "writer": state.writer,
                "written_at": state.written_at.map(|at| at.to_string())
            }));
        }
        "read_regions" => {
            let regions = match record.reader().read_regions().await {
                Err(placet_board::BoardError::UnknownBoard { .. }) => Vec::new(),
                regions => regions?,
            };
            return Ok(regions.iter().map(|region| json!({"name": region.name, "kind": region.kind})).collect());
        }
        "delete" => return Ok(serde_json::to_value(record.delete().await?)?),
        "open_run" => record.open_run(micros(args.wall_clock), micros(args.idle)).await?,
        "touch_run" => record.touch_run(micros(args.idle)).await?,
        "read_run" => return read_run(&record).await,
        "close_run" => {
            let outcome = Outcome {
                closed_as: args.closed_as.ok_or_else(|| missing("closed_as"))?,
                reason: args.reason,
                unfinished: args.unfinished.unwrap_or_default(),
            };
            return Ok(json!(record.close_run(&outcome).await?));
        }
        "declare_agent" => {
            let mut agent = Agent::new(args.agent);
            agent.subscribes_to = args.subscribes_to;
            agent.writes_to = args.writes_to;
            agent.address = args.address;
            record.declare_agent(&agent).await?;
        }
        "mark_notified" => record.mark_notified(&args.agent, args.through()).await?,
        "mark_sent" => record.mark_sent(&args.agent, args.through()).await?,
        "acknowledge" => {
            let before = record.acknowledge(&args.agent, args.through()).await?;
            return Ok(before.map_or(Value::Null, |row| {
                json!({
                    "agent": row.agent, "notified_through": row.notified_through,
                    "acknowledged_through": row.acknowledged_through
                })
            }));
        }
        "read_agents" => {
            let rows = record.agents().await?;
            return Ok(serde_json::to_value(rows)?);
        }
        other => return Err(Raised { name: "ValueError", detail: format!("a store has no method {other}") }),
    }
    Ok(Value::Null)
}

/// Reads on until `limit` entries or the end.
fn bounds(args: &StoreArgs, found: usize, next: u64) -> Option<Bounds> {
    let left = args.limit().saturating_sub(found);
    (left > 0).then(|| Bounds::from(next).limit(left.min(PAGE)))
}

async fn read_level(record: &Record, args: &StoreArgs) -> Called {
    let (mut all, mut next) = (Vec::new(), u64::try_from(args.from_sequence).unwrap_or(0));
    while let Some(bounds) = bounds(args, all.len(), next) {
        let page: Page<Contribution> = record.reader().read_level(&args.level, bounds).await?;
        let Some(last) = page.items.last() else { break };
        next = last.sequence + 1;
        all.extend(page.items.iter().map(|of| {
            let at = of.written_at.map(|at: Timestamp| at.to_string());
            json!({"sequence": of.sequence, "content": of.content, "writer": of.writer, "written_at": at})
        }));
    }
    if all.is_empty() {
        record.reader().read_level(&args.level, Bounds::from(0).limit(0)).await?;
    }
    Ok(Value::Array(all))
}

async fn read_board(record: &Record, args: &StoreArgs) -> Called {
    let (mut all, mut next) = (Vec::new(), u64::try_from(args.from_sequence).unwrap_or(0));
    while let Some(bounds) = bounds(args, all.len(), next) {
        let page: Page<Change> = match record.reader().read_board(bounds).await {
            Err(placet_board::BoardError::UnknownBoard { .. }) => break,
            page => page?,
        };
        let Some(last) = page.items.last() else { break };
        next = last.sequence + 1;
        all.extend(page.items.iter().map(|of| {
            let at = of.written_at.map(|at| at.to_string());
            json!({
                "sequence": of.sequence, "region": of.region, "content": of.content, "writer": of.writer, "written_at": at
            })
        }));
    }
    Ok(Value::Array(all))
}

async fn read_run(record: &Record) -> Called {
    let Some(run) = record.read_run().await? else { return Ok(Value::Null) };
    let outcome = run.outcome.as_ref();
    Ok(json!({
        "now": run.now.to_string(),
        "idle_deadline": run.idle_deadline.to_string(),
        "wall_deadline": run.wall_deadline.to_string(),
        "closed_as": outcome.map(|outcome| outcome.closed_as),
        "reason": outcome.and_then(|outcome| outcome.reason.as_deref()),
        "unfinished": outcome.map(|outcome| outcome.unfinished.clone()).unwrap_or_default(),
    }))
}

fn written(result: &WriteResult) -> Value {
    match result {
        WriteResult::Written(written) => json!(written),
        WriteResult::Conflict(conflict) => json!(conflict),
        WriteResult::Rejected(rejected) => json!(rejected),
    }
}

pub(super) fn outcome(outcome: Option<&Outcome>) -> Value {
    json!(outcome)
}

pub(super) fn missing(what: &str) -> Raised {
    Raised { name: "ValueError", detail: format!("the call takes {what}") }
}

pub(super) fn seconds(seconds: f64) -> Result<Duration, Raised> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Raised { name: "ValueError", detail: format!("{seconds} is no number of seconds") })
}

#[expect(clippy::cast_possible_truncation, reason = "a cast to an integer saturates")]
fn micros(seconds: f64) -> i64 {
    (seconds * 1_000_000.0) as i64
}
