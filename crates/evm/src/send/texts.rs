//! The one table of node error strings, by client, and what each means. They are taken from the clients' sources.

use super::SendOutcome::{
    self, AlreadyKnown, FeeAboveCap, GasLimit, InsufficientFunds, NonceConsumed, NonceTooHigh, PoolFull,
    Underpriced,
};

/// What a client says by its sources, in lower case.
type Texts = &'static [(&'static str, SendOutcome)];

const GETH: Texts = &[
    ("already known", AlreadyKnown),
    // Before 1.9.
    ("known transaction", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    // Of an EIP-7702 account.
    ("gapped-nonce tx from delegated accounts", NonceTooHigh),
    ("transaction underpriced", Underpriced),
    ("replacement transaction underpriced", Underpriced),
    ("max fee per gas less than block base fee", Underpriced),
    ("insufficient funds", InsufficientFunds),
    ("txpool is full", PoolFull),
    ("account limit exceeded", PoolFull),
    ("in-flight transaction limit reached", PoolFull),
    ("future transaction tries to replace pending", PoolFull),
    ("exceeds the configured cap", FeeAboveCap),
    ("intrinsic gas too low", GasLimit),
    // EIP-7623.
    ("insufficient gas for floor data gas cost", GasLimit),
    ("exceeds block gas limit", GasLimit),
    // EIP-7825.
    ("transaction gas limit too high", GasLimit),
    ("gas limit reached", GasLimit),
];

const RETH: Texts = &[
    ("already known", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("transaction underpriced", Underpriced),
    ("replacement transaction underpriced", Underpriced),
    ("priority fee below minimum", Underpriced),
    ("max fee per gas less than block base fee", Underpriced),
    ("insufficient funds", InsufficientFunds),
    ("txpool is full", PoolFull),
    ("exceeds the configured cap", FeeAboveCap),
    ("intrinsic gas too low", GasLimit),
    ("intrinsic gas too high", GasLimit),
    ("exceeds block gas limit", GasLimit),
    ("exceeds max transaction gas limit", GasLimit),
    ("gas limit too high", GasLimit),
];

const ERIGON: Texts = &[
    ("already known", AlreadyKnown),
    ("existing tx with same hash", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("underpriced", Underpriced),
    ("could not replace existing tx", Underpriced),
    ("replaced by transaction with higher tip", Underpriced),
    ("fee too low", Underpriced),
    ("insufficient funds", InsufficientFunds),
    ("sub-pool is full", PoolFull),
    ("spammer", PoolFull),
    ("exceeds the configured cap", FeeAboveCap),
    ("intrinsicgas", GasLimit),
    ("intrinsic gas too low", GasLimit),
    ("exceeds block gas limit", GasLimit),
];

const NETHERMIND: Texts = &[
    ("alreadyknown", AlreadyKnown),
    // Another one of this nonce waits there.
    ("ownnoncealreadyused", AlreadyKnown),
    ("oldnonce", NonceConsumed),
    ("noncegap", NonceTooHigh),
    ("noncetoofarinfuture", NonceTooHigh),
    ("nonce too far in future", NonceTooHigh),
    ("notcurrentnoncefordelegation", NonceTooHigh),
    // Also FeeTooLowToCompete.
    ("feetoolow", Underpriced),
    ("replacementnotallowed", Underpriced),
    ("insufficientfunds", InsufficientFunds),
    ("delegatorhaspendingtx", PoolFull),
    ("gaslimitexceeded", GasLimit),
    // Later versions speak like geth.
    ("already known", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("transaction underpriced", Underpriced),
    ("replacement transaction underpriced", Underpriced),
    ("insufficient funds", InsufficientFunds),
    ("gas limit reached", GasLimit),
];

const BESU: Texts = &[
    ("known transaction", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("nonce is too distant from current sender nonce", NonceTooHigh),
    ("replacement transaction underpriced", Underpriced),
    ("gas price below configured minimum gas price", Underpriced),
    ("gas price below current base fee", Underpriced),
    ("upfront cost exceeds account balance", InsufficientFunds),
    ("transaction fee cap exceeded", FeeAboveCap),
    ("intrinsic gas exceeds gas limit", GasLimit),
    ("gas limit exceeds block gas limit", GasLimit),
];

/// op-geth and op-reth speak like geth and reth; this is what stands before and beside them.
const OP_STACK: Texts = &[
    ("already known", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("transaction underpriced", Underpriced),
    ("replacement transaction underpriced", Underpriced),
    ("max fee per gas less than block base fee", Underpriced),
    // Before Bedrock, and its forks.
    ("fee too low", Underpriced),
    ("gas price too low", Underpriced),
    ("fee too high", FeeAboveCap),
    // With the fee for L1.
    ("insufficient funds", InsufficientFunds),
    ("txpool is full", PoolFull),
    ("exceeds the configured cap", FeeAboveCap),
    ("intrinsic gas too low", GasLimit),
    ("exceeds block gas limit", GasLimit),
    ("exceeds max transaction gas limit", GasLimit),
];

const ARBITRUM: Texts = &[
    ("already known", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("max fee per gas less than block base fee", Underpriced),
    ("gas price too low", Underpriced),
    ("insufficient funds", InsufficientFunds),
    ("queue full", PoolFull),
    ("pending tx pool full", PoolFull),
    ("intrinsic gas too low", GasLimit),
];

const ANVIL: Texts = &[
    ("already imported", AlreadyKnown),
    ("nonce too low", NonceConsumed),
    ("nonce too high", NonceTooHigh),
    ("replacement transaction underpriced", Underpriced),
    ("insufficient gas price to replace existing transaction", Underpriced),
    ("max fee per gas less than block base fee", Underpriced),
    ("insufficient funds", InsufficientFunds),
    ("intrinsic gas too low", GasLimit),
    ("intrinsic gas too high", GasLimit),
    ("greater than the block gas limit", GasLimit),
];

const TABLE: &[(&str, Texts)] = &[
    ("geth", GETH),
    ("reth", RETH),
    ("erigon", ERIGON),
    ("nethermind", NETHERMIND),
    ("besu", BESU),
    ("OP stack", OP_STACK),
    ("arbitrum", ARBITRUM),
    ("anvil", ANVIL),
];

/// What a node's error text means. Of several that fit, the longest counts: it is the most exact.
pub(super) fn meaning(text: &str) -> SendOutcome {
    // "unknown transaction type" is about the type.
    let text = text.to_ascii_lowercase().replace("unknown transaction", "");
    TABLE
        .iter()
        .flat_map(|(_, texts)| texts.iter())
        .filter(|(pattern, _)| text.contains(pattern))
        .max_by_key(|(pattern, _)| pattern.len())
        .map_or(SendOutcome::Unknown, |(_, outcome)| *outcome)
}

#[cfg(test)]
mod anvil;
#[cfg(test)]
mod tests;
