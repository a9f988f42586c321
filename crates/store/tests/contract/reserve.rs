//! One live payment per replay key.

use alloy_primitives::{Address, B256, U256};
use futures::future::join_all;
use quittance_protocol::{
    code::Code,
    settlement::{Event, Fingerprint, NewPayment, ReplayKey, SignatureDigest, Status},
    units::{AuthNonce, Network, TokenAmount, UnixSeconds},
};
use quittance_store::model::{Reservation, Reserve, SettlementId};
use std::time::Duration;
use uuid::Uuid;

use crate::{
    fixture::Fixture,
    given::{LATER, PAST, in_status, known_lane, moved, network, payment, reserved_as, rival, signed},
};

async fn a_key_has_one_holder(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    let holder = reserved_as(store, &terms).await;
    assert_eq!((holder.status, holder.version, &holder.terms), (Status::Reserved, 1, &terms));
    assert_eq!((holder.reason, holder.tx_hash, holder.block_number), (None, None, None));

    assert_eq!(store.reserve(&Reservation::new(&terms, LATER)).await.unwrap(), Reserve::Same(holder.clone()));
    assert_eq!(
        store.reserve(&Reservation::new(&rival(&terms), LATER)).await.unwrap(),
        Reserve::Other(holder.clone())
    );
    assert_eq!(store.lookup(&terms.key).await.unwrap(), Some(holder.clone()));
    assert_eq!(store.payment(holder.id).await.unwrap(), Some(holder));
}

async fn the_block_of_a_promise_stays_with_it(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    let judged_in_block = Some(u64::try_from(i64::MAX).unwrap());
    let reservation = Reservation { judged_in_block, ..Reservation::new(&terms, LATER) };
    let Reserve::Fresh(fresh) = store.reserve(&reservation).await.unwrap() else { panic!("not fresh") };
    assert_eq!((fresh.judged_in_block, fresh.block_number), (judged_in_block, None));
    let refused = moved(store, &fresh, Event::Refused).await;
    assert_eq!((refused.judged_in_block, refused.block_number), (judged_in_block, None));
    let beyond = Reservation { judged_in_block: Some(u64::MAX), ..reservation };
    assert!(store.reserve(&beyond).await.is_err());
}

async fn every_part_of_the_key_counts(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    reserved_as(store, &terms).await;
    for key in [
        ReplayKey { network: network(1), ..terms.key },
        ReplayKey { verifying_contract: Address::ZERO, ..terms.key },
        ReplayKey { authorizer: Address::ZERO, ..terms.key },
        ReplayKey { auth_nonce: AuthNonce(B256::ZERO), ..terms.key },
    ] {
        assert_eq!(store.lookup(&key).await.unwrap(), None);
        reserved_as(store, &NewPayment { key, ..terms.clone() }).await;
    }
}

async fn the_largest_and_smallest_values_come_back(fixture: Fixture) {
    let store = &*fixture.store;
    let largest = NewPayment {
        key: ReplayKey {
            network: network(Network::CHAIN_ID_MAX),
            verifying_contract: Address::repeat_byte(0xff),
            authorizer: Address::repeat_byte(0xff),
            auth_nonce: AuthNonce(B256::repeat_byte(0xff)),
        },
        fingerprint: Fingerprint(B256::repeat_byte(0xff)),
        pay_to: Address::repeat_byte(0xff),
        amount: TokenAmount(U256::MAX),
        valid_after: U256::MAX,
        valid_before: U256::MAX,
        signature: Some(SignatureDigest(B256::repeat_byte(0xff))),
    };
    let smallest = NewPayment {
        key: ReplayKey {
            network: network(1),
            verifying_contract: Address::ZERO,
            authorizer: Address::ZERO,
            auth_nonce: AuthNonce(B256::ZERO),
        },
        fingerprint: Fingerprint(B256::ZERO),
        pay_to: Address::ZERO,
        amount: TokenAmount(U256::ZERO),
        valid_after: U256::ZERO,
        valid_before: U256::ZERO,
        signature: None,
    };
    for terms in [largest, smallest] {
        for expires_at in [0, u64::MAX] {
            let reserved = store.reserve(&Reservation::new(&terms, UnixSeconds(expires_at))).await.unwrap();
            let Reserve::Fresh(reserved) = reserved else { panic!("{reserved:?}") };
            assert_eq!(reserved.terms, terms);
            assert_eq!(store.payment(reserved.id).await.unwrap().unwrap().terms, terms);
        }
    }
}

