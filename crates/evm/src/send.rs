//! Sending signed bytes. A send error is never a failure: the node may have them all the same.

use crate::{
    RpcFault,
    pool::{Reply, RpcPool},
};
use alloy_primitives::{B256, Bytes, keccak256};
use serde_json::json;

/// What is known after sending. None of these says that the transaction will not be mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// A node took it as new.
    Accepted,
    /// A node had it already.
    AlreadyKnown,
    /// The chain has already consumed this nonce: by these bytes, by another attempt, or by a foreign transaction. The start of a
    /// reconciliation, not an outcome.
    NonceConsumed,
    /// The fee is below what the node takes for this nonce or at all.
    Underpriced,
    /// The signer cannot pay for gas.
    InsufficientFunds,
    /// Refused for another reason, or not answered at all.
    Unknown,
}

/// Sends to the preferred endpoint, and on doubt the identical bytes to the others.
pub async fn send(pool: &RpcPool, raw: &Bytes) -> SendOutcome {
    const METHOD: &str = "eth_sendRawTransaction";
    let params = json!([raw]);
    let mut outcome = SendOutcome::Unknown;
    for index in pool.in_order() {
        let reply: Result<Reply<B256>, RpcFault> = pool.ask(index, METHOD, &params).await;
        outcome = match reply {
            Ok(Reply::Result(hash)) if hash == keccak256(raw) => SendOutcome::Accepted,
            // Whatever that node took, it was not these bytes.
            Ok(Reply::Result(_)) => SendOutcome::Unknown,
            Ok(Reply::Error { text, .. }) => classify(&text),
            Err(_) => SendOutcome::Unknown,
        };
        if outcome != SendOutcome::Unknown {
            return outcome;
        }
    }
    outcome
}

/// The one table of node error strings: text in lower case, and what it means.
const TABLE: &[(&str, SendOutcome)] = &[
    // geth, reth, op-geth, anvil
    ("already known", SendOutcome::AlreadyKnown),
    // nethermind
    ("alreadyknown", SendOutcome::AlreadyKnown),
    // erigon, older geth
    ("known transaction", SendOutcome::AlreadyKnown),
    // anvil
    ("transaction already imported", SendOutcome::AlreadyKnown),
    // geth, reth, erigon, anvil
    ("nonce too low", SendOutcome::NonceConsumed),
    // nethermind
    ("oldnonce", SendOutcome::NonceConsumed),
    // geth, reth, erigon, anvil
    ("replacement transaction underpriced", SendOutcome::Underpriced),
    ("transaction underpriced", SendOutcome::Underpriced),
    // geth, anvil
    ("max fee per gas less than block base fee", SendOutcome::Underpriced),
    // erigon
    ("fee too low", SendOutcome::Underpriced),
    // nethermind
    ("feetoolow", SendOutcome::Underpriced),
    ("replacementnotallowed", SendOutcome::Underpriced),
    // geth, reth, erigon, anvil, op-geth with its L1 fee
    ("insufficient funds", SendOutcome::InsufficientFunds),
    // nethermind
    ("insufficientfunds", SendOutcome::InsufficientFunds),
];

/// What a node's error text means.
fn classify(text: &str) -> SendOutcome {
    let text = text.to_ascii_lowercase();
    // "unknown transaction type" holds "known transaction".
    if text.contains("unknown transaction") {
        return SendOutcome::Unknown;
    }
    TABLE
        .iter()
        .find(|(pattern, _)| text.contains(pattern))
        .map_or(SendOutcome::Unknown, |(_, outcome)| *outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_text_has_its_meaning() {
        for (text, outcome) in [
            ("already known", SendOutcome::AlreadyKnown),
            ("AlreadyKnown", SendOutcome::AlreadyKnown),
            ("known transaction: 0xabc", SendOutcome::AlreadyKnown),
            ("transaction already imported", SendOutcome::AlreadyKnown),
            ("nonce too low: next nonce 5, tx nonce 4", SendOutcome::NonceConsumed),
            ("OldNonce, Current nonce: 5", SendOutcome::NonceConsumed),
            ("replacement transaction underpriced", SendOutcome::Underpriced),
            ("transaction underpriced: tip needed 1", SendOutcome::Underpriced),
            ("max fee per gas less than block base fee: address 0x0", SendOutcome::Underpriced),
            ("fee too low", SendOutcome::Underpriced),
            ("FeeTooLow, MaxFeePerGas too low", SendOutcome::Underpriced),
            ("ReplacementNotAllowed", SendOutcome::Underpriced),
            ("insufficient funds for gas * price + value", SendOutcome::InsufficientFunds),
            ("InsufficientFunds, Account balance: 0", SendOutcome::InsufficientFunds),
            ("unknown transaction type", SendOutcome::Unknown),
            ("rate limited", SendOutcome::Unknown),
            ("", SendOutcome::Unknown),
        ] {
            assert_eq!(classify(text), outcome, "{text}");
        }
    }
}
