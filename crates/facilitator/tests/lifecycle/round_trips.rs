//! How often the node is asked.

use crate::support::{Bench, RECEIPT, SEND, Setup, StoreKind};
use quittance_testkit::{SignedPayment, dev_signer};
use std::time::Duration;

/// The question whether the chain still has what was settled.
const COUNT: &str = "eth_getTransactionCount";

/// A payment of a deployed contract wallet.
async fn wallet_payment(bench: &Bench) -> SignedPayment {
    let owner = dev_signer(4);
    let wallet = bench.chain.deploy_wallet1271(owner.address()).await.unwrap();
    bench.chain.mint(bench.chain.token, wallet, alloy_primitives::U256::from(10_000)).await.unwrap();
    bench.builder().await.wallet(wallet, owner).sign()
}

fn methods(bench: &Bench) -> Vec<String> {
    bench.proxy.calls().into_iter().map(|call| call.method).collect()
}

on_both_stores! {
    /// Facts come in one call at one block, whoever pays.
    async fn verify_asks_once(store) {
        let bench = Setup::new(store).start().await;
        for payment in [bench.payment().await, wallet_payment(&bench).await] {
            bench.proxy.reset_records();
            bench.verify(&payment).await.valid();
            assert_eq!((bench.proxy.http_requests(), methods(&bench)), (1, vec!["eth_call".to_owned()]));
        }
    }

    /// The same call again, the transaction, and then only what became of it.
    async fn settle_asks_twice_and_reads_receipts(store) {
        let bench = Setup::new(store).start().await;
        for payment in [bench.payment().await, wallet_payment(&bench).await] {
            bench.verify(&payment).await.valid();
            bench.proxy.reset_records();
            bench.settle(&payment).await.success_of(&payment);
            let methods = methods(&bench);
            assert_eq!(methods[..2], ["eth_call", SEND]);
            assert!(methods[2..].iter().all(|method| method == RECEIPT), "{methods:?}");
        }
    }
}

/// Longer than every interval at which an idle server looks at its store.
const QUIET: Duration = Duration::from_secs(7);

/// What was settled is watched for a while, with two questions each time; then the server is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_asks_less_and_less_and_then_nothing() {
    let bench = Setup::new(StoreKind::Sqlite).set("settle.reorg_watch_seconds", 8.into()).start().await;
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    bench.proxy.reset_records();
    // The looks after four and eight seconds, at the store's pace.
    bench.proxy.wait_for(COUNT, 2).await.unwrap();
    tokio::time::sleep(QUIET).await;
    assert_eq!(methods(&bench), [COUNT, RECEIPT, COUNT, RECEIPT]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_that_watches_nothing_asks_nothing() {
    let bench = Setup::new(StoreKind::Sqlite).set("settle.reorg_watch_seconds", 0.into()).start().await;
    let payment = bench.payment().await;
    bench.settle(&payment).await.success_of(&payment);
    bench.proxy.reset_records();
    tokio::time::sleep(QUIET).await;
    assert_eq!(methods(&bench), Vec::<String>::new());
}
