//! What is promised of cells.

use super::*;

pub(super) async fn a_cell_counts_its_writes(bench: Bench) {
    let key = bench.key("cell");
    assert_eq!(bench.cell(&key).await, None);
    for version in 1..=3 {
        let content = format!("content {version}");
        bench.write(|batch| _ = batch.put(&key, text(&content))).await;
        let cell = Cell { key: key.clone(), version, value: text(&content) };
        assert_eq!(bench.cell(&key).await, Some(cell));
    }
    // Several writes in one batch count as several.
    bench.write(|batch| _ = batch.put(&key, text("4")).put(&key, text("5"))).await;
    assert_eq!(bench.cell(&key).await.unwrap().version, 5);
}

pub(super) async fn a_deleted_cell_forgets_its_version(bench: Bench) {
    let key = bench.key("cell");
    bench.write(|batch| _ = batch.delete_cell(key.clone())).await;
    bench.write(|batch| _ = batch.put(&key, text("a")).put(&key, text("b"))).await;
    bench.write(|batch| _ = batch.delete_cell(key.clone())).await;
    assert_eq!(bench.cell(&key).await, None);
    bench.write(|batch| _ = batch.put(&key, text("c"))).await;
    assert_eq!(bench.cell(&key).await.unwrap().version, 1);
    bench.write(|batch| _ = batch.delete_cell(key.clone()).put(&key, text("d"))).await;
    assert_eq!(bench.cell(&key).await.unwrap(), Cell { key, version: 1, value: text("d") });
}

pub(super) async fn cells_are_read_in_the_order_of_their_keys(bench: Bench) {
    let prefix = bench.key("ordered");
    let keys = [
        prefix.clone(),
        prefix.clone().u64(2),
        prefix.clone().u64(10),
        prefix.clone().i64(i64::MIN),
        prefix.clone().i64(-1),
        prefix.clone().i64(1),
        prefix.clone().instant(placet_core::Timestamp::from_micros(-5)),
        prefix.clone().text(""),
        prefix.clone().text("a"),
        prefix.clone().text("a").u64(0),
        prefix.clone().text("a\0"),
        prefix.clone().text("ab"),
        prefix.clone().bytes([0]),
        prefix.clone().bytes([0xFF, 0xFF]),
        prefix.clone().bytes([0xFF, 0xFF, 0xFF]),
    ];
    assert!(keys.is_sorted());
    let mut batch = Batch::new();
    for place in [3, 0, 14, 7, 1, 9, 12, 5, 2, 11, 4, 13, 6, 10, 8] {
        batch.put(&keys[place], text("x"));
    }
    bench.commit(batch).await;
    let read = bench.store.cells(&prefix, None, Direction::Forward, 100).await.unwrap();
    assert_eq!(read.into_iter().map(|cell| cell.key).collect::<Vec<_>>(), keys);
    let mut read = bench.store.cells(&prefix, None, Direction::Backward, 100).await.unwrap();
    read.reverse();
    assert_eq!(read.into_iter().map(|cell| cell.key).collect::<Vec<_>>(), keys);
}

pub(super) async fn cells_are_paged_in_both_directions(bench: Bench) {
    use Direction::{Backward, Forward};
    let prefix = bench.key("paged");
    let key = |number: u64| prefix.clone().u64(number);
    let mut batch = Batch::new();
    for number in 1..=5 {
        batch.put(key(number), text(&number.to_string()));
    }
    bench.commit(batch).await;
    let texts = |beyond: Option<Key>, direction, limit| {
        let (bench, prefix) = (bench.clone(), prefix.clone());
        async move { bench.texts(&prefix, beyond.as_ref(), direction, limit).await.concat() }
    };
    assert_eq!(texts(None, Forward, 2).await, "12");
    assert_eq!(texts(Some(key(2)), Forward, 2).await, "34");
    assert_eq!(texts(Some(key(4)), Forward, 2).await, "5");
    assert_eq!(texts(Some(key(5)), Forward, 2).await, "");
    assert_eq!(texts(None, Backward, 2).await, "54");
    assert_eq!(texts(Some(key(4)), Backward, 2).await, "32");
    assert_eq!(texts(Some(key(1)), Backward, 2).await, "");
    // A key that is not there, or lies outside, is a bound all the same.
    assert_eq!(texts(Some(key(3).text("x")), Forward, 9).await, "45");
    assert_eq!(texts(Some(key(3).text("x")), Backward, 9).await, "321");
    assert_eq!(texts(Some(bench.key("a")), Forward, 9).await, "12345");
    assert_eq!(texts(Some(bench.key("z")), Forward, 9).await, "");
    assert_eq!(texts(Some(bench.key("a")), Backward, 9).await, "");
    assert_eq!(texts(Some(bench.key("z")), Backward, 9).await, "54321");
    assert_eq!(texts(None, Forward, 0).await, "");
}

