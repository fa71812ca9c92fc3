//! What each operation does with a request.

use super::access::{Act, Wanted};
use super::answer::Answer;
use super::route::Route;
use super::{BoardsEndpoint, Broken, Caller};
use crate::boards::BoardSummary;
use crate::content::Content;
use crate::control::{BoardSpec, Control};
use crate::error::BoardError;
use crate::model::{Bounds, MAX_PAGE, Region, RegionKind};
use crate::name::BoardId;
use crate::notify::Agent;
use crate::request::{SetRequest, WriteRequest, WriteResult};
use crate::rules::StoredRules;
use crate::run::{Limits, Outcome};
use crate::wire;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use placet_core::Timestamp;
use placet_net::percent_decoded;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The longest that a caller may ask to wait for something.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a stream on which nothing happens says that it is still there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

type Answered = Result<Answer, Answer>;

/// One request.
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a BoardsEndpoint,
    pub(super) caller: Caller<'a>,
    pub(super) query: &'a str,
    pub(super) body: Bytes,
}

impl Asked<'_> {
    pub(super) async fn answer(&self, route: &Route) -> Answered {
        match route {
            Route::Boards => self.boards().await,
            Route::Describe(id) => {
                self.may(Act::Read, id)?;
                Ok(Answer::of(200, &SummaryBody::of(&self.reader(id).describe().await?)))
            }
            Route::Open(id) => self.open(id).await,
            Route::Delete(id) => {
                self.may(Act::Manage, id)?;
                self.endpoint.boards.record(id).delete().await?;
                Ok(Answer::empty(204))
            }
            Route::Regions(id) => {
                self.may(Act::Read, id)?;
                Ok(Answer::of(200, &wire::RegionsBody::new(&self.reader(id).read_regions().await?)))
            }
            Route::Declare(id, region) => self.declare(id, region).await,
            Route::ReadLevel(id, level) => {
                self.may(Act::Read, id)?;
                let page = self.reader(id).read_level(level, self.bounds()?).await?;
                Ok(Answer::of(200, &wire::LevelBody { contributions: page.items, has_more: page.has_more }))
            }
            Route::Write(id, level) => self.write(id, level).await,
            Route::ReadPremise(id, premise) => {
                self.may(Act::Read, id)?;
                Ok(Answer::of(200, &self.reader(id).read_premise(premise).await?))
            }
            Route::Set(id, premise) => self.set(id, premise).await,
            Route::Changes(id) => {
                self.may(Act::Read, id)?;
                let page = self.reader(id).read_board(self.bounds()?).await?;
                Ok(Answer::of(200, &wire::ChangesBody { changes: page.items, has_more: page.has_more }))
            }
            Route::Acknowledge(id) => self.acknowledge(id).await,
            Route::Agents(id) => {
                self.may(Act::Read, id)?;
                self.reader(id).describe().await?;
                Ok(Answer::of(200, &serde_json::json!({ "agents": self.control(id).agents().await? })))
            }
            Route::Register(id, agent) => self.register(id, agent).await,
            Route::Notifications(id, agent) => self.notifications(id, agent).await,
            Route::Outcome(id) => self.outcome(id).await,
            Route::Abort(id) => self.abort(id).await,
            Route::Reopen(id) => {
                self.may(Act::Manage, id)?;
                let limits: LimitsBody = self.body("Reopening")?;
                self.control(id).reopen(limits.limits()?).await?;
                Ok(Answer::empty(204))
            }
            Route::Tail(id) => self.tail(id).await,
            Route::Export(id) => self.export(id).await,
            Route::Decisions(id) => self.decisions(id).await,
        }
    }

    fn control(&self, id: &BoardId) -> Control {
        self.endpoint.boards.control(id)
    }

    fn reader(&self, id: &BoardId) -> crate::reader::Reader {
        self.endpoint.boards.reader(id)
    }

    fn may(&self, act: Act, id: &BoardId) -> Result<(), Answer> {
        self.may_as(act, id, None, None)
    }

    fn may_as(&self, act: Act, id: &BoardId, agent: Option<&str>, region: Option<&str>) -> Result<(), Answer> {
        self.endpoint.allows(self.caller, &Wanted { act, board: Some(id.as_str()), agent, region })
    }

    async fn boards(&self) -> Answered {
        self.endpoint.allows(self.caller, &Wanted { act: Act::Read, board: None, agent: None, region: None })?;
        let limit = self.number("limit")?.unwrap_or(100).min(MAX_PAGE as u64);
        let after = self.parameter("after").map(BoardId::new).transpose()?;
        let limit = usize::try_from(limit).unwrap_or(MAX_PAGE);
        let mut found: Vec<BoardSummary> = Vec::new();
        let mut beyond = after;
        // Boards that the token is not for are not told of: the page is filled with the next ones.
        while found.len() <= limit {
            let page = self.endpoint.boards.list(beyond.as_ref(), limit + 1).await?;
            let is_last = page.len() <= limit;
            beyond = page.last().map(|board| board.id.clone());
            found.extend(page.into_iter().filter(|board| self.may(Act::Read, &board.id).is_ok()));
            if is_last {
                break;
            }
        }
        let has_more = found.len() > limit;
        found.truncate(limit);
        let boards: Vec<SummaryBody> = found.iter().map(SummaryBody::of).collect();
        Ok(Answer::of(200, &serde_json::json!({ "boards": boards, "has_more": has_more })))
    }

    async fn open(&self, id: &BoardId) -> Answered {
        self.may(Act::Manage, id)?;
        let spec = self.body::<SpecBody>("Opening")?.spec()?;
        let existed = self.reader(id).exists().await?;
        self.endpoint.boards.open(id, &spec).await?;
        let summary = self.reader(id).describe().await?;
        Ok(Answer::of(if existed { 200 } else { 201 }, &SummaryBody::of(&summary)))
    }

    async fn declare(&self, id: &BoardId, name: &str) -> Answered {
        self.may(Act::Manage, id)?;
        let body: RegionBody = self.body("Declaring")?;
        self.control(id).declare(&body.region(name)?).await?;
        Ok(Answer::empty(204))
    }

    /// A malformed body is told of only for a board that there is.
    async fn malformed(&self, id: &BoardId, problem: Answer) -> Answer {
        match self.reader(id).run().await {
            Ok(Some(_)) => problem,
            Ok(None) => BoardError::UnknownBoard { board: id.clone() }.into(),
            Err(error) => error.into(),
        }
    }

    async fn write(&self, id: &BoardId, level: &str) -> Answered {
        let read = RawWrite::read(&self.body, "WriteRequest").and_then(|raw| {
            let content = raw.content("content", raw.content, &self.body)?;
            let writer = raw.text("writer", raw.writer)?.ok_or_else(|| raw.needs("writer"))?;
            let key = raw.text("idempotency_key", raw.idempotency_key)?;
            Ok((writer, WriteRequest { level: level.to_owned(), content, idempotency_key: key }))
        });
        let (writer, request) = match read {
            Ok(read) => read,
            Err(problem) => return Err(self.malformed(id, problem).await),
        };
        self.may_as(Act::Write, id, Some(&writer), Some(level))?;
        Ok(answered(&self.control(id).write(&writer, &request).await?))
    }

    async fn set(&self, id: &BoardId, premise: &str) -> Answered {
        let read = RawWrite::read(&self.body, "SetPremiseRequest").and_then(|raw| {
            let value = raw.content("value", raw.value, &self.body)?;
            let writer = raw.text("writer", raw.writer)?.ok_or_else(|| raw.needs("writer"))?;
            let key = raw.text("idempotency_key", raw.idempotency_key)?;
            let expected = raw.count("expected_version", raw.expected_version)?;
            let request =
                SetRequest { premise: premise.to_owned(), value, expected_version: expected, idempotency_key: key };
            Ok((writer, request))
        });
        let (writer, request) = match read {
            Ok(read) => read,
            Err(problem) => return Err(self.malformed(id, problem).await),
        };
        self.may_as(Act::Write, id, Some(&writer), Some(premise))?;
        Ok(answered(&self.control(id).set_premise(&writer, &request).await?))
    }

    async fn acknowledge(&self, id: &BoardId) -> Answered {
        let read = RawWrite::read(&self.body, "AckRequest").and_then(|raw| {
            let agent = raw.text("agent", raw.agent)?.ok_or_else(|| raw.needs("agent"))?;
            Ok((agent, raw.count("notification_id", raw.notification_id)?))
        });
        let (agent, through) = match read {
            Ok(read) => read,
            Err(problem) => return Err(self.malformed(id, problem).await),
        };
        self.may_as(Act::Answer, id, Some(&agent), None)?;
        self.control(id).ack(&agent, through).await?;
        Ok(Answer::empty(204))
    }

    async fn register(&self, id: &BoardId, name: &str) -> Answered {
        self.may_as(Act::Manage, id, Some(name), None)?;
        let body: AgentBody = self.body("Registering")?;
        self.control(id).register(body.agent(name)).await?;
        Ok(Answer::empty(204))
    }

    /// What an agent is owed: at once, or within the time that it is ready to wait.
    async fn notifications(&self, id: &BoardId, agent: &str) -> Answered {
        self.may_as(Act::Answer, id, Some(agent), None)?;
        let wait = self.wait()?.unwrap_or_default();
        let (control, after) = (self.control(id), self.number("after")?.unwrap_or(0));
        let pulled = tokio::select! {
            biased;
            pulled = control.pull(agent, after, wait) => pulled?,
            () = self.endpoint.stop.cancelled(), if !wait.is_zero() => None,
        };
        match pulled {
            Some(notification) => Ok(Answer::of(200, &notification)),
            None => Ok(Answer::empty(204)),
        }
    }

    async fn outcome(&self, id: &BoardId) -> Answered {
        self.may(Act::Read, id)?;
        let control = self.control(id);
        let outcome = match self.wait()? {
            Some(wait) => tokio::select! {
                biased;
                outcome = control.wait_closed(Some(wait)) => outcome?,
                () = self.endpoint.stop.cancelled() => None,
            },
            None => control.outcome().await?,
        };
        Ok(Answer::of(200, &serde_json::json!({ "outcome": outcome })))
    }

    async fn abort(&self, id: &BoardId) -> Answered {
        #[derive(Deserialize)]
        struct AbortBody {
            #[serde(default)]
            reason: String,
        }
        self.may(Act::Manage, id)?;
        let body: AbortBody = self.body("Aborting")?;
        let closed = self.control(id).abort(&body.reason).await?;
        let outcome = self.control(id).outcome().await?;
        Ok(Answer::of(200, &serde_json::json!({ "closed": closed, "outcome": outcome })))
    }

    /// Everything from a number on and then everything that is written, as server-sent events.
    async fn tail(&self, id: &BoardId) -> Answered {
        self.may(Act::Read, id)?;
        let reader = self.reader(id);
        reader.describe().await?;
        let from = self.number("from_sequence")?.unwrap_or(0);
        let changes = reader.tail(from).map(|change| {
            let mut out = Vec::new();
            let event = match change {
                Ok(change) => {
                    let id = change.sequence.to_string();
                    let data = serde_json::to_string(&change).unwrap_or_default();
                    placet_wire::sse::SseEvent { id: Some(id), data, ..placet_wire::sse::SseEvent::default() }
                }
                Err(error) => {
                    tracing::error!(%error, "the tail of a board broke off");
                    let data = r#"{"error":"store_failed"}"#.to_owned();
                    placet_wire::sse::SseEvent {
                        event: Some("error".into()),
                        data,
                        ..placet_wire::sse::SseEvent::default()
                    }
                }
            };
            placet_wire::sse::encode(&event, &mut out);
            Some(Ok(Bytes::from(out)))
        });
        // After an error nothing more comes, and the answer ends.
        let changes = changes.chain(stream::iter([None]));
        let env = self.endpoint.boards.env().clone();
        let beats = stream::unfold(env, |env| async move {
            env.sleep(KEEP_ALIVE).await;
            Some((Some(Ok(Bytes::from_static(b": still here\n\n"))), env))
        });
        let pieces = stream::select(changes, beats).take_while(|piece| std::future::ready(piece.is_some()));
        let pieces = pieces.filter_map(std::future::ready).take_until(self.endpoint.stop.clone().cancelled_owned());
        Ok(Answer::stream("text/event-stream", pieces.boxed()))
    }

    /// The whole record as JSON lines, in order, as it was when it was asked for.
    async fn export(&self, id: &BoardId) -> Answered {
        self.may(Act::Read, id)?;
        let reader = self.reader(id);
        reader.describe().await?;
        let last = reader.head().await?;
        let pages = stream::unfold((reader, 1u64), move |(reader, next)| async move {
            if next > last {
                return None;
            }
            let broken = |reader, error: &dyn std::fmt::Display| {
                tracing::error!(%error, "the export of a board broke off");
                Some((Err(Broken), (reader, u64::MAX)))
            };
            let page = match reader.read_board(Bounds::from(next).limit(MAX_PAGE)).await {
                Ok(page) => page,
                Err(error) => return broken(reader, &error),
            };
            let Some(end) = page.items.last().map(|change| change.sequence) else {
                return broken(reader, &"it was deleted");
            };
            let mut out = Vec::new();
            for change in page.items.into_iter().take_while(|change| change.sequence <= last) {
                // Numbers and texts in fields always have a form in JSON.
                let _ = serde_json::to_writer(&mut out, &change);
                out.push(b'\n');
            }
            Some((Ok(Bytes::from(out)), (reader, end + 1)))
        });
        Ok(Answer::stream("application/x-ndjson", pages.boxed()))
    }

    async fn decisions(&self, id: &BoardId) -> Answered {
        self.may(Act::Read, id)?;
        let reader = self.reader(id);
        reader.describe().await?;
        let after = self.number("after")?.unwrap_or(0);
        let limit = self.number("limit")?.unwrap_or(100).min(MAX_PAGE as u64);
        let limit = usize::try_from(limit).unwrap_or(MAX_PAGE);
        let mut decisions = reader.decisions(after, limit + 1).await?;
        let has_more = decisions.len() > limit;
        decisions.truncate(limit);
        Ok(Answer::of(200, &serde_json::json!({ "decisions": decisions, "has_more": has_more })))
    }

    fn body<T: DeserializeOwned>(&self, what: &str) -> Result<T, Answer> {
        let body: &[u8] = if self.body.is_empty() { b"{}" } else { &self.body };
        serde_json::from_slice(body).map_err(|error| Answer::bad_body(&format!("{what}: {error}")))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        let value = value.replace('+', " ");
        Some(percent_decoded(&value))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, Answer> {
        let Some(text) = self.parameter(name) else { return Ok(None) };
        let number = text.parse().map_err(|_| {
            Answer::error(
                400,
                "bad_query",
                &format!("'{name}' takes a whole number that is not negative, and got {text:?}"),
            )
        })?;
        Ok(Some(number))
    }

    fn bounds(&self) -> Result<Bounds, Answer> {
        let limit = self.number("limit")?.map(|limit| usize::try_from(limit).unwrap_or(MAX_PAGE));
        Ok(Bounds { from_sequence: self.number("from_sequence")?.unwrap_or(0), limit })
    }

    /// How long the caller is ready to wait.
    fn wait(&self) -> Result<Option<Duration>, Answer> {
        let Some(text) = self.parameter("wait_s") else { return Ok(None) };
        let wait = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let wait = wait.ok_or_else(|| {
            Answer::error(400, "bad_query", &format!("'wait_s' takes a number of seconds, and got {text:?}"))
        })?;
        Ok(Some(wait.min(PATIENCE)))
    }
}

