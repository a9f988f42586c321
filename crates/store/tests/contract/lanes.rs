//! One slot per lane nonce, one open slot per payment, attempts that only grow.

use futures::future::join_all;
use quittance_protocol::{
    settlement::{Event, Evidence, Status},
    units::{LaneNonce, Network},
};
use quittance_store::{
    StoreError,
    model::{Attempt, AttemptKind, LaneId, NewAttempt, OpenWork, SettlementId, SlotId, SlotOutcome},
};
use std::{collections::BTreeSet, io, sync::Arc, time::Duration};
use uuid::Uuid;

use crate::{
    fixture::Fixture,
    given::{fill, known_lane, lane, moved, network, never, pay, reserved, sign, signed},
};

async fn nonces_start_at_the_floor_and_follow_the_highest_slot(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = lane();
    store.raise_lane_floor(&lane, LaneNonce(7)).await.unwrap();
    for expected in [7, 8] {
        assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(expected));
    }
    // A floor that our own slots have passed changes nothing, and it never sinks.
    for floor in [0, 3, 9] {
        store.raise_lane_floor(&lane, LaneNonce(floor)).await.unwrap();
    }
    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(9));
    // The chain is ahead of us: somebody else used the key.
    store.raise_lane_floor(&lane, LaneNonce(20)).await.unwrap();
    store.raise_lane_floor(&lane, LaneNonce(19)).await.unwrap();
    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(20));
    // A count that turned out to be wrong is forgotten, and our own slots are not.
    store.raise_lane_floor(&lane, LaneNonce(1_000)).await.unwrap();
    for (floor, next) in [(22, 22), (0, 23)] {
        store.set_lane_floor(&lane, LaneNonce(floor)).await.unwrap();
        assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(next));
    }
}

async fn a_slot_is_stored_as_it_was_signed(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let payment = reserved(store).await;
    let extreme = |nonce: LaneNonce| {
        Ok(NewAttempt {
            raw: (0..=255).collect::<Vec<u8>>().repeat(512).into(),
            max_fee_per_gas: u128::MAX,
            max_priority_fee_per_gas: 0,
            gas_limit: u64::try_from(i64::MAX).unwrap(),
            ..pay(nonce)?
        })
    };
    let slot = store.sign_slot(payment.id, payment.version, &lane, &extreme).await.unwrap().unwrap();
    assert_eq!((slot.payment.status, slot.payment.version), (Status::Signed, payment.version + 1));
    assert_eq!(slot.payment.tx_hash, Some(slot.attempt.signed.hash));
    assert_eq!((slot.attempt.sequence, slot.attempt.lane_nonce), (0, LaneNonce(0)));
    assert_eq!(slot.attempt.signed.max_fee_per_gas, u128::MAX);

    let work = store.open_work(lane.network).await.unwrap();
    assert_eq!(work.slots.len(), 1);
    assert_eq!((work.slots[0].id, work.slots[0].lane), (slot.attempt.slot, lane));
    assert_eq!(work.slots[0].payment.as_ref(), Some(&slot.payment));
    assert_eq!(work.slots[0].attempts, [slot.attempt]);
}

/// 100 payments, one lane, several processes: every nonce once and none left out.
async fn a_hundred_signers_share_a_lane(fixture: Fixture) {
    let stores = fixture.stores(4).await;
    let lane = known_lane(&*fixture.store).await;
    let mut payments = Vec::new();
    for _ in 0..100 {
        payments.push(reserved(&*fixture.store).await);
    }
    let signers = payments.into_iter().enumerate().map(|(i, payment)| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(async move {
            store.sign_slot(payment.id, payment.version, &lane, &pay).await.unwrap().unwrap()
        })
    });
    let nonces: Vec<_> =
        join_all(signers).await.into_iter().map(|slot| slot.unwrap().attempt.lane_nonce.0).collect();
    assert_eq!(nonces.iter().copied().collect::<BTreeSet<_>>(), (0..100).collect());
    assert_eq!(nonces.len(), 100);
}

