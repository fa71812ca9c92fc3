//! What is promised of logs.

use super::*;
use crate::store::LogHead;

pub(super) async fn a_log_counts_from_one(bench: Bench) {
    let log = bench.log("log");
    assert_eq!(bench.store.log_head(&log).await.unwrap(), LogHead::NONE);
    assert_eq!(bench.entries(&log).await, []);
    let mut batch = Batch::new();
    let one = batch.append(&log, text("a"));
    let two = batch.append(&log, text("b"));
    let committed = bench.commit(batch).await;
    assert_eq!((committed.number(one), committed.number(two)), (1, 2));
    assert_eq!(bench.write(|batch| _ = batch.append(&log, text("c"))).await.numbers, [3]);
    let entries = bench.entries(&log).await;
    assert_eq!(numbers(&entries), [1, 2, 3]);
    assert_eq!((entries[0].at, entries[1].at), (committed.instant, committed.instant));
    assert_eq!(as_text(&entries[2].value), "c");
    let head = bench.store.log_head(&log).await.unwrap();
    assert_eq!(head, LogHead { number: 3, first: 1, at: Some(entries[2].at) });
}

async fn filled(bench: &Bench, name: &str, count: usize) -> LogName {
    let log = bench.log(name);
    let mut batch = Batch::new();
    for number in 1..=count {
        batch.append(&log, text(&number.to_string()));
    }
    bench.commit(batch).await;
    log
}

pub(super) async fn a_log_is_read_forward_and_backward(bench: Bench) {
    let log = filled(&bench, "log", 5).await;
    let forward = |after, limit| {
        let (store, log) = (bench.store.clone(), log.clone());
        async move { numbers(&store.log(&log, after, limit).await.unwrap()) }
    };
    let backward = |before, limit| {
        let (store, log) = (bench.store.clone(), log.clone());
        async move { numbers(&store.log_backward(&log, before, limit).await.unwrap()) }
    };
    assert_eq!(forward(0, 2).await, [1, 2]);
    assert_eq!(forward(2, 2).await, [3, 4]);
    assert_eq!(forward(4, 2).await, [5]);
    assert_eq!(forward(5, 2).await, [0_u64; 0]);
    assert_eq!(backward(None, 2).await, [5, 4]);
    assert_eq!(backward(Some(4), 2).await, [3, 2]);
    assert_eq!(backward(Some(2), 9).await, [1]);
    assert_eq!(backward(Some(1), 9).await, [0_u64; 0]);
    assert_eq!(backward(Some(0), 9).await, [0_u64; 0]);
    assert_eq!(backward(Some(99), 1).await, [5]);
    assert_eq!(forward(0, 0).await, [0_u64; 0]);
}

pub(super) async fn entries_are_read_by_number(bench: Bench) {
    let log = filled(&bench, "log", 5).await;
    let entries = bench.store.log_entries(&log, &[4, 99, 1, 0, 4, u64::MAX]).await.unwrap();
    assert_eq!(numbers(&entries), [4, 1, 4]);
    assert_eq!(as_text(&entries[0].value), "4");
    assert_eq!(bench.store.log_entries(&log, &[]).await.unwrap(), []);
    assert_eq!(bench.store.log_entries(&bench.log("none"), &[1]).await.unwrap(), []);
}

pub(super) async fn a_trimmed_log_goes_on_counting(bench: Bench) {
    let log = filled(&bench, "log", 5).await;
    bench.write(|batch| _ = batch.trim(log.clone(), 3)).await;
    assert_eq!(numbers(&bench.entries(&log).await), [4, 5]);
    assert_eq!(bench.store.log_head(&log).await.unwrap().first, 4);
    assert_eq!(numbers(&bench.store.log_backward(&log, None, 9).await.unwrap()), [5, 4]);
    assert_eq!(numbers(&bench.store.log_entries(&log, &[3, 4]).await.unwrap()), [4]);
    // Back is no direction to trim in, and beyond the end is the end.
    bench.write(|batch| _ = batch.trim(log.clone(), 1)).await;
    assert_eq!(bench.store.log_head(&log).await.unwrap().first, 4);
    bench.write(|batch| _ = batch.trim(log.clone(), u64::MAX)).await;
    let head = bench.store.log_head(&log).await.unwrap();
    assert_eq!((head.number, head.first), (5, 6));
    assert_eq!(bench.entries(&log).await, []);
    assert_eq!(bench.write(|batch| _ = batch.append(&log, text("6"))).await.numbers, [6]);
    assert_eq!(numbers(&bench.entries(&log).await), [6]);
    // A batch that appends and trims what it appended.
    bench
        .write(|batch| {
            batch.append(&log, text("7"));
            batch.trim(log.clone(), 7);
            batch.append(&log, text("8"));
        })
        .await;
    assert_eq!(numbers(&bench.entries(&log).await), [8]);
    bench.write(|batch| _ = batch.trim(bench.log("none"), 3)).await;
    assert_eq!(bench.store.log_head(&bench.log("none")).await.unwrap(), LogHead::NONE);
}

