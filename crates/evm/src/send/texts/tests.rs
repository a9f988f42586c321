use super::*;
use std::collections::HashMap;

/// What clients say by their sources, filled in as they would fill it in. Only Anvil's is also held against a node, in
/// [`super::anvil`]: nobody here has asked the others.
const WRITTEN: &[(&str, &[(&str, SendOutcome)])] = &[
    (
        "geth",
        &[
            ("already known", AlreadyKnown),
            ("known transaction: 6013ab", AlreadyKnown),
            ("nonce too low: next nonce 5, tx nonce 4", NonceConsumed),
            ("nonce too high: address 0x01, tx: 9 state: 5", NonceTooHigh),
            ("gapped-nonce tx from delegated accounts", NonceTooHigh),
            ("transaction underpriced: gas tip cap 1, minimum needed 1000000", Underpriced),
            ("replacement transaction underpriced", Underpriced),
            ("max fee per gas less than block base fee: address 0x01, maxFeePerGas: 1", Underpriced),
            (
                "insufficient funds for gas * price + value: balance 1, tx cost 2, overshot 1",
                InsufficientFunds,
            ),
            ("insufficient funds for transfer", InsufficientFunds),
            ("txpool is full", PoolFull),
            ("account limit exceeded: pooled 16 txs", PoolFull),
            ("in-flight transaction limit reached for delegated accounts", PoolFull),
            ("future transaction tries to replace pending", PoolFull),
            ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", FeeAboveCap),
            ("intrinsic gas too low: gas 20000, minimum needed 21000", GasLimit),
            ("insufficient gas for floor data gas cost: gas 21000, minimum needed 21400", GasLimit),
            ("exceeds block gas limit", GasLimit),
            ("transaction gas limit too high (cap: 16777216, tx: 20000000)", GasLimit),
            ("gas limit reached", GasLimit),
        ],
    ),
    (
        "reth",
        &[
            ("already known", AlreadyKnown),
            ("nonce too low: next nonce 5, tx nonce 4", NonceConsumed),
            ("nonce too high", NonceTooHigh),
            ("transaction underpriced", Underpriced),
            ("replacement transaction underpriced", Underpriced),
            ("transaction priority fee below minimum required priority fee 1000000", Underpriced),
            ("max fee per gas less than block base fee", Underpriced),
            ("insufficient funds for gas * price + value: have 1 want 2", InsufficientFunds),
            ("txpool is full", PoolFull),
            ("tx fee (2 wei) exceeds the configured cap (1 wei)", FeeAboveCap),
            ("intrinsic gas too low", GasLimit),
            ("intrinsic gas too high", GasLimit),
            ("exceeds block gas limit", GasLimit),
            ("exceeds max transaction gas limit", GasLimit),
            ("gas limit too high", GasLimit),
        ],
    ),
    (
        "erigon",
        &[
            ("ALREADY_EXISTS: already known", AlreadyKnown),
            ("INTERNAL_ERROR: existing tx with same hash", AlreadyKnown),
            ("INTERNAL_ERROR: nonce too low", NonceConsumed),
            ("nonce too high", NonceTooHigh),
            ("UNDERPRICED: underpriced", Underpriced),
            ("INTERNAL_ERROR: could not replace existing tx", Underpriced),
            ("replaced by transaction with higher tip", Underpriced),
            ("FEE_TOO_LOW: fee too low", Underpriced),
            ("INSUFFICIENT_FUNDS: insufficient funds", InsufficientFunds),
            ("pending sub-pool is full", PoolFull),
            ("INTERNAL_ERROR: spammer", PoolFull),
            ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", FeeAboveCap),
            ("INTERNAL_ERROR: IntrinsicGas", GasLimit),
            ("intrinsic gas too low", GasLimit),
            ("exceeds block gas limit", GasLimit),
        ],
    ),
    (
        "nethermind",
        &[
            ("AlreadyKnown", AlreadyKnown),
            ("OwnNonceAlreadyUsed", AlreadyKnown),
            ("OldNonce, Current nonce: 5, nonce of rejected tx: 4", NonceConsumed),
            ("NonceGap, Future nonce. Expected nonce: 5", NonceTooHigh),
            ("NonceTooFarInFuture", NonceTooHigh),
            ("nonce too far in future", NonceTooHigh),
            ("NotCurrentNonceForDelegation", NonceTooHigh),
            ("FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 7", Underpriced),
            ("FeeTooLowToCompete", Underpriced),
            ("ReplacementNotAllowed", Underpriced),
            ("InsufficientFunds, Account balance: 0, cumulative cost: 1", InsufficientFunds),
            ("DelegatorHasPendingTx", PoolFull),
            ("GasLimitExceeded, Gas limit: 1, gas limit of rejected tx: 2", GasLimit),
            ("already known", AlreadyKnown),
            ("nonce too low, Current nonce: 5, nonce of rejected tx: 4", NonceConsumed),
            ("nonce too high, Future nonce. Expected nonce: 5", NonceTooHigh),
            ("transaction underpriced", Underpriced),
            ("replacement transaction underpriced", Underpriced),
            ("insufficient funds for gas * price + value", InsufficientFunds),
            ("gas limit reached", GasLimit),
        ],
    ),
    (
        "besu",
        &[
            ("Known transaction", AlreadyKnown),
            ("Nonce too low", NonceConsumed),
            ("nonce too high", NonceTooHigh),
            ("Transaction nonce is too distant from current sender nonce", NonceTooHigh),
            ("Replacement transaction underpriced", Underpriced),
            ("Gas price below configured minimum gas price", Underpriced),
            ("Gas price below current base fee", Underpriced),
            ("Upfront cost exceeds account balance", InsufficientFunds),
            ("Transaction fee cap exceeded", FeeAboveCap),
            ("Intrinsic gas exceeds gas limit", GasLimit),
            ("Transaction gas limit exceeds block gas limit", GasLimit),
        ],
    ),
    (
        "OP stack",
        &[
            ("already known", AlreadyKnown),
            ("nonce too low: next nonce 5, tx nonce 4", NonceConsumed),
            ("nonce too high", NonceTooHigh),
            ("transaction underpriced", Underpriced),
            ("replacement transaction underpriced", Underpriced),
            ("max fee per gas less than block base fee: address 0x01", Underpriced),
            ("fee too low: 1, use at least tx.gasLimit = 2 and tx.gasPrice = 15000000", Underpriced),
            ("gas price too low: 1 wei, use at least tx.gasPrice = 2 wei", Underpriced),
            ("fee too high: 9, use less than 2 * 0.001000", FeeAboveCap),
            ("insufficient funds for gas * price + value: balance 1, tx cost 2", InsufficientFunds),
            ("txpool is full", PoolFull),
            ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", FeeAboveCap),
            ("intrinsic gas too low: gas 20000, minimum needed 21000", GasLimit),
            ("exceeds block gas limit", GasLimit),
            ("exceeds max transaction gas limit", GasLimit),
        ],
    ),
    (
        "arbitrum",
        &[
            ("already known", AlreadyKnown),
            ("nonce too low: address 0x01, tx: 4 state: 5", NonceConsumed),
            ("nonce too high: address 0x01, tx: 9 state: 5", NonceTooHigh),
            ("max fee per gas less than block base fee: address 0x01", Underpriced),
            ("gas price too low", Underpriced),
            ("insufficient funds for gas * price + value: address 0x01", InsufficientFunds),
            ("queue full", PoolFull),
            ("sequencer pending tx pool full, please try again", PoolFull),
            ("intrinsic gas too low: have 1, want 2", GasLimit),
        ],
    ),
    (
        "anvil",
        &[
            ("transaction already imported", AlreadyKnown),
            ("nonce too low", NonceConsumed),
            ("Nonce too high", NonceTooHigh),
            ("replacement transaction underpriced", Underpriced),
            ("Tx: [0x01] insufficient gas price to replace existing transaction", Underpriced),
            ("max fee per gas less than block base fee", Underpriced),
            ("Insufficient funds for gas * price + value", InsufficientFunds),
            ("intrinsic gas too low", GasLimit),
            ("intrinsic gas too high -- tx.gas_limit > env.block.gas_limit", GasLimit),
            ("Transaction gas limit is greater than the block gas limit, gas_limit: 2, cap: 1", GasLimit),
        ],
    ),
];

