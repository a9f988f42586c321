//! A thousand payments over three replicas, of which one dies again and again.

use crate::support::{SEND, Setup, StoreKind, Told, another_replica, seek};
use quittance_testkit::{SignedPayment, harness::process::Wait};
use std::sync::Arc;
use tokio::sync::Semaphore;

const PAYMENTS: usize = 1_000;
/// Callers at the same time.
const CALLERS: usize = 64;
/// A replica dies whenever this many more transactions were sent.
const SENDS_BETWEEN_DEATHS: u64 = 150;
const DEATHS: u64 = 5;

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
    for death in 1..=DEATHS {
        bench.proxy.wait_for(SEND, death * SENDS_BETWEEN_DEATHS).await.unwrap();
        let server = match death % 3 {
            0 => &mut bench.server,
            1 => &mut second,
            _ => &mut third,
        };
        server.restart(Wait::Healthy).await.unwrap();
    }
    let (mut executed, mut cut_off, mut repeats) = (Vec::new(), 0, 0);
    for (call, payment) in calls.into_iter().zip(&payments) {
        let found = call.await.unwrap();
        cut_off += usize::from(found.cut_off > 0);
        match found.told {
            Told::Success(hash) => executed.push((payment, hash)),
            // An answer that was recorded when its replica died is not given twice; its hash is still told.
            Told::Duplicate(hash) if found.cut_off > 0 => {
                repeats += 1;
                executed.push((payment, hash));
            }
            _ => panic!("{found:?}, with every answer read"),
        }
    }
    println!("{cut_off} callers were cut off, {repeats} of them from their success");
    assert!(cut_off > 0, "no replica died with a caller waiting");
    bench.assert_executed_by(&executed).await;
    bench.assert_paid_once(&payments).await;
    // Gapless: exactly as many transactions as payments, mined and known.
    let sent = u64::try_from(PAYMENTS).unwrap();
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (sent, sent));
}
