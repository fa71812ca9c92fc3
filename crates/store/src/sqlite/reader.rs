//! Reads, on connections of their own: a reader never waits for the writer, nor the writer for it.

use super::ground::{head, value};
use super::schema::failed;
use crate::error::{Result, StoreError};
use crate::key::{Key, LogName};
use crate::store::{Cell, Direction, Entry, LogHead, MAX_READ};
use placet_core::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{mpsc, oneshot};

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The threads that read, as those see them who ask.
#[derive(Clone, Debug)]
pub(super) struct Readers {
    questions: mpsc::Sender<Question>,
}

/// The end of the queue that the reading threads share.
pub(super) type Questions = Arc<Mutex<mpsc::Receiver<Question>>>;

impl Readers {
    /// A queue of questions and its other end.
    pub(super) fn new() -> (Self, Questions) {
        let (questions, asked) = mpsc::channel(256);
        (Readers { questions }, Arc::new(Mutex::new(asked)))
    }

    /// Asks on whichever connection is free.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        action: &'static str,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let ended = || StoreError::Unavailable { cause: "the store's readers have ended".to_owned() };
        let (answer, answered) = oneshot::channel();
        let question: Question = Box::new(move |connection| {
            // Nobody listens any more: the answer is of no use.
            let _ = answer.send(question(connection));
        });
        self.questions.send(question).await.map_err(|_| ended())?;
        answered.await.map_err(|_| ended())?.map_err(|error| failed(action, error))
    }
}

/// Answers questions until nobody can ask any more.
pub(super) fn serve(connection: &Connection, asked: &Questions) {
    loop {
        // Waiting happens inside the lock: the others wait for it, each takes one question.
        let question = asked.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        let Some(question) = question else { return };
        question(connection);
    }
}

pub(super) fn cell(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Cell>> {
    let mut statement = connection.prepare_cached("SELECT key, version, format, value FROM cells WHERE key = ?1")?;
    statement.query_row([key.as_bytes()], to_cell).optional()
}

pub(super) fn cells(
    connection: &Connection,
    prefix: &Key,
    beyond: Option<&Key>,
    direction: Direction,
    limit: usize,
) -> rusqlite::Result<Vec<Cell>> {
    let end = prefix.end_of_prefix();
    let (mut from, mut to) = (prefix.as_bytes(), end.as_slice());
    let sql = match direction {
        // What is greater than a key begins where the key with a zero behind it would stand, but no key does: `>` is enough,
        // since a key before the prefix leaves the prefix as the bound.
        Direction::Forward => {
            if let Some(key) = beyond.filter(|key| *key >= prefix) {
                from = key.as_bytes();
                "SELECT key, version, format, value FROM cells WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT ?3"
            } else {
                "SELECT key, version, format, value FROM cells WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3"
            }
        }
        Direction::Backward => {
            if let Some(key) = beyond {
                to = to.min(key.as_bytes());
            }
            "SELECT key, version, format, value FROM cells WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(params![from, to, limit.min(MAX_READ)], to_cell)?.collect()
}

pub(super) fn log(connection: &Connection, log: &LogName, after: u64, limit: usize) -> rusqlite::Result<Vec<Entry>> {
    let mut statement = connection.prepare_cached(
        "SELECT e.number, e.at, e.format, e.value FROM logs l JOIN entries e ON e.log = l.id
         WHERE l.name = ?1 AND e.number > ?2 ORDER BY e.number LIMIT ?3",
    )?;
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    statement.query_map(params![log.key().as_bytes(), after, limit.min(MAX_READ)], to_entry)?.collect()
}

pub(super) fn log_backward(
    connection: &Connection,
    log: &LogName,
    before: Option<u64>,
    limit: usize,
) -> rusqlite::Result<Vec<Entry>> {
    let mut statement = connection.prepare_cached(
        "SELECT e.number, e.at, e.format, e.value FROM logs l JOIN entries e ON e.log = l.id
         WHERE l.name = ?1 AND e.number < ?2 ORDER BY e.number DESC LIMIT ?3",
    )?;
    let before = before.and_then(|before| i64::try_from(before).ok()).unwrap_or(i64::MAX);
    statement.query_map(params![log.key().as_bytes(), before, limit.min(MAX_READ)], to_entry)?.collect()
}

pub(super) fn log_entries(connection: &Connection, log: &LogName, numbers: &[u64]) -> rusqlite::Result<Vec<Entry>> {
    // One transaction, so that a trim in between does not tear the answer.
    let transaction = connection.unchecked_transaction()?;
    let mut entries = Vec::with_capacity(numbers.len());
    {
        let mut statement = transaction.prepare_cached(
            "SELECT e.number, e.at, e.format, e.value FROM logs l JOIN entries e ON e.log = l.id
             WHERE l.name = ?1 AND e.number = ?2",
        )?;
        for number in numbers {
            let Ok(number) = i64::try_from(*number) else { continue };
            entries.extend(statement.query_row(params![log.key().as_bytes(), number], to_entry).optional()?);
        }
    }
    transaction.finish()?;
    Ok(entries)
}

pub(super) fn log_head(connection: &Connection, log: &LogName) -> rusqlite::Result<LogHead> {
    let mut statement = connection.prepare_cached("SELECT number, first, at FROM logs WHERE name = ?1")?;
    Ok(statement.query_row([log.key().as_bytes()], |row| head(row, 0)).optional()?.unwrap_or(LogHead::NONE))
}

pub(super) fn logs(
    connection: &Connection,
    prefix: &Key,
    beyond: Option<&LogName>,
    limit: usize,
) -> rusqlite::Result<Vec<(LogName, LogHead)>> {
    let (from, sql) = match beyond.map(LogName::key).filter(|key| *key >= prefix) {
        Some(key) => {
            (key, "SELECT name, number, first, at FROM logs WHERE name > ?1 AND name < ?2 ORDER BY name LIMIT ?3")
        }
        None => {
            (prefix, "SELECT name, number, first, at FROM logs WHERE name >= ?1 AND name < ?2 ORDER BY name LIMIT ?3")
        }
    };
    let read = |row: &Row<'_>| Ok((LogName::new(Key::stored(row.get(0)?)), head(row, 1)?));
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(params![from.as_bytes(), prefix.end_of_prefix(), limit.min(MAX_READ)], read)?.collect()
}

pub(super) fn blob(connection: &Connection, tenant: &[u8], hash: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached("SELECT bytes FROM blobs WHERE tenant = ?1 AND hash = ?2")?;
    statement.query_row([tenant, hash], |row| row.get(0)).optional()
}

/// What is wrong with the file, in SQLite's words, `most` lines of it; nothing for a whole one.
pub(super) fn damage(connection: &Connection, most: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA quick_check({most})"))?;
    let lines: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

fn to_cell(row: &Row<'_>) -> rusqlite::Result<Cell> {
    Ok(Cell { key: Key::stored(row.get(0)?), version: row.get(1)?, value: value(row, 2)? })
}

fn to_entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    Ok(Entry { number: row.get(0)?, at: Timestamp::from_micros(row.get(1)?), value: value(row, 2)? })
}
