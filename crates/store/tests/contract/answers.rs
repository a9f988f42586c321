//! One payment, one grant.

use futures::future::join_all;
use quittance_protocol::settlement::{Event, Status};
use quittance_store::model::{LastAnswer, SettlementId};
use std::time::Duration;
use uuid::Uuid;

use crate::{
    fixture::{Fixture, eventually},
    given::{holder, moved, reserved},
};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

async fn one_request_answers_at_a_time(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, one, two) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, one, LONG).await.unwrap());
    assert!(store.take_answer(id, one, LONG).await.unwrap(), "the holder renews");
    assert!(!store.take_answer(id, two, LONG).await.unwrap());
    assert!(!store.release_answer(id, two, Some(LastAnswer::Success)).await.unwrap());

    assert!(store.release_answer(id, one, None).await.unwrap());
    assert!(!store.release_answer(id, one, None).await.unwrap(), "it is given back already");
    assert_eq!(store.payment(id).await.unwrap().unwrap().last_answer, None);
    assert!(store.take_answer(id, two, LONG).await.unwrap());
}

async fn a_success_is_handed_out_once(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, one, two) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, one, LONG).await.unwrap());
    assert!(store.release_answer(id, one, Some(LastAnswer::Pending)).await.unwrap());
    assert_eq!(store.payment(id).await.unwrap().unwrap().last_answer, Some(LastAnswer::Pending));

    // Nothing was written this time: what was said before still stands.
    assert!(store.take_answer(id, two, LONG).await.unwrap());
    assert!(store.release_answer(id, two, None).await.unwrap());
    assert_eq!(store.payment(id).await.unwrap().unwrap().last_answer, Some(LastAnswer::Pending));

    assert!(store.take_answer(id, one, LONG).await.unwrap());
    assert!(store.release_answer(id, one, Some(LastAnswer::Success)).await.unwrap());
    for who in [one, two] {
        assert!(!store.take_answer(id, who, LONG).await.unwrap());
        assert!(!store.release_answer(id, who, Some(LastAnswer::Pending)).await.unwrap());
    }
    assert_eq!(store.payment(id).await.unwrap().unwrap().last_answer, Some(LastAnswer::Success));
}

async fn of_fifty_requests_one_may_answer(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let id = reserved(&*fixture.store).await.id;
    let requests = (0..50).map(|i| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(async move { store.take_answer(id, holder(), LONG).await.unwrap() })
    });
    let granted = join_all(requests).await.into_iter().filter(|granted| *granted.as_ref().unwrap()).count();
    assert_eq!(granted, 1);
}

async fn a_lease_lapses_in_database_time(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, gone, next) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, gone, SHORT).await.unwrap());
    eventually(async || store.take_answer(id, next, LONG).await.unwrap()).await;
    // The request that came back late finds that it is no longer the one.
    assert!(!store.take_answer(id, gone, LONG).await.unwrap());
    assert!(!store.release_answer(id, gone, Some(LastAnswer::Success)).await.unwrap());
    assert_eq!(store.payment(id).await.unwrap().unwrap().last_answer, None);
}

/// Too late, but nobody else was told anything: the truth is recorded.
async fn a_lapsed_lease_nobody_took_still_records_the_answer(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, slow) = (reserved(store).await.id, holder());
    assert!(store.take_answer(id, slow, Duration::ZERO).await.unwrap());
    assert!(store.release_answer(id, slow, Some(LastAnswer::Success)).await.unwrap());
    assert!(!store.take_answer(id, holder(), LONG).await.unwrap());
}

async fn leases_of_any_length_are_taken(fixture: Fixture) {
    let store = &*fixture.store;
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let id = reserved(store).await.id;
        assert!(store.take_answer(id, holder(), ttl).await.unwrap(), "{ttl:?}");
        assert_eq!(store.take_answer(id, holder(), ttl).await.unwrap(), ttl < SHORT, "{ttl:?}");
    }
}

async fn answering_and_settling_do_not_disturb_each_other(fixture: Fixture) {
    let store = &*fixture.store;
    let (payment, one) = (reserved(store).await, holder());
    assert!(store.take_answer(payment.id, one, LONG).await.unwrap());
    // The version read before the lease was taken is still the one.
    let refused = moved(store, &payment, Event::Refused).await;
    assert_eq!((refused.status, refused.version), (Status::Refused, payment.version + 1));
    assert!(!store.take_answer(payment.id, holder(), LONG).await.unwrap());
    assert!(store.release_answer(payment.id, one, Some(LastAnswer::Success)).await.unwrap());
    let after = store.payment(payment.id).await.unwrap().unwrap();
    assert_eq!((after.status, after.version), (refused.status, refused.version));
}

async fn there_is_nothing_to_say_about_an_unknown_payment(fixture: Fixture) {
    let nobody = SettlementId(Uuid::now_v7());
    assert!(!fixture.store.take_answer(nobody, holder(), LONG).await.unwrap());
    assert!(!fixture.store.release_answer(nobody, holder(), None).await.unwrap());
}

contract!(
    one_request_answers_at_a_time,
    a_success_is_handed_out_once,
    of_fifty_requests_one_may_answer,
    a_lease_lapses_in_database_time,
    a_lapsed_lease_nobody_took_still_records_the_answer,
    leases_of_any_length_are_taken,
    answering_and_settling_do_not_disturb_each_other,
    there_is_nothing_to_say_about_an_unknown_payment,
);