fn answered(result: &WriteResult) -> Answer {
    let (status, body) = wire::write_answer(result);
    Answer::json(status, body)
}

/// The fields of a write, of either kind, or of an acknowledgement: as they came, absent told from `null`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RawWrite<'a> {
    #[serde(borrow, deserialize_with = "present")]
    writer: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    content: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    value: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    expected_version: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    idempotency_key: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    agent: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    notification_id: Option<&'a RawValue>,
    #[serde(skip)]
    of: &'static str,
}

fn present<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> RawWrite<'a> {
    fn read(body: &'a [u8], of: &'static str) -> Result<Self, Answer> {
        match serde_json::from_slice::<RawWrite<'a>>(body) {
            Ok(raw) if body.trim_ascii_start().first() == Some(&b'{') => Ok(RawWrite { of, ..raw }),
            Ok(_) => Err(Answer::bad_body(&format!("{of} is an object"))),
            Err(error) => Err(Answer::bad_body(&format!("{of} is a JSON object: {error}"))),
        }
    }

    fn needs(&self, field: &str) -> Answer {
        Answer::bad_body(&format!("{} needs '{field}'", self.of))
    }

    fn content(&self, field: &str, raw: Option<&RawValue>, body: &Bytes) -> Result<Content, Answer> {
        raw.map(|raw| Content::within(body, raw)).ok_or_else(|| self.needs(field))
    }

    /// A text; `null` is none.
    fn text(&self, field: &str, raw: Option<&RawValue>) -> Result<Option<String>, Answer> {
        let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(None) };
        serde_json::from_str(raw.get())
            .map(Some)
            .map_err(|_| Answer::bad_body(&format!("{}'s '{field}' takes a text, and got {}", self.of, shown(raw))))
    }

    fn count(&self, field: &str, raw: Option<&RawValue>) -> Result<u64, Answer> {
        let raw = raw.ok_or_else(|| self.needs(field))?;
        serde_json::from_str(raw.get()).map_err(|_| {
            let problem = format!("{}'s '{field}' takes a whole number from 0, and got {}", self.of, shown(raw));
            Answer::bad_body(&problem)
        })
    }
}

