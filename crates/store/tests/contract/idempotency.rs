//! Idempotency keys: same key, same payment, same answer.

use alloy_primitives::B256;
use futures::future::join_all;
use quittance_protocol::{
    settlement::{Fingerprint, NewPayment, ResourceDigest, SignatureDigest, Status},
    units::UnixSeconds,
};
use quittance_store::model::{
    IdempotencyKey, KeyBinding, KeyUse, KeyedAnswer, LastAnswer, Reservation, Reserve,
};
use std::time::Duration;

use crate::{
    fixture::Fixture,
    given::{LATER, holder, in_status, key_of, payment, reserved_as, rival},
};

const PAYMENT: Fingerprint = Fingerprint(B256::repeat_byte(1));
const ANOTHER: Fingerprint = Fingerprint(B256::repeat_byte(2));
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn key(scope: &str, key: &str) -> KeyUse {
    let key = IdempotencyKey { scope: scope.to_owned(), key: key.to_owned() };
    KeyUse { key, payment: PAYMENT, resource: None, signature: None }
}

fn of_another(key: &KeyUse) -> KeyUse {
    KeyUse { payment: ANOTHER, ..key.clone() }
}

fn for_resource(key: &KeyUse, byte: u8) -> KeyUse {
    KeyUse { resource: Some(ResourceDigest(B256::repeat_byte(byte))), ..key.clone() }
}

fn signed_by(key: &KeyUse, byte: u8) -> KeyUse {
    KeyUse { signature: Some(SignatureDigest(B256::repeat_byte(byte))), ..key.clone() }
}

async fn a_key_binds_one_payment_and_one_answer(fixture: Fixture) {
    let store = &*fixture.store;
    let longest: String = (b'!'..=b'~').cycle().take(255).map(char::from).collect();
    for key in [key("", "k"), key("", &longest), key(&"f".repeat(64), "k")] {
        let another = of_another(&key);
        assert_eq!(store.idempotency_key(&key).await.unwrap(), None);
        assert_eq!(store.bind_idempotency_key(&key).await.unwrap(), KeyBinding::First);
        assert_eq!(store.bind_idempotency_key(&another).await.unwrap(), KeyBinding::Other);
        assert_eq!(store.bind_idempotency_key(&key).await.unwrap(), KeyBinding::Same(None));

        // The answer of a payment that is not the key's is nobody's.
        store.store_idempotent_answer(&another, "theirs").await.unwrap();
        let answer = r#"{"success":true,"note":"it's ü"}"#;
        store.store_idempotent_answer(&key, answer).await.unwrap();
        store.store_idempotent_answer(&key, "another one").await.unwrap();
        let same = KeyBinding::Same(Some(answer.to_owned()));
        assert_eq!(store.bind_idempotency_key(&key).await.unwrap(), same);
        assert_eq!(store.idempotency_key(&key).await.unwrap(), Some(same));
        assert_eq!(store.bind_idempotency_key(&another).await.unwrap(), KeyBinding::Other);
        assert_eq!(store.idempotency_key(&another).await.unwrap(), Some(KeyBinding::Other));
    }
}

async fn a_key_of_a_resource_binds_that_as_well(fixture: Fixture) {
    let store = &*fixture.store;
    let key = key("s", "k");
    let (one, other) = (for_resource(&key, 1), for_resource(&key, 2));
    assert_eq!(store.bind_idempotency_key(&one).await.unwrap(), KeyBinding::First);
    for stranger in [&other, &key, &of_another(&one)] {
        assert_eq!(store.bind_idempotency_key(stranger).await.unwrap(), KeyBinding::Other);
        store.store_idempotent_answer(stranger, "theirs").await.unwrap();
    }
    assert_eq!(store.bind_idempotency_key(&one).await.unwrap(), KeyBinding::Same(None));
    // An earlier version bound keys to payments alone: those go on to stand for them, whatever they are for.
    fixture.meddle("UPDATE idempotency_keys SET resource = NULL").await.unwrap();
    store.store_idempotent_answer(&other, "{}").await.unwrap();
    for any in [&one, &other, &key] {
        let same = KeyBinding::Same(Some("{}".to_owned()));
        assert_eq!(store.idempotency_key(any).await.unwrap(), Some(same));
    }
    assert_eq!(store.idempotency_key(&of_another(&one)).await.unwrap(), Some(KeyBinding::Other));
}

