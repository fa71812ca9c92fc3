//! What is promised of leases, due indexes and outboxes.

use super::*;
use crate::due::{DueIndex, When};
use crate::lease::{Lease, LeaseState};
use crate::outbox::Outbox;
use futures_util::future::join_all;
use placet_core::Timestamp;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

pub(super) async fn a_lease_is_held_by_one(bench: Bench) {
    let key = bench.key("lease");
    let names: Vec<String> = (0..20).map(|number| format!("owner {number}")).collect();
    let takes = join_all(names.iter().map(|name| Lease::take(&*bench.store, &key, name, HOUR))).await;
    let holders: Vec<&String> =
        names.iter().zip(&takes).filter(|(_, take)| take.as_ref().unwrap().is_ok()).map(|(name, _)| name).collect();
    assert_eq!(holders.len(), 1);
    for told in takes.iter().filter_map(|take| take.as_ref().unwrap().as_ref().err()) {
        assert_eq!(told.holder.as_ref(), Some(holders[0]));
    }
    let state = LeaseState::read(&*bench.store, &key).await.unwrap();
    assert_eq!(state.holder.as_ref(), Some(holders[0]));
    assert!(is_misuse(state.take(&mut Batch::new(), "", HOUR)));
}

pub(super) async fn a_lapsed_lease_is_taken_over_and_its_owner_fenced(bench: Bench) {
    let (key, log) = (bench.key("lease"), bench.log("log"));
    // A lease for no time at all has lapsed at once.
    let first = Lease::take(&*bench.store, &key, "first", Duration::ZERO).await.unwrap().unwrap();
    let work = |lease: &Lease| {
        let mut batch = Batch::new();
        batch.require(lease.fence()).append(&log, text("work"));
        batch
    };
    bench.commit(work(&first)).await;
    let lapsed = bench.refused(|batch| _ = batch.require(first.not_lapsed())).await;
    assert_eq!(condition(lapsed).0, 0);
    let second = Lease::take(&*bench.store, &key, "second", HOUR).await.unwrap().unwrap();
    assert!(second.token() > first.token());
    bench.commit(work(&second)).await;
    bench.write(|batch| _ = batch.require(second.not_lapsed())).await;
    assert!(bench.store.commit(work(&first)).await.unwrap_err().is_refusal());
    // The former owner can neither renew nor release what is no longer its.
    condition(bench.refused(|batch| first.renew(batch, HOUR)).await);
    condition(bench.refused(|batch| first.release(batch)).await);
    assert_eq!(bench.entries(&log).await.len(), 2);
}

pub(super) async fn a_released_lease_is_free_and_its_token_is_spent(bench: Bench) {
    let key = bench.key("lease");
    let first = Lease::take(&*bench.store, &key, "first", HOUR).await.unwrap().unwrap();
    bench.write(|batch| first.release(batch)).await;
    condition(bench.refused(|batch| _ = batch.require(first.fence())).await);
    assert_eq!(LeaseState::read(&*bench.store, &key).await.unwrap().holder, None);
    let again = Lease::take(&*bench.store, &key, "first", HOUR).await.unwrap().unwrap();
    assert!(again.token() > first.token());
    condition(bench.refused(|batch| _ = batch.require(first.fence())).await);
}

pub(super) async fn a_renewed_lease_lasts_longer(bench: Bench) {
    let key = bench.key("lease");
    let lease = Lease::take(&*bench.store, &key, "owner", Duration::ZERO).await.unwrap().unwrap();
    // Somebody saw that it had lapsed, but it is renewed before that one takes it.
    let seen = LeaseState::read(&*bench.store, &key).await.unwrap();
    assert_eq!(seen.holder, None);
    let at = bench.write(|batch| lease.renew(batch, HOUR)).await.instant;
    condition(bench.refused(|batch| _ = seen.take(batch, "other", HOUR).unwrap()).await);
    let state = LeaseState::read(&*bench.store, &key).await.unwrap();
    assert_eq!((state.holder.as_deref(), state.until), (Some("owner"), Some(at.plus(HOUR))));
    bench.write(|batch| _ = batch.require(lease.fence()).require(lease.not_lapsed())).await;
}