fn shown(raw: &RawValue) -> String {
    raw.get().chars().take(40).collect()
}

/// Seconds as people write them.
fn seconds(what: &str, seconds: f64) -> Result<Duration, Answer> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Answer::bad_body(&format!("'{what}' takes a number of seconds that is not negative, and got {seconds}"))
    })
}

#[derive(Deserialize)]
struct LimitsBody {
    wall_clock_s: Option<f64>,
    idle_s: Option<f64>,
}

impl LimitsBody {
    fn limits(&self) -> Result<Limits, Answer> {
        let defaults = Limits::default();
        let or = |what: &str, given: Option<f64>, default| given.map_or(Ok(default), |given| seconds(what, given));
        let wall_clock = or("wall_clock_s", self.wall_clock_s, defaults.wall_clock)?;
        Ok(Limits::new(wall_clock, or("idle_s", self.idle_s, defaults.idle)?))
    }
}

#[derive(Deserialize)]
struct RegionBody {
    kind: RegionKind,
    #[serde(default)]
    batch_window_s: f64,
}

impl RegionBody {
    fn region(&self, name: &str) -> Result<Region, Answer> {
        let region = match self.kind {
            RegionKind::Level => Region::level(name),
            RegionKind::Premise => Region::premise(name),
        };
        Ok(region.window(seconds("batch_window_s", self.batch_window_s)?))
    }
}

