//! How what a board holds is written into values.

use crate::content::Content;
use crate::error::Result;
use crate::model::{Change, Contribution, PremiseState, RegionKind};
use crate::rules::StoredRules;
use crate::run::{Limits, Outcome};
use bytes::{BufMut as _, Bytes, BytesMut};
use placet_core::Timestamp;
use placet_store::{AppendRef, Cell, Entry, StoreError, Value, ValueForm};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The newest format of every kind of value here.
pub(crate) const FORMAT: u16 = 1;

const PREMISE: u8 = 1;
const WRITER: u8 = 2;

fn corrupt(what: &str) -> StoreError {
    StoreError::Corrupt { what: what.to_owned() }
}

fn put_name(bytes: &mut BytesMut, name: &str) {
    // Names have at most 200 bytes.
    bytes.put_u16(u16::try_from(name.len()).unwrap_or(u16::MAX));
    bytes.put_slice(name.as_bytes());
}

struct Take<'a> {
    whole: &'a Bytes,
    at: usize,
}

impl<'a> Take<'a> {
    fn new(whole: &'a Bytes) -> Self {
        Take { whole, at: 0 }
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8], StoreError> {
        let part =
            self.whole.get(self.at..self.at + len).ok_or_else(|| corrupt("a value of a board ends too early"))?;
        self.at += len;
        Ok(part)
    }

    fn u8(&mut self) -> Result<u8, StoreError> {
        Ok(self.slice(1)?[0])
    }

    fn u64(&mut self) -> Result<u64, StoreError> {
        let part = self.slice(8)?.first_chunk::<8>().copied().unwrap_or_default();
        Ok(u64::from_be_bytes(part))
    }

    fn name(&mut self) -> Result<&'a str, StoreError> {
        let len = self.slice(2)?.first_chunk::<2>().copied().unwrap_or_default();
        let part = self.slice(usize::from(u16::from_be_bytes(len)))?;
        std::str::from_utf8(part).map_err(|_| corrupt("a name on a board is not text"))
    }

    fn rest(self) -> Bytes {
        self.whole.slice(self.at..)
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.whole.len()
    }
}

/// An entry of a board's log: flags, region, the version that it gives a premise, writer, content.
pub(crate) fn entry(region: &str, version: Option<u64>, writer: Option<&str>, content: &Content) -> Value {
    let mut bytes = BytesMut::with_capacity(32 + region.len() + content.as_bytes().len());
    let premise = if version.is_some() { PREMISE } else { 0 };
    bytes.put_u8(premise | if writer.is_some() { WRITER } else { 0 });
    put_name(&mut bytes, region);
    if let Some(version) = version {
        bytes.put_u64(version);
    }
    if let Some(writer) = writer {
        put_name(&mut bytes, writer);
    }
    bytes.put_slice(content.as_bytes());
    Value::new(FORMAT, bytes.freeze())
}

pub(crate) fn change(entry: &Entry) -> Result<Change, StoreError> {
    let mut take = Take::new(entry.value.known(FORMAT)?);
    let flags = take.u8()?;
    let region = Arc::from(take.name()?);
    let version = if flags & PREMISE == 0 { None } else { Some(take.u64()?) };
    let writer = if flags & WRITER == 0 { None } else { Some(Arc::from(take.name()?)) };
    Ok(Change {
        sequence: entry.number,
        region,
        kind: Some(if version.is_some() { RegionKind::Premise } else { RegionKind::Level }),
        version,
        content: Content::stored(take.rest()),
        writer,
        written_at: Some(entry.at),
    })
}

pub(crate) fn contribution(entry: &Entry) -> Result<Contribution, StoreError> {
    let mut take = Take::new(entry.value.known(FORMAT)?);
    let flags = take.u8()?;
    take.name()?;
    if flags & PREMISE != 0 {
        take.u64()?;
    }
    let writer = if flags & WRITER == 0 { None } else { Some(Arc::from(take.name()?)) };
    let content = Content::stored(take.rest());
    Ok(Contribution { sequence: entry.number, content, writer, written_at: Some(entry.at) })
}