async fn a_key_of_a_signature_binds_that_as_well(fixture: Fixture) {
    let store = &*fixture.store;
    let terms = payment();
    let payment = reserved_as(store, &terms).await;
    let key = KeyUse { payment: terms.fingerprint, ..for_resource(&key("s", "k"), 9) };
    let (one, other) = (signed_by(&key, 1), signed_by(&key, 2));
    assert_eq!(store.bind_idempotency_key(&one).await.unwrap(), KeyBinding::First);
    for stranger in [&other, &key, &for_resource(&one, 8)] {
        assert_eq!(store.bind_idempotency_key(stranger).await.unwrap(), KeyBinding::Other);
        assert_eq!(store.idempotency_key(stranger).await.unwrap(), Some(KeyBinding::Other));
        store.store_idempotent_answer(stranger, "theirs").await.unwrap();
        let (holder, ttl) = (holder(), Duration::from_secs(60));
        assert!(store.take_answer(payment.id, holder, 0, ttl).await.unwrap());
        let begun = store
            .begin_keyed_answer(
                payment.id,
                holder,
                LastAnswer::Success,
                ttl,
                std::slice::from_ref(stranger),
                "theirs",
            )
            .await;
        assert_eq!(begun.unwrap(), KeyedAnswer::KeyTaken);
        store.release_answer(payment.id, holder, false).await.unwrap();
    }
    assert_eq!(store.bind_idempotency_key(&one).await.unwrap(), KeyBinding::Same(None));
    // Older versions wrote no signature down: those keys go on to stand for whatever proves the payment.
    fixture.meddle("UPDATE idempotency_keys SET signature_digest = NULL").await.unwrap();
    store.store_idempotent_answer(&other, "{}").await.unwrap();
    for any in [&one, &other, &key] {
        let same = KeyBinding::Same(Some("{}".to_owned()));
        assert_eq!(store.idempotency_key(any).await.unwrap(), Some(same));
    }
    assert_eq!(store.idempotency_key(&of_another(&one)).await.unwrap(), Some(KeyBinding::Other));
}

async fn an_answer_without_a_binding_is_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let key = key("", "k");
    store.store_idempotent_answer(&key, "stray").await.unwrap();
    assert_eq!(store.bind_idempotency_key(&key).await.unwrap(), KeyBinding::First);
    assert_eq!(store.bind_idempotency_key(&key).await.unwrap(), KeyBinding::Same(None));
}

async fn of_fifty_first_uses_one_is_first(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let uses = (0..50).map(|i| {
        let store = stores[i % stores.len()].clone();
        let key = key("s", "k");
        let key = if i % 2 == 0 { key } else { of_another(&key) };
        tokio::spawn(async move { (key.payment, store.bind_idempotency_key(&key).await.unwrap()) })
    });
    let bindings: Vec<_> = join_all(uses).await.into_iter().map(Result::unwrap).collect();
    let winners: Vec<_> = bindings.iter().filter(|(_, binding)| *binding == KeyBinding::First).collect();
    assert_eq!(winners.len(), 1);
    for (payment, binding) in &bindings {
        let same = *payment == winners[0].0;
        match binding {
            KeyBinding::First => {}
            KeyBinding::Same(answer) => assert_eq!((same, answer), (true, &None)),
            KeyBinding::Other => assert!(!same),
        }
    }
}

fn with<'a>(terms: &'a NewPayment, key: &'a KeyUse) -> Reservation<'a> {
    Reservation { key: Some(key), ..Reservation::new(terms, LATER) }
}

/// The loser of a key has nothing reserved, and the loser of a replay key has bound nothing.
async fn a_reservation_and_its_key_come_together(fixture: Fixture) {
    let store = &*fixture.store;
    let (first, second) = (payment(), payment());
    let key = for_resource(&key_of(&first), 1);
    let Reserve::Fresh(row) = store.reserve(&with(&first, &key)).await.unwrap() else { panic!("taken") };
    assert_eq!(store.idempotency_key(&key).await.unwrap(), Some(KeyBinding::Same(None)));

    let strangers = [for_resource(&key, 2), KeyUse { payment: second.fingerprint, ..key.clone() }];
    for stranger in &strangers {
        assert_eq!(store.reserve(&with(&second, stranger)).await.unwrap(), Reserve::KeyTaken);
        assert_eq!(store.lookup(&second.key).await.unwrap(), None);
    }
    // It was bound before, to just this.
    let Reserve::Fresh(_) = store.reserve(&with(&second, &key)).await.unwrap() else { panic!("taken") };

    let third = key_of(&first);
    assert_eq!(store.reserve(&with(&first, &third)).await.unwrap(), Reserve::Same(row.clone()));
    assert_eq!(store.reserve(&with(&rival(&first), &third)).await.unwrap(), Reserve::Other(row));
    assert_eq!(store.idempotency_key(&third).await.unwrap(), None);
}