pub(super) async fn a_prefix_holds_its_own_cell_and_no_neighbour(bench: Bench) {
    let prefix = bench.key("run");
    let mut batch = Batch::new();
    batch.put(&prefix, text("own,")).put(prefix.clone().u64(1), text("under,"));
    for neighbour in ["ru", "run\0", "run1", "runs", "rum"] {
        batch.put(bench.key(neighbour), text("neighbour,"));
    }
    bench.commit(batch).await;
    assert_eq!(bench.texts(&prefix, None, Direction::Forward, 9).await.concat(), "own,under,");
    let whole = Key::new(&bench.tenant());
    assert_eq!(bench.texts(&whole, None, Direction::Forward, 9).await.len(), 7);
}

pub(super) async fn a_prefix_is_deleted_and_nothing_else(bench: Bench) {
    let prefix = bench.key("gone");
    let mut batch = Batch::new();
    batch
        .put(&prefix, text("x"))
        .put(prefix.clone().text("a"), text("x"))
        .put(prefix.clone().text("a").u64(1), text("x"));
    batch.put(bench.key("gon"), text("before ")).put(bench.key("gone\0"), text("after"));
    bench.commit(batch).await;
    bench.write(|batch| _ = batch.delete_prefix(prefix.clone())).await;
    assert_eq!(bench.texts(&Key::new(&bench.tenant()), None, Direction::Forward, 9).await.concat(), "before after");
    bench.write(|batch| _ = batch.put(prefix.clone().text("a"), text("new"))).await;
    assert_eq!(bench.cell(&prefix.text("a")).await.unwrap().version, 1);
}

pub(super) async fn tenants_do_not_see_each_other(bench: Bench) {
    let other = Tenant::new(format!("{} other", bench.name));
    let (ours, theirs) = (bench.key("same"), Key::new(&other).text("same"));
    let across = Key::new(&Tenant::ACROSS).text(bench.name);
    bench
        .write(|batch| {
            batch.put(&ours, text("ours")).put(&theirs, text("theirs")).put(&across, text("across"));
            batch.append(&LogName::new(theirs.clone()), text("x"));
        })
        .await;
    assert_eq!(bench.texts(&Key::new(&bench.tenant()), None, Direction::Forward, 9).await, ["ours"]);
    bench.write(|batch| _ = batch.delete_prefix(Key::new(&bench.tenant()))).await;
    assert_eq!(as_text(&bench.cell(&theirs).await.unwrap().value), "theirs");
    assert_eq!(as_text(&bench.cell(&across).await.unwrap().value), "across");
    assert_eq!(bench.store.logs(&Key::new(&bench.tenant()), None, 9).await.unwrap(), []);
    let blob = bench.store.put_blob(&other, "theirs".into()).await.unwrap();
    assert_eq!(bench.store.blob(&bench.tenant(), &blob).await.unwrap(), None);
}

pub(super) async fn values_keep_their_bytes_and_format(bench: Bench) {
    let every: Vec<u8> = (0..=255).collect();
    let values = [
        Value::new(1, ""),
        Value::new(u16::MAX, every),
        Value::new(7, "größe\0\u{10ffff}"),
        Value::new(2, vec![0xA5; 300_000]),
    ];
    let log = bench.log("values");
    let mut batch = Batch::new();
    for (place, value) in (0..).zip(&values) {
        batch.put(bench.key("value").u64(place), value);
        batch.append(&log, value);
    }
    bench.commit(batch).await;
    let cells = bench.store.cells(&bench.key("value"), None, Direction::Forward, 9).await.unwrap();
    assert!(cells.into_iter().map(|cell| cell.value).eq(values.iter().cloned()));
    assert!(bench.entries(&log).await.into_iter().map(|entry| entry.value).eq(values));
}

pub(super) async fn a_counter_adds_up_to_its_ceiling(bench: Bench) {
    let key = bench.key("counter");
    let mut batch = Batch::new();
    let first = batch.add(key.clone(), 5, Some(5));
    let second = batch.add(key.clone(), -2, Some(3));
    let committed = bench.commit(batch).await;
    assert_eq!((committed.sum(first), committed.sum(second)), (5, 3));
    assert_eq!(bench.cell(&key).await.unwrap(), Cell { key: key.clone(), version: 2, value: Value::counter(3) });

    let refused = bench
        .refused(|batch| {
            batch.add(key.clone(), 1, None);
            batch.add(key.clone(), 3, Some(6));
        })
        .await;
    assert!(matches!(refused, StoreError::Ceiling { index: 1, sum: 7, ceiling: 6 }), "{refused}");
    assert_eq!(bench.cell(&key).await.unwrap().value, Value::counter(3));
    bench.write(|batch| _ = batch.put(&key, Value::counter(-1)).add(key.clone(), -1, None)).await;
    assert_eq!(bench.cell(&key).await.unwrap().value.as_counter(), Some(-2));
}

pub(super) async fn a_counter_refuses_what_is_none(bench: Bench) {
    let key = bench.key("text");
    bench.write(|batch| _ = batch.put(&key, text("12345678"))).await;
    let refused = bench.refused(|batch| _ = batch.add(key.clone(), 1, None)).await;
    assert!(matches!(refused, StoreError::NotACounter { .. }), "{refused}");
    let full = bench.key("full");
    bench.write(|batch| _ = batch.add(full.clone(), i64::MAX, None)).await;
    let refused = bench.refused(|batch| _ = batch.add(full.clone(), 1, None)).await;
    assert!(matches!(refused, StoreError::NotACounter { .. }), "{refused}");
}