/// What a premise holds: instant, number, writer, value. The version is the cell's.
pub(crate) fn premise(number: AppendRef, writer: Option<&str>, value: &Content) -> ValueForm {
    let mut bytes = BytesMut::with_capacity(16 + value.as_bytes().len());
    bytes.put_u8(if writer.is_some() { WRITER } else { 0 });
    if let Some(writer) = writer {
        put_name(&mut bytes, writer);
    }
    bytes.put_slice(value.as_bytes());
    ValueForm::new(FORMAT).now().number(number).bytes(bytes.freeze())
}

pub(crate) fn premise_state(cell: &Cell) -> Result<PremiseState, StoreError> {
    let mut take = Take::new(cell.value.known(FORMAT)?);
    let at = Timestamp::from_micros(take.u64()?.cast_signed());
    take.u64()?;
    let writer = if take.u8()? & WRITER == 0 { None } else { Some(Arc::from(take.name()?)) };
    Ok(PremiseState { value: Content::stored(take.rest()), version: cell.version, writer, written_at: Some(at) })
}

/// What a key wrote: number, version (0 for a level), region.
pub(crate) fn key(number: AppendRef, version: Option<u64>, region: &str) -> ValueForm {
    let mut bytes = BytesMut::with_capacity(8 + region.len());
    bytes.put_u64(version.unwrap_or(0));
    bytes.put_slice(region.as_bytes());
    ValueForm::new(FORMAT).number(number).bytes(bytes.freeze())
}

/// What a key wrote before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyRecord {
    pub(crate) sequence: u64,
    pub(crate) version: Option<u64>,
    pub(crate) region: String,
}

pub(crate) fn key_record(value: &Value) -> Result<KeyRecord, StoreError> {
    let mut take = Take::new(value.known(FORMAT)?);
    let (sequence, version) = (take.u64()?, take.u64()?);
    let region = String::from_utf8(take.rest().to_vec()).map_err(|_| corrupt("a key's region is not text"))?;
    Ok(KeyRecord { sequence, version: (version > 0).then_some(version), region })
}

/// How far an agent was told and how far it has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursors {
    pub(crate) notified: u64,
    pub(crate) acknowledged: u64,
}

impl Cursors {
    pub(crate) fn value(self) -> Value {
        let mut bytes = BytesMut::with_capacity(16);
        bytes.put_u64(self.notified);
        bytes.put_u64(self.acknowledged);
        Value::new(FORMAT, bytes.freeze())
    }

    pub(crate) fn read(value: &Value) -> Result<Self, StoreError> {
        let mut take = Take::new(value.known(FORMAT)?);
        Ok(Cursors { notified: take.u64()?, acknowledged: take.u64()? })
    }

    pub(crate) fn is_outstanding(self) -> bool {
        self.notified > self.acknowledged
    }
}

/// That agents are owed a word of a write: from when on, of which region, who.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    pub(crate) due: Timestamp,
    pub(crate) region: String,
    pub(crate) hearers: Vec<String>,
}

/// The part of a row that names region and hearers.
pub(crate) fn owed_part<'a>(region: &str, hearers: impl Iterator<Item = &'a str>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(64);
    put_name(&mut bytes, region);
    hearers.for_each(|name| put_name(&mut bytes, name));
    bytes.freeze()
}

/// A row that is due `window` after the commit.
pub(crate) fn owed_form(window: Duration, part: Bytes) -> ValueForm {
    ValueForm::new(FORMAT).now_plus(window).bytes(part)
}

impl Owed {
    pub(crate) fn read(value: &Value) -> Result<Self, StoreError> {
        let mut take = Take::new(value.known(FORMAT)?);
        let due = Timestamp::from_micros(take.u64()?.cast_signed());
        let region = take.name()?.to_owned();
        let mut hearers = Vec::new();
        while !take.is_at_end() {
            hearers.push(take.name()?.to_owned());
        }
        Ok(Owed { due, region, hearers })
    }
}

