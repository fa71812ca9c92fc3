//! The seven operations of a board as tools for a model.
//!
//! Names, descriptions, schemas and answers are those that models of existing agents know. The agent's name is in no schema, so a
//! model cannot write under another; nor is the idempotency key, which is the call's own. What a model can correct comes
//! back as text it can read. A list that is too long is cut, and says how many entries were left out; a premise's value comes
//! whole. Acknowledging says that the work is done: an agent that acknowledges when its model has ended leaves that tool out
//! with [`BoardTools::without_ack`].

use crate::agent_board::AgentBoard;
use crate::content::Content;
use crate::error::{BoardError, Result};
use crate::model::{Bounds, MAX_PAGE, RegionKind};
use crate::name::Quoted;
use crate::request::{SetRequest, WriteRequest, WriteResult};
use async_trait::async_trait;
use placet_core::outcome::Reason;
use placet_core::tool::Arguments;
use placet_core::{CapabilityId, Effect, Origin, Origins, Outcome, Stage, Status, ToolName};
use placet_tools::{AnyArguments, BoundTool, Capability, Definition, Ownership, ToolError, ToolOutput};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What every tool's name begins with.
pub const TOOL_PREFIX: &str = "blackboard_";

/// How large the answer to a read of a list may be, in bytes of JSON. One entry is given whatever its size.
pub const MAX_RESULT_BYTES: usize = 16_384;

/// How many entries a read looks at to say how many it left out.
const MOST_COUNTED: usize = 10_000;

/// One of the seven tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BoardTool {
    /// Lists the regions.
    ReadRegions,
    /// Reads a level.
    ReadLevel,
    /// Reads a premise.
    ReadPremise,
    /// Reads everything.
    ReadBoard,
    /// Writes to a level.
    Write,
    /// Sets a premise.
    SetPremise,
    /// Acknowledges a notification.
    Ack,
}

use BoardTool::{Ack, ReadBoard, ReadLevel, ReadPremise, ReadRegions, SetPremise, Write};

impl BoardTool {
    /// All of them, in the order in which a model sees them.
    pub const ALL: [BoardTool; 7] = [ReadRegions, ReadLevel, ReadPremise, ReadBoard, Write, SetPremise, Ack];

    /// The tool of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        BoardTool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// The name that a model calls it by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ReadRegions => "blackboard_read_regions",
            ReadLevel => "blackboard_read_level",
            ReadPremise => "blackboard_read_premise",
            ReadBoard => "blackboard_read_board",
            Write => "blackboard_write",
            SetPremise => "blackboard_set_premise",
            Ack => "blackboard_ack",
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn is_read(self) -> bool {
        matches!(self, ReadRegions | ReadLevel | ReadPremise | ReadBoard)
    }

