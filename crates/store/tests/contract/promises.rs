//! What a payer promises is covered by what it has.

use alloy_primitives::{Address, U256};
use futures::future::join_all;
use quittance_protocol::{
    settlement::{Event, Evidence, NewPayment, ReplayKey, Status},
    units::TokenAmount,
};
use quittance_store::{
    Store,
    model::{Funds, KeyBinding, PROMISES_MAX, Reservation, Reserve},
};

use crate::{
    fixture::Fixture,
    given::{LATER, PAST, in_status, key_of, moved, network, payment, reserved_as},
};

/// The block at which the payer's balance was read.
const READ_AT: u64 = 100;

/// Another payment of the same payer in the same token.
fn another(of: &NewPayment) -> NewPayment {
    let other = payment();
    NewPayment { key: ReplayKey { auth_nonce: other.key.auth_nonce, ..of.key }, ..other }
}

async fn reserve(store: &dyn Store, terms: &NewPayment, balance: U256) -> Reserve {
    let funds = Some(Funds { balance, block_number: READ_AT, over: &[] });
    store.reserve(&Reservation { funds, ..Reservation::new(terms, LATER) }).await.unwrap()
}

async fn is_covered(store: &dyn Store, terms: &NewPayment, balance: u64) -> bool {
    match reserve(store, terms, U256::from(balance)).await {
        Reserve::Fresh(_) => true,
        Reserve::Uncovered => {
            assert_eq!(store.lookup(&terms.key).await.unwrap(), None, "nothing is left of it");
            false
        }
        other => panic!("{other:?}"),
    }
}

/// The amount of every payment here.
const AMOUNT: u64 = 10_000;

async fn one_balance_covers_no_more_than_itself(fixture: Fixture) {
    let store = &*fixture.store;
    let first = payment();
    assert!(!is_covered(store, &first, AMOUNT - 1).await);
    assert!(is_covered(store, &first, AMOUNT).await);
    let second = another(&first);
    assert!(!is_covered(store, &second, 2 * AMOUNT - 1).await);
    assert!(is_covered(store, &second, 2 * AMOUNT).await);
    let third = another(&first);
    assert!(!is_covered(store, &third, 2 * AMOUNT).await);
    let promised: Vec<_> = store.promises(&first.key, READ_AT).await.unwrap();
    assert_eq!(promised.iter().map(|payment| &payment.terms).collect::<Vec<_>>(), [&first, &second]);

    // Whoever has it, has it: covered or not.
    let again = reserve(store, &first, U256::ZERO).await;
    assert!(matches!(again, Reserve::Same(_)), "{again:?}");

    for key in [
        ReplayKey { network: network(1), ..third.key },
        ReplayKey { verifying_contract: Address::ZERO, ..third.key },
        ReplayKey { authorizer: Address::ZERO, ..third.key },
    ] {
        assert!(
            is_covered(store, &NewPayment { key, ..third.clone() }, AMOUNT).await,
            "somebody else's money"
        );
    }
    // Who does not ask is not held to it.
    reserved_as(store, &third).await;
}

async fn what_is_over_is_covered_no_more(fixture: Fixture) {
    let store = &*fixture.store;
    for status in Status::ALL {
        let first = payment();
        in_status(store, status, &first).await;
        let counts = matches!(status, Status::Reserved | Status::Signed | Status::Mined);
        assert_eq!(is_covered(store, &another(&first), AMOUNT).await, !counts, "{status}");
    }
    let outlived = payment();
    store.reserve(&Reservation::new(&outlived, PAST)).await.unwrap();
    assert!(is_covered(store, &another(&outlived), AMOUNT).await);
}

async fn what_was_paid_later_is_still_in_the_balance(fixture: Fixture) {
    let store = &*fixture.store;
    for (event, block_number, counts) in [
        (Event::SettledAtDepth, READ_AT, false),
        (Event::SettledAtDepth, READ_AT + 1, true),
        (Event::FoundElsewhere, READ_AT, false),
        (Event::FoundElsewhere, READ_AT + 1, true),
        (Event::ProvenFailed, READ_AT + 1, false),
    ] {
        let first = payment();
        let signed = in_status(store, Status::Signed, &first).await;
        let evidence = Evidence { block_number: Some(block_number), ..Evidence::default() };
        store.transition(signed.id, signed.version, event, &evidence).await.unwrap().unwrap();
        assert_eq!(store.promises(&first.key, READ_AT).await.unwrap().len(), usize::from(counts));
        assert_eq!(is_covered(store, &another(&first), AMOUNT).await, !counts, "{event:?} in {block_number}");
    }
}

