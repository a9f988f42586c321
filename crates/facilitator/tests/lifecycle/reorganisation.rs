//! Blocks that go away again.

use crate::support::{Bench, SEND, Setup, StoreKind, Told};
use quittance_testkit::SignedPayment;

/// Blocks until the caller has its answer.
async fn settled_with_blocks(
    bench: &Bench,
    call: tokio::task::JoinHandle<Option<crate::support::Reply>>,
    payment: &SignedPayment,
) {
    bench.anvil.set_interval_mining(1).await.unwrap();
    call.await.unwrap().unwrap().success_of(payment);
}

on_both_stores! {
    /// With one confirmation, a success can be undone by the chain. The money is then brought home, and nothing that
    /// comes later is held up.
    async fn reorg_after_success(store) {
        let bench = Setup::new(store).start().await;
        let (undone, next) = (bench.payment().await, bench.payment().await);
        let hash = bench.settle(&undone).await.success_of(&undone);
        bench.anvil.reorg(1).await.unwrap();
        assert!(!bench.is_used(&undone).await);
        bench.settle(&next).await.success_of(&next);
        assert_eq!(bench.settle(&undone).await.told(), Told::Duplicate(hash));
        bench.assert_paid_once(&[undone, next]).await;
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (2, 2));
    }
}

on_sqlite! {
    /// Seen in a block, the block is gone, the transaction too: sent again, and told only at depth.
    async fn reorg_before_depth(store) {
        let bench = Setup::new(store).no_mining().confirmations(3).start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "mined").await;
        assert!(!call.is_finished(), "answered before depth");
        bench.anvil.reorg(1).await.unwrap();
        bench.until_status(&payment, "signed").await;
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        settled_with_blocks(&bench, call, &payment).await;
        let hash = bench.sent()[0];
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// The same transaction comes back in another block.
    async fn reorg_into_another_block(store) {
        let bench = Setup::new(store).no_mining().confirmations(3).start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "mined").await;
        let raw = bench.proxy.calls_of(SEND)[0].params[0].as_str().unwrap().parse().unwrap();
        bench.anvil.mine(1).await.unwrap();
        bench.anvil.reorg_with(2, &[(raw, 1)]).await.unwrap();
        settled_with_blocks(&bench, call, &payment).await;
        let hash = bench.sent()[0];
        bench.assert_one_transaction_paid(&payment, hash).await;
        let block = bench.transfers().await[0].block;
        assert_eq!(bench.row(&payment).await["blockNumber"], block.to_string());
    }
}

/// Several lanes' worth of payments, and a deep reorganisation in the middle of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reorg_of_many() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().confirmations(3).signers(2).start().await;
    let payments = bench.payments(20).await;
    let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
    bench.proxy.wait_answered(SEND, 20).await.unwrap();
    bench.anvil.mine(2).await.unwrap();
    for payment in &payments {
        bench.until_status(payment, "mined").await;
    }
    bench.anvil.reorg(2).await.unwrap();
    bench.anvil.set_interval_mining(1).await.unwrap();
    for (call, payment) in calls.into_iter().zip(&payments) {
        let told = call.await.unwrap().unwrap().told();
        assert!(matches!(told, Told::Success(_) | Told::Pending(_)), "{told:?}");
        bench.until_status(payment, "settled").await;
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 20);
}
