//! One payment, one grant.

use futures::future::join_all;
use quittance_protocol::settlement::{Event, Status};
use quittance_store::{
    Store,
    model::{KeyBinding, KeyUse, KeyedAnswer, LastAnswer, SettlementId},
};
use std::time::Duration;
use uuid::Uuid;

use crate::{
    fixture::{Fixture, eventually},
    given::{holder, key_of, moved, reserved, rival},
};

const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(100);

/// What was said last, and whether it is still on its way.
async fn said(store: &dyn Store, id: SettlementId) -> (Option<LastAnswer>, bool) {
    let payment = store.payment(id).await.unwrap().unwrap();
    (payment.last_answer, payment.answer_in_flight)
}

async fn one_request_answers_at_a_time(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, one, two) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, one, i64::MAX, LONG).await.unwrap());
    assert!(store.take_answer(id, one, i64::MAX, LONG).await.unwrap(), "the holder renews");
    assert!(!store.take_answer(id, two, i64::MAX, LONG).await.unwrap());
    for says in [LastAnswer::Pending, LastAnswer::Success] {
        assert!(!store.begin_answer(id, two, says, LONG).await.unwrap());
    }
    for delivered in [true, false] {
        assert!(!store.release_answer(id, two, delivered).await.unwrap());
    }
    store.lapse_answer(id).await.unwrap();
    assert!(store.take_answer(id, one, i64::MAX, LONG).await.unwrap(), "a lease that holds does not lapse");

    assert!(store.release_answer(id, one, false).await.unwrap());
    assert!(!store.release_answer(id, one, false).await.unwrap(), "it is given back already");
    assert!(!store.begin_answer(id, one, LastAnswer::Success, LONG).await.unwrap(), "no lease, no answer");
    assert_eq!(said(store, id).await, (None, false));
    assert!(store.take_answer(id, two, i64::MAX, LONG).await.unwrap());
}

async fn a_success_is_handed_out_once(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, one, two) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, one, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(id, one, LastAnswer::Pending, LONG).await.unwrap());
    assert_eq!(said(store, id).await, (Some(LastAnswer::Pending), true));
    assert!(store.release_answer(id, one, true).await.unwrap());
    assert_eq!(said(store, id).await, (Some(LastAnswer::Pending), false));

    assert!(store.take_answer(id, one, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(id, one, LastAnswer::Success, LONG).await.unwrap());
    assert_eq!(said(store, id).await, (Some(LastAnswer::Success), true));
    // On its way is handed out, to everybody else and to the holder itself.
    for who in [one, two] {
        assert!(!store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
        assert!(!store.begin_answer(id, who, LastAnswer::Pending, LONG).await.unwrap());
    }
    assert!(store.release_answer(id, one, true).await.unwrap());
    for who in [one, two] {
        assert!(!store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
        assert!(!store.begin_answer(id, who, LastAnswer::Pending, LONG).await.unwrap());
        assert!(!store.release_answer(id, who, false).await.unwrap());
    }
    store.lapse_answer(id).await.unwrap();
    assert_eq!(said(store, id).await, (Some(LastAnswer::Success), false));
}

async fn what_did_not_arrive_was_never_said(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, who) = (reserved(store).await.id, holder());
    // The steps of a payment whose callers keep hanging up, and what stands after each.
    for (says, delivered, stands) in [
        (LastAnswer::Pending, false, None),
        (LastAnswer::Success, false, None),
        (LastAnswer::Pending, true, Some(LastAnswer::Pending)),
        (LastAnswer::Pending, false, Some(LastAnswer::Pending)),
        (LastAnswer::Success, false, Some(LastAnswer::Pending)),
        (LastAnswer::Success, true, Some(LastAnswer::Success)),
    ] {
        assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
        assert!(store.begin_answer(id, who, says, LONG).await.unwrap());
        assert!(store.release_answer(id, who, delivered).await.unwrap());
        assert_eq!(said(store, id).await, (stands, false), "{says:?}, delivered: {delivered}");
    }
}

/// Pending was begun, then the payment settled before a byte of it was written.
async fn an_answer_begun_twice_goes_back_to_the_start(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, who) = (reserved(store).await.id, holder());
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    for says in [LastAnswer::Pending, LastAnswer::Pending, LastAnswer::Success] {
        assert!(store.begin_answer(id, who, says, LONG).await.unwrap());
        assert_eq!(said(store, id).await, (Some(says), true));
    }
    assert!(store.release_answer(id, who, false).await.unwrap());
    assert_eq!(said(store, id).await, (None, false));
}

