//! Exchanges that are kept in the store: durable ones under their run's id, and those that go on after a suspension.
//!
//! | what | place | written |
//! |---|---|---|
//! | what it is bound to | cell `flow-kept`, id | once, when it begins |
//! | what its steps did | cells `flow-kept`, id, `step`, place | as they end |
//! | its answer | cell `flow-kept`, id, `answer` | when it is whole |
//! | who works on it | lease `flow-lease`, id | by whoever does |
//!
//! A large value is a blob, and the cell names it.

use crate::error::{FlowError, Result};
use bytes::Bytes;
use placet_core::{Digest, RunId, TurnEvent};
use placet_runtime::Runtime;
use placet_store::lease::Lease;
use placet_store::{Batch, BlobId, Condition, Direction, Key, StoreError, Value as StoredValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const FORMAT: u16 = 1;

/// How long a claim on a kept exchange holds unless it is renewed.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// From how many bytes on a value is a blob.
const LARGE: usize = 1 << 20;

/// What a kept exchange is bound to: another one of the same id must be the same in all of this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    pub(crate) principal: String,
    pub(crate) flow: String,
    pub(crate) signature: String,
    pub(crate) request: String,
}

impl Binding {
    /// What differs, in a word.
    fn difference(&self, other: &Binding) -> Option<&'static str> {
        match () {
            () if self.principal != other.principal => Some("principal"),
            () if self.flow != other.flow || self.signature != other.signature => Some("flow"),
            () if self.request != other.request => Some("request"),
            () => None,
        }
    }
}

/// A kept exchange that this process works on.
#[derive(Clone)]
pub(crate) struct Kept {
    runtime: Runtime,
    key: Key,
    lease: Arc<Lease>,
}

/// How a kept exchange stands when somebody comes to it.
pub(crate) enum Standing {
    /// It is ours, with what its steps did so far.
    Ours(Kept, BTreeMap<String, Value>),
    /// It has its answer.
    Answered(Vec<TurnEvent>),
    /// Somebody else works on it.
    Busy,
}

pub(crate) fn key_of(runtime: &Runtime, id: &str) -> Key {
    Key::new(runtime.tenant()).text("flow-kept").text(id)
}

