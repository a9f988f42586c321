//! One keeper per network.

use futures::future::join_all;
use std::time::Duration;

use crate::{
    fixture::{Fixture, eventually},
    given::{holder, network},
};

const LONG: Duration = Duration::from_secs(3600);

async fn the_epoch_grows_with_every_change_of_hands(fixture: Fixture) {
    let store = &*fixture.store;
    let (chain, one, two) = (network(8453), holder(), holder());
    assert_eq!(store.take_keeper(chain, one, LONG).await.unwrap(), Some(1));
    assert_eq!(store.take_keeper(chain, two, LONG).await.unwrap(), None);
    assert_eq!(store.take_keeper(network(1), two, LONG).await.unwrap(), Some(1), "another network");

    // Renewing with a short term is how a keeper resigns.
    assert_eq!(store.take_keeper(chain, one, Duration::from_millis(100)).await.unwrap(), Some(1));
    eventually(async || store.take_keeper(chain, two, LONG).await.unwrap() == Some(2)).await;
    assert_eq!(store.take_keeper(chain, one, LONG).await.unwrap(), None);
    assert_eq!(store.take_keeper(chain, two, Duration::ZERO).await.unwrap(), Some(2));
    assert_eq!(
        store.take_keeper(chain, two, Duration::ZERO).await.unwrap(),
        Some(2),
        "lapsed, but still its own"
    );
    assert_eq!(store.take_keeper(chain, one, LONG).await.unwrap(), Some(3));
}

async fn of_fifty_candidates_one_keeps(fixture: Fixture) {
    let stores = fixture.stores(3).await;
    let candidates = (0..50).map(|i| {
        let store = stores[i % stores.len()].clone();
        tokio::spawn(async move { store.take_keeper(network(8453), holder(), LONG).await.unwrap() })
    });
    let epochs: Vec<_> = join_all(candidates).await.into_iter().filter_map(Result::unwrap).collect();
    assert_eq!(epochs, [1]);
}

contract!(the_epoch_grows_with_every_change_of_hands, of_fifty_candidates_one_keeps);