async fn what_is_said_to_be_over_is_not_owed_whatever_its_row_says(fixture: Fixture) {
    let store = &*fixture.store;
    let first = payment();
    let signed = in_status(store, Status::Signed, &first).await;
    let over = [signed.id];
    let reserve = async |terms: &NewPayment| {
        let funds = Some(Funds { balance: U256::from(AMOUNT), block_number: READ_AT, over: &over });
        store.reserve(&Reservation { funds, ..Reservation::new(terms, LATER) }).await.unwrap()
    };
    // In between the row comes to know it, which frees no more money.
    let evidence = Evidence { block_number: Some(READ_AT), ..Evidence::default() };
    store.transition(signed.id, signed.version, Event::SettledAtDepth, &evidence).await.unwrap().unwrap();
    let second = reserve(&another(&first)).await;
    assert!(matches!(second, Reserve::Fresh(_)), "{second:?}");
    assert_eq!(reserve(&another(&first)).await, Reserve::Uncovered);

    let third = payment();
    let over = [in_status(store, Status::Mined, &third).await.id];
    let funds = Some(Funds { balance: U256::from(AMOUNT), block_number: READ_AT, over: &over });
    let fourth = another(&third);
    let fourth = store.reserve(&Reservation { funds, ..Reservation::new(&fourth, LATER) }).await.unwrap();
    assert!(matches!(fourth, Reserve::Fresh(_)), "{fourth:?}");
}

async fn the_largest_amounts_do_not_wrap(fixture: Fixture) {
    let store = &*fixture.store;
    let first = NewPayment { amount: TokenAmount(U256::MAX), ..payment() };
    let fresh = reserve(store, &first, U256::MAX).await;
    assert!(matches!(fresh, Reserve::Fresh(_)), "{fresh:?}");
    for amount in [U256::from(1), U256::MAX] {
        let second = NewPayment { amount: TokenAmount(amount), ..another(&first) };
        assert_eq!(reserve(store, &second, U256::MAX).await, Reserve::Uncovered);
    }
}

async fn the_same_money_is_promised_once_however_many_ask(fixture: Fixture) {
    const COVERED: u64 = 5;
    let stores = fixture.stores(4).await;
    let first = payment();
    let asking = (0..40).map(|index| {
        let (store, terms) = (stores[index % stores.len()].clone(), another(&first));
        tokio::spawn(async move { reserve(&*store, &terms, U256::from(COVERED * AMOUNT)).await })
    });
    let reserved: Vec<_> = join_all(asking).await.into_iter().map(Result::unwrap).collect();
    let fresh = reserved.iter().filter(|reserve| matches!(reserve, Reserve::Fresh(_))).count();
    assert_eq!(u64::try_from(fresh).unwrap(), COVERED, "{reserved:?}");
    assert_eq!(reserved.iter().filter(|reserve| **reserve == Reserve::Uncovered).count(), 40 - fresh);
}

async fn what_is_not_covered_binds_no_key(fixture: Fixture) {
    let store = &*fixture.store;
    let first = payment();
    let held = reserved_as(store, &first).await;
    let second = another(&first);
    let key = key_of(&second);
    let funds = Some(Funds { balance: U256::from(AMOUNT), block_number: READ_AT, over: &[] });
    let reservation = Reservation { funds, key: Some(&key), ..Reservation::new(&second, LATER) };
    assert_eq!(store.reserve(&reservation).await.unwrap(), Reserve::Uncovered);
    assert_eq!(store.idempotency_key(&key).await.unwrap(), None);
    moved(store, &held, Event::Refused).await;
    let fresh = store.reserve(&reservation).await.unwrap();
    assert!(matches!(fresh, Reserve::Fresh(_)), "{fresh:?}");
    assert_eq!(store.idempotency_key(&key).await.unwrap(), Some(KeyBinding::Same(None)));
}

async fn a_payer_promises_no_more_often_than_can_be_added_up(fixture: Fixture) {
    let store = &*fixture.store;
    let first = payment();
    assert!(is_covered(store, &first, AMOUNT).await);
    let copies = format!(
        "INSERT INTO payments (id, version, status, network, verifying_contract, authorizer, auth_nonce, fingerprint, pay_to, \
         amount, valid_after, valid_before, expires_at, signature_digest, created_at_ms, updated_at_ms) \
         WITH RECURSIVE copy (n) AS (SELECT 100000000001 UNION ALL SELECT n + 1 FROM copy WHERE n < 100000000000 + {}) \
         SELECT substr(id, 1, 24) || CAST(n AS TEXT), version, status, network, verifying_contract, authorizer, \
         substr(auth_nonce, 1, 54) || CAST(n AS TEXT), fingerprint, pay_to, amount, valid_after, valid_before, expires_at, \
         signature_digest, created_at_ms, updated_at_ms FROM payments, copy",
        PROMISES_MAX - 2
    );
    fixture.meddle(&copies).await.unwrap();
    let last = another(&first);
    assert!(is_covered(store, &last, u64::MAX).await);
    assert_eq!(store.promises(&first.key, READ_AT).await.unwrap().len(), PROMISES_MAX);
    assert!(!is_covered(store, &another(&first), u64::MAX).await, "one too many");
    let held = store.lookup(&last.key).await.unwrap().unwrap();
    moved(store, &held, Event::Refused).await;
    assert!(is_covered(store, &another(&first), u64::MAX).await, "there is room again");
}

contract!(
    one_balance_covers_no_more_than_itself,
    what_is_over_is_covered_no_more,
    what_was_paid_later_is_still_in_the_balance,
    what_is_said_to_be_over_is_not_owed_whatever_its_row_says,
    the_largest_amounts_do_not_wrap,
    the_same_money_is_promised_once_however_many_ask,
    what_is_not_covered_binds_no_key,
    a_payer_promises_no_more_often_than_can_be_added_up,
);
