//! What must be proven before a lane goes on from it.

use super::GET_NONCE;
use crate::{
    RpcFault,
    pool::{RpcPool, understood},
};
use alloy_primitives::{Address, B256, U64};
use quittance_protocol::units::LaneNonce;
use serde_json::{Value, json};

const GET_RECEIPT: &str = "eth_getTransactionReceipt";

/// The transaction count of `address` in block `number`, if it is beyond `nonce` and none of our transactions with that nonce is in
/// any block. By the word of one node, which shows that it is of this chain, and in one round trip: counts of one node and receipts
/// of another would make a stranger of what we did ourselves.
pub async fn taken_by_others(
    pool: &RpcPool,
    address: Address,
    nonce: LaneNonce,
    number: u64,
    ours: &[B256],
) -> Result<Option<LaneNonce>, RpcFault> {
    let mut calls = vec![(GET_NONCE, json!([address, U64::from(number)]))];
    calls.extend(ours.iter().map(|hash| (GET_RECEIPT, json!([hash]))));
    let mut fault = pool.nobody(GET_NONCE);
    for index in pool.that_keep_up() {
        match pool.ask_proven(index, &calls).await.and_then(|answers| count(answers, nonce)) {
            Ok(count) => return Ok(count),
            Err(error) => fault = error,
        }
    }
    Err(fault)
}

fn count(answers: Vec<Option<Value>>, nonce: LaneNonce) -> Result<Option<LaneNonce>, RpcFault> {
    let mut answers = answers.into_iter();
    let count: U64 = understood(GET_NONCE, answers.next().flatten())?;
    let count = LaneNonce(count.to());
    for receipt in answers {
        // An error instead of a receipt is no answer.
        if !understood::<Value>(GET_RECEIPT, receipt)?.is_null() {
            return Ok(None);
        }
    }
    Ok((count > nonce).then_some(count))
}
