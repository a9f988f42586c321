//! Every change of status is `Status::on`, as a compare-and-set.

use alloy_primitives::B256;
use futures::future::join_all;
use quittance_protocol::{
    code::Code,
    settlement::{Event, Evidence, Status},
};
use quittance_store::{StoreError, model::SettlementId};
use uuid::Uuid;

use crate::{
    fixture::Fixture,
    given::{in_status, known_lane, moved, payment, reserved, signed},
};

async fn every_status_takes_every_event_as_the_state_machine_says(fixture: Fixture) {
    let store = &*fixture.store;
    for status in Status::ALL {
        for event in Event::ALL {
            let before = in_status(store, status, &payment()).await;
            let after =
                store.transition(before.id, before.version, event, &Evidence::default()).await.unwrap();
            // Only sign_slot may say that bytes are stored.
            let expected = if event == Event::Signed { None } else { status.on(event) };
            assert_eq!(after.as_ref().map(|p| p.status), expected, "{status} on {event:?}");
            let stored = store.payment(before.id).await.unwrap().unwrap();
            match after {
                Some(after) => {
                    assert_eq!(after.version, before.version + 1);
                    assert_eq!(stored, after);
                }
                None => assert_eq!(stored, before, "{status} on {event:?} left a trace"),
            }
        }
    }
}

async fn a_lost_update_is_refused(fixture: Fixture) {
    let store = &*fixture.store;
    let read = reserved(store).await;
    for version in [read.version - 1, read.version + 1, i64::MIN, i64::MAX] {
        let late = store.transition(read.id, version, Event::Refused, &Evidence::default()).await.unwrap();
        assert_eq!(late, None, "{version}");
    }
    let refused = moved(store, &read, Event::Refused).await;
    let late = store.transition(read.id, read.version, Event::FoundElsewhere, &Evidence::default()).await;
    assert_eq!(late.unwrap(), None);
    assert_eq!(store.payment(read.id).await.unwrap(), Some(refused));

    let nobody = SettlementId(Uuid::now_v7());
    assert_eq!(store.payment(nobody).await.unwrap(), None);
    assert_eq!(store.transition(nobody, 1, Event::Refused, &Evidence::default()).await.unwrap(), None);
}

async fn of_twenty_transitions_at_one_version_one_applies(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let lane = known_lane(&*fixture.store).await;
    let read = signed(&*fixture.store, &lane).await.payment;
    let events = [Event::Mined, Event::SettledAtDepth, Event::ProvenFailed, Event::FoundElsewhere];
    let writers = (0..20).map(|i| {
        let (store, id, version) = (stores[i % stores.len()].clone(), read.id, read.version);
        let event = events[i % events.len()];
        tokio::spawn(async move { store.transition(id, version, event, &Evidence::default()).await.unwrap() })
    });
    let winners: Vec<_> = join_all(writers).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(fixture.store.payment(read.id).await.unwrap().as_ref(), Some(&winners[0]));
}

async fn evidence_adds_up(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await;
    let hash = slot.attempt.signed.hash;
    assert_eq!(slot.payment.tx_hash, Some(hash));

    let mined = Evidence { block_number: Some(77), ..Evidence::default() };
    let mined = store.transition(slot.payment.id, slot.payment.version, Event::Mined, &mined).await.unwrap();
    let mined = mined.unwrap();
    assert_eq!((mined.tx_hash, mined.block_number), (Some(hash), Some(77)));

    // The block is no longer the chain's; the transaction still is the one to look for.
    let stale = Evidence { block_number: Some(78), ..Evidence::default() };
    let reorged = store.transition(mined.id, mined.version, Event::Reorged, &stale).await.unwrap().unwrap();
    assert_eq!((reorged.tx_hash, reorged.block_number), (Some(hash), None));

    let all = Evidence {
        reason: Some(Code::TransactionFailed),
        message: Some("reverted, \u{1F4B8} ' \" \\ $1 ?".to_owned()),
        tx_hash: Some(B256::repeat_byte(9)),
        block_number: Some(79),
    };
    let failed =
        store.transition(mined.id, reorged.version, Event::ProvenFailed, &all).await.unwrap().unwrap();
    assert_eq!(
        (failed.reason, failed.message, failed.tx_hash, failed.block_number),
        (all.reason, all.message, all.tx_hash, all.block_number)
    );
}

async fn every_reason_reads_back(fixture: Fixture) {
    let store = &*fixture.store;
    for &code in Code::ALL {
        let read = reserved(store).await;
        let evidence = Evidence { reason: Some(code), ..Evidence::default() };
        let refused =
            store.transition(read.id, read.version, Event::Refused, &evidence).await.unwrap().unwrap();
        assert_eq!(refused.reason, Some(code));
    }
}

async fn block_numbers_fit_or_are_refused(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let read = signed(store, &lane).await.payment;
    let edge = u64::try_from(i64::MAX).unwrap();
    for beyond in [edge + 1, u64::MAX] {
        let evidence = Evidence { block_number: Some(beyond), ..Evidence::default() };
        let refused = store.transition(read.id, read.version, Event::Mined, &evidence).await;
        assert!(matches!(refused, Err(StoreError::OutOfRange("block number"))), "{refused:?}");
    }
    assert_eq!(store.payment(read.id).await.unwrap().as_ref(), Some(&read));
    let evidence = Evidence { block_number: Some(edge), ..Evidence::default() };
    let mined = store.transition(read.id, read.version, Event::Mined, &evidence).await.unwrap().unwrap();
    assert_eq!(mined.block_number, Some(edge));
    let genesis = Evidence { block_number: Some(0), ..Evidence::default() };
    let mined = store.transition(read.id, mined.version, Event::Mined, &genesis).await.unwrap().unwrap();
    assert_eq!(mined.block_number, Some(0));
}

contract!(
    every_status_takes_every_event_as_the_state_machine_says,
    a_lost_update_is_refused,
    of_twenty_transitions_at_one_version_one_applies,
    evidence_adds_up,
    every_reason_reads_back,
    block_numbers_fit_or_are_refused,
);
