//! Outcomes that a reorganisation has undone, although every nonce is consumed again.

use super::reorganisation::set_paused;
use crate::support::{Bench, DEADLINE, Metrics, RawCall, SEND, Setup, StoreKind, Told, USED, until};
use alloy_primitives::{B256, Bytes};
use quittance_testkit::{
    SignedPayment, dev_address, dev_signer,
    harness::{Fault, Rule},
};
use serde_json::json;

/// A transaction as it was signed.
async fn bytes_of(bench: &Bench, hash: B256) -> Bytes {
    let bytes = bench.anvil.rpc("eth_getRawTransactionByHash", json!([hash])).await.unwrap();
    bytes.as_str().unwrap().parse().unwrap()
}

async fn lasting_payment(bench: &Bench) -> SignedPayment {
    bench.builder().await.max_timeout_seconds(3_600).sign()
}

/// Another transaction than the one that was told has paid, and the row says which. Nobody is told of a second success.
async fn assert_paid_again(bench: &Bench, payment: &SignedPayment, told: B256) {
    until("the money again", DEADLINE, || async { bench.is_used(payment).await.then_some(()) }).await;
    assert_eq!(bench.chain.balance_of(payment.asset(), payment.recipient()).await.unwrap(), payment.value());
    let row = bench.row(payment).await;
    let hash: B256 = row["transaction"].as_str().unwrap().parse().unwrap();
    assert_ne!(hash, told);
    assert_eq!(row["status"], "settled");
    bench.assert_executed_by(&[(payment, hash)]).await;
    assert_eq!(bench.settle(payment).await.told(), Told::Duplicate(hash));
    assert_eq!((bench.mined().await, bench.known_to_the_node().await), (2, 2));
}

on_both_stores! {
    /// On the new chain our transaction comes before the money of its payer: it reverts. As soon as there is money, it goes out
    /// again, and not before.
    async fn reverted_in_a_reorg(store) {
        let bench = Setup::new(store).start().await;
        let payment = bench.builder().await.payer(dev_signer(3)).max_timeout_seconds(3_600).sign();
        let fund = async || bench.chain.mint(payment.asset(), payment.payer(), payment.value()).await.unwrap();
        fund().await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.anvil.reorg_with(2, &[(bytes_of(&bench, hash).await, 0)]).await.unwrap();
        assert!(!bench.chain.receipt(hash).await.unwrap().unwrap().success);
        Metrics::until_counted(&bench, &[("undone", 1), ("reorgs", 0)]).await;
        assert_eq!((bench.row(&payment).await["status"].clone(), bench.mined().await), (json!("settled"), 1));
        fund().await;
        assert_paid_again(&bench, &payment, hash).await;
        Metrics::until_counted(&bench, &[("undone", 1), ("reorgs", 1)]).await;
    }

    /// Undone before anybody was told: it is no success until the money is there again.
    async fn undone_before_it_was_told(store) {
        let bench = Setup::new(store).wait_seconds(2).start().await;
        let payment = bench.builder().await.payer(dev_signer(3)).max_timeout_seconds(3_600).sign();
        let fund = async || bench.chain.mint(payment.asset(), payment.payer(), payment.value()).await.unwrap();
        fund().await;
        bench.anvil.set_automine(false).await.unwrap();
        let call = RawCall::settle(&bench.client, payment.body(), &[]).await;
        bench.until_known(1).await;
        drop(call);
        bench.anvil.mine(1).await.unwrap();
        bench.until_status(&payment, "settled").await;
        let hash = bench.sent()[0];
        bench.anvil.reorg_with(2, &[(bytes_of(&bench, hash).await, 0)]).await.unwrap();
        assert_eq!(bench.settle(&payment).await.told(), Told::Pending(hash));
        assert_eq!(bench.settle(&payment).await.told(), Told::Pending(hash));
        bench.anvil.set_automine(true).await.unwrap();
        fund().await;
        let hash = bench.insisting(&payment).await.unwrap();
        bench.assert_executed_by(&[(&payment, hash)]).await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }

    /// On the new chain somebody else's transaction of our signer has our nonce.
    async fn nonce_taken_in_a_reorg(store) {
        let bench = Setup::new(store).start().await;
        let outside = bench.chain.send(bench.signers[0], Some(dev_address(8)), Bytes::new()).await.unwrap();
        let outside = bytes_of(&bench, outside.transaction).await;
        bench.anvil.rollback(1).await.unwrap();
        assert_eq!(bench.mined().await, 0);
        let payment = lasting_payment(&bench).await;
        let hash = bench.settle(&payment).await.success_of(&payment);
        bench.anvil.reorg_with(1, &[(outside, 0)]).await.unwrap();
        assert_eq!((bench.mined().await, bench.is_used(&payment).await), (1, false));
        assert_paid_again(&bench, &payment, hash).await;
        Metrics::until_counted(&bench, &[("undone", 0), ("reorgs", 1)]).await;
    }

    /// What was told to have failed has paid on the new chain. Nothing can mend that, so somebody has to know.
    async fn failed_and_paid_in_a_reorg(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = lasting_payment(&bench).await;
        bench.proxy.add(Rule::on(SEND).times(1).then(Fault::Hang));
        let call = bench.settling(&payment);
        bench.proxy.wait_for(SEND, 1).await.unwrap();
        set_paused(&bench, true).await;
        bench.proxy.release();
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        let told = call.await.unwrap().unwrap().told();
        assert!(matches!(&told, Told::No(code, _) if code == "invalid_exact_evm_transaction_failed"), "{told:?}");
        let ours = bytes_of(&bench, bench.sent()[0]).await;
        bench.anvil.reorg_with(2, &[(ours, 0)]).await.unwrap();
        assert!(bench.is_used(&payment).await);
        Metrics::until_counted(&bench, &[("undone", 1), ("reorgs", 0)]).await;
        assert_eq!(bench.row(&payment).await["status"], "failed");
        assert_eq!(bench.verify(&payment).await.invalid(), USED);
        bench.assert_paid_once(&[payment]).await;
    }
}

/// The lane is never without something on its way: what was undone is seen all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undone_in_a_lane_that_is_busy() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    let payment = bench.builder().await.payer(dev_signer(3)).max_timeout_seconds(3_600).sign();
    bench.chain.mint(payment.asset(), payment.payer(), payment.value()).await.unwrap();
    let hash = bench.settle(&payment).await.success_of(&payment);
    let swallowing = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
    let other = lasting_payment(&bench).await;
    let call = bench.settling(&other);
    bench.proxy.wait_for(SEND, 2).await.unwrap();
    bench.anvil.reorg_with(2, &[(bytes_of(&bench, hash).await, 0)]).await.unwrap();
    Metrics::until_counted(&bench, &[("undone", 1), ("reorgs", 0)]).await;
    assert_eq!(bench.row(&other).await["status"], "signed");
    bench.proxy.remove(swallowing);
    call.await.unwrap().unwrap().success_of(&other);
    assert_eq!(bench.row(&payment).await["status"], "settled");
}
