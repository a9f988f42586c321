//! Transactions that get lost, stay behind, or are refused on their way into a block.

use crate::{
    operator::kinds,
    support::{Metrics, SEND, Setup, StoreKind, Told, told},
};
use alloy_primitives::B256;
use quittance_testkit::{
    harness::{Fault, Rule},
    jsonrpc::quantity,
};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

on_both_stores! {
    /// The base fee outgrows what was offered: a replacement under the same nonce, and one of the two is mined.
    async fn fee_bump(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let first = bench.sent()[0];
        let (max_fee, tip) = bench.fees_of(first).await;
        bench.anvil.set_next_block_base_fee(3 * max_fee).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(bench.mined().await, 0, "mined below the base fee");
        let replaced = bench.replacement_of(first).await;
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        let row = bench.row(&payment).await;
        assert_eq!(kinds(&bench, row["settlementId"].as_str().unwrap()).await, ["payment", "replacement"]);
        let (new_max_fee, new_tip) = bench.fees_of(replaced).await;
        assert!(new_max_fee >= 3 * max_fee, "{new_max_fee} after {max_fee}");
        assert!(8 * new_tip >= 9 * tip, "{new_tip} after {tip} is less than an eighth more");
        bench.anvil.mine(1).await.unwrap();
        let hash = call.await.unwrap().unwrap().success_of(&payment);
        assert_eq!(hash, replaced);
        bench.assert_one_transaction_paid(&payment, hash).await;
        assert_eq!(bench.settle(&payment).await.told(), Told::Duplicate(hash));
    }
}

on_both_stores! {
    /// The node forgets it: the same bytes are sent again.
    async fn dropped_transaction(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payment = bench.payment().await;
        let call = bench.settling(&payment);
        bench.proxy.wait_answered(SEND, 1).await.unwrap();
        let hash = bench.sent()[0];
        assert!(bench.anvil.drop_transaction(hash).await.unwrap());
        bench.proxy.wait_answered(SEND, 2).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
        assert_eq!(call.await.unwrap().unwrap().success_of(&payment), hash);
        assert_eq!(bench.sent(), [hash, hash]);
        Metrics::until_counted(&bench, &[("rebroadcasts", 1), ("replacements", 0)]).await;
        bench.assert_one_transaction_paid(&payment, hash).await;
    }

    /// The one in the middle is forgotten: what stands behind it comes through all the same.
    async fn dropped_in_the_middle_of_a_lane(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let payments = bench.payments(5).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_answered(SEND, 5).await.unwrap();
        let mut hashes = Vec::new();
        for hash in bench.sent() {
            hashes.push((bench.field(hash, "nonce").await, hash));
        }
        hashes.sort_unstable();
        assert!(bench.anvil.drop_transaction(hashes[2].1).await.unwrap());
        bench.anvil.set_interval_mining(1).await.unwrap();
        for (call, payment) in calls.into_iter().zip(&payments) {
            call.await.unwrap().unwrap().success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!(bench.mined().await, 5);
    }

    /// The node has them, and says that it has not.
    async fn accepted_and_answered_502(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        bench.proxy.add(Rule::on(SEND).then(Fault::ForwardThen(Box::new(Fault::HttpStatus(502)))));
        let payments = bench.payments(10).await;
        for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
            reply.success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
        assert_eq!(bench.mined().await, 10);
    }

    /// The node says yes to everything for ten seconds and keeps nothing; then all of it is mined without delay.
    async fn sends_swallowed_for_ten_seconds(store) {
        let bench = Setup::new(store).block_time(1).start().await;
        let swallowing = bench.proxy.add(Rule::on(SEND).then(Fault::Swallow));
        let payments = bench.payments(20).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_for(SEND, 20).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(bench.known_to_the_node().await, 0);
        bench.proxy.remove(swallowing);
        let heard_again = bench.anvil.client().block_number().await.unwrap();
        let mut replies = Vec::new();
        for call in calls {
            replies.push(call.await.unwrap().unwrap());
        }
        let answers = told(&replies);
        assert!(answers.iter().all(Told::is_success), "{answers:?}");
        bench.assert_paid_once(&payments).await;
        assert_eq!(bench.mined().await, 20);
        let last = bench.transfers().await.iter().map(|transfer| transfer.block).max().unwrap();
        let blocks: BTreeSet<u64> = bench.transfers().await.iter().map(|transfer| transfer.block).collect();
        // All are sent at the same moment, which may be just before a block.
        assert!(blocks.last().unwrap() - blocks.first().unwrap() <= 1, "in blocks {blocks:?}");
        // A second until the next look, and a block for what waits.
        assert!(last - heard_again <= 3, "heard again in block {heard_again}, mined in {blocks:?}");
    }
}

/// One send is refused for a reason nobody knows; what comes after it is not held up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_once() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    bench.proxy.add(Rule::on(SEND).times(1).then(Fault::error(-32000, "the moon is in the wrong phase")));
    let payments = bench.payments(21).await;
    for (reply, payment) in bench.settle_all(&payments).await.iter().zip(&payments) {
        reply.success_of(payment);
    }
    bench.assert_paid_once(&payments).await;
    assert_eq!(bench.mined().await, 21);
}