async fn of_twenty_signers_of_one_payment_one_signs(fixture: Fixture) {
    let stores = fixture.stores(4).await;
    let lanes = [known_lane(&*fixture.store).await, known_lane(&*fixture.store).await];
    let payment = reserved(&*fixture.store).await;
    let signers = (0..20).map(|i| {
        let (store, lane) = (stores[i % stores.len()].clone(), lanes[i % lanes.len()]);
        let (id, version) = (payment.id, payment.version);
        tokio::spawn(async move { store.sign_slot(id, version, &lane, &pay).await.unwrap() })
    });
    let slots: Vec<_> = join_all(signers).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(slots.len(), 1);
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots").await, 1);
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM attempts").await, 1);
}

async fn a_payment_that_moved_on_consumes_no_nonce(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let payment = reserved(store).await;
    let elsewhere = LaneId { network: network(1), address: lane.address };
    store.raise_lane_floor(&elsewhere, LaneNonce(0)).await.unwrap();

    assert_eq!(store.sign_slot(payment.id, payment.version + 1, &lane, &never).await.unwrap(), None);
    assert_eq!(store.sign_slot(payment.id, payment.version, &elsewhere, &never).await.unwrap(), None);
    let nobody = SettlementId(Uuid::now_v7());
    assert_eq!(store.sign_slot(nobody, 1, &lane, &never).await.unwrap(), None);
    let refused = moved(store, &payment, Event::Refused).await;
    for version in [payment.version, refused.version] {
        assert_eq!(store.sign_slot(payment.id, version, &lane, &never).await.unwrap(), None);
    }

    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots").await, 0);
    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(0));
}

async fn a_signature_that_fails_leaves_nothing(fixture: Fixture) {
    let store = fixture.store.clone();
    let lane = known_lane(&*store).await;
    let payment = reserved(&*store).await;
    let broken = |_| Err(io::Error::other("the key is gone").into());
    let error = store.sign_slot(payment.id, payment.version, &lane, &broken).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Sign(source) if source.to_string() == "the key is gone"),
        "{error:?}"
    );
    let error = store.sign_filler(&lane, LaneNonce(0), &broken).await.unwrap_err();
    assert!(matches!(error, StoreError::Sign(_)), "{error:?}");

    // A signer that panics is worse, and just as harmless.
    let (task_store, id, version) = (store.clone(), payment.id, payment.version);
    let panicked =
        tokio::spawn(async move { task_store.sign_slot(id, version, &lane, &never).await.map(drop) });
    assert!(panicked.await.unwrap_err().is_panic());

    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots").await, 0);
    assert_eq!(store.payment(payment.id).await.unwrap().as_ref(), Some(&payment));
    let slot = store.sign_slot(payment.id, payment.version, &lane, &pay).await.unwrap().unwrap();
    assert_eq!(slot.attempt.lane_nonce, LaneNonce(0));
    let error = store.add_attempt(slot.attempt.slot, 1, &broken).await.unwrap_err();
    assert!(matches!(error, StoreError::Sign(_)), "{error:?}");
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM attempts").await, 1);
}

async fn bytes_that_are_stored_already_are_refused_whole(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await.attempt.signed;
    let payment = reserved(store).await;
    let again = |_| Ok(first.clone());
    let error = store.sign_slot(payment.id, payment.version, &lane, &again).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots").await, 1);
    assert_eq!(store.payment(payment.id).await.unwrap().as_ref(), Some(&payment));
    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(1));
}

