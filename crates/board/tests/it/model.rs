//! Whatever is done in whatever order, a board does what a few lines of a model say.

use crate::world::{World, id, json, limits};
use placet_board::{
    Agent, BoardError, BoardSpec, Boards, Bounds, Cause, Change, Conflict, Content, Control, Region, RegionKind,
    Rejected, SetRequest, WriteRequest, WriteResult, Written,
};
use placet_core::env::ManualClock;
use placet_core::{Env, Timestamp};
use placet_store::{SqliteOptions, SqliteStore, Tenant};
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Step {
    Write { region: usize, writer: usize, key: Option<usize>, content: u32 },
    Set { region: usize, writer: usize, key: Option<usize>, content: u32, behind: u64 },
    Abort,
    Reopen,
}

const REGIONS: [(&str, RegionKind); 5] = [
    ("a", RegionKind::Level),
    ("b", RegionKind::Level),
    ("p", RegionKind::Premise),
    ("q", RegionKind::Premise),
    ("nowhere", RegionKind::Level),
];
/// The first may write to no level but `a`.
const WRITERS: [&str; 3] = ["ann", "bob", "cid"];

fn step() -> impl Strategy<Value = Step> {
    let key = proptest::option::of(0_usize..6);
    let write = (0_usize..5, 0_usize..3, key.clone(), any::<u32>())
        .prop_map(|(region, writer, key, content)| Step::Write { region, writer, key, content });
    let set = (0_usize..5, 0_usize..3, key, any::<u32>(), prop_oneof![4 => Just(0_u64), 1 => 1_u64..3])
        .prop_map(|(region, writer, key, content, behind)| Step::Set { region, writer, key, content, behind });
    prop_oneof![12 => write, 12 => set, 1 => Just(Step::Abort), 2 => Just(Step::Reopen)]
}

