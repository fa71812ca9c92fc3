//! `placet board`: boards of the store here, or of a server.
//!
//! Every command is one request of the boards' HTTP interface, answered in this process or by the server, so that both
//! say the same.

pub(crate) mod args;
mod place;
pub(crate) mod serve;
mod test_mode;

use crate::failure::{Code, Done, Failure};
use crate::house::House;
use crate::interrupt::Interrupts;
use crate::output::{Tone, printable};
use args::{BoardCommand, CreateArgs, ReadArgs, TailArgs};
use place::{Place, segment};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

/// How many entries one request of a long read asks for.
const PAGE: u64 = 1000;

pub(crate) async fn board(house: &House, command: &BoardCommand) -> Done {
    match command {
        BoardCommand::Serve(args) => serve::serve(house, args).await,
        BoardCommand::List(args) => {
            let mut path = format!("/boards?limit={}", args.limit);
            if let Some(after) = &args.after {
                path.push_str(&format!("&after={}", segment(after)));
            }
            let answer = Place::of(house, &args.place).await?.get(&path).await?;
            each(house, &answer, "boards", board_line)
        }
        BoardCommand::Create(args) => create(house, args).await,
        BoardCommand::Write(args) => {
            let content = content(&args.content)?;
            let body =
                fields([("writer", text(&args.writer)), ("content", content), ("idempotency_key", opt(&args.key))]);
            let path = format!("/boards/{}/levels/{}", segment(&args.board), segment(&args.level));
            wrote(house, &Place::of(house, &args.place).await?.send("POST", &path, body).await?)
        }
        BoardCommand::Set(args) => {
            let body = fields([
                ("writer", text(&args.writer)),
                ("value", content(&args.value)?),
                ("expected_version", raw(&Value::from(args.expect))),
                ("idempotency_key", opt(&args.key)),
            ]);
            let path = format!("/boards/{}/premises/{}", segment(&args.board), segment(&args.premise));
            wrote(house, &Place::of(house, &args.place).await?.send("PUT", &path, body).await?)
        }
        BoardCommand::Read(args) => read(house, args).await,
        BoardCommand::Tail(args) => tail(house, args).await,
        BoardCommand::Register(args) => {
            let list = |names: &[String]| if names.is_empty() { Value::Null } else { json!(names) };
            let body = json!({
                "subscribes_to": list(&args.subscribe), "writes_to": list(&args.writes_to), "sets": list(&args.sets),
                "address": args.address
            });
            let path = format!("/boards/{}/agents/{}", segment(&args.board), segment(&args.agent));
            Place::of(house, &args.place).await?.send("PUT", &path, body.to_string()).await?.done()?;
            Ok(())
        }
        BoardCommand::Agents(args) => {
            let path = format!("/boards/{}/agents", segment(&args.board));
            let answer = Place::of(house, &args.place).await?.get(&path).await?;
            each(house, &answer, "agents", agent_line)
        }
        BoardCommand::Ack(args) => {
            let body = json!({"agent": args.agent, "notification_id": args.notification}).to_string();
            let path = format!("/boards/{}/acknowledgements", segment(&args.board));
            Place::of(house, &args.place).await?.send("POST", &path, body).await?.done()?;
            Ok(())
        }
        BoardCommand::Close(args) => {
            let path = format!("/boards/{}/abort", segment(&args.board));
            let body = json!({"reason": args.reason}).to_string();
            let answer = Place::of(house, &args.place).await?.send("POST", &path, body).await?.done()?;
            if house.output.json {
                house.output.json_line(&answer);
            } else {
                let closed = answer.get("closed").and_then(Value::as_bool).unwrap_or_default();
                let outcome = answer.get("outcome").unwrap_or(&Value::Null);
                let word = if closed { "closed" } else { "had closed before" };
                house.output.line(&format!("{word}: {}", printable(&outcome_text(outcome))));
            }
            Ok(())
        }
        BoardCommand::Reopen(args) => {
            let path = format!("/boards/{}/reopen", segment(&args.board));
            let body = json!({"wall_clock_s": args.wall_clock, "idle_s": args.idle}).to_string();
            Place::of(house, &args.place).await?.send("POST", &path, body).await?.done()?;
            Ok(())
        }
        BoardCommand::Decisions(args) => {
            let (place, mut after) = (Place::of(house, &args.place).await?, args.after);
            loop {
                let path = format!("/boards/{}/decisions?after={after}&limit={PAGE}", segment(&args.board));
                let answer = place.get(&path).await?;
                let body = answer.json()?;
                each(house, &answer, "decisions", decision_line)?;
                let last =
                    body.get("decisions").and_then(Value::as_array).and_then(|all| all.last()?.get("number")?.as_u64());
                match (last, body.get("has_more").and_then(Value::as_bool)) {
                    (Some(last), Some(true)) => after = last,
                    _ => return Ok(()),
                }
            }
        }
        BoardCommand::Export(args) => {
            let path = format!("/boards/{}/export", segment(&args.board));
            Place::of(house, &args.place).await?.stream(&path, |piece| house.output.bytes(piece)).await
        }
        BoardCommand::Delete(args) => {
            let path = format!("/boards/{}", segment(&args.board));
            Place::of(house, &args.place).await?.send("DELETE", &path, String::new()).await?.done()?;
            Ok(())
        }
    }
}