#[derive(Deserialize)]
struct AgentBody {
    subscribes_to: Option<BTreeSet<String>>,
    writes_to: Option<BTreeSet<String>>,
    sets: Option<BTreeSet<String>>,
    address: Option<String>,
    #[serde(default)]
    pulls: bool,
}

impl AgentBody {
    fn agent(self, name: &str) -> Agent {
        let mut agent = Agent::new(name);
        // Whoever registers over the network is in no process of ours: without an address it asks by itself.
        agent.pulls = self.pulls || self.address.is_none();
        agent.subscribes_to = self.subscribes_to;
        agent.writes_to = self.writes_to;
        agent.sets = self.sets;
        agent.address = self.address;
        agent
    }
}

#[derive(Deserialize)]
struct NamedRegion {
    name: String,
    #[serde(flatten)]
    region: RegionBody,
}

#[derive(Deserialize)]
struct NamedAgent {
    name: String,
    #[serde(flatten)]
    agent: AgentBody,
}

/// What a board is to be, as a client says it.
#[derive(Deserialize)]
struct SpecBody {
    #[serde(default)]
    regions: Vec<NamedRegion>,
    #[serde(default)]
    premises: BTreeMap<String, Content>,
    #[serde(default)]
    agents: Vec<NamedAgent>,
    limits: Option<LimitsBody>,
    #[serde(default)]
    rules: StoredRules,
}

