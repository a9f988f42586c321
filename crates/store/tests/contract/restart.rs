//! What was acknowledged is there after the process has ended.

use quittance_protocol::settlement::{Event, Evidence};
use quittance_store::model::{KeyBinding, LastAnswer, PaymentFilter};
use std::time::Duration;

use crate::{
    fixture::Fixture,
    given::{fill, holder, key_of, known_lane, network, open_but_for_ages, pay, reserved, signed},
};

const LONG: Duration = Duration::from_secs(3600);

async fn restart_with_signed(fixture: Fixture) {
    let store = fixture.store.clone();
    let lane = known_lane(&*store).await;
    let slot = signed(&*store, &lane).await;
    store.add_attempt(slot.attempt.slot, 1, &pay).await.unwrap().unwrap();
    store.add_attempt(slot.attempt.slot, 2, &fill).await.unwrap().unwrap();
    let other = signed(&*store, &lane).await;
    let evidence = Evidence { block_number: Some(9), ..Evidence::default() };
    store
        .transition(other.payment.id, other.payment.version, Event::Mined, &evidence)
        .await
        .unwrap()
        .unwrap();
    reserved(&*store).await;
    let key = key_of(&slot.payment.terms);
    store.bind_idempotency_key(&key).await.unwrap();
    store.store_idempotent_answer(&key, "{}").await.unwrap();
    let work = open_but_for_ages(&*store, lane.network).await;
    let all = store.find(&PaymentFilter::default(), 10).await.unwrap();
    assert_eq!((work.slots.len(), all.len()), (2, 3));
    drop(store);

    // Twice, because migrations must find nothing to do the second time.
    let fixture = fixture.restarted().await.restarted().await;
    let store = &*fixture.store;
    assert_eq!(open_but_for_ages(store, lane.network).await, work);
    assert_eq!(store.find(&PaymentFilter::default(), 10).await.unwrap(), all);
    let again = store.bind_idempotency_key(&key).await.unwrap();
    assert_eq!(again, KeyBinding::Same(Some("{}".to_owned())));
    let next = signed(store, &lane).await;
    assert_eq!(next.attempt.lane_nonce.0, other.attempt.lane_nonce.0 + 1);
}

/// Whoever held a lease on SQLite was a process that is gone. On PostgreSQL it may be another replica.
async fn restart_with_leases(fixture: Fixture) {
    let store = fixture.store.clone();
    let (told, begun) = (reserved(&*store).await.id, reserved(&*store).await.id);
    let (asked, gone) = (reserved(&*store).await.id, holder());
    assert!(store.take_answer(told, gone, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(told, gone, LastAnswer::Success, LONG).await.unwrap());
    assert!(store.release_answer(told, gone, true).await.unwrap());
    // Begun, and then the process died: it counts as said.
    assert!(store.take_answer(begun, gone, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(begun, gone, LastAnswer::Success, LONG).await.unwrap());
    assert!(store.take_answer(asked, gone, i64::MAX, LONG).await.unwrap());
    assert!(store.take_keeper(network(8453), gone, LONG).await.unwrap());
    drop(store);

    let fixture = fixture.restarted().await;
    let (store, next) = (&*fixture.store, holder());
    assert!(
        !store.take_answer(told, next, i64::MAX, LONG).await.unwrap(),
        "handed out before, handed out for ever"
    );
    assert!(
        !store.take_answer(begun, next, i64::MAX, LONG).await.unwrap(),
        "begun, and nobody left who could take it back"
    );
    let in_flight = store.payment(begun).await.unwrap().unwrap().answer_in_flight;
    assert_eq!(in_flight, !fixture.is_sqlite());
    assert_eq!(store.take_answer(asked, next, i64::MAX, LONG).await.unwrap(), fixture.is_sqlite());
    assert_eq!(store.take_keeper(network(8453), next, LONG).await.unwrap(), fixture.is_sqlite());
}

contract!(restart_with_signed, restart_with_leases);