/// That one agent is owed a word of much at once: from when on, of everything through which number, of which regions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) due: Timestamp,
    pub(crate) through: u64,
    /// Empty for all that the agent subscribes to and that hold something: what it is owed since it was registered.
    pub(crate) regions: BTreeSet<String>,
}

impl Merged {
    /// Stands for the number of the last write before a registration, where that is not known: writes came too fast.
    pub(crate) const OPEN: u64 = u64::MAX;

    /// What a registration owes, from the commit on.
    pub(crate) fn registration(head: u64) -> ValueForm {
        ValueForm::new(FORMAT).now().bytes(head.to_be_bytes().to_vec())
    }

    pub(crate) fn value(&self) -> Value {
        let mut bytes = BytesMut::with_capacity(64);
        bytes.put_u64(self.through);
        self.regions.iter().for_each(|name| put_name(&mut bytes, name));
        Value::with_leading_instant(FORMAT, self.due, &bytes)
    }

    pub(crate) fn read(value: &Value) -> Result<Self, StoreError> {
        let mut take = Take::new(value.known(FORMAT)?);
        let due = Timestamp::from_micros(take.u64()?.cast_signed());
        let through = take.u64()?;
        let mut regions = BTreeSet::new();
        while !take.is_at_end() {
            regions.insert(take.name()?.to_owned());
        }
        Ok(Merged { due, through, regions })
    }
}

/// Through which number an agent was told for sure.
pub(crate) fn sent(through: u64) -> Value {
    Value::new(FORMAT, through.to_be_bytes().to_vec())
}

pub(crate) fn sent_through(value: &Value) -> Result<u64, StoreError> {
    Take::new(value.known(FORMAT)?).u64()
}

/// Whether the run is open, and how it ended. Before it stands the wall deadline, eight bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunState {
    pub(crate) state: Standing,
    wall_us: u64,
    idle_us: u64,
    /// Whether silence asks a predicate that only some processes have: the others leave the run to them.
    #[serde(default)]
    pub(crate) asks: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Open,
    Closed,
    /// The board was deleted.
    Deleted,
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl RunState {
    pub(crate) fn open(limits: Limits, asks: bool) -> Self {
        let (wall_us, idle_us) = (micros(limits.wall_clock), micros(limits.idle));
        RunState { state: Standing::Open, wall_us, idle_us, asks, outcome: None }
    }

    pub(crate) fn closed(&self, outcome: Outcome) -> Self {
        RunState { state: Standing::Closed, outcome: Some(outcome), ..self.clone() }
    }

    pub(crate) fn deleted() -> Self {
        RunState { state: Standing::Deleted, wall_us: 0, idle_us: 0, asks: false, outcome: None }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { wall_clock: Duration::from_micros(self.wall_us), idle: Duration::from_micros(self.idle_us) }
    }

    fn json(&self) -> Result<Bytes, StoreError> {
        Ok(Value::json(FORMAT, self)?.bytes)
    }

    /// With the wall deadline at the commit plus the limit.
    pub(crate) fn opening(&self) -> Result<ValueForm, StoreError> {
        Ok(ValueForm::new(FORMAT).now_plus(Duration::from_micros(self.wall_us)).bytes(self.json()?))
    }

    /// With the wall deadline at a known instant.
    pub(crate) fn at(&self, wall: Timestamp) -> Result<Value, StoreError> {
        Ok(Value::with_leading_instant(FORMAT, wall, &self.json()?))
    }

    pub(crate) fn read(value: &Value) -> Result<(Timestamp, Self), StoreError> {
        let mut take = Take::new(value.known(FORMAT)?);
        let wall = Timestamp::from_micros(take.u64()?.cast_signed());
        let state = Value::new(FORMAT, take.rest()).from_json(FORMAT)?;
        Ok((wall, state))
    }
}

