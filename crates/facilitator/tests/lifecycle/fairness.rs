//! One payer's burst and everybody else.

use crate::support::{SEND, Setup, StoreKind};
use quittance_testkit::{SignedPayment, dev_signer};

/// More than one lane holds; the burst waits its turn in parts.
const BURST: usize = 300;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_one_payer_delays_another_by_a_block_at_most() {
    let bench = Setup::new(StoreKind::Postgres).block_time(1).start().await;
    let greedy = bench.builder().await;
    let burst: Vec<SignedPayment> = (0..BURST).map(|_| greedy.sign()).collect();
    let calls: Vec<_> = burst.iter().map(|payment| bench.insisting(payment)).collect();
    bench.proxy.wait_for(SEND, 60).await.unwrap();

    let other = greedy.clone().payer(dev_signer(5)).sign();
    let before = bench.anvil.client().block_number().await.unwrap();
    bench.settle(&other).await.success_of(&other);
    let mined: u64 = bench.row(&other).await["blockNumber"].as_str().unwrap().parse().unwrap();
    // The next block at the earliest, and the one after it at the latest.
    assert!(mined <= before + 2, "asked in block {before}, settled in block {mined}");
    for call in calls {
        call.await.unwrap();
    }
    bench.assert_paid_once(&[&burst[..], &[other]].concat()).await;
}