async fn create(house: &House, args: &CreateArgs) -> Done {
    let mut spec: BTreeMap<String, Box<RawValue>> = match &args.spec {
        None => BTreeMap::new(),
        Some(path) => {
            let wrong = |problem: String| Failure::new(Code::Usage, format!("{}: {problem}", path.display()));
            let text = if path.as_os_str() == "-" { stdin()? } else { file(path)? };
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
        }
    };
    let wrong = || Failure::new(Code::Usage, "`regions` of the spec is a list, `premises` and `limits` are objects");
    let mut regions: Vec<Value> = part(&spec, "regions").map_err(|_| wrong())?;
    regions.extend(args.level.iter().map(|name| json!({"name": name, "kind": "level"})));
    let premises = args.premise.iter().map(|given| {
        let (name, value) = given
            .split_once('=')
            .ok_or_else(|| Failure::new(Code::Usage, format!("--premise takes NAME=JSON, and got {given:?}")))?;
        Ok((name.to_owned(), json_or_text(value)))
    });
    let premises = premises.collect::<Result<Vec<(String, Box<RawValue>)>, Failure>>()?;
    regions.extend(premises.iter().map(|(name, _)| json!({"name": name, "kind": "premise"})));
    // Values stay the texts that they were written as.
    let mut opening: BTreeMap<String, Box<RawValue>> = part(&spec, "premises").map_err(|_| wrong())?;
    opening.extend(premises);
    let mut limits: Map<String, Value> = part(&spec, "limits").map_err(|_| wrong())?;
    let given = [("wall_clock_s", args.wall_clock), ("idle_s", args.idle)];
    limits.extend(given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?)))));
    spec.insert("regions".to_owned(), raw(&regions));
    spec.insert("premises".to_owned(), raw(&opening));
    spec.insert("limits".to_owned(), raw(&limits));
    let path = format!("/boards/{}", segment(&args.board));
    let answer = Place::of(house, &args.place).await?.send("PUT", &path, raw(&spec).get().to_owned()).await?;
    let (made, board) = (answer.status == 201, answer.done()?);
    if house.output.json {
        house.output.json_line(&board);
    } else {
        house.output.line(&format!("{} {}", if made { "opened" } else { "there already:" }, board_line(house, &board)));
    }
    Ok(())
}

/// A part of a spec; an empty one where there is none.
fn part<T: Default + serde::de::DeserializeOwned>(
    spec: &BTreeMap<String, Box<RawValue>>,
    name: &str,
) -> serde_json::Result<T> {
    spec.get(name).map_or_else(|| Ok(T::default()), |text| serde_json::from_str(text.get()))
}

async fn read(house: &House, args: &ReadArgs) -> Done {
    let place = Place::of(house, &args.place).await?;
    let board = segment(&args.board);
    let path = match &args.region {
        None => format!("/boards/{board}/changes"),
        Some(region) => {
            let regions = place.get(&format!("/boards/{board}/regions")).await?.done()?;
            let listed = regions.get("regions").and_then(Value::as_array).into_iter().flatten();
            let kind = listed.clone().find(|of| of.get("name").and_then(Value::as_str) == Some(region));
            match kind.and_then(|of| of.get("kind")?.as_str()) {
                Some("premise") => {
                    let answer = place.get(&format!("/boards/{board}/premises/{}", segment(region))).await?;
                    return premise(house, &answer);
                }
                Some(_) => format!("/boards/{board}/levels/{}", segment(region)),
                None => {
                    let names: Vec<&str> = listed.filter_map(|of| of.get("name")?.as_str()).collect();
                    return Err(Failure::new(Code::NotFound, format!("the board has no region {region:?}"))
                        .hint(format!("it has {}", names.join(", "))));
                }
            }
        }
    };
    let (mut from, mut left) = (args.from, args.limit.unwrap_or(u64::MAX));
    while left > 0 {
        let answer = place.get(&format!("{path}?from_sequence={from}&limit={}", left.min(PAGE))).await?;
        let page: PageText = answer.parse()?;
        let Some(last) = page.entries().last() else { break };
        from = last.sequence.saturating_add(1);
        left = left.saturating_sub(page.entries().len() as u64);
        for entry in page.entries() {
            show(house, entry);
        }
        if !page.has_more {
            break;
        }
    }
    Ok(())
}