/// A caller that waited tells by the number whether another was told in the meantime.
async fn answers_are_counted_as_they_are_said(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, who, next) = (reserved(store).await.id, holder(), holder());
    let count = async || store.payment(id).await.unwrap().unwrap().answers;
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert!(store.release_answer(id, who, false).await.unwrap());
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert!(store.release_answer(id, who, true).await.unwrap());
    assert_eq!(count().await, 0, "a lease is no answer");

    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    for _ in 0..2 {
        assert!(store.begin_answer(id, who, LastAnswer::Pending, LONG).await.unwrap());
        assert_eq!(count().await, 1, "in flight, and one however often it is begun");
    }
    assert!(store.release_answer(id, who, false).await.unwrap());
    assert_eq!(count().await, 0);

    for told in 1..3 {
        assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
        assert!(store.begin_answer(id, who, LastAnswer::Pending, LONG).await.unwrap());
        assert!(store.release_answer(id, who, true).await.unwrap());
        assert_eq!(count().await, told);
    }

    // What its process did not live to confirm counts.
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(id, who, LastAnswer::Pending, Duration::ZERO).await.unwrap());
    assert!(store.take_answer(id, next, i64::MAX, LONG).await.unwrap());
    assert!(store.release_answer(id, next, false).await.unwrap());
    assert_eq!(count().await, 3);
}

/// The text under the idempotency keys and the grant are recorded together or not at all.
async fn a_kept_answer_is_recorded_with_its_grant(fixture: Fixture) {
    let store = &*fixture.store;
    let (payment, who) = (reserved(store).await, holder());
    let id = payment.id;
    // The header's is bound when its request comes, the identifier's may not be.
    let (header, identifier) = (key_of(&payment.terms), key_of(&payment.terms));
    assert_eq!(store.bind_idempotency_key(&header).await.unwrap(), KeyBinding::First);
    let keys = [header.clone(), identifier.clone()];
    let begin = async |answer: &str| {
        store.begin_keyed_answer(id, who, LastAnswer::Success, LONG, &keys, answer).await.unwrap()
    };
    let bound = async || {
        let header = store.idempotency_key(&header).await.unwrap();
        (header, store.idempotency_key(&identifier).await.unwrap())
    };

    assert_eq!(begin("{}").await, KeyedAnswer::NotHeld);
    assert_eq!(bound().await, (Some(KeyBinding::Same(None)), None), "no lease, no answer");

    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert_eq!(begin("{}").await, KeyedAnswer::Begun);
    let kept = Some(KeyBinding::Same(Some("{}".to_owned())));
    assert_eq!(bound().await, (kept.clone(), kept.clone()));
    assert_eq!(said(store, id).await, (Some(LastAnswer::Success), true));
    assert_eq!(begin("2").await, KeyedAnswer::NotHeld);

    // The caller was gone: another may have the success, and the keys still have their answer.
    assert!(store.release_answer(id, who, false).await.unwrap());
    assert_eq!(said(store, id).await, (None, false));
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert_eq!(begin("2").await, KeyedAnswer::Begun);
    assert_eq!(bound().await, (kept.clone(), kept));
}

/// One of its keys means another payment by now: nothing is said, under no key, and the lease can be given back.
async fn an_answer_under_a_key_of_another_payment_is_not_begun(fixture: Fixture) {
    let store = &*fixture.store;
    let (payment, who) = (reserved(store).await, holder());
    let (id, own, taken) = (payment.id, key_of(&payment.terms), key_of(&payment.terms));
    let theirs = KeyUse { payment: rival(&payment.terms).fingerprint, ..taken.clone() };
    assert_eq!(store.bind_idempotency_key(&theirs).await.unwrap(), KeyBinding::First);
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    for keys in [vec![own.clone(), taken.clone()], vec![taken.clone(), own.clone()]] {
        let begun = store.begin_keyed_answer(id, who, LastAnswer::Success, LONG, &keys, "{}").await;
        assert_eq!(begun.unwrap(), KeyedAnswer::KeyTaken);
        assert_eq!(said(store, id).await, (None, false));
        assert_eq!(store.idempotency_key(&own).await.unwrap(), None);
        assert_eq!(store.idempotency_key(&theirs).await.unwrap(), Some(KeyBinding::Same(None)));
    }
    assert!(store.release_answer(id, who, false).await.unwrap());
    assert!(store.take_answer(id, holder(), i64::MAX, LONG).await.unwrap());
}

