//! Writing and reading: order, versions, keys, bounds, exactness, permissions.

use crate::world::{every, id, json, limits, spec, write, written};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use placet_board::{
    Agent, BoardError, BoardSpec, Bounds, Cause, Conflict, Content, Decision, Region, RegionKind, SetRequest,
    WriteRequest, WriteResult, Written,
};

#[tokio::test]
async fn opening_values_come_first_and_one_counter_numbers_all() {
    every("one counter", async |world| {
        let control = world.incident().await;
        let first = write(&control, "ann", "findings", "1").await;
        assert_eq!(first, Written { sequence: 2, version: None, repeated: false });
        let set = control.set_premise("bob", &SetRequest::new("goal", json("null"), 1)).await.unwrap();
        assert_eq!(set, WriteResult::Written(Written { sequence: 3, version: Some(2), repeated: false }));
        let board = control.reader().read_board(Bounds::default()).await.unwrap();
        let seen: Vec<_> =
            board.items.iter().map(|c| (c.sequence, &*c.region, c.version, c.writer.as_deref())).collect();
        assert_eq!(
            seen,
            [(1, "goal", Some(1), None), (2, "findings", None, Some("ann")), (3, "goal", Some(2), Some("bob"))]
        );
        let goal = control.reader().read_premise("goal").await.unwrap();
        assert_eq!((goal.value.as_str(), goal.version, goal.writer.as_deref()), ("null", 2, Some("bob")));
        assert_eq!(goal.written_at, board.items[2].written_at);
        let regions = control.reader().read_regions().await.unwrap();
        let regions: Vec<_> = regions.iter().map(|region| (&*region.name, region.kind)).collect();
        assert_eq!(regions, [("findings", RegionKind::Level), ("goal", RegionKind::Premise)]);
    })
    .await;
}

#[tokio::test]
async fn a_conflict_takes_no_number_and_no_key() {
    every("conflict", async |world| {
        let control = world.incident().await;
        let request = SetRequest::new("goal", json("2"), 0).key("k");
        let conflict = WriteResult::Conflict(Conflict { current_version: 1 });
        assert_eq!(control.set_premise("ann", &request).await.unwrap(), conflict);
        let request = SetRequest::new("goal", json("2"), 7).key("k");
        assert_eq!(control.set_premise("ann", &request).await.unwrap(), conflict);
        let set = written(control.set_premise("ann", &SetRequest::new("goal", json("2"), 1).key("k")).await.unwrap());
        assert_eq!((set.sequence, set.version), (2, Some(2)));
    })
    .await;
}

#[tokio::test]
async fn a_key_writes_once() {
    every("keys", async |world| {
        let control = world.incident().await;
        control.declare(&Region::level("notes")).await.unwrap();
        for key in ["", "k-1", &"long".repeat(500), "with\0nul"] {
            let one = written(control.write("ann", &WriteRequest::new("findings", json("1")).key(key)).await.unwrap());
            assert!(!one.repeated);
            // Content and writer are not compared.
            let again =
                written(control.write("bob", &WriteRequest::new("findings", json("2")).key(key)).await.unwrap());
            assert_eq!(again, Written { repeated: true, ..one });
            let elsewhere = control.write("ann", &WriteRequest::new("notes", json("1")).key(key)).await;
            assert!(matches!(elsewhere, Err(BoardError::KeyReused { first, .. }) if first == "findings"));
            let other_kind = control.set_premise("ann", &SetRequest::new("goal", json("1"), 1).key(key)).await;
            assert!(matches!(other_kind, Err(BoardError::KeyReused { .. })));
        }
        let set = written(control.set_premise("ann", &SetRequest::new("goal", json("1"), 1).key("p")).await.unwrap());
        let again = written(control.set_premise("ann", &SetRequest::new("goal", json("9"), 5).key("p")).await.unwrap());
        assert_eq!(again, Written { repeated: true, ..set });
        assert_eq!(control.reader().head().await.unwrap(), 6);
    })
    .await;
}

