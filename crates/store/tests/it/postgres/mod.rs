//! What is promised of a store on PostgreSQL, on the server that `PLACET_TEST_POSTGRES` names.

mod loss;
mod server;

use super::conformance::{passes, passes_one_by_one};
use super::model;
use futures_util::future::join_all;
use placet_core::{Diagnose as _, ErrorKind, Timestamp};
use placet_store::{
    Batch, Committed, Condition, Found, Key, LogName, PostgresOptions, PostgresStore, Store, StoreError, Tenant, Value,
    ValueForm,
};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use server::on_server;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn key(name: &str) -> Key {
    Key::new(&Tenant::new("t")).text(name)
}

fn log(name: &str) -> LogName {
    key(name).into()
}

fn put(key: Key, text: &'static str) -> Batch {
    let mut batch = Batch::new();
    batch.put(key, Value::new(1, text));
    batch
}

#[tokio::test]
async fn postgres_passes() {
    on_server("conformance", async |place| passes(Arc::new(place.store().await)).await).await;
}

#[tokio::test]
async fn postgres_passes_one_by_one() {
    on_server("conformance one by one", async |place| passes_one_by_one(Arc::new(place.store().await)).await).await;
}

/// What a commit came to, without the instants: the store's clock is not ours.
fn without_instants(result: Result<Committed, StoreError>) -> String {
    match result {
        Ok(committed) => format!("{:?} {:?}", committed.numbers, committed.sums),
        Err(StoreError::Condition { index, found, .. }) => {
            let found = match found {
                Found::Head(mut head) => {
                    head.at = head.at.map(|_| Timestamp::EPOCH);
                    Found::Head(head)
                }
                cell @ Found::Cell(_) => cell,
            };
            format!("{index} {found:?}")
        }
        Err(error) => format!("{error:?}"),
    }
}

const CASES: u32 = 150;

/// Batches that wait for each other in one group come to the same as one after the other.
#[tokio::test]
async fn groups_do_what_the_model_does() {
    on_server("model", async |place| {
        let store = place.store().await;
        let client = place.client().await;
        let seed = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let mut runner = TestRunner::new_with_rng(Config::default(), seed);
        let batches = model::batches(false);
        for case in 0..CASES {
            client.batch_execute("DELETE FROM cell; DELETE FROM log; DELETE FROM entry").await.unwrap();
            let steps = batches.new_tree(&mut runner).unwrap().current();
            let mut state = model::State::default();
            let mut expected = Vec::new();
            for steps in &steps {
                expected.push(without_instants(state.commit(steps, Timestamp::EPOCH).map(|(next, committed)| {
                    state = next;
                    committed
                })));
            }
            // In the order of the batches, and all of them before the first is answered.
            let results = join_all(steps.iter().map(|steps| store.commit(model::batch(steps)))).await;
            let results: Vec<_> = results.into_iter().map(without_instants).collect();
            assert_eq!(results, expected, "case {case}: {steps:?}");
            let found = model::State::of(&store).await.without_instants();
            assert_eq!(found, state.without_instants(), "case {case}: {steps:?}");
        }
    })
    .await;
}

const STORES: usize = 3;
const WRITERS: usize = 8;
const ROUNDS: usize = 40;

/// Stores that know nothing of each other write to one log, to counters and to a cell that only one can win at a time.
#[tokio::test]
async fn stores_write_at_once_as_processes_do() {
    on_server("stores at once", async |place| {
        // They also make the tables at once.
        let stores = join_all((0..STORES).map(|_| place.store())).await;
        let writers = (0..STORES * WRITERS).map(|writer| {
            let store = stores[writer % STORES].clone();
            async move {
                let mut numbers = Vec::new();
                for round in 0..ROUNDS {
                    let mut batch = Batch::new();
                    let content = format!("{writer} {round}");
                    batch.require(Condition::absent(key("done").text(&content)));
                    let number = batch.append(&log("all"), Value::new(1, content.clone()));
                    batch.put(key("index").filled().number(number), ValueForm::new(1).number_text(number));
                    batch.put(key("done").text(&content), ValueForm::new(1).number(number));
                    batch.add(key("count").u64(round as u64 % 4), 1, None);
                    batch.put(key("last"), Value::new(1, content));
                    let committed = store.commit(batch).await.unwrap();
                    numbers.push((committed.number(number), committed.instant));
                }
                numbers
            }
        });
        let numbers = join_all(writers).await;
        assert!(numbers.iter().all(|own| own.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1)));
        let numbers: BTreeSet<u64> = numbers.into_iter().flatten().map(|(number, _)| number).collect();
        let all = (STORES * WRITERS * ROUNDS) as u64;
        assert_eq!(numbers, (1..=all).collect(), "every number is given once, and none is left out");
        let store = &stores[0];
        let entries = store.log(&log("all"), 0, 10_000).await.unwrap();
        assert_eq!(entries.iter().map(|entry| entry.number).collect::<Vec<_>>(), (1..=all).collect::<Vec<_>>());
        assert!(entries.windows(2).all(|pair| pair[0].at <= pair[1].at));
        for entry in &entries {
            let done = key("done").text(std::str::from_utf8(&entry.value.bytes).unwrap());
            let done = store.cell(&done).await.unwrap().unwrap();
            assert_eq!((done.version, done.value.bytes.as_ref()), (1, entry.number.to_be_bytes().as_slice()));
            let index = store.cell(&key("index").u64(entry.number)).await.unwrap().unwrap();
            assert_eq!((index.version, index.value.bytes.as_ref()), (1, entry.number.to_string().as_bytes()));
        }
        for slice in 0..4 {
            let count = store.cell(&key("count").u64(slice)).await.unwrap().unwrap();
            assert_eq!((count.version, count.value.as_counter()), (all / 4, i64::try_from(all / 4).ok()));
        }
        let last = store.cell(&key("last")).await.unwrap().unwrap();
        assert_eq!(last.version, all);
        assert_eq!(last.value.bytes, entries[entries.len() - 1].value.bytes);
    })
    .await;
}