async fn a_payment_has_one_open_slot(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let id = first.payment.id;
    assert_eq!(store.sign_slot(id, first.payment.version, &lane, &never).await.unwrap(), None);

    // A foreign transaction took the nonce: the payment goes out again, with another one.
    store.close_slot(first.attempt.slot, SlotOutcome::Foreign).await.unwrap();
    let second = store.sign_slot(id, first.payment.version, &lane, &pay).await.unwrap().unwrap();
    assert_eq!((second.payment.status, second.payment.version), (Status::Signed, first.payment.version + 1));
    assert_eq!(second.payment.tx_hash, Some(second.attempt.signed.hash));
    assert_eq!(second.attempt.lane_nonce, LaneNonce(1));
    assert_ne!(second.attempt.slot, first.attempt.slot);
    let bump = store.add_attempt(second.attempt.slot, 1, &pay).await.unwrap().unwrap();
    let ever_signed = [first.attempt, second.attempt.clone(), bump];
    assert_eq!(store.attempts(id).await.unwrap(), ever_signed);

    let mined = moved(store, &second.payment, Event::Mined).await;
    store.close_slot(second.attempt.slot, SlotOutcome::Ours).await.unwrap();
    assert_eq!(store.sign_slot(id, mined.version, &lane, &never).await.unwrap(), None);
    assert_eq!(store.attempts(id).await.unwrap(), ever_signed);
    assert_eq!(store.attempts(reserved(store).await.id).await.unwrap(), []);
}

async fn a_lane_must_be_introduced(fixture: Fixture) {
    let store = &*fixture.store;
    let (stranger, payment) = (lane(), reserved(store).await);
    let error = store.sign_slot(payment.id, payment.version, &stranger, &never).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownLane), "{error:?}");
    let error = store.sign_filler(&stranger, LaneNonce(0), &never).await.unwrap_err();
    assert!(matches!(error, StoreError::UnknownLane), "{error:?}");
}

async fn lanes_do_not_disturb_each_other(fixture: Fixture) {
    let store = &*fixture.store;
    let one = known_lane(store).await;
    let other = LaneId { network: network(Network::CHAIN_ID_MAX), address: one.address };
    store.raise_lane_floor(&other, LaneNonce(50)).await.unwrap();
    let two = known_lane(store).await;
    for expected in 0..3 {
        assert_eq!(signed(store, &one).await.attempt.lane_nonce, LaneNonce(expected));
        assert_eq!(signed(store, &two).await.attempt.lane_nonce, LaneNonce(expected));
    }
    store.sign_filler(&other, LaneNonce(50), &fill).await.unwrap().unwrap();
    assert_eq!(store.open_work(other.network).await.unwrap().slots.len(), 1);
}

async fn the_last_nonces_of_the_column(fixture: Fixture) {
    let store = &*fixture.store;
    let last = u64::try_from(i64::MAX).unwrap();
    let lane = lane();
    for beyond in [last + 1, u64::MAX] {
        let refused = store.raise_lane_floor(&lane, LaneNonce(beyond)).await;
        assert!(matches!(refused, Err(StoreError::OutOfRange("lane nonce"))), "{refused:?}");
    }
    store.raise_lane_floor(&lane, LaneNonce(last - 1)).await.unwrap();
    for expected in [last - 1, last] {
        assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(expected));
    }
    let payment = reserved(store).await;
    let refused = store.sign_slot(payment.id, payment.version, &lane, &never).await;
    assert!(matches!(refused, Err(StoreError::OutOfRange("lane nonce"))), "{refused:?}");
    let refused = store.sign_filler(&lane, LaneNonce(u64::MAX), &never).await;
    assert!(matches!(refused, Err(StoreError::OutOfRange("lane nonce"))), "{refused:?}");

    let roomy = known_lane(store).await;
    let vast = |nonce| Ok(NewAttempt { gas_limit: u64::MAX, ..pay(nonce)? });
    let refused = store.sign_slot(payment.id, payment.version, &roomy, &vast).await;
    assert!(matches!(refused, Err(StoreError::OutOfRange("gas limit"))), "{refused:?}");
    assert_eq!(store.payment(payment.id).await.unwrap(), Some(payment));
}

async fn a_hole_is_filled_once(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = lane();
    store.raise_lane_floor(&lane, LaneNonce(5)).await.unwrap();
    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(5));

    let hole = store.sign_filler(&lane, LaneNonce(3), &fill).await.unwrap().unwrap();
    assert_eq!((hole.sequence, hole.lane_nonce, hole.signed.kind), (0, LaneNonce(3), AttemptKind::Filler));
    for known in [3, 5] {
        assert_eq!(store.sign_filler(&lane, LaneNonce(known), &never).await.unwrap(), None);
    }
    // Closed or not, a nonce that was given away stays given away.
    store.close_slot(hole.slot, SlotOutcome::Ours).await.unwrap();
    assert_eq!(store.sign_filler(&lane, LaneNonce(3), &never).await.unwrap(), None);

    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(6));
    store.sign_filler(&lane, LaneNonce(9), &fill).await.unwrap().unwrap();
    assert_eq!(signed(store, &lane).await.attempt.lane_nonce, LaneNonce(10));
}