    fn description(self) -> &'static str {
        match self {
            ReadRegions => {
                "Lists the regions this board holds and the kind of each one. A level accumulates contributions in the order \
                 they were written. A premise holds one current value under a version. Call this when you do not know what the \
                 board holds."
            }
            ReadLevel => {
                "Reads contributions from one level, in the order they were written, starting at a sequence number. Answers \
                 with the contributions and the sequence to continue from, so a later call reads only what arrived after this \
                 one."
            }
            ReadPremise => {
                "Reads the current value of one premise and the version that value carries. Changing a premise requires that \
                 version, so read it here before calling blackboard_set_premise."
            }
            ReadBoard => {
                "Reads every write to every region of this board in one order, starting at a sequence number. Answers with the \
                 writes and the sequence to continue from. Use this to catch up on the whole board rather than on one region."
            }
            Write => {
                "Adds a contribution to a level, where every other agent on this board can read it. A level accumulates, so \
                 this adds to the level and replaces nothing already there. The content is stored as JSON. Call \
                 blackboard_read_regions first if you do not know which levels this board holds."
            }
            SetPremise => {
                "Replaces the value of a premise. Read the premise first and pass the version you read as expected_version. \
                 Where another agent has written to that premise since the read, nothing is changed and the answer carries the \
                 version now current, so read again and decide from the value that is now there."
            }
            Ack => {
                "Records that this agent has stopped working on a notification. Acknowledging one notification also \
                 acknowledges every earlier one, so answering the widest range answers the narrower ranges inside it. Send \
                 this once the work the notification prompted is done, because the run reads it as this agent having finished \
                 with that notification."
            }
        }
    }

    /// Its arguments: name, type where it has one, description; and whether it must be there.
    fn parameters(self) -> &'static [(&'static str, Option<&'static str>, &'static str, bool)] {
        const LEVEL: (&str, Option<&str>, &str, bool) = ("level", Some("string"), "The name of the level.", true);
        const PREMISE: (&str, Option<&str>, &str, bool) = ("premise", Some("string"), "The name of the premise.", true);
        const FROM: (&str, Option<&str>, &str, bool) =
            ("from_sequence", Some("integer"), "Where to start reading. 0 reads from the beginning.", false);
        match self {
            ReadRegions => &[],
            ReadLevel => &[LEVEL, FROM],
            ReadPremise => &[PREMISE],
            ReadBoard => &[FROM],
            Write => &[LEVEL, ("content", None, "The contribution. Any JSON value.", true)],
            SetPremise => &[
                PREMISE,
                ("value", None, "The new value. Any JSON value.", true),
                ("expected_version", Some("integer"), "The version blackboard_read_premise last answered with.", true),
            ],
            Ack => &[("notification_id", Some("integer"), "The identifier the notification carried.", true)],
        }
    }

    /// The JSON Schema of its arguments.
    #[must_use]
    pub fn schema(self) -> Value {
        let mut properties = serde_json::Map::new();
        let mut required = Vec::new();
        for (name, kind, description, is_required) in self.parameters() {
            let property = match kind {
                Some(kind) => json!({"type": kind, "description": description}),
                None => json!({"description": description}),
            };
            properties.insert((*name).to_owned(), property);
            if *is_required {
                required.push(*name);
            }
        }
        json!({"type": "object", "properties": properties, "required": required})
    }

    /// What a model is told of it.
    #[must_use]
    pub fn definition(self) -> Definition {
        let effect = if self.is_read() { Effect::Read } else { Effect::Idempotent };
        Definition::new(self.name(), self.description(), self.schema()).effect(effect)
    }

    fn misses(self, argument: &str) -> String {
        let mut names: Vec<_> = self.parameters().iter().map(|(name, ..)| *name).collect();
        names.sort_unstable();
        format!("{} needs {}, which this call left out. It takes {}.", self.name(), Quoted(argument), names.join(", "))
    }
}

fn wrong_type(argument: &str, expected: &str, sent: &str) -> String {
    let expected = if expected == "integer" { "an integer" } else { "a string" };
    format!("{} takes {expected}, and this call sent {sent}.", Quoted(argument))
}

/// The name that existing agents know a JSON value's type by.
fn type_of(json: &str) -> &'static str {
    match json.trim_start().as_bytes().first() {
        Some(b'"') => "str",
        Some(b'{') => "dict",
        Some(b'[') => "list",
        Some(b't' | b'f') => "bool",
        Some(b'n') => "NoneType",
        _ if json.contains(['.', 'e', 'E']) => "float",
        _ => "int",
    }
}

/// What a call of one of the tools came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolAnswer {
    /// What the model reads.
    pub text: String,
    /// How it ended: *completed*, *refused* or *conflict*, which are no mistakes, or *mistaken*.
    pub status: Status,
    /// Whose words it holds.
    pub origins: Origins,
}

impl ToolAnswer {
    fn new(status: Status, text: impl Into<String>) -> Self {
        ToolAnswer { text: text.into(), status, origins: Origins::none() }
    }

    /// Whether the call was wrong and can be corrected.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.status == Status::Mistaken
    }
}

/// Runs one call against a board, under that board's agent. `call_id` becomes the idempotency key of a write; without one it has
/// none.
///
/// # Errors
/// Whatever a model cannot correct, a store that cannot be reached above all.
pub async fn run(
    board: &dyn AgentBoard,
    tool: BoardTool,
    arguments: &Arguments,
    call_id: Option<&str>,
) -> Result<ToolAnswer> {
    let given = match Given::of(tool, arguments) {
        Ok(given) => given,
        Err(complaint) => return Ok(ToolAnswer::new(Status::Mistaken, complaint)),
    };
    match act(board, tool, &given, call_id).await {
        Err(error) if error.is_answerable() => Ok(ToolAnswer::new(Status::Mistaken, explained(board, &error).await)),
        answer => answer,
    }
}