async fn tail(house: &House, args: &TailArgs) -> Done {
    let place = Place::of(house, &args.place).await?;
    let mut interrupts = Interrupts::new();
    let path = format!("/boards/{}/tail?from_sequence={}", segment(&args.board), args.from);
    let mut events = placet_wire::sse::SseDecoder::new();
    let broke_off = std::cell::Cell::new(false);
    let shown = place.stream(&path, |piece| {
        // An event beyond the decoder's limit is none that a board sends.
        let _ = events.push(piece);
        while let Some(event) = events.next_event() {
            broke_off.set(broke_off.get() || event.event.as_deref() == Some("error"));
            if let Ok(entry) = serde_json::from_str::<EntryText>(&event.data) {
                show(house, &entry);
            }
        }
    });
    tokio::select! {
        shown = shown => match shown {
            Ok(()) if broke_off.get() => Err(Failure::new(Code::Failed, "the board's store failed, or it was deleted")),
            shown => shown,
        },
        () = interrupts.next() => Ok(()),
    }
}

/// Entries as they came: content stays the text that was written.
#[derive(serde::Deserialize)]
struct PageText {
    #[serde(default)]
    contributions: Vec<EntryText>,
    #[serde(default)]
    changes: Vec<EntryText>,
    #[serde(default)]
    has_more: bool,
}

impl PageText {
    fn entries(&self) -> &[EntryText] {
        if self.changes.is_empty() { &self.contributions } else { &self.changes }
    }
}

#[derive(serde::Deserialize, serde::Serialize)]
struct EntryText {
    sequence: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    content: Box<RawValue>,
    writer: Option<String>,
    written_at: Option<String>,
}

fn show(house: &House, entry: &EntryText) {
    let output = &house.output;
    if output.json {
        return output.json_line(entry);
    }
    let writer = entry.writer.as_deref().unwrap_or("-");
    let at = entry.written_at.as_deref().and_then(|at| at.get(11..19)).unwrap_or_default();
    let region = entry.region.as_deref().unwrap_or_default();
    let head = format!("{:>6}  {at}  {region:<16} {writer:<12}", entry.sequence);
    output.line(&format!("{} {}", output.paint(Tone::Quiet, &printable(&head)), printable(entry.content.get())));
}

fn premise(house: &House, answer: &place::Answer) -> Done {
    #[derive(serde::Deserialize)]
    struct PremiseText {
        version: u64,
        value: Box<RawValue>,
        writer: Option<String>,
    }
    if house.output.json {
        answer.ok()?;
        house.output.line(String::from_utf8_lossy(&answer.body).trim());
        return Ok(());
    }
    let premise: PremiseText = answer.parse()?;
    let by = premise.writer.map_or_else(|| "an opening value".to_owned(), |writer| format!("by {writer}"));
    let told = format!("version {}, {by}", premise.version);
    house.output.line(&printable(premise.value.get()));
    house.output.line(&house.output.paint(Tone::Quiet, &printable(&told)));
    Ok(())
}

