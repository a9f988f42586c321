//! What a test may do to the chain beyond sending transactions.

use alloy::primitives::{Address, B256, Bytes, U256};
use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::Anvil;
use crate::jsonrpc::{hex_quantity, quantity};

/// How many transactions wait in the node's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxPoolStatus {
    /// Ready for the next block.
    pub pending: u64,
    /// Waiting for a gap in their sender's nonces to be filled.
    pub queued: u64,
}

impl Anvil {
    /// Any JSON-RPC call.
    pub async fn rpc(&self, method: &str, params: Value) -> Result<Value> {
        self.client().call(method, params).await
    }

    /// Sets an account's native balance in wei.
    pub async fn set_balance(&self, account: Address, wei: U256) -> Result<()> {
        self.rpc("anvil_setBalance", json!([account, wei])).await.map(drop)
    }

    /// Puts runtime code at an address.
    pub async fn set_code(&self, account: Address, code: &Bytes) -> Result<()> {
        self.rpc("anvil_setCode", json!([account, code])).await.map(drop)
    }

    /// Sets an account's transaction count.
    pub async fn set_nonce(&self, account: Address, nonce: u64) -> Result<()> {
        self.rpc("anvil_setNonce", json!([account, hex_quantity(nonce)])).await.map(drop)
    }

    /// Writes one storage slot.
    pub async fn set_storage_at(&self, account: Address, slot: U256, value: B256) -> Result<()> {
        self.rpc("anvil_setStorageAt", json!([account, slot, value])).await.map(drop)
    }

    /// An account's transaction count at the newest block, or with the pool's transactions counted in.
    pub async fn nonce(&self, account: Address, with_pool: bool) -> Result<u64> {
        let block = if with_pool { "pending" } else { "latest" };
        quantity(&self.rpc("eth_getTransactionCount", json!([account, block])).await?)
    }

    /// Mines `blocks` blocks now.
    pub async fn mine(&self, blocks: u64) -> Result<()> {
        self.rpc("anvil_mine", json!([hex_quantity(blocks)])).await.map(drop)
    }

    /// Whether every transaction gets its block at once.
    pub async fn set_automine(&self, on: bool) -> Result<()> {
        self.rpc("evm_setAutomine", json!([on])).await.map(drop)
    }

    /// Mines every `seconds`; 0 stops that.
    pub async fn set_interval_mining(&self, seconds: u64) -> Result<()> {
        self.rpc("evm_setIntervalMining", json!([seconds])).await.map(drop)
    }

    /// Fixes the next block's base fee, in wei per gas.
    pub async fn set_next_block_base_fee(&self, wei: u128) -> Result<()> {
        self.rpc("anvil_setNextBlockBaseFeePerGas", json!([hex_quantity(wei)])).await.map(drop)
    }

    /// Moves the chain's clock; visible from the next block on.
    pub async fn increase_time(&self, seconds: u64) -> Result<()> {
        self.rpc("evm_increaseTime", json!([hex_quantity(seconds)])).await.map(drop)
    }

    /// Fixes the next block's time.
    pub async fn set_next_block_timestamp(&self, unix_seconds: u64) -> Result<()> {
        self.rpc("evm_setNextBlockTimestamp", json!([hex_quantity(unix_seconds)])).await.map(drop)
    }

    /// Takes a transaction out of the pool. False if it was not there.
    pub async fn drop_transaction(&self, hash: B256) -> Result<bool> {
        Ok(!self.rpc("anvil_dropTransaction", json!([hash])).await?.is_null())
    }

    /// Empties the pool.
    pub async fn drop_all(&self) -> Result<()> {
        self.rpc("anvil_dropAllTransactions", json!([])).await.map(drop)
    }

    /// Replaces the last `depth` blocks by as many empty ones. Their transactions are gone, also from the pool.
    pub async fn reorg(&self, depth: u64) -> Result<()> {
        self.reorg_with(depth, &[]).await
    }

    /// Like [`Anvil::reorg`], with raw signed transactions put into the new block at the given offset from the fork.
    pub async fn reorg_with(&self, depth: u64, transactions: &[(Bytes, u64)]) -> Result<()> {
        self.rpc("anvil_reorg", json!([depth, transactions])).await.map(drop)
    }

    /// Takes the last `depth` blocks away, with nothing in their place.
    pub async fn rollback(&self, depth: u64) -> Result<()> {
        self.rpc("anvil_rollback", json!([depth])).await.map(drop)
    }

    /// Keeps the whole state for [`Anvil::revert`].
    pub async fn snapshot(&self) -> Result<U256> {
        Ok(serde_json::from_value(self.rpc("evm_snapshot", json!([])).await?)?)
    }

    /// Goes back to a snapshot, which is used up by it.
    pub async fn revert(&self, snapshot: U256) -> Result<()> {
        let done = self.rpc("evm_revert", json!([snapshot])).await?;
        ensure!(done == json!(true), "no such snapshot: {snapshot}");
        Ok(())
    }

    /// Everything the node knows: blocks, receipts, state.
    pub async fn dump_state(&self) -> Result<Value> {
        self.rpc("anvil_dumpState", json!([])).await
    }

    /// Takes over what another node knew.
    pub async fn load_state(&self, state: Value) -> Result<()> {
        let done = self.rpc("anvil_loadState", json!([state])).await?;
        ensure!(done == json!(true), "the state was not taken");
        Ok(())
    }

    /// Counts of the pool.
    pub async fn txpool_status(&self) -> Result<TxPoolStatus> {
        let status = self.rpc("txpool_status", json!([])).await?;
        Ok(TxPoolStatus { pending: quantity(&status["pending"])?, queued: quantity(&status["queued"])? })
    }

    /// The pool's transactions: `{pending: {sender: {nonce: tx}}, queued: …}`.
    pub async fn txpool_content(&self) -> Result<Value> {
        self.rpc("txpool_content", json!([])).await
    }

    /// Lets `eth_sendTransaction` send from `account` without its key.
    pub async fn impersonate(&self, account: Address) -> Result<()> {
        self.rpc("anvil_impersonateAccount", json!([account])).await.map(drop)
    }

    /// Ends [`Anvil::impersonate`].
    pub async fn stop_impersonating(&self, account: Address) -> Result<()> {
        self.rpc("anvil_stopImpersonatingAccount", json!([account])).await.map(drop)
    }
}
