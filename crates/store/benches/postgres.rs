//! How many batches a second one board takes on PostgreSQL: one log, many writers, commits in groups.
//!
//! `PLACET_TEST_POSTGRES` names the server. `--seconds 10` and `--writers 64` are the defaults; `--stores 2` writes as two
//! processes do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark fails by panicking")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "its figures are printed")]

use futures_util::future::join_all;
use placet_core::Env;
use placet_store::{Batch, Condition, Key, LogName, PostgresOptions, PostgresStore, Store, Tenant, Value, ValueForm};
use std::time::Duration;

fn key(name: &str) -> Key {
    Key::new(&Tenant::new("acme")).text(name)
}

/// What a write to a board commits: conditions on the run, on its deadlines and on the idempotency key; the contribution;
/// the record of the key; the index; and three notifications owed.
fn board_write(log: &LogName, writer: usize, round: u64) -> Batch {
    let record = key("key").text("b-1").text(format!("{writer}-{round}"));
    let mut batch = Batch::new();
    batch.require(Condition::version(key("run").text("b-1"), 1));
    batch.require(Condition::not_passed(key("deadline").text("b-1")));
    batch.require(Condition::absent(record.clone()));
    let number = batch.append(log, Value::new(1, vec![b'x'; 256]));
    batch.put(record, ValueForm::new(1).number(number));
    batch.put(key("index").text("b-1").text("level").filled().number(number), ValueForm::new(1).number(number));
    for subscriber in 0..3 {
        let owed = Key::new(&Tenant::ACROSS).text("outbox").u64(subscriber).filled().now().number(number);
        batch.put(owed, ValueForm::new(1).bytes("acme/b-1/").number_text(number));
    }
    batch
}

fn plain(log: &LogName, _writer: usize, _round: u64) -> Batch {
    let mut batch = Batch::new();
    batch.append(log, Value::new(1, vec![b'x'; 256]));
    batch
}

async fn measure(
    env: &Env,
    stores: &[PostgresStore],
    (writers, seconds): (usize, u64),
    name: &str,
    make: fn(&LogName, usize, u64) -> Batch,
) {
    let log: LogName = key("board").text(name).into();
    let start = env.clock().steady();
    let end = start + Duration::from_secs(seconds);
    let writer = |writer: usize| {
        let (env, store, log) = (env.clone(), stores[writer % stores.len()].clone(), log.clone());
        async move {
            let mut waits = Vec::new();
            for round in 0.. {
                let before = env.clock().steady();
                if before >= end {
                    break;
                }
                store.commit(make(&log, writer, round)).await.unwrap();
                waits.push(env.clock().steady() - before);
            }
            waits
        }
    };
    let mut waits = join_all((0..writers).map(writer)).await.concat();
    let elapsed = (env.clock().steady() - start).as_secs_f64();
    waits.sort_unstable();
    let at = |share: f64| waits[((waits.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    assert_eq!(stores[0].log_head(&log).await.unwrap().number, waits.len() as u64);
    println!(
        "postgres, {name}, {writers} writers in {} store(s): {:.0} batches/s; a commit waits {:.1} ms (half), {:.1} ms \
         (99 of 100), {:.1} ms (longest)",
        stores.len(),
        waits.len() as f64 / elapsed,
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

#[expect(clippy::disallowed_methods, reason = "who runs the benchmark says where the server is")]
fn url() -> Option<String> {
    std::env::var("PLACET_TEST_POSTGRES").ok().filter(|url| !url.is_empty())
}

fn option(name: &str, default: u64) -> u64 {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == name);
    at.and_then(|at| words.get(at + 1)).and_then(|word| word.parse().ok()).unwrap_or(default)
}

#[tokio::main]
async fn main() {
    let Some(url) = url() else {
        eprintln!("SKIPPED postgres benchmark: PLACET_TEST_POSTGRES names no server");
        return;
    };
    let env = Env::system();
    let load = (option("--writers", 64) as usize, option("--seconds", 10));
    let mut options = PostgresOptions::default();
    options.schema = format!("bench_{:016x}", env.random().next_u64());
    let stores: Vec<_> =
        join_all((0..option("--stores", 1)).map(|_| PostgresStore::connect(&url, options.clone(), &env)))
            .await
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();

    let mut batch = Batch::new();
    batch.put(key("run").text("b-1"), Value::new(1, "open"));
    batch.put(key("deadline").text("b-1"), ValueForm::new(1).now_plus(Duration::from_secs(86_400)));
    stores[0].commit(batch).await.unwrap();
    measure(&env, &stores, load, "board writes", board_write).await;
    measure(&env, &stores, load, "plain appends", plain).await;
    measure(&env, &stores, (1, load.1.min(3)), "plain appends of one", plain).await;

    drop(stores);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    env.spawn("clean up", async move { _ = connection.await });
    client.batch_execute(&format!("DROP SCHEMA {} CASCADE", options.schema)).await.unwrap();
}
