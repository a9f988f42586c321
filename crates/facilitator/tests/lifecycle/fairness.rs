//! One payer's burst and everybody else.

use crate::support::{SEND, Setup, StoreKind, Told};
use quittance_testkit::{SignedPayment, dev_signer};

/// More than one lane holds, and more than the server has places for.
const BURST: usize = 2_100;

on_both_stores! {
    async fn a_burst_of_one_payer_delays_another_by_a_block_at_most(store) {
        let bench = Setup::new(store).block_time(2).wait_seconds(5).start().await;
        let greedy = bench.builder().await;
        let burst: Vec<SignedPayment> = (0..BURST).map(|_| greedy.sign()).collect();
        let calls: Vec<_> = burst.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_for(SEND, 60).await.unwrap();

        let other = greedy.clone().payer(dev_signer(5)).sign();
        let before = bench.anvil.client().block_number().await.unwrap();
        bench.settle(&other).await.success_of(&other);
        let mined: u64 = bench.row(&other).await["blockNumber"].as_str().unwrap().parse().unwrap();
        // The next block at the earliest, and the one after it at the latest.
        assert!(mined <= before + 2, "asked in block {before}, settled in block {mined}");

        let mut paid = vec![other];
        for (call, payment) in calls.into_iter().zip(burst) {
            match call.await.unwrap().expect("an answer").told() {
                Told::Success(_) => paid.push(payment),
                Told::Pending(hash) => {
                    assert_eq!(bench.insisting(&payment).await.unwrap(), hash);
                    paid.push(payment);
                }
                // No room in time, and nothing signed for it.
                Told::Unavailable => {}
                told => panic!("{told:?}"),
            }
        }
        bench.assert_paid_once(&paid).await;
    }
}
