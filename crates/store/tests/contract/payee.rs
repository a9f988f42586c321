//! What is known about the payee of a payment.

use quittance_protocol::settlement::Event;

use crate::{
    fixture::Fixture,
    given::{moved, payment, reserved_as},
};

async fn the_first_payee_answer_stays_and_moves_nothing(fixture: Fixture) {
    let store = &*fixture.store;
    let reserved = reserved_as(store, &payment()).await;
    assert_eq!(reserved.payee, None);
    store.note_payee(reserved.id, r#"{"outcome":"mismatch"}"#).await.unwrap();
    store.note_payee(reserved.id, r#"{"outcome":"verified-wallet"}"#).await.unwrap();
    let noted = store.payment(reserved.id).await.unwrap().unwrap();
    assert_eq!(noted.payee.as_deref(), Some(r#"{"outcome":"mismatch"}"#));
    assert_eq!(noted.version, reserved.version);
    // Whoever read the row before may still move it, and what was noted goes with it.
    let refused = moved(store, &reserved, Event::Refused).await;
    assert_eq!(refused.payee, noted.payee);
    assert_eq!(store.lookup(&refused.terms.key).await.unwrap(), Some(refused));
}

async fn a_payee_is_stored_in_its_canonical_bytes(fixture: Fixture) {
    let store = &*fixture.store;
    let reserved = reserved_as(store, &payment()).await;
    let hex =
        if fixture.is_sqlite() { "lower(hex(pay_to_account))" } else { "encode(pay_to_account, 'hex')" };
    // Version 1, chain type 0, chain 8453, twenty bytes.
    let bytes = format!("00010000022105{}{}", "14", "ee".repeat(20));
    let rows = fixture
        .peek(&format!("SELECT COUNT(*) FROM payments WHERE id = '{}' AND {hex} = '{bytes}'", reserved.id))
        .await;
    assert_eq!(rows, 1);
}

contract!(the_first_payee_answer_stays_and_moves_nothing, a_payee_is_stored_in_its_canonical_bytes);
