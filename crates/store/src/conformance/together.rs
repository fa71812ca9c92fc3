//! What is promised to many at once.

use super::*;
use crate::batch::Condition;
use crate::store::BlobId;
use crate::value::ValueForm;
use futures_util::future::{join, join_all};

const MANY: u64 = 40;

pub(super) async fn many_appends_get_every_number_once(bench: Bench) {
    let log = bench.log("log");
    let append = |writer: u64| {
        let mut batch = Batch::new();
        let number = batch.append(&log, text(&writer.to_string()));
        batch.put(
            bench.key("index").filled().number(number),
            ValueForm::new(1).number(number).bytes(writer.to_string()),
        );
        bench.commit(batch)
    };
    let committed = join_all((0..MANY).map(append)).await;
    let mut given: Vec<u64> = committed.iter().map(|committed| committed.numbers[0]).collect();
    let entries = bench.entries(&log).await;
    for (writer, number) in given.iter().enumerate() {
        let entry = &entries[usize::try_from(*number).unwrap() - 1];
        assert_eq!((entry.number, as_text(&entry.value)), (*number, writer.to_string()));
        assert_eq!(entry.at, committed[writer].instant);
        let index = bench.cell(&bench.key("index").u64(*number)).await.unwrap();
        assert_eq!(index.value.bytes.as_ref(), [&number.to_be_bytes(), writer.to_string().as_bytes()].concat());
    }
    given.sort_unstable();
    assert!(given.into_iter().eq(1..=MANY));
    assert!(entries.is_sorted_by_key(|entry| entry.at));
}

pub(super) async fn one_of_many_wins_a_condition(bench: Bench) {
    let key = bench.key("prize");
    let claim = |writer: u64| {
        let mut batch = Batch::new();
        batch.require(Condition::absent(key.clone())).put(&key, text(&writer.to_string()));
        bench.store.commit(batch)
    };
    let claims = join_all((0..MANY).map(claim)).await;
    let winners: Vec<usize> = (0..claims.len()).filter(|writer| claims[*writer].is_ok()).collect();
    assert_eq!(winners.len(), 1);
    let held = Cell { key: key.clone(), version: 1, value: text(&winners[0].to_string()) };
    for claim in claims.into_iter().filter_map(Result::err) {
        assert_eq!(condition(claim), (0, Found::Cell(Some(held.clone()))));
    }
    assert_eq!(bench.cell(&key).await, Some(held));
}

pub(super) async fn many_adds_lose_nothing(bench: Bench) {
    let key = bench.key("sum");
    let add = |_| bench.write(|batch| _ = batch.add(key.clone(), 3, None));
    let committed = join_all((0..MANY).map(add)).await;
    let mut sums: Vec<i64> = committed.into_iter().map(|committed| committed.sums[0]).collect();
    sums.sort_unstable();
    assert!(sums.into_iter().eq((1..=40).map(|count| count * 3)));
    let cell = bench.cell(&key).await.unwrap();
    assert_eq!((cell.version, cell.value.as_counter()), (MANY, Some(120)));
}

pub(super) async fn a_ceiling_holds_for_many(bench: Bench) {
    let key = bench.key("budget");
    let add = |_| {
        let mut batch = Batch::new();
        batch.add(key.clone(), 7, Some(100));
        bench.store.commit(batch)
    };
    let results = join_all((0..MANY).map(add)).await;
    let (within, above): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!(within.len(), 14);
    for error in above.into_iter().filter_map(Result::err) {
        assert!(matches!(error, StoreError::Ceiling { index: 0, sum: 105, ceiling: 100 }), "{error}");
    }
    assert_eq!(bench.cell(&key).await.unwrap().value.as_counter(), Some(98));
}

pub(super) async fn what_was_acknowledged_is_seen(bench: Bench) {
    let work = |writer: u64| {
        let bench = bench.clone();
        async move {
            let (log, key) = (bench.log(&format!("log {writer}")), bench.key("cell").u64(writer));
            for round in 1..=5 {
                let number = bench
                    .write(|batch| {
                        batch.append(&log, text("x"));
                        batch.put(&key, text("x"));
                    })
                    .await
                    .numbers[0];
                assert_eq!(number, round);
                assert_eq!(bench.cell(&key).await.unwrap().version, round);
                assert_eq!(bench.store.log_head(&log).await.unwrap().number, round);
                assert_eq!(bench.store.log(&log, round - 1, 9).await.unwrap().len(), 1);
            }
        }
    };
    join_all((0..8).map(work)).await;
}

pub(super) async fn a_watch_wakes_on_growth(bench: Bench) {
    let (log, other) = (bench.log("log"), bench.log("other"));
    let mut watch = bench.store.watch(&log);
    let mut second = bench.store.watch(&log);
    let write = async {
        bench.write(|batch| _ = batch.append(&other, text("x"))).await;
        bench.write(|batch| _ = batch.append(&log, text("x"))).await
    };
    let (head, committed) = join(watch.grown_past(0), write).await;
    let head = head.unwrap();
    assert_eq!((head.number, head.at), (1, Some(committed.instant)));
    // One watch ended, the other goes on.
    drop(watch);
    let write = bench.write(|batch| {
        batch.append(&log, text("x"));
        batch.append(&log, text("x"));
    });
    let (head, _) = join(second.grown_past(2), write).await;
    assert_eq!(head.unwrap().number, 3);
    assert_eq!(second.log(), &log);
}

pub(super) async fn a_watch_of_what_has_grown_returns_at_once(bench: Bench) {
    let log = bench.log("log");
    bench.write(|batch| _ = batch.append(&log, text("x"))).await;
    let mut watch = bench.store.watch(&log);
    assert_eq!(watch.grown_past(0).await.unwrap().number, 1);
    assert_eq!(watch.grown_past(0).await.unwrap().number, 1);
}

pub(super) async fn blobs_are_kept_by_content(bench: Bench) {
    let tenant = bench.tenant();
    let bytes: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let id = bench.store.put_blob(&tenant, bytes.clone().into()).await.unwrap();
    assert_eq!(id, BlobId::of(&bytes));
    assert_eq!(bench.store.put_blob(&tenant, bytes.clone().into()).await.unwrap(), id);
    assert_eq!(bench.store.blob(&tenant, &id).await.unwrap().unwrap(), bytes);
    assert_eq!(bench.store.blob(&tenant, &BlobId::of(b"none")).await.unwrap(), None);
    let empty = bench.store.put_blob(&tenant, "".into()).await.unwrap();
    let known = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(empty.to_string(), known);
    assert_eq!(bench.store.blob(&tenant, &empty).await.unwrap().unwrap(), "");
    bench.store.delete_blob(&tenant, &id).await.unwrap();
    bench.store.delete_blob(&tenant, &id).await.unwrap();
    assert_eq!(bench.store.blob(&tenant, &id).await.unwrap(), None);
}
