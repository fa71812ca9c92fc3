//! What each operation does with a request.

use super::access::{Act, Wanted};
use super::answer::Answer;
use super::bodies::{AgentBody, LimitsBody, RegionBody, SpecBody, SummaryBody};
use super::route::Route;
use super::{BoardsEndpoint, Caller, streams};
use crate::boards::BoardSummary;
use crate::content::Content;
use crate::control::Control;
use crate::error::BoardError;
use crate::model::{Bounds, MAX_PAGE};
use crate::name::BoardId;
use crate::request::{SetRequest, WriteRequest, WriteResult};
use crate::wire;
use bytes::Bytes;
use placet_net::percent_decoded;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::time::Duration;

/// The longest that a caller may ask to wait for something.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) type Answered = Result<Answer, Answer>;

/// One request.
pub(super) struct Asked<'a> {
    pub(super) endpoint: &'a BoardsEndpoint,
    pub(super) caller: Caller<'a>,
    pub(super) query: &'a str,
    /// Whether the caller takes server-sent events.
    pub(super) takes_events: bool,
    /// The id of the last event that the caller was given before it came back.
    pub(super) last_event: Option<u64>,
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

    pub(super) fn control(&self, id: &BoardId) -> Control {
        self.endpoint.boards.control(id)
    }

    pub(super) fn reader(&self, id: &BoardId) -> crate::reader::Reader {
        self.endpoint.boards.reader(id)
    }

    pub(super) fn may(&self, act: Act, id: &BoardId) -> Result<(), Answer> {
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

    /// A malformed body is told of only for a board that there is, and only to whoever may do such a thing there.
    async fn malformed(&self, act: Act, id: &BoardId, problem: Answer) -> Answer {
        if let Err(denied) = self.may(act, id) {
            return denied;
        }
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
            Err(problem) => return Err(self.malformed(Act::Write, id, problem).await),
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
            Err(problem) => return Err(self.malformed(Act::Write, id, problem).await),
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
            Err(problem) => return Err(self.malformed(Act::Answer, id, problem).await),
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

    /// What an agent is owed: at once, or within the time that it is ready to wait; or all of it as it comes.
    async fn notifications(&self, id: &BoardId, agent: &str) -> Answered {
        self.may_as(Act::Answer, id, Some(agent), None)?;
        let wait = self.wait()?.unwrap_or_default();
        let (control, after) = (self.control(id), self.number("after")?.unwrap_or(0));
        if self.takes_events {
            let after = self.last_event.unwrap_or(after);
            // What is wrong is told by the status, as long as there is none.
            let first = control.pull(agent, after, Duration::ZERO).await?;
            let given = first.as_ref().map_or(after, |told| told.notification_id);
            let first = first.map(|told| streams::event(Some(told.notification_id), None, &told));
            return Ok(self.notified(control, agent, given, first));
        }
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
        // A list would be read as the fields of an object, in order.
        if body.trim_ascii_start().first() != Some(&b'{') {
            return Err(Answer::bad_body(&format!("{what} takes a JSON object")));
        }
        serde_json::from_slice(body).map_err(|error| Answer::bad_body(&format!("{what}: {error}")))
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (_, value) = pairs.find(|(key, _)| *key == name)?;
        let value = value.replace('+', " ");
        Some(percent_decoded(&value))
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, Answer> {
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
