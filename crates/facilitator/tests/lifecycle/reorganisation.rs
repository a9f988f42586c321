//! Blocks that go away again.

use crate::support::{Bench, DEADLINE, Metrics, SEND, Setup, StoreKind, Told, until};
use alloy_primitives::keccak256;
use quittance_testkit::{
    SignedPayment, dev_address,
    harness::{Fault, Rule},
};

pub(super) async fn set_paused(bench: &Bench, paused: bool) {
    let call = keccak256(if paused { "pause()" } else { "unpause()" })[..4].to_vec();
    let sent = bench.chain.send(dev_address(9), Some(bench.chain.token), call.into()).await.unwrap();
    assert!(sent.success);
}

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

on_both_stores! {
    /// A success is undone, and nobody pays again: the money is brought home all the same, in every lane.
    async fn reorg_after_success_and_then_silence(store) {
        let bench = Setup::new(store).no_mining().signers(2).start().await;
        let payments = bench.payments(6).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.until_known(6).await;
        bench.anvil.mine(1).await.unwrap();
        let mut hashes = Vec::new();
        for (call, payment) in calls.into_iter().zip(&payments) {
            hashes.push(call.await.unwrap().unwrap().success_of(payment));
        }
        bench.anvil.reorg(1).await.unwrap();
        bench.assert_nothing_moved().await;
        bench.anvil.set_interval_mining(1).await.unwrap();
        for payment in &payments {
            until("the money again", DEADLINE, || async { bench.is_used(payment).await.then_some(()) }).await;
        }
        bench.assert_paid_once(&payments).await;
        let mut paid: Vec<_> = bench.transfers().await.iter().map(|transfer| transfer.transaction).collect();
        paid.sort_unstable();
        let mut told = hashes.clone();
        told.sort_unstable();
        assert_eq!(paid, told, "the same bytes");
        for (payment, hash) in payments.iter().zip(hashes) {
            assert_eq!(bench.row(payment).await["status"], "settled");
            assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
        }
        assert_eq!((bench.mined().await, bench.known_to_the_node().await), (6, 6));
    }

    /// The process that settled it is gone when the block goes away: the next one brings the money home.
    async fn reorg_while_nobody_looks(store) {
        let mut bench = Setup::new(store).start().await;
        let payment = bench.payment().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.server.kill9();
        bench.anvil.reorg(1).await.unwrap();
        bench.crash_and_restart().await;
        until("the money again", DEADLINE, || async { bench.is_used(&payment).await.then_some(()) }).await;
        bench.assert_one_transaction_paid(&payment, hash).await;
    }
}

on_both_stores! {
    /// A transaction of ours reverted, and the payment was told to have failed. When its block goes away the money must not move
    /// after all: the nonce is filled with nothing, and the payment can be made anew.
    async fn reorg_after_a_failure(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Hang));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        set_paused(&bench, true).await;
        bench.proxy.release();
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let told = call.await.unwrap().unwrap().told();
        assert!(matches!(&told, Told::No(code, _) if code == "invalid_exact_evm_transaction_failed"), "{told:?}");
        bench.anvil.reorg(1).await.unwrap();
        assert_eq!(bench.mined().await, 0);
        set_paused(&bench, false).await;
        // From here on its bytes would pay.
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.mined().await, 1);
        bench.assert_nothing_moved().await;
        assert_eq!(bench.row(&payment).await["status"], "failed");
        Metrics::until_counted(&bench, &[("reorgs", 1), ("settlements status=failed", 1)]).await;
        bench.anvil.set_automine(true).await.unwrap();
        bench.settle(&payment).await.success_of(&payment);
        bench.assert_paid_once(&[payment]).await;
    }

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
        Metrics::until_counted(&bench, &[("reorgs", 1), ("settlements status=settled", 0)]).await;
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

on_both_stores! {
    /// Several lanes' worth of payments, and a deep reorganisation in the middle of them.
    async fn reorg_of_many(store) {
        let bench = Setup::new(store).no_mining().confirmations(3).signers(2).start().await;
        let payments = bench.payments(20).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.until_known(20).await;
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
}
