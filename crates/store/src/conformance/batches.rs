//! What is promised of a commit.

use super::*;
use crate::batch::{Condition, MAX_BATCH_OPERATIONS};
use crate::store::LogHead;
use crate::value::ValueForm;
use placet_core::Timestamp;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

pub(super) async fn an_empty_batch_gives_the_instant(bench: Bench) {
    let before = bench.store.now().await.unwrap();
    let committed = bench.commit(Batch::new()).await;
    assert!(committed.instant >= before);
    assert_eq!((committed.numbers, committed.sums), (vec![], vec![]));
}

pub(super) async fn the_first_condition_that_fails_is_named_with_what_it_found(bench: Bench) {
    let (there, absent, log) = (bench.key("there"), bench.key("absent"), bench.log("log"));
    bench
        .write(|batch| {
            batch.put(&there, text("a")).put(&there, text("b"));
            batch.append(&log, text("x"));
        })
        .await;
    let held = Cell { key: there.clone(), version: 2, value: text("b") };
    let right = || {
        [
            Condition::version(there.clone(), 2),
            Condition::absent(absent.clone()),
            Condition::version(absent.clone(), 0),
            Condition::head(log.clone(), 1),
            Condition::head(bench.log("none"), 0),
        ]
    };
    bench.write(|batch| right().into_iter().for_each(|condition| _ = batch.require(condition))).await;
    let head = bench.store.log_head(&log).await.unwrap();
    let wrong = [
        (Condition::version(there.clone(), 1), Found::Cell(Some(held.clone()))),
        (Condition::version(there.clone(), 3), Found::Cell(Some(held.clone()))),
        (Condition::version(absent.clone(), 1), Found::Cell(None)),
        (Condition::absent(there.clone()), Found::Cell(Some(held.clone()))),
        (Condition::head(log.clone(), 0), Found::Head(head)),
        (Condition::head(log.clone(), 2), Found::Head(head)),
        (Condition::head(bench.log("none"), 1), Found::Head(LogHead::NONE)),
        (Condition::not_passed(absent.clone()), Found::Cell(None)),
    ];
    for (wrong_one, found) in wrong {
        let refused = bench
            .refused(|batch| {
                right().into_iter().for_each(|condition| _ = batch.require(condition));
                batch.put(bench.key("never"), text("x"));
                batch.require(wrong_one.clone()).require(Condition::version(there.clone(), 77));
            })
            .await;
        assert_eq!(condition(refused), (5, found), "{wrong_one:?}");
    }
    assert_eq!(bench.cell(&bench.key("never")).await, None);
}

pub(super) async fn a_failed_batch_writes_nothing(bench: Bench) {
    let (key, counter, log) = (bench.key("cell"), bench.key("counter"), bench.log("log"));
    bench
        .write(|batch| {
            batch.put(&key, text("kept")).put(key.clone().u64(1), text("kept too"));
            batch.append(&log, text("kept"));
            batch.add(counter.clone(), 1, None);
        })
        .await;
    let seen = || async {
        let cells = bench.store.cells(&Key::new(&bench.tenant()), None, Direction::Forward, 99).await.unwrap();
        (cells, bench.entries(&log).await, bench.store.log_head(&log).await.unwrap())
    };
    let before = seen().await;
    bench
        .refused(|batch| {
            let number = batch.append(&log, text("x"));
            batch.append(&bench.log("new"), text("x"));
            batch.put(&key, text("x")).put(bench.key("new"), text("x"));
            batch.put(bench.key("new").filled().number(number), text("x"));
            batch.add(counter.clone(), 1, None);
            batch.delete_prefix(key.clone()).trim(log.clone(), 1).delete_log(log.clone());
            batch.require(Condition::absent(counter.clone()));
        })
        .await;
    assert_eq!(seen().await, before);
    assert_eq!(bench.store.log_head(&bench.log("new")).await.unwrap(), LogHead::NONE);
    // The number of the failed append was not used up.
    assert_eq!(bench.write(|batch| _ = batch.append(&log, text("next"))).await.numbers, [2]);
}

pub(super) async fn conditions_see_earlier_writes_of_their_batch(bench: Bench) {
    let (key, log) = (bench.key("cell"), bench.log("log"));
    bench
        .write(|batch| {
            batch.require(Condition::absent(key.clone())).require(Condition::head(log.clone(), 0));
            batch.put(&key, text("a")).require(Condition::version(key.clone(), 1));
            batch.append(&log, text("x"));
            batch.require(Condition::head(log.clone(), 1));
            batch.delete_prefix(bench.key("cell")).require(Condition::absent(key.clone()));
            batch.put(&key, text("b")).put(&key, text("c")).require(Condition::version(key.clone(), 2));
            batch.delete_cell(key.clone()).require(Condition::absent(key.clone()));
            batch.put(&key, text("d"));
        })
        .await;
    assert_eq!(bench.cell(&key).await, Some(Cell { key: key.clone(), version: 1, value: text("d") }));
    let (index, found) = condition(
        bench.refused(|batch| _ = batch.put(&key, text("e")).require(Condition::version(key.clone(), 1))).await,
    );
    assert_eq!(index, 0);
    assert_eq!(found, Found::Cell(Some(Cell { key, version: 2, value: text("e") })));
}

