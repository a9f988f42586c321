//! Sending signed bytes. A send error is never a failure: the node may have them all the same.

mod texts;

use crate::{
    RpcFault,
    pool::{Reply, RpcPool},
};
use alloy_primitives::{B256, Bytes, keccak256};
use futures::future::join_all;
use serde_json::json;

/// What is known after sending, from the least telling to the most. None of these says that the transaction will not be mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendOutcome {
    /// Refused for a reason not known here, or not answered at all.
    Unknown,
    /// The node has no room for it now.
    PoolFull,
    /// It offers more than this node forwards (geth's `--rpc.txfeecap`). A higher offer makes it worse.
    FeeAboveCap,
    /// Its gas limit is below what its bytes cost, or above what a block or a transaction may have.
    GasLimit,
    /// The node lacks a transaction of ours below this nonce.
    NonceTooHigh,
    /// The signer cannot pay for gas.
    InsufficientFunds,
    /// The fee is below what the node takes for this nonce or at all.
    Underpriced,
    /// A node had it already, or holds one of this nonce that it lets nothing replace.
    AlreadyKnown,
    /// A node took it as new.
    Accepted,
    /// The chain has already consumed this nonce: by these bytes, by another attempt, or by a foreign transaction. The start of a
    /// reconciliation, not an outcome.
    NonceConsumed,
}

impl SendOutcome {
    /// Whether another node may take what this one did not.
    fn leaves_doubt(self) -> bool {
        self <= Self::NonceTooHigh
    }
}

const METHOD: &str = "eth_sendRawTransaction";

/// The first send: to the preferred endpoint, and on doubt the identical bytes to the others.
pub async fn send(pool: &RpcPool, raw: &Bytes) -> SendOutcome {
    let mut outcome = SendOutcome::Unknown;
    for index in pool.in_order() {
        outcome = outcome.max(send_to(pool, index, raw).await);
        if !outcome.leaves_doubt() {
            break;
        }
    }
    outcome
}

/// Every later send: the identical bytes to all endpoints at once. The one that took them before may have lost them, or be cut
/// off from the network.
pub async fn send_again(pool: &RpcPool, raw: &Bytes) -> SendOutcome {
    let sends = pool.in_order().into_iter().map(|index| send_to(pool, index, raw));
    join_all(sends).await.into_iter().max().unwrap_or(SendOutcome::Unknown)
}

async fn send_to(pool: &RpcPool, index: usize, raw: &Bytes) -> SendOutcome {
    let reply: Result<Reply<B256>, RpcFault> = pool.ask(index, METHOD, &json!([raw])).await;
    match reply {
        Ok(Reply::Result(hash)) if hash == keccak256(raw) => SendOutcome::Accepted,
        Ok(Reply::Error { text, .. }) => texts::meaning(&text),
        // Whatever that node took, it was not these bytes; or there was no answer.
        Ok(Reply::Result(_)) | Err(_) => SendOutcome::Unknown,
    }
}