/// No block comes: the answer does, in time, with the hash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_block_in_time() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().wait_seconds(2).start().await;
    let payments = bench.payments(10).await;
    let asked = tokio::time::timeout(Duration::from_secs(15), bench.settle_all(&payments));
    let answers = told(&asked.await.expect("answers within the wait"));
    assert!(answers.iter().all(|answer| matches!(answer, Told::Pending(_))), "{answers:?}");
    bench.anvil.mine(1).await.unwrap();
    for payment in &payments {
        bench.settle(payment).await.success_of(payment);
    }
    bench.assert_paid_once(&payments).await;
}

/// The node does not even answer the send: what is signed has a hash all the same, and its caller hears it in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_to_the_send_in_time() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().wait_seconds(2).start().await;
    let silent = bench.proxy.add(Rule::on(SEND).then(Fault::Hang));
    let payment = bench.payment().await;
    // Shorter than a call to the node may take.
    let asked = tokio::time::timeout(Duration::from_millis(4_800), bench.settle(&payment));
    let told = asked.await.expect("an answer within the wait").told();
    let sent = bench.sent();
    assert_eq!(sent.len(), 1, "sent again although the first send is still under way");
    assert_eq!(told, Told::Pending(sent[0]));
    bench.proxy.remove(silent);
    bench.proxy.release();
    bench.anvil.set_interval_mining(1).await.unwrap();
    assert_eq!(bench.insisting(&payment).await.unwrap(), sent[0]);
    bench.assert_one_transaction_paid(&payment, sent[0]).await;
}

/// The server's own deadline comes before the end of the wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_block_before_the_servers_own_deadline() {
    let bench = Setup::new(StoreKind::Sqlite)
        .no_mining()
        .wait_seconds(25)
        .set("server.request_timeout_ms", 4_000.into())
        .start()
        .await;
    let payment = bench.payment().await;
    let asked = tokio::time::timeout(Duration::from_secs(15), bench.settle(&payment));
    let told = asked.await.expect("an answer within the deadline").told();
    assert_eq!(told, Told::Pending(bench.sent()[0]));
    bench.anvil.mine(1).await.unwrap();
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// A node so slow that no time is left for signing: nothing is signed behind the back of a caller who is told that nothing
/// was decided.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_signed_after_the_answer() {
    let bench = Setup::new(StoreKind::Sqlite)
        .wait_seconds(1)
        .set("server.request_timeout_ms", 2_000.into())
        .start()
        .await;
    let payment = bench.payment().await;
    let slow = bench.proxy.add(Rule::on("eth_call").then(Fault::Delay(Duration::from_secs(3))));
    assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable);
    bench.proxy.wait_answered("eth_call", 1).await.unwrap();
    bench.proxy.remove(slow);
    let hash = bench.settle(&payment).await.success_of(&payment);
    assert_eq!(bench.sent(), [hash], "signed by the first call as well");
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// Some nodes hide the base fee from calls that offer no gas price: the offer must be a good one all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn base_fee_hidden_from_calls() {
    let bench = Setup::new(StoreKind::Sqlite).start().await;
    bench.proxy.add(
        Rule::on("eth_call").then(Fault::rewrite(|result| json!(without_base_fee(result.as_str().unwrap())))),
    );
    let payment = bench.payment().await;
    let hash = bench.settle(&payment).await.success_of(&payment);
    assert_eq!(bench.sent(), [hash], "the first offer was no good");
    bench.assert_one_transaction_paid(&payment, hash).await;
}

