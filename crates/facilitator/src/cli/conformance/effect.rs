//! What an answer of `/settle` is worth: the money on the chain.

use super::{node::Node, terms::Terms};
use alloy_primitives::{Address, B256, Bytes};
use alloy_sol_types::SolEvent as _;
use quittance_testkit::{abi::IToken, jsonrpc::quantity};
use serde_json::Value;

/// Whether the token says that the authorization is used; None if it cannot say.
pub(super) async fn authorization_used(node: &Node, terms: &Terms) -> Option<bool> {
    let call = IToken::authorizationStateCall { authorizer: terms.shown.from, nonce: terms.shown.nonce };
    node.read(terms.asset, &call).await.ok()
}

/// What is missing for a success: a mined transaction with exactly this transfer.
pub(super) async fn missing(node: &Node, terms: &Terms, transaction: &str) -> anyhow::Result<Option<String>> {
    let missing = |what: &str| Ok(Some(format!("success, and {what}")));
    let Ok(hash) = transaction.parse::<B256>() else { return missing("no transaction is named") };
    let Some(receipt) = node.receipt(hash).await? else { return missing("its transaction is not mined") };
    if quantity(&receipt["status"])? != 1 {
        return missing("its transaction reverted");
    }
    let logs = receipt["logs"].as_array();
    if !logs.into_iter().flatten().any(|log| pays(log, terms)) {
        return missing("its transaction does not make the transfer");
    }
    Ok(None)
}

fn pays(log: &Value, terms: &Terms) -> bool {
    let asset =
        serde_json::from_value(log["address"].clone()).is_ok_and(|asset: Address| terms.asset == asset);
    let topics: Result<Vec<B256>, _> = serde_json::from_value(log["topics"].clone());
    let data: Result<Bytes, _> = serde_json::from_value(log["data"].clone());
    let (true, Ok(topics), Ok(data)) = (asset, topics, data) else { return false };
    IToken::Transfer::decode_raw_log(topics, &data).is_ok_and(|transfer| {
        (transfer.from, transfer.to, transfer.value) == (terms.shown.from, terms.pay_to, terms.amount)
    })
}
