//! Connections that are lost, deadlocks, and batches that the server refuses.

use super::server::{Cut, Place, Wire, on_server};
use super::{key, log, put};
use futures_util::future::{Either, join_all, select};
use placet_store::{Batch, Condition, Direction, PostgresStore, Store, StoreError, Value, ValueForm};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::Notify;

async fn over(wire: &Wire, place: &Place) -> PostgresStore {
    PostgresStore::connect(&wire.url, place.options(), &place.env).await.unwrap()
}

/// A batch that cannot be applied twice.
fn once(name: &str) -> Batch {
    let mut batch = Batch::new();
    batch.require(Condition::absent(key("once").text(name)));
    let number = batch.append(&log("all"), Value::new(1, name.to_owned()));
    batch.put(key("once").text(name), ValueForm::new(1).number(number));
    batch
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_unknown_though_it_was_applied() {
    on_server("lost answer", async |place| {
        let wire = Wire::to(place).await;
        let store = over(&wire, place).await;
        store.commit(once("a")).await.unwrap();
        wire.cut(Cut::AfterCommit);
        let error = store.commit(once("b")).await.unwrap_err();
        assert!(wire.is_cut() && error.is_unknown(), "{error}");
        // Repeating it under its condition finds that it landed.
        let error = store.commit(once("b")).await.unwrap_err();
        assert!(matches!(error, StoreError::Condition { index: 0, .. }), "{error}");
        assert_eq!(store.log_head(&log("all")).await.unwrap().number, 2);
        assert_eq!(store.commit(once("c")).await.unwrap().numbers, [3]);
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_may_have_been_heard_is_unknown_though_it_was_not() {
    on_server("lost commit", async |place| {
        let wire = Wire::to(place).await;
        let store = over(&wire, place).await;
        store.commit(once("a")).await.unwrap();
        wire.cut(Cut::BeforeCommit);
        let error = store.commit(once("b")).await.unwrap_err();
        assert!(wire.is_cut() && error.is_unknown(), "{error}");
        assert_eq!(store.commit(once("b")).await.unwrap().numbers, [2], "it had not landed");
    })
    .await;
}

#[tokio::test]
async fn a_connection_that_goes_before_the_commit_costs_nothing() {
    on_server("lost begin", async |place| {
        let wire = Wire::to(place).await;
        let store = over(&wire, place).await;
        store.commit(once("a")).await.unwrap();
        wire.cut(Cut::BeforeBegin);
        assert_eq!(store.commit(once("b")).await.unwrap().numbers, [2]);
        assert!(wire.is_cut());
    })
    .await;
}

#[tokio::test]
async fn in_a_group_whose_answer_is_lost_only_writers_are_unknown() {
    on_server("lost group", async |place| {
        let wire = Wire::to(place).await;
        let store = over(&wire, place).await;
        store.commit(once("a")).await.unwrap();
        // While the tables are locked, the first waits for them and the others for the first.
        let client = place.client().await;
        client.batch_execute("BEGIN; LOCK TABLE cell IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let release = async {
            let seen = place.seen_as("commit");
            let waits =
                format!("SELECT 1 FROM pg_stat_activity WHERE application_name = '{seen}' AND wait_event = 'relation'");
            // What a transaction sees of the others stands still.
            place.until(&place.client().await, &waits).await;
            wire.cut(Cut::AfterCommit);
            client.batch_execute("COMMIT").await.unwrap();
        };
        let commits = ["b", "a", "c"].map(|name| store.commit(once(name)));
        let (results, ()) = futures_util::future::join(join_all(commits), release).await;
        assert!(results[0].as_ref().is_err_and(StoreError::is_unknown), "{results:?}");
        // The group behind is not concerned; where all three came in one group, the refused one must not be told of what
        // rests on it.
        assert!(
            matches!(results[1], Err(StoreError::Condition { .. } | StoreError::Unavailable { .. })),
            "{results:?}"
        );
        assert!(match &results[2] {
            Ok(committed) => committed.numbers == [3],
            Err(error) => error.is_unknown(),
        });
        assert_eq!(store.log_head(&log("all")).await.unwrap().number, 3);
    })
    .await;
}

const WRITERS: usize = 16;
const ROUNDS: usize = 25;

/// Connections are ended at random while writers write. Who hears that it is unknown looks, as callers do.
#[tokio::test]
async fn writers_survive_connections_that_are_killed() {
    on_server("killed connections", async |place| {
        let stores = [place.store().await, place.store().await];
        let progress = Notify::new();
        let writers = (0..WRITERS).map(|writer| {
            let (store, progress) = (stores[writer % stores.len()].clone(), &progress);
            async move {
                let (mut unknown, mut unavailable) = (0, 0);
                for round in 0..ROUNDS {
                    let name = format!("{writer} {round}");
                    loop {
                        match store.commit(once(&name)).await {
                            Ok(_) => {
                                progress.notify_one();
                                break;
                            }
                            Err(error) if error.is_unknown() => unknown += 1,
                            Err(StoreError::Unavailable { .. }) => {
                                unavailable += 1;
                                continue;
                            }
                            Err(error) => panic!("{name}: {error:?}"),
                        }
                        if store.cell(&key("once").text(&name)).await.is_ok_and(|cell| cell.is_some()) {
                            break;
                        }
                        // It may yet land, where the server has not noticed: then the condition says so.
                        match store.commit(once(&name)).await {
                            Ok(_) | Err(StoreError::Condition { .. }) => break,
                            Err(_) => {}
                        }
                    }
                }
                (unknown, unavailable)
            }
        });
        let client = place.client().await;
        let killed = Cell::new(0);
        let kill = async {
            let end = format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid =
                (SELECT pid FROM pg_stat_activity WHERE application_name LIKE '{}%' ORDER BY random() LIMIT 1)",
                place.seen_as("")
            );
            loop {
                progress.notified().await;
                killed.set(killed.get() + client.query(&end, &[]).await.unwrap().len());
            }
        };
        let told = match select(pin!(join_all(writers)), pin!(kill)).await {
            Either::Left((told, _)) => told,
            Either::Right((never, _)) => never,
        };
        let killed = killed.get();
        let (unknown, unavailable) = told.iter().fold((0, 0), |sum, told| (sum.0 + told.0, sum.1 + told.1));
        assert!(killed > 0, "connections are killed while writers write");
        eprintln!("{killed} connections killed: {unknown} commits unknown, {unavailable} not done");
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        let entries = stores[0].log(&log("all"), 0, 10_000).await.unwrap();
        for entry in &entries {
            *times.entry(String::from_utf8(entry.value.bytes.to_vec()).unwrap()).or_default() += 1;
        }
        assert_eq!(times.len(), WRITERS * ROUNDS, "nothing is lost");
        assert!(times.values().all(|times| *times == 1), "nothing is doubled");
        let numbers: Vec<u64> = entries.iter().map(|entry| entry.number).collect();
        assert_eq!(numbers, (1..=(WRITERS * ROUNDS) as u64).collect::<Vec<_>>());
        let cells = stores[0].cells(&key("once"), None, Direction::Forward, 10_000).await.unwrap();
        assert_eq!(cells.len(), WRITERS * ROUNDS);
    })
    .await;
}

#[tokio::test]
async fn a_group_that_loses_a_deadlock_is_tried_again() {
    on_server("deadlock", async |place| {
        let store = place.store().await;
        let mut first = Batch::new();
        let number = first.append(&log("filled"), Value::new(1, ""));
        first.put(key("filled").filled().number(number), Value::new(1, "first"));
        store.commit(first).await.unwrap();

        // A row that the batch below comes to only when it has its locks.
        let holder = place.client().await;
        holder.batch_execute("BEGIN; SET deadlock_timeout = '100s'").await.unwrap();
        assert_eq!(holder.execute("SELECT 1 FROM cell FOR UPDATE", &[]).await.unwrap(), 1);
        let mut second = Batch::new();
        second.append(&log("locked"), Value::new(1, "x"));
        second.delete_log(log("filled"));
        let number = second.append(&log("filled"), Value::new(1, ""));
        second.put(key("filled").filled().number(number), Value::new(1, "second"));

        let cross = async {
            let watcher = place.client().await;
            let seen = place.seen_as("commit");
            let waiting = format!(
                "SELECT pid FROM pg_stat_activity WHERE application_name = '{seen}' AND wait_event_type = 'Lock'"
            );
            let pid: i32 = place.until(&watcher, &waiting).await.get(0);
            let locks =
                "SELECT (classid::int8 << 32) | objid::int8 FROM pg_locks WHERE locktype = 'advisory' AND pid = $1";
            let lock: i64 = watcher.query(locks, &[&pid]).await.unwrap()[0].get(0);
            // Given only once the store's transaction, which holds it, is over: the deadlock was ended at its cost.
            holder.execute("SELECT pg_advisory_xact_lock($1)", &[&lock]).await.unwrap();
            holder.batch_execute("COMMIT").await.unwrap();
        };
        let (committed, ()) = futures_util::future::join(store.commit(second), cross).await;
        assert_eq!(committed.unwrap().numbers, [1, 1]);
        assert_eq!(store.log_head(&log("locked")).await.unwrap().number, 1);
        let cell = store.cell(&key("filled").u64(1)).await.unwrap().unwrap();
        assert_eq!((cell.version, cell.value.bytes.as_ref()), (2, b"second".as_slice()));
    })
    .await;
}

#[tokio::test]
async fn what_the_server_refuses_takes_none_of_its_neighbours_with_it() {
    on_server("refused batch", async |place| {
        let store = place.store().await;
        let client = place.client().await;
        client.batch_execute("ALTER TABLE cell ADD CHECK (value <> 'bad'::bytea)").await.unwrap();
        client.batch_execute("BEGIN; LOCK TABLE cell IN ACCESS EXCLUSIVE MODE").await.unwrap();
        let release = async {
            let seen = place.seen_as("commit");
            let waits =
                format!("SELECT 1 FROM pg_stat_activity WHERE application_name = '{seen}' AND wait_event = 'relation'");
            // What a transaction sees of the others stands still.
            place.until(&place.client().await, &waits).await;
            client.batch_execute("COMMIT").await.unwrap();
        };
        let contents = ["1", "2", "bad", "4", "bad", "6"];
        let commits = contents.iter().enumerate().map(|(at, text)| store.commit(put(key("row").u64(at as u64), text)));
        let (results, ()) = futures_util::future::join(join_all(commits), release).await;
        for (text, result) in contents.iter().zip(&results) {
            match result {
                Ok(_) => assert_ne!(*text, "bad"),
                Err(StoreError::Backend { source, .. }) => {
                    assert!(*text == "bad" && source.to_string().contains("violates check constraint"), "{source}");
                }
                Err(error) => panic!("{text}: {error:?}"),
            }
        }
        let cells = store.cells(&key("row"), None, Direction::Forward, 99).await.unwrap();
        assert_eq!(cells.len(), 4);
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_away_is_said_to_be_away() {
    on_server("away", async |place| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = format!("postgres://ann:hunter2@127.0.0.1:{port}/x");
        let error = PostgresStore::connect(&url, place.options(), &place.env).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable { .. }), "{error}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}/x")), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    })
    .await;
}