/// Arguments as they were written, checked.
struct Given(BTreeMap<String, Box<RawValue>>);

impl Given {
    fn of(tool: BoardTool, arguments: &Arguments) -> Result<Self, String> {
        let given = if arguments.is_absent() {
            BTreeMap::new()
        } else {
            let text = arguments.as_text();
            // Some send the object as a text that holds it.
            let parsed = serde_json::from_str(text).or_else(|error| match serde_json::from_str::<String>(text) {
                Ok(inner) => serde_json::from_str(&inner),
                Err(_) => Err(error),
            });
            match parsed {
                Ok(given) => given,
                Err(error) => match arguments.parse() {
                    Err(malformed) => return Err(malformed.to_string()),
                    Ok(_) => return Err(format!("the arguments are not valid JSON ({error}); send one JSON object")),
                },
            }
        };
        let given = Given(given);
        for (name, _, _, is_required) in tool.parameters() {
            if *is_required && !given.0.contains_key(*name) {
                return Err(tool.misses(name));
            }
        }
        for (name, expected, ..) in tool.parameters() {
            let (Some(expected), Some(value)) = (expected, given.0.get(*name)) else { continue };
            let sent = type_of(value.get());
            let fits = if *expected == "integer" { sent == "int" } else { sent == "str" };
            if !fits {
                return Err(wrong_type(name, expected, sent));
            }
        }
        Ok(given)
    }

    fn text(&self, name: &str) -> String {
        self.0.get(name).and_then(|value| serde_json::from_str(value.get()).ok()).unwrap_or_default()
    }

    fn content(&self, name: &str) -> Content {
        self.0.get(name).map_or(Content::NULL, |value| Content::from(&**value))
    }

    /// A whole number; one that is negative or too large becomes `beyond` it.
    fn number(&self, name: &str, negative: u64) -> u64 {
        let Some(value) = self.0.get(name) else { return 0 };
        value.get().parse().unwrap_or(if value.get().starts_with('-') { negative } else { u64::MAX })
    }
}