impl Kept {
    /// Comes to the exchange of that id.
    ///
    /// # Errors
    /// Inside, a word on what it is bound to otherwise.
    pub(crate) async fn come(
        runtime: &Runtime,
        id: &str,
        binding: &Binding,
        owner: &str,
    ) -> Result<std::result::Result<Standing, &'static str>> {
        let (key, store) = (key_of(runtime, id), runtime.store());
        if let Some(cell) = store.cell(&key).await? {
            let known: Binding = read(runtime, &cell.value).await?;
            if let Some(what) = known.difference(binding) {
                return Ok(Err(what));
            }
        }
        if let Some(cell) = store.cell(&key.clone().text("answer")).await? {
            return Ok(Ok(Standing::Answered(read(runtime, &cell.value).await?)));
        }
        let lease_key = Key::new(runtime.tenant()).text("flow-lease").text(id);
        let Ok(lease) = Lease::take(&**store, &lease_key, owner, LEASE).await? else { return Ok(Ok(Standing::Busy)) };
        let kept = Kept { runtime: runtime.clone(), key: key.clone(), lease: Arc::new(lease) };
        // Between the look and the lease it may have been bound, or answered.
        if let Some(cell) = store.cell(&key.clone().text("answer")).await? {
            kept.let_go().await;
            return Ok(Ok(Standing::Answered(read(runtime, &cell.value).await?)));
        }
        match store.cell(&key).await? {
            Some(cell) => {
                let known: Binding = read(runtime, &cell.value).await?;
                if let Some(what) = known.difference(binding) {
                    kept.let_go().await;
                    return Ok(Err(what));
                }
            }
            None => {
                let mut batch = Batch::new();
                batch.require(kept.lease.fence()).require(Condition::absent(key.clone()));
                batch.put(key.clone(), StoredValue::json(FORMAT, binding)?);
                store.commit(batch).await?;
            }
        }
        let steps = kept.steps().await?;
        Ok(Ok(Standing::Ours(kept, steps)))
    }

    async fn steps(&self) -> Result<BTreeMap<String, Value>> {
        let prefix = self.key.clone().text("step");
        let (mut steps, mut beyond) = (BTreeMap::new(), None);
        loop {
            let cells = self.runtime.store().cells(&prefix, beyond.as_ref(), Direction::Forward, 500).await?;
            for cell in &cells {
                let Some(placet_store::KeyPart::Text(place)) = cell.key.parts()?.pop() else { continue };
                steps.insert(place, read(&self.runtime, &cell.value).await?);
            }
            match cells.last() {
                Some(last) if cells.len() == 500 => beyond = Some(last.key.clone()),
                _ => return Ok(steps),
            }
        }
    }

    /// Keeps what a step did.
    pub(crate) async fn put_step(&self, place: &str, did: &Value) -> Result<()> {
        self.put(self.key.clone().text("step").text(place), did).await
    }

    /// Keeps the answer.
    pub(crate) async fn put_answer(&self, events: &[TurnEvent]) -> Result<()> {
        self.put(self.key.clone().text("answer"), &events).await
    }

    async fn put(&self, key: Key, value: &(impl Serialize + ?Sized)) -> Result<()> {
        let mut batch = Batch::new();
        batch.require(self.lease.fence()).put(key, form(&self.runtime, value).await?);
        match self.runtime.store().commit(batch).await {
            Ok(_) => Ok(()),
            Err(StoreError::Condition { .. }) => {
                Err(FlowError::internal("another process has taken the exchange over"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps the claim; gives whether it is still ours.
    pub(crate) async fn renew(&self) -> bool {
        let mut batch = Batch::new();
        self.lease.renew(&mut batch, LEASE);
        !matches!(self.runtime.store().commit(batch).await, Err(StoreError::Condition { .. }))
    }

    /// Lets go, so that somebody else can go on at once.
    pub(crate) async fn let_go(&self) {
        let mut batch = Batch::new();
        self.lease.release(&mut batch);
        if let Err(error) = self.runtime.store().commit(batch).await {
            tracing::warn!(%error, "the claim on an exchange could not be given back; it will lapse");
        }
    }
}

/// Removes everything that is kept of an exchange.
pub(crate) fn forget(batch: &mut Batch, runtime: &Runtime, id: &str) {
    batch.delete_prefix(key_of(runtime, id));
}

#[derive(Serialize, Deserialize)]
struct Elsewhere {
    blob: String,
}

/// The stored form of a value; a large one is put away as a blob first.
pub(crate) async fn form(runtime: &Runtime, value: &(impl Serialize + ?Sized)) -> Result<StoredValue> {
    let value = StoredValue::json(FORMAT, value)?;
    if value.bytes.len() < LARGE {
        return Ok(value);
    }
    let id = runtime.store().put_blob(runtime.tenant(), Bytes::clone(&value.bytes)).await?;
    Ok(StoredValue::json(FORMAT, &Elsewhere { blob: id.to_string() })?)
}

/// What a stored form stands for.
pub(crate) async fn read<T: DeserializeOwned>(runtime: &Runtime, value: &StoredValue) -> Result<T> {
    let Ok(elsewhere) = value.from_json::<Elsewhere>(FORMAT) else { return Ok(value.from_json(FORMAT)?) };
    let id = Digest::parse(&elsewhere.blob).map(|digest| BlobId::from_bytes(bytes_of(&digest)));
    let bytes = match id {
        Some(id) => runtime.store().blob(runtime.tenant(), &id).await?,
        None => None,
    };
    let bytes = bytes.ok_or_else(|| FlowError::internal("a large value of an exchange is gone"))?;
    Ok(StoredValue::new(FORMAT, bytes).from_json(FORMAT)?)
}

fn bytes_of(digest: &Digest) -> [u8; 32] {
    let hex = digest.to_hex();
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0);
        *byte = digit(pair[0]) * 16 + digit(pair[1]);
    }
    bytes
}

/// The id of a run that follows from where it is started, so that whoever takes an exchange up anew finds it.
#[expect(clippy::expect_used, reason = "a prefix and hexadecimal digits are always an id")]
pub(crate) fn derived_run(base: &str, place: &str, part: usize) -> RunId {
    let hex = Digest::of(format!("{base}\n{place}\n{part}").as_bytes()).to_hex();
    RunId::parse(&format!("run_{}", &hex[..32])).expect("an id")
}