/// Regions, agents and rules.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Roster {
    #[serde(default)]
    pub(crate) regions: Vec<StoredRegion>,
    #[serde(default)]
    pub(crate) agents: Vec<StoredAgent>,
    #[serde(default, skip_serializing_if = "StoredRules::is_empty")]
    pub(crate) rules: StoredRules,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredRegion {
    pub(crate) name: Arc<str>,
    pub(crate) kind: RegionKind,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) window_us: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl StoredRegion {
    pub(crate) fn of(region: &crate::model::Region) -> Self {
        StoredRegion { name: region.name.clone(), kind: region.kind, window_us: micros(region.window) }
    }

    pub(crate) fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredAgent {
    pub(crate) name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subscribes_to: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) writes_to: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sets: Option<BTreeSet<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) pulls: bool,
}

impl StoredAgent {
    pub(crate) fn of(name: Arc<str>, agent: &crate::notify::Agent) -> Self {
        StoredAgent {
            name,
            subscribes_to: agent.subscribes_to.clone(),
            writes_to: agent.writes_to.clone(),
            sets: agent.sets.clone(),
            address: agent.address.clone(),
            pulls: agent.pulls,
        }
    }

    /// Whether a change of that region wakes it.
    pub(crate) fn hears(&self, region: &str, kind: RegionKind) -> bool {
        match &self.subscribes_to {
            Some(regions) => regions.contains(region),
            None => kind == RegionKind::Premise,
        }
    }

    /// Whether it may write to that region.
    pub(crate) fn may_write(&self, region: &str, kind: RegionKind) -> bool {
        let allowed = match kind {
            RegionKind::Level => &self.writes_to,
            RegionKind::Premise => &self.sets,
        };
        allowed.as_ref().is_none_or(|allowed| allowed.contains(region))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_is_read_as_it_was_written(
            region in "[^\0]{1,40}",
            version in proptest::option::of(1_u64..),
            writer in proptest::option::of("[^\0]{1,40}"),
            text in ".{0,80}",
        ) {
            let content = Content::of(&text).unwrap();
            let value = entry(&region, version, writer.as_deref(), &content);
            let stored = Entry { number: 7, at: Timestamp::from_micros(9), value };
            let change = change(&stored).unwrap();
            prop_assert_eq!(&*change.region, &*region);
            prop_assert_eq!(change.version, version);
            prop_assert_eq!(change.writer.as_deref(), writer.as_deref());
            prop_assert_eq!(&change.content, &content);
            let contribution = contribution(&stored).unwrap();
            prop_assert_eq!(contribution.content, content);
            prop_assert_eq!(contribution.writer, change.writer);
        }

        #[test]
        fn damaged_values_are_errors_and_no_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let value = Value::new(FORMAT, bytes);
            let stored = Entry { number: 1, at: Timestamp::EPOCH, value: value.clone() };
            let _ = change(&stored);
            let _ = contribution(&stored);
            let _ = key_record(&value);
            let _ = Cursors::read(&value);
            let _ = Owed::read(&value);
            let _ = Merged::read(&value);
            let _ = RunState::read(&value);
        }

        #[test]
        fn rows_are_read_as_they_were_written(region in "[^\0]{1,20}", hearers in proptest::collection::vec("[^\0]{1,20}", 0..4)) {
            let due = Timestamp::from_micros(42);
            let part = owed_part(&region, hearers.iter().map(String::as_str));
            let value = Value::with_leading_instant(FORMAT, due, &part);
            prop_assert_eq!(Owed::read(&value).unwrap(), Owed { due, region, hearers: hearers.clone() });
            let merged = Merged { due, through: 7, regions: hearers.into_iter().collect() };
            prop_assert_eq!(Merged::read(&merged.value()).unwrap(), merged);
        }
    }
}
