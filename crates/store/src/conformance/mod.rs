//! The suite that every backend passes: what the store promises, as cases to be run against one.
//!
//! All cases may share one store, also at the same time, if it is empty at first: each keeps to names of its own. A case
//! panics where the store does not do as promised.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a case fails by panicking")]

mod batches;
mod cells;
mod logs;
mod patterns;
mod together;

use crate::batch::{Batch, Committed};
use crate::error::{Found, Result, StoreError};
use crate::key::{Key, LogName, Tenant};
use crate::store::{Cell, Direction, Entry, SharedStore};
use crate::value::Value;
use placet_core::BoxFuture;

/// One promise of the store.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What is promised, as a name.
    pub name: &'static str,
    run: fn(Bench) -> BoxFuture<'static, ()>,
}

impl Case {
    /// Tries the promise on a store.
    ///
    /// # Panics
    /// When the store breaks it.
    pub async fn run(&self, store: SharedStore) {
        (self.run)(Bench { store, name: self.name }).await;
    }
}

macro_rules! cases {
    ($($module:ident: $($name:ident),+ $(,)?;)+) => {
        /// Every case.
        #[must_use]
        pub fn cases() -> Vec<Case> {
            vec![$($(Case { name: stringify!($name), run: |bench| Box::pin($module::$name(bench)) }),+),+]
        }
    };
}

cases! {
    cells:
        a_cell_counts_its_writes,
        a_deleted_cell_forgets_its_version,
        cells_are_read_in_the_order_of_their_keys,
        cells_are_paged_in_both_directions,
        a_prefix_holds_its_own_cell_and_no_neighbour,
        a_prefix_is_deleted_and_nothing_else,
        tenants_do_not_see_each_other,
        values_keep_their_bytes_and_format,
        a_counter_adds_up_to_its_ceiling,
        a_counter_refuses_what_is_none;
    logs:
        a_log_counts_from_one,
        a_log_is_read_forward_and_backward,
        entries_are_read_by_number,
        a_trimmed_log_goes_on_counting,
        a_deleted_log_begins_anew,
        logs_are_listed_by_prefix,
        instants_of_a_log_never_go_back,
        a_log_and_a_cell_of_one_key_are_two_things,
        large_numbers_are_no_trouble;
    batches:
        an_empty_batch_gives_the_instant,
        the_first_condition_that_fails_is_named_with_what_it_found,
        a_failed_batch_writes_nothing,
        conditions_see_earlier_writes_of_their_batch,
        numbers_fill_keys_and_values,
        instants_fill_keys_and_values,
        an_instant_held_in_a_cell_is_not_passed,
        a_filled_key_counts_its_versions,
        a_key_is_not_filled_and_literal_at_once,
        a_log_may_be_deleted_and_begun_in_one_batch,
        a_prefix_may_be_deleted_and_filled_in_one_batch,
        a_malformed_batch_is_refused,
        a_batch_of_the_greatest_size_is_applied;
    together:
        many_appends_get_every_number_once,
        one_of_many_wins_a_condition,
        many_adds_lose_nothing,
        a_ceiling_holds_for_many,
        what_was_acknowledged_is_seen,
        a_watch_wakes_on_growth,
        a_watch_of_what_has_grown_returns_at_once,
        blobs_are_kept_by_content;
    patterns:
        a_lease_is_held_by_one,
        a_lapsed_lease_is_taken_over_and_its_owner_fenced,
        a_released_lease_is_free_and_its_token_is_spent,
        a_renewed_lease_lasts_longer,
        what_is_due_comes_in_order_and_once,
        what_is_owed_is_settled_in_order;
}

/// A store, and the names of one case in it.
#[derive(Clone, Debug)]
pub(crate) struct Bench {
    store: SharedStore,
    name: &'static str,
}

impl Bench {
    fn tenant(&self) -> Tenant {
        Tenant::new(self.name)
    }

    fn key(&self, name: &str) -> Key {
        Key::new(&self.tenant()).text(name)
    }

    fn log(&self, name: &str) -> LogName {
        LogName::new(self.key(name))
    }

    async fn commit(&self, batch: Batch) -> Committed {
        self.store.commit(batch).await.unwrap()
    }

    /// Commits what `fill` adds to a batch.
    async fn write(&self, fill: impl FnOnce(&mut Batch)) -> Committed {
        self.commit(batch(fill)).await
    }

    /// Commits what `fill` adds to a batch, and expects that it fails.
    async fn refused(&self, fill: impl FnOnce(&mut Batch)) -> StoreError {
        self.store.commit(batch(fill)).await.expect_err("the batch is not applied")
    }

    async fn cell(&self, key: &Key) -> Option<Cell> {
        self.store.cell(key).await.unwrap()
    }

    /// The contents of cells under a prefix, as text.
    async fn texts(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Vec<String> {
        let cells = self.store.cells(prefix, beyond, direction, limit).await.unwrap();
        cells.iter().map(|cell| as_text(&cell.value)).collect()
    }

    async fn entries(&self, log: &LogName) -> Vec<Entry> {
        self.store.log(log, 0, 1000).await.unwrap()
    }
}

fn batch(fill: impl FnOnce(&mut Batch)) -> Batch {
    let mut batch = Batch::new();
    fill(&mut batch);
    batch
}

fn text(text: &str) -> Value {
    Value::new(1, text.to_owned())
}

fn as_text(value: &Value) -> String {
    String::from_utf8_lossy(&value.bytes).into_owned()
}

fn numbers(entries: &[Entry]) -> Vec<u64> {
    entries.iter().map(|entry| entry.number).collect()
}

/// The index of the condition that failed, and what it found.
fn condition(error: StoreError) -> (usize, Found) {
    match error {
        StoreError::Condition { index, found, .. } => (index, found),
        other => panic!("a condition should have failed, but: {other}"),
    }
}

fn is_misuse<T: std::fmt::Debug>(result: Result<T>) -> bool {
    matches!(result, Err(StoreError::Misuse { .. }))
}