async fn one_of_fifty_reservations_wins(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    for _ in 0..4 {
        let mine = payment();
        let theirs = rival(&mine);
        let reservations = (0..50).map(|i| {
            let store = stores[i % stores.len()].clone();
            let terms = if i % 2 == 0 { mine.clone() } else { theirs.clone() };
            tokio::spawn(async move {
                (terms.fingerprint, store.reserve(&Reservation::new(&terms, LATER)).await.unwrap())
            })
        });
        let outcomes: Vec<_> = join_all(reservations).await.into_iter().map(Result::unwrap).collect();

        let fresh: Vec<_> = outcomes
            .iter()
            .filter_map(|(_, o)| if let Reserve::Fresh(p) = o { Some(p) } else { None })
            .collect();
        assert_eq!(fresh.len(), 1);
        for (fingerprint, outcome) in &outcomes {
            match outcome {
                Reserve::Fresh(_) => {}
                Reserve::Same(holder) => {
                    assert_eq!((holder, fingerprint), (fresh[0], &fresh[0].terms.fingerprint));
                }
                Reserve::Other(holder) => {
                    assert_eq!(holder, fresh[0]);
                    assert_ne!(fingerprint, &fresh[0].terms.fingerprint);
                }
                Reserve::KeyTaken | Reserve::Uncovered => panic!("without key and funds"),
            }
        }
        assert_eq!(store_lookup(&fixture, &mine.key).await, *fresh[0]);
    }
}

async fn store_lookup(fixture: &Fixture, key: &ReplayKey) -> quittance_store::model::Payment {
    fixture.store.lookup(key).await.unwrap().unwrap()
}

async fn an_outlived_reservation_gives_way_to_one(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let terms = payment();
    let old = fixture.store.reserve(&Reservation::new(&terms, PAST)).await.unwrap();
    let Reserve::Fresh(old) = old else { panic!("{old:?}") };

    let reservations = (0..50).map(|i| {
        let (store, terms) = (stores[i % stores.len()].clone(), rival(&terms));
        tokio::spawn(async move { store.reserve(&Reservation::new(&terms, LATER)).await.unwrap() })
    });
    let outcomes: Vec<_> = join_all(reservations).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Reserve::Fresh(_))).count(), 1);
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Reserve::Other(_))).count(), 49);

    let old = fixture.store.payment(old.id).await.unwrap().unwrap();
    assert_eq!((old.status, old.version, old.reason), (Status::Refused, 2, Some(Code::ValidBefore)));
    assert!(old.message.is_some());
}

/// A minute ahead of the database's clock it stays, a minute behind it goes.
async fn a_reservation_lasts_as_long_as_the_database_says(fixture: Fixture) {
    let store = &*fixture.store;
    let now = u64::try_from(database_now(&fixture).await).unwrap();
    for (until, lasts) in [(now + 60, true), (now - 60, false)] {
        let terms = payment();
        let first = store.reserve(&Reservation::new(&terms, UnixSeconds(until))).await.unwrap();
        let Reserve::Fresh(first) = first else { panic!("{first:?}") };
        match store.reserve(&Reservation::new(&terms, LATER)).await.unwrap() {
            Reserve::Same(holder) => assert!(lasts && holder == first, "{holder:?}"),
            Reserve::Fresh(second) => assert!(!lasts && second.id != first.id, "{second:?}"),
            other => panic!("{other:?}"),
        }
    }
}

async fn what_is_signed_is_never_outlived(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await;
    let long_over = format!("UPDATE payments SET expires_at = 1 WHERE id = '{}'", slot.payment.id);
    fixture.meddle(&long_over).await.unwrap();
    let again = store.reserve(&Reservation::new(&slot.payment.terms, LATER)).await.unwrap();
    assert_eq!(again, Reserve::Same(slot.payment));
}

