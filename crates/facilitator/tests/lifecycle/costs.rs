//! What a settlement may cost.

use crate::support::{Setup, StoreKind, Told};
use alloy_primitives::{Address, Bytes, U256, address};
use serde_json::json;

/// Where chains of the OP stack keep the oracle of their L1 fee.
const ORACLE: Address = address!("420000000000000000000000000000000000000F");

/// Answers every question with one word.
fn oracle_that_says(wei: U256) -> Bytes {
    [&[0x7f][..], &wei.to_be_bytes::<32>(), &[0x60, 0x00, 0x52, 0x60, 0x20, 0x60, 0x00, 0xf3]].concat().into()
}

/// An L2's fee for its L1 is in no gas estimate; it counts for the operator's cap all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_fee_of_the_l1_counts() {
    let mut bench = Setup::new(StoreKind::Sqlite)
        .set("policy.fee_per_settlement_wei_max", "1000000000000000".into())
        .start()
        .await;
    let payment = bench.payment().await;
    bench.anvil.set_code(ORACLE, &oracle_that_says(U256::from(1_000_000_000_000_000_u64))).await.unwrap();
    bench.crash_and_restart().await;
    assert_eq!(bench.settle(&payment).await.told(), Told::Unavailable);
    bench.assert_nothing_moved().await;

    bench.anvil.set_code(ORACLE, &oracle_that_says(U256::from(1_000_000_000_u64))).await.unwrap();
    bench.crash_and_restart().await;
    bench.settle(&payment).await.success_of(&payment);
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
