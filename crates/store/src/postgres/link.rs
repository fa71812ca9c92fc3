//! Connections: how one is opened, what holds on all of them, and what their errors mean.

use super::Shared;
use crate::error::{Result, StoreError};
use futures_util::future::{Either, select};
use std::error::Error as _;
use std::time::Duration;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{Client, Connection, Error, NoTls, Socket};

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(15);

/// How long to wait before each further attempt where the server is away: it is given about five seconds to come back.
pub(super) const PATIENCE: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(1500),
    Duration::from_millis(1500),
];

// Every statement here finds its rows by a primary key. What the planner believes of tables that were never analysed must
// not lead it elsewhere, and a plan is made once for each connection. A process that stands still in the middle of a
// group holds the locks of its keys: the server ends it. Whatever the server's defaults are, a commit is durable.
const SETTINGS: &str = "
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan;
    SET jit = off;
    SET lock_timeout = 0;
    SET statement_timeout = 0;
    SET idle_in_transaction_session_timeout = '30s';
    SET client_min_messages = warning;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
";

pub(super) type RawConnection = Connection<Socket, NoTlsStream>;

/// Opens a connection that the caller drives itself.
pub(super) async fn open_raw(shared: &Shared, role: &str) -> Result<(Client, RawConnection)> {
    let config = shared.target.config(&format!("placet/{}/{role}", shared.schema.name()));
    let opening = Box::pin(config.connect(NoTls));
    match select(opening, shared.env.sleep(HANDSHAKE)).await {
        Either::Left((Ok(opened), _)) => Ok(opened),
        Either::Left((Err(error), _)) => Err(away(shared, &told(&error))),
        Either::Right(_) => Err(away(shared, "it did not answer in time")),
    }
}

/// Opens a connection that is driven in the background, until its client is dropped.
pub(super) async fn open(shared: &Shared, role: &str) -> Result<Client> {
    let (client, connection) = open_raw(shared, role).await?;
    shared.env.spawn("PostgreSQL connection", async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = %told(&error), "a connection to PostgreSQL ended");
        }
    });
    client.batch_execute(SETTINGS).await.map_err(|error| failed(shared, "setting up a connection", error))?;
    Ok(client)
}

fn away(shared: &Shared, cause: &str) -> StoreError {
    StoreError::Unavailable { cause: format!("PostgreSQL at {}: {cause}", shared.target.place()) }
}

/// The error of something that wrote nothing.
pub(super) fn failed(shared: &Shared, action: &'static str, error: Error) -> StoreError {
    if is_lost(&error) {
        away(shared, &told(&error))
    } else {
        StoreError::Backend { action, source: told(&error).into() }
    }
}

/// Whether the connection is gone: what was asked last may have been done or not.
pub(super) fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(told) => {
            matches!(told.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
                || told.code().code().starts_with("08")
                || told.code().code().starts_with("57P")
        }
        None => error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
    }
}

/// The whole error in one line: the driver's own words for what a server said are "db error".
pub(super) fn told(error: &Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(told), _) => format!("{}: {} ({})", told.severity(), told.message(), told.code().code()),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
