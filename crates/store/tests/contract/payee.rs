//! What is known about the payee of a payment, and about the servers of payees.

use alloy_primitives::{Address, U256};
use futures::future::join_all;
use quittance_protocol::{
    payee::{Identity, Origin, RegistryId},
    settlement::Event,
};
use quittance_store::model::{Reservation, Reserve};

use crate::{
    fixture::Fixture,
    given::{LATER, identity, moved, origin, payment, reserved_as},
};

/// It was decided on: it is there as soon as the reservation is, and stays with it.
async fn the_payees_answer_is_reserved_with_the_payment(fixture: Fixture) {
    let store = &*fixture.store;
    assert_eq!(reserved_as(store, &payment()).await.payee, None);
    let (terms, answer) = (payment(), r#"{"outcome":"mismatch","note":"it's ü"}"#);
    let reservation = Reservation { payee: Some(answer), ..Reservation::new(&terms, LATER) };
    let Reserve::Fresh(reserved) = store.reserve(&reservation).await.unwrap() else { panic!("not free") };
    assert_eq!(reserved.payee.as_deref(), Some(answer));
    let another = Reservation { payee: Some("{}"), ..reservation };
    assert_eq!(store.reserve(&another).await.unwrap(), Reserve::Same(reserved.clone()));
    let refused = moved(store, &reserved, Event::Refused).await;
    assert_eq!(refused.payee, reserved.payee);
    assert_eq!(store.lookup(&terms.key).await.unwrap(), Some(refused));
}

async fn payee_and_asset_are_stored_in_their_canonical_bytes(fixture: Fixture) {
    let store = &*fixture.store;
    let reserved = reserved_as(store, &payment()).await;
    for (column, address) in [("pay_to_account", "ee"), ("asset_account", "c0")] {
        let hex = if fixture.is_sqlite() {
            format!("lower(hex({column}))")
        } else {
            format!("encode({column}, 'hex')")
        };
        // Version 1, chain type 0, chain 8453, twenty bytes.
        let bytes = format!("00010000022105{}{}", "14", address.repeat(20));
        let rows = fixture
            .peek(&format!(
                "SELECT COUNT(*) FROM payments WHERE id = '{}' AND {hex} = '{bytes}'",
                reserved.id
            ))
            .await;
        assert_eq!(rows, 1, "{column}");
    }
}

async fn the_first_identity_of_an_origin_stays(fixture: Fixture) {
    let (server, first, second) = (origin(), identity(), identity());
    assert_eq!(fixture.store.first_identity(&server).await.unwrap(), None);
    for (identity, limit) in [(&first, 100), (&second, 100), (&second, 0)] {
        let remembered = fixture.store.remember_identity(&server, identity, limit).await.unwrap();
        assert_eq!(remembered, Some(first));
    }
    // Another port is another origin.
    let neighbour = Origin::parse_bare(&format!("{server}:8443")).unwrap();
    assert_eq!(fixture.store.remember_identity(&neighbour, &second, 100).await.unwrap(), Some(second));
    let fixture = fixture.restarted().await;
    assert_eq!(fixture.store.first_identity(&server).await.unwrap(), Some(first));
    assert_eq!(fixture.store.first_identity(&neighbour).await.unwrap(), Some(second));
    // What an operator does about one, as the documentation says.
    let forget = format!("DELETE FROM payee_origins WHERE origin = '{server}'");
    assert_eq!(fixture.meddle(&forget).await.unwrap(), 1);
    assert_eq!(fixture.store.remember_identity(&server, &second, 100).await.unwrap(), Some(second));
}

async fn identities_of_every_size_come_back(fixture: Fixture) {
    let widest = Identity {
        registry: RegistryId::new(
            U256::from(10).pow(U256::from(32)) - U256::from(1),
            Address::repeat_byte(0xab),
        )
        .unwrap(),
        agent_id: U256::MAX,
    };
    let narrowest =
        Identity { registry: RegistryId::new(U256::from(1), Address::ZERO).unwrap(), agent_id: U256::ZERO };
    for identity in [widest, narrowest] {
        let server = origin();
        fixture.store.remember_identity(&server, &identity, 100).await.unwrap();
        assert_eq!(fixture.store.first_identity(&server).await.unwrap(), Some(identity));
    }
}

async fn origins_beyond_the_limit_are_not_remembered(fixture: Fixture) {
    let store = &*fixture.store;
    let (first, second, late) = (origin(), origin(), origin());
    for server in [&first, &second] {
        assert!(store.remember_identity(server, &identity(), 2).await.unwrap().is_some());
    }
    assert_eq!(store.remember_identity(&late, &identity(), 2).await.unwrap(), None);
    assert_eq!(store.first_identity(&late).await.unwrap(), None);
    // Nobody is pushed out, and a place that was given up can be had.
    assert!(store.first_identity(&first).await.unwrap().is_some());
    fixture.meddle(&format!("DELETE FROM payee_origins WHERE origin = '{second}'")).await.unwrap();
    assert!(store.remember_identity(&late, &identity(), 2).await.unwrap().is_some());
}

/// Twenty replicas meet a new server at once, each with another agent: all are told of the same one.
async fn of_many_first_identities_one_stays(fixture: Fixture) {
    let server = origin();
    let stores = fixture.stores(4).await;
    let told = join_all((0..20).map(|replica| {
        let (store, server) = (stores[replica % stores.len()].clone(), server.clone());
        async move { store.remember_identity(&server, &identity(), 100).await.unwrap() }
    }))
    .await;
    assert_eq!(told, vec![fixture.store.first_identity(&server).await.unwrap(); 20]);
}

contract!(
    the_payees_answer_is_reserved_with_the_payment,
    payee_and_asset_are_stored_in_their_canonical_bytes,
    the_first_identity_of_an_origin_stays,
    identities_of_every_size_come_back,
    origins_beyond_the_limit_are_not_remembered,
    of_many_first_identities_one_stays,
);
