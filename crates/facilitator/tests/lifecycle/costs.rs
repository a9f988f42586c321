//! What a settlement may cost.

use crate::support::{Bench, DEADLINE, Metrics, RECEIPT, Rows, SEND, Setup, StoreKind, Told, until};
use alloy_primitives::{Address, Bytes, U256, address, keccak256};
use quittance_testkit::{
    SignedPayment,
    harness::{Fault, Rule, process::Wait},
    jsonrpc::{hex_quantity, quantity},
};
use serde_json::json;
use std::time::Duration;

/// Where chains of the OP stack keep the oracle of their L1 fee.
const ORACLE: Address = address!("420000000000000000000000000000000000000F");

/// What an oracle is asked since Fjord, and what every oracle knows.
const UPPER_BOUND: &str = "getL1FeeUpperBound(uint256)";
const OF_BYTES: &str = "getL1Fee(bytes)";

/// Answers one question with one word, and reverts on every other.
fn oracle_that_says(question: &str, wei: U256) -> Bytes {
    let selector = &keccak256(question)[..4];
    let is_it = [&[0x60, 0x00, 0x35, 0x60, 0xe0, 0x1c, 0x63], selector, &[0x14, 0x60, 0x14, 0x57]].concat();
    let revert = [0x60, 0x00, 0x60, 0x00, 0xfd];
    let word = [&[0x5b, 0x7f], &wei.to_be_bytes::<32>()[..]].concat();
    [&is_it[..], &revert, &word, &[0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3]].concat().into()
}

/// Settles one payment after the other until one is told what is waited for.
async fn settle_until(bench: &Bench, told: Told) -> SignedPayment {
    until("prices that are read again", DEADLINE, || async {
        let payment = bench.payment().await;
        let answer = bench.settle(&payment).await.told();
        if answer == told {
            return Some(payment);
        }
        assert!(answer.is_success(), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        None
    })
    .await
}

/// An L2's fee for its L1 is in no gas estimate; it counts for the operator's cap all the same, also where the oracle is of before
/// Fjord. A server that is in use sees it change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fee_of_the_l1_counts() {
    let bench = Setup::new(StoreKind::Sqlite)
        .set("policy.fee_per_settlement_wei_max", "1000000000000000".into())
        .start()
        .await;
    bench
        .anvil
        .set_code(ORACLE, &oracle_that_says(OF_BYTES, U256::from(1_000_000_000_000_000_u64)))
        .await
        .unwrap();
    let dear = settle_until(&bench, Told::Unavailable).await;
    assert!(!bench.is_used(&dear).await);
    assert_eq!(bench.rows(&dear).await.len(), 0, "reserved for a caller who was told to come again");

    bench
        .anvil
        .set_code(ORACLE, &oracle_that_says(UPPER_BOUND, U256::from(1_000_000_000_u64)))
        .await
        .unwrap();
    until("a lower price", DEADLINE, || async {
        match bench.settle(&dear).await.told() {
            Told::Unavailable => tokio::time::sleep(Duration::from_millis(500)).await,
            Told::Success(_) => return Some(()),
            other => panic!("{other:?}"),
        }
        None
    })
    .await;
}