async fn fillers_and_payments_never_share_a_nonce(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let lane = known_lane(&*fixture.store).await;
    let mut payments = Vec::new();
    for _ in 0..30 {
        payments.push(reserved(&*fixture.store).await);
    }
    let fillers = (0..30).map(|nonce| {
        let store = stores[0].clone();
        tokio::spawn(async move { store.sign_filler(&lane, LaneNonce(nonce), &fill).await.unwrap() })
    });
    let signers = payments.into_iter().enumerate().map(|(i, payment)| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(async move {
            store.sign_slot(payment.id, payment.version, &lane, &pay).await.unwrap().map(|slot| slot.attempt)
        })
    });
    let tasks: Vec<_> = fillers.chain(signers).collect();
    let attempts: Vec<Attempt> = join_all(tasks).await.into_iter().filter_map(Result::unwrap).collect();
    let payments = attempts.iter().filter(|attempt| attempt.signed.kind == AttemptKind::Payment).count();
    assert_eq!(payments, 30, "a payment is never the one that gives way");
    let nonces: BTreeSet<_> = attempts.iter().map(|attempt| attempt.lane_nonce).collect();
    assert_eq!(nonces.len(), attempts.len());
}

async fn attempts_are_appended_one_after_another(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let slot = first.attempt.slot;
    for wrong in [0, 2, u32::MAX] {
        assert_eq!(store.add_attempt(slot, wrong, &never).await.unwrap(), None);
    }
    let second = store.add_attempt(slot, 1, &pay).await.unwrap().unwrap();
    assert_eq!((second.sequence, second.lane_nonce), (1, first.attempt.lane_nonce));
    let bumped = store.payment(first.payment.id).await.unwrap().unwrap();
    assert_eq!(bumped.tx_hash, Some(second.signed.hash));
    assert_eq!(bumped.version, first.payment.version, "a replacement is no transition");

    // A cancellation does not execute the payment: the hash to show stays the one that would.
    let third = store.add_attempt(slot, 2, &fill).await.unwrap().unwrap();
    assert_eq!(store.payment(first.payment.id).await.unwrap().unwrap().tx_hash, Some(second.signed.hash));

    let attempts = store.open_work(lane.network).await.unwrap().slots.remove(0).attempts;
    assert_eq!(attempts, [first.attempt, second.clone(), third]);

    // Once a receipt was seen, its hash is the one that counts.
    let mined = moved(store, &bumped, Event::Mined).await;
    store.add_attempt(slot, 3, &pay).await.unwrap().unwrap();
    assert_eq!(store.payment(mined.id).await.unwrap().unwrap().tx_hash, Some(second.signed.hash));

    store.close_slot(slot, SlotOutcome::Ours).await.unwrap();
    assert_eq!(store.add_attempt(slot, 4, &never).await.unwrap(), None);
    assert_eq!(store.add_attempt(SlotId(i64::MAX), 1, &never).await.unwrap(), None);
}