async fn of_fifty_reservations_with_one_key_one_is_made(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    for _ in 0..4 {
        let key = key_of(&payment());
        let reservations = (0..50).map(|i| {
            let (store, terms) = (stores[i % stores.len()].clone(), payment());
            let key = KeyUse { payment: terms.fingerprint, ..key.clone() };
            tokio::spawn(async move { (store.reserve(&with(&terms, &key)).await.unwrap(), terms) })
        });
        let outcomes: Vec<_> = join_all(reservations).await.into_iter().map(Result::unwrap).collect();
        let mut fresh = 0;
        for (outcome, terms) in outcomes {
            let held = fixture.store.lookup(&terms.key).await.unwrap();
            match outcome {
                Reserve::Fresh(payment) => {
                    fresh += 1;
                    assert_eq!(held, Some(payment));
                }
                Reserve::KeyTaken => assert_eq!(held, None),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(fresh, 1);
    }
}

/// By age, in batches; but no key of a payment that may still move or be made.
async fn old_keys_are_forgotten_unless_needed(fixture: Fixture) {
    let store = &*fixture.store;
    let dead = UnixSeconds(1);
    let mut keys = Vec::new();
    for status in Status::ALL {
        for expires_at in [dead, UnixSeconds(u64::MAX)] {
            let terms = payment();
            let row = in_status(store, status, &terms).await;
            let expires_at = i64::try_from(expires_at.0).unwrap_or(i64::MAX);
            let sql = format!("UPDATE payments SET expires_at = {expires_at} WHERE id = '{}'", row.id);
            assert_eq!(fixture.meddle(&sql).await.unwrap(), 1);
            let open = !status.is_terminal();
            let can_execute = !status.holds_key() && expires_at == i64::MAX;
            keys.push((status, expires_at, key_of(&terms), open || can_execute));
        }
    }
    let refused = key_of(&payment());
    for key in keys.iter().map(|(_, _, key, _)| key).chain([&refused]) {
        store.bind_idempotency_key(key).await.unwrap();
        store.store_idempotent_answer(key, "{}").await.unwrap();
    }
    assert_eq!(store.forget_idempotency_keys(DAY).await.unwrap(), 0, "none is a day old");

    let needed = u64::try_from(keys.iter().filter(|(.., needed)| *needed).count()).unwrap();
    let all = u64::try_from(keys.len()).unwrap() + 1;
    assert_eq!(fixture.meddle("UPDATE idempotency_keys SET bound_at = bound_at - 86400").await.unwrap(), all);
    let young = key_of(&payment());
    store.bind_idempotency_key(&young).await.unwrap();
    assert_eq!(store.forget_idempotency_keys(DAY).await.unwrap(), all - needed);
    for (status, expires_at, key, needed) in &keys {
        let kept = store.idempotency_key(key).await.unwrap().is_some();
        assert_eq!(kept, *needed, "{status}, which can execute until {expires_at}");
    }
    assert_eq!(store.idempotency_key(&refused).await.unwrap(), None);
    assert_eq!(store.idempotency_key(&young).await.unwrap(), Some(KeyBinding::Same(None)));
    // A key of a payment and one of its resource: it is the payment that counts.
    let open = reserved_as(store, &payment()).await;
    let identifier = for_resource(&key_of(&open.terms), 1);
    store.bind_idempotency_key(&identifier).await.unwrap();
    fixture.meddle("UPDATE idempotency_keys SET bound_at = 1").await.unwrap();
    store.forget_idempotency_keys(DAY).await.unwrap();
    assert!(store.idempotency_key(&identifier).await.unwrap().is_some());
}

/// More than one statement's worth, and from several processes at once: each is counted once.
async fn a_crowd_of_keys_is_forgotten_once(fixture: Fixture) {
    const CROWD: u64 = 1100;
    let stores = fixture.stores(3).await;
    let crowd = format!(
        "INSERT INTO idempotency_keys (scope, key, fingerprint, bound_at) \
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {CROWD}) \
         SELECT 's', 'key ' || i, '{}', i FROM n",
        PAYMENT.0
    );
    assert_eq!(fixture.meddle(&crowd).await.unwrap(), CROWD);
    let forgetting = stores
        .iter()
        .cloned()
        .map(|store| tokio::spawn(async move { store.forget_idempotency_keys(DAY).await.unwrap() }));
    let forgotten: u64 = join_all(forgetting).await.into_iter().map(Result::unwrap).sum();
    // What one of them skipped because another had it locked is forgotten all the same.
    assert_eq!(forgotten, CROWD);
    assert_eq!(fixture.peek("SELECT COUNT(*) FROM idempotency_keys").await, 0);
}

contract!(
    a_key_binds_one_payment_and_one_answer,
    a_key_of_a_resource_binds_that_as_well,
    a_key_of_a_signature_binds_that_as_well,
    an_answer_without_a_binding_is_nothing,
    of_fifty_first_uses_one_is_first,
    a_reservation_and_its_key_come_together,
    of_fifty_reservations_with_one_key_one_is_made,
    old_keys_are_forgotten_unless_needed,
    a_crowd_of_keys_is_forgotten_once,
);
