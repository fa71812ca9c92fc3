//! What is stored, as the writer sees it inside its transaction, and how the effects of a batch are written.

use super::schema::failed;
use crate::error::Result;
use crate::evaluate::{Effect, Ground, Held, Plan};
use crate::key::{Key, LogName};
use crate::store::LogHead;
use crate::value::Value;
use placet_core::Timestamp;
use rusqlite::{Connection, OptionalExtension as _, Row, Statement, params};
use std::collections::HashMap;

/// How many logs' heads are kept between groups. A busy store has few logs that grow at one time.
const MAX_HEADS: usize = 10_000;

/// The writer's connection with its statements and the heads that it knows.
pub(super) struct Tables<'c> {
    statements: Statements<'c>,
    heads: HashMap<LogName, Head>,
    /// What the batch at hand changed in `heads`: restored when it cannot be written.
    before: Vec<(LogName, Option<Head>)>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    /// The log's row; `None` while there is none.
    id: Option<i64>,
    head: LogHead,
}

impl Head {
    const NONE: Head = Head { id: None, head: LogHead::NONE };
}

struct Statements<'c> {
    cell: Statement<'c>,
    set: Statement<'c>,
    count_up: Statement<'c>,
    remove: Statement<'c>,
    remove_prefix: Statement<'c>,
    head: Statement<'c>,
    new_log: Statement<'c>,
    move_head: Statement<'c>,
    move_first: Statement<'c>,
    append: Statement<'c>,
    trim: Statement<'c>,
    remove_log: Statement<'c>,
    remove_entries: Statement<'c>,
    put_blob: Statement<'c>,
    remove_blob: Statement<'c>,
}

impl<'c> Tables<'c> {
    pub(super) fn new(connection: &'c Connection) -> Result<Self> {
        let prepare = |sql: &str| connection.prepare(sql).map_err(|error| failed("preparing the store", error));
        let statements = Statements {
            cell: prepare("SELECT version, format, value FROM cells WHERE key = ?1")?,
            set: prepare(
                "INSERT INTO cells (key, version, format, value) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE \
                 SET version = excluded.version, format = excluded.format, value = excluded.value",
            )?,
            count_up: prepare(
                "INSERT INTO cells (key, version, format, value) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (key) DO UPDATE \
                 SET version = cells.version + 1, format = excluded.format, value = excluded.value",
            )?,
            remove: prepare("DELETE FROM cells WHERE key = ?1")?,
            remove_prefix: prepare("DELETE FROM cells WHERE key >= ?1 AND key < ?2")?,
            head: prepare("SELECT id, number, first, at FROM logs WHERE name = ?1")?,
            new_log: prepare("INSERT INTO logs (name, number, first, at) VALUES (?1, ?2, 1, ?3)")?,
            move_head: prepare("UPDATE logs SET number = ?2, at = ?3 WHERE id = ?1")?,
            move_first: prepare("UPDATE logs SET first = ?2 WHERE id = ?1")?,
            append: prepare("INSERT INTO entries (log, number, at, format, value) VALUES (?1, ?2, ?3, ?4, ?5)")?,
            trim: prepare("DELETE FROM entries WHERE log = ?1 AND number <= ?2")?,
            remove_log: prepare("DELETE FROM logs WHERE id = ?1")?,
            remove_entries: prepare("DELETE FROM entries WHERE log = ?1")?,
            put_blob: prepare("INSERT INTO blobs (tenant, hash, bytes) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")?,
            remove_blob: prepare("DELETE FROM blobs WHERE tenant = ?1 AND hash = ?2")?,
        };
        Ok(Tables { statements, heads: HashMap::new(), before: Vec::new() })
    }

    /// Forgets what it knows: another process has written, or a transaction was taken back.
    pub(super) fn forget(&mut self) {
        self.heads.clear();
        self.before.clear();
    }

    /// Between groups: keeps what it knows within bounds.
    pub(super) fn tidy(&mut self) {
        if self.heads.len() > MAX_HEADS {
            self.heads.clear();
        }
    }

    /// The batch at hand is written.
    pub(super) fn keep(&mut self) {
        self.before.clear();
    }

    /// The batch at hand was taken back.
    pub(super) fn restore(&mut self) {
        while let Some((log, head)) = self.before.pop() {
            match head {
                Some(head) => self.heads.insert(log, head),
                None => self.heads.remove(&log),
            };
        }
    }

