//! Random batches against a model that is too simple to be wrong, and against the backends.

use placet_core::Timestamp;
use placet_core::env::{ManualClock, ManualHandle};
use placet_store::{
    Batch, Cell, Committed, Condition, Direction, Entry, Found, Key, LogHead, LogName, MemoryStore, SqliteOptions,
    SqliteStore, Store, StoreError, Tenant, Value, ValueForm,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A step of a batch, over few keys and logs, so that steps meet.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Version(usize, u64),
    Head(usize, u64),
    NotPassed(usize),
    Append(usize, Content),
    Put(usize, Content),
    PutFilled(usize, usize),
    Add(usize, i64, Option<i64>),
    DeleteCell(usize),
    DeletePrefix(usize),
    DeleteLog(usize),
    Trim(usize, u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Text(u8),
    Counter(i64),
    Instant(i64),
    Number(usize),
    Plus(u8),
}

/// Random batches of random steps. Without `instants`, none that depends on the clock.
pub(crate) fn batches(instants: bool) -> impl Strategy<Value = Vec<Vec<Step>>> {
    let content = move || {
        prop_oneof![
            any::<u8>().prop_map(Content::Text),
            (-3..4_i64).prop_map(Content::Counter),
            (0..3_usize).prop_map(Content::Number),
            (-20..20_i64).prop_map(move |offset| if instants { Content::Instant(offset) } else { Content::Counter(0) }),
            (0..20_u8).prop_map(move |span| if instants { Content::Plus(span) } else { Content::Text(span) }),
        ]
    };
    let (key, log, number) = (0..7_usize, 0..3_usize, 0..4_u64);
    let step = prop_oneof![
        3 => (key.clone(), number.clone()).prop_map(|(key, version)| Step::Version(key, version)),
        1 => (log.clone(), number.clone()).prop_map(|(log, number)| Step::Head(log, number)),
        1 => key.clone().prop_map(move |key| if instants { Step::NotPassed(key) } else { Step::Version(key, 0) }),
        8 => (log.clone(), content()).prop_map(|(log, content)| Step::Append(log, content)),
        8 => (key.clone(), content()).prop_map(|(key, content)| Step::Put(key, content)),
        4 => (key.clone(), 0..3_usize).prop_map(|(key, append)| Step::PutFilled(key, append)),
        3 => (key.clone(), -3..4_i64, proptest::option::of(-2..6_i64)).prop_map(|(key, add, top)| Step::Add(key, add, top)),
        2 => key.clone().prop_map(Step::DeleteCell),
        1 => key.prop_map(Step::DeletePrefix),
        1 => log.clone().prop_map(Step::DeleteLog),
        2 => (log, number).prop_map(|(log, through)| Step::Trim(log, through)),
    ];
    prop::collection::vec(prop::collection::vec(step, 0..7), 1..12)
}

fn tenant() -> Tenant {
    Tenant::new("model")
}

/// Keys of which some are prefixes of others, and some are what `PutFilled` comes to.
fn key(index: usize) -> Key {
    let root = Key::new(&tenant()).text("k");
    match index {
        0 => root,
        1 => root.u64(1),
        2 => root.u64(1).u64(1),
        3 => root.u64(2),
        4 => root.text("1"),
        5 => Key::new(&tenant()).text("j").u64(1),
        _ => Key::new(&tenant()).text("j").bytes([1]),
    }
}

fn log(index: usize) -> LogName {
    Key::new(&tenant()).text("log").u64(index as u64).into()
}

/// What a batch is evaluated against, and what it makes of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct State {
    cells: BTreeMap<Key, (u64, Value)>,
    logs: BTreeMap<LogName, (LogHead, Vec<Entry>)>,
}

impl State {
    fn head(&self, log: &LogName) -> LogHead {
        self.logs.get(log).map_or(LogHead::NONE, |(head, _)| *head)
    }

    fn found(&self, key: &Key) -> Found {
        let cell = |(version, value): &(u64, Value)| Cell { key: key.clone(), version: *version, value: value.clone() };
        Found::Cell(self.cells.get(key).map(cell))
    }

    fn put(&mut self, key: Key, value: Value) {
        let version = self.cells.get(&key).map_or(0, |(version, _)| *version) + 1;
        self.cells.insert(key, (version, value));
    }

