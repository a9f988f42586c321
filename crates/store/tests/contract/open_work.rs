//! What recovery finds.

use quittance_protocol::{settlement::Event, units::LaneNonce};
use quittance_store::model::{LaneId, OpenWork, SlotOutcome};
use std::time::Duration;

use crate::{
    fixture::Fixture,
    given::{fill, known_lane, moved, network, pay, payment, reserved, reserved_as, signed},
};

async fn everything_not_final_is_found(fixture: Fixture) {
    let store = &*fixture.store;
    let chain = network(8453);
    assert_eq!(store.open_work(chain).await.unwrap(), OpenWork::default());

    let mut lanes = [known_lane(store).await, known_lane(store).await];
    lanes.sort();
    reserved(store).await;
    // Signed in an order that is not the order of (lane, nonce).
    let second_lane = signed(store, &lanes[1]).await;
    store.raise_lane_floor(&lanes[0], LaneNonce(9)).await.unwrap();
    let ninth = signed(store, &lanes[0]).await;
    let tenth = signed(store, &lanes[0]).await;
    let second = store.sign_filler(&lanes[0], LaneNonce(2), &fill).await.unwrap().unwrap();
    let bump = store.add_attempt(tenth.attempt.slot, 1, &pay).await.unwrap().unwrap();
    // Decided, but its slot is still to be consumed.
    let decided = moved(store, &ninth.payment, Event::FoundElsewhere).await;

    // Their slots are gone: one undecided, one with a receipt, one settled.
    let mut closed = Vec::new();
    for outcome in [SlotOutcome::Foreign, SlotOutcome::Ours, SlotOutcome::Ours] {
        let slot = signed(store, &lanes[1]).await;
        store.close_slot(slot.attempt.slot, outcome).await.unwrap();
        closed.push(slot.payment);
    }
    let mined = moved(store, &closed[1], Event::Mined).await;
    moved(store, &closed[2], Event::SettledAtDepth).await;

    let work = store.open_work(chain).await.unwrap();
    let found: Vec<_> =
        work.slots.iter().map(|s| (s.id, s.lane, s.lane_nonce, s.payment.as_ref().map(|p| p.id))).collect();
    assert_eq!(
        found,
        [
            (second.slot, lanes[0], LaneNonce(2), None),
            (ninth.attempt.slot, lanes[0], LaneNonce(9), Some(decided.id)),
            (tenth.attempt.slot, lanes[0], LaneNonce(10), Some(tenth.payment.id)),
            (second_lane.attempt.slot, lanes[1], LaneNonce(0), Some(second_lane.payment.id)),
        ]
    );
    assert_eq!(work.slots[0].attempts, [second]);
    assert_eq!(work.slots[1].payment, Some(decided));
    assert_eq!(work.slots[2].attempts, [tenth.attempt, bump]);
    assert_eq!(work.orphans, [closed[0].clone(), mined]);
}

async fn networks_are_apart(fixture: Fixture) {
    let store = &*fixture.store;
    let here = known_lane(store).await;
    let there = LaneId { network: network(1), address: here.address };
    store.raise_lane_floor(&there, LaneNonce(0)).await.unwrap();
    let mine = signed(store, &here).await;
    let mut terms = payment();
    terms.key.network = there.network;
    let theirs = reserved_as(store, &terms).await;
    let theirs = store.sign_slot(theirs.id, theirs.version, &there, &pay).await.unwrap().unwrap();
    for (network, slot) in [(here.network, &mine), (there.network, &theirs)] {
        let work = store.open_work(network).await.unwrap();
        assert_eq!(work.slots.iter().map(|s| s.id).collect::<Vec<_>>(), [slot.attempt.slot]);
    }
    store.close_slot(theirs.attempt.slot, SlotOutcome::Foreign).await.unwrap();
    assert_eq!(store.open_work(here.network).await.unwrap().orphans, []);
    assert_eq!(store.open_work(there.network).await.unwrap().orphans, [theirs.payment]);
}

/// Slots close and payments settle while recovery reads: it sees each of them whole.
async fn a_moving_picture_is_read_as_one(fixture: Fixture) {
    let lane = known_lane(&*fixture.store).await;
    let store = fixture.store.clone();
    let writing = tokio::spawn(async move {
        for _ in 0..60 {
            let slot = signed(&*store, &lane).await;
            store.close_slot(slot.attempt.slot, SlotOutcome::Ours).await.unwrap();
            moved(&*store, &slot.payment, Event::SettledAtDepth).await;
        }
    });
    while !writing.is_finished() {
        let work = fixture.store.open_work(lane.network).await.unwrap();
        assert!(work.slots.iter().all(|slot| !slot.attempts.is_empty() && slot.payment.is_some()));
        assert!(work.slots.len() + work.orphans.len() <= 1);
    }
    writing.await.unwrap();
    assert_eq!(fixture.store.open_work(lane.network).await.unwrap(), OpenWork::default());
}

/// Each attempt, by the database's clock. What it has not come to yet is just signed.
async fn attempts_come_with_their_ages(fixture: Fixture) {
    const HOUR: Duration = Duration::from_secs(3_600);
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await.attempt.slot;
    for seen in 1..3 {
        store.add_attempt(slot, seen, &pay).await.unwrap().unwrap();
    }
    let guard = if fixture.is_sqlite() { "attempts_no_update" } else { "attempts_append_only ON attempts" };
    fixture.meddle(&format!("DROP TRIGGER {guard}")).await.unwrap();
    // Two hours ago, an hour ago, and in an hour.
    let ages = "UPDATE attempts SET created_at_ms = created_at_ms + 3600000 * (CASE sequence WHEN 2 THEN 1 ELSE sequence - 2 END)";
    assert_eq!(fixture.meddle(ages).await.unwrap(), 3);
    let work = store.open_work(lane.network).await.unwrap();
    let signed_ago = &work.slots[0].signed_ago;
    assert_eq!(signed_ago.len(), work.slots[0].attempts.len());
    assert!((2 * HOUR..3 * HOUR).contains(&signed_ago[0]), "{signed_ago:?}");
    assert!((HOUR..2 * HOUR).contains(&signed_ago[1]), "{signed_ago:?}");
    assert_eq!(signed_ago[2], Duration::ZERO);
}

contract!(
    everything_not_final_is_found,
    networks_are_apart,
    a_moving_picture_is_read_as_one,
    attempts_come_with_their_ages,
);
