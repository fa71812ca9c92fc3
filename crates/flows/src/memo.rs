//! What the steps of an exchange did, by their places: so that nothing is asked or done again when it is taken up anew.

use crate::error::{FlowError, Result};
use crate::kept::Kept;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What was done so far.
#[derive(Default)]
pub(crate) struct Memo {
    steps: Mutex<BTreeMap<String, Value>>,
    kept: Option<Kept>,
    /// Set where nobody will ask what was done.
    off: bool,
    /// Whether tools of ours, or other effects, are among it.
    effects: AtomicBool,
    /// Whether any of these may have changed something.
    changes: AtomicBool,
}

impl Memo {
    pub(crate) fn new(steps: BTreeMap<String, Value>, kept: Option<Kept>) -> Self {
        Memo { steps: Mutex::new(steps), kept, ..Memo::default() }
    }

    /// One that keeps nothing: of an exchange that cannot be taken up anew.
    pub(crate) fn off() -> Self {
        Memo { off: true, ..Memo::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a step did, if it is known.
    pub(crate) fn get<T: DeserializeOwned>(&self, place: &str) -> Result<Option<T>> {
        let found = self.lock().get(place).cloned();
        found
            .map(|value| {
                serde_json::from_value(value).map_err(|error| {
                    FlowError::internal(format!("what is kept of the step {place} cannot be read: {error}"))
                })
            })
            .transpose()
    }

    /// Keeps what a step did; on disk, where the exchange is kept there.
    pub(crate) async fn put(&self, place: &str, did: &impl Serialize) -> Result<()> {
        if self.off {
            return Ok(());
        }
        let value = serde_json::to_value(did)
            .map_err(|error| FlowError::internal(format!("what the step {place} did has no stored form: {error}")))?;
        if let Some(kept) = &self.kept {
            kept.put_step(place, &value).await?;
        }
        self.lock().insert(place.to_owned(), value);
        Ok(())
    }

    /// Notes that something was done that the client's transcript does not tell.
    pub(crate) fn note_effect(&self) {
        self.effects.store(true, Ordering::Relaxed);
    }

    /// Notes that something was done that may have changed something.
    pub(crate) fn note_change(&self) {
        self.note_effect();
        self.changes.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.changes.load(Ordering::Relaxed)
    }

    pub(crate) fn has_effects(&self) -> bool {
        self.effects.load(Ordering::Relaxed)
    }

    /// Everything, to be kept with a suspended exchange.
    pub(crate) fn all(&self) -> BTreeMap<String, Value> {
        self.lock().clone()
    }
}
