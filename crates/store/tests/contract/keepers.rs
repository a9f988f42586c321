//! One keeper per network.

use futures::future::join_all;
use std::time::Duration;

use crate::{
    fixture::{Fixture, eventually},
    given::{holder, network},
};

const LONG: Duration = Duration::from_secs(3600);

async fn one_keeps_until_its_lease_lapses(fixture: Fixture) {
    let store = &*fixture.store;
    let (chain, one, two) = (network(8453), holder(), holder());
    let takes = async |chain, who, ttl| store.take_keeper(chain, who, ttl).await.unwrap();
    assert!(takes(chain, one, LONG).await);
    assert!(!takes(chain, two, LONG).await);
    assert!(takes(network(1), two, LONG).await, "another network");

    // Renewing with a short term is how a keeper resigns.
    assert!(takes(chain, one, Duration::from_millis(100)).await);
    eventually(async || takes(chain, two, LONG).await).await;
    assert!(!takes(chain, one, LONG).await);
    assert!(takes(chain, two, Duration::ZERO).await);
    assert!(takes(chain, two, Duration::ZERO).await, "lapsed, but still its own");
    assert!(takes(chain, one, LONG).await);
}

async fn of_fifty_candidates_one_keeps(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let candidates = (0..50).map(|i| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(async move { store.take_keeper(network(8453), holder(), LONG).await.unwrap() })
    });
    assert_eq!(join_all(candidates).await.into_iter().filter(|took| *took.as_ref().unwrap()).count(), 1);
}

contract!(one_keeps_until_its_lease_lapses, of_fifty_candidates_one_keeps);