    /// Writes the effects of a batch.
    pub(super) fn apply(&mut self, plan: &Plan<'_>) -> rusqlite::Result<()> {
        let instant = plan.committed.instant;
        for effect in &plan.effects {
            match effect {
                Effect::Append { log, number, value } => self.append(log, *number, instant, value)?,
                Effect::Set { key, version, value } => self.set(key, *version, value)?,
                Effect::Remove(key) => {
                    self.statements.remove.execute([key.as_bytes()])?;
                }
                Effect::RemovePrefix(prefix) => {
                    let end = prefix.end_of_prefix();
                    self.statements.remove_prefix.execute([prefix.as_bytes(), &end])?;
                }
                Effect::RemoveLog(log) => self.remove_log(log)?,
                Effect::Trim { log, through } => self.trim(log, *through)?,
            }
        }
        Ok(())
    }

    fn append(&mut self, log: &LogName, number: u64, instant: Timestamp, value: &Value) -> rusqlite::Result<()> {
        let known = self.known(log)?;
        let at = instant.as_micros();
        let id = match known.id {
            Some(id) => {
                self.statements.move_head.execute(params![id, number, at])?;
                id
            }
            None => self.statements.new_log.insert(params![log.key().as_bytes(), number, at])?,
        };
        self.statements.append.execute(params![id, number, at, value.format, value.bytes.as_ref()])?;
        let head = LogHead { number, at: Some(instant), ..known.head };
        self.learn(log, Head { id: Some(id), head });
        Ok(())
    }

    fn set(&mut self, key: &Key, version: Option<u64>, value: &Value) -> rusqlite::Result<()> {
        let (statement, version) = match version {
            Some(version) => (&mut self.statements.set, version),
            None => (&mut self.statements.count_up, 1),
        };
        statement.execute(params![key.as_bytes(), version, value.format, value.bytes.as_ref()])?;
        Ok(())
    }

    fn remove_log(&mut self, log: &LogName) -> rusqlite::Result<()> {
        if let Some(id) = self.known(log)?.id {
            self.statements.remove_entries.execute([id])?;
            self.statements.remove_log.execute([id])?;
            self.learn(log, Head::NONE);
        }
        Ok(())
    }

    fn trim(&mut self, log: &LogName, through: u64) -> rusqlite::Result<()> {
        let known = self.known(log)?;
        if let Some(id) = known.id {
            self.statements.trim.execute(params![id, through])?;
            self.statements.move_first.execute(params![id, through + 1])?;
            self.learn(log, Head { head: LogHead { first: through + 1, ..known.head }, ..known });
        }
        Ok(())
    }

    pub(super) fn put_blob(&mut self, tenant: &[u8], hash: &[u8], bytes: &[u8]) -> rusqlite::Result<()> {
        self.statements.put_blob.execute([tenant, hash, bytes]).map(drop)
    }

    pub(super) fn remove_blob(&mut self, tenant: &[u8], hash: &[u8]) -> rusqlite::Result<()> {
        self.statements.remove_blob.execute([tenant, hash]).map(drop)
    }

    fn known(&mut self, log: &LogName) -> rusqlite::Result<Head> {
        if let Some(head) = self.heads.get(log) {
            return Ok(*head);
        }
        let read = |row: &Row<'_>| Ok(Head { id: Some(row.get(0)?), head: head(row, 1)? });
        let found = self.statements.head.query_row([log.key().as_bytes()], read).optional()?.unwrap_or(Head::NONE);
        self.heads.insert(log.clone(), found);
        Ok(found)
    }

    fn learn(&mut self, log: &LogName, head: Head) {
        match self.heads.get_mut(log) {
            Some(known) => {
                self.before.push((log.clone(), Some(*known)));
                *known = head;
            }
            None => {
                self.before.push((log.clone(), None));
                self.heads.insert(log.clone(), head);
            }
        }
    }
}

impl Ground for Tables<'_> {
    fn cell(&mut self, key: &Key) -> Result<Option<Held>> {
        let read = |row: &Row<'_>| Ok(Held { version: row.get(0)?, value: value(row, 1)? });
        let held = self.statements.cell.query_row([key.as_bytes()], read).optional();
        held.map_err(|error| failed("reading a cell", error))
    }

    fn head(&mut self, log: &LogName) -> Result<LogHead> {
        Ok(self.known(log).map_err(|error| failed("reading a log's head", error))?.head)
    }
}

/// A head from the columns number, first, at.
pub(super) fn head(row: &Row<'_>, from: usize) -> rusqlite::Result<LogHead> {
    let at = Timestamp::from_micros(row.get(from + 2)?);
    Ok(LogHead { number: row.get(from)?, first: row.get(from + 1)?, at: Some(at) })
}

/// A value from the columns format, value.
pub(super) fn value(row: &Row<'_>, from: usize) -> rusqlite::Result<Value> {
    let bytes = row.get_ref(from + 1)?.as_blob()?;
    Ok(Value::new(row.get(from)?, bytes::Bytes::copy_from_slice(bytes)))
}
