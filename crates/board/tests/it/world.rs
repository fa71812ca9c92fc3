//! Stores to try boards on: memory, SQLite and, where the environment names a server, PostgreSQL.

use placet_board::{
    BoardId, BoardSpec, Boards, BoardsOptions, Content, Control, Delivery, DeliveryFailure, Limits, Listener,
    Notification, Region, Transport, WriteRequest, WriteResult, Written, listener,
};
use placet_core::env::{ManualClock, ManualHandle};
use placet_core::{Env, Timestamp};
use placet_store::{MemoryStore, SharedStore, SqliteOptions, SqliteStore, Tenant};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A store and the clock that it goes by.
pub(crate) struct World {
    pub(crate) store: SharedStore,
    pub(crate) env: Env,
    /// Moves the store's clock, but for PostgreSQL, which has one of its own.
    pub(crate) clock: Arc<ManualClock>,
}

impl World {
    fn manual(make: impl FnOnce(Arc<ManualHandle>) -> SharedStore) -> Self {
        let clock = ManualClock::new(Timestamp::from_millis(1_800_000_000_000));
        let store = make(Arc::new(ManualHandle(clock.clone())));
        World { store, env: Env::deterministic(clock.clone(), 7), clock }
    }

    pub(crate) fn memory() -> Self {
        World::manual(|clock| Arc::new(MemoryStore::new(clock)))
    }

    /// A process of its own over the same store, which tells agents before a write answers.
    pub(crate) fn boards(&self) -> Boards {
        self.boards_with(BoardsOptions::default().delivery(Delivery::Inline))
    }

    pub(crate) fn boards_with(&self, options: BoardsOptions) -> Boards {
        Boards::with_options(self.store.clone(), Tenant::new("acme"), &self.env, options)
    }

    /// A board with a level and a premise.
    pub(crate) async fn incident(&self) -> Control {
        self.boards().open(&id("incident"), &spec()).await.unwrap()
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// Runs a test on every store that is there.
pub(crate) async fn every(name: &str, test: impl AsyncFn(World)) {
    test(World::memory()).await;
    let folder = tempfile::tempdir().unwrap();
    test(World::manual(|clock| {
        Arc::new(SqliteStore::open(folder.path().join("store.sqlite"), SqliteOptions::new(clock)).unwrap())
    }))
    .await;
    postgres(name, &test).await;
}

/// Runs a test whose clock is moved by hand on the stores that go by it.
pub(crate) async fn every_manual(test: impl AsyncFn(World)) {
    test(World::memory()).await;
    let folder = tempfile::tempdir().unwrap();
    test(World::manual(|clock| {
        Arc::new(SqliteStore::open(folder.path().join("store.sqlite"), SqliteOptions::new(clock)).unwrap())
    }))
    .await;
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &str, _: &impl AsyncFn(World)) {}

#[cfg(feature = "postgres")]
async fn postgres(name: &str, test: &impl AsyncFn(World)) {
    use placet_store::{PostgresOptions, PostgresStore};
    let Some(schema) = Schema::new(name) else { return };
    let env = Env::system();
    let mut options = PostgresOptions::default();
    options.schema.clone_from(&schema.name);
    let store = Arc::new(PostgresStore::connect(&schema.url, options, &env).await.unwrap());
    let clock = ManualClock::new(Timestamp::EPOCH);
    test(World { store, env: env.clone(), clock }).await;
    schema.remove().await;
}

/// A part of the PostgreSQL server that the environment names, for one test alone.
#[cfg(feature = "postgres")]
pub(crate) struct Schema {
    pub(crate) url: String,
    pub(crate) name: String,
}

#[cfg(feature = "postgres")]
impl Schema {
    /// Where there is no server, says that `test` is skipped.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let Some(url) = url() else {
            eprintln!("SKIPPED {test} on postgres: PLACET_TEST_POSTGRES names no server");
            return None;
        };
        Some(Schema { url, name: format!("test_{:016x}", Env::system().random().next_u64()) })
    }

    pub(crate) async fn remove(self) {
        let (client, connection) = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await.unwrap();
        Env::system().spawn("test connection", async move { _ = connection.await });
        client.batch_execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.name)).await.unwrap();
    }
}

#[cfg(feature = "postgres")]
#[expect(clippy::disallowed_methods, reason = "who runs the tests says where the server is")]
fn url() -> Option<String> {
    let url = std::env::var("PLACET_TEST_POSTGRES").ok().filter(|url| !url.is_empty());
    let required = std::env::var("PLACET_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
    assert!(url.is_some() || !required, "PLACET_REQUIRE_POSTGRES=1, but PLACET_TEST_POSTGRES names no server");
    url
}

pub(crate) fn id(name: &str) -> BoardId {
    BoardId::new(name).unwrap()
}

pub(crate) fn json(text: &str) -> Content {
    Content::from_text(text).unwrap()
}

pub(crate) fn limits() -> Limits {
    Limits::new(Duration::from_secs(3600), Duration::from_secs(60))
}

/// A level `findings` and a premise `goal` that opens as `"find it"`.
pub(crate) fn spec() -> BoardSpec {
    BoardSpec::new(limits()).region(Region::level("findings")).premise("goal", json("\"find it\""))
}

/// Writes `content` to a level and expects that it is written.
pub(crate) async fn write(control: &Control, writer: &str, level: &str, content: &str) -> Written {
    written(control.write(writer, &WriteRequest::new(level, json(content))).await.unwrap())
}

pub(crate) fn written(result: WriteResult) -> Written {
    result.written().unwrap_or_else(|| panic!("{result:?}"))
}

/// Hears notifications and keeps them; fails where it is told to.
#[derive(Clone, Default)]
pub(crate) struct Ears {
    heard: Arc<Mutex<Vec<Notification>>>,
    deaf: Arc<std::sync::atomic::AtomicBool>,
}

impl Ears {
    pub(crate) fn listener(&self) -> Arc<dyn Listener> {
        let ears = self.clone();
        listener(move |notification| {
            let ears = ears.clone();
            async move { ears.hear(notification) }
        })
    }

    pub(crate) fn hear(&self, notification: Notification) -> Result<(), DeliveryFailure> {
        if self.deaf.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(DeliveryFailure::new("nobody is there"));
        }
        self.heard.lock().unwrap().push(notification);
        Ok(())
    }

    pub(crate) fn set_deaf(&self, deaf: bool) {
        self.deaf.store(deaf, std::sync::atomic::Ordering::SeqCst);
    }

    pub(crate) fn take(&self) -> Vec<Notification> {
        std::mem::take(&mut self.heard.lock().unwrap())
    }

    /// What was heard since the last time: from, to, regions.
    pub(crate) fn ranges(&self) -> Vec<(u64, u64, String)> {
        let range = |n: Notification| {
            assert_eq!(n.notification_id, n.to_sequence);
            (n.from_sequence, n.to_sequence, n.regions.into_iter().collect::<Vec<_>>().join("+"))
        };
        self.take().into_iter().map(range).collect()
    }

    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Post(self.clone()))
    }
}

/// A transport that ends at ears, whatever the address.
struct Post(Ears);

#[async_trait::async_trait]
impl Transport for Post {
    async fn reach(&self, _: &str, notification: &Notification) -> Result<(), DeliveryFailure> {
        self.0.hear(notification.clone())
    }
}
