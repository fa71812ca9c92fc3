//! Reading: a few connections on which reads go out one behind the other, without waiting for each other's answers.

use super::Shared;
use super::link::{PATIENCE, failed, is_lost, open};
use super::tables::{head, prepare, value};
use crate::error::{Result, StoreError};
use crate::key::{Key, LogName};
use crate::store::{Cell, Direction, Entry, LogHead, MAX_READ};
use futures_util::future::{join_all, try_join_all};
use placet_core::Timestamp;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

/// Something that is asked of the tables outside of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Now,
    Cell,
    Cells,
    CellsBackward,
    Log,
    LogBackward,
    LogEntries,
    LogHead,
    Logs,
    PutBlob,
    Blob,
    RemoveBlob,
    Notify,
}

impl Ask {
    // In the order of the variants.
    const ALL: [Ask; 13] = [
        Ask::Now,
        Ask::Cell,
        Ask::Cells,
        Ask::CellsBackward,
        Ask::Log,
        Ask::LogBackward,
        Ask::LogEntries,
        Ask::LogHead,
        Ask::Logs,
        Ask::PutBlob,
        Ask::Blob,
        Ask::RemoveBlob,
        Ask::Notify,
    ];

    fn sql(self) -> &'static str {
        match self {
            Ask::Now => "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::int8",
            Ask::Cell => "SELECT key, version, format, value FROM {s}.cell WHERE key = $1",
            Ask::Cells => {
                "SELECT key, version, format, value FROM {s}.cell WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3"
            }
            Ask::CellsBackward => {
                "SELECT key, version, format, value FROM {s}.cell WHERE key >= $1 AND key < $2 ORDER BY key DESC LIMIT $3"
            }
            Ask::Log => {
                "SELECT number, at, format, value FROM {s}.entry
                WHERE log = (SELECT id FROM {s}.log WHERE name = $1) AND number > $2 ORDER BY number LIMIT $3"
            }
            Ask::LogBackward => {
                "SELECT number, at, format, value FROM {s}.entry
                WHERE log = (SELECT id FROM {s}.log WHERE name = $1) AND number < $2 ORDER BY number DESC LIMIT $3"
            }
            Ask::LogEntries => {
                "SELECT number, at, format, value FROM {s}.entry
                WHERE log = (SELECT id FROM {s}.log WHERE name = $1) AND number = ANY($2::int8[])"
            }
            Ask::LogHead => "SELECT number, first, at FROM {s}.log WHERE name = $1",
            Ask::Logs => {
                "SELECT name, number, first, at FROM {s}.log WHERE name >= $1 AND name < $2 ORDER BY name LIMIT $3"
            }
            Ask::PutBlob => "INSERT INTO {s}.blob (tenant, id, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            Ask::Blob => "SELECT bytes FROM {s}.blob WHERE tenant = $1 AND id = $2",
            Ask::RemoveBlob => "DELETE FROM {s}.blob WHERE tenant = $1 AND id = $2",
            Ask::Notify => "SELECT pg_notify($1, $2)",
        }
    }

    fn action(self) -> &'static str {
        match self {
            Ask::Now => "reading the clock",
            Ask::Cell => "reading a cell",
            Ask::Cells | Ask::CellsBackward => "reading cells",
            Ask::Log => "reading a log",
            Ask::LogBackward => "reading a log backward",
            Ask::LogEntries => "reading entries",
            Ask::LogHead => "reading a log's head",
            Ask::Logs => "listing logs",
            Ask::PutBlob => "writing a blob",
            Ask::Blob => "reading a blob",
            Ask::RemoveBlob => "removing a blob",
            Ask::Notify => "telling of growth",
        }
    }
}

#[derive(Debug)]
struct Reader {
    client: Client,
    statements: Vec<Statement>,
}

impl Reader {
    async fn open(shared: &Shared) -> Result<Self> {
        let client = open(shared, "read").await?;
        let statements = try_join_all(Ask::ALL.map(|ask| prepare(shared, &client, ask.sql()))).await;
        let statements = statements.map_err(|error| failed(shared, "preparing to read", error))?;
        Ok(Reader { client, statements })
    }
}

/// The connections, each opened when it is first needed.
#[derive(Debug)]
pub(super) struct Readers {
    places: Vec<Mutex<Option<Arc<Reader>>>>,
    turn: AtomicUsize,
}

impl Readers {
    pub(super) fn new(count: usize) -> Self {
        Readers { places: (0..count.max(1)).map(|_| Mutex::default()).collect(), turn: AtomicUsize::new(0) }
    }

    async fn reader(&self, shared: &Shared) -> Result<Arc<Reader>> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.places.len();
        let mut place = self.places[turn].lock().await;
        match place.as_ref() {
            Some(reader) if !reader.client.is_closed() => Ok(reader.clone()),
            _ => {
                let reader = Arc::new(Reader::open(shared).await?);
                *place = Some(reader.clone());
                Ok(reader)
            }
        }
    }

    /// Opens all connections, so that wrong settings are found now.
    pub(super) async fn open(&self, shared: &Shared) -> Result<()> {
        join_all(self.places.iter().map(|_| self.reader(shared)))
            .await
            .into_iter()
            .try_for_each(|opened| opened.map(drop))
    }
}