async fn renewing_forgets_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, who) = (reserved(store).await.id, holder());
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(id, who, LastAnswer::Pending, LONG).await.unwrap());
    assert!(store.take_answer(id, who, i64::MAX, LONG).await.unwrap());
    assert_eq!(said(store, id).await, (Some(LastAnswer::Pending), true));
    assert!(store.release_answer(id, who, false).await.unwrap());
    assert_eq!(said(store, id).await, (None, false));
}

/// "Pending" hands nothing out: a repeat does not wait until it arrived, or until a dead process's lease lapses.
async fn pending_on_its_way_does_not_hold_up_a_repeat(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, first, repeat) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, first, 0, LONG).await.unwrap());
    assert!(!store.take_answer(id, repeat, 0, LONG).await.unwrap(), "nothing was said yet");
    assert!(store.begin_answer(id, first, LastAnswer::Pending, LONG).await.unwrap());
    assert!(!store.take_answer(id, repeat, 0, LONG).await.unwrap(), "a twin");
    assert!(store.take_answer(id, repeat, 1, LONG).await.unwrap());
    assert!(!store.release_answer(id, first, false).await.unwrap(), "what it said stays said");
    assert!(store.begin_answer(id, repeat, LastAnswer::Success, LONG).await.unwrap());
    assert!(store.release_answer(id, repeat, true).await.unwrap());
}

/// Another caller was told while this one waited: it is a twin, not a repeat.
async fn a_caller_that_waited_while_another_was_told_may_not_answer(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, first, twin, repeat) = (reserved(store).await.id, holder(), holder(), holder());
    let seen = store.payment(id).await.unwrap().unwrap().answers;
    assert!(store.take_answer(id, first, seen, LONG).await.unwrap());
    assert!(store.begin_answer(id, first, LastAnswer::Pending, LONG).await.unwrap());
    assert!(store.release_answer(id, first, true).await.unwrap());
    assert!(!store.take_answer(id, twin, seen, LONG).await.unwrap());
    let seen = store.payment(id).await.unwrap().unwrap().answers;
    assert!(store.take_answer(id, repeat, seen, LONG).await.unwrap());
}

async fn of_fifty_requests_one_may_answer(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let id = reserved(&*fixture.store).await.id;
    let requests = (0..50).map(|i| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(async move {
            let who = holder();
            let held = store.take_answer(id, who, i64::MAX, LONG).await.unwrap();
            let begun = store.begin_answer(id, who, LastAnswer::Success, LONG).await.unwrap();
            assert_eq!(held, begun);
            begun
        })
    });
    let granted = join_all(requests).await.into_iter().filter(|granted| *granted.as_ref().unwrap()).count();
    assert_eq!(granted, 1);
}

async fn a_lease_lapses_in_database_time(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, gone, next) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, gone, i64::MAX, SHORT).await.unwrap());
    eventually(async || store.take_answer(id, next, i64::MAX, LONG).await.unwrap()).await;
    // The request that came back late finds that it is no longer the one.
    assert!(!store.take_answer(id, gone, i64::MAX, LONG).await.unwrap());
    assert!(!store.begin_answer(id, gone, LastAnswer::Success, LONG).await.unwrap());
    assert!(!store.release_answer(id, gone, true).await.unwrap());
    assert_eq!(said(store, id).await, (None, false));
}

