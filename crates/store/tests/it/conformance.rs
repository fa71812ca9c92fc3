//! The conformance suite on each backend.

use placet_core::env::SystemClock;
use placet_store::conformance::cases;
use placet_store::{MemoryStore, SharedStore, SqliteOptions, SqliteStore};
use std::sync::Arc;

/// Every case, all at the same time, so that they also meet each other.
pub(crate) async fn passes(store: SharedStore) {
    let runs = cases().into_iter().map(|case| {
        let store = store.clone();
        async move {
            eprintln!("{}", case.name);
            case.run(store).await;
        }
    });
    futures_util::future::join_all(runs).await;
}

/// Every case by itself.
pub(crate) async fn passes_one_by_one(store: SharedStore) {
    for case in cases() {
        eprintln!("{}", case.name);
        case.run(store.clone()).await;
    }
}

#[tokio::test]
async fn memory_passes() {
    passes(Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))).await;
}

#[tokio::test]
async fn memory_passes_one_by_one() {
    passes_one_by_one(Arc::new(MemoryStore::new(Arc::new(SystemClock::new())))).await;
}

fn sqlite(folder: &tempfile::TempDir) -> SharedStore {
    let options = SqliteOptions::new(Arc::new(SystemClock::new()));
    Arc::new(SqliteStore::open(folder.path().join("store.sqlite"), options).unwrap())
}

#[tokio::test]
async fn sqlite_passes() {
    let folder = tempfile::tempdir().unwrap();
    passes(sqlite(&folder)).await;
}

#[tokio::test]
async fn sqlite_passes_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    passes_one_by_one(sqlite(&folder)).await;
}
