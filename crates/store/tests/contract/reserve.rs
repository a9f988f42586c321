//! One live payment per replay key.

use alloy_primitives::{Address, B256, U256};
use futures::future::join_all;
use quittance_protocol::{
    code::Code,
    settlement::{Fingerprint, NewPayment, ReplayKey, SignatureDigest, Status},
    units::{AuthNonce, Network, TokenAmount, UnixSeconds},
};
use quittance_store::model::Reserve;

use crate::{
    fixture::Fixture,
    given::{LATER, NOW, in_status, known_lane, network, payment, reserved_as, rival, signed},
};

async fn a_key_has_one_holder(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    let holder = reserved_as(store, &terms).await;
    assert_eq!((holder.status, holder.version, &holder.terms), (Status::Reserved, 1, &terms));
    assert_eq!((holder.reason, holder.tx_hash, holder.block_number), (None, None, None));

    assert_eq!(store.reserve(&terms, LATER, NOW).await.unwrap(), Reserve::Same(holder.clone()));
    assert_eq!(store.reserve(&rival(&terms), LATER, NOW).await.unwrap(), Reserve::Other(holder.clone()));
    assert_eq!(store.lookup(&terms.key).await.unwrap(), Some(holder.clone()));
    assert_eq!(store.payment(holder.id).await.unwrap(), Some(holder));
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
            let reserved = store.reserve(&terms, UnixSeconds(expires_at), UnixSeconds(0)).await.unwrap();
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
            tokio::spawn(async move { (terms.fingerprint, store.reserve(&terms, LATER, NOW).await.unwrap()) })
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
    let old = fixture.store.reserve(&terms, NOW, UnixSeconds(NOW.0 - 1)).await.unwrap();
    let Reserve::Fresh(old) = old else { panic!("{old:?}") };

    let reservations = (0..50).map(|i| {
        let (store, terms) = (stores[i % stores.len()].clone(), rival(&terms));
        tokio::spawn(async move { store.reserve(&terms, LATER, NOW).await.unwrap() })
    });
    let outcomes: Vec<_> = join_all(reservations).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Reserve::Fresh(_))).count(), 1);
    assert_eq!(outcomes.iter().filter(|o| matches!(o, Reserve::Other(_))).count(), 49);

    let old = fixture.store.payment(old.id).await.unwrap().unwrap();
    assert_eq!((old.status, old.version, old.reason), (Status::Refused, 2, Some(Code::ValidBefore)));
    assert!(old.message.is_some());
}

async fn a_reservation_lasts_to_the_second(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    let first = reserved_as(store, &terms).await;
    let before = UnixSeconds(LATER.0 - 1);
    assert_eq!(store.reserve(&terms, LATER, before).await.unwrap(), Reserve::Same(first.clone()));
    let after = store.reserve(&terms, UnixSeconds(LATER.0 + 1), LATER).await.unwrap();
    assert!(matches!(&after, Reserve::Fresh(second) if second.id != first.id), "{after:?}");
}

async fn what_is_signed_is_never_outlived(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let slot = signed(store, &lane).await;
    let much_later = UnixSeconds(u64::MAX);
    let again = store.reserve(&slot.payment.terms, much_later, much_later).await.unwrap();
    assert_eq!(again, Reserve::Same(slot.payment));
}

async fn a_deadline_beyond_the_column_never_comes(fixture: Fixture) {
    let store = &*fixture.store;
    let end = UnixSeconds(u64::MAX);
    for expires_at in [u64::MAX, u64::MAX / 2, u64::MAX / 2 + 1] {
        let terms = payment();
        store.reserve(&terms, UnixSeconds(expires_at), NOW).await.unwrap();
        let again = store.reserve(&terms, end, end).await.unwrap();
        assert!(matches!(again, Reserve::Same(_)), "{expires_at}: {again:?}");
    }
    assert_eq!(store.expire_reservations(end).await.unwrap(), 0);
}

/// The partial unique index repeats `Status::holds_key` in SQL.
async fn exactly_the_holding_states_hold_the_key(fixture: Fixture) {
    let store = &*fixture.store;
    for status in Status::ALL {
        let terms = payment();
        let old = in_status(store, status, &terms).await;
        assert_eq!(old.status, status);
        let again = store.reserve(&terms, LATER, NOW).await.unwrap();
        match again {
            Reserve::Fresh(new) => {
                assert!(!status.holds_key(), "{status} gave its key away");
                assert_eq!(store.lookup(&terms.key).await.unwrap(), Some(new));
            }
            Reserve::Same(holder) => {
                assert!(status.holds_key(), "{status} keeps a key it should give back");
                assert_eq!(holder, old);
            }
            Reserve::Other(_) => panic!("{status}"),
        }
    }
}

async fn only_outlived_reservations_expire(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let running = reserved_as(store, &payment()).await;
    let sent = signed(store, &lane).await.payment;
    let over = store.reserve(&payment(), NOW, UnixSeconds(0)).await.unwrap();
    let Reserve::Fresh(over) = over else { panic!("{over:?}") };

    assert_eq!(store.expire_reservations(UnixSeconds(NOW.0 - 1)).await.unwrap(), 0);
    assert_eq!(store.expire_reservations(NOW).await.unwrap(), 1);
    assert_eq!(store.expire_reservations(NOW).await.unwrap(), 0);
    let over = store.payment(over.id).await.unwrap().unwrap();
    assert_eq!((over.status, over.version, over.reason), (Status::Refused, 2, Some(Code::ValidBefore)));
    assert_eq!(store.payment(running.id).await.unwrap(), Some(running));
    assert_eq!(store.payment(sent.id).await.unwrap(), Some(sent));
}

/// More than one statement's worth, and from several processes at once: each is counted once.
async fn a_crowd_expires_once(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    const CROWD: u64 = 1100;
    let template = reserved_as(&*fixture.store, &payment()).await.id;
    let copies = format!(
        "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, \
         fingerprint, pay_to, amount, valid_after, valid_before, expires_at, created_at_ms, updated_at_ms) \
         WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {CROWD}) \
         SELECT 'copy ' || n, 1, 'reserved', network, verifying_contract, authorizer, auth_nonce || n, \
         fingerprint, pay_to, amount, valid_after, valid_before, n, 0, 0 FROM copies, payments WHERE id = '{template}'"
    );
    assert_eq!(fixture.meddle(&copies).await.unwrap(), CROWD);

    let expiries = stores.iter().cloned().map(|store| {
        tokio::spawn(async move { store.expire_reservations(UnixSeconds(CROWD)).await.unwrap() })
    });
    let expired: u64 = join_all(expiries).await.into_iter().map(Result::unwrap).sum();
    // What one of them skipped because another had it locked is expired all the same.
    assert_eq!(expired, CROWD);
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM payments WHERE status = 'reserved'").await, 1);
}

contract!(
    a_key_has_one_holder,
    every_part_of_the_key_counts,
    the_largest_and_smallest_values_come_back,
    one_of_fifty_reservations_wins,
    an_outlived_reservation_gives_way_to_one,
    a_reservation_lasts_to_the_second,
    what_is_signed_is_never_outlived,
    a_deadline_beyond_the_column_never_comes,
    exactly_the_holding_states_hold_the_key,
    only_outlived_reservations_expire,
    a_crowd_expires_once,
);