#[test]
fn what_every_client_has_written_has_its_meaning() {
    for (client, written) in WRITTEN {
        for (text, outcome) in *written {
            assert_eq!(meaning(text), *outcome, "{client}: {text}");
        }
    }
}

#[test]
fn no_pattern_stands_there_without_a_text() {
    assert_eq!(TABLE.len(), WRITTEN.len());
    for ((client, texts), (same, written)) in TABLE.iter().zip(WRITTEN) {
        assert_eq!(client, same);
        for (pattern, outcome) in *texts {
            let says = |(text, _): &&(&str, SendOutcome)| text.to_ascii_lowercase().contains(pattern);
            let said = written.iter().filter(says).any(|(_, meant)| meant == outcome);
            assert!(said, "{client}: no text for {pattern:?}");
        }
    }
}

#[test]
fn no_text_has_two_meanings() {
    let mut meanings = HashMap::new();
    for (pattern, outcome) in TABLE.iter().flat_map(|(_, texts)| texts.iter()) {
        assert_eq!(pattern.to_ascii_lowercase(), *pattern);
        assert_eq!(meanings.entry(pattern).or_insert(*outcome), outcome, "{pattern}");
    }
}

#[test]
fn what_nobody_knows_means_nothing() {
    for text in ["", "rate limited", "unknown transaction type", "the moon is in the wrong phase"] {
        assert_eq!(meaning(text), SendOutcome::Unknown, "{text}");
    }
}