async fn act(board: &dyn AgentBoard, tool: BoardTool, given: &Given, call_id: Option<&str>) -> Result<ToolAnswer> {
    match tool {
        ReadRegions => {
            let regions = board.read_regions().await?;
            let entries = regions.iter().map(|region| {
                let (name, kind) = (json!(&*region.name), region.kind);
                Listed { text: format!(r#"{{"name":{name},"kind":"{kind}"}}"#), sequence: 0 }
            });
            Ok(ToolAnswer::new(Status::Completed, fitting("regions", &entries.collect::<Vec<_>>(), None)))
        }
        ReadLevel => {
            let (level, from) = (given.text("level"), given.number("from_sequence", 0));
            let (mut origins, mut listed, mut bounds) = (Origins::none(), Vec::new(), Some(whole(from)));
            while let Some(asked) = bounds {
                let page = board.read_level(&level, asked).await?;
                for contribution in &page.items {
                    note(&mut origins, contribution.writer.as_deref());
                    let (sequence, content) = (contribution.sequence, contribution.content.as_str());
                    let text = format!(r#"{{"sequence":{sequence},"content":{content}}}"#);
                    listed.push(Listed { text, sequence });
                }
                bounds = more(page.has_more, &listed);
            }
            let text = fitting("contributions", &listed, Some(from));
            Ok(ToolAnswer { origins, ..ToolAnswer::new(Status::Completed, text) })
        }
        ReadBoard => {
            let from = given.number("from_sequence", 0);
            let (mut origins, mut listed, mut bounds) = (Origins::none(), Vec::new(), Some(whole(from)));
            while let Some(asked) = bounds {
                let page = board.read_board(asked).await?;
                for change in &page.items {
                    note(&mut origins, change.writer.as_deref());
                    let (sequence, region, content) =
                        (change.sequence, json!(&*change.region), change.content.as_str());
                    let text = format!(r#"{{"sequence":{sequence},"region":{region},"content":{content}}}"#);
                    listed.push(Listed { text, sequence });
                }
                bounds = more(page.has_more, &listed);
            }
            let text = fitting("changes", &listed, Some(from));
            Ok(ToolAnswer { origins, ..ToolAnswer::new(Status::Completed, text) })
        }
        ReadPremise => {
            let state = board.read_premise(&given.text("premise")).await?;
            let mut origins = Origins::none();
            note(&mut origins, state.writer.as_deref());
            let text = format!(r#"{{"value":{},"version":{}}}"#, state.value.as_str(), state.version);
            Ok(ToolAnswer { origins, ..ToolAnswer::new(Status::Completed, text) })
        }
        Write => {
            let request = WriteRequest {
                level: given.text("level"),
                content: given.content("content"),
                idempotency_key: call_id.map(str::to_owned),
            };
            Ok(answered(board.write(request).await?))
        }
        SetPremise => {
            let request = SetRequest {
                premise: given.text("premise"),
                value: given.content("value"),
                expected_version: given.number("expected_version", u64::MAX),
                idempotency_key: call_id.map(str::to_owned),
            };
            Ok(answered(board.set_premise(request).await?))
        }
        Ack => {
            let id = given.number("notification_id", 0);
            board.ack(id).await?;
            Ok(ToolAnswer::new(Status::Completed, format!(r#"{{"acknowledged":{id}}}"#)))
        }
    }
}

fn note(origins: &mut Origins, writer: Option<&str>) {
    if let Some(writer) = writer {
        origins.extend(&Origins::from(Origin::Agent(writer.to_owned())));
    }
}

/// The largest page from there on.
fn whole(from: u64) -> Bounds {
    Bounds::from(from).limit(MAX_PAGE)
}

/// What is to be read next, if there is more and not enough was read.
fn more(has_more: bool, listed: &[Listed]) -> Option<Bounds> {
    let last = listed.last().filter(|_| has_more && listed.len() < MOST_COUNTED)?;
    Some(whole(last.sequence.saturating_add(1)))
}

/// An entry of a list as the model reads it.
struct Listed {
    text: String,
    sequence: u64,
}

/// The most of a list that fits, with how many entries were left out, and from where to go on where it is ordered.
fn fitting(key: &str, listed: &[Listed], from: Option<u64>) -> String {
    let ends = {
        let mut end = 0;
        listed
            .iter()
            .map(|entry| {
                end += entry.text.len() + 1;
                end
            })
            .collect::<Vec<usize>>()
    };
    let tail = |kept: usize| {
        let next = from.map(|from| listed.get(kept.wrapping_sub(1)).map_or(from, |last| last.sequence + 1));
        let next = next.map(|next| format!(r#","next_from_sequence":{next}"#)).unwrap_or_default();
        let omitted = listed.len() - kept;
        let omitted = if omitted > 0 { format!(r#","omitted":{omitted}"#) } else { String::new() };
        format!("]{next}{omitted}}}")
    };
    let head = format!(r#"{{"{key}":["#);
    let floor = usize::from(!listed.is_empty());
    let mut kept = listed.len();
    loop {
        let entries = ends.get(kept.wrapping_sub(1)).map_or(0, |end| end - 1);
        let tail = tail(kept);
        if head.len() + entries + tail.len() <= MAX_RESULT_BYTES || kept <= floor {
            let mut text = String::with_capacity(head.len() + entries + tail.len());
            text.push_str(&head);
            for (at, entry) in listed.iter().take(kept).enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&entry.text);
            }
            text.push_str(&tail);
            return text;
        }
        kept = if kept <= 4 { kept - 1 } else { kept * 3 / 4 };
    }
}

fn answered(result: WriteResult) -> ToolAnswer {
    match result {
        WriteResult::Written(written) => {
            let mut text = format!(r#"{{"sequence":{}"#, written.sequence);
            if let Some(version) = written.version {
                text.push_str(&format!(r#","version":{version}"#));
            }
            if written.repeated {
                text.push_str(r#","repeated":true"#);
            }
            text.push('}');
            ToolAnswer::new(Status::Completed, text)
        }
        WriteResult::Conflict(conflict) => {
            let reason = "the premise moved since the version this call named. Read it again and decide from the value now \
                          there.";
            let text = json!({"conflict": {"current_version": conflict.current_version, "reason": reason}});
            ToolAnswer::new(Status::Conflict, text.to_string())
        }
        WriteResult::Rejected(rejected) => {
            let text = json!({"rejected": {"cause": rejected.cause.as_str(), "reason": rejected.reason}});
            ToolAnswer::new(Status::Refused, text.to_string())
        }
    }
}

/// An error in words, with the regions of the board where one was named that is not there.
async fn explained(board: &dyn AgentBoard, error: &BoardError) -> String {
    let said = error.to_string();
    if !matches!(error, BoardError::UnknownRegion { .. } | BoardError::WrongRegionKind { .. }) {
        return said;
    }
    let Ok(regions) = board.read_regions().await else { return said };
    let names = |kind: RegionKind| {
        let names = regions.iter().filter(|region| region.kind == kind);
        names.map(|region| Quoted(&region.name).to_string()).collect::<Vec<_>>().join(", ")
    };
    let parts = [("the levels", names(RegionKind::Level)), ("the premises", names(RegionKind::Premise))];
    let held: Vec<_> =
        parts.iter().filter(|(_, names)| !names.is_empty()).map(|(kind, names)| format!("{kind} {names}")).collect();
    if held.is_empty() { said } else { format!("{said}. This board holds {}.", held.join(" and ")) }
}

/// The tools of a board as a capability: its agent's name is the board's, a call's own key decides what is a repetition, and it bounds its answers
/// itself.
#[derive(Clone)]
pub struct BoardTools {
    tools: Vec<BoundTool>,
}

impl BoardTools {
    /// All seven, for that board and agent.
    #[must_use]
    pub fn new(board: Arc<dyn AgentBoard>) -> Self {
        BoardTools { tools: BoardTool::ALL.into_iter().map(|tool| bound(&board, tool)).collect() }
    }

    /// Without the one that acknowledges: whoever runs the model does that when it has ended.
    #[must_use]
    pub fn without_ack(mut self) -> Self {
        self.tools.retain(|tool| tool.name().as_str() != Ack.name());
        self
    }
}

fn bound(board: &Arc<dyn AgentBoard>, tool: BoardTool) -> BoundTool {
    let board = board.clone();
    let handler = move |_: AnyArguments, cx: placet_tools::ToolContext| {
        let board = board.clone();
        async move {
            let key = cx.idempotency_key();
            let answer = run(&*board, tool, cx.arguments(), Some(&key)).await?;
            match answer.status {
                Status::Completed => Ok(ToolOutput::text(answer.text).origin(answer.origins)),
                Status::Refused => Err(ToolError::refused(answer.text)),
                Status::Conflict => Err(ToolError::conflict(answer.text)),
                Status::Mistaken | Status::Failed | Status::Interrupted => Err(ToolError::mistaken(answer.text)),
            }
        }
    };
    tool.definition().bind(handler).build()
}

#[async_trait]
impl Capability for BoardTools {
    fn id(&self) -> CapabilityId {
        CapabilityId::new("board")
    }

    fn tools(&self) -> Vec<BoundTool> {
        self.tools.clone()
    }

    fn ownership(&self) -> Ownership {
        Ownership { bounds: true, repeats: true }
    }

    /// Wrong arguments are told of as the handler would.
    fn word(&self, tool: &ToolName, outcome: &Outcome) -> Option<String> {
        if outcome.stage != Stage::Arguments || outcome.reason != Some(Reason::InvalidArguments) {
            return None;
        }
        let tool = BoardTool::of(tool.as_str())?;
        let problems = outcome.detail.as_ref()?.as_array()?;
        fn said<'p>(problem: &'p Value, field: &str) -> &'p str {
            problem.get(field).and_then(Value::as_str).unwrap_or_default()
        }
        for (name, _, _, is_required) in tool.parameters() {
            let missing = format!("the field {} is missing", json!(name));
            if *is_required && problems.iter().any(|problem| said(problem, "problem") == missing) {
                return Some(tool.misses(name));
            }
        }
        for (name, expected, ..) in tool.parameters() {
            let at = format!("/{name}");
            let problem = problems.iter().find(|problem| said(problem, "path") == at);
            if let (Some(expected), Some(problem)) = (expected, problem) {
                // It begins with the value that was sent.
                let sent = type_of(said(problem, "problem").split(" is not of type ").next().unwrap_or_default());
                return Some(wrong_type(name, expected, sent));
            }
        }
        None
    }
}

impl std::fmt::Debug for BoardTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.tools.iter().map(BoundTool::name)).finish()
    }
}
