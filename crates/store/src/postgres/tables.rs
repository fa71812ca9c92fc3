//! The committer's connection: the statements of a group, and how its arrays are laid out.

use super::Shared;
use super::group::{Group, Named, Read, ReadLog, Written};
use super::link::{failed, open};
use crate::error::Result;
use crate::evaluate::Held;
use crate::store::LogHead;
use crate::value::Value;
use futures_util::future::{join, join_all, join3};
use placet_core::Timestamp;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

const LOCK: &str = "
    SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(lock) ELSE pg_advisory_xact_lock_shared(lock) END
    FROM unnest($1::int8[], $2::bool[]) AS named(lock, exclusive)";

// Rows of three kinds: the instant, and the stamp that says whether this program still knows the tables; the cells that are there; all logs, with what their entries are stored under, which
// is made here for a log that is about to begin.
const READ: &str = "
    SELECT 0 AS kind, 0::int8 AS place, floor(extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS a,
        (SELECT layout FROM {s}.stamp LIMIT 1) AS b, NULL::int8 AS c, NULL::int8 AS id, 0 AS format, NULL::bytea AS value
    UNION ALL
    SELECT 1, named.place, cell.version, NULL, NULL, NULL, cell.format, CASE WHEN named.wanted THEN cell.value END
    FROM unnest($1::bytea[], $2::bool[]) WITH ORDINALITY AS named(key, wanted, place)
    JOIN {s}.cell AS cell ON cell.key = named.key
    UNION ALL
    SELECT 2, named.place, log.number, log.first, log.at,
        CASE WHEN log.id IS NULL AND named.appended THEN nextval('{s}.log_id') ELSE log.id END, 0, NULL
    FROM unnest($3::bytea[], $4::bool[]) WITH ORDINALITY AS named(name, appended, place)
    LEFT JOIN {s}.log AS log ON log.name = named.name";

const REMOVE_PREFIXES: &str = "
    DELETE FROM {s}.cell AS cell USING unnest($1::bytea[], $2::bytea[]) AS gone(low, high)
    WHERE cell.key >= gone.low AND cell.key < gone.high";

const REMOVE_CELLS: &str = "DELETE FROM {s}.cell WHERE key = ANY($1::bytea[])";

const REMOVE_ENTRIES: &str = "DELETE FROM {s}.entry WHERE log = ANY($1::int8[])";

const REMOVE_LOGS: &str = "DELETE FROM {s}.log WHERE name = ANY($1::bytea[])";

const TRIM: &str = "
    DELETE FROM {s}.entry AS entry USING unnest($1::int8[], $2::int8[]) AS trimmed(log, through)
    WHERE entry.log = trimmed.log AND entry.number <= trimmed.through";

// Everything that comes, in one statement: each answer of the server wakes two processes, and a group should wake few.
// Its parts do not see each other, and none needs to: they write different rows.
const WRITE: &str = "
    WITH put AS (
        INSERT INTO {s}.cell AS cell (key, version, format, value)
        SELECT * FROM unnest($1::bytea[], $2::int8[], $3::int4[], $4::bytea[])
        ON CONFLICT (key) DO UPDATE SET version = excluded.version, format = excluded.format, value = excluded.value
    ), counted AS (
        INSERT INTO {s}.cell AS cell (key, version, format, value)
        SELECT * FROM unnest($5::bytea[], $6::int8[], $7::int4[], $8::bytea[])
        ON CONFLICT (key) DO UPDATE
        SET version = cell.version + excluded.version, format = excluded.format, value = excluded.value
    ), appended AS (
        INSERT INTO {s}.entry (log, number, at, format, value)
        SELECT * FROM unnest($9::int8[], $10::int8[], $11::int8[], $12::int4[], $13::bytea[])
    )
    INSERT INTO {s}.log AS log (name, id, number, first, at)
    SELECT * FROM unnest($14::bytea[], $15::int8[], $16::int8[], $17::int8[], $18::int8[])
    ON CONFLICT (name) DO UPDATE SET number = excluded.number, first = excluded.first, at = excluded.at";

/// A column of what is written: an array.
type Column<'g> = &'g (dyn ToSql + Sync);

/// A statement that failed: what it was for, and how.
pub(super) type Failed = (&'static str, Error);

#[derive(Debug)]
pub(super) struct Tables {
    client: Client,
    lock: Statement,
    read: Statement,
    remove_prefixes: Statement,
    remove_cells: Statement,
    remove_entries: Statement,
    remove_logs: Statement,
    trim: Statement,
    write: Statement,
}

impl Tables {
    pub(super) async fn open(shared: &Shared) -> Result<Self> {
        let client = open(shared, "commit").await?;
        let prepared = async {
            Ok(Tables {
                lock: prepare(shared, &client, LOCK).await?,
                read: prepare(shared, &client, READ).await?,
                remove_prefixes: prepare(shared, &client, REMOVE_PREFIXES).await?,
                remove_cells: prepare(shared, &client, REMOVE_CELLS).await?,
                remove_entries: prepare(shared, &client, REMOVE_ENTRIES).await?,
                remove_logs: prepare(shared, &client, REMOVE_LOGS).await?,
                trim: prepare(shared, &client, TRIM).await?,
                write: prepare(shared, &client, WRITE).await?,
                client,
            })
        };
        prepared.await.map_err(|error| failed(shared, "preparing to write", error))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Begins a transaction, takes the locks and reads what is named, in one round trip.
    pub(super) async fn begin(&self, named: &Named<'_>, locks: &[i64], exclusive: &[bool]) -> Result<Vec<Row>, Failed> {
        let (keys, wanted): (Vec<&[u8]>, Vec<bool>) =
            named.cells.iter().map(|(key, used)| (key.as_bytes(), used.value)).unzip();
        let (logs, appended): (Vec<&[u8]>, Vec<bool>) =
            named.logs.iter().map(|(log, used)| (log.key().as_bytes(), used.appended)).unzip();
        // Sent one behind the other, in this order: each is a statement of its own, so the second sees what was committed
        // until the first had its locks.
        let (begun, locked, read) = join3(
            self.client.batch_execute("BEGIN"),
            self.client.execute(&self.lock, &[&locks, &exclusive]),
            self.client.query(&self.read, &[&keys, &wanted, &logs, &appended]),
        )
        .await;
        begun.map_err(|error| ("beginning a transaction", error))?;
        locked.map_err(|error| ("locking what batches name", error))?;
        read.map_err(|error| ("reading what batches name", error))
    }

    pub(super) async fn roll_back(&self) -> Result<(), Error> {
        self.client.batch_execute("ROLLBACK").await
    }

    /// Writes and commits in one round trip. Gives the first statement that failed, and how the commit went.
    pub(super) async fn write(&self, writes: &Writes<'_>) -> (Result<(), Failed>, Result<(), Error>) {
        let Writes { gone, removed, put, counted, removed_logs, trimmed, entries, heads } = writes;
        let comes = [put.columns(), counted.columns(), entries.columns(), heads.columns()].concat();
        // Each with its columns and how many rows they have. What goes, goes before anything comes.
        let statements: [(&'static str, &Statement, Vec<Column<'_>>, usize); 6] = [
            ("removing cells by prefix", &self.remove_prefixes, vec![&gone.low, &gone.high], gone.low.len()),
            ("removing cells", &self.remove_cells, vec![removed], removed.len()),
            ("removing entries", &self.remove_entries, vec![&removed_logs.ids], removed_logs.ids.len()),
            ("removing logs", &self.remove_logs, vec![&removed_logs.names], removed_logs.names.len()),
            ("trimming logs", &self.trim, vec![&trimmed.ids, &trimmed.through], trimmed.ids.len()),
            (
                "writing",
                &self.write,
                comes,
                put.keys.len() + counted.keys.len() + entries.ids.len() + heads.names.len(),
            ),
        ];
        let sent = statements.iter().filter(|(.., rows)| *rows > 0).map(|(action, statement, columns, _)| async move {
            self.client.execute(*statement, columns).await.map(drop).map_err(|error| (*action, error))
        });
        let (written, ended) = join(join_all(sent), self.client.batch_execute("COMMIT")).await;
        (written.into_iter().collect(), ended)
    }
}

/// A prepared statement of this schema.
pub(super) async fn prepare(shared: &Shared, client: &Client, sql: &str) -> Result<Statement, Error> {
    client.prepare(&shared.schema.sql(sql)).await
}

impl<'b> Named<'b> {
    /// Puts the rows of a group's reading together, and gives what the stamp says beside.
    pub(super) fn read(&self, rows: &[Row]) -> Result<(Read<'b>, Option<i64>), Error> {
        let mut layout = None;
        let keys: Vec<_> = self.cells.keys().copied().collect();
        let names: Vec<_> = self.logs.keys().copied().collect();
        let mut read = Read { cells: keys.iter().map(|key| (*key, None)).collect(), ..Read::default() };
        for row in rows {
            let place = usize::try_from(row.try_get::<_, i64>(1)? - 1).unwrap_or(usize::MAX);
            match (row.try_get::<_, i32>(0)?, keys.get(place), names.get(place)) {
                (1, Some(key), _) => {
                    let version = row.try_get::<_, i64>(2)?.cast_unsigned();
                    read.cells.insert(*key, Some(Held { version, value: value(row, 6)? }));
                }
                (2, _, Some(log)) => {
                    let number: Option<i64> = row.try_get(2)?;
                    let head = if number.is_some() { head(row, 2)? } else { LogHead::NONE };
                    read.logs.insert(*log, ReadLog { id: row.try_get(5)?, head });
                }
                _ => {
                    read.now = Timestamp::from_micros(row.try_get(2)?);
                    layout = row.try_get(3)?;
                }
            }
        }
        Ok((read, layout))
    }
}

/// A value from the columns format, value; empty where the value was not asked for.
pub(super) fn value(row: &Row, from: usize) -> Result<Value, Error> {
    let format: i32 = row.try_get(from)?;
    let bytes: Option<&[u8]> = row.try_get(from + 1)?;
    // Only formats of 16 bits are written.
    Ok(Value::new(u16::try_from(format).unwrap_or(u16::MAX), bytes.unwrap_or_default().to_vec()))
}

/// A head from the columns number, first, at.
pub(super) fn head(row: &Row, from: usize) -> Result<LogHead, Error> {
    let at: i64 = row.try_get(from + 2)?;
    Ok(LogHead {
        number: row.try_get::<_, i64>(from)?.cast_unsigned(),
        first: row.try_get::<_, i64>(from + 1)?.cast_unsigned(),
        at: Some(Timestamp::from_micros(at)),
    })
}

/// What a group writes, as the columns of its statements.
#[derive(Debug, Default)]
pub(super) struct Writes<'g> {
    gone: Prefixes<'g>,
    removed: Vec<&'g [u8]>,
    put: Cells<'g>,
    counted: Cells<'g>,
    removed_logs: RemovedLogs<'g>,
    trimmed: Trimmed,
    entries: Entries<'g>,
    heads: LogHeads<'g>,
}

#[derive(Debug, Default)]
struct Prefixes<'g> {
    low: Vec<&'g [u8]>,
    high: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Cells<'g> {
    keys: Vec<&'g [u8]>,
    versions: Vec<i64>,
    formats: Vec<i32>,
    values: Vec<&'g [u8]>,
}

impl<'g> Cells<'g> {
    fn push(&mut self, key: &'g [u8], version: u64, value: &'g Value) {
        self.keys.push(key);
        self.versions.push(version.cast_signed());
        self.formats.push(i32::from(value.format));
        self.values.push(&value.bytes);
    }

    fn columns(&self) -> Vec<Column<'_>> {
        vec![&self.keys, &self.versions, &self.formats, &self.values]
    }
}