async fn a_deadline_beyond_the_column_never_comes(fixture: Fixture) {
    let store = &*fixture.store;
    for expires_at in [u64::MAX, u64::MAX / 2, u64::MAX / 2 + 1] {
        let terms = payment();
        store.reserve(&Reservation::new(&terms, UnixSeconds(expires_at))).await.unwrap();
        let again = store.reserve(&Reservation::new(&terms, LATER)).await.unwrap();
        assert!(matches!(again, Reserve::Same(_)), "{expires_at}: {again:?}");
    }
    let first = (UnixSeconds(0), SettlementId(Uuid::nil()));
    assert_eq!(store.outlived(network(8453), None, first, 10).await.unwrap(), []);
    assert_eq!(
        fixture.peek("SELECT COUNT(*) FROM payments WHERE expires_at = 9223372036854775807").await,
        3,
        "the last second there is"
    );
}

/// The database's clock, in seconds.
async fn database_now(fixture: &Fixture) -> i64 {
    let now =
        if fixture.is_sqlite() { "unixepoch()" } else { "extract(epoch FROM clock_timestamp())::bigint" };
    fixture.peek(&format!("SELECT {now}")).await
}

/// The partial unique index repeats `Status::holds_key` in SQL.
async fn exactly_the_holding_states_hold_the_key(fixture: Fixture) {
    let store = &*fixture.store;
    for status in Status::ALL {
        let terms = payment();
        let old = in_status(store, status, &terms).await;
        assert_eq!(old.status, status);
        let again = store.reserve(&Reservation::new(&terms, LATER)).await.unwrap();
        match again {
            Reserve::Fresh(new) => {
                assert!(!status.holds_key(), "{status} gave its key away");
                assert_eq!(store.lookup(&terms.key).await.unwrap(), Some(new));
            }
            Reserve::Same(holder) => {
                assert!(status.holds_key(), "{status} keeps a key it should give back");
                assert_eq!(holder, old);
            }
            Reserve::Other(_) | Reserve::KeyTaken | Reserve::Uncovered => panic!("{status}"),
        }
    }
}

async fn only_outlived_reservations_are_listed(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let mut over = Vec::new();
    let lately = u64::try_from(database_now(&fixture).await).unwrap() - 60;
    for expires_at in [lately, PAST.0, lately - 1, lately] {
        let expires_at = UnixSeconds(expires_at);
        match store.reserve(&Reservation::new(&payment(), expires_at)).await.unwrap() {
            Reserve::Fresh(payment) => over.push((expires_at, payment)),
            other => panic!("{other:?}"),
        }
    }
    over.sort_by_key(|(expires_at, payment)| (*expires_at, payment.id));
    reserved_as(store, &payment()).await;
    let sent = signed(store, &lane).await.payment;
    fixture.meddle(&format!("UPDATE payments SET expires_at = 1 WHERE id = '{}'", sent.id)).await.unwrap();
    let elsewhere = payment();
    let elsewhere = NewPayment { key: ReplayKey { network: network(1), ..elsewhere.key }, ..elsewhere };
    store.reserve(&Reservation::new(&elsewhere, PAST)).await.unwrap();

    let start = (UnixSeconds(0), SettlementId(Uuid::nil()));
    let listed = async |after, limit| store.outlived(lane.network, None, after, limit).await.unwrap();
    assert_eq!(listed(start, 10).await, over);
    let hour = Some(Duration::from_secs(3600));
    assert_eq!(store.outlived(lane.network, hour, start, 10).await.unwrap(), over[1..], "the last hour's");
    // Page by page, also in the middle of a second.
    for page in 0..over.len() {
        let after = page.checked_sub(1).map_or(start, |last| (over[last].0, over[last].1.id));
        assert_eq!(listed(after, 1).await, over[page..=page]);
    }
    let last = (over[3].0, over[3].1.id);
    assert_eq!(listed(last, 10).await, []);
    moved(store, &over[0].1, Event::Refused).await;
    assert_eq!(listed(start, 10).await, over[1..]);
}

contract!(
    the_block_of_a_promise_stays_with_it,
    a_key_has_one_holder,
    every_part_of_the_key_counts,
    the_largest_and_smallest_values_come_back,
    one_of_fifty_reservations_wins,
    an_outlived_reservation_gives_way_to_one,
    a_reservation_lasts_as_long_as_the_database_says,
    what_is_signed_is_never_outlived,
    a_deadline_beyond_the_column_never_comes,
    exactly_the_holding_states_hold_the_key,
    only_outlived_reservations_are_listed,
);