pub(super) async fn numbers_fill_keys_and_values(bench: Bench) {
    let (log, other) = (bench.log("log"), bench.log("other"));
    bench.write(|batch| _ = batch.append(&log, text("first"))).await;
    let mut batch = Batch::new();
    let two = batch.append(&log, text("second"));
    let one = batch.append(&other, ValueForm::new(1).bytes("after ").number_text(two));
    batch.put(bench.key("index").filled().number(two).text("of").number(one), ValueForm::new(1).number_text(one));
    batch.put(bench.key("key"), ValueForm::new(1).number(two));
    let committed = bench.commit(batch).await;
    assert_eq!((committed.number(two), committed.number(one)), (2, 1));
    let cell = bench.cell(&bench.key("index").u64(2).text("of").u64(1)).await.unwrap();
    assert_eq!((cell.version, as_text(&cell.value)), (1, "1".to_owned()));
    assert_eq!(bench.cell(&bench.key("key")).await.unwrap().value.bytes.as_ref(), 2_u64.to_be_bytes());
    assert_eq!(as_text(&bench.entries(&other).await[0].value), "after 2");
}

pub(super) async fn instants_fill_keys_and_values(bench: Bench) {
    let mut batch = Batch::new();
    batch.put(bench.key("now").filled().now(), ValueForm::new(1).now());
    batch.put(bench.key("later").filled().now_plus(HOUR).text("x"), ValueForm::new(1).now_plus(HOUR));
    let log = bench.log("log");
    batch.append(&log, ValueForm::new(1).now());
    let at = bench.commit(batch).await.instant;
    let now = bench.cell(&bench.key("now").instant(at)).await.unwrap();
    assert_eq!(now.value.leading_instant(), Some(at));
    let later = bench.cell(&bench.key("later").instant(at.plus(HOUR)).text("x")).await.unwrap();
    assert_eq!(later.value.leading_instant(), Some(at.plus(HOUR)));
    let entry = &bench.entries(&log).await[0];
    assert_eq!((entry.at, entry.value.leading_instant()), (at, Some(at)));
}

pub(super) async fn an_instant_held_in_a_cell_is_not_passed(bench: Bench) {
    let (open, over, just, short) = (bench.key("open"), bench.key("over"), bench.key("just"), bench.key("short"));
    let past = Timestamp::from_millis(1);
    bench
        .write(|batch| {
            batch.put(&open, ValueForm::new(1).now_plus(HOUR).bytes("and more"));
            batch.put(&over, Value::with_leading_instant(1, past, b"and more"));
            batch.put(&just, ValueForm::new(1).now());
            batch.put(&short, text("1234567"));
        })
        .await;
    let until = bench.cell(&open).await.unwrap().value.leading_instant().unwrap();
    let committed = bench.write(|batch| _ = batch.require(Condition::not_passed(open.clone()))).await;
    assert!(committed.instant < until);
    for key in [over, just, short] {
        let refused = bench.refused(|batch| _ = batch.require(Condition::not_passed(key.clone()))).await;
        let StoreError::Condition { index: 0, found: Found::Cell(Some(cell)), at } = refused else {
            panic!("{refused}")
        };
        assert_eq!(cell.key, key);
        assert!(cell.value.leading_instant().is_none_or(|until| until <= at));
    }
}