/// The lens answers with a tuple of number, time, chain id and base fee first; its place is in the first word.
fn without_base_fee(result: &str) -> String {
    let place = 2 + 2 * usize::from_str_radix(&result[2 + 48..2 + 64], 16).unwrap() + 3 * 64;
    format!("{}{}{}", &result[..place], "0".repeat(64), &result[place + 64..])
}

/// The cost rises a little between simulation and block.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dearer_than_simulated() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().start().await;
    let token = bench.chain.deploy_token("GrowingGasToken").await.unwrap();
    let payment = bench.builder().await.asset(token).sign();
    bench.chain.mint(token, payment.payer(), payment.value()).await.unwrap();
    bench.proxy.reset_records();
    let call = bench.settling(&payment);
    bench.proxy.wait_for(SEND, 1).await.unwrap();
    // More expensive by about a seventh, in the block before.
    let set_extra_gas =
        [&alloy_primitives::keccak256("setExtraGas(uint256)")[..4], &B256::with_last_byte(0)[..]].concat();
    let mut set_extra_gas = set_extra_gas;
    set_extra_gas[34..36].copy_from_slice(&9_000_u16.to_be_bytes());
    bench.anvil.drop_all().await.unwrap();
    let deployer = quittance_testkit::dev_address(9);
    bench.chain.send(deployer, Some(token), set_extra_gas.into()).await.unwrap();
    bench.anvil.set_interval_mining(1).await.unwrap();
    let hash = call.await.unwrap().unwrap().success_of(&payment);
    assert_eq!(bench.sent().last(), Some(&hash));
}

/// A node that finds every fee too low is not answered with any fee.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn always_underpriced() {
    let bench = Setup::new(StoreKind::Sqlite).no_mining().start().await;
    let payment = bench.payment().await;
    let stubborn =
        bench.proxy.add(Rule::on(SEND).then(Fault::error(-32000, "replacement transaction underpriced")));
    let call = bench.settling(&payment);
    bench.proxy.wait_for(SEND, 2).await.unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    let tries = bench.sent().len();
    bench.proxy.remove(stubborn);
    bench.anvil.set_interval_mining(1).await.unwrap();
    let hash = call.await.unwrap().unwrap().success_of(&payment);
    let (max_fee, tip) = bench.fees_of(hash).await;
    let market = quantity(&bench.anvil.rpc("eth_maxPriorityFeePerGas", json!([])).await.unwrap()).unwrap();
    assert!(
        tip <= 4 * u128::from(market),
        "tip {tip}, market {market}, max fee {max_fee}, after {tries} tries"
    );
    bench.assert_one_transaction_paid(&payment, hash).await;
}

on_both_stores! {
    /// Somebody with the signer's key has something of the same nonce in the pool.
    async fn nonce_contested_in_the_pool(store) {
        let bench = Setup::new(store).no_mining().start().await;
        let contender =
            json!([{"from": bench.signers[0], "to": quittance_testkit::dev_address(8), "value": "0x1"}]);
        bench.anvil.rpc("eth_sendTransaction", contender).await.unwrap();
        let payments = bench.payments(3).await;
        let calls: Vec<_> = payments.iter().map(|payment| bench.settling(payment)).collect();
        bench.proxy.wait_for(SEND, 3).await.unwrap();
        bench.anvil.set_interval_mining(1).await.unwrap();
        for (call, payment) in calls.into_iter().zip(&payments) {
            call.await.unwrap().unwrap().success_of(payment);
        }
        bench.assert_paid_once(&payments).await;
    }
}