/// Of many that want a cell as it was, one gets it, whatever store it asks.
#[tokio::test]
async fn one_of_many_stores_wins_a_version() {
    on_server("one winner", async |place| {
        let stores = join_all((0..STORES).map(|_| place.store())).await;
        for version in 0..50 {
            let tries = join_all((0..STORES * 4).map(|writer| {
                let mut batch = Batch::new();
                batch.require(Condition::version(key("contested"), version));
                batch.put(key("contested"), Value::new(1, "mine"));
                stores[writer % STORES].commit(batch)
            }))
            .await;
            let won = tries.iter().filter(|result| result.is_ok()).count();
            assert_eq!(won, 1, "version {version}: {tries:?}");
            assert!(tries.iter().all(|result| match result {
                Ok(_) => true,
                Err(StoreError::Condition { found: Found::Cell(Some(cell)), .. }) => cell.version == version + 1,
                Err(_) => false,
            }));
        }
    })
    .await;
}

#[tokio::test]
async fn a_watch_is_told_what_other_stores_write() {
    on_server("watch", async |place| {
        let mut options = place.options();
        // So long that only being told can be what wakes it.
        options.poll = Duration::from_secs(24 * 60 * 60);
        let near = PostgresStore::connect(&place.url, options, &place.env).await.unwrap();
        let far = place.store().await;
        let mut watch = near.watch(&log("watched"));
        for number in 1..=20 {
            let append = async {
                let mut batch = Batch::new();
                batch.append(&log("watched"), Value::new(1, "x"));
                far.commit(batch).await.unwrap();
            };
            let (head, ()) = futures_util::future::join(watch.grown_past(number - 1), append).await;
            assert_eq!(head.unwrap().number, number);
        }
        // The connection that listens is lost: what grows meanwhile is looked up when it is there again.
        let client = place.client().await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = ";
        let ended = client.query(&format!("{end}'{}'", place.seen_as("listen")), &[]).await.unwrap();
        assert_eq!(ended.len(), 1);
        let mut batch = Batch::new();
        batch.append(&log("watched"), Value::new(1, "x"));
        far.commit(batch).await.unwrap();
        assert_eq!(watch.grown_past(20).await.unwrap().number, 21);
    })
    .await;
}

#[tokio::test]
async fn a_newer_stamp_is_refused_and_so_is_what_is_not_ours() {
    on_server("stamp", async |place| {
        let store = place.store().await;
        store.commit(put(key("x"), "1")).await.unwrap();
        let client = place.client().await;
        client.batch_execute("UPDATE stamp SET layout = 99").await.unwrap();
        // Also by a store that was open before.
        let error = store.commit(put(key("x"), "2")).await.unwrap_err();
        assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 1, .. }), "{error}");
        drop(store);
        let open = || PostgresStore::connect(&place.url, place.options(), &place.env);
        let error = open().await.unwrap_err();
        assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 1, .. }), "{error}");
        assert_eq!(error.kind(), ErrorKind::Wiring);

        client.batch_execute("DELETE FROM stamp").await.unwrap();
        assert!(matches!(open().await.unwrap_err(), StoreError::NotAStore { .. }));
        client.batch_execute("DROP TABLE stamp").await.unwrap();
        assert!(matches!(open().await.unwrap_err(), StoreError::NotAStore { .. }));
        client.batch_execute("CREATE TABLE stamp (theirs text)").await.unwrap();
        let error = open().await.unwrap_err();
        assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
        assert!(error.to_string().contains(&place.schema), "{error}");

        // An empty schema, as an administrator may have made for us, is as good as none.
        let fresh = format!("DROP SCHEMA {0} CASCADE; CREATE SCHEMA {0}", place.schema);
        client.batch_execute(&fresh).await.unwrap();
        open().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn schemas_do_not_see_each_other() {
    on_server("schemas", async |place| {
        let store = place.store().await;
        let mut options = PostgresOptions::default();
        // A name that needs its quotes.
        options.schema = format!("{}\"; Ä x", place.schema);
        let other = PostgresStore::connect(&place.url, options, &place.env).await.unwrap();
        store.commit(put(key("x"), "1")).await.unwrap();
        assert_eq!(other.cell(&key("x")).await.unwrap(), None);
        other.commit(put(key("x"), "2")).await.unwrap();
        assert_eq!(store.cell(&key("x")).await.unwrap().unwrap().value.bytes.as_ref(), b"1");
        drop(other);
        let drop = format!("DROP SCHEMA \"{}\"\"; Ä x\" CASCADE", place.schema);
        place.client().await.batch_execute(&drop).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_password_is_shown_nowhere() {
    on_server("password", async |place| {
        let config: tokio_postgres::Config = place.url.parse().unwrap();
        let store = place.store().await;
        let shown = format!("{store:?} {}", store.describe());
        assert!(shown.contains(config.get_dbname().unwrap_or_default()) && shown.contains(&place.schema), "{shown}");
        if let Some(password) = config.get_password() {
            assert!(!shown.contains(std::str::from_utf8(password).unwrap()), "{shown}");
        }
        let host = place.url.rsplit_once('@').map_or("127.0.0.1:1/x", |(_, host)| host);
        let url = format!("postgres://nobody-of-this-name:hunter2@{host}");
        let error = PostgresStore::connect(&url, place.options(), &place.env).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains("nobody-of-this-name"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    })
    .await;
}
