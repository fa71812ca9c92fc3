//! The file: its tables, its stamp, and how a connection to it is opened.

use super::turns::{Turns, private};
use crate::error::{Result, StoreError};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

/// The schema that this program writes, and the newest that it knows.
pub(super) const SCHEMA: i64 = 1;

/// Marks a file as ours: `PLCT`.
const APPLICATION: i64 = 0x504C_4354;

/// How long SQLite itself waits for a lock that a foreign program holds on the file.
const BUSY: Duration = Duration::from_secs(5);

/// Bytes of a write-ahead log beyond which an opening puts it into the file.
const LONG_LOG: u64 = 1 << 20;

const TABLES: &str = "
    CREATE TABLE cells (
        key BLOB NOT NULL PRIMARY KEY,
        version INTEGER NOT NULL,
        format INTEGER NOT NULL,
        value BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE logs (
        id INTEGER PRIMARY KEY,
        name BLOB NOT NULL UNIQUE,
        number INTEGER NOT NULL,
        first INTEGER NOT NULL,
        at INTEGER NOT NULL
    );
    CREATE TABLE entries (
        log INTEGER NOT NULL,
        number INTEGER NOT NULL,
        at INTEGER NOT NULL,
        format INTEGER NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (log, number)
    ) WITHOUT ROWID;
    CREATE TABLE blobs (
        tenant BLOB NOT NULL,
        hash BLOB NOT NULL,
        bytes BLOB NOT NULL,
        UNIQUE (tenant, hash)
    );
";

/// Opens the connection that writes; makes the tables of a new file. Tried again while the file is busy, `patience` long.
pub(super) fn open_writer(path: &Path, turns: &Turns, patience: Duration) -> Result<Connection> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        let opened = {
            let _turn = turns.take().map_err(|error| no_turn(path, &error))?;
            try_open_writer(path)
        };
        match opened {
            // Recovery, a checkpoint at the end of another process, a backup: these pass.
            Err(StoreError::Unavailable { .. }) if waited < patience => {
                #[expect(clippy::disallowed_methods, reason = "opening blocks by contract, and no clock can wake it")]
                std::thread::sleep(PAUSE);
                waited += PAUSE;
            }
            other => return other,
        }
    }
}

fn try_open_writer(path: &Path) -> Result<Connection> {
    // SQLite would let everybody read what it makes; its write-ahead log takes the permissions of the file. Only a file
    // that is not there is opened here: closing one would take SQLite's own locks on it away. What goes wrong with the
    // making, SQLite meets again and tells.
    let _ = private(OpenOptions::new().write(true).create_new(true)).open(path);
    let connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    let fresh = check_stamp(path, &connection)? == 0;
    let begin = |error| failed("opening the store", error);
    // Nothing of a foreign file is changed: the stamp was looked at first.
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;
             PRAGMA wal_autocheckpoint = 4000;",
        )
        .map_err(begin)?;
    // Whoever ended without closing left a log, which every opening reads from its beginning until it is in the file.
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(log).is_ok_and(|log| log.len() > LONG_LOG) {
        // Where others read or write at this moment, it is done by them or by whoever opens next.
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
    if fresh {
        let made = format!(
            "BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA}; COMMIT;"
        );
        connection.execute_batch(&made).map_err(begin)?;
    }
    Ok(connection)
}

/// Opens a connection that only reads.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = connect(path, OpenFlags::empty())?;
    let set = |error| failed("opening the store", error);
    connection.execute_batch("PRAGMA query_only = ON;").map_err(set)?;
    // The writer's connection looks after the file when it ends.
    connection.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(set)?;
    Ok(connection)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection> {
    // Each connection belongs to one thread, so SQLite need not lock for us.
    let flags = flags | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failed("opening the store", error))?;
    connection.busy_timeout(BUSY).map_err(|error| failed("opening the store", error))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The schema of the file, 0 for a new one.
///
/// # Errors
/// When the file is somebody else's, or of a newer schema.
pub(super) fn check_stamp(path: &Path, connection: &Connection) -> Result<i64> {
    let place = || path.display().to_string();
    let foreign = |problem: &str| StoreError::NotAStore { place: place(), problem: problem.to_owned() };
    let pragma = |name: &str| {
        connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(|error| {
            match error.sqlite_error_code() {
                Some(ErrorCode::NotADatabase) => foreign("it is no SQLite file"),
                _ => failed("reading the store's stamp", error),
            }
        })
    };
    let (application, schema) = (pragma("application_id")?, pragma("user_version")?);
    if application == APPLICATION {
        if schema > SCHEMA {
            return Err(StoreError::NewerSchema { place: place(), found: schema, known: SCHEMA });
        }
        return Ok(schema);
    }
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| failed("reading the store's stamp", error))?;
    if application != 0 || tables != 0 {
        return Err(foreign("it is a SQLite file of another program"));
    }
    Ok(0)
}

pub(super) fn no_turn(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable { cause: format!("the lock files beside {}: {error}", path.display()) }
}

/// An error of SQLite as ours.
pub(super) fn failed(action: &'static str, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::CannotOpen) => {
            StoreError::Unavailable { cause: format!("{action}: {error}") }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Corrupt { what: format!("{action}: {error}") }
        }
        // The file's own types are not enforced: what has another one was not written by this program.
        None if matches!(
            error,
            rusqlite::Error::InvalidColumnType(..)
                | rusqlite::Error::FromSqlConversionFailure(..)
                | rusqlite::Error::IntegralValueOutOfRange(..)
        ) =>
        {
            StoreError::Corrupt { what: format!("{action}: a value of another type than was written") }
        }
        _ => StoreError::Backend { action, source: Box::new(error) },
    }
}