/// A write that was refused, or whose premise had moved, is no success for a script either.
fn wrote(house: &House, answer: &place::Answer) -> Done {
    let body = answer.json()?;
    let number = |name: &str| body.get(name).and_then(Value::as_u64);
    if house.output.json && matches!(answer.status, 200 | 201 | 409 | 410 | 422) {
        house.output.json_line(&body);
    }
    let say = |text: String| {
        if !house.output.json {
            house.output.line(&text);
        }
    };
    match (answer.status, number("current_version")) {
        (200 | 201, _) => {
            let version = number("version").map(|version| format!(", version {version}")).unwrap_or_default();
            let again = if answer.status == 200 { " (written before)" } else { "" };
            say(format!("{}{version}{again}", number("sequence").unwrap_or_default()));
            Ok(())
        }
        (409, Some(current)) => {
            let told = format!("the premise has moved on: it is at version {current}");
            Err(Failure::new(Code::Conflict, told).hint("read it, decide again, and set it with `--expect`"))
        }
        (410, _) => Err(Failure::new(Code::Conflict, format!("the run has closed: {}", told(&body, "detail")))),
        (422, _) => Err(Failure::new(Code::Conflict, format!("refused: {}", told(&body, "reason")))),
        _ => answer.ok(),
    }
}

fn told(body: &Value, field: &str) -> String {
    body.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn each(house: &House, answer: &place::Answer, list: &str, line: fn(&House, &Value) -> String) -> Done {
    answer.ok()?;
    for entry in answer.json()?.get(list).and_then(Value::as_array).into_iter().flatten() {
        if house.output.json {
            house.output.json_line(entry);
        } else {
            house.output.line(&line(house, entry));
        }
    }
    Ok(())
}

fn board_line(_: &House, board: &Value) -> String {
    let regions = board
        .get("regions")
        .and_then(Value::as_array)
        .map(|regions| regions.iter().filter_map(|of| of.get("name")?.as_str()).collect::<Vec<_>>().join(", "));
    let state = match (board.get("open").and_then(Value::as_bool), board.get("outcome")) {
        (Some(true), _) => "open".to_owned(),
        (Some(false), Some(outcome)) => outcome_text(outcome),
        _ => "no run".to_owned(),
    };
    printable(&format!("{}  {state}  {}", told(board, "board_id"), regions.unwrap_or_default()))
}

fn outcome_text(outcome: &Value) -> String {
    let mut text = told(outcome, "closed_as");
    if let Some(reason) = outcome.get("reason").and_then(Value::as_str) {
        text.push_str(&format!(" ({reason})"));
    }
    let unfinished = outcome.get("unfinished").and_then(Value::as_array).into_iter().flatten();
    let unfinished: Vec<&str> = unfinished.filter_map(Value::as_str).collect();
    if !unfinished.is_empty() {
        text.push_str(&format!(", unfinished: {}", unfinished.join(", ")));
    }
    text
}

fn agent_line(_: &House, agent: &Value) -> String {
    let number = |name: &str| agent.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (told_to, done_to) = (number("notified_through"), number("acknowledged_through"));
    let waits = if told_to > done_to { "  has not answered" } else { "" };
    printable(&format!("{:<16} told of {told_to}, answered {done_to}{waits}", told(agent, "agent")))
}

fn decision_line(house: &House, record: &Value) -> String {
    let mut decision = record.get("decision").cloned().unwrap_or_default();
    let kind = told(&decision, "kind");
    if let Some(fields) = decision.as_object_mut() {
        fields.shift_remove("kind");
    }
    let number = record.get("number").and_then(Value::as_u64).unwrap_or_default();
    let head = house.output.paint(Tone::Quiet, &format!("{number:>6}"));
    format!("{head}  {kind:<26} {}", printable(&decision.to_string()))
}

/// What was typed as content: JSON where it is, else a text.
fn content(given: &str) -> Result<Box<RawValue>, Failure> {
    let text = if given == "-" { stdin()? } else { given.to_owned() };
    Ok(json_or_text(&text))
}

fn json_or_text(given: &str) -> Box<RawValue> {
    RawValue::from_string(given.trim().to_owned()).unwrap_or_else(|_| text(given.trim_end_matches('\n')))
}

fn text(text: &str) -> Box<RawValue> {
    raw(&Value::from(text))
}

fn opt(text: &Option<String>) -> Box<RawValue> {
    raw(&json!(text))
}

fn raw(value: &impl serde::Serialize) -> Box<RawValue> {
    // Values, and maps of them by name, always have a form in JSON.
    serde_json::value::to_raw_value(value).unwrap_or_default()
}

fn fields<const N: usize>(fields: [(&str, Box<RawValue>); N]) -> String {
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{}", value.get())).collect();
    format!("{{{}}}", fields.join(","))
}

fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::new(Code::Failed, format!("standard input cannot be read: {error}")))?;
    Ok(text)
}

fn file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { Code::NotFound } else { Code::Failed };
        Failure::new(code, format!("{} cannot be read: {error}", path.display()))
    })
}