    /// Applies a batch to a copy, and gives the copy if all went well.
    pub(crate) fn commit(&self, steps: &[Step], now: Timestamp) -> Result<(State, Committed), StoreError> {
        let mut state = self.clone();
        let appended = steps.iter().filter_map(|step| match step {
            Step::Append(name, _) => self.head(&log(*name)).at,
            _ => None,
        });
        let at = appended.fold(now, Timestamp::max);
        let mut committed = Committed { instant: at, numbers: vec![], sums: vec![] };
        let mut conditions = 0;
        for step in steps {
            state.step(step, steps, &mut committed, &mut conditions)?;
        }
        Ok((state, committed))
    }

    fn step(
        &mut self,
        step: &Step,
        steps: &[Step],
        committed: &mut Committed,
        conditions: &mut usize,
    ) -> Result<(), StoreError> {
        let at = committed.instant;
        let mut require = |holds: bool, found: Found| {
            *conditions += 1;
            if holds { Ok(()) } else { Err(StoreError::Condition { index: *conditions - 1, found, at }) }
        };
        match step {
            Step::Version(index, version) => {
                let held = self.cells.get(&key(*index)).map_or(0, |(version, _)| *version);
                require(held == *version, self.found(&key(*index)))?;
            }
            Step::Head(index, number) => {
                let head = self.head(&log(*index));
                require(head.number == *number, Found::Head(head))?;
            }
            Step::NotPassed(index) => {
                let until = self.cells.get(&key(*index)).and_then(|(_, value)| value.leading_instant());
                require(until.is_some_and(|until| at < until), self.found(&key(*index)))?;
            }
            Step::Append(index, content) => {
                let value = content.value(&committed.numbers, at);
                let (head, entries) = self.logs.entry(log(*index)).or_insert((LogHead::NONE, vec![]));
                *head = LogHead { number: head.number + 1, at: Some(at), ..*head };
                entries.push(Entry { number: head.number, at, value });
                committed.numbers.push(head.number);
            }
            Step::Put(index, content) => self.put(key(*index), content.value(&committed.numbers, at)),
            Step::PutFilled(index, append) => {
                let Some(number) = committed.numbers.get(*append) else { return Ok(()) };
                let filled = key(*index).u64(*number);
                let literal = |step: &Step| matches!(step, Step::Put(i, _) | Step::Add(i, _, _) if key(*i) == filled);
                if steps.iter().any(literal) {
                    let problem = format!(
                        "the key {filled} is filled in by this batch and written literally too: put it in one way only"
                    );
                    return Err(StoreError::Misuse { problem });
                }
                self.put(filled, Value::new(1, "filled"));
            }
            Step::Add(index, delta, ceiling) => {
                let key = key(*index);
                let before = match self.cells.get(&key) {
                    None => 0,
                    Some((_, value)) => value.as_counter().ok_or_else(|| StoreError::NotACounter {
                        key: key.clone(),
                        problem: "its value is something else".to_owned(),
                    })?,
                };
                let sum = before + delta;
                if let Some(ceiling) = ceiling.filter(|ceiling| sum > *ceiling) {
                    return Err(StoreError::Ceiling { index: committed.sums.len(), sum, ceiling });
                }
                committed.sums.push(sum);
                self.put(key, Value::counter(sum));
            }
            Step::DeleteCell(index) => _ = self.cells.remove(&key(*index)),
            Step::DeletePrefix(index) => self.cells.retain(|held, _| !held.starts_with(&key(*index))),
            Step::DeleteLog(index) => _ = self.logs.remove(&log(*index)),
            Step::Trim(index, through) => {
                if let Some((head, entries)) = self.logs.get_mut(&log(*index)) {
                    entries.retain(|entry| entry.number > *through);
                    head.first = head.first.max(through.saturating_add(1).min(head.number + 1));
                }
            }
        }
        Ok(())
    }

    /// Everything that a store shows.
    pub(crate) async fn of(store: &dyn Store) -> State {
        let whole = Key::new(&tenant());
        let mut state = State::default();
        for cell in store.cells(&whole, None, Direction::Forward, 1000).await.unwrap() {
            state.cells.insert(cell.key, (cell.version, cell.value));
        }
        for (name, head) in store.logs(&whole, None, 1000).await.unwrap() {
            assert_eq!(store.log_head(&name).await.unwrap(), head);
            let entries = store.log(&name, 0, 1000).await.unwrap();
            let mut backward = store.log_backward(&name, None, 1000).await.unwrap();
            backward.reverse();
            assert_eq!(entries, backward);
            state.logs.insert(name, (head, entries));
        }
        state
    }

