//! The tables, in one PostgreSQL schema, and the stamp that says which layout they have.

use super::Shared;
use super::link::{failed, open};
use crate::error::{Result, StoreError};
use sha2::{Digest as _, Sha256};
use tokio_postgres::Client;

/// The layout that this program writes.
pub(super) const KNOWN: i64 = 1;

// Keys and names of logs are in their encoded form, whose bytes sort as the tuples do. Entries are stored under a small
// number in place of their log's name; heads are rewritten all the time and have room for that on their pages.
const TABLES: &str = "
    CREATE TABLE {s}.stamp (layout int8 NOT NULL, made_at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE {s}.cell (
        key bytea PRIMARY KEY,
        version int8 NOT NULL,
        format int4 NOT NULL,
        value bytea NOT NULL
    ) WITH (fillfactor = 80);
    CREATE SEQUENCE {s}.log_id;
    CREATE TABLE {s}.log (
        name bytea PRIMARY KEY,
        id int8 NOT NULL,
        number int8 NOT NULL,
        first int8 NOT NULL,
        at int8 NOT NULL
    ) WITH (fillfactor = 50);
    CREATE TABLE {s}.entry (
        log int8,
        number int8,
        at int8 NOT NULL,
        format int4 NOT NULL,
        value bytea NOT NULL,
        PRIMARY KEY (log, number)
    );
    CREATE TABLE {s}.blob (
        tenant bytea,
        id bytea,
        bytes bytea NOT NULL,
        PRIMARY KEY (tenant, id)
    );
    ALTER TABLE {s}.blob ALTER bytes SET STORAGE EXTERNAL;
";

/// The longest name that PostgreSQL keeps whole.
const MAX_NAME_BYTES: usize = 63;

/// The PostgreSQL schema that holds a store.
#[derive(Clone, Debug)]
pub(super) struct Schema {
    name: String,
    quoted: String,
}

impl Schema {
    pub(super) fn new(name: &str) -> Result<Self> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') || name.starts_with("pg_") {
            let problem = format!(
                "the name of a PostgreSQL schema has 1 to {MAX_NAME_BYTES} bytes and does not begin with pg_: {name:?}"
            );
            return Err(StoreError::Misuse { problem });
        }
        Ok(Schema { name: name.to_owned(), quoted: format!("\"{}\"", name.replace('"', "\"\"")) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// A statement with this schema in every place of `{s}`.
    pub(super) fn sql(&self, statement: &str) -> String {
        statement.replace("{s}", &self.quoted)
    }

    /// The channel of its notifications.
    pub(super) fn channel(&self) -> String {
        format!("placet_{:016x}", self.hash("channel"))
    }

    fn hash(&self, of: &str) -> i64 {
        let hash = Sha256::new().chain_update(&self.name).chain_update([0]).chain_update(of).finalize();
        let mut word = [0; 8];
        word.copy_from_slice(&hash[..8]);
        i64::from_be_bytes(word)
    }
}

/// Checks the stamp; makes the tables where there is nothing yet.
pub(super) async fn prepare(shared: &Shared) -> Result<()> {
    let client = open(shared, "schema").await?;
    if let Some(layout) = stamp(shared, &client).await? {
        return check(shared, layout);
    }
    let fail = |error| failed(shared, "making the tables", error);
    // Of several processes that start at once, one makes the tables. The lock goes with the connection. It is taken before
    // the transaction begins: inside, what others have made meanwhile may not be found by its name.
    let lock = shared.schema.hash("schema");
    client.execute("SELECT pg_advisory_lock($1)", &[&lock]).await.map_err(fail)?;
    if let Some(layout) = stamp(shared, &client).await? {
        return check(shared, layout);
    }
    let count = "SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace($1)";
    let row = client.query_one(count, &[&shared.schema.quoted]).await.map_err(fail)?;
    let others: i64 = row.try_get(0).map_err(fail)?;
    if others > 0 {
        let problem = format!("its schema {} holds something else and no stamp", shared.schema.quoted);
        return Err(StoreError::NotAStore { place: shared.place(), problem });
    }
    let row =
        client.query_one("SELECT to_regnamespace($1) IS NOT NULL", &[&shared.schema.quoted]).await.map_err(fail)?;
    let exists: bool = row.try_get(0).map_err(fail)?;
    client.batch_execute("BEGIN").await.map_err(fail)?;
    // Who may not make schemas can be given an empty one.
    if !exists {
        client.batch_execute(&shared.schema.sql("CREATE SCHEMA {s}")).await.map_err(fail)?;
    }
    client.batch_execute(&shared.schema.sql(TABLES)).await.map_err(fail)?;
    let stamp = shared.schema.sql(&format!("INSERT INTO {{s}}.stamp (layout) VALUES ({KNOWN})"));
    client.batch_execute(&stamp).await.map_err(fail)?;
    client.batch_execute("COMMIT").await.map_err(fail)
}

async fn stamp(shared: &Shared, client: &Client) -> Result<Option<i64>> {
    let fail = |error| failed(shared, "reading the stamp", error);
    let table = format!("{}.stamp", shared.schema.quoted);
    let row = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&table]).await.map_err(fail)?;
    if !row.try_get::<_, bool>(0).map_err(fail)? {
        return Ok(None);
    }
    let not_ours = |problem: String| StoreError::NotAStore { place: shared.place(), problem };
    let rows = client.query(&shared.schema.sql("SELECT layout FROM {s}.stamp LIMIT 1"), &[]).await;
    let rows = rows.map_err(|error| match error.as_db_error() {
        Some(told) if told.code() == &tokio_postgres::error::SqlState::UNDEFINED_COLUMN => {
            not_ours(format!("its table {table} is another program's"))
        }
        _ => fail(error),
    })?;
    match rows.first().map(|row| row.try_get(0)) {
        Some(Ok(layout)) => Ok(Some(layout)),
        Some(Err(_)) => Err(not_ours(format!("its table {table} is another program's"))),
        None => Err(not_ours(format!("its table {table} is empty"))),
    }
}

fn check(shared: &Shared, layout: i64) -> Result<()> {
    if layout == KNOWN { Ok(()) } else { Err(other_layout(shared, Some(layout))) }
}

/// The error of a store whose stamp says something else than what this program writes.
pub(super) fn other_layout(shared: &Shared, layout: Option<i64>) -> StoreError {
    let place = shared.place();
    match layout {
        Some(found) if found > KNOWN => StoreError::NewerSchema { place, found, known: KNOWN },
        Some(found) => StoreError::NotAStore { place, problem: format!("its stamp says {found}") },
        None => StoreError::NotAStore { place, problem: "its stamp is gone".to_owned() },
    }
}
