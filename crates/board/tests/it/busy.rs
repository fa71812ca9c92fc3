//! A board on which something is written before every commit of somebody else.

use crate::world::{World, id, json, limits, write};
use async_trait::async_trait;
use bytes::Bytes;
use placet_board::{Agent, BoardError, BoardSpec, Boards, Control, Region, WriteRequest};
use placet_core::{BoxFuture, Timestamp};
use placet_store::{
    Batch, BlobId, Cell, Committed, Direction, Entry, Key, LogHead, LogName, SharedStore, Store, StoreError, Tenant,
    Watch,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

type Before = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;
type Result<T> = std::result::Result<T, StoreError>;

/// A store in which something happens before every commit.
struct Busy {
    store: SharedStore,
    before: Before,
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy").field("store", &self.store).finish_non_exhaustive()
    }
}

#[async_trait]
impl Store for Busy {
    async fn now(&self) -> Result<Timestamp> {
        self.store.now().await
    }
    async fn commit(&self, batch: Batch) -> Result<Committed> {
        (self.before)().await;
        self.store.commit(batch).await
    }
    async fn cell(&self, key: &Key) -> Result<Option<Cell>> {
        self.store.cell(key).await
    }
    async fn cells(&self, prefix: &Key, beyond: Option<&Key>, direction: Direction, limit: usize) -> Result<Vec<Cell>> {
        self.store.cells(prefix, beyond, direction, limit).await
    }
    async fn log(&self, log: &LogName, after: u64, limit: usize) -> Result<Vec<Entry>> {
        self.store.log(log, after, limit).await
    }
    async fn log_backward(&self, log: &LogName, before: Option<u64>, limit: usize) -> Result<Vec<Entry>> {
        self.store.log_backward(log, before, limit).await
    }
    async fn log_entries(&self, log: &LogName, numbers: &[u64]) -> Result<Vec<Entry>> {
        self.store.log_entries(log, numbers).await
    }
    async fn log_head(&self, log: &LogName) -> Result<LogHead> {
        self.store.log_head(log).await
    }
    async fn logs(&self, prefix: &Key, beyond: Option<&LogName>, limit: usize) -> Result<Vec<(LogName, LogHead)>> {
        self.store.logs(prefix, beyond, limit).await
    }
    async fn put_blob(&self, tenant: &Tenant, bytes: Bytes) -> Result<BlobId> {
        self.store.put_blob(tenant, bytes).await
    }
    async fn blob(&self, tenant: &Tenant, blob: &BlobId) -> Result<Option<Bytes>> {
        self.store.blob(tenant, blob).await
    }
    async fn delete_blob(&self, tenant: &Tenant, blob: &BlobId) -> Result<()> {
        self.store.delete_blob(tenant, blob).await
    }
    fn watch(&self, log: &LogName) -> Watch {
        self.store.watch(log)
    }
    fn describe(&self) -> String {
        self.store.describe()
    }
}

async fn board(world: &World) -> Control {
    let spec = BoardSpec::new(limits()).region(Region::level("findings")).region(Region::level("signals"));
    world.boards().open(&id("incident"), &spec).await.unwrap()
}

fn boards(world: &World, before: Before) -> Boards {
    let store = Arc::new(Busy { store: world.store.clone(), before });
    Boards::new(store, Tenant::new("acme"), &world.env)
}

fn busy(world: &World, before: Before) -> Control {
    boards(world, before).control(&id("incident"))
}

#[tokio::test]
async fn an_agent_that_comes_back_to_a_busy_board_misses_nothing_whatever_its_former_self_answers() {
    let world = World::memory();
    let control = board(&world).await;
    control.register(Agent::new("ann").subscribes_to(["findings"]).pulls()).await.unwrap();
    let elsewhere = control.clone();
    let before: Before = Arc::new(move || {
        let control = elsewhere.clone();
        Box::pin(async move {
            // Its former self is told of everything but what comes last, which only its new self subscribes to.
            let findings = WriteRequest::new("findings", json("1"));
            control.write("bob", &findings).await.unwrap();
            assert!(control.pull("ann", 0, Duration::ZERO).await.unwrap().is_some());
            control.write("bob", &WriteRequest::new("signals", json("2"))).await.unwrap();
        })
    });
    busy(&world, before).register(Agent::new("ann").subscribes_to(["signals"]).pulls()).await.unwrap();
    let told = control.agents().await.unwrap().remove(0).notified_through;
    let head = control.reader().head().await.unwrap();
    assert_eq!(told, head - 1);
    control.ack("ann", told).await.unwrap();
    let owed = control.pull("ann", 0, Duration::ZERO).await.unwrap().unwrap();
    assert_eq!((owed.from_sequence, owed.to_sequence), (head, head));
    assert!(owed.regions.contains("signals"));
    // Given it once, it is not given it again and again while it is at work.
    assert_eq!(control.pull("ann", head, Duration::ZERO).await.unwrap(), None);
    control.ack("ann", head).await.unwrap();
    assert_eq!(control.pull("ann", 0, Duration::ZERO).await.unwrap(), None);
    write(&control, "bob", "findings", "3").await;
    assert_eq!(control.pull("ann", 0, Duration::ZERO).await.unwrap(), None, "it subscribes to other things");
    assert_eq!(world.boards().unsent(10).await.unwrap(), []);
}

#[tokio::test]
async fn a_registration_on_a_busy_board_survives_that_what_is_owed_is_merged() {
    let world = World::memory();
    let control = board(&world).await;
    let elsewhere = control.clone();
    let before: Before = Arc::new(move || {
        let control = elsewhere.clone();
        Box::pin(async move {
            control.write("bob", &WriteRequest::new("findings", json("1"))).await.unwrap();
        })
    });
    let address = Agent::new("ann").address("http://ann").subscribes_to(["findings"]);
    busy(&world, before).register(address).await.unwrap();
    for number in 0..1000 {
        write(&control, "bob", "findings", &number.to_string()).await;
    }
    let head = control.reader().head().await.unwrap();
    // Nobody here can reach it: its rows become one.
    world.boards().relay(10).await.unwrap();
    assert!(world.boards().unsent(9999).await.unwrap().len() < 1000);
    write(&control, "bob", "findings", "0").await;
    let ears = crate::world::Ears::default();
    let options = placet_board::BoardsOptions::default().delivery(placet_board::Delivery::Inline);
    world.boards_with(options.transport(ears.transport())).relay(10).await.unwrap();
    assert_eq!(ears.ranges(), [(1, head + 1, "findings".to_owned())]);
    assert_eq!(world.boards().unsent(10).await.unwrap(), []);
}

#[tokio::test]
async fn whoever_cannot_join_a_run_does_not_end_it() {
    let world = World::memory();
    let control = board(&world).await;
    let (elsewhere, number) = (control.clone(), Arc::new(std::sync::atomic::AtomicU32::new(0)));
    let before: Before = Arc::new(move || {
        let (control, number) = (elsewhere.clone(), number.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        Box::pin(async move {
            // As long as a registration tries.
            if number < 64 {
                control.declare(&Region::level(format!("more-{number}"))).await.unwrap();
            }
        })
    });
    let spec = BoardSpec::new(limits()).region(Region::level("findings"));
    let spec = spec.agent(Agent::new("ann").subscribes_to(["findings"]).pulls());
    let joined = boards(&world, before).open(&id("incident"), &spec).await;
    assert!(matches!(joined, Err(BoardError::Busy { .. })), "{joined:?}");
    assert_eq!(control.outcome().await.unwrap(), None, "the run goes on");
    write(&control, "bob", "findings", "1").await;
}
