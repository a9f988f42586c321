//! A thousand payments over three replicas, of which one dies again and again.

use crate::{
    replicas::{another_replica, settle},
    support::{DEADLINE, SEND, Setup, StoreKind, Told, until},
};
use quittance_testkit::{Facilitator, SignedPayment, harness::process::Wait};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::Semaphore;

const PAYMENTS: usize = 1_000;
/// Callers at the same time.
const CALLERS: usize = 64;
/// A replica dies whenever this many more transactions were sent.
const SENDS_BETWEEN_DEATHS: u64 = 150;

/// Asks one replica after the other until one decides.
async fn seek(clients: &[Facilitator], body: &Value, first: usize) -> Told {
    let mut turn = first;
    until("a decision", DEADLINE, || {
        let client = &clients[turn % clients.len()];
        turn += 1;
        async move {
            match settle(client, body).await {
                Some(Told::Pending(_) | Told::Unavailable) | None => None,
                decided => decided,
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_payments_while_replicas_die() {
    let mut bench = Setup::new(StoreKind::Postgres).block_time(1).signers(4).start().await;
    let (mut second, mut third) = (another_replica(&bench).await, another_replica(&bench).await);
    let payments: Vec<SignedPayment> = bench.payments(PAYMENTS).await;
    let clients = Arc::new([bench.client.clone(), second.client().unwrap(), third.client().unwrap()]);
    let places = Arc::new(Semaphore::new(CALLERS));
    let calls: Vec<_> = payments
        .iter()
        .enumerate()
        .map(|(index, payment)| {
            let (clients, places, body) = (clients.clone(), places.clone(), payment.body().clone());
            tokio::spawn(async move {
                let _place = places.acquire().await.unwrap();
                seek(&clients[..], &body, index).await
            })
        })
        .collect();
    for death in 1..6 {
        bench.proxy.wait_for(SEND, death * SENDS_BETWEEN_DEATHS).await.unwrap();
        let server = match death % 3 {
            0 => &mut bench.server,
            1 => &mut second,
            _ => &mut third,
        };
        server.restart(Wait::Healthy).await.unwrap();
    }
    let mut hashes = std::collections::HashSet::new();
    for call in calls {
        // An answer that was recorded when its replica died is not given twice; its hash is still told.
        match call.await.unwrap() {
            Told::Success(hash) | Told::Duplicate(hash) => {
                assert!(hashes.insert(hash), "{hash} told for two")
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(hashes.len(), PAYMENTS);
    bench.assert_paid_once(&payments).await;
    // Gapless: exactly as many transactions as payments, mined and known.
    let sent = u64::try_from(PAYMENTS).unwrap();
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (sent, sent));
}