    /// Without instants, for a store whose clock is not ours.
    pub(crate) fn without_instants(mut self) -> State {
        for (head, entries) in self.logs.values_mut() {
            head.at = head.at.map(|_| Timestamp::EPOCH);
            entries.iter_mut().for_each(|entry| entry.at = Timestamp::EPOCH);
        }
        self
    }
}

impl Content {
    fn value(&self, numbers: &[u64], at: Timestamp) -> Value {
        match self {
            Content::Text(byte) => Value::new(1, vec![*byte]),
            Content::Counter(sum) => Value::counter(*sum),
            Content::Instant(offset) => Value::with_leading_instant(2, Timestamp::from_micros(1000 + offset), b"x"),
            Content::Number(append) => match numbers.get(*append) {
                Some(number) => Value::new(3, [b"n".as_slice(), &number.to_be_bytes()].concat()),
                None => Value::new(3, ""),
            },
            Content::Plus(span) => Value::with_leading_instant(4, at.plus(Duration::from_micros((*span).into())), b""),
        }
    }

    fn form(&self, appends: &[placet_store::AppendRef]) -> ValueForm {
        match self {
            Content::Text(_) | Content::Counter(_) | Content::Instant(_) => self.value(&[], Timestamp::EPOCH).into(),
            Content::Number(append) => match appends.get(*append) {
                Some(append) => ValueForm::new(3).bytes("n").number(*append),
                None => ValueForm::new(3),
            },
            Content::Plus(span) => ValueForm::new(4).now_plus(Duration::from_micros((*span).into())),
        }
    }
}

/// The batch of some steps.
pub(crate) fn batch(steps: &[Step]) -> Batch {
    let mut batch = Batch::new();
    let mut appends = Vec::new();
    for step in steps {
        match step {
            Step::Version(index, version) => _ = batch.require(Condition::version(key(*index), *version)),
            Step::Head(index, number) => _ = batch.require(Condition::head(log(*index), *number)),
            Step::NotPassed(index) => _ = batch.require(Condition::not_passed(key(*index))),
            Step::Append(index, content) => {
                let form = content.form(&appends);
                appends.push(batch.append(&log(*index), form));
            }
            Step::Put(index, content) => _ = batch.put(key(*index), content.form(&appends)),
            Step::PutFilled(index, append) => {
                if let Some(append) = appends.get(*append) {
                    batch.put(key(*index).filled().number(*append), Value::new(1, "filled"));
                }
            }
            Step::Add(index, delta, ceiling) => _ = batch.add(key(*index), *delta, *ceiling),
            Step::DeleteCell(index) => _ = batch.delete_cell(key(*index)),
            Step::DeletePrefix(index) => _ = batch.delete_prefix(key(*index)),
            Step::DeleteLog(index) => _ = batch.delete_log(log(*index)),
            Step::Trim(index, through) => _ = batch.trim(log(*index), *through),
        }
    }
    batch
}

async fn agree(batches: Vec<Vec<Step>>) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(Timestamp::from_micros(1000));
    let handle = Arc::new(ManualHandle(clock.clone()));
    let memory = MemoryStore::new(handle.clone());
    let sqlite = SqliteStore::open(folder.path().join("store.sqlite"), SqliteOptions::new(handle)).unwrap();
    let mut state = State::default();
    for (index, steps) in batches.into_iter().enumerate() {
        let expected = state.commit(&steps, Timestamp::from_micros(1000 + index as i64));
        for (name, store) in [("memory", &memory as &dyn Store), ("sqlite", &sqlite)] {
            let result = store.commit(batch(&steps)).await;
            let expected = expected.as_ref().map(|(_, committed)| committed);
            assert_eq!(format!("{:?}", result.as_ref()), format!("{expected:?}"), "{name}: {steps:?}");
        }
        if let Ok((next, _)) = expected {
            state = next;
        }
        assert_eq!(State::of(&memory).await, state, "memory after {steps:?}");
        assert_eq!(State::of(&sqlite).await, state, "sqlite after {steps:?}");
        clock.advance(Duration::from_micros(1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_backend_does_what_the_model_does(batches in batches(true)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(agree(batches));
    }
}