#[derive(Debug, Default)]
struct RemovedLogs<'g> {
    ids: Vec<i64>,
    names: Vec<&'g [u8]>,
}

#[derive(Debug, Default)]
struct Trimmed {
    ids: Vec<i64>,
    through: Vec<i64>,
}

#[derive(Debug, Default)]
struct Entries<'g> {
    ids: Vec<i64>,
    numbers: Vec<i64>,
    at: Vec<i64>,
    formats: Vec<i32>,
    values: Vec<&'g [u8]>,
}

impl Entries<'_> {
    fn columns(&self) -> Vec<Column<'_>> {
        vec![&self.ids, &self.numbers, &self.at, &self.formats, &self.values]
    }
}

#[derive(Debug, Default)]
struct LogHeads<'g> {
    names: Vec<&'g [u8]>,
    ids: Vec<i64>,
    numbers: Vec<i64>,
    first: Vec<i64>,
    at: Vec<i64>,
}

impl LogHeads<'_> {
    fn columns(&self) -> Vec<Column<'_>> {
        vec![&self.names, &self.ids, &self.numbers, &self.first, &self.at]
    }
}

impl<'g> Writes<'g> {
    pub(super) fn of(group: &'g Group<'_>) -> Self {
        let mut writes = Writes::default();
        for prefix in &group.gone {
            writes.gone.low.push(prefix.as_bytes());
            writes.gone.high.push(prefix.end_of_prefix());
        }
        // In the order of their keys, in every process: a filled-in key that two groups put at once is locked in order.
        for (key, written) in &group.cells {
            match written {
                Written::Held(held) => writes.put.push(key.as_bytes(), held.version, &held.value),
                Written::Counted(times, value) => writes.counted.push(key.as_bytes(), *times, value),
                Written::Removed => writes.removed.push(key.as_bytes()),
            }
        }
        for (log, written) in &group.logs {
            let name = log.key().as_bytes();
            // A log without an id was not there and gets nothing.
            let Some(id) = written.id else { continue };
            if written.removed {
                writes.removed_logs.ids.push(id);
                writes.removed_logs.names.push(name);
            } else if written.trimmed > 0 {
                writes.trimmed.ids.push(id);
                writes.trimmed.through.push(written.trimmed.cast_signed());
            }
            for (number, at, value) in &written.entries {
                writes.entries.ids.push(id);
                writes.entries.numbers.push(number.cast_signed());
                writes.entries.at.push(at.as_micros());
                writes.entries.formats.push(i32::from(value.format));
                writes.entries.values.push(&value.bytes);
            }
            if let Some(at) = written.head.at {
                writes.heads.names.push(name);
                writes.heads.ids.push(id);
                writes.heads.numbers.push(written.head.number.cast_signed());
                writes.heads.first.push(written.head.first.cast_signed());
                writes.heads.at.push(at.as_micros());
            }
        }
        writes
    }
}
