//! What the server has signed, as the node sees it.

use super::{Bench, DEADLINE, until};
use alloy_primitives::{Address, B256};
use quittance_testkit::jsonrpc::{hex_quantity, quantity};
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Bench {
    /// A transaction, as soon as the node knows it.
    pub(crate) async fn transaction(&self, hash: B256) -> Value {
        until("a transaction the node knows", DEADLINE, || async {
            let transaction = self.anvil.rpc("eth_getTransactionByHash", json!([hash])).await.unwrap();
            (!transaction.is_null()).then_some(transaction)
        })
        .await
    }

    /// A number in a transaction.
    pub(crate) async fn field(&self, hash: B256, name: &str) -> u128 {
        quantity(&self.transaction(hash).await[name]).unwrap().into()
    }

    /// What a transaction offers for gas, and of that for the block's producer.
    pub(crate) async fn fees_of(&self, hash: B256) -> (u128, u128) {
        (self.field(hash, "maxFeePerGas").await, self.field(hash, "maxPriorityFeePerGas").await)
    }

    /// Another transaction than this one, as soon as the server sends it.
    pub(crate) async fn replacement_of(&self, first: B256) -> B256 {
        let other = || async { self.sent().into_iter().find(|hash| *hash != first) };
        until("a replacement", 2 * DEADLINE, other).await
    }

    /// Transactions of a signer by nonce, from all blocks since the server started.
    pub(crate) async fn mined_by(&self, signer: Address) -> BTreeMap<u64, Value> {
        let last = self.anvil.client().block_number().await.unwrap();
        let mut mined = BTreeMap::new();
        for number in self.started_at + 1..=last {
            let block =
                self.anvil.rpc("eth_getBlockByNumber", json!([hex_quantity(number), true])).await.unwrap();
            for transaction in block["transactions"].as_array().unwrap() {
                if transaction["from"].as_str().unwrap().parse::<Address>().unwrap() == signer {
                    mined.insert(quantity(&transaction["nonce"]).unwrap(), transaction.clone());
                }
            }
        }
        mined
    }
}
