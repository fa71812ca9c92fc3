//! Where the store keeps what belongs to a run.
//!
//! | what | place | written |
//! |---|---|---|
//! | its records | log `run`, run id | by the owner of the run |
//! | its line in the list of runs | cell `runs`, start, run id | with the start and the end |
//! | who owns it | lease `run-lease`, run id | with the start, then by time |
//!
//! All of them begin with the tenant.

use placet_core::{RunId, Timestamp};
use placet_store::{Key, LogName, Tenant};

/// The log with the records of a run.
#[must_use]
pub fn journal(tenant: &Tenant, run: &RunId) -> LogName {
    LogName::new(Key::new(tenant).text("run").text(run.as_str()))
}

/// What the names of all logs with records begin with.
#[must_use]
pub fn journals(tenant: &Tenant) -> Key {
    Key::new(tenant).text("run")
}

/// The cell with the run's line in the list of runs; lines sort by the start of their runs.
#[must_use]
pub fn entry(tenant: &Tenant, started: Timestamp, run: &RunId) -> Key {
    entries(tenant).instant(started).text(run.as_str())
}

/// What the keys of all lines of the list begin with.
#[must_use]
pub fn entries(tenant: &Tenant) -> Key {
    Key::new(tenant).text("runs")
}

/// The key of a run's lease, and what its cells' keys begin with.
#[must_use]
pub fn lease(tenant: &Tenant, run: &RunId) -> Key {
    Key::new(tenant).text("run-lease").text(run.as_str())
}
