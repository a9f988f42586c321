//! What a token says.

use super::Head;
use crate::{
    RpcFault,
    call::{call, call_pinned},
    pool::RpcPool,
};
use alloy_primitives::{Address, B256, Bytes, U256};
use serde_json::json;

/// `DOMAIN_SEPARATOR()` of a token; `None` when the contract does not answer with one word.
pub async fn domain_separator(pool: &RpcPool, token: Address) -> Result<Option<B256>, RpcFault> {
    const SELECTOR: Bytes = Bytes::from_static(&[0x36, 0x44, 0xe5, 0x15]);
    let word = |answer: Option<Bytes>| {
        Ok(answer.filter(|answer| answer.len() == 32).map(|word| B256::from_slice(&word)))
    };
    call(pool, token, &SELECTOR, &json!("latest"), word).await
}

/// `balanceOf(holder)` of a token at a block, in atomic units.
pub async fn balance_of(
    pool: &RpcPool,
    token: Address,
    holder: Address,
    block: &Head,
) -> Result<U256, RpcFault> {
    const SELECTOR: [u8; 4] = [0x70, 0xa0, 0x82, 0x31];
    let data: Bytes = [&SELECTOR[..], holder.into_word().as_slice()].concat().into();
    call_pinned(pool, token, &data, block, |answer| match answer.as_deref() {
        Some(word) if word.len() == 32 => Ok(U256::from_be_slice(word)),
        _ => Err(RpcFault::Malformed { method: "eth_call", what: "balanceOf is not a uint256" }),
    })
    .await
}

/// `authorizationState(authorizer, nonce)` of a token at a block: used or canceled.
pub async fn authorization_state(
    pool: &RpcPool,
    token: Address,
    authorizer: Address,
    nonce: B256,
    block: &Head,
) -> Result<bool, RpcFault> {
    const SELECTOR: [u8; 4] = [0xe9, 0x4a, 0x01, 0x02];
    let data: Bytes = [&SELECTOR[..], authorizer.into_word().as_slice(), nonce.as_slice()].concat().into();
    call_pinned(pool, token, &data, block, |answer| match answer.as_deref() {
        Some(word) if word.len() == 32 && word[..31].iter().all(|b| *b == 0) && word[31] <= 1 => {
            Ok(word[31] == 1)
        }
        _ => Err(RpcFault::Malformed { method: "eth_call", what: "authorizationState is not a bool" }),
    })
    .await
}

/// Whether a call would go through on the latest block.
pub async fn would_succeed(pool: &RpcPool, to: Address, data: &Bytes) -> Result<bool, RpcFault> {
    call(pool, to, data, &json!("latest"), |answer| Ok(answer.is_some())).await
}