/// The process died between recording and writing, or after writing: nobody knows, so it counts as said.
async fn what_a_dead_process_had_begun_counts_as_said(fixture: Fixture) {
    let store = &*fixture.store;
    let (id, gone, next) = (reserved(store).await.id, holder(), holder());
    assert!(store.take_answer(id, gone, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(id, gone, LastAnswer::Pending, SHORT).await.unwrap());
    eventually(async || store.take_answer(id, next, i64::MAX, LONG).await.unwrap()).await;
    assert_eq!(said(store, id).await, (Some(LastAnswer::Pending), false));
    assert!(store.release_answer(id, next, false).await.unwrap());
    assert_eq!(said(store, id).await, (Some(LastAnswer::Pending), false), "nothing of its own to take back");

    assert!(store.take_answer(id, gone, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(id, gone, LastAnswer::Success, SHORT).await.unwrap());
    eventually(async || {
        store.lapse_answer(id).await.unwrap();
        !store.payment(id).await.unwrap().unwrap().answer_in_flight
    })
    .await;
    // Should it be alive after all, it is too late to take it back.
    assert!(!store.release_answer(id, gone, false).await.unwrap());
    assert!(!store.take_answer(id, next, i64::MAX, LONG).await.unwrap());
    assert_eq!(said(store, id).await, (Some(LastAnswer::Success), false));
}

/// Too late, but nobody else was told anything in the meantime.
async fn a_lapsed_lease_nobody_took_is_still_the_holders(fixture: Fixture) {
    let store = &*fixture.store;
    for delivered in [true, false] {
        let (id, slow) = (reserved(store).await.id, holder());
        assert!(store.take_answer(id, slow, i64::MAX, Duration::ZERO).await.unwrap());
        assert!(store.begin_answer(id, slow, LastAnswer::Success, Duration::ZERO).await.unwrap());
        assert!(store.release_answer(id, slow, delivered).await.unwrap());
        assert_eq!(store.take_answer(id, holder(), i64::MAX, LONG).await.unwrap(), !delivered);
    }
}

async fn leases_of_any_length_are_taken(fixture: Fixture) {
    let store = &*fixture.store;
    for ttl in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let id = reserved(store).await.id;
        assert!(store.take_answer(id, holder(), i64::MAX, ttl).await.unwrap(), "{ttl:?}");
        assert_eq!(store.take_answer(id, holder(), i64::MAX, ttl).await.unwrap(), ttl < SHORT, "{ttl:?}");
    }
}

async fn answering_and_settling_do_not_disturb_each_other(fixture: Fixture) {
    let store = &*fixture.store;
    let (payment, one) = (reserved(store).await, holder());
    assert!(store.take_answer(payment.id, one, i64::MAX, LONG).await.unwrap());
    assert!(store.begin_answer(payment.id, one, LastAnswer::Pending, LONG).await.unwrap());
    // The version read before the lease was taken is still the one.
    let refused = moved(store, &payment, Event::Refused).await;
    assert_eq!((refused.status, refused.version), (Status::Refused, payment.version + 1));
    assert!(!store.take_answer(payment.id, holder(), 0, LONG).await.unwrap());
    assert!(store.release_answer(payment.id, one, true).await.unwrap());
    let after = store.payment(payment.id).await.unwrap().unwrap();
    assert_eq!((after.status, after.version), (refused.status, refused.version));
    assert_eq!(after.last_answer, Some(LastAnswer::Pending));
}

async fn there_is_nothing_to_say_about_an_unknown_payment(fixture: Fixture) {
    let (store, nobody) = (&*fixture.store, SettlementId(Uuid::now_v7()));
    assert!(!store.take_answer(nobody, holder(), i64::MAX, LONG).await.unwrap());
    assert!(!store.begin_answer(nobody, holder(), LastAnswer::Pending, LONG).await.unwrap());
    assert!(!store.release_answer(nobody, holder(), false).await.unwrap());
    store.lapse_answer(nobody).await.unwrap();
}

contract!(
    one_request_answers_at_a_time,
    a_success_is_handed_out_once,
    what_did_not_arrive_was_never_said,
    an_answer_begun_twice_goes_back_to_the_start,
    answers_are_counted_as_they_are_said,
    a_kept_answer_is_recorded_with_its_grant,
    an_answer_under_a_key_of_another_payment_is_not_begun,
    renewing_forgets_nothing,
    pending_on_its_way_does_not_hold_up_a_repeat,
    a_caller_that_waited_while_another_was_told_may_not_answer,
    of_fifty_requests_one_may_answer,
    a_lease_lapses_in_database_time,
    what_a_dead_process_had_begun_counts_as_said,
    a_lapsed_lease_nobody_took_is_still_the_holders,
    leases_of_any_length_are_taken,
    answering_and_settling_do_not_disturb_each_other,
    there_is_nothing_to_say_about_an_unknown_payment,
);
