#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::key::Tenant;

fn key(name: &str) -> Key {
    Key::new(&Tenant::new("t")).text(name)
}

fn put(key: impl Into<PutKey>) -> Batch {
    let mut batch = Batch::new();
    batch.put(key, Value::new(1, "x"));
    batch
}

#[test]
fn what_is_only_read_is_locked_shared() {
    let mut batch = Batch::new();
    batch.require(Condition::absent(key("read")));
    batch.require(Condition::absent(key("written")));
    batch.require(Condition::head(key("read").into(), 0));
    batch.put(key("written"), Value::new(1, "x"));
    let number = batch.append(&key("log").into(), Value::new(1, "x"));
    batch.put(key("filled").filled().number(number), Value::new(1, "x"));
    batch.delete_prefix(key("prefix"));
    let named = Named::of([&batch]);
    let (locks, exclusive) = named.locks("s");
    assert!(locks.windows(2).all(|pair| pair[0] < pair[1]), "one order for all");
    let is_exclusive = |lock: i64| exclusive[locks.iter().position(|other| *other == lock).unwrap()];
    assert!(!is_exclusive(lock_of_cell("s", &key("read"))));
    assert!(is_exclusive(lock_of_cell("s", &key("written"))));
    assert!(!is_exclusive(lock_of_log("s", &key("read").into())));
    assert!(is_exclusive(lock_of_log("s", &key("log").into())));
    assert_eq!(locks.len(), 4);
    assert_ne!(lock_of_cell("s", &key("read")), lock_of_cell("other", &key("read")));
}

#[test]
fn values_are_read_only_where_they_matter() {
    let mut batch = put(key("put"));
    batch.add(key("added"), 1, None);
    batch.require(Condition::not_passed(key("looked at")));
    let named = Named::of([&batch]);
    let wanted = |name: &str| named.cells[&key(name)].value;
    assert!(!wanted("put") && wanted("added") && wanted("looked at"));
}

#[test]
fn a_filled_key_that_nobody_read_counts_up_in_the_tables() {
    let log: LogName = key("log").into();
    let mut one = Batch::new();
    one.append(&log, Value::new(1, "x"));
    one.put(key("filled").filled().now(), Value::new(1, "1"));
    let two = one.clone();
    let mut group = Group::new(Read { now: Timestamp::from_micros(7), ..Read::default() });
    assert_eq!(group.add(&one).unwrap().numbers, [1]);
    assert_eq!(group.add(&two).unwrap().numbers, [2]);
    let filled = key("filled").instant(Timestamp::from_micros(7));
    assert_eq!(group.cells[&filled], Written::Counted(2, Value::new(1, "1")));

    let mut three = Batch::new();
    three.delete_prefix(key("filled"));
    let four = one.clone();
    group.add(&three).unwrap();
    assert!(group.cells.is_empty());
    group.add(&four).unwrap();
    // What was there is gone when this is written: it counts from nothing.
    assert_eq!(group.cells[&filled], Written::Counted(1, Value::new(1, "1")));
    assert_eq!(group.logs[&log].entries.len(), 3);
}

#[test]
fn a_batch_that_fails_leaves_nothing_behind() {
    let mut bad = put(key("a"));
    bad.append(&key("log").into(), Value::new(1, "x"));
    bad.require(Condition::version(key("b"), 3));
    let good = put(key("b"));
    let named = Named::of([&bad, &good]);
    let cells = named.cells.keys().map(|key| (*key, None)).collect();
    let mut group = Group::new(Read { cells, ..Read::default() });
    assert!(group.add(&bad).unwrap_err().is_refusal());
    assert!(group.is_empty() && group.cells.is_empty() && group.logs.is_empty());
    group.add(&good).unwrap();
    assert!(!group.writes(0) && group.writes(1) && !group.is_empty());
    assert_eq!(group.cells.len(), 1);
}

#[test]
fn a_filled_key_that_another_batch_names_counts_up_from_what_was_read() {
    let filled = key("filled").instant(Timestamp::from_micros(7));
    let mut fills = Batch::new();
    fills.put(key("filled").filled().now(), Value::new(1, "2"));
    let mut names = Batch::new();
    names.require(Condition::version(filled.clone(), 5));
    let held = Held { version: 4, value: Value::new(1, "1") };
    let cells = [(&filled, Some(held))].into();
    let mut group = Group::new(Read { now: Timestamp::from_micros(7), cells, ..Read::default() });
    group.add(&fills).unwrap();
    group.add(&names).unwrap();
    assert_eq!(group.cells[&filled], Written::Held(Held { version: 5, value: Value::new(1, "2") }));
}