#[derive(Default)]
struct Model {
    writes: Vec<(&'static str, Option<u64>, Option<String>, String)>,
    versions: BTreeMap<&'static str, u64>,
    keys: BTreeMap<usize, (&'static str, Written)>,
    is_closed: bool,
    permissions_are_gone: bool,
}

impl Model {
    /// What a write comes to: the answer, or the stable word of the error.
    fn write(
        &mut self,
        (region, kind): (&'static str, RegionKind),
        asked: RegionKind,
        writer: &str,
        key: Option<usize>,
        content: u32,
        expected: u64,
    ) -> Result<WriteResult, &'static str> {
        if let Some((first, written)) = key.and_then(|key| self.keys.get(&key)) {
            return if *first == region {
                Ok(WriteResult::Written(Written { repeated: true, ..*written }))
            } else {
                Err("idempotency_key_reused")
            };
        }
        if self.is_closed {
            let reason = "the run has closed".to_owned();
            return Ok(WriteResult::Rejected(Rejected { cause: Cause::RunClosed, reason }));
        }
        if region == "nowhere" {
            return Err("unknown_region");
        }
        if kind != asked {
            return Err("wrong_region_kind");
        }
        if writer == "ann" && asked == RegionKind::Level && region != "a" && !self.permissions_are_gone {
            let reason = format!("'ann' may not write to '{region}'");
            return Ok(WriteResult::Rejected(Rejected { cause: Cause::NotPermitted, reason }));
        }
        let version = match kind {
            RegionKind::Level => None,
            RegionKind::Premise => {
                let current = self.versions.entry(region).or_default();
                if *current != expected {
                    return Ok(WriteResult::Conflict(Conflict { current_version: *current }));
                }
                *current += 1;
                Some(*current)
            }
        };
        self.writes.push((region, version, Some(writer.to_owned()), content.to_string()));
        let written = Written { sequence: self.writes.len() as u64, version, repeated: false };
        if let Some(key) = key {
            self.keys.insert(key, (region, written));
        }
        Ok(WriteResult::Written(written))
    }
}

async fn agree(control: &Control, steps: &[Step]) {
    let mut model = Model::default();
    for (premise, version) in [("p", 1), ("q", 1)] {
        model.writes.push((premise, Some(1), None, "0".to_owned()));
        model.versions.insert(premise, version);
    }
    for step in steps {
        match step {
            Step::Write { region, writer, key, content } => {
                let (region, writer) = (REGIONS[*region], WRITERS[*writer]);
                let mut request = WriteRequest::new(region.0, Content::of(content).unwrap());
                request.idempotency_key = key.map(|key| key.to_string());
                let expected = model.write(region, RegionKind::Level, writer, *key, *content, 0);
                let found = control.write(writer, &request).await;
                assert_eq!(found.map_err(|error: BoardError| error.code()), expected, "{step:?}");
            }
            Step::Set { region, writer, key, content, behind } => {
                let (region, writer) = (REGIONS[*region], WRITERS[*writer]);
                let version = model.versions.get(region.0).copied().unwrap_or(0).saturating_sub(*behind);
                let mut request = SetRequest::new(region.0, Content::of(content).unwrap(), version);
                request.idempotency_key = key.map(|key| key.to_string());
                let expected = model.write(region, RegionKind::Premise, writer, *key, *content, version);
                let found = control.set_premise(writer, &request).await;
                assert_eq!(found.map_err(|error: BoardError| error.code()), expected, "{step:?}");
            }
            Step::Abort => {
                assert_eq!(control.abort("x").await.unwrap(), !model.is_closed);
                model.is_closed = true;
                // The agents of a run go with it, and their permissions with them.
                model.permissions_are_gone = true;
            }
            Step::Reopen => {
                assert_eq!(control.reopen(limits()).await.is_ok(), model.is_closed);
                model.is_closed = false;
            }
        }
    }
    check(control, &model).await;
}

/// What is read is what the model holds, from every bound.
async fn check(control: &Control, model: &Model) {
    let reader = control.reader();
    let all: Vec<Change> = reader.read_board(Bounds::from(0).limit(1000)).await.unwrap().items;
    assert_eq!(all.len(), model.writes.len());
    for (at, (change, (region, version, writer, content))) in all.iter().zip(&model.writes).enumerate() {
        assert_eq!(change.sequence, at as u64 + 1);
        assert_eq!((&*change.region, change.version, change.writer.as_deref()), (*region, *version, writer.as_deref()));
        assert_eq!(change.content.as_str(), content);
    }
    assert!(all.windows(2).all(|pair| pair[0].written_at <= pair[1].written_at));
    for (level, limit) in [("a", 1), ("a", 3), ("b", 2), ("b", 100)] {
        let expected: Vec<u64> =
            all.iter().filter(|change| &*change.region == level).map(|change| change.sequence).collect();
        let (mut seen, mut from) = (Vec::new(), 0);
        loop {
            let page = reader.read_level(level, Bounds::from(from).limit(limit)).await.unwrap();
            assert!(page.items.len() <= limit);
            seen.extend(page.items.iter().map(|contribution| contribution.sequence));
            assert_eq!(page.has_more, seen.len() < expected.len());
            let Some(last) = seen.last().filter(|_| page.has_more) else { break };
            from = last + 1;
        }
        assert_eq!(seen, expected);
    }
    for premise in ["p", "q"] {
        let state = reader.read_premise(premise).await.unwrap();
        let last = all.iter().rfind(|change| &*change.region == premise).unwrap();
        assert_eq!((state.version, &state.value, &state.writer), (last.version.unwrap(), &last.content, &last.writer));
    }
}

async fn board(boards: &Boards, name: &str) -> Control {
    let spec = BoardSpec::new(limits())
        .region(Region::level("a"))
        .region(Region::level("b"))
        .premise("p", json("0"))
        .premise("q", json("0"))
        .agent(Agent::new("ann").pulls().writes_to(["a"]));
    boards.open(&id(name), &spec).await.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_board_does_what_the_model_says(steps in proptest::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = World::memory();
            agree(&board(&world.boards(), "b").await, &steps).await;
        });
    }
}

#[test]
fn a_board_in_a_file_does_what_the_model_says() {
    let folder = tempfile::tempdir().unwrap();
    let env = Env::deterministic(ManualClock::new(Timestamp::from_millis(1)), 1);
    let options = SqliteOptions::new(env.clock().clone());
    let store = Arc::new(SqliteStore::open(folder.path().join("store.sqlite"), options).unwrap());
    let boards = Boards::new(store, Tenant::new("acme"), &env);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for case in 0..12 {
        let steps = proptest::collection::vec(step(), 1..40).new_tree(&mut runner).unwrap().current();
        runtime.block_on(async { agree(&board(&boards, &case.to_string()).await, &steps).await });
    }
}