impl Shared {
    /// Asks something that may be asked twice; again while the server is away for a moment.
    pub(super) async fn ask(&self, ask: Ask, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        let mut waits = PATIENCE.into_iter();
        loop {
            let error = match self.readers.reader(self).await {
                Ok(reader) => match reader.client.query(&reader.statements[ask as usize], params).await {
                    Ok(rows) => return Ok(rows),
                    Err(error) if is_lost(&error) => failed(self, ask.action(), error),
                    Err(error) => return Err(failed(self, ask.action(), error)),
                },
                Err(error @ StoreError::Unavailable { .. }) => error,
                Err(error) => return Err(error),
            };
            match waits.next() {
                None => return Err(error),
                Some(Duration::ZERO) => {}
                Some(wait) => self.env.sleep(wait).await,
            }
        }
    }

    pub(super) fn damaged(&self, error: &Error) -> StoreError {
        StoreError::Corrupt { what: format!("{}: {}", self.place(), super::link::told(error)) }
    }

    pub(super) async fn clock(&self) -> Result<Timestamp> {
        let rows = self.ask(Ask::Now, &[]).await?;
        let now = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(|error| self.damaged(&error))?;
        Ok(Timestamp::from_micros(now))
    }

    pub(super) async fn read_cell(&self, key: &Key) -> Result<Option<Cell>> {
        let rows = self.ask(Ask::Cell, &[&key.as_bytes()]).await?;
        rows.first().map(|row| cell(row).map_err(|error| self.damaged(&error))).transpose()
    }

    pub(super) async fn read_cells(
        &self,
        prefix: &Key,
        beyond: Option<&Key>,
        direction: Direction,
        limit: usize,
    ) -> Result<Vec<Cell>> {
        let (mut low, mut high) = (prefix.as_bytes().to_vec(), prefix.end_of_prefix());
        let ask = match direction {
            Direction::Forward => {
                low = low.max(beyond.map(behind).unwrap_or_default());
                Ask::Cells
            }
            Direction::Backward => {
                if let Some(beyond) = beyond {
                    high = high.min(beyond.as_bytes().to_vec());
                }
                Ask::CellsBackward
            }
        };
        let rows = self.ask(ask, &[&low, &high, &page(limit)]).await?;
        rows.iter().map(|row| cell(row).map_err(|error| self.damaged(&error))).collect()
    }

    pub(super) async fn read_log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>> {
        let rows = self.ask(Ask::Log, &[&log.key().as_bytes(), &clamped(after), &page(limit)]).await?;
        self.entries(&rows)
    }

    pub(super) async fn read_log_backward(
        &self,
        log: &LogName,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<Entry>> {
        let before = before.map_or(i64::MAX, clamped);
        let rows = self.ask(Ask::LogBackward, &[&log.key().as_bytes(), &before, &page(limit)]).await?;
        self.entries(&rows)
    }

    pub(super) async fn read_log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>> {
        let wanted: Vec<i64> = numbers.iter().filter_map(|number| i64::try_from(*number).ok()).collect();
        let rows = self.ask(Ask::LogEntries, &[&log.key().as_bytes(), &wanted]).await?;
        let mut found = self.entries(&rows)?;
        found.sort_unstable_by_key(|entry| entry.number);
        let entry =
            |number: &u64| found.binary_search_by_key(number, |entry| entry.number).ok().map(|at| found[at].clone());
        Ok(numbers.iter().filter_map(entry).collect())
    }

    pub(super) async fn read_head(&self, log: &LogName) -> Result<LogHead> {
        let rows = self.ask(Ask::LogHead, &[&log.key().as_bytes()]).await?;
        let read = rows.first().map(|row| head(row, 0)).transpose().map_err(|error| self.damaged(&error))?;
        Ok(read.unwrap_or(LogHead::NONE))
    }

    pub(super) async fn read_logs(
        &self,
        prefix: &Key,
        beyond: Option<&LogName>,
        limit: usize,
    ) -> Result<Vec<(LogName, LogHead)>> {
        let low = prefix.as_bytes().to_vec().max(beyond.map(|log| behind(log.key())).unwrap_or_default());
        let rows = self.ask(Ask::Logs, &[&low, &prefix.end_of_prefix(), &page(limit)]).await?;
        let log = |row: &Row| Ok((LogName::new(Key::stored(row.try_get(0)?)), head(row, 1)?));
        rows.iter().map(|row| log(row).map_err(|error: Error| self.damaged(&error))).collect()
    }

    fn entries(&self, rows: &[Row]) -> Result<Vec<Entry>> {
        rows.iter().map(|row| entry(row).map_err(|error| self.damaged(&error))).collect()
    }
}

fn cell(row: &Row) -> Result<Cell, Error> {
    let version: i64 = row.try_get(1)?;
    Ok(Cell { key: Key::stored(row.try_get(0)?), version: version.cast_unsigned(), value: value(row, 2)? })
}

fn entry(row: &Row) -> Result<Entry, Error> {
    let number: i64 = row.try_get(0)?;
    Ok(Entry { number: number.cast_unsigned(), at: Timestamp::from_micros(row.try_get(1)?), value: value(row, 2)? })
}

/// The least bytes beyond a key.
fn behind(key: &Key) -> Vec<u8> {
    let mut bytes = key.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn page(limit: usize) -> i64 {
    i64::try_from(limit.min(MAX_READ)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::Ask;

    #[test]
    fn every_ask_has_its_statement() {
        assert!(Ask::ALL.iter().enumerate().all(|(place, ask)| *ask as usize == place));
    }
}
