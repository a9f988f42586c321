//! A caller may stop waiting at any moment. What it started then happened whole or not at all.

use quittance_protocol::{settlement::Status, units::LaneNonce};
use quittance_store::model::Reservation;
use std::{future::Future, task::Poll};

use crate::{
    fixture::Fixture,
    given::{LATER, known_lane, pay, payment, reserved, signed},
};

/// Polls a future so many times and drops it.
async fn abandoned<F: Future>(future: F, polls: usize) -> bool {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}

async fn an_abandoned_signing_is_whole_or_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let mut finished = false;
    let mut polls = 0;
    while !finished {
        polls += 1;
        let before = reserved(store).await;
        finished = abandoned(store.sign_slot(before.id, before.version, &lane, &pay), polls).await;

        // The statement that was on its way when the caller left may still arrive; what decides is what the store says
        // once the connection is back, and it is back when the next write gets through.
        let probe = signed(store, &lane).await;
        let after = store.payment(before.id).await.unwrap().unwrap();
        let slots = format!("SELECT COUNT(*) FROM slots WHERE payment_id = '{}'", before.id);
        let attempts = format!(
            "SELECT COUNT(*) FROM attempts JOIN slots ON slots.id = slot_id WHERE payment_id = '{}'",
            before.id
        );
        let written = (fixture.peek(&slots).await, fixture.peek(&attempts).await);
        match after.status {
            Status::Reserved => assert_eq!((after, written), (before, (0, 0)), "after {polls} polls"),
            Status::Signed => assert_eq!(written, (1, 1), "after {polls} polls"),
            other => panic!("{other}"),
        }
        let gaps = "SELECT MAX(lane_nonce) + 1 - COUNT(*) FROM slots";
        assert_eq!(fixture.peek(gaps).await, 0, "no nonce is lost after {polls} polls");
        assert!(probe.attempt.lane_nonce > LaneNonce(0) || polls == 1);
    }
}

async fn an_abandoned_reservation_is_whole_or_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let mut finished = false;
    let mut polls = 0;
    while !finished {
        polls += 1;
        let terms = payment();
        finished = abandoned(store.reserve(&Reservation::new(&terms, LATER)), polls).await;
        store.reserve(&Reservation::new(&terms, LATER)).await.unwrap();
        let holder = store.lookup(&terms.key).await.unwrap().unwrap();
        assert_eq!((holder.status, holder.version, holder.terms), (Status::Reserved, 1, terms));
    }
}

/// More abandoned calls than there are connections: none of them takes one along, and none leaves a transaction open on
/// it, in which the writes of others would be acknowledged and lost.
async fn abandoned_calls_give_their_connections_back_clean(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    for i in 0..60 {
        let before = reserved(store).await;
        abandoned(store.sign_slot(before.id, before.version, &lane, &pay), 1 + i % 4).await;
        abandoned(store.open_work(lane.network), 1 + i % 4).await;
        abandoned(store.payment(before.id), 1 + i % 2).await;
        let seen = format!("SELECT COUNT(*) FROM payments WHERE id = '{}'", reserved(store).await.id);
        assert_eq!(fixture.peek(&seen).await, 1, "acknowledged, so committed");
    }
    signed(store, &lane).await;
}

contract!(
    an_abandoned_signing_is_whole_or_nothing,
    an_abandoned_reservation_is_whole_or_nothing,
    abandoned_calls_give_their_connections_back_clean,
);