pub(super) async fn a_deleted_log_begins_anew(bench: Bench) {
    let log = filled(&bench, "log", 3).await;
    let other = filled(&bench, "other", 2).await;
    bench.write(|batch| _ = batch.delete_log(log.clone()).delete_log(bench.log("none"))).await;
    assert_eq!(bench.store.log_head(&log).await.unwrap(), LogHead::NONE);
    assert_eq!(bench.entries(&log).await, []);
    assert_eq!(bench.store.logs(&bench.key("log"), None, 9).await.unwrap(), []);
    assert_eq!(bench.write(|batch| _ = batch.append(&log, text("new"))).await.numbers, [1]);
    assert_eq!(as_text(&bench.entries(&log).await[0].value), "new");
    assert_eq!(numbers(&bench.entries(&other).await), [1, 2]);
}

pub(super) async fn logs_are_listed_by_prefix(bench: Bench) {
    let prefix = bench.key("run");
    let log = |name: &str| LogName::new(prefix.clone().text(name));
    let mut batch = Batch::new();
    for name in ["b", "a", "c"] {
        batch.append(&log(name), text("x"));
    }
    batch.append(&log("b"), text("x"));
    batch.append(&bench.log("runs"), text("x"));
    bench.commit(batch).await;
    let listed = bench.store.logs(&prefix, None, 9).await.unwrap();
    let heads: Vec<_> = listed.iter().map(|(name, head)| (name.clone(), head.number)).collect();
    assert_eq!(heads, [(log("a"), 1), (log("b"), 2), (log("c"), 1)]);
    let page = bench.store.logs(&prefix, Some(&log("a")), 1).await.unwrap();
    assert_eq!(page, listed[1..2]);
    assert_eq!(bench.store.logs(&prefix, Some(&log("c")), 9).await.unwrap(), []);
    // A log without entries is still there.
    bench.write(|batch| _ = batch.trim(log("a"), 1)).await;
    assert_eq!(bench.store.logs(&prefix, None, 9).await.unwrap().len(), 3);
}

pub(super) async fn instants_of_a_log_never_go_back(bench: Bench) {
    let (one, two) = (bench.log("one"), bench.log("two"));
    let mut last = bench.store.now().await.unwrap();
    for round in 0..20 {
        let committed = bench
            .write(|batch| {
                batch.append(&one, text("x"));
                if round % 2 == 0 {
                    batch.append(&two, text("x"));
                }
            })
            .await;
        assert!(committed.instant >= last);
        last = committed.instant;
    }
    let entries = bench.entries(&one).await;
    assert!(entries.is_sorted_by_key(|entry| entry.at));
    assert_eq!(entries[19].at, last);
    assert!(bench.store.now().await.unwrap() >= entries[0].at);
}

pub(super) async fn a_log_and_a_cell_of_one_key_are_two_things(bench: Bench) {
    let (log, key) = (bench.log("same"), bench.key("same"));
    bench
        .write(|batch| {
            batch.append(&log, text("entry"));
            batch.put(&key, text("cell"));
        })
        .await;
    bench.write(|batch| _ = batch.delete_prefix(key.clone())).await;
    assert_eq!(bench.cell(&key).await, None);
    assert_eq!(bench.entries(&log).await.len(), 1);
    bench.write(|batch| _ = batch.put(&key, text("cell")).delete_log(log.clone())).await;
    assert_eq!(bench.entries(&log).await, []);
    assert!(bench.cell(&key).await.is_some());
}

pub(super) async fn large_numbers_are_no_trouble(bench: Bench) {
    let log = filled(&bench, "log", 2).await;
    assert_eq!(bench.store.log(&log, u64::MAX, 9).await.unwrap(), []);
    assert_eq!(numbers(&bench.store.log_backward(&log, Some(u64::MAX), 9).await.unwrap()), [2, 1]);
    assert_eq!(numbers(&bench.store.log(&log, 0, usize::MAX).await.unwrap()), [1, 2]);
    let prefix = bench.key("cells");
    bench.write(|batch| _ = batch.put(prefix.clone().u64(u64::MAX), text("x"))).await;
    assert_eq!(bench.texts(&prefix, None, Direction::Forward, usize::MAX).await, ["x"]);
    let (index, _) =
        condition(bench.refused(|batch| _ = batch.require(crate::Condition::head(log.clone(), u64::MAX))).await);
    assert_eq!(index, 0);
}
