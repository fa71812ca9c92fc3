//! What is promised of the SQLite file.

use super::child::{all, batch, key, open};
use placet_core::env::{ManualClock, ManualHandle, SystemClock};
use placet_core::{Diagnose as _, ErrorKind, Timestamp};
use placet_store::{Batch, Key, LogName, SqliteOptions, SqliteStore, Store, StoreError, Tenant, Value};
use std::path::Path;
use std::sync::Arc;

fn try_open(file: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(file, SqliteOptions::new(Arc::new(SystemClock::new())))
}

#[tokio::test]
async fn what_was_written_is_there_after_opening_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    for round in 1..=3 {
        let store = open(&file);
        assert_eq!(store.commit(batch("x", 0, round)).await.unwrap().numbers, [round, round]);
        assert_eq!(store.describe(), format!("sqlite {}", file.display()));
    }
    let store = open(&file);
    assert_eq!(store.log_head(&all()).await.unwrap().number, 3);
    assert_eq!(store.cell(&key("count")).await.unwrap().unwrap().version, 3);
}

#[tokio::test]
async fn a_long_log_that_nobody_closed_is_put_into_the_file_when_it_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (file, left) = (folder.path().join("store.sqlite"), folder.path().join("left.sqlite"));
    let store = open(&file);
    for number in 0..24 {
        let mut batch = Batch::new();
        batch.put(key(&number.to_string()), Value::new(1, vec![7; 1 << 16]));
        store.commit(batch).await.unwrap();
    }
    // What a process leaves that ends without closing.
    for end in ["", "-wal"] {
        let name = |path: &Path| std::path::PathBuf::from(format!("{}{end}", path.display()));
        std::fs::copy(name(&file), name(&left)).unwrap();
    }
    let before = std::fs::metadata(&left).unwrap().len();
    let opened = open(&left);
    assert!(std::fs::metadata(&left).unwrap().len() > before + (1 << 20));
    assert_eq!(opened.cell(&key("23")).await.unwrap().unwrap().value.bytes.len(), 1 << 16);
}

#[cfg(unix)]
#[tokio::test]
async fn what_is_made_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.path().join("store.sqlite");
    let store = open(&file);
    store.commit(batch("x", 0, 1)).await.unwrap();
    let mut found: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().permissions().mode() & 0o777))
        .collect();
    found.sort();
    let wanted = ["", "-next", "-shm", "-turn", "-wal"].map(|end| (format!("store.sqlite{end}"), 0o600));
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_so_is_a_foreign_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    drop(open(&file));
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let error = try_open(&file).unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 1, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Wiring);
    assert!(error.to_string().contains("has schema 99, this program knows schemas up to 1"), "{error}");

    let foreign = folder.path().join("foreign.sqlite");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = try_open(&foreign).unwrap_err();
    assert!(matches!(error, StoreError::NotAStore { .. }), "{error}");
    let mode: String = rusqlite::Connection::open(&foreign)
        .unwrap()
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete", "nothing of a foreign file is changed");

    let text = folder.path().join("text");
    std::fs::write(&text, "some text that is no database, but long enough to look at ".repeat(20)).unwrap();
    assert!(matches!(try_open(&text).unwrap_err(), StoreError::NotAStore { .. }));
    let nowhere = folder.path().join("none").join("store.sqlite");
    assert!(matches!(try_open(&nowhere).unwrap_err(), StoreError::Unavailable { .. }));
}

#[tokio::test]
async fn a_schema_that_becomes_newer_under_an_open_store_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let store = open(&file);
    store.commit(batch("x", 0, 1)).await.unwrap();
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let error = store.commit(batch("x", 0, 2)).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 2, .. }), "{error}");
}

#[tokio::test]
async fn a_batch_that_cannot_be_written_takes_no_neighbour_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let store = open(&file);
    store.commit(batch("x", 0, 1)).await.unwrap();
    // A fault of the disk, as far as one can be made: a trigger that refuses one kind of cell.
    let refuse = "CREATE TRIGGER fault BEFORE INSERT ON cells WHEN NEW.value = x'666175' \
                  BEGIN SELECT RAISE(ABORT, 'a fault'); END";
    rusqlite::Connection::open(&file).unwrap().execute_batch(refuse).unwrap();
    let log = LogName::new(key("log"));
    let write = |content: &'static str| {
        let mut batch = Batch::new();
        batch.append(&log, Value::new(1, content));
        batch.put(key(content), Value::new(1, content));
        store.commit(batch)
    };
    let (first, fault, last) = futures_util::join!(write("first"), write("fau"), write("last"));
    assert_eq!((first.unwrap().numbers, last.unwrap().numbers), (vec![1], vec![2]));
    let fault = fault.unwrap_err();
    assert!(matches!(fault, StoreError::Backend { .. }), "{fault}");
    assert_eq!(store.log(&log, 0, 9).await.unwrap().len(), 2);
    assert_eq!(store.cell(&key("fau")).await.unwrap(), None);
    // Nor does it leave anything behind in what the writer knows.
    assert_eq!(write("more").await.unwrap().numbers, [3]);
}

#[tokio::test]
async fn instants_do_not_go_back_with_the_clock() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store.sqlite");
    let log = LogName::new(Key::new(&Tenant::new("t")).text("log"));
    let mut instants = Vec::new();
    // A clock that was set back between two openings, as far as a store can tell.
    for now in [5_000, 4_000, 6_000] {
        let clock = ManualClock::new(Timestamp::from_micros(now));
        let store = SqliteStore::open(&file, SqliteOptions::new(Arc::new(ManualHandle(clock)))).unwrap();
        let mut batch = Batch::new();
        batch.append(&log, Value::new(1, "x"));
        instants.push(store.commit(batch).await.unwrap().instant.as_micros());
        instants.push(store.commit(Batch::new()).await.unwrap().instant.as_micros());
    }
    assert_eq!(instants, [5_000, 5_000, 5_000, 4_000, 6_000, 6_000]);
}