#[tokio::test]
async fn concurrent_writers_leave_no_gap() {
    every("no gap", async |world| {
        let control = world.incident().await;
        let writer = |number: u64| {
            let control = control.clone();
            async move {
                let mut sequences = Vec::new();
                for round in 0..20 {
                    let request = WriteRequest::new("findings", Content::of(&(number, round)).unwrap());
                    sequences.push(written(control.write("w", &request).await.unwrap()).sequence);
                }
                sequences
            }
        };
        let lists = join_all((0..8).map(writer)).await;
        for list in &lists {
            assert!(list.windows(2).all(|pair| pair[0] < pair[1]), "each writer's own order is kept");
        }
        let mut all: Vec<_> = lists.concat();
        all.sort_unstable();
        assert_eq!(all, (2..=161).collect::<Vec<_>>());
    })
    .await;
}

#[tokio::test]
async fn concurrent_sets_lose_nothing() {
    every("counter", async |world| {
        let control = world.incident().await;
        control.set_premise("x", &SetRequest::new("goal", json("0"), 1)).await.unwrap();
        let count = |_| {
            let control = control.clone();
            async move {
                let mut done = 0;
                while done < 10 {
                    let state = control.reader().read_premise("goal").await.unwrap();
                    let next = Content::of(&(state.value.parse::<u64>().unwrap() + 1)).unwrap();
                    let set = control.set_premise("x", &SetRequest::new("goal", next, state.version)).await.unwrap();
                    done += u64::from(set.written().is_some());
                }
            }
        };
        join_all((0..4).map(count)).await;
        assert_eq!(control.reader().read_premise("goal").await.unwrap().value.as_str(), "40");
    })
    .await;
}

#[tokio::test]
async fn reads_are_bounded_by_sequence_and_limit() {
    every("bounds", async |world| {
        let control = world.incident().await;
        control.declare(&Region::level("other")).await.unwrap();
        for number in 0..150 {
            write(&control, "ann", if number % 3 == 0 { "other" } else { "findings" }, &number.to_string()).await;
        }
        let reader = control.reader();
        let page = reader.read_level("findings", Bounds::default()).await.unwrap();
        assert_eq!((page.items.len(), page.has_more), (100, false));
        let page = reader.read_level("findings", Bounds::from(5).limit(3)).await.unwrap();
        let seen: Vec<_> = page.items.iter().map(|c| (c.sequence, c.content.as_str())).collect();
        assert_eq!((seen, page.has_more), (vec![(6, "4"), (7, "5"), (9, "7")], true));
        let none = reader.read_level("findings", Bounds::from(0).limit(0)).await.unwrap();
        assert_eq!((none.items.len(), none.has_more), (0, true));
        let beyond = reader.read_level("findings", Bounds::from(9_999)).await.unwrap();
        assert_eq!((beyond.items.len(), beyond.has_more), (0, false));
        let board = reader.read_board(Bounds::from(0).limit(5)).await.unwrap();
        assert_eq!((board.items.len(), board.items[0].sequence, board.has_more), (5, 1, true));
        let board = reader.read_board(Bounds::from(151).limit(5)).await.unwrap();
        assert_eq!((board.items.len(), board.items[0].sequence, board.has_more), (1, 151, false));
        let most = reader.read_board(Bounds::from(0).limit(1_000_000)).await.unwrap();
        assert_eq!((most.items.len(), most.has_more), (151, false));
    })
    .await;
}