pub(super) async fn a_filled_key_counts_its_versions(bench: Bench) {
    let log = bench.log("log");
    let key = bench.key("row").u64(1);
    let put = |batch: &mut Batch, content: &str| {
        let number = batch.append(&log, text("x"));
        batch.put(bench.key("row").filled().number(number), text(content));
    };
    bench.write(|batch| put(batch, "a")).await;
    assert_eq!(bench.cell(&key).await.unwrap().version, 1);
    // The log begins anew, so that the same key is filled in again.
    let again = |batch: &mut Batch, content: &str| {
        batch.delete_log(log.clone());
        put(batch, content);
    };
    bench.write(|batch| again(batch, "b")).await;
    assert_eq!(bench.cell(&key).await.unwrap(), Cell { key: key.clone(), version: 2, value: text("b") });
    bench
        .write(|batch| {
            again(batch, "c");
            again(batch, "d");
        })
        .await;
    assert_eq!(bench.cell(&key).await.unwrap(), Cell { key: key.clone(), version: 4, value: text("d") });
    // It may be named literally where nothing is put: in a condition, and to delete it.
    bench
        .write(|batch| {
            batch.require(Condition::version(key.clone(), 4));
            again(batch, "e");
            batch.require(Condition::version(key.clone(), 5)).delete_cell(key.clone());
            again(batch, "f");
        })
        .await;
    assert_eq!(bench.cell(&key).await.unwrap(), Cell { key: key.clone(), version: 1, value: text("f") });
    bench
        .write(|batch| {
            again(batch, "g");
            batch.delete_prefix(bench.key("row"));
            again(batch, "h");
        })
        .await;
    assert_eq!(bench.cell(&key).await.unwrap(), Cell { key, version: 1, value: text("h") });
}

pub(super) async fn a_key_is_not_filled_and_literal_at_once(bench: Bench) {
    let mut batch = Batch::new();
    let number = batch.append(&bench.log("log"), text("x"));
    batch.put(bench.key("row").filled().number(number), text("a")).put(bench.key("row").u64(1), text("b"));
    assert!(is_misuse(bench.store.commit(batch).await));
    assert_eq!(bench.entries(&bench.log("log")).await, []);
}

pub(super) async fn a_log_may_be_deleted_and_begun_in_one_batch(bench: Bench) {
    let log = bench.log("log");
    bench
        .write(|batch| {
            batch.append(&log, text("a"));
            batch.append(&log, text("b"));
        })
        .await;
    let committed = bench
        .write(|batch| {
            batch.append(&log, text("c"));
            batch.delete_log(log.clone()).require(Condition::head(log.clone(), 0));
            batch.append(&log, text("d"));
        })
        .await;
    assert_eq!(committed.numbers, [3, 1]);
    let entries = bench.entries(&log).await;
    assert_eq!((numbers(&entries), as_text(&entries[0].value)), (vec![1], "d".to_owned()));
    let fresh = bench.log("fresh");
    bench
        .write(|batch| {
            batch.append(&fresh, text("a"));
            batch.delete_log(fresh.clone());
        })
        .await;
    assert_eq!(bench.store.logs(fresh.key(), None, 9).await.unwrap(), []);
}

pub(super) async fn a_prefix_may_be_deleted_and_filled_in_one_batch(bench: Bench) {
    let prefix = bench.key("set");
    bench
        .write(|batch| _ = batch.put(prefix.clone().u64(1), text("old")).put(prefix.clone().u64(2), text("old")))
        .await;
    bench
        .write(|batch| {
            batch.put(prefix.clone().u64(3), text("lost"));
            batch.delete_prefix(prefix.clone());
            batch.put(prefix.clone().u64(2), text("new,")).put(prefix.clone().u64(4), text("new"));
            batch
                .require(Condition::absent(prefix.clone().u64(3)))
                .require(Condition::version(prefix.clone().u64(2), 1));
        })
        .await;
    assert_eq!(bench.texts(&prefix, None, Direction::Forward, 9).await.concat(), "new,new");
}

pub(super) async fn a_malformed_batch_is_refused(bench: Bench) {
    let commit = |fill: &dyn Fn(&mut Batch)| bench.store.commit(batch(fill));
    assert!(is_misuse(commit(&|batch| _ = batch.put(bench.key(&"x".repeat(2000)), text(""))).await));
    let many = |batch: &mut Batch| (0..=MAX_BATCH_OPERATIONS).for_each(|_| _ = batch.delete_cell(bench.key("x")));
    assert!(is_misuse(commit(&many).await));
    let blob = vec![0; crate::MAX_BLOB_BYTES + 1];
    assert!(is_misuse(bench.store.put_blob(&bench.tenant(), blob.into()).await));
}

pub(super) async fn a_batch_of_the_greatest_size_is_applied(bench: Bench) {
    let prefix = bench.key("many");
    let mut batch = Batch::new();
    for number in 0..1000 {
        batch.put(prefix.clone().u64(number), text(&number.to_string()));
    }
    assert_eq!(batch.len(), MAX_BATCH_OPERATIONS);
    bench.commit(batch).await;
    let texts = bench.texts(&prefix, None, Direction::Forward, 2000).await;
    assert_eq!(texts.len(), 1000);
    assert_eq!(texts[999], "999");
    bench.write(|batch| _ = batch.delete_prefix(prefix.clone())).await;
    assert_eq!(bench.texts(&prefix, None, Direction::Forward, 2000).await.len(), 0);
}
