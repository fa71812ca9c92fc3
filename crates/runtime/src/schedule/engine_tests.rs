#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::schedule::Cron;
use placet_core::env::{ManualClock, ManualHandle};
use placet_store::MemoryStore;
use serde_json::json;
use std::sync::Mutex;

struct World {
    clock: Arc<ManualClock>,
    env: Env,
    store: SharedStore,
    done: Arc<Mutex<Vec<(String, u32)>>>,
}

struct Worker {
    done: Arc<Mutex<Vec<(String, u32)>>>,
    failures: u32,
    panics: bool,
}

#[async_trait]
impl JobHandler for Worker {
    async fn run(&self, job: DueJob) -> Result<(), JobFailure> {
        self.done.lock().unwrap().push((job.job.id.clone(), job.attempt));
        if job.attempt <= self.failures {
            assert!(!self.panics, "on purpose");
            return Err(JobFailure { problem: "not yet".to_owned(), again: true });
        }
        Ok(())
    }
}

impl World {
    fn new() -> Self {
        // 2026-11-30T09:00:00Z
        let clock = ManualClock::new(Timestamp::from_micros(1_796_029_200_000_000));
        let env = Env::deterministic(clock.clone(), 3);
        let store: SharedStore = Arc::new(MemoryStore::new(Arc::new(ManualHandle(clock.clone()))));
        World { clock, env, store, done: Arc::default() }
    }

    fn scheduler(&self, failures: u32, panics: bool) -> Scheduler {
        let worker = Worker { done: self.done.clone(), failures, panics };
        Scheduler::builder(self.env.clone(), self.store.clone(), Tenant::new("t"))
            .handler("work", Arc::new(worker))
            .build()
    }

    fn done(&self) -> Vec<(String, u32)> {
        std::mem::take(&mut self.done.lock().unwrap())
    }

    fn at(&self, minutes: u64) -> JobTime {
        JobTime::At(self.env.now().plus(Duration::from_secs(60 * minutes)))
    }
}

#[tokio::test]
async fn two_jobs_of_one_minute_both_run_once_and_are_gone() {
    let world = World::new();
    let scheduler = world.scheduler(0, false);
    for id in ["ada", "bob"] {
        scheduler.put(Job::new(id, "work", json!({})).at(world.at(10))).await.unwrap();
    }
    assert_eq!(scheduler.run_due().await.unwrap(), 0);
    world.clock.advance(Duration::from_secs(600));
    // A process that was started later finds them.
    let other = world.scheduler(0, false);
    assert_eq!(other.run_due().await.unwrap(), 2);
    assert_eq!(world.done(), [("ada".to_owned(), 1), ("bob".to_owned(), 1)]);
    assert_eq!(scheduler.run_due().await.unwrap(), 0);
    assert!(scheduler.list(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn what_fails_is_tried_again_later_and_kept_when_it_failed_for_good() {
    let world = World::new();
    let scheduler = world.scheduler(2, false);
    scheduler.put(Job::new("a", "work", json!({})).tried(3)).await.unwrap();
    assert_eq!(scheduler.run_due().await.unwrap(), 1);
    assert_eq!(scheduler.run_due().await.unwrap(), 0, "it waits first");
    for wait in [1, 2] {
        world.clock.advance(Duration::from_secs(wait));
        assert_eq!(scheduler.run_due().await.unwrap(), 1);
    }
    assert_eq!(world.done().iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(scheduler.get("a").await.unwrap(), None);

    scheduler.put(Job::new("b", "work", json!({})).tried(1)).await.unwrap();
    assert_eq!(scheduler.run_due().await.unwrap(), 1);
    let kept = scheduler.get("b").await.unwrap().unwrap();
    assert_eq!((kept.state, kept.problem.as_deref()), (JobState::Failed, Some("not yet")));
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(scheduler.run_due().await.unwrap(), 0);
}

#[tokio::test]
async fn a_panic_is_a_failure_like_any_other() {
    let world = World::new();
    let scheduler = world.scheduler(1, true);
    scheduler.put(Job::new("a", "work", json!({}))).await.unwrap();
    assert_eq!(scheduler.run_due().await.unwrap(), 1);
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(scheduler.run_due().await.unwrap(), 1);
    assert_eq!(world.done().len(), 2);
}

#[tokio::test]
async fn missed_times_are_made_up_for_once_and_asking_twice_changes_nothing() {
    let world = World::new();
    let scheduler = world.scheduler(0, false);
    let every = || Job::new("a", "work", json!({})).at(JobTime::Every(Cron::parse("*/5 * * * *", "UTC").unwrap()));
    scheduler.put(every()).await.unwrap();
    world.clock.advance(Duration::from_secs(60));
    scheduler.put(every()).await.unwrap();
    assert_eq!(scheduler.list(None, 10).await.unwrap().len(), 1);
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(scheduler.run_due().await.unwrap(), 1);
    let next = scheduler.get("a").await.unwrap().unwrap().meant_for;
    assert_eq!(next.to_string(), "2026-11-30T10:05:00.000000Z");
    assert!(scheduler.cancel("a").await.unwrap());
    assert!(!scheduler.cancel("a").await.unwrap());
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(scheduler.run_due().await.unwrap(), 0);
}

#[tokio::test]
async fn a_job_whose_process_died_is_done_by_another_one() {
    let world = World::new();
    let scheduler = world.scheduler(0, false);
    scheduler.put(Job::new("a", "work", json!({}))).await.unwrap();
    // Claimed, and never heard of again.
    assert_eq!(scheduler.claim_due(4).await.unwrap().len(), 1);
    assert_eq!(scheduler.run_due().await.unwrap(), 0);
    world.clock.advance(CLAIM);
    assert_eq!(world.scheduler(0, false).run_due().await.unwrap(), 1);
    assert_eq!(world.done(), [("a".to_owned(), 2)]);
}

#[tokio::test]
async fn fifty_jobs_put_in_at_the_same_time_are_all_there() {
    let world = World::new();
    let scheduler = world.scheduler(0, false);
    let put = (0..50).map(|n| scheduler.put(Job::new(format!("job-{n:02}"), "work", json!({})).at(world.at(1))));
    for put in futures_util::future::join_all(put).await {
        put.unwrap();
    }
    world.clock.advance(Duration::from_secs(60));
    let other = world.scheduler(0, false);
    assert_eq!(other.run_due().await.unwrap(), 50);
    let mut done = world.done();
    done.sort();
    done.dedup();
    assert_eq!(done.len(), 50);
}

#[tokio::test]
async fn a_sweeper_wakes_for_what_is_put_in_and_leaves_off_when_it_is_told() {
    let world = World::new();
    let scheduler = world.scheduler(0, false);
    let stop = CancellationToken::new();
    let sweeping = {
        let (scheduler, stop) = (scheduler.clone(), stop.clone());
        world.env.spawn("sweeper", async move { scheduler.run(stop).await })
    };
    scheduler.put(Job::new("a", "work", json!({}))).await.unwrap();
    while world.done.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    sweeping.join().await.unwrap();
}
