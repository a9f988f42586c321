//! Idempotency keys: same key, same payment, same answer.

use alloy_primitives::B256;
use futures::future::join_all;
use quittance_protocol::{settlement::Fingerprint, units::UnixSeconds};
use quittance_store::model::{IdempotencyKey, KeyBinding};

use crate::{fixture::Fixture, given::NOW};

const PAYMENT: Fingerprint = Fingerprint(B256::repeat_byte(1));
const ANOTHER: Fingerprint = Fingerprint(B256::repeat_byte(2));

fn key(scope: &str, key: &str) -> IdempotencyKey {
    IdempotencyKey { scope: scope.to_owned(), key: key.to_owned() }
}

async fn a_key_binds_one_payment_and_one_answer(fixture: Fixture) {
    let store = &*fixture.store;
    let longest: String = (b'!'..=b'~').cycle().take(255).map(char::from).collect();
    for key in [key("", "k"), key("", &longest), key(&"f".repeat(64), "k")] {
        assert_eq!(store.bind_idempotency_key(&key, &PAYMENT, NOW).await.unwrap(), KeyBinding::First);
        assert_eq!(store.bind_idempotency_key(&key, &ANOTHER, NOW).await.unwrap(), KeyBinding::Other);
        assert_eq!(store.bind_idempotency_key(&key, &PAYMENT, NOW).await.unwrap(), KeyBinding::Same(None));

        let answer = r#"{"success":true,"note":"it's ü"}"#;
        store.store_idempotent_answer(&key, answer).await.unwrap();
        store.store_idempotent_answer(&key, "another one").await.unwrap();
        let later = UnixSeconds(u64::MAX);
        let again = store.bind_idempotency_key(&key, &PAYMENT, later).await.unwrap();
        assert_eq!(again, KeyBinding::Same(Some(answer.to_owned())));
        assert_eq!(store.bind_idempotency_key(&key, &ANOTHER, NOW).await.unwrap(), KeyBinding::Other);
    }
}

async fn an_answer_without_a_binding_is_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    store.store_idempotent_answer(&key("", "k"), "stray").await.unwrap();
    assert_eq!(store.bind_idempotency_key(&key("", "k"), &PAYMENT, NOW).await.unwrap(), KeyBinding::First);
    assert_eq!(
        store.bind_idempotency_key(&key("", "k"), &PAYMENT, NOW).await.unwrap(),
        KeyBinding::Same(None)
    );
}

async fn of_fifty_first_uses_one_is_first(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let uses = (0..50).map(|i| {
        let store = stores[i % stores.len()].clone();
        let payment = if i % 2 == 0 { PAYMENT } else { ANOTHER };
        tokio::spawn(async move {
            (payment, store.bind_idempotency_key(&key("s", "k"), &payment, NOW).await.unwrap())
        })
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

contract!(
    a_key_binds_one_payment_and_one_answer,
    an_answer_without_a_binding_is_nothing,
    of_fifty_first_uses_one_is_first,
);