/// A replacement follows the market as far as the operator's cap allows, the fee for the L1 included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replacement_goes_up_to_the_cap() {
    const GWEI: u128 = 1_000_000_000;
    const L1_FEE: u128 = 50_000 * GWEI;
    let mut bench = Setup::new(StoreKind::Sqlite).start().await;
    bench.anvil.set_code(ORACLE, &oracle_that_says(UPPER_BOUND, U256::from(L1_FEE))).await.unwrap();
    // The payee has some from here on: the next one takes as much gas as any other.
    let first = bench.payment().await;
    bench.settle(&first).await.success_of(&first);
    let measured = bench.payment().await;
    let hash = bench.settle(&measured).await.success_of(&measured);
    let gas = bench.field(hash, "gas").await;
    bench.anvil.set_automine(false).await.unwrap();
    bench.anvil.set_next_block_base_fee(GWEI).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let tip = quantity(&bench.anvil.rpc("eth_maxPriorityFeePerGas", json!([])).await.unwrap()).unwrap();
    // Offered first is twice the base fee and the tip. The cap leaves room for twice as much, and not for the market.
    let offer = 2 * GWEI + u128::from(tip);
    let cap = 2 * offer * gas + L1_FEE;
    let capped = bench.config.clone().set("policy.fee_per_settlement_wei_max", cap.to_string().into());
    bench.server.restart_with(capped, Wait::Ready).await.unwrap();
    bench.proxy.reset_records();

    let payment = bench.payment().await;
    let call = bench.settling(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let original = bench.sent()[0];
    assert_eq!(bench.field(original, "maxFeePerGas").await, offer);
    let old_tip = bench.field(original, "maxPriorityFeePerGas").await;
    bench.anvil.set_next_block_base_fee(offer + offer / 2).await.unwrap();
    bench.anvil.mine(1).await.unwrap();
    let replaced = bench.replacement_of(original).await;
    let (max_fee, gas) = (bench.field(replaced, "maxFeePerGas").await, bench.field(replaced, "gas").await);
    assert_eq!(max_fee, (cap - L1_FEE) / gas, "not what the cap leaves");
    assert!(max_fee < 2 * (offer + offer / 2), "the market was to be beyond the cap");
    let new_tip = bench.field(replaced, "maxPriorityFeePerGas").await;
    assert!(8 * max_fee >= 9 * offer && 8 * new_tip >= 9 * old_tip, "less than an eighth more");
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(call.await.unwrap().unwrap().success_of(&payment), replaced);

    // The same goes for what fills a hole: nothing is offered while a transfer of nothing is beyond the cap, and then no more than
    // that.
    let filler_max = (cap - L1_FEE) / 21_000;
    let base_fee = async |wei| {
        bench.anvil.set_next_block_base_fee(wei).await.unwrap();
        bench.anvil.mine(1).await.unwrap();
    };
    let rows = Rows::of(&bench);
    let fillers = || rows.number("SELECT count(*) FROM attempts WHERE kind = 'filler'");
    rows.run("UPDATE lanes SET nonce_floor = 4").await;
    base_fee(GWEI).await;
    let behind = bench.payment().await;
    let call = bench.settling(&behind);
    // Not at a price at which it would not have taken it.
    until("the node has what is behind the hole", DEADLINE, || async {
        (bench.anvil.txpool_status().await.unwrap().queued == 1).then_some(())
    })
    .await;
    base_fee(filler_max + 1).await;
    Metrics::until_counted(&bench, &[("gaps_found", 1)]).await;
    let looks = bench.proxy.count_answered(RECEIPT);
    bench.proxy.wait_answered(RECEIPT, looks + 3).await.unwrap();
    assert_eq!(fillers().await, 0, "filled at any price");
    base_fee(filler_max / 4 * 3).await;
    until("a filler and what is behind it", DEADLINE, || async {
        (bench.known_to_the_node().await == 5).then_some(())
    })
    .await;
    base_fee(GWEI).await;
    call.await.unwrap().unwrap().success_of(&behind);
    let mined = bench.mined_by(bench.signers[0]).await;
    assert_eq!(mined.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(u128::from(quantity(&mined[&3]["maxFeePerGas"]).unwrap()), filler_max);
    assert_eq!((mined[&3]["value"].as_str(), fillers().await), (Some("0x0"), 1));
    bench.assert_paid_once(&[first, measured, payment, behind]).await;
}

/// The gas price outgrows what was offered: a replacement, as on a chain with a base fee.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_without_a_base_fee_grows_dearer() {
    let bench = Setup::new(StoreKind::Sqlite).hardfork("berlin").no_mining().start().await;
    let payment = bench.payment().await;
    let caller = bench.insisting(&payment);
    bench.proxy.wait_answered(SEND, 1).await.unwrap();
    let original = bench.sent()[0];
    let offer = bench.field(original, "gasPrice").await;
    bench.proxy.add(Rule::on("eth_gasPrice").then(Fault::rewrite(move |_| json!(hex_quantity(3 * offer)))));
    let replaced = bench.replacement_of(original).await;
    assert_eq!(bench.field(replaced, "gasPrice").await, 3 * offer);
    bench.anvil.mine(1).await.unwrap();
    assert_eq!(caller.await.unwrap(), replaced);
    bench.assert_one_transaction_paid(&payment, replaced).await;
}

/// A chain without EIP-1559 knows no base fee, and takes transactions with a gas price.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_without_a_base_fee() {
    let bench = Setup::new(StoreKind::Sqlite).hardfork("berlin").start().await;
    let head = bench.anvil.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    assert_eq!(head.get("baseFeePerGas"), None, "{head}");
    let payment = bench.payment().await;
    bench.verify(&payment).await.valid();
    let hash = bench.settle(&payment).await.success_of(&payment);
    bench.assert_one_transaction_paid(&payment, hash).await;
    let transaction = bench.anvil.rpc("eth_getTransactionByHash", json!([hash])).await.unwrap();
    assert_eq!(transaction["type"], "0x0", "{transaction}");
}