async fn of_twenty_replacements_one_is_stored(fixture: Fixture) {
    let stores = fixture.stores(4).await;
    let lane = known_lane(&*fixture.store).await;
    let slot = signed(&*fixture.store, &lane).await.attempt.slot;
    for seen in 1..4 {
        let bumps = (0..20).map(|i| {
            let store = stores[i % stores.len()].clone();
            tokio::spawn(
                async move { store.add_attempt(slot, seen, &sign(AttemptKind::Payment)).await.unwrap() },
            )
        });
        let stored = join_all(bumps).await.into_iter().filter_map(Result::unwrap).count();
        assert_eq!(stored, 1);
    }
    let work = fixture.store.open_work(lane.network).await.unwrap();
    assert_eq!(work.slots[0].attempts.iter().map(|a| a.sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

async fn a_slot_closes_once(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await.attempt.slot;
    store.close_slot(slot, SlotOutcome::Foreign).await.unwrap();
    store.close_slot(slot, SlotOutcome::Ours).await.unwrap();
    store.close_slot(SlotId(i64::MAX), SlotOutcome::Ours).await.unwrap();
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots WHERE outcome = 'foreign'").await, 1);
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM slots WHERE outcome = 'ours'").await, 0);
}

/// Outcome and slot in one transaction, or neither.
async fn a_payment_and_its_slot_conclude_together(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let (slot, id, version) = (first.attempt.slot, first.payment.id, first.payment.version);
    let evidence = Evidence { tx_hash: Some(first.attempt.signed.hash), ..Evidence::default() };
    let stale = store.conclude(slot, id, version - 1, Event::SettledAtDepth, &evidence).await.unwrap();
    assert_eq!(stale, None);
    assert_eq!(store.open_work(lane.network).await.unwrap().slots.len(), 1);
    let done = store.conclude(slot, id, version, Event::SettledAtDepth, &evidence).await.unwrap().unwrap();
    assert_eq!(done.status, Status::Settled);
    assert_eq!(store.open_work(lane.network).await.unwrap(), OpenWork::default());
    assert_eq!(store.conclude(slot, id, done.version, Event::Mined, &evidence).await.unwrap(), None);
}

/// A reorg has undone what closed it: its bytes are needed again.
async fn a_slot_opens_again_when_the_chain_has_lost_it(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let nonce = first.attempt.lane_nonce;
    assert!(!store.reopen_slot(&lane, nonce).await.unwrap(), "it is open");
    assert!(!store.reopen_slot(&lane, LaneNonce(nonce.0 + 1)).await.unwrap(), "there is none");
    let settled = moved(store, &first.payment, Event::SettledAtDepth).await;
    store.close_slot(first.attempt.slot, SlotOutcome::Ours).await.unwrap();
    assert!(store.reopen_slot(&lane, nonce).await.unwrap());
    let work = store.open_work(lane.network).await.unwrap();
    assert_eq!(work.slots.len(), 1);
    assert_eq!(work.slots[0].attempts, std::slice::from_ref(&first.attempt));
    assert_eq!(work.slots[0].payment.as_ref(), Some(&settled), "what is final stays final");
    store.close_slot(first.attempt.slot, SlotOutcome::Ours).await.unwrap();

    // A payment that went out again keeps its one open slot.
    let second = signed(store, &lane).await;
    store.close_slot(second.attempt.slot, SlotOutcome::Foreign).await.unwrap();
    store.sign_slot(second.payment.id, second.payment.version, &lane, &pay).await.unwrap().unwrap();
    assert!(!store.reopen_slot(&lane, second.attempt.lane_nonce).await.unwrap());
}

/// A nonce that its payment has left behind comes back: it is filled where it stands, and the payment goes on elsewhere.
async fn a_slot_that_was_given_up_is_filled(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let (id, nonce) = (first.payment.id, first.attempt.lane_nonce);
    let fills_not = async |seen| {
        assert_eq!(store.fill_closed_slot(&lane, nonce, seen, &never).await.unwrap(), None);
    };
    fills_not(1).await;
    store.close_slot(first.attempt.slot, SlotOutcome::Foreign).await.unwrap();
    assert_eq!(store.given_up(&lane, nonce).await.unwrap(), [], "it can be opened again");
    fills_not(1).await;
    let second = store.sign_slot(id, first.payment.version, &lane, &pay).await.unwrap().unwrap();
    assert_eq!(store.given_up(&lane, nonce).await.unwrap(), std::slice::from_ref(&first.attempt));
    assert_eq!(store.given_up(&lane, second.attempt.lane_nonce).await.unwrap(), [], "it is open");
    fills_not(0).await;
    let filler = store.fill_closed_slot(&lane, nonce, 1, &fill).await.unwrap().unwrap();
    assert_eq!((filler.slot, filler.sequence, filler.lane_nonce), (first.attempt.slot, 1, nonce));
    fills_not(1).await;
    assert_eq!(store.given_up(&lane, nonce).await.unwrap(), [first.attempt.clone(), filler.clone()]);

    let work = store.open_work(lane.network).await.unwrap();
    assert_eq!((work.slots.len(), work.slots[0].id), (1, second.attempt.slot), "the slot stays closed");
    assert_eq!(work.slots[0].payment.as_ref(), Some(&second.payment), "and the payment where it is");
    assert_eq!(store.attempts(id).await.unwrap(), [first.attempt, filler, second.attempt]);
}

/// What settled a payment is undone and cannot come back: it goes out in a new slot, and what was told stays told.
async fn a_settled_payment_is_signed_again(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let first = signed(store, &lane).await;
    let (id, slot) = (first.payment.id, first.attempt.slot);
    let again = async |version| store.sign_settled_again(id, version, &lane, &pay).await.unwrap();
    assert_eq!(again(first.payment.version).await, None, "not settled");
    let settled = moved(store, &first.payment, Event::SettledAtDepth).await;
    assert_eq!(again(settled.version).await, None, "its slot is open");
    store.close_slot(slot, SlotOutcome::Ours).await.unwrap();
    assert_eq!(store.sign_slot(id, settled.version, &lane, &never).await.unwrap(), None, "settled");
    assert_eq!(again(settled.version - 1).await, None);
    let second = again(settled.version).await.unwrap();
    assert_eq!((second.payment.status, second.payment.version), (Status::Settled, settled.version + 1));
    assert_eq!(second.payment.tx_hash, Some(second.attempt.signed.hash));
    assert_eq!(second.attempt.lane_nonce, LaneNonce(first.attempt.lane_nonce.0 + 1));
    assert_eq!(again(second.payment.version).await, None, "on its way");
    let work = store.open_work(lane.network).await.unwrap();
    assert_eq!(work.slots.len(), 1);
    assert_eq!(work.slots[0].payment.as_ref(), Some(&second.payment));
    assert_eq!(store.attempts(id).await.unwrap().len(), 2);
}

/// Outcomes that a reorganisation could still undo, and no more of them than can be looked at.
async fn outcomes_of_the_slots_that_were_closed_lately(fixture: Fixture) {
    let store = &*fixture.store;
    let (lane, other) = (known_lane(store).await, known_lane(store).await);
    let mut ended = Vec::new();
    for (lane, event) in [
        (&lane, Event::SettledAtDepth),
        (&lane, Event::ProvenFailed),
        (&lane, Event::FoundElsewhere),
        (&other, Event::SettledAtDepth),
        (&lane, Event::SettledAtDepth),
    ] {
        let slot = signed(store, lane).await;
        ended.push(moved(store, &slot.payment, event).await);
        store.close_slot(slot.attempt.slot, SlotOutcome::Ours).await.unwrap();
    }
    let open = moved(store, &signed(store, &lane).await.payment, Event::SettledAtDepth).await;
    let hour = Duration::from_secs(3_600);
    let found = async |within, slots_max| {
        let found = store.closed_lately(&lane, within, slots_max).await.unwrap();
        assert!(!found.contains(&open), "its slot is open");
        found.into_iter().map(|payment| payment.id).collect::<BTreeSet<_>>()
    };
    let ids = |of: &[usize]| of.iter().map(|index| ended[*index].id).collect::<BTreeSet<_>>();
    assert_eq!(found(hour, 100).await, ids(&[0, 1, 4]));
    assert_eq!(found(hour, 2).await, ids(&[4]));
    let age = "UPDATE slots SET closed_at_ms = closed_at_ms - 7200000 WHERE lane_nonce = 0";
    fixture.meddle(age).await.unwrap();
    assert_eq!(found(hour, 100).await, ids(&[1, 4]));
}

/// What the chain may lose first: the newest slot of each lane, once nothing above it is open.
async fn the_newest_closed_slot_of_each_lane(fixture: Fixture) {
    let store = &*fixture.store;
    let (one, other, empty) = (known_lane(store).await, known_lane(store).await, known_lane(store).await);
    let elsewhere = LaneId { network: network(1), address: one.address };
    store.raise_lane_floor(&elsewhere, LaneNonce(0)).await.unwrap();
    let slots = [signed(store, &one).await, signed(store, &one).await, signed(store, &other).await];
    assert_eq!(store.newest_closed(one.network).await.unwrap(), []);
    store.close_slot(slots[0].attempt.slot, SlotOutcome::Ours).await.unwrap();
    assert_eq!(store.newest_closed(one.network).await.unwrap(), [], "a newer one is open");
    store.close_slot(slots[1].attempt.slot, SlotOutcome::Ours).await.unwrap();
    store.close_slot(slots[2].attempt.slot, SlotOutcome::Foreign).await.unwrap();
    let closed = store.newest_closed(one.network).await.unwrap();
    let mut expected = [(one, slots[1].attempt.lane_nonce), (other, slots[2].attempt.lane_nonce)];
    expected.sort_unstable_by_key(|(lane, _)| lane.address.to_string().to_lowercase());
    assert_eq!(closed.iter().map(|slot| (slot.lane, slot.lane_nonce)).collect::<Vec<_>>(), expected);
    assert!(closed.iter().all(|slot| slot.closed_ago < Duration::from_secs(60)), "{closed:?}");
    assert!(closed.iter().all(|slot| slot.lane != empty));
    assert_eq!(store.newest_closed(elsewhere.network).await.unwrap(), []);
    store.reopen_slot(&one, slots[1].attempt.lane_nonce).await.unwrap();
    assert_eq!(store.newest_closed(one.network).await.unwrap().len(), 1);
}

/// A slow lane is closed, replaced and settled from several sides at once; nothing deadlocks and nothing is lost.
async fn everything_at_once_on_one_payment(fixture: Fixture) {
    let stores = fixture.stores(4).await;
    let lane = known_lane(&*fixture.store).await;
    for _ in 0..10 {
        let first = Arc::new(signed(&*fixture.store, &lane).await);
        let tasks = (0..12).map(|i| {
            let (store, first) = (stores[i % stores.len()].clone(), first.clone());
            let (id, version, slot) = (first.payment.id, first.payment.version, first.attempt.slot);
            tokio::spawn(async move {
                match i % 4 {
                    0 => store.add_attempt(slot, 1, &pay).await.map(|a| usize::from(a.is_some())),
                    1 => store.close_slot(slot, SlotOutcome::Foreign).await.map(|()| 0),
                    2 => store.transition(id, version, Event::Mined, &Evidence::default()).await.map(|_| 0),
                    _ => store.sign_slot(id, version, &lane, &pay).await.map(|_| 0),
                }
                .unwrap()
            })
        });
        let replaced: usize = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
        assert!(replaced <= 1);
        let open = format!(
            "SELECT COUNT(*) FROM slots WHERE payment_id = '{}' AND outcome IS NULL",
            first.payment.id
        );
        assert!(fixture.peek(&open).await <= 1);
    }
}

contract!(
    nonces_start_at_the_floor_and_follow_the_highest_slot,
    a_slot_is_stored_as_it_was_signed,
    a_hundred_signers_share_a_lane,
    of_twenty_signers_of_one_payment_one_signs,
    a_payment_that_moved_on_consumes_no_nonce,
    a_signature_that_fails_leaves_nothing,
    bytes_that_are_stored_already_are_refused_whole,
    a_payment_has_one_open_slot,
    a_lane_must_be_introduced,
    lanes_do_not_disturb_each_other,
    the_last_nonces_of_the_column,
    a_hole_is_filled_once,
    fillers_and_payments_never_share_a_nonce,
    attempts_are_appended_one_after_another,
    of_twenty_replacements_one_is_stored,
    a_slot_closes_once,
    a_payment_and_its_slot_conclude_together,
    a_slot_opens_again_when_the_chain_has_lost_it,
    a_slot_that_was_given_up_is_filled,
    a_settled_payment_is_signed_again,
    outcomes_of_the_slots_that_were_closed_lately,
    the_newest_closed_slot_of_each_lane,
    everything_at_once_on_one_payment,
);