impl SpecBody {
    fn spec(self) -> Result<BoardSpec, Answer> {
        let limits = self.limits.map_or_else(|| Ok(Limits::default()), |limits| limits.limits())?;
        let mut spec = BoardSpec::new(limits).rules(self.rules);
        for region in self.regions {
            spec = spec.region(region.region.region(&region.name)?);
        }
        for (premise, value) in self.premises {
            spec = spec.opening(premise, value);
        }
        for agent in self.agents {
            spec = spec.agent(agent.agent.agent(&agent.name));
        }
        Ok(spec)
    }
}

/// What is told of a board.
#[derive(Serialize)]
struct SummaryBody {
    board_id: BoardId,
    regions: Vec<SummaryRegion>,
    agents: Vec<String>,
    open: Option<bool>,
    outcome: Option<Outcome>,
    #[serde(with = "wire::instant")]
    wall_deadline: Option<Timestamp>,
}

#[derive(Serialize)]
struct SummaryRegion {
    name: String,
    kind: RegionKind,
    batch_window_s: f64,
}

impl SummaryBody {
    fn of(summary: &BoardSummary) -> Self {
        let region = |region: &Region| SummaryRegion {
            name: region.name.to_string(),
            kind: region.kind,
            batch_window_s: region.window.as_secs_f64(),
        };
        SummaryBody {
            board_id: summary.id.clone(),
            regions: summary.regions.iter().map(region).collect(),
            agents: summary.agents.clone(),
            open: summary.is_open,
            outcome: summary.outcome.clone(),
            wall_deadline: summary.wall_deadline,
        }
    }
}