#[tokio::test]
async fn content_is_what_was_sent() {
    every("exact", async |world| {
        let control = world.incident().await;
        let texts = [
            "1180591620717411303424",
            "1.0",
            "1",
            "-0",
            "1e400",
            "{\"b\":1, \"a\" :[ ]}",
            "\"\\u00e9é\\ud83d\\ude00\"",
            "null",
        ];
        for text in texts {
            write(&control, "ann", "findings", text).await;
        }
        let page = control.reader().read_level("findings", Bounds::default()).await.unwrap();
        let seen: Vec<_> = page.items.iter().map(|c| c.content.as_str().to_owned()).collect();
        assert_eq!(seen, texts);
        let big = "{\"a\": 1180591620717411303424, \"b\":1.0}";
        control.set_premise("ann", &SetRequest::new("goal", json(big), 1)).await.unwrap();
        assert_eq!(control.reader().read_premise("goal").await.unwrap().value.as_str(), big);
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_is_told_apart() {
    every("errors", async |world| {
        let control = world.incident().await;
        control.declare(&Region::premise("unset")).await.unwrap();
        let reader = control.reader();
        let unknown = reader.read_level("nowhere", Bounds::default()).await.unwrap_err();
        assert_eq!(unknown.to_string(), "no region is declared with the name 'nowhere'");
        let wrong = reader.read_level("goal", Bounds::default()).await.unwrap_err();
        assert_eq!(wrong.to_string(), "'goal' names a premise, and this operation takes a level");
        let wrong = control.set_premise("ann", &SetRequest::new("findings", json("1"), 0)).await.unwrap_err();
        assert_eq!(wrong.to_string(), "'findings' names a level, and this operation takes a premise");
        let unset = reader.read_premise("unset").await.unwrap_err();
        assert_eq!(unset.to_string(), "the premise 'unset' has no value until one is written");
        let nobody = world.boards().control(&id("nobody"));
        for error in [
            nobody.reader().read_regions().await.unwrap_err(),
            nobody.reader().read_board(Bounds::default()).await.unwrap_err(),
            nobody.reader().read_level("findings", Bounds::default()).await.unwrap_err(),
            nobody.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap_err(),
            nobody.ack("ann", 1).await.unwrap_err(),
            nobody.abort("x").await.unwrap_err(),
            nobody.delete().await.unwrap_err(),
        ] {
            assert!(matches!(error, BoardError::UnknownBoard { .. }), "{error}");
        }
        let huge = Content::of(&"x".repeat(5 * 1024 * 1024)).unwrap();
        let huge = control.write("ann", &WriteRequest::new("findings", huge)).await;
        assert!(matches!(huge, Err(BoardError::TooLarge { .. })));
        assert!(matches!(control.declare(&Region::level("goal")).await, Err(BoardError::DuplicateRegion { .. })));
    })
    .await;
}

#[tokio::test]
async fn permissions_are_on_the_record() {
    every("permissions", async |world| {
        let control = world.incident().await;
        control.declare(&Region::level("notes")).await.unwrap();
        control.register(Agent::new("ann").pulls().writes_to(["notes"]).sets(Vec::<String>::new())).await.unwrap();
        control.register(Agent::new("bob").pulls().writes_to(Vec::<String>::new())).await.unwrap();
        // Another process, which registered nobody.
        let elsewhere = world.boards().control(&id("incident"));
        let refused = |result: WriteResult| match result {
            WriteResult::Rejected(rejected) => (rejected.cause, rejected.reason),
            other => panic!("{other:?}"),
        };
        let no = refused(elsewhere.write("ann", &WriteRequest::new("findings", json("1"))).await.unwrap());
        assert_eq!(no, (Cause::NotPermitted, "'ann' may not write to 'findings'".to_owned()));
        write(&elsewhere, "ann", "notes", "1").await;
        refused(elsewhere.write("bob", &WriteRequest::new("notes", json("1"))).await.unwrap());
        refused(elsewhere.set_premise("ann", &SetRequest::new("goal", json("1"), 1)).await.unwrap());
        written(elsewhere.set_premise("bob", &SetRequest::new("goal", json("1"), 1)).await.unwrap());
        write(&elsewhere, "somebody", "findings", "1").await;
        // A region that is not there comes first.
        let unknown = elsewhere.write("bob", &WriteRequest::new("nowhere", json("1"))).await;
        assert!(matches!(unknown, Err(BoardError::UnknownRegion { .. })));
    })
    .await;
}

#[tokio::test]
async fn a_board_is_deleted_whole_and_begins_anew() {
    every("delete", async |world| {
        let boards = world.boards();
        let control = world.incident().await;
        let other = boards.open(&id("other"), &spec()).await.unwrap();
        control.register(Agent::new("ann").pulls()).await.unwrap();
        written(control.write("bob", &WriteRequest::new("findings", json("1")).key("k")).await.unwrap());
        let deleted = control.delete().await.unwrap();
        assert_eq!((deleted.regions_removed, deleted.writes_removed), (2, 2));
        assert!(!control.reader().exists().await.unwrap());
        assert!(matches!(
            control.reader().read_level("findings", Bounds::default()).await,
            Err(BoardError::UnknownBoard { .. })
        ));
        assert_eq!(boards.unsent(10).await.unwrap(), []);
        // A handle that still knows the board does not write to what is gone, nor to what comes after.
        let stale = world.boards().control(&id("incident"));
        assert!(matches!(
            stale.write("a", &WriteRequest::new("findings", json("1"))).await,
            Err(BoardError::UnknownBoard { .. })
        ));
        let spec = BoardSpec::new(limits()).region(Region::level("findings"));
        let anew = boards.open(&id("incident"), &spec).await.unwrap();
        assert_eq!(
            written(anew.write("bob", &WriteRequest::new("findings", json("1")).key("k")).await.unwrap()).sequence,
            1
        );
        assert!(matches!(control.reader().read_premise("goal").await, Err(BoardError::UnknownRegion { .. })));
        assert_eq!(other.reader().head().await.unwrap(), 1);
        let listed: Vec<_> = boards.list(None, 10).await.unwrap().into_iter().map(|board| board.id).collect();
        assert_eq!(listed, [id("incident"), id("other")]);
    })
    .await;
}

#[tokio::test]
async fn boards_are_listed_in_pages() {
    every("list", async |world| {
        let boards = world.boards();
        for number in 0..7 {
            boards.open(&id(&format!("b-{number}")), &spec()).await.unwrap();
        }
        boards.control(&id("b-3")).delete().await.unwrap();
        let mut seen = Vec::new();
        loop {
            let page = boards.list(seen.last(), 2).await.unwrap();
            if page.is_empty() {
                break;
            }
            seen.extend(page.into_iter().map(|board| board.id));
        }
        let expected: Vec<_> = [0, 1, 2, 4, 5, 6].iter().map(|number| id(&format!("b-{number}"))).collect();
        assert_eq!(seen, expected);
        assert!(boards.of_tenant(placet_store::Tenant::new("other")).list(None, 9).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_tail_gives_what_there_is_and_what_comes() {
    every("tail", async |world| {
        let control = world.incident().await;
        let mut tail = Box::pin(control.reader().tail(0));
        assert_eq!(tail.next().await.unwrap().unwrap().sequence, 1);
        let (second, _) = futures_util::join!(tail.next(), write(&control, "ann", "findings", "7"));
        assert_eq!(second.unwrap().unwrap().content.as_str(), "7");
    })
    .await;
}

#[tokio::test]
async fn everything_that_is_decided_is_told() {
    every("decisions", async |world| {
        let control = world.incident().await;
        write(&control, "an \"n\"", "findings", "1").await;
        control.set_premise("bob", &SetRequest::new("goal", json("1"), 9)).await.unwrap();
        let decided = control.decisions(0, 100).await.unwrap();
        assert!(decided.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
        let decided: Vec<_> = decided.into_iter().map(|record| record.decision).collect();
        assert!(matches!(&decided[0], Decision::RunOpened { idle_us: 60_000_000, .. }));
        let admitted = Decision::WriteAdmitted {
            region: "findings".into(),
            writer: Some("an \"n\"".into()),
            version: None,
            sequence: 2,
        };
        assert!(decided.contains(&admitted), "{decided:?}");
        let opening = Decision::WriteAdmitted { region: "goal".into(), writer: None, version: Some(1), sequence: 1 };
        assert!(decided.contains(&opening), "{decided:?}");
        let conflicted = Decision::WriteConflicted {
            region: "goal".into(),
            writer: "bob".into(),
            expected_version: 9,
            current_version: 1,
        };
        assert_eq!(decided.last(), Some(&conflicted));
    })
    .await;
}

#[tokio::test]
async fn old_decisions_are_dropped() {
    let world = crate::world::World::memory();
    let options = placet_board::BoardsOptions::default().decisions(100);
    let control = world.boards_with(options).open(&id("b"), &spec()).await.unwrap();
    for number in 0..1000 {
        write(&control, "ann", "findings", &number.to_string()).await;
    }
    let kept = control.decisions(0, 10_000).await.unwrap();
    assert!((100..=300).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().map(|record| record.number), Some(1004));
}
