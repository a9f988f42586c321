//! The row of the only client that tests can ask: each of its texts is brought about.

use super::{
    ANVIL, AlreadyKnown, GasLimit, InsufficientFunds, NonceConsumed, SendOutcome, Underpriced, meaning,
};
use crate::{
    fees::Fees,
    pool::RpcPool,
    send::send,
    sign::{Form, LaneSigner},
};
use alloy_primitives::{Address, Bytes};
use quittance_protocol::units::{LaneNonce, Network};
use quittance_testkit::{
    Anvil,
    anvil::DEFAULT_CHAIN_ID,
    dev_accounts::dev_key,
    jsonrpc::{RpcError, quantity},
};
use serde_json::json;
use std::collections::BTreeSet;

/// Stand in its sources, and are not what it answers to `eth_sendRawTransaction`: a nonce too high waits in its pool, and the other
/// two are said in other words on the way out.
const NOT_TO_BE_HAD: [&str; 3] = [
    "nonce too high",
    "insufficient gas price to replace existing transaction",
    "greater than the block gas limit",
];

const GWEI: u128 = 1_000_000_000;
/// Far below what a block may have, and enough for a call of nothing.
const GAS: u64 = 100_000;

/// A transaction, as far as these texts are about it.
#[derive(Clone, Copy, Debug)]
struct Sent {
    nonce: u64,
    max_fee_per_gas: u128,
    gas_limit: u64,
}

impl Sent {
    const FIRST: Self = Self { nonce: 0, max_fee_per_gas: 100 * GWEI, gas_limit: GAS };

    fn signed(self, signer: &LaneSigner) -> Bytes {
        let network = Network::from_chain_id(DEFAULT_CHAIN_ID).unwrap();
        let fees = Fees {
            max_fee_per_gas: self.max_fee_per_gas,
            max_priority_fee_per_gas: self.max_fee_per_gas.min(GWEI),
        };
        let (nonce, to) = (LaneNonce(self.nonce), Address::repeat_byte(9));
        let signed =
            signer.sign_call(Form::Eip1559, network, nonce, fees, self.gas_limit, to, Bytes::new()).unwrap();
        signed.raw
    }
}

/// A node that mines when told to, and what of its row it was heard to say.
struct Node {
    anvil: Anvil,
    pool: RpcPool,
    heard: BTreeSet<&'static str>,
}

impl Node {
    async fn start() -> Self {
        let anvil = Anvil::builder().no_mining().spawn().await.unwrap();
        let network = Network::from_chain_id(DEFAULT_CHAIN_ID).unwrap();
        let pool = RpcPool::new(network, &[anvil.url().parse().unwrap()]).unwrap();
        Self { anvil, pool, heard: BTreeSet::new() }
    }

    async fn takes(&self, raw: &Bytes) {
        assert_eq!(send(&self.pool, raw).await, SendOutcome::Accepted);
    }

    /// What it answers, in its words and in ours.
    async fn refuses(&mut self, raw: &Bytes, outcome: SendOutcome) {
        let error = self.anvil.rpc("eth_sendRawTransaction", json!([raw])).await.unwrap_err();
        let text = error.downcast_ref::<RpcError>().unwrap().message.to_ascii_lowercase();
        assert_eq!(meaning(&text), outcome, "{text}");
        assert_eq!(send(&self.pool, raw).await, outcome, "{text}");
        let of_it = ANVIL.iter().filter(|(pattern, meant)| text.contains(pattern) && *meant == outcome);
        let before = self.heard.len();
        self.heard.extend(of_it.map(|(pattern, _)| pattern));
        assert!(self.heard.len() > before, "not in its row, or said before: {text}");
    }
}

#[tokio::test]
async fn every_text_of_its_row_is_what_it_says() {
    let mut node = Node::start().await;
    let rich = LaneSigner::from_hex(&dev_key(0)).unwrap();
    let poor = LaneSigner::from_hex(&"11".repeat(32)).unwrap();
    let block = node.anvil.rpc("eth_getBlockByNumber", json!(["latest", false])).await.unwrap();
    let block_gas_limit = quantity(&block["gasLimit"]).unwrap();

    let first = Sent::FIRST.signed(&rich);
    node.takes(&first).await;
    node.refuses(&first, AlreadyKnown).await;
    let no_dearer = Sent { gas_limit: GAS + 1, ..Sent::FIRST };
    node.refuses(&no_dearer.signed(&rich), Underpriced).await;
    node.anvil.mine(1).await.unwrap();
    node.refuses(&first, NonceConsumed).await;

    let next = Sent { nonce: 1, ..Sent::FIRST };
    node.refuses(&Sent { max_fee_per_gas: 1, ..next }.signed(&rich), Underpriced).await;
    node.refuses(&Sent { gas_limit: 20_000, ..next }.signed(&rich), GasLimit).await;
    node.refuses(&Sent { gas_limit: block_gas_limit + 1, ..next }.signed(&rich), GasLimit).await;
    node.refuses(&Sent::FIRST.signed(&poor), InsufficientFunds).await;

    let row: BTreeSet<_> = ANVIL.iter().map(|(pattern, _)| *pattern).collect();
    let not_heard: BTreeSet<_> = row.difference(&node.heard).copied().collect();
    assert_eq!(not_heard, BTreeSet::from(NOT_TO_BE_HAD));
}