pub(super) async fn what_is_due_comes_in_order_and_once(bench: Bench) {
    let index = DueIndex::new(bench.name);
    let item = |name: &str| bench.key(name);
    let now = bench.store.now().await.unwrap();
    let early = Timestamp::from_millis(5);
    let at = bench
        .write(|batch| {
            index.put(batch, When::After(Duration::ZERO), &item("second"), text("2"));
            index.put(batch, When::After(HOUR), &item("later"), text("3"));
            index.put(batch, When::At(early), &item("first"), text("1"));
            index.put(batch, When::At(early), &item("cancelled"), text("-"));
        })
        .await
        .instant;
    assert!(at >= now);
    bench.write(|batch| index.remove(batch, early, &item("cancelled"))).await;
    let due = index.due(&*bench.store, at, 9).await.unwrap();
    let seen: Vec<_> = due.iter().map(|due| (due.at, due.item.clone(), as_text(&due.cell.value))).collect();
    assert_eq!(seen, [(early, item("first"), "1".to_owned()), (at, item("second"), "2".to_owned())]);
    assert_eq!(index.due(&*bench.store, at, 1).await.unwrap().len(), 1);
    assert_eq!(index.due(&*bench.store, early, 9).await.unwrap().len(), 1);
    // Two sweeps see it, one does it.
    bench.write(|batch| index.claim(batch, &due[0])).await;
    condition(bench.refused(|batch| index.claim(batch, &due[0])).await);
    assert_eq!(index.next(&*bench.store).await.unwrap(), Some(at));
    bench.write(|batch| index.claim(batch, &due[1])).await;
    assert_eq!(index.next(&*bench.store).await.unwrap(), Some(at.plus(HOUR)));
    assert_eq!(index.due(&*bench.store, at, 9).await.unwrap(), []);
}

pub(super) async fn what_is_owed_is_settled_in_order(bench: Bench) {
    let outbox = Outbox::new(bench.name);
    let log = bench.log("board");
    let (ann, bob) = (bench.key("ann"), bench.key("bob"));
    for round in 1..=3 {
        bench
            .write(|batch| {
                let number = batch.append(&log, text("x"));
                outbox.owe(batch, &ann, number, text(&format!("a{round}")));
                outbox.owe(batch, &bob, number, text(&format!("b{round}")));
            })
            .await;
    }
    bench.write(|batch| outbox.owe(batch, &bob, 9, text("b9"))).await;
    let shown =
        |owed: &[crate::outbox::Owed]| owed.iter().map(|owed| as_text(&owed.cell.value)).collect::<Vec<_>>().join(" ");
    let page = outbox.owed(&*bench.store, None, 4).await.unwrap();
    assert_eq!(shown(&page), "a1 a2 a3 b1");
    assert_eq!((&page[3].to, page[3].number), (&bob, 1));
    assert_eq!(shown(&outbox.owed(&*bench.store, page.last(), 9).await.unwrap()), "b2 b3 b9");
    bench.write(|batch| outbox.settle(batch, &page[1])).await;
    assert_eq!(shown(&outbox.owed_to(&*bench.store, &ann, 9).await.unwrap()), "a1 a3");
    assert_eq!(outbox.settle_through(&*bench.store, &bob, 3).await.unwrap(), 3);
    assert_eq!(shown(&outbox.owed(&*bench.store, None, 9).await.unwrap()), "a1 a3 b9");
    bench.write(|batch| outbox.forget(batch, &ann)).await;
    assert_eq!(shown(&outbox.owed(&*bench.store, None, 9).await.unwrap()), "b9");
}
