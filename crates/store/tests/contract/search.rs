//! Looking payments up.

use alloy_primitives::{Address, B256};
use quittance_protocol::{
    settlement::{Event, NewPayment, ReplayKey, Status},
    units::AuthNonce,
};
use quittance_store::model::PaymentFilter;
use std::time::Duration;

use crate::{
    fixture::Fixture,
    given::{known_lane, moved, network, pay, payment, reserved_as, signed},
};

async fn the_newest_payment_under_a_key_speaks_for_it(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    assert_eq!(store.lookup(&terms.key).await.unwrap(), None);
    for _ in 0..3 {
        let reserved = reserved_as(store, &terms).await;
        assert_eq!(store.lookup(&terms.key).await.unwrap().as_ref(), Some(&reserved));
        let newest = moved(store, &reserved, Event::Refused).await;
        assert_eq!(store.lookup(&terms.key).await.unwrap(), Some(newest));
    }
    // The holder comes first, even if a clock that stepped back made it look older.
    let holder = reserved_as(store, &terms).await;
    let older = format!("UPDATE payments SET created_at_ms = 0 WHERE id = '{}'", holder.id);
    fixture.meddle(&older).await.unwrap();
    assert_eq!(store.lookup(&terms.key).await.unwrap().unwrap().id, holder.id);
}

async fn filters_combine(fixture: Fixture) {
    let store = &*fixture.store;
    let base = payment();
    let mut stored = Vec::new();
    for key in [
        base.key,
        ReplayKey { network: network(1), ..base.key },
        ReplayKey { verifying_contract: Address::ZERO, ..base.key },
        ReplayKey { authorizer: Address::ZERO, ..base.key },
        ReplayKey { auth_nonce: AuthNonce(B256::ZERO), ..base.key },
    ] {
        stored.push(reserved_as(store, &NewPayment { key, ..base.clone() }).await);
    }
    stored[0] = moved(store, &stored[0], Event::Refused).await;
    stored.reverse();

    let candidates = |i: usize, on: bool| {
        let key = base.key;
        let mut filter = PaymentFilter::default();
        match (i, on) {
            (0, true) => filter.network = Some(key.network),
            (1, true) => filter.asset = Some(key.verifying_contract),
            (2, true) => filter.payer = Some(key.authorizer),
            (3, true) => filter.auth_nonce = Some(key.auth_nonce),
            (4, true) => filter.status = Some(Status::Reserved),
            _ => {}
        }
        filter
    };
    for mask in 0..32_u32 {
        let mut filter = PaymentFilter::default();
        for i in 0..5 {
            let part = candidates(i, mask & (1 << i) != 0);
            filter.network = filter.network.or(part.network);
            filter.asset = filter.asset.or(part.asset);
            filter.payer = filter.payer.or(part.payer);
            filter.auth_nonce = filter.auth_nonce.or(part.auth_nonce);
            filter.status = filter.status.or(part.status);
        }
        let expected: Vec<_> = stored
            .iter()
            .filter(|p| {
                let key = p.terms.key;
                filter.network.is_none_or(|network| network == key.network)
                    && filter.asset.is_none_or(|asset| asset == key.verifying_contract)
                    && filter.payer.is_none_or(|payer| payer == key.authorizer)
                    && filter.auth_nonce.is_none_or(|nonce| nonce == key.auth_nonce)
                    && filter.status.is_none_or(|status| status == p.status)
            })
            .cloned()
            .collect();
        assert_eq!(store.find(&filter, 100).await.unwrap(), expected, "{filter:?}");
    }
}

async fn a_search_is_newest_first_and_bounded(fixture: Fixture) {
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let mut newest_first = Vec::new();
    for _ in 0..5 {
        newest_first.insert(0, signed(store, &lane).await.payment);
    }
    let all = PaymentFilter::default();
    for limit in [0, 1, 4, 5] {
        let expected = newest_first.iter().take(limit).cloned().collect::<Vec<_>>();
        assert_eq!(store.find(&all, u32::try_from(limit).unwrap()).await.unwrap(), expected);
    }
    assert_eq!(store.find(&all, u32::MAX).await.unwrap(), newest_first);
}

/// By the age of the first signature, whatever has happened since, and however many came later.
async fn what_is_stuck_is_found_by_its_first_signature(fixture: Fixture) {
    const CROWD: i64 = 1100;
    let store = &*fixture.store;
    let lane = known_lane(store).await;
    let (oldest, old, young) =
        (signed(store, &lane).await, signed(store, &lane).await, signed(store, &lane).await);
    let done = signed(store, &lane).await;
    // A replacement and a way back from a block that is gone make nothing younger.
    store.add_attempt(oldest.attempt.slot, 1, &pay).await.unwrap().unwrap();
    let mined = moved(store, &oldest.payment, Event::Mined).await;
    moved(store, &mined, Event::Reorged).await;
    let old_mined = moved(store, &old.payment, Event::Mined).await;
    moved(store, &done.payment, Event::SettledAtDepth).await;
    let guard = if fixture.is_sqlite() { "attempts_no_update" } else { "attempts_append_only ON attempts" };
    fixture.meddle(&format!("DROP TRIGGER {guard}")).await.unwrap();
    for (slot, seconds) in [(&oldest, 500), (&old, 400), (&done, 600)] {
        let age = format!(
            "UPDATE attempts SET created_at_ms = created_at_ms - {seconds}000 WHERE slot_id = {} AND sequence = 0",
            slot.attempt.slot.0
        );
        assert_eq!(fixture.meddle(&age).await.unwrap(), 1);
    }
    let crowd = format!(
        "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, fingerprint, \
         pay_to, amount, valid_after, valid_before, expires_at, created_at_ms, updated_at_ms) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {CROWD}) \
         SELECT 'crowd ' || i, 1, 'signed', network, verifying_contract, authorizer, 'nonce ' || i, fingerprint, pay_to, \
         amount, valid_after, valid_before, expires_at, created_at_ms + i, updated_at_ms FROM payments, n WHERE id = '{}'",
        oldest.payment.id
    );
    fixture.meddle(&crowd).await.unwrap();

    let found = async |seconds, limit| {
        let found = store.stuck(Duration::from_secs(seconds), limit).await.unwrap();
        let rows: Vec<_> = found.iter().map(|stuck| (stuck.payment.id, stuck.payment.status)).collect();
        (rows, found.into_iter().map(|stuck| stuck.signed_ago.as_secs()).collect::<Vec<_>>())
    };
    let (first, second) = ((oldest.payment.id, Status::Signed), (old_mined.id, Status::Mined));
    let (rows, ages) = found(300, 10).await;
    assert_eq!(rows, [first, second]);
    assert!(ages[0] >= 500 && ages[1] >= 400 && ages[0] >= ages[1], "{ages:?}");
    assert_eq!(found(300, 1).await.0, [first]);
    assert_eq!(found(450, 10).await.0, [first]);
    assert_eq!(found(3600, 10).await.0, []);
    assert_eq!(found(0, 10).await.0, [first, second, (young.payment.id, Status::Signed)]);
}

contract!(
    the_newest_payment_under_a_key_speaks_for_it,
    filters_combine,
    a_search_is_newest_first_and_bounded,
    what_is_stuck_is_found_by_its_first_signature,
);
