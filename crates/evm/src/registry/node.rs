//! One endpoint of the registry's chain. What is read by number counts only beside the header that the same node gives
//! for that number, so a reading never mixes nodes.

use super::{METHOD, RegistryRead};
use crate::{
    RpcFault,
    call::is_revert,
    pool::{Reply, RpcPool},
    watch::head_at_endpoint,
};
use alloy::rpc::json_rpc::RpcRecv;
use alloy_primitives::{Address, B256, Bytes, U64, U256};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
pub(super) struct Node<'a> {
    pool: &'a RpcPool,
    endpoint: usize,
}

impl<'a> Node<'a> {
    /// Those worth asking, the best first.
    pub(super) fn all(pool: &'a RpcPool) -> Vec<Self> {
        pool.that_keep_up().into_iter().map(|endpoint| Self { pool, endpoint }).collect()
    }

    async fn ask<T: RpcRecv>(&self, method: &'static str, params: &Value) -> Result<Reply<T>, RpcFault> {
        self.pool.ask(self.endpoint, method, params).await
    }

    pub(super) async fn get<T: RpcRecv>(&self, method: &'static str, params: &Value) -> Result<T, RpcFault> {
        match self.ask(method, params).await? {
            Reply::Result(result) => Ok(result),
            Reply::Error { code, .. } => Err(RpcFault::ErrorResponse { method, code }),
        }
    }

    /// A call of a contract. A revert is an answer, and so is running out of `gas` where we name it; every other error is
    /// the node's.
    pub(super) async fn call(
        &self,
        at: &Value,
        to: Address,
        data: Vec<u8>,
        gas: Option<u64>,
    ) -> Result<RegistryRead, RpcFault> {
        let mut transaction = json!({ "to": to, "data": Bytes::from(data) });
        if let (Some(gas), Some(transaction)) = (gas, transaction.as_object_mut()) {
            transaction.insert("gas".into(), json!(U64::from(gas)));
        }
        let (success, data) = match self.ask(METHOD, &json!([transaction, at])).await? {
            Reply::Result(answer) => (true, answer),
            Reply::Error { code, text }
                if is_revert(code, &text) || gas.is_some() && is_out_of_gas(&text) =>
            {
                (false, Bytes::new())
            }
            Reply::Error { code, .. } => return Err(RpcFault::ErrorResponse { method: METHOD, code }),
        };
        Ok(RegistryRead { asked: true, success, size: U256::from(data.len()), data })
    }

    pub(super) async fn code(&self, at: &Value, account: Address) -> Result<Bytes, RpcFault> {
        self.get("eth_getCode", &json!([account, at])).await
    }

    /// `None`: it has no block of that number.
    pub(super) async fn hash_of(&self, number: u64) -> Result<Option<B256>, RpcFault> {
        Ok(head_at_endpoint(self.pool, self.endpoint, number).await?.map(|head| head.hash))
    }

    pub(super) async fn check_chain_id(&self) -> Result<(), RpcFault> {
        let actual: U64 = self.get("eth_chainId", &json!([])).await?;
        self.expect_chain_id(U256::from(actual.to::<u64>()))
    }

    /// Whether a chain id that this node has shown is the configured one.
    pub(super) fn expect_chain_id(&self, actual: U256) -> Result<(), RpcFault> {
        let expected = self.pool.network().chain_id();
        if actual == U256::from(expected) {
            return Ok(());
        }
        Err(RpcFault::WrongChain { expected, actual: u64::try_from(actual).unwrap_or(u64::MAX) })
    }
}

fn is_out_of_gas(text: &str) -> bool {
    text.to_ascii_lowercase().replace(' ', "").contains("outofgas")
}
